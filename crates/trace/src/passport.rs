//! Path passports: when each packet of a stream was sent and when it arrived, or that it was lost; no payload.
//!
//! A passport is a text of JSON lines, one packet per line, for people, spreadsheets and scripts:
//!
//! ```text
//! {"passport":{"version":1,"antiphon":"0.1.0","command":"antiphon compare …","seed":1,"units":"…"}}
//! {"section":{"transport":"rtp","direction":"up","delays":"one-way",…,"fields":"number, sent_ns, …"}}
//! [0,5334102,17400113,1100,0]
//! [1,10667002,null,1100,0]
//! {"end":{"packets":2,"unrecorded":0}}
//! ```
//!
//! The first line is the [`Header`]. Each [`Section`] describes one transport in one direction; the [`PacketRow`]s
//! after it are in rising order of their numbers. A number without a line was never put on the path (refused, expired).
//! The last line marks the end of the recording; a file without it, as left by a killed process, is still valid.
//!
//! How to read the times depends on what each end knew, which [`Delays`] states:
//!
//! | recorded by | `delays` | `sent_ns`, `arrived_ns` |
//! | --- | --- | --- |
//! | `compare`, embedded link | `one-way` | both ends read one clock |
//! | `compare HOST` | `round-trip` | handed over, and back from the reflector |
//! | `receive` | `relative` | the sender's clock, moved so that the first packet takes no time, and ours |
//! | `send`, acknowledged transport | `round-trip` | handed over, and acknowledged |
//! | `send`, any other | `unknown` | handed over; `arrived_ns` is null and says nothing |
//!
//! [`Passport::paths`] converts it to what a link model replays.

mod path;
mod read;
mod window;
mod write;

use std::io;

use serde::{Deserialize, Serialize};

pub use path::{PathSample, Paths};
pub use read::{MAX_LINE, MAX_PACKETS, MAX_SECTIONS, Passport, PassportReader, ReadLine, Recorded};
pub use window::{Hole, Window};
pub use write::PassportWriter;

/// The format's version: other versions are refused, since their meaning is not known.
pub const VERSION: u32 = 1;

/// Description of the whole passport.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// Version of the program that wrote it.
    pub antiphon: String,
    /// The command line that recorded it.
    pub command: String,
    /// Its seed.
    pub seed: u64,
    /// Units of the numbers; for people.
    pub units: String,
}

impl Header {
    /// A header of this version.
    pub fn new(command: &str, seed: u64) -> Self {
        Header {
            version: VERSION,
            antiphon: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            seed,
            units: "times in ns since the run began, sizes in bytes".into(),
        }
    }
}

/// Properties of all packets of one transport in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Section {
    /// Scheme of the transport.
    pub transport: String,
    /// Direction of the packets.
    pub direction: Direction,
    /// How the times may be used.
    pub delays: Delays,
    /// The clocks used, in words.
    pub clock: String,
    /// Whether the transport repairs losses itself: then times include its repairs and hide the path's own losses.
    pub repairs: bool,
    /// Bytes of headers around the message (the transport's, UDP's or TCP's, IPv4's) that are counted in a packet's size.
    pub header_bytes: u32,
    /// Size of the largest packet, headers included; of the first one if the stream was recorded live.
    pub packet_bytes: u32,
    /// Mean time between packets in nanoseconds, if there were two when the section began.
    pub interval_ns: Option<u64>,
    /// Names of a packet's numbers, in their order; for people.
    #[serde(default = "fields")]
    pub fields: String,
}

/// The names that [`Section::fields`] has.
pub fn fields() -> String {
    "number, sent_ns, arrived_ns, bytes, duplicates".into()
}

/// Direction of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the sender to the receiver or reflector.
    Up,
    /// From the reflector back.
    Down,
    /// There and back.
    Both,
}

/// How times of sending and arrival relate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delays {
    /// Read from one clock: their difference is the one-way delay.
    OneWay,
    /// Read from one clock: their difference is the round trip.
    RoundTrip,
    /// Read from two clocks: their difference is the one-way delay except for a constant and the drift of the clocks.
    /// Subtract the smallest.
    Relative,
    /// Only times of sending are known.
    Unknown,
}

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketRow {
    /// Counts packets of the stream; rises within a section.
    pub number: u64,
    /// When it was sent, in nanoseconds since the run began; `None` if unknown.
    pub sent: Option<i64>,
    /// When it first arrived; `None` if it was lost, or if arrivals are not known ([`Delays::Unknown`]).
    pub arrived: Option<i64>,
    /// Its size, headers included; `None` if it did not reach the writer of the passport.
    pub bytes: Option<u32>,
    /// How often it arrived again.
    pub duplicates: u32,
}

/// The last line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Packets in all sections.
    pub packets: u64,
    /// Packets missed because the recorder was too slow; they look lost.
    pub unrecorded: u64,
}

/// A line that is an object.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Object {
    Passport(Header),
    Section(Section),
    End(End),
}

/// Why a passport can't be read or used.
#[derive(Debug, thiserror::Error)]
pub enum PassportError {
    /// The file can't be read.
    #[error("cannot read the passport: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin with a passport's header.
    #[error(
        "not a passport: its first line must be {{\"passport\":…}}; 'antiphon compare --passport FILE' writes one"
    )]
    NotAPassport,
    /// An unknown version.
    #[error(
        "the passport has version {found}, and this program reads version {VERSION}: record it again, or take a newer Antiphon"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A line is wrong.
    #[error("line {line} of the passport: {why}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What would be valid.
        why: String,
    },
    /// It contains nothing of the requested transport.
    #[error("the passport has no packets of '{transport}'; it has {known}")]
    NoTransport {
        /// The requested scheme.
        transport: String,
        /// The schemes in it.
        known: String,
    },
    /// It contains no information about the path.
    #[error(
        "the passport has only sending times, not arrivals: record it with \
         'antiphon receive --passport FILE' at the other end, or with 'antiphon compare'"
    )]
    NoArrivals,
    /// It has no packets.
    #[error("the passport has no packets: the recording ended before any was sent; record longer")]
    Empty,
}

#[cfg(test)]
mod tests;
