//! Schiavoni, Queiroz, Wanderley: UDP, TCP, DCCP and SCTP on local networks.
//!
//! Table 1 lists features of protocols and is no experiment; `crates/lab/tests/features` tries each on our endpoints.
//! Table 2 is of two computers of 2013, and ours is compared with both. In the other scenarios the cost of a host is
//! taken from Table 2, so that a protocol's place in Tables 3 and 4 is that of its implementation in Linux 3.2.

mod checks;
#[cfg(test)]
mod tests;

use super::Module;
use super::compare::{ColumnMap, Place, TableMap};
use super::embedded::files;
use super::experiment::experiments;
use super::table::Table;

/// The paper's names of the transports.
const NAMES: &[(&str, &str)] = &[
    (UDP, "UDP"),
    (TCP, "TCP"),
    (DCCP, "DCCP"),
    (SCTP_1, "SCTP 1"),
    (SCTP_2, "SCTP 2"),
    ("channels=1", "1 ch"),
    ("channels=2", "2 ch"),
    (DIRECT, "direct"),
    (ACCESS_POINT, "access point"),
    ("passport:wifi-busy.passport", "busy Wi-Fi, recorded"),
];

pub(super) const MODULE: Module = Module {
    files: files!("transport-alternatives":
        "table01-features.csv" "table02-localhost.csv" "table03-crossover.csv" "table04-switch.csv"
        "table05-direct-wireless.csv" "table06-access-point.csv"
    ),
    experiments: experiments! {
        "transport-alternatives";
        "localhost" "this machine's own loopback interface", Some("4.1.1"), TRANSPORTS,
            &[round_trips("table02-localhost.csv")];
        "crossover" "two machines, one cable", Some("4.1.2"), TRANSPORTS, &[round_trips("table03-crossover.csv")];
        "switch" "two machines and a switch", Some("4.1.3"), TRANSPORTS, &[round_trips("table04-switch.csv")];
        "direct_wireless" "802.11g between two machines", Some("4.1.4"), TRANSPORTS,
            &[round_trips("table05-direct-wireless.csv")];
        "access_point" "802.11g through an access point", Some("4.1.5"), TRANSPORTS,
            &[round_trips("table06-access-point.csv")];
        "internet" "paths on the Internet", None, TRANSPORTS, &[],
            shows "rtt_mean_ms" "missing_percent" "rtt_p99_ms", replays "wifi-busy.passport";
        "direct_steady" "DCCP between two machines without the stalls of UDP's row", None, &["dccp"], &[],
            shows "rtt_mean_ms" "missing_percent" "jitter_sd_ms";
        "longer_outages" "SCTP through an access point, by how long outages last", None, &["rtp", "sctp"], &[],
            shows "rtt_mean_ms" "missing_percent" "jitter_sd_ms";
    },
    checks: checks::CHECKS,
    names: NAMES,
    derived: &[],
};

/// All experiments compare these; SCTP in both kinds of socket.
const TRANSPORTS: &[&str] = &["rtp", "tcp", "dccp", "sctp"];

const LOCALHOST: &str = "localhost";
const CROSSOVER: &str = "crossover";
const SWITCH: &str = "switch";
const DIRECT: &str = "direct_wireless";
const ACCESS_POINT: &str = "access_point";
const INTERNET: &str = "internet";
const STEADY: &str = "direct_steady";
const OUTAGES: &str = "longer_outages";

/// The stream under test.
const AUDIO: &str = "audio";
/// Names of the sweep, and its transports as the scenarios write them.
const TRANSPORT: &str = "transport";
const CHANNELS: &str = "channels";
const PATH: &str = "path";
const STALL: &str = "stall";
const OUTAGE: &str = "outage";
const SHARE: &str = "share";
const UDP: &str = "rtp";
const TCP: &str = "tcp";
const DCCP: &str = "dccp?ccid=2&request-timeout=1s&queue=5&rto-initial=3s&rto-min=200ms&rto-max=64s";
const SCTP_1: &str =
    "sctp?order=ordered&reliability=full&ack-delay=200ms&rto-initial=3s&rto-min=1s&rto-max=60s";
const SCTP_2: &str =
    "sctp?style=many&order=ordered&reliability=full&ack-delay=200ms&rto-initial=3s&rto-min=1s&rto-max=60s";
const ALL: [&str; 5] = [UDP, TCP, DCCP, SCTP_1, SCTP_2];
const ONE_AND_TWO: [u32; 2] = [1, 2];

fn at(transport: &str, channels: &str) -> Place {
    Place { stream: AUDIO.into(), point: vec![(TRANSPORT, transport.into()), (CHANNELS, channels.into())] }
}

/// For any computer: the one localhost here is compared with both of Table 2.
fn by_protocol(table: &Table, row: usize) -> Option<Place> {
    Some(at(super::long(NAMES, table.text(row, "protocol")?)?, table.text(row, "channels")?))
}

const fn round_trips(file: &'static str) -> TableMap {
    let labels = &["computer", "channels", "protocol"];
    TableMap { file, labels, place: by_protocol, columns: COLUMNS, drawing: None }
}

/// The printed jitter beside both possible definitions: equation 2 is the mean deviation, the introduction says
/// standard deviation, and one row cannot be a mean deviation.
const COLUMNS: &[ColumnMap] = &[
    ColumnMap::mean("latency [ms]", "rtt_mean_ms"),
    ColumnMap::mean("jitter [ms]", "jitter_mad_ms"),
    ColumnMap::mean("jitter [ms]", "jitter_sd_ms"),
    ColumnMap::mean("loss [%]", "missing_percent"),
];
