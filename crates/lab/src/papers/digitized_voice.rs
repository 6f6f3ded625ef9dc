//! Weaver, McNabb: voice over XTP on an FDDI ring.

use super::{Experiment, Module};

const fn experiment(key: &'static str, title: &'static str, section: &'static str) -> Experiment {
    Experiment { key, title, section, transports: &["xtp"], scenario: None, tables: &[] }
}

pub(super) const MODULE: Module = Module {
    key: "digitized-voice",
    experiments: &[
        experiment("basic", "throughput and latency by the size of the voice data", "5"),
        experiment("sppt_background", "background load, one packet per token", "6"),
        experiment("mppt_background", "background load, several packets per token", "7"),
        experiment("retransmission", "selective retransmission of lost packets", "8"),
        experiment("multicast", "reliable multicast to two receivers", "9"),
    ],
    checks: &[],
    departures: &[],
};
