//! Schiavoni, Queiroz, Wanderley: UDP, TCP, DCCP and SCTP on local networks.

use super::{Experiment, Module};

/// All its experiments compare these; SCTP in both kinds of socket.
const TRANSPORTS: &[&str] = &["rtp", "tcp", "dccp", "sctp"];

const fn experiment(key: &'static str, title: &'static str, section: &'static str) -> Experiment {
    Experiment { key, title, section, transports: TRANSPORTS, scenario: None, tables: &[] }
}

pub(super) const MODULE: Module = Module {
    key: "transport-alternatives",
    experiments: &[
        experiment("localhost", "one machine, the loopback interface", "4.1.1"),
        experiment("crossover", "two machines, one cable", "4.1.2"),
        experiment("switch", "two machines and a switch", "4.1.3"),
        experiment("direct_wireless", "802.11g between two machines", "4.1.4"),
        experiment("access_point", "802.11g through an access point", "4.1.5"),
    ],
    checks: &[],
    departures: &[],
};
