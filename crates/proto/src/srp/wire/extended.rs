//! Packets of the improved mode: the published headers, with fields in the upper bytes of word 0.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-------------+---------------+---------------+---+---+-------+
//! |1|   format    | s | part index| s | parts - 1 | p | q | type  |
//! +-+-------------+---------------+---------------+---+---+-------+
//! |                       time in microseconds                    |
//! +-----------------------------------------------+---------------+
//! |                     epoch                     |     age       |
//! +-----------------------------------------------+---------------+
//! |  data id (DATA, ANSWER)   /   first data id (NACK)            |
//! +---------------------------------------------------------------+
//! ```
//!
//! * The first bit distinguishes the two modes; the format is 1. A datagram tells its own length, so that the data size of
//!   the report is left out.
//! * Each sender draws its `epoch` and its first id when it starts: nobody who does not see its packets knows them, and a
//!   restart shows in its first packets. The age of a DATA or ANSWER counts the ids before it, up to 255: a receiver sees
//!   whether it misses the first ones. It is 0 in other packets.
//! * Every part of a message has its own data id, so that it is retransmitted alone; index and count give its position.
//! * `s` is the stream number, its upper and its lower two bits. Ids count over all streams that this receiver gets, so
//!   that unwanted streams leave no gaps.
//! * `p` is the packet's priority (0 most urgent, 3 least), `q` that of the packet before it, which shows a receiver
//!   how urgent a missing packet is.
//! * A NACK may be followed by words of 32 bits: bit *i* (from the least) of word *k* requests `first + 1 + 32 k + i`.
//! * A probe carries the receiver's report in five words after the epoch and the streams that it wants in a sixth: bit *i*
//!   (from the least) for stream *i*, and the first bit if it was sent before any data arrived, when its epoch is
//!   meaningless. Its answer is an ECHO (type 5) of time and epoch, so that two sides that both send and receive can't
//!   return each other's answers endlessly.

use super::super::streams::{LAST_STREAM, Streams};
use super::{ANSWER, DATA, HEADER, NACK, PROBE, WireError, put, word};

/// Most parts of a message.
pub const MAX_PARTS: usize = 64;
/// The least urgent priority in the format.
pub const LEAST_URGENT: u8 = 3;
/// Words that may follow a NACK: one packet requests 257 ids at most.
pub const MAX_NACK_WORDS: usize = 8;
/// Bytes of a probe with its report.
pub const PROBE_LEN: usize = 36;
/// Bytes of an echo.
pub const ECHO_LEN: usize = 12;
/// The largest epoch.
pub const LAST_EPOCH: u32 = (1 << 24) - 1;

const ECHO: u8 = 5;
/// The bits of a part's index and of the last index: [`MAX_PARTS`] less 1.
const PART: u8 = 0x3f;
const _: () = assert!(MAX_PARTS == PART as usize + 1);
/// The first byte: the improved mode, format 1.
const EXTENDED: u8 = 0x81;

/// A packet of the improved mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended<'a> {
    /// A message or a part of one, sent for the first time; `time` is the sender's clock.
    Data(Part<'a>),
    /// A retransmission on request; `time` is copied from the NACK.
    Answer(Part<'a>),
    /// Requests missing packets.
    Nack(Nack<'a>),
    /// Measures the round trip and carries the receiver's report.
    Probe {
        /// The epoch of the packets reported on, 0 to [`LAST_EPOCH`].
        epoch: u32,
        /// The receiver's clock in microseconds, modulo 2³².
        time: u32,
        /// Statistics of these packets.
        report: Report,
        /// The streams that the sender shall send.
        wanted: Wanted,
    },
    /// The answer to a probe.
    Echo {
        /// As in the probe.
        epoch: u32,
        /// As in the probe.
        time: u32,
    },
}

/// A message or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// The sender's epoch, 0 to [`LAST_EPOCH`].
    pub epoch: u32,
    /// Packets with earlier ids of this epoch; 255 stands for more as well.
    pub age: u8,
    /// Index of the part in its message, from 0.
    pub index: u8,
    /// Number of the message's parts: 1 to [`MAX_PARTS`].
    pub count: u8,
    /// 0 (most urgent) to [`LEAST_URGENT`].
    pub priority: u8,
    /// Priority of the packet with the previous id.
    pub previous_priority: u8,
    /// Its stream: 0 to [`LAST_STREAM`].
    pub stream: u8,
    /// Microseconds modulo 2³².
    pub time: u32,
    /// Counts packets; wraps to 0.
    pub id: u32,
    /// At least one byte.
    pub data: &'a [u8],
}

/// Missing ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nack<'a> {
    /// The epoch of the packets requested.
    pub epoch: u32,
    /// The receiver's clock in microseconds, modulo 2³².
    pub time: u32,
    /// The first id.
    pub first: u32,
    /// Whole words of 32 bits in network order, as on the wire.
    pub more: &'a [u8],
}

impl Nack<'_> {
    /// Every id requested, ascending from the first.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        let set = |(k, word): (usize, &[u8])| {
            let bits = word.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
            (0..32u32).filter(move |i| bits >> i & 1 == 1).map(move |i| 32 * k as u32 + i)
        };
        let (first, more) = (self.first, self.more);
        let others = more.chunks_exact(4).enumerate().flat_map(set);
        std::iter::once(first).chain(others.map(move |n| first.wrapping_add(1 + n)))
    }
}

/// A receiver's report, sent once a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The highest id received.
    pub highest: u32,
    /// Every id before this one has arrived or is given up.
    pub settled: u32,
    /// Packets received from their first transmission, modulo 2³².
    pub received: u32,
    /// Packets lost by the network, recovered or not, modulo 2³².
    pub lost: u32,
    /// How much longer packets now take than the fastest of the last seconds, in microseconds.
    pub queueing_us: u32,
}

/// The streams that a receiver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// The wanted streams.
    pub streams: Streams,
    /// No data has arrived yet: the probe's epoch is meaningless.
    pub blind: bool,
}

impl Wanted {
    fn read(word: u32) -> Option<Self> {
        let blind = word & BLIND != 0;
        let streams = Streams(u16::try_from(word & !BLIND).ok()?);
        Some(Wanted { streams, blind })
    }

    fn word(self) -> u32 {
        u32::from(self.streams.0) | if self.blind { BLIND } else { 0 }
    }
}

const BLIND: u32 = 1 << 31;

impl<'a> Extended<'a> {
    /// Reads a datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let first = word(bytes, 0).ok_or(WireError::Length { kind: 0, len: bytes.len() })?;
        let length = WireError::Length { kind: first, len: bytes.len() };
        let field = |n| word(bytes, n).ok_or(length);
        let [format, index, last, kind] = first.to_be_bytes();
        if format != EXTENDED {
            return Err(WireError::Type(first));
        }
        if let kind @ (DATA | ANSWER) = kind & 0x0f {
            let part = part(bytes)?;
            return Ok(if kind == DATA { Extended::Data(part) } else { Extended::Answer(part) });
        }
        if index != 0 || last != 0 || kind > 0x0f {
            return Err(WireError::Type(first));
        }
        let (time, identity) = (field(1)?, field(2)?);
        let epoch = identity >> 8;
        if identity & 0xff != 0 {
            return Err(length);
        }
        match kind {
            NACK => {
                let more = bytes.get(HEADER..).ok_or(length)?;
                if more.len() % 4 != 0 || more.len() > 4 * MAX_NACK_WORDS {
                    return Err(length);
                }
                Ok(Extended::Nack(Nack { epoch, time, first: field(3)?, more }))
            }
            PROBE if bytes.len() == PROBE_LEN => {
                let report = Report {
                    highest: field(3)?,
                    settled: field(4)?,
                    received: field(5)?,
                    lost: field(6)?,
                    queueing_us: field(7)?,
                };
                let wanted = Wanted::read(field(8)?).ok_or(length)?;
                Ok(Extended::Probe { epoch, time, report, wanted })
            }
            ECHO if bytes.len() == ECHO_LEN => Ok(Extended::Echo { epoch, time }),
            PROBE | ECHO => Err(length),
            _ => Err(WireError::Type(first)),
        }
    }

    /// Writes the packet and returns its length; `None` if `buf` is too short.
    pub fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        match *self {
            Extended::Data(part) => emit_part(&part, DATA, buf),
            Extended::Answer(part) => emit_part(&part, ANSWER, buf),
            Extended::Nack(nack) => {
                put(buf, &[plain(NACK), nack.time, nack.epoch << 8, nack.first], nack.more)
            }
            Extended::Probe { epoch, time, report: r, wanted } => {
                let [kind, epoch] = [plain(PROBE), epoch << 8];
                let report = [r.highest, r.settled, r.received, r.lost, r.queueing_us];
                let [highest, settled, received, lost, queueing] = report;
                let words = [kind, time, epoch, highest, settled, received, lost, queueing, wanted.word()];
                put(buf, &words, &[])
            }
            Extended::Echo { epoch, time } => put(buf, &[plain(ECHO), time, epoch << 8], &[]),
        }
    }
}

/// Turns a DATA packet into an answer in place, with the time of the NACK.
pub(crate) fn make_answer(packet: &mut [u8], time: u32) {
    packet[3] = packet[3] & 0xf0 | ANSWER;
    packet[4..8].copy_from_slice(&time.to_be_bytes());
}

fn part(bytes: &[u8]) -> Result<Part<'_>, WireError> {
    let length = WireError::Length { kind: DATA.into(), len: bytes.len() };
    let field = |n| word(bytes, n).ok_or(length);
    let [_, index, last, kind] = field(0)?.to_be_bytes();
    let (time, identity, id) = (field(1)?, field(2)?, field(3)?);
    let data = &bytes[HEADER..];
    let stream = index >> 6 << 2 | last >> 6;
    let (index, last) = (index & PART, last & PART);
    if data.is_empty() || index > last {
        return Err(length);
    }
    Ok(Part {
        epoch: identity >> 8,
        age: identity as u8,
        index,
        count: last + 1,
        priority: kind >> 6,
        previous_priority: kind >> 4 & 3,
        stream,
        time,
        id,
        data,
    })
}

fn emit_part(part: &Part<'_>, kind: u8, buf: &mut [u8]) -> Option<usize> {
    let urgency = part.priority.min(LEAST_URGENT) << 6 | part.previous_priority.min(LEAST_URGENT) << 4;
    let stream = part.stream.min(LAST_STREAM);
    let index = stream >> 2 << 6 | part.index & PART;
    let last = stream << 6 | part.count.saturating_sub(1) & PART;
    let first = [EXTENDED, index, last, urgency | kind];
    let identity = part.epoch << 8 | u32::from(part.age);
    put(buf, &[u32::from_be_bytes(first), part.time, identity, part.id], part.data)
}

fn plain(kind: u8) -> u32 {
    u32::from_be_bytes([EXTENDED, 0, 0, kind])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_written_as_specified() {
        let part = Part {
            epoch: 0x050607,
            age: 9,
            index: 2,
            count: 4,
            priority: 1,
            previous_priority: 3,
            stream: 9,
            time: 7,
            id: 0xffff_ffff,
            data: b"ab",
        };
        let mut buf = [0; 32];
        let len = Extended::Data(part).emit(&mut buf).unwrap();
        let expected = [0x81, 0x82, 0x43, 0x71, 0, 0, 0, 7, 5, 6, 7, 9, 255, 255, 255, 255, b'a', b'b'];
        assert_eq!(buf[..len], expected);
        make_answer(&mut buf[..len], 9);
        assert_eq!(Extended::parse(&buf[..len]), Ok(Extended::Answer(Part { time: 9, ..part })));
        assert_eq!(Extended::Data(part).emit(&mut [0; 17]), None);
    }

    #[test]
    fn a_nack_names_its_ids_across_the_wrap() {
        let nack = Nack { epoch: 1, time: 2, first: u32::MAX - 1, more: &[0, 0, 0, 0b101, 0x80, 0, 0, 0] };
        let ids: Vec<u32> = nack.ids().collect();
        assert_eq!(ids, [u32::MAX - 1, u32::MAX, 1, 62]);
    }

    #[test]
    fn a_published_packet_is_recognised() {
        let published = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9];
        assert_eq!(Extended::parse(&published), Err(WireError::Type(1)));
    }

    proptest! {
        #[test]
        fn what_is_parsed_was_written_so(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0u8..8, fit in any::<bool>()) {
            let mut bytes = bytes;
            if bytes.len() >= 4 {
                bytes[0] = if fit { EXTENDED } else { bytes[0] | 0x80 };
                bytes[3] = bytes[3] & 0xf0 | kind;
                if fit {
                    (bytes[1], bytes[2]) = (bytes[1] % 2, bytes[2] % 3);
                }
            }
            if fit && bytes.len() >= 12 && !matches!(kind, DATA | ANSWER) {
                bytes[11] = 0;
            }
            if let Ok(packet) = Extended::parse(&bytes) {
                let mut again = [0; 64];
                let len = packet.emit(&mut again).unwrap();
                prop_assert_eq!(&again[..len], &bytes[..]);
                if let Extended::Nack(nack) = packet {
                    prop_assert!(nack.ids().count() <= 1 + 32 * MAX_NACK_WORDS);
                }
            }
        }
    }
}
