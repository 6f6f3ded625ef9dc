//! French, Oprica, Piecuch: the Selective Retransmission Protocol beside UDP and TCP.

mod checks;
mod figures;
#[cfg(test)]
mod tests;

use super::Module;
use super::compare::{ColumnMap, Place, TableMap};
use super::embedded::files;
use super::experiment::experiments;
use super::table::Table;
pub use figures::{
    DISTANCE_AFTER_CHANGES, DISTANCE_BY_AGES, DISTANCE_BY_INTERVALS, LATENCY_BY_AGES, LATENCY_BY_INTERVALS,
    LOSS, MESSAGES,
};

/// The report's name in commands and files.
pub const KEY: &str = "srp";

pub(super) const MODULE: Module = Module {
    files: files!("srp":
        "table00-test-parameters.csv" "table1e-low-loss-low-latency.csv" "table2e-low-loss-high-latency.csv"
        "table3e-high-loss-high-latency.csv"
    ),
    experiments: experiments! {
        "srp";
        "low_loss_low_latency" "3 % loss, 50 ms round trip", Some("5.2.1"), TRANSPORTS,
            &[by_intervals(LOW_LOW_TABLE), by_ages(LOW_LOW_TABLE)];
        "low_loss_high_latency" "3 % loss, 400 ms round trip", Some("5.2.2"), TRANSPORTS,
            &[by_intervals(LOW_HIGH_TABLE), by_ages(LOW_HIGH_TABLE)];
        "high_loss_high_latency" "15 % loss, 275 ms round trip", Some("5.2.3"), TRANSPORTS,
            &[by_intervals(HIGH_HIGH_TABLE), by_ages(HIGH_HIGH_TABLE)];
        "sudden_change" "from 3 % loss and 50 ms to 15 % and 400 ms and back, every 10 s", None, TRANSPORTS, &[];
    },
    checks: checks::CHECKS,
    names: NAMES,
    derived: figures::DERIVED,
};

/// Short names of experiments and transports.
const NAMES: &[(&str, &str)] = &[
    (LOW_LOW, "3 %, 50 ms"),
    (LOW_HIGH, "3 %, 400 ms"),
    (HIGH_HIGH, "15 %, 275 ms"),
    (CHANGING, "changing"),
    (ELL, "ELL"),
    (OQ, "OQ"),
    (UDP, "UDP"),
    (TCP, "TCP"),
    (NEAREST, "nearest"),
    (DEADLINE, "deadline"),
    (OUR_ELL, "ELL, our receiver"),
    (OUR_OQ, "OQ, our receiver"),
];

/// The transports that are compared in each experiment: the report's, then decisions in our receiver, in which nothing waits behind
/// what is missing: two of ours and the report's two.
pub const COMPARED: [&str; 8] = [ELL, OQ, UDP, TCP, NEAREST, DEADLINE, OUR_ELL, OUR_OQ];

/// All experiments compare these.
const TRANSPORTS: &[&str] = &["srp", "rtp", "tcp"];

const LOW_LOW: &str = "low_loss_low_latency";
const LOW_HIGH: &str = "low_loss_high_latency";
const HIGH_HIGH: &str = "high_loss_high_latency";
const CHANGING: &str = "sudden_change";
const LOW_LOW_TABLE: &str = "table1e-low-loss-low-latency.csv";
const LOW_HIGH_TABLE: &str = "table2e-low-loss-high-latency.csv";
const HIGH_HIGH_TABLE: &str = "table3e-high-loss-high-latency.csv";

/// The stream under test, and the echo requests beside it.
pub const AUDIO: &str = "audio";
const PING: &str = "ping";
/// Name of the sweep, and its values as the scenarios write them.
const TRANSPORT: &str = "transport";
const ELL: &str = "srp?mode=as-published&decide=ell&loss=10%25&keep-loss=98.7%25&keep-latency=85%25";
const OQ: &str = "srp?mode=as-published&decide=oq&loss=10%25&keep-loss=98.7%25&keep-latency=85%25";
const UDP: &str = "rtp";
const TCP: &str = "tcp";
/// Decisions of ours.
const NEAREST: &str = "srp?decide=nearest&loss=10%25";
const DEADLINE: &str = "srp?decide=deadline&loss=10%25";
/// The report's decisions in our receiver.
const OUR_ELL: &str = "srp?decide=ell&loss=10%25";
const OUR_OQ: &str = "srp?decide=oq&loss=10%25";

/// Where the results hold the figures of a stream over a transport.
pub fn at(stream: &str, transport: &str) -> Place {
    Place { stream: stream.into(), point: vec![(TRANSPORT, transport.into())] }
}

fn by_protocol(table: &Table, row: usize) -> Option<Place> {
    Some(at(AUDIO, super::long(NAMES, table.text(row, "protocol")?)?))
}

/// A table with latency computed from the intervals between arrivals, which the words of the formula could mean as well.
const fn by_intervals(file: &'static str) -> TableMap {
    TableMap { file, labels: &["protocol"], place: by_protocol, columns: BY_INTERVALS, drawing: None }
}

/// The same with latency computed from the ages of received messages.
const fn by_ages(file: &'static str) -> TableMap {
    TableMap { file, labels: &["protocol"], place: by_protocol, columns: BY_AGES, drawing: None }
}

const BY_INTERVALS: &[ColumnMap] = &[
    ColumnMap::mean("latency ratio", LATENCY_BY_INTERVALS),
    ColumnMap::mean("loss ratio", LOSS),
    ColumnMap::mean("distance", DISTANCE_BY_INTERVALS),
];

const BY_AGES: &[ColumnMap] = &[
    ColumnMap::mean("latency ratio", LATENCY_BY_AGES),
    ColumnMap::mean("loss ratio", LOSS),
    ColumnMap::mean("distance", DISTANCE_BY_AGES),
];
