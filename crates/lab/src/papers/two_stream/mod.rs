//! Latecki, Kulkarni, Mulik: audio over UDP beside video over TCP or UDP.
//!
//! The claims on NIST Net are judged with a queue that never drops, which the printed losses ask for; those on Emulab with
//! dummynet's default of 50 slots. Other readings of the queue are run beside them.

mod checks;
mod figures;
mod managed;
mod own;
#[cfg(test)]
mod tests;

use super::Module;
use super::compare::{ColumnMap, Place, TableMap};
use super::embedded::files;
use super::experiment::experiments;
use super::table::Table;
use figures::{AUDIO_DROPPED, AUDIO_LOST_S, FRAMES_SENT, FRAMES_WHOLE, VIDEO_KBIT_PER_S};

/// The paper's name in commands and files.
pub const KEY: &str = "two-stream";

pub(super) const MODULE: Module = Module {
    files: files!("two-stream":
        "table01-emulab-dialup.csv" "text03-nistnet.csv"
    ),
    experiments: experiments! {
        "two-stream";
        "unrestricted" "no limit and no losses", Some("2"), BOTH, &[], includes "streams.toml";
        "nistnet" "15.5 kB/s, 5 % dropped, readings of the queue", Some("3"), BOTH, &[TEXT], includes "streams.toml";
        "emulab" "15.5 kB/s, 5 % dropped, drop-tail", Some("4 and 5"), BOTH, &[EMULAB_ROWS],
            includes "streams.toml";
        "dialup" "a modem of 28.8 kbit/s", Some("4"), BOTH, &[DIALUP_ROWS], includes "streams.toml";
        "buffers" "what the TCP program's send buffer does", None, &["tcp"], &[],
            shows "missed_200ms_percent" "media_kbit_per_s" "frame_delay_mean_ms" "gaps_above_250ms",
            includes "streams.toml";
        "alternatives" "video over other transports", None, &["rtp", "tcp", "dccp", "sctp", "xtp", "srp"], &[],
            shows "missed_200ms_percent" "missed_1000ms_percent" "media_kbit_per_s" "frames_whole"
                "frame_delay_mean_ms" "freeze_percent" "gaps_above_250ms",
            includes "streams.toml";
        "manager" "audio and video of one session, with a congestion manager", None, &["rtp", "srp"], &[],
            shows "missed_200ms_percent" "missed_1000ms_percent" "media_kbit_per_s" "frames_whole"
                "frame_delay_mean_ms" "freeze_percent" "gaps_above_250ms",
            includes "session.toml";
        "packets" "how long the video's packets may be beside audio that is repaired", None, &["rtp", "srp"], &[],
            shows "missed_200ms_percent" "media_kbit_per_s" "frames_whole",
            includes "session.toml";
        "priorities" "a bottleneck that honours XTP's priorities", None, &["rtp", "xtp"], &[],
            shows "missed_200ms_percent" "media_kbit_per_s" "frames_whole";
        "crossing" "where TCP stops being better", None, BOTH, &[],
            shows "missed_200ms_percent" "missed_50ms_percent" "missed_100ms_percent" "missed_500ms_percent"
                "missed_1000ms_percent" "media_kbit_per_s",
            includes "streams.toml";
        "crossing_manager" "where a congestion manager is better than TCP", None, &["rtp", "srp"], &[],
            shows "missed_200ms_percent" "missed_50ms_percent" "missed_100ms_percent" "missed_500ms_percent"
                "missed_1000ms_percent" "media_kbit_per_s" "frames_whole",
            includes "session.toml";
    },
    checks: checks::CHECKS,
    names: NAMES,
    derived: figures::DERIVED,
};

/// RTP over either.
const BOTH: &[&str] = &["rtp", "tcp"];

/// The paper's names of the transports, and short names of settings.
const NAMES: &[(&str, &str)] = &[
    (UDP, "UDP"),
    (TCP, "TCP"),
    (NO_DROPS, "never drops"),
    (SLOTS, "50 slots"),
    ("drd/1600/4000", "DRD 1600 to 4000"),
    ("drd/1000/4000", "DRD 1000 to 4000"),
    ("drd/100/400", "DRD 100 to 400"),
    ("drd/10/50", "DRD 10 to 50"),
    (DCCP_2, "DCCP CCID 2"),
    (DCCP_3, "DCCP CCID 3"),
    (SCTP_4, "SCTP, 4 streams"),
    (SCTP_1, "SCTP, 1 stream"),
    ("xtp", "XTP"),
    (XTP_RATE, "XTP at 104 kbit/s"),
    (XTP_SORT, "XTP with priorities"),
    ("srp", "SRP"),
    (TWICE, "audio twice"),
    ("none", "audio once"),
    (ALL, "all frames"),
    (NEWEST, "newest frame"),
    (INTERVAL, "for one interval"),
    (NO_END, "for ever"),
    (TWO_SECONDS, "for 2 s"),
    ("true", "sorted"),
    ("false", "not sorted"),
];

const UNRESTRICTED: &str = "unrestricted";
/// Of figures that are drawn packet by packet.
pub const NISTNET: &str = "nistnet";
const EMULAB: &str = "emulab";
const DIALUP: &str = "dialup";

/// The stream that is listened to, and the one beside it.
pub const AUDIO: &str = "audio";
/// See [`AUDIO`].
pub const VIDEO: &str = "video";
/// Variables of the sweeps, and their values as the scenarios write them.
const TRANSPORT: &str = "video";
const QUEUE: &str = "queue";
/// The two transports of the paper.
pub const UDP: &str = "rtp";
/// See [`UDP`].
pub const TCP: &str = "tcp";
const NO_DROPS: &str = "32768packets";
const SLOTS: &str = "50packets";
const DCCP_2: &str = "dccp?ccid=2";
const DCCP_3: &str = "dccp?ccid=3";
const SCTP_4: &str = "sctp?order=ordered&streams=4";
const SCTP_1: &str = "sctp?order=ordered&streams=1";
const XTP_RATE: &str = "xtp?out-rate=104kbit/s&burst=1500B";
const XTP_SORT: &str = "xtp?sort=on&acks=never&reliability=none";
const ALL: &str = "all";
const NEWEST: &str = "newest";
const INTERVAL: &str = "363.636363ms";
const TWO_SECONDS: &str = "2s";
const NO_END: &str = "600s";
/// Protection of the audio where a congestion manager shares out the path.
const TWICE: &str = "repeat:2,spacing=60ms";
const ONCE: &str = "none";
/// The experiments that stand in the table of all ways to send the video.
pub const ALTERNATIVES: &str = "alternatives";
/// See [`ALTERNATIVES`].
pub const MANAGER: &str = "manager";
/// The networks of the paper as presets of links, by which those experiments name them.
pub const PATHS: [&str; 3] = ["nistnet", "dummynet", "dialup"];

/// The place of a stream over NIST Net, with the queue by which the claims are judged.
pub fn over_nistnet(transport: &str) -> Place {
    at(AUDIO, transport, Some(NO_DROPS))
}

/// The place of the audio of a session with a congestion manager over NIST Net: over this transport, not sent twice.
pub fn managed(transport: &str) -> Place {
    let point = [("path", PATHS[0]), ("transport", transport), ("protect", ONCE)];
    Place { stream: AUDIO.into(), point: point.map(|(key, value)| (key, value.into())).to_vec() }
}

fn at(stream: &str, transport: &str, queue: Option<&str>) -> Place {
    let mut point = vec![(TRANSPORT, transport.to_string())];
    point.extend(queue.map(|queue| (QUEUE, queue.to_string())));
    Place { stream: stream.into(), point }
}

/// The queue by which claims on an experiment are judged, where it has several.
fn main_queue(experiment: &str) -> Option<&'static str> {
    match experiment {
        NISTNET => Some(NO_DROPS),
        EMULAB => Some(SLOTS),
        _ => None,
    }
}

fn of_row(table: &Table, row: usize, experiment: &str) -> Option<Place> {
    let transport = super::long(NAMES, table.text(row, "video transport")?)?;
    Some(at(AUDIO, transport, main_queue(experiment)))
}

/// A row of the table of both networks.
fn of_network(table: &Table, row: usize, network: &str, experiment: &str) -> Option<Place> {
    if table.text(row, "network")? == network { of_row(table, row, experiment) } else { None }
}

const TEXT: TableMap = TableMap {
    file: "text03-nistnet.csv",
    labels: &["video transport"],
    place: |table, row| of_row(table, row, NISTNET),
    columns: &[
        ColumnMap::mean("audio arrived [packets]", "received"),
        ColumnMap::mean("audio dropped [packets]", AUDIO_DROPPED),
        ColumnMap::mean("audio over 250 ms [packets]", "gaps_above_250ms"),
        ColumnMap::mean("audio over 500 ms [packets]", "gaps_above_500ms"),
        ColumnMap::mean("audio lost total [s]", AUDIO_LOST_S),
        ColumnMap::mean("interarrival with video [ms]", "gap_shared_ms"),
        ColumnMap::mean("interarrival no video [ms]", "gap_unshared_ms"),
        ColumnMap::mean("max std [ms]", "gap_sd_max_ms"),
        ColumnMap::mean("mean std [ms]", "gap_sd_mean_ms"),
        ColumnMap::mean("video rate [kbit/s]", VIDEO_KBIT_PER_S),
    ],
    drawing: None,
};

const EMULAB_ROWS: TableMap = networks(|table, row| of_network(table, row, "emulab", EMULAB));
const DIALUP_ROWS: TableMap = networks(|table, row| of_network(table, row, "dialup-28.8", DIALUP));

const fn networks(place: fn(&Table, usize) -> Option<Place>) -> TableMap {
    TableMap {
        file: "table01-emulab-dialup.csv",
        labels: &["network", "video transport"],
        place,
        columns: OF_NETWORKS,
        drawing: None,
    }
}

const OF_NETWORKS: &[ColumnMap] = &[
    ColumnMap::mean("audio lost [s]", AUDIO_LOST_S),
    ColumnMap::mean("interarrival with video [ms]", "gap_shared_ms"),
    ColumnMap::mean("mean std [ms]", "gap_sd_mean_ms"),
    ColumnMap::mean("video rate [kbit/s]", VIDEO_KBIT_PER_S),
    ColumnMap::mean("frames sent", FRAMES_SENT),
    ColumnMap::mean("frames intact", FRAMES_WHOLE),
];
