//! Packets of XTP 4.0: a header of 32 bytes and one segment, big-endian.
//!
//! Field layouts are those that analysers read (Wireshark, `packet-xtp.c`). The specification of 1995 is no longer
//! available; the module's comment states what fields mean where analysers don't say.
//!
//! Keys are 63 bits that their owner chooses. Ours hold the owner's port in the lowest 16 bits and the other end's in the
//! next 16, since XTP itself has ports in FIRST alone: so every packet tells both, over IP as well ([`Key`]).

#[cfg(test)]
mod tests;
mod writer;

use crate::internet_checksum::{fold, words};
pub(super) use writer::Writer;

/// The 63-bit name of an association at its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key(pub u64);

impl Key {
    /// A key of these ports; `rest` fills the upper 31 bits.
    pub fn new(rest: u32, other: u16, owner: u16) -> Self {
        Key(u64::from(rest & (u32::MAX >> 1)) << 32 | u64::from(other) << 16 | u64::from(owner))
    }

    /// The owner's port.
    pub fn owner(self) -> u16 {
        self.0 as u16
    }

    /// The other end's port.
    pub fn other(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// What ports do not fill.
    pub fn rest(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The header without its length and checksum, which [`Writer`] adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub key: Key,
    /// The key was chosen by the packet's receiver.
    pub returned: bool,
    /// Bits of [`option`].
    pub options: u32,
    /// Priority, 0 the most urgent; of meaning with [`option::SORT`].
    pub sort: u16,
    /// Number of the packet at its sender, for the synchronising handshake.
    pub sync: u32,
    /// Number of the first data byte; in control packets see there.
    pub seq: u64,
}

impl Header {
    /// Whether all of these options are set.
    pub fn has(&self, options: u32) -> bool {
        self.options & options == options
    }

    /// Source and destination port.
    pub fn ports(&self) -> (u16, u16) {
        let Header { key, returned, .. } = self;
        if *returned { (key.other(), key.owner()) } else { (key.owner(), key.other()) }
    }
}

/// Masks of the 24-bit option field.
pub(super) mod option {
    /// The checksum covers the header only.
    pub const NOCHECK: u32 = 0x40_0000;
    /// A change of this bit asks for status.
    pub const EDGE: u32 = 0x20_0000;
    /// What is missing before this packet's `seq` is not sent again.
    pub const NOERR: u32 = 0x10_0000;
    pub const MULTI: u32 = 0x08_0000;
    /// `alloc` counts only buffers that the receiving program has given.
    pub const RES: u32 = 0x04_0000;
    pub const SORT: u32 = 0x02_0000;
    /// The sender does not obey `alloc`.
    pub const NOFLOW: u32 = 0x01_0000;
    /// Report a gap as soon as it is seen.
    pub const FASTNAK: u32 = 0x00_8000;
    /// Report now.
    pub const SREQ: u32 = 0x00_4000;
    /// Report once all up to this packet has been fetched.
    pub const DREQ: u32 = 0x00_2000;
    /// The sender of this packet has received everything.
    pub const RCLOSE: u32 = 0x00_1000;
    /// The sender of this packet sends no more data.
    pub const WCLOSE: u32 = 0x00_0800;
    /// The last byte ends a message.
    pub const EOM: u32 = 0x00_0400;
    /// The sender of this packet has released the association.
    pub const END: u32 = 0x00_0200;
    /// Eight bytes before the data say that a message begins: its number at the sender.
    pub const BTAG: u32 = 0x00_0100;
}

/// What a receiver reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Status {
    /// The next byte after those received without a gap.
    pub rseq: u64,
    /// The first byte that may not be sent.
    pub alloc: u64,
    /// The greatest `sync` received.
    pub echo: u32,
}

/// Limits of a direction in bytes per second and bytes; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Traffic {
    /// The largest segment of data.
    pub max_data: u32,
    pub in_rate: u32,
    pub in_burst: u32,
    pub out_rate: u32,
    pub out_burst: u32,
}

/// A parsed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Segment<'a> {
    Data {
        tag: Option<u64>,
        bytes: &'a [u8],
    },
    Status(Status, Spans<'a>),
    /// `key`: the key that packets to its sender must carry. `spread`: to a group, the microseconds over which its members
    /// spread their requests, in a field that XTP reserves.
    Traffic {
        status: Status,
        spread: u32,
        key: Key,
        traffic: Traffic,
    },
    Join {
        status: Status,
        key: Key,
        group: [u8; 4],
    },
    First {
        service: u8,
        traffic: Traffic,
        bytes: &'a [u8],
    },
    Diag {
        code: u32,
        value: u32,
    },
    /// A coded repair of a group.
    Repair(&'a [u8]),
    /// What a group's member has, and what it lacks.
    Report(Status, &'a [u8]),
}

/// Received ranges above `rseq`, ascending and disjoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spans<'a>(&'a [[u8; SPAN]]);

impl<'a> Spans<'a> {
    /// Each as its first byte and the byte after its last.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone + 'a {
        self.0.iter().map(|span| (be64(&span[..8]), be64(&span[8..])))
    }

    /// Whether each begins above what the one before it ends with, seen from `rseq`.
    fn are_in_order(self, rseq: u64) -> bool {
        let mut last = 0;
        self.iter().all(|(left, right)| {
            let (from, to) = (left.wrapping_sub(rseq), right.wrapping_sub(rseq));
            let fits = from > last && from < to && to < 1 << 62;
            last = to;
            fits
        })
    }
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn be32(bytes: &[u8]) -> u32 {
    be64(bytes) as u32
}

/// Reads a packet: header and segment. `None` if it is not one of ours, damaged, or not of the length that it states.
pub(super) fn parse(packet: &[u8]) -> Option<(Header, Segment<'_>)> {
    let (header, format) = header(packet)?;
    if !has_sound_checksum(packet, header.has(option::NOCHECK)) {
        return None;
    }
    let body = &packet[HEADER..];
    let segment = match format {
        format::DATA if header.has(option::BTAG) => {
            let (tag, bytes) = body.split_first_chunk::<TAG>()?;
            Segment::Data { tag: Some(u64::from_be_bytes(*tag)), bytes }
        }
        format::DATA => Segment::Data { tag: None, bytes: body },
        format::CNTL if body.len() == STATUS => Segment::Status(status(body), Spans::default()),
        format::ECNTL => {
            let spans = body.get(STATUS + 4..)?;
            let (spans, rest) = spans.as_chunks::<SPAN>();
            let (status, spans) = (status(body), Spans(spans));
            let told = usize::try_from(be32(&body[STATUS..STATUS + 4])).ok()?;
            if !rest.is_empty()
                || told != spans.0.len()
                || told > MOST_SPANS
                || !spans.are_in_order(status.rseq)
            {
                return None;
            }
            Segment::Status(status, spans)
        }
        format::TCNTL => {
            let traffic = traffic(body.get(KEYED_STATUS..)?)?;
            if !traffic.1.is_empty() {
                return None;
            }
            let spread = be32(&body[STATUS..STATUS + 4]);
            Segment::Traffic { status: status(body), spread, key: key(body)?, traffic: traffic.0 }
        }
        format::JCNTL => {
            let address: &[u8; ADDRESS] = body.get(KEYED_STATUS..)?.first_chunk()?;
            let group = address[4..8].first_chunk().copied()?;
            // An answer, which is as long, goes to an address that has proved nothing.
            let whole = traffic(&body[KEYED_STATUS + ADDRESS..])?.1.is_empty();
            if !whole {
                return None;
            }
            Segment::Join { status: status(body), key: key(body)?, group }
        }
        format::FIRST => {
            let (traffic, bytes) = traffic(body.get(ADDRESS..)?)?;
            Segment::First { service: body[ADDRESS + 2], traffic, bytes }
        }
        format::REPAIR => Segment::Repair(body),
        format::REPORT if body.len() >= STATUS => Segment::Report(status(body), &body[STATUS..]),
        format::DIAG if body.len() >= 8 => Segment::Diag { code: be32(&body[..4]), value: be32(&body[4..8]) },
        _ => return None,
    };
    Some((header, segment))
}

/// The header and the packet's format; `None` if its length is not the stated one.
pub(super) fn header(packet: &[u8]) -> Option<(Header, u8)> {
    let head: &[u8; HEADER] = packet.first_chunk()?;
    let command = be32(&head[8..12]);
    if command as u8 >> 5 != VERSION || packet.len() - HEADER != be32(&head[12..16]) as usize {
        return None;
    }
    let key = be64(&head[..8]);
    let header = Header {
        key: Key(key & !RETURNED),
        returned: key & RETURNED != 0,
        options: command >> 8,
        sort: be32(&head[18..20]) as u16,
        sync: be32(&head[20..24]),
        seq: be64(&head[24..]),
    };
    Some((header, command as u8 & FORMAT))
}

/// Source and destination port of a packet. One that joins a group carries the key of the packets to the group, which has no
/// port of the member: that is in the key that the member names for itself.
pub(super) fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    let (header, format) = header(packet)?;
    let (source, destination) = header.ports();
    let named = (format == format::JCNTL).then(|| packet.get(HEADER..JOIN).and_then(key)).flatten();
    Some((named.map_or(source, Key::owner), destination))
}

fn status(body: &[u8]) -> Status {
    Status { rseq: be64(&body[..8]), alloc: be64(&body[8..16]), echo: be32(&body[16..20]) }
}

/// The key in a control segment that has one.
fn key(body: &[u8]) -> Option<Key> {
    let key = be64(&body[STATUS + 4..KEYED_STATUS]);
    (key & RETURNED == 0).then_some(Key(key))
}

/// A traffic specifier, and what follows it.
fn traffic(body: &[u8]) -> Option<(Traffic, &[u8])> {
    let len = usize::from(u16::from_be_bytes(*body.first_chunk()?));
    let (specifier, rest) = body.split_at_checked(len)?;
    match (specifier.get(3)?, len) {
        (0, NO_TRAFFIC) => Some((Traffic::default(), rest)),
        (1, TRAFFIC) => {
            let word = |n: usize| be32(&specifier[4 * n..][..4]);
            let (max_data, in_rate, in_burst) = (word(1), word(2), word(3));
            Some((Traffic { max_data, in_rate, in_burst, out_rate: word(4), out_burst: word(5) }, rest))
        }
        _ => None,
    }
}

/// The ones' complement sum of 16-bit words.
fn folded(bytes: &[u8]) -> u16 {
    fold(u64::from(words(bytes)))
}

fn has_sound_checksum(packet: &[u8], header_only: bool) -> bool {
    folded(if header_only { &packet[..HEADER] } else { packet }) == u16::MAX
}

/// Packet formats.
pub(super) mod format {
    pub const DATA: u8 = 0;
    pub const CNTL: u8 = 1;
    pub const FIRST: u8 = 2;
    pub const ECNTL: u8 = 3;
    pub const TCNTL: u8 = 5;
    pub const JCNTL: u8 = 7;
    pub const DIAG: u8 = 8;
    /// Not of XTP: `group/combination.rs` and `group/gaps.rs`.
    pub const REPAIR: u8 = 9;
    pub const REPORT: u8 = 10;
}

/// Services of a traffic specifier.
pub(super) mod service {
    pub const UNACKNOWLEDGED_DATAGRAM: u8 = 1;
    pub const RELIABLE_STREAM: u8 = 4;
    pub const UNACKNOWLEDGED_MULTICAST: u8 = 5;
    pub const RELIABLE_MULTICAST: u8 = 6;
}

/// Codes and values of DIAG.
pub(super) mod diag {
    pub const INVALID_CONTEXT: u32 = 3;
    pub const CONTEXT_REFUSED: u32 = 1;
    pub const CONTEXT_ABANDONED: u32 = 2;
    pub const JOIN_REFUSED: u32 = 5;
    pub const UNSPECIFIED: u32 = 0;
    pub const NO_RESOURCE: u32 = 9;
}

/// Bytes of the header.
pub(super) const HEADER: usize = 32;
/// Bytes of a beginning tag.
pub(super) const TAG: usize = 8;
/// Bytes of a status segment.
pub(super) const STATUS: usize = 20;
/// Bytes of one with a key.
pub(super) const KEYED_STATUS: usize = STATUS + 4 + 8;
/// Bytes of a span.
pub(super) const SPAN: usize = 16;
/// Bytes of an IPv4 address segment.
pub(super) const ADDRESS: usize = 16;
/// Bytes of a traffic specifier with limits, and without.
pub(super) const TRAFFIC: usize = 24;
pub(super) const NO_TRAFFIC: usize = 8;
/// Bytes of a FIRST without data, which are as many as those of the answer to it.
pub(super) const FIRST: usize = HEADER + ADDRESS + TRAFFIC;
/// Bytes of a JCNTL, whether it asks or answers.
pub(super) const JOIN: usize = HEADER + KEYED_STATUS + ADDRESS + NO_TRAFFIC;
/// Bytes of a DIAG without text.
pub(super) const DIAG: usize = HEADER + 8;
/// Most spans in a packet: more than fit the largest datagram that we send.
const MOST_SPANS: usize = 10_000;
/// The bit that marks a key as the receiver's (RTN).
const RETURNED: u64 = 1 << 63;
/// Version 4.0 is 1 on the wire.
const VERSION: u8 = 1;
const FORMAT: u8 = 0x1f;
/// Where the checksum stands.
const CHECK: usize = 16;
