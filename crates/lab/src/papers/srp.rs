//! French, Oprica, Piecuch: the Selective Retransmission Protocol beside UDP and TCP.

use super::{Experiment, Module};

const fn experiment(key: &'static str, title: &'static str, section: &'static str) -> Experiment {
    Experiment { key, title, section, transports: &["srp", "rtp", "tcp"], scenario: None, tables: &[] }
}

pub(super) const MODULE: Module = Module {
    key: "srp",
    experiments: &[
        experiment("low_loss_low_latency", "3 % loss, 50 ms round trip", "5.2.1"),
        experiment("low_loss_high_latency", "3 % loss, 400 ms round trip", "5.2.2"),
        experiment("high_loss_high_latency", "15 % loss, 275 ms round trip", "5.2.3"),
    ],
    checks: &[],
    departures: &[],
};
