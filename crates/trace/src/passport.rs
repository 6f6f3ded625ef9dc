//! Path passports: when each packet of a stream was sent and when it came, or that it was lost; no payload.
//!
//! A passport is a text of JSON lines, one packet a line, so that people, spreadsheets and scripts read it:
//!
//! ```text
//! {"passport":{"version":1,"antiphon":"0.1.0","command":"antiphon compare …","seed":1,"units":"…"}}
//! {"section":{"transport":"rtp","direction":"up","delays":"one-way",…,"fields":"number, sent_ns, …"}}
//! [0,5334102,17400113,1100,0]
//! [1,10667002,null,1100,0]
//! {"end":{"packets":2,"unrecorded":0}}
//! ```
//!
//! The first line is the [`Header`]. Each [`Section`] tells of one transport in one direction; the [`PacketRow`]s behind
//! it are in rising order of their numbers. A number without a line was never put on the path (refused, expired). The
//! last line says that the recording came to its end; a file without it, as a killed process leaves, still counts.
//!
//! How times are to be read depends on what each end knew, which [`Delays`] says:
//!
//! | recorded by | `delays` | `sent_ns`, `arrived_ns` |
//! | --- | --- | --- |
//! | `compare`, embedded link | `one-way` | both ends read one clock |
//! | `compare HOST` | `round-trip` | handed over, and back from the reflector |
//! | `receive` | `relative` | the sender's clock, moved so that the first packet takes no time, and ours |
//! | `send`, acknowledged transport | `round-trip` | handed over, and acknowledged |
//! | `send`, any other | `unknown` | handed over; `arrived_ns` is null and says nothing |
//!
//! [`Passport::paths`] makes of it what a link model replays.

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

/// The format's version: another one is refused, since its meaning is not known.
pub const VERSION: u32 = 1;

/// What a passport as a whole says of itself.
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
    /// What numbers are in; for people.
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

/// What holds for all packets of one transport in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Section {
    /// Scheme of the transport.
    pub transport: String,
    /// Which way.
    pub direction: Direction,
    /// What the times are worth.
    pub delays: Delays,
    /// The clocks used, in words.
    pub clock: String,
    /// Whether the transport repairs losses itself: then times contain its repairs, and the path's own losses don't show.
    pub repairs: bool,
    /// Bytes of headers around the message (the transport's, UDP's or TCP's, IPv4's) that are counted in a packet's size.
    pub header_bytes: u32,
    /// Size of the largest packet, headers included; of the first one where the stream was recorded as it ran.
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

/// Which way packets went.
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

/// What times of sending and arrival are worth together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delays {
    /// Read from one clock: their difference is the time on the way.
    OneWay,
    /// Read from one clock: their difference is the time there and back.
    RoundTrip,
    /// Read from two clocks: their difference is the time on the way but for a constant, and for what the clocks drift
    /// apart. Subtract the smallest.
    Relative,
    /// Only times of sending are known.
    Unknown,
}

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketRow {
    /// Counts packets of the stream; rises within a section.
    pub number: u64,
    /// When it was sent, in nanoseconds since the run began; `None` where it is unknown.
    pub sent: Option<i64>,
    /// When it first came; `None` if it was lost, or if arrivals are not known ([`Delays::Unknown`]).
    pub arrived: Option<i64>,
    /// Its size, headers included; `None` where it did not reach the writer of the passport.
    pub bytes: Option<u32>,
    /// How often it came again.
    pub duplicates: u32,
}

/// The last line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Packets in all sections.
    pub packets: u64,
    /// Packets that the recorder was too slow for; they look lost.
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
    /// It begins with something else.
    #[error(
        "this is no passport: its first line must be {{\"passport\":…}}; 'antiphon compare --passport FILE' writes one"
    )]
    NotAPassport,
    /// A version that is not known here.
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
        /// What would be right.
        why: String,
    },
    /// It has nothing of the transport asked for.
    #[error("the passport has nothing of '{transport}'; it has {known}")]
    NoTransport {
        /// The scheme asked for.
        transport: String,
        /// Those in it.
        known: String,
    },
    /// It contains no information about the path.
    #[error(
        "the passport holds times of sending only, so what the path did is not known: record it with \
         'antiphon receive --passport FILE' at the other end, or with 'antiphon compare'"
    )]
    NoArrivals,
    /// It has no packets.
    #[error("the passport has no packets: the recording ended before any was sent; record longer")]
    Empty,
}

#[cfg(test)]
mod tests;
