//! French, Oprica, Piecuch: the Selective Retransmission Protocol beside UDP and TCP.

mod checks;
mod departures;
mod own;
#[cfg(test)]
mod tests;

use super::compare::{ColumnMap, Place, TableMap};
use super::csv::Table;
use super::{Experiment, Module};
use own::{DISTANCE_BY_AGES, DISTANCE_BY_INTERVALS, LATENCY_BY_AGES, LATENCY_BY_INTERVALS, LOSS};

pub(super) use own::OWN;

pub(super) const MODULE: Module = Module {
    key: "srp",
    experiments: &[
        experiment(
            LOW_LOW,
            "3 % loss, 50 ms round trip",
            "5.2.1",
            include_str!("../../scenarios/srp/low_loss_low_latency.toml"),
            &[by_intervals(LOW_LOW_TABLE), by_ages(LOW_LOW_TABLE)],
        ),
        experiment(
            LOW_HIGH,
            "3 % loss, 400 ms round trip",
            "5.2.2",
            include_str!("../../scenarios/srp/low_loss_high_latency.toml"),
            &[by_intervals(LOW_HIGH_TABLE), by_ages(LOW_HIGH_TABLE)],
        ),
        experiment(
            HIGH_HIGH,
            "15 % loss, 275 ms round trip",
            "5.2.3",
            include_str!("../../scenarios/srp/high_loss_high_latency.toml"),
            &[by_intervals(HIGH_HIGH_TABLE), by_ages(HIGH_HIGH_TABLE)],
        ),
    ],
    checks: checks::CHECKS,
    departures: departures::DEPARTURES,
};

const fn experiment(
    key: &'static str,
    title: &'static str,
    section: &'static str,
    scenario: &'static str,
    tables: &'static [TableMap],
) -> Experiment {
    Experiment { key, title, section, transports: &["srp", "rtp", "tcp"], scenario: Some(scenario), tables }
}

const LOW_LOW: &str = "low_loss_low_latency";
const LOW_HIGH: &str = "low_loss_high_latency";
const HIGH_HIGH: &str = "high_loss_high_latency";
const LOW_LOW_TABLE: &str = "table1e-low-loss-low-latency.csv";
const LOW_HIGH_TABLE: &str = "table2e-low-loss-high-latency.csv";
const HIGH_HIGH_TABLE: &str = "table3e-high-loss-high-latency.csv";

/// The stream under test, and the echo requests beside it.
const AUDIO: &str = "audio";
const PING: &str = "ping";
/// Name of the sweep, and its values as the scenarios write them.
const TRANSPORT: &str = "transport";
const ELL: &str = "srp?mode=as-published&decide=ell&loss=10%25";
const OQ: &str = "srp?mode=as-published&decide=oq&loss=10%25";
const UDP: &str = "rtp";
const TCP: &str = "tcp";
/// Decisions of ours.
const NEAREST: &str = "srp?decide=nearest&loss=10%25";
const DEADLINE: &str = "srp?decide=deadline&loss=10%25";

fn at(stream: &str, transport: &str) -> Place {
    Place { stream: stream.into(), point: vec![(TRANSPORT, transport.into())] }
}

fn by_protocol(table: &Table, row: usize) -> Option<Place> {
    Some(at(AUDIO, OWN.setting(table.text(row, "protocol")?)?))
}

/// A table with latency read of the intervals between arrivals, as the formula stands in print.
const fn by_intervals(file: &'static str) -> TableMap {
    TableMap { file, labels: &["protocol"], place: by_protocol, columns: BY_INTERVALS, drawing: None }
}

/// The same with latency read of the ages of what arrived.
const fn by_ages(file: &'static str) -> TableMap {
    TableMap { file, labels: &["protocol"], place: by_protocol, columns: BY_AGES, drawing: None }
}

const BY_INTERVALS: &[ColumnMap] = &[
    ColumnMap::mean("latency_ratio", LATENCY_BY_INTERVALS),
    ColumnMap::mean("loss_ratio", LOSS),
    ColumnMap::mean("distance", DISTANCE_BY_INTERVALS),
];

const BY_AGES: &[ColumnMap] = &[
    ColumnMap::mean("latency_ratio", LATENCY_BY_AGES),
    ColumnMap::mean("loss_ratio", LOSS),
    ColumnMap::mean("distance", DISTANCE_BY_AGES),
];
