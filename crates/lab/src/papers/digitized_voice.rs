//! Weaver, McNabb: voice over XTP on an FDDI ring.
//!
//! Latencies are half the round trips of a ping-pong, thresholds what a timer of the paper's resolution reads of them, and rates those of a
//! transfer in both directions. These numbers were fitted: what a station spends on a packet, to Tables 1 and 2; what packets that are not
//! acknowledged cost, to Table 10; what a packet of the multicast costs, to Table 12 without load; and the generator's periods in ticks of
//! a timer, of the experiments `locking` and `timer` alone, to Table 8.

mod checks;
mod figures;
mod own;
#[cfg(test)]
mod tests;

use super::Module;
use super::compare::{ColumnMap, Drawing, Place, Statistic, TableMap};
use super::embedded::files;
use super::experiment::experiments;
use super::table::Table;

pub(super) const MODULE: Module = Module {
    files: files!("digitized-voice":
        "table01-basic.csv" "table02-arrival-periods.csv" "table03-voice-channels.csv"
        "table04-sppt-load.csv" "table05-channels-sppt.csv" "table06-threshold-sppt.csv"
        "table07-mppt-load.csv" "table08-latency-mppt.csv" "table09-threshold-mppt.csv"
        "table10-latency-loss.csv" "table12-latency-multicast.csv" "table13-threshold-multicast.csv"
    ),
    experiments: experiments! {
        "digitized-voice";
        "basic" "throughput and latency by the size of the voice data", Some("5"), XTP, &[
            TableMap { drawing: Some(drawn("Table 1: latency")), ..table("table01-basic.csv", BASIC, of_voice, LATENCY) },
            table("table01-basic.csv", BASIC, of_transfer, TRANSFER),
            table("table02-arrival-periods.csv", BASIC, of_transfer, PERIODS),
            table("table03-voice-channels.csv", BASIC, of_transfer, CHANNELS),
        ], includes "stations.toml";
        "sppt_background" "background load, one packet per token", Some("6"), XTP, &[
            table("table05-channels-sppt.csv", LOADED, of_sppt_transfer, CHANNELS),
            TableMap {
                drawing: Some(drawn("Table 6: thresholds")),
                ..table("table06-threshold-sppt.csv", LOADED, of_sppt_voice, THRESHOLD)
            },
        ], includes "stations.toml";
        "mppt_background" "background load, several packets per token", Some("7"), XTP, &[
            TableMap {
                drawing: Some(drawn("Table 8: latency")),
                ..table("table08-latency-mppt.csv", LOADED, of_mppt_voice, LATENCY_ALONE)
            },
            TableMap {
                drawing: Some(drawn("Table 9: thresholds")),
                ..table("table09-threshold-mppt.csv", LOADED, of_mppt_voice, THRESHOLD)
            },
        ], includes "stations.toml";
        "retransmission" "selective retransmission of lost packets", Some("8"), XTP, &[
            TableMap {
                drawing: Some(drawn("Table 10: latency")),
                ..table("table10-latency-loss.csv", LOSSY, of_lossy_voice, LATENCY_ALONE)
            },
        ], includes "stations.toml";
        "multicast" "reliable multicast to two receivers", Some("9"), XTP, &[
            TableMap {
                drawing: Some(drawn("Table 12: latency")),
                ..table("table12-latency-multicast.csv", LOADED, of_multicast_voice, LATENCY_ALONE)
            },
            TableMap {
                drawing: Some(drawn("Table 13: thresholds")),
                ..table("table13-threshold-multicast.csv", LOADED, of_multicast_voice, THRESHOLD)
            },
        ];
        "sppt_jitter" "thresholds by the jitter of a generator of one packet per token", None, XTP, &[],
            shows "rtt_timed_p999_ms" "rtt_mean_ms", includes "stations.toml";
        "channels" "channels with fewer acknowledgements, and compressed", None, XTP, &[],
            shows "gap_mean_ms" "retransmissions", includes "stations.toml";
        "datalink" "packets and delays without acknowledgements, as a datalink service has", None, XTP, &[],
            shows "gap_mean_ms" "delay_mean_ms", includes "stations.toml";
        "locking" "a ping-pong among bursts, by their period and its jitter", None, XTP, &[],
            shows "rtt_mean_ms" "rtt_timed_p999_ms", includes "stations.toml";
        "one_way" "a voice's own delays under load", None, XTP, &[],
            shows "delay_mean_ms" "delay_p99_ms" "delay_max_ms", includes "stations.toml";
        "generators" "bursts of one generator, or of several", None, XTP, &[],
            shows "delay_mean_ms" "delay_max_ms" "rtt_mean_ms", includes "stations.toml";
        "true_loss" "losses that are losses", None, XTP, &[],
            shows "delay_mean_ms" "delay_p99_ms" "delay_max_ms" "retransmissions", includes "stations.toml";
        "two_rings" "a router between two rings that honours SORT, or does not", None, XTP, &[],
            shows "delay_mean_ms" "delay_p99_ms" "delay_max_ms" "lost_percent" "retransmissions", includes "stations.toml";
        "timer" "thresholds by the timer's reading and the generator's period", None, XTP, &[],
            shows "rtt_timed_p999_ms" "rtt_mean_ms", includes "stations.toml";
        "multicast_causes" "what could delay a multicast under load", None, XTP, &[],
            shows "rtt_mean_ms" "rtt_timed_p999_ms";
        "multicast_generator" "a multicast whose broadcasts hold up the generator", None, XTP, &[],
            shows "rtt_mean_ms" "rtt_timed_p999_ms";
    },
    checks: checks::CHECKS,
    names: NAMES,
    derived: figures::DERIVED,
};

/// Loads by their generators' periods, and what most settings are.
const NAMES: &[(&str, &str)] = &[
    ("period=1s", "no load"),
    ("period=1333.333us", "SPPT 25 Mbit/s"),
    ("period=666.667us", "SPPT 50 Mbit/s"),
    ("period=444.444us", "SPPT 75 Mbit/s"),
    ("period=20ms", "MPPT 25 Mbit/s"),
    ("period=10ms", "MPPT 50 Mbit/s"),
    ("period=6666.667us", "MPPT 75 Mbit/s"),
    ("class=synchronous", "synchronous"),
    ("class=asynchronous", "asynchronous"),
    ("allotted=unbounded", "unbounded"),
    ("allotted=1.1ms", "three frames"),
    ("frames=0", "no frames"),
    ("frames=1", "1 frame"),
    ("frames=15", "15 frames"),
];

const XTP: &[&str] = &["xtp"];
const BASIC_RUN: &str = "basic";
const SPPT: &str = "sppt_background";
const MPPT: &str = "mppt_background";
const LOSS: &str = "retransmission";
const MULTICAST: &str = "multicast";

/// The stream of round trips, and that of a transfer from the first station; the other way is alike.
const VOICE: &str = "voice";
const UP: &str = "up";
/// Names of the sweeps.
const SIZE: &str = "size";
const PERIOD: &str = "period";
const LOST: &str = "loss";
const SIZES: [u32; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Background loads in Mbit/s, and how they are written in the two scenarios: as the period of the generator.
const LOADS: [u32; 4] = [0, 25, 50, 75];
const SPPT_PERIODS: [&str; 4] = ["1s", "1333.333us", "666.667us", "444.444us"];
const MPPT_PERIODS: [&str; 4] = ["1s", "20ms", "10ms", "6666.667us"];

/// Labels of the printed tables.
const BASIC: &[&str] = &["voice data [bytes]"];
const LOADED: &[&str] = &["voice data [bytes]", "background [Mbit/s]"];
const LOSSY: &[&str] = &["voice data [bytes]", "loss [%]"];

/// Half a round trip is the latency.
const HALF: ColumnMap = ColumnMap {
    printed: "average latency [ms]",
    confidence: None,
    figure: "rtt_mean_ms",
    statistic: Statistic::Mean,
    scale: 0.5,
};
const HALF_TIMED: ColumnMap =
    ColumnMap { printed: "threshold 99.9 % [ms]", figure: "rtt_timed_p999_ms", ..HALF };
const LATENCY: &[ColumnMap] = &[HALF, HALF_TIMED];
const LATENCY_ALONE: &[ColumnMap] = &[HALF];
const THRESHOLD: &[ColumnMap] = &[HALF_TIMED];
const RATE: ColumnMap = ColumnMap::mean("packet rate [packets/s]", figures::PACKET_RATE);
const TRANSFER: &[ColumnMap] = &[
    ColumnMap::mean("packets sent", "sent"),
    ColumnMap::mean("user throughput [Mbit/s]", figures::USER_THROUGHPUT),
    ColumnMap::mean("network throughput [Mbit/s]", figures::NETWORK_THROUGHPUT),
    ColumnMap::mean("total time [s]", figures::TOTAL_TIME),
    RATE,
];
const PERIODS: &[ColumnMap] = &[ColumnMap::mean("generated every [ms]", "gap_mean_ms"), RATE];
const CHANNELS: &[ColumnMap] = &[
    ColumnMap { scale: 1000.0, ..ColumnMap::mean("user throughput [kbit/s]", figures::USER_THROUGHPUT) },
    ColumnMap::mean("channels", figures::CHANNELS),
];

const fn table(
    file: &'static str,
    labels: &'static [&'static str],
    place: fn(&Table, usize) -> Option<Place>,
    columns: &'static [ColumnMap],
) -> TableMap {
    TableMap { file, labels, place, columns, drawing: None }
}

/// All tables are drawn over the size of the voice data, which doubles from row to row.
const fn drawn(title: &'static str) -> Drawing {
    Drawing { title, x: "voice data [bytes]", log: false, log_x: true }
}

fn at(stream: &str, size: &str) -> Place {
    Place { stream: stream.into(), point: vec![(SIZE, size.into())] }
}

/// How a load is written in an experiment; `None` if there is no such load.
fn period_of(experiment: &str, load: u32) -> Option<&'static str> {
    let periods = if experiment == SPPT { SPPT_PERIODS } else { MPPT_PERIODS };
    Some(periods[LOADS.iter().position(|known| *known == load)?])
}

/// `None` if there is no such load.
fn under_load(experiment: &str, stream: &str, size: u32, load: u32) -> Option<Place> {
    let period = period_of(experiment, load)?;
    Some(Place { stream: stream.into(), point: vec![(SIZE, size.to_string()), (PERIOD, period.into())] })
}

fn with_loss(size: &str, percent: &str) -> Place {
    Place { stream: VOICE.into(), point: vec![(LOST, format!("{percent}%")), (SIZE, size.into())] }
}

fn of_voice(table: &Table, row: usize) -> Option<Place> {
    Some(at(VOICE, table.text(row, BASIC[0])?))
}

fn of_transfer(table: &Table, row: usize) -> Option<Place> {
    Some(at(UP, table.text(row, BASIC[0])?))
}

fn of_sppt_voice(table: &Table, row: usize) -> Option<Place> {
    of_load(SPPT, VOICE, table, row)
}

fn of_sppt_transfer(table: &Table, row: usize) -> Option<Place> {
    of_load(SPPT, UP, table, row)
}

fn of_mppt_voice(table: &Table, row: usize) -> Option<Place> {
    of_load(MPPT, VOICE, table, row)
}

fn of_multicast_voice(table: &Table, row: usize) -> Option<Place> {
    of_load(MULTICAST, VOICE, table, row)
}

fn of_load(experiment: &str, stream: &str, table: &Table, row: usize) -> Option<Place> {
    let number = |label: &str| table.text(row, label)?.parse().ok();
    under_load(experiment, stream, number(LOADED[0])?, number(LOADED[1])?)
}

fn of_lossy_voice(table: &Table, row: usize) -> Option<Place> {
    Some(with_loss(table.text(row, LOSSY[0])?, table.text(row, LOSSY[1])?))
}
