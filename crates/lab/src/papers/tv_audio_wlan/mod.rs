//! Højgaard-Hansen, Lundgreen: retransmission for the sound of a TV set on an 802.11g network.

mod checks;
mod departures;
#[cfg(test)]
mod tests;

use super::compare::{ColumnMap, Drawing, Place, Statistic, TableMap};
use super::csv::Table;
use super::{Experiment, Module};

pub(super) const MODULE: Module = Module {
    key: "tv-audio-wlan",
    experiments: &[
        Experiment {
            key: "initial",
            title: "RTP to a multicast group, by cable and by radio",
            section: "2.4",
            transports: &["rtp"],
            scenario: Some(include_str!("../../../scenarios/tv-audio-wlan/initial.toml")),
            tables: &[NETWORK_DELAY],
        },
        Experiment {
            key: "mac_retransmission",
            title: "UDP between two laptops, with and without MAC retransmission",
            section: "5",
            transports: &["rtp"],
            scenario: Some(include_str!("../../../scenarios/tv-audio-wlan/mac_retransmission.toml")),
            tables: &[MAC_RETRANSMISSION],
        },
        Experiment {
            key: "udp",
            title: "UDP through an access point that a disturbance loads",
            section: "6.1",
            transports: &["rtp"],
            scenario: Some(include_str!("../../../scenarios/tv-audio-wlan/udp.toml")),
            tables: UDP_TABLES,
        },
        Experiment {
            key: "tcp",
            title: "the same with TCP",
            section: "6.2",
            transports: &["tcp"],
            scenario: Some(include_str!("../../../scenarios/tv-audio-wlan/tcp.toml")),
            tables: TCP_TABLES,
        },
        Experiment {
            key: "simple_retransmission",
            title: "the same with a simple retransmission protocol over UDP",
            section: "7",
            transports: &["arq"],
            scenario: Some(include_str!("../../../scenarios/tv-audio-wlan/simple_retransmission.toml")),
            tables: SIMPLE_TABLES,
        },
    ],
    checks: checks::CHECKS,
    departures: departures::DEPARTURES,
};

/// The stream under test in every scenario.
const AUDIO: &str = "audio";
/// The same stream at the receiver on the cable, in the first experiment.
const AUDIO_CABLE: &str = "audio@cable-client";
/// Echo requests from the sender to the client on the air, and to the one on the cable.
const PING: &str = "ping";
const PING_CABLE: &str = "ping-cable";
/// Names of the sweeps.
const DISTURBANCE: &str = "disturbance";
const RETRIES: &str = "retries";

/// A disturbance in Mbit/s as the scenarios write it.
fn at_rate(mbit_s: &str) -> (&'static str, String) {
    (DISTURBANCE, format!("{mbit_s}Mbit/s"))
}

fn by_disturbance(table: &Table, row: usize) -> Option<Place> {
    let point = vec![at_rate(table.text(row, X)?)];
    Some(Place { stream: AUDIO.into(), point })
}

/// The printed column with the disturbance.
const X: &str = "disturbance_mbit_s";

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
    let drawing = Some(Drawing { title, x: X, log });
    TableMap { file, labels: &[X], place: by_disturbance, columns, drawing }
}

/// Half a round trip, in ms as measured.
const HALF: f64 = 0.5;
const MS_PER_S: f64 = 1000.0;

const NETWORK_DELAY: TableMap = TableMap {
    file: "table2-2-network-delay.csv",
    labels: &["scenario"],
    place: |table, row| {
        // Cable or air: both are there in every run, and the cable is quiet in all of them.
        let stream = if table.text(row, "scenario") == Some("lan") { PING_CABLE } else { PING };
        Some(Place { stream: stream.into(), point: vec![at_rate(table.text(row, X)?)] })
    },
    columns: &[
        ColumnMap { scale: HALF, ..mean("delay_mean_ms", "confidence_ms", "rtt_mean_ms") },
        ColumnMap { scale: HALF, confidence: None, ..mean("std_ms", "confidence_ms", "jitter_sd_ms") },
    ],
    drawing: None,
};

const MAC_RETRANSMISSION: TableMap = TableMap {
    file: "text05-mac-retransmission.csv",
    labels: &["max_mac_retransmissions"],
    place: |table, row| {
        let retries = table.text(row, "max_mac_retransmissions")?;
        Some(Place { stream: AUDIO.into(), point: vec![(RETRIES, retries.into())] })
    },
    columns: &[
        ColumnMap { scale: MS_PER_S, confidence: None, ..mean("mean_delay_ms", "", "gap_mean_s") },
        ColumnMap { scale: MS_PER_S, ..greatest("max_delay_ms", "gap_max_s") },
        ColumnMap { confidence: None, ..mean("mean_loss_percent", "", "lost_percent") },
        greatest("max_loss_percent", "lost_percent"),
    ],
    drawing: None,
};

const UDP_TABLES: &[TableMap] = &[
    over_disturbance(
        "table6-1-udp-mean-delay.csv",
        &[mean("mean_delay_s", "confidence_s", "gap_mean_s")],
        "Figure 6.2: mean inter-packet delay, UDP",
        false,
    ),
    over_disturbance(
        "table6-2-udp-max-delay.csv",
        &[mean("mean_max_delay_s", "confidence_s", "gap_max_s"), greatest("max_delay_s", "gap_max_s")],
        "Figure 6.3: longest inter-packet delay, UDP",
        true,
    ),
    over_disturbance(
        "table6-3-udp-loss.csv",
        &[mean("mean_loss_percent", "confidence_percent", "lost_percent")],
        "Figure 6.4: packet loss, UDP",
        false,
    ),
    over_disturbance(
        "table6-4-udp-above-threshold.csv",
        &[mean("above_80ms_packets", "confidence_packets", "gaps_above_80ms")],
        "Figure 6.5: inter-packet delays above 80 ms in a run, UDP",
        true,
    ),
];

const TCP_TABLES: &[TableMap] = &[
    over_disturbance(
        "table6-5-tcp-mean-delay.csv",
        &[mean("mean_delay_s", "confidence_s", "gap_mean_s")],
        "Figure 6.8: mean inter-packet delay, TCP",
        false,
    ),
    over_disturbance(
        "table6-6-tcp-max-delay.csv",
        &[mean("mean_max_delay_s", "confidence_s", "gap_max_s"), greatest("max_delay_s", "gap_max_s")],
        "Figure 6.9: longest inter-packet delay, TCP",
        true,
    ),
    over_disturbance(
        "table6-7-tcp-above-threshold.csv",
        &[mean("above_80ms_per_1000", "confidence_per_1000", "gaps_above_80ms_per_1000")],
        "Figure 6.10: inter-packet delays above 80 ms, TCP",
        true,
    ),
    over_disturbance(
        "table6-8-tcp-buffer.csv",
        &[
            mean("buffer_empty_per_1000", "buffer_empty_confidence_per_1000", "buffer_empty_per_1000"),
            mean(
                "buffer_not_full_per_1000",
                "buffer_not_full_confidence_per_1000",
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
        &[mean("mean_delay_s", "confidence_s", "gap_mean_s")],
        "Figure 7.3: mean inter-packet delay, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-2-simple-max-delay.csv",
        &[mean("mean_max_delay_s", "confidence_s", "gap_max_s"), greatest("max_delay_s", "gap_max_s")],
        "Figure 7.4: longest inter-packet delay, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-3-simple-above-threshold.csv",
        &[mean("above_80ms_per_1000", "confidence_per_1000", "gaps_above_80ms_per_1000")],
        "Figure 7.5: inter-packet delays above 80 ms, simple retransmission",
        true,
    ),
    over_disturbance(
        "table7-4-simple-buffer.csv",
        &[
            mean(
                "buffer_empty_per_1000",
                "buffer_empty_confidence_per_1000",
                "buffer_empty_numbered_per_1000",
            ),
            mean(
                "buffer_not_full_per_1000",
                "buffer_not_full_confidence_per_1000",
                "buffer_not_full_numbered_per_1000",
            ),
        ],
        "Figure 7.7: failures of the application's buffer, simple retransmission",
        false,
    ),
    over_disturbance(
        "table7-5-simple-duplicates.csv",
        &[
            mean("duplicate_packets", "duplicate_confidence_packets", "duplicate"),
            mean("reordered_packets", "reordered_confidence_packets", "reordered"),
        ],
        "Figure 7.8: duplicate and reordered packets of a run, simple retransmission",
        false,
    ),
    over_disturbance(
        "table7-6-simple-loss.csv",
        &[mean("lost_percent", "confidence_percent", "lost_percent")],
        "Figure 7.9: packet loss, simple retransmission",
        false,
    ),
];
