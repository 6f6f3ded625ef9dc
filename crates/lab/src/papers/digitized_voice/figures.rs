//! Figures of transfers: rates, from the times between arrivals and the size of the voice data.

use antiphon_measure::{FigureDef, StreamFigures};

use super::super::derived::Derived;
use super::SIZE;
use crate::results::Record;

/// Packets a second.
pub const PACKET_RATE: &str = "packets_per_s";
/// Voice data, in Mbit/s.
pub const USER_THROUGHPUT: &str = "user_mbit_per_s";
/// Frames on the ring, in Mbit/s.
pub const NETWORK_THROUGHPUT: &str = "network_mbit_per_s";
/// Bytes of a frame on the ring.
pub const FRAME: &str = "frame_bytes";
/// From the first packet to the last.
pub const TOTAL_TIME: &str = "transfer_s";
/// Channels of 64 kbit/s.
pub const CHANNELS: &str = "voice_channels";

pub(super) const DERIVED: &[Derived] = &[
    Derived {
        def: FigureDef::ratio(
            PACKET_RATE,
            "packets/s",
            "Packets that arrived, a second, from the first to the last.",
        ),
        reading: "",
        of: |stream, _| rate(stream),
    },
    Derived {
        def: FigureDef::ratio(
            USER_THROUGHPUT,
            "user throughput, Mbit/s",
            "Voice data that arrived, from the first packet to the last.",
        ),
        reading: "",
        of: user_mbit_per_s,
    },
    Derived {
        def: FigureDef::ratio(
            NETWORK_THROUGHPUT,
            "network throughput, Mbit/s",
            "The same with all headers of a packet on the ring; acknowledgements are not counted.",
        ),
        reading: "",
        of: |stream, _| Some(8.0 * frame(stream)? * rate(stream)? / 1e6),
    },
    Derived {
        def: FigureDef::ratio(
            FRAME,
            "bytes of a frame",
            "Bytes that the sender put on the ring, for each packet with voice; those of set-up and end, a few of many, are among them.",
        ),
        reading: "",
        of: |stream, _| frame(stream),
    },
    Derived {
        def: FigureDef::ratio(
            TOTAL_TIME,
            "total time, s",
            "The packets that arrived, times the mean time between two arrivals.",
        ),
        reading: "",
        of: |stream, _| Some(stream.received? * stream.gap_mean_ms? / 1e3),
    },
    Derived {
        def: FigureDef::ratio(
            CHANNELS,
            "voice channels",
            "The user throughput divided by 64 kbit/s, rounded down.",
        ),
        reading: "",
        of: |stream, run| Some((user_mbit_per_s(stream, run)? / CHANNEL_MBIT_S).floor()),
    },
];

fn rate(stream: &StreamFigures) -> Option<f64> {
    stream.gap_mean_ms.filter(|gap| *gap > 0.0).map(|gap| 1e3 / gap)
}

fn user_mbit_per_s(stream: &StreamFigures, run: &[Record]) -> Option<f64> {
    let size: f64 = run.first()?.setting(SIZE)?.parse().ok()?;
    Some(8.0 * size * rate(stream)? / 1e6)
}

fn frame(stream: &StreamFigures) -> Option<f64> {
    let sent = stream.sent.filter(|sent| *sent > 0.0)?;
    Some(stream.wire_bytes? / sent + FDDI_OVERHEAD)
}

/// What FDDI adds, as the paper counts it.
const FDDI_OVERHEAD: f64 = antiphon_link::FDDI_OVERHEAD as f64;
/// Section 4.
const CHANNEL_MBIT_S: f64 = 0.064;
