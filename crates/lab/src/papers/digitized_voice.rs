//! Weaver, McNabb: voice over XTP on an FDDI ring.

use super::embedded::files;
use super::{Experiment, Module};

const fn experiment(key: &'static str, title: &'static str, section: &'static str) -> Experiment {
    Experiment {
        key,
        title,
        section: Some(section),
        transports: &["xtp"],
        scenario: None,
        tables: &[],
        shows: &[],
    }
}

pub(super) const MODULE: Module = Module {
    files: files!("digitized-voice":
        "table01-basic.csv" "table02-arrival-periods.csv" "table03-voice-channels.csv"
        "table04-sppt-load.csv" "table05-channels-sppt.csv" "table06-threshold-sppt.csv"
        "table07-mppt-load.csv" "table08-latency-mppt.csv" "table09-threshold-mppt.csv"
        "table10-latency-loss.csv" "table12-latency-multicast.csv" "table13-threshold-multicast.csv"
    ),
    experiments: &[
        experiment("basic", "throughput and latency by the size of the voice data", "5"),
        experiment("sppt_background", "background load, one packet per token", "6"),
        experiment("mppt_background", "background load, several packets per token", "7"),
        experiment("retransmission", "selective retransmission of lost packets", "8"),
        experiment("multicast", "reliable multicast to two receivers", "9"),
    ],
    checks: &[],
    names: &[],
    derived: &[],
};
