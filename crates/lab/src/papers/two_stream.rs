//! Latecki, Kulkarni, Mulik: audio over UDP beside video over TCP or UDP.

use super::embedded::files;
use super::{Experiment, Module};

/// RTP over either.
const fn experiment(key: &'static str, title: &'static str, section: &'static str) -> Experiment {
    Experiment {
        key,
        title,
        section: Some(section),
        transports: &["rtp", "tcp"],
        scenario: None,
        tables: &[],
        shows: &[],
    }
}

pub(super) const MODULE: Module = Module {
    files: files!("two-stream":
        "table01-emulab-dialup.csv" "text03-nistnet.csv"
    ),
    experiments: &[
        experiment("unrestricted", "no limit and no losses", "2"),
        experiment("nistnet", "15.5 kB/s, 5 % dropped, derivative random drop", "3"),
        experiment("emulab", "15.5 kB/s, 5 % dropped, drop-tail", "4 and 5"),
        experiment("dialup", "a modem of 28.8 kbit/s", "4"),
    ],
    checks: &[],
    names: &[],
    derived: &[],
};
