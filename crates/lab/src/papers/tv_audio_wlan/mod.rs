//! Højgaard-Hansen, Lundgreen: retransmission for the sound of a TV set on an 802.11g network.

mod causes;
mod checks;
mod ours;
#[cfg(test)]
mod tests;

use super::Module;
use super::compare::{ColumnMap, Drawing, Place, Statistic, TableMap};
use super::embedded::files;
use super::experiment::experiments;
use super::table::Table;

pub(super) const MODULE: Module = Module {
    files: files!("tv-audio-wlan":
        "table2-1-loss-perception.csv" "table2-2-network-delay.csv" "table2-3-recovery-techniques.csv"
        "table6-1-udp-mean-delay.csv" "table6-2-udp-max-delay.csv" "table6-3-udp-loss.csv"
        "table6-4-udp-above-threshold.csv" "table6-5-tcp-mean-delay.csv" "table6-6-tcp-max-delay.csv"
        "table6-7-tcp-above-threshold.csv" "table6-8-tcp-buffer.csv" "table7-1-simple-mean-delay.csv"
        "table7-2-simple-max-delay.csv" "table7-3-simple-above-threshold.csv" "table7-4-simple-buffer.csv"
        "table7-5-simple-duplicates.csv" "table7-6-simple-loss.csv" "text05-mac-retransmission.csv"
    ),
    experiments: experiments! {
        "tv-audio-wlan";
        "initial" "RTP to a multicast group, by cable and by radio", Some("2.4"), &["rtp"], &[NETWORK_DELAY],
            includes "room.toml";
        "mac_retransmission" "UDP between two laptops, with and without MAC retransmission", Some("5"), &["rtp"],
            &[MAC_RETRANSMISSION];
        "udp" "UDP through an access point that a disturbance loads", Some("6.1"), &["rtp"], UDP_TABLES,
            includes "room.toml";
        "tcp" "the same with TCP", Some("6.2"), &["tcp"], TCP_TABLES, includes "room.toml";
        "simple_retransmission" "the same with a simple retransmission protocol over UDP", Some("7"), &["arq"],
            SIMPLE_TABLES, includes "room.toml";
        "rate_control" "UDP as in section 6.1, by rate control", None, &["rtp"], &[],
            shows "missing_percent" "gap_max_ms", includes "room.toml";
        "dozing" "UDP to a client that dozes again", None, &["rtp"], &[],
            shows "missing_percent" "gap_max_ms" "gaps_above_80ms", includes "room.toml";
        "independent_losses" "simple retransmission where its repetitions load nothing", None, &["arq"], &[],
            shows "missing_percent" "duplicate" "buffer_empty_numbered_per_1000";
        "scanning" "simple retransmission to a client that scans other channels", None, &["arq"], &[],
            shows "gap_max_ms" "gaps_above_80ms" "missing_percent" "duplicate", includes "room.toml";
        "which_layer" "repetition by the MAC, the protocol or both", None, &["rtp", "arq"], &[],
            shows "missing_percent" "buffer_empty_numbered_per_1000" "buffer_not_full_numbered_per_1000",
            includes "room.toml";
        "edca" "UDP, TCP and both protocols with and without 802.11e", None, &["rtp", "tcp", "arq"], &[],
            shows "missing_percent" "buffer_empty_numbered_per_1000" "buffer_not_full_numbered_per_1000",
            includes "room.toml";
        "headsets" "how many headsets one cell carries", None, HEADSET_TRANSPORTS, &[],
            shows "missing_percent", includes "room.toml";
        "multicast" "one multicast for all headsets", None, &["rtp"], &[],
            shows "missing_percent", includes "room.toml";
        "duplicates" "where the duplicates of simple retransmission come from", None, &["arq"], &[],
            shows "duplicate" "duplicate_packet_late" "duplicate_ack_late" "duplicate_ack_lost" "duplicate_ack_unread",
            includes "room.toml";
    },
    checks: checks::CHECKS,
    names: &[(PUBLISHED, "arq as published")],
    derived: &[],
};

/// The stream under test in every scenario.
const AUDIO: &str = "audio";
/// The same stream at the receiver on the cable, in the first experiment.
const AUDIO_CABLE: &str = "audio@cable-client";
/// Echo requests from the sender to the client on the wireless network, and to the one on the cable.
const PING: &str = "ping";
const PING_CABLE: &str = "ping-cable";
/// Names of the sweeps.
const DISTURBANCE: &str = "disturbance";
const RETRIES: &str = "retries";
const CONTROL: &str = "control";
const IDLE: &str = "idle";
const TRANSPORT: &str = "transport";
const ACCESS: &str = "access";
const HEADSETS: &str = "headsets";
const PROTECT: &str = "protect";
const TICK: &str = "tick";
const WORK: &str = "work";
/// What reaches one headset.
const HEADSET_TRANSPORTS: &[&str] = &["rtp", "tcp", "sctp", "dccp", "srp", "arq"];
/// The simple retransmission protocol as our experiments have it: the report's, and ours.
const PUBLISHED: &str = "arq?mode=as-published&tick=100us&repetition=3ms&pace=7.4ms";
const IMPROVED: &str = "arq";

/// A disturbance in Mbit/s as the scenarios write it.
fn at_rate(mbit_s: &str) -> (&'static str, String) {
    (DISTURBANCE, format!("{mbit_s}Mbit/s"))
}

fn by_disturbance(table: &Table, row: usize) -> Option<Place> {
    let point = vec![at_rate(table.text(row, X)?)];
    Some(Place { stream: AUDIO.into(), point })
}

/// The printed column with the disturbance.
const X: &str = "disturbance [Mbit/s]";

const fn mean(printed: &'static str, confidence: &'static str, figure: &'static str) -> ColumnMap {
    ColumnMap { confidence: Some(confidence), ..ColumnMap::mean(printed, figure) }
}

const fn greatest(printed: &'static str, figure: &'static str) -> ColumnMap {
    ColumnMap { statistic: Statistic::Max, ..ColumnMap::mean(printed, figure) }
}

const fn over_disturbance(
    file: &'static str,
    columns: &'static [ColumnMap],
    title: &'static str,
    log: bool,
) -> TableMap {
    let drawing = Some(Drawing { title, x: X, log, log_x: false });
    TableMap { file, labels: &[X], place: by_disturbance, columns, drawing }
}

/// Half a round trip, in ms as measured.
const HALF: f64 = 0.5;

/// A column that is printed in seconds.
const fn seconds(column: ColumnMap) -> ColumnMap {
    ColumnMap { scale: 0.001, ..column }
}

const LONGEST_GAP: &[ColumnMap] = &[
    seconds(mean("mean max delay [s]", "confidence [s]", "gap_max_ms")),
    seconds(greatest("max delay [s]", "gap_max_ms")),
];

const NETWORK_DELAY: TableMap = TableMap {
    file: "table2-2-network-delay.csv",
    labels: &["scenario"],
    place: |table, row| {
        // Cable or wireless: both exist in every run, and the cable has no other traffic in any of them.
        let stream = if table.text(row, "scenario") == Some("lan") { PING_CABLE } else { PING };
        Some(Place { stream: stream.into(), point: vec![at_rate(table.text(row, X)?)] })
    },
    columns: &[
        ColumnMap { scale: HALF, ..mean("delay mean [ms]", "confidence [ms]", "rtt_mean_ms") },
        ColumnMap { scale: HALF, ..ColumnMap::mean("std [ms]", "jitter_sd_ms") },
    ],
    drawing: None,
};

const MAC_RETRANSMISSION: TableMap = TableMap {
    file: "text05-mac-retransmission.csv",
    labels: &["max mac retransmissions"],
    place: |table, row| {
        let retries = table.text(row, "max mac retransmissions")?;
        Some(Place { stream: AUDIO.into(), point: vec![(RETRIES, retries.into())] })
    },
    columns: &[
        ColumnMap::mean("mean delay [ms]", "gap_mean_ms"),
        greatest("max delay [ms]", "gap_max_ms"),
        ColumnMap::mean("mean loss [%]", "missing_percent"),
        greatest("max loss [%]", "missing_percent"),
    ],
    drawing: None,
};

const UDP_TABLES: &[TableMap] = &[
    over_disturbance(
        "table6-1-udp-mean-delay.csv",
        &[seconds(mean("mean delay [s]", "confidence [s]", "gap_mean_ms"))],
        "Figure 6.2: mean inter-packet delay, UDP",
        false,
    ),
    over_disturbance(
        "table6-2-udp-max-delay.csv",
        LONGEST_GAP,
        "Figure 6.3: longest inter-packet delay, UDP",
        true,
    ),
    over_disturbance(
        "table6-3-udp-loss.csv",
        &[mean("mean loss [%]", "confidence [%]", "missing_percent")],
        "Figure 6.4: packet loss, UDP",
        false,
    ),
    over_disturbance(
        "table6-4-udp-above-threshold.csv",
        &[mean("above 80 ms [packets]", "confidence [packets]", "gaps_above_80ms")],
        "Figure 6.5: inter-packet delays above 80 ms in a run, UDP",
        true,
    ),
];

const TCP_TABLES: &[TableMap] = &[
    over_disturbance(
        "table6-5-tcp-mean-delay.csv",
        &[seconds(mean("mean delay [s]", "confidence [s]", "gap_mean_ms"))],
        "Figure 6.8: mean inter-packet delay, TCP",
        false,
    ),
    over_disturbance(
        "table6-6-tcp-max-delay.csv",
        LONGEST_GAP,
        "Figure 6.9: longest inter-packet delay, TCP",
        true,
    ),
    over_disturbance(
        "table6-7-tcp-above-threshold.csv",
        &[mean("above 80 ms [per 1000]", "confidence [per 1000]", "gaps_above_80ms_per_1000")],
        "Figure 6.10: inter-packet delays above 80 ms, TCP",
        true,
    ),
    over_disturbance(
        "table6-8-tcp-buffer.csv",
        &[
            mean("buffer empty [per 1000]", "buffer empty confidence [per 1000]", "buffer_empty_per_1000"),
            mean(
                "buffer not full [per 1000]",
                "buffer not full confidence [per 1000]",
                "buffer_not_full_per_1000",
            ),
        ],
        "Figure 6.12: failures of the application's buffer, TCP",
        false,
    ),
];

const SIMPLE_TABLES: &[TableMap] = &[
    over_disturbance(
        "table7-1-simple-mean-delay.csv",
        &[seconds(mean("mean delay [s]", "confidence [s]", "gap_mean_ms"))],
        "Figure 7.3: mean inter-packet delay, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-2-simple-max-delay.csv",
        LONGEST_GAP,
        "Figure 7.4: longest inter-packet delay, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-3-simple-above-threshold.csv",
        &[mean("above 80 ms [per 1000]", "confidence [per 1000]", "gaps_above_80ms_per_1000")],
        "Figure 7.5: inter-packet delays above 80 ms, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-4-simple-buffer.csv",
        &[
            mean(
                "buffer empty [per 1000]",
                "buffer empty confidence [per 1000]",
                "buffer_empty_numbered_per_1000",
            ),
            mean(
                "buffer not full [per 1000]",
                "buffer not full confidence [per 1000]",
                "buffer_not_full_numbered_per_1000",
            ),
        ],
        "Figure 7.7: failures of the application's buffer, simple retransmission",
        false,
    ),
    over_disturbance(
        "table7-5-simple-duplicates.csv",
        &[
            mean("duplicate [packets]", "duplicate confidence [packets]", "duplicate"),
            mean("reordered [packets]", "reordered confidence [packets]", "reordered"),
        ],
        "Figure 7.8: duplicate and reordered packets of a run, simple retransmission",
        false,
    ),
    over_disturbance(
        "table7-6-simple-loss.csv",
        &[mean("lost [%]", "confidence [%]", "missing_percent")],
        "Figure 7.9: packet loss, simple retransmission",
        false,
    ),
];
