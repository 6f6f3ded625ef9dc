//! Chunks of an established association, each with its bit diagram; [`super::init`] has those of the handshake.

use antiphon_core::Seq32;

use super::{Chunk, chunk, word16, word32};

/// Bytes of a DATA chunk before its payload (RFC 9260 §3.3.1).
pub const DATA_HEADER: usize = 16;
/// Bytes of an I-DATA chunk before its payload (RFC 8260 §2.1).
pub const I_DATA_HEADER: usize = 20;
/// Bytes of a SACK without gaps and duplicates (RFC 9260 §3.3.4).
pub const SACK_HEADER: usize = 16;

const IMMEDIATE: u8 = 8;
const UNORDERED: u8 = 4;
const BEGIN: u8 = 2;
const END: u8 = 1;

/// The header fields of a DATA or I-DATA chunk.
///
/// ```text
/// DATA, 0                                       I-DATA, 64
/// | type | 0000IUBE | length |                  | type | 0000IUBE | length |
/// | TSN                      |                  | TSN                      |
/// | stream     | SSN         |                  | stream     | reserved    |
/// | PPID                     |                  | MID                      |
/// | payload …                                   | PPID if B, else FSN      |
///                                               | payload …
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    pub interleaved: bool,
    pub tsn: Seq32,
    pub stream: u16,
    /// SSN of DATA, MID of I-DATA.
    pub number: u32,
    /// FSN of I-DATA; 0 in its first fragment and in DATA.
    pub fragment: u32,
    pub ppid: u32,
    pub unordered: bool,
    pub begin: bool,
    pub end: bool,
    /// The sender asks for a SACK at once (RFC 7053).
    pub immediate: bool,
}

impl DataHeader {
    /// Parses a DATA or I-DATA chunk into header and payload, which may be empty (a protocol violation of the peer).
    pub fn parse<'a>(chunk: &Chunk<'a>) -> Option<(DataHeader, &'a [u8])> {
        let value = chunk.value;
        let interleaved = chunk.kind == chunk::I_DATA;
        if value.len() < DataHeader::len(interleaved) - super::TLV {
            return None;
        }
        let flag = |bit| chunk.flags & bit != 0;
        let (number, fragment, ppid) = match (interleaved, flag(BEGIN)) {
            (false, _) => (u32::from(word16(value, 6)), 0, word32(value, 8)),
            (true, true) => (word32(value, 8), 0, word32(value, 12)),
            (true, false) => (word32(value, 8), word32(value, 12), 0),
        };
        let header = DataHeader {
            interleaved,
            tsn: Seq32(word32(value, 0)),
            stream: word16(value, 4),
            number,
            fragment,
            ppid,
            unordered: flag(UNORDERED),
            begin: flag(BEGIN),
            end: flag(END),
            immediate: flag(IMMEDIATE),
        };
        Some((header, &value[DataHeader::len(interleaved) - super::TLV..]))
    }

    /// Bytes before the payload.
    pub fn len(interleaved: bool) -> usize {
        if interleaved { I_DATA_HEADER } else { DATA_HEADER }
    }

    /// Chunk type, flags, and the bytes between the chunk's header and the payload, with their number.
    pub(super) fn emit(&self) -> (u8, u8, [u8; 16], usize) {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = bit(self.immediate, IMMEDIATE)
            | bit(self.unordered, UNORDERED)
            | bit(self.begin, BEGIN)
            | bit(self.end, END);
        let mut value = [0; 16];
        value[..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        value[4..6].copy_from_slice(&self.stream.to_be_bytes());
        if !self.interleaved {
            value[6..8].copy_from_slice(&(self.number as u16).to_be_bytes());
            value[8..12].copy_from_slice(&self.ppid.to_be_bytes());
            return (chunk::DATA, flags, value, 12);
        }
        value[8..12].copy_from_slice(&self.number.to_be_bytes());
        let last = if self.begin { self.ppid } else { self.fragment };
        value[12..].copy_from_slice(&last.to_be_bytes());
        (chunk::I_DATA, flags, value, 16)
    }
}

/// A selective acknowledgement (RFC 9260 §3.3.4).
///
/// ```text
/// | 3 | flags | length           |
/// | cumulative TSN               |
/// | a_rwnd                       |
/// | gap blocks n  | duplicates m |
/// | start  | end of a gap block  |  n times, counted from the cumulative TSN
/// | duplicate TSN                |  m times
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sack<'a> {
    pub cumulative: Seq32,
    pub window: u32,
    gaps: &'a [u8],
    duplicates: &'a [u8],
}

impl<'a> Sack<'a> {
    pub fn parse(value: &'a [u8]) -> Option<Sack<'a>> {
        if value.len() < SACK_HEADER - super::TLV {
            return None;
        }
        let (gaps, duplicates) = (usize::from(word16(value, 8)) * 4, usize::from(word16(value, 10)) * 4);
        let lists = &value[12..];
        if lists.len() != gaps + duplicates {
            return None;
        }
        Some(Sack {
            cumulative: Seq32(word32(value, 0)),
            window: word32(value, 4),
            gaps: &lists[..gaps],
            duplicates: &lists[gaps..],
        })
    }

    /// The gap blocks, first and last of each, counted from the cumulative TSN; in any order, as sent.
    pub fn gaps(&self) -> impl Iterator<Item = (u16, u16)> + use<'a> {
        self.gaps.chunks_exact(4).map(|gap| (word16(gap, 0), word16(gap, 2)))
    }

    /// TSNs received more than once.
    pub fn duplicates(&self) -> impl Iterator<Item = Seq32> + use<'a> {
        self.duplicates.chunks_exact(4).map(|tsn| Seq32(word32(tsn, 0)))
    }
}

/// The sender has given up everything up to this TSN (RFC 3758 §3.2, RFC 8260 §2.3.1).
///
/// ```text
/// FORWARD TSN, 192                              I-FORWARD TSN, 194
/// | type | flags | length |                     | type | flags | length |
/// | new cumulative TSN    |                     | new cumulative TSN    |
/// | stream  | SSN         |  each skipped       | stream  | reserved  U |  each skipped
/// |                                             | MID                   |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardTsn<'a> {
    pub cumulative: Seq32,
    interleaved: bool,
    skipped: &'a [u8],
}

/// The last skipped message of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub stream: u16,
    pub unordered: bool,
    /// SSN or MID.
    pub number: u32,
}

impl<'a> ForwardTsn<'a> {
    pub fn parse(chunk: &Chunk<'a>) -> Option<ForwardTsn<'a>> {
        let interleaved = chunk.kind == chunk::I_FORWARD_TSN;
        let skipped = chunk.value.get(4..)?;
        let whole = skipped.len().is_multiple_of(ForwardTsn::entry_len(interleaved));
        whole.then(|| ForwardTsn { cumulative: Seq32(word32(chunk.value, 0)), interleaved, skipped })
    }

    /// Bytes of an entry.
    pub fn entry_len(interleaved: bool) -> usize {
        if interleaved { 8 } else { 4 }
    }

    pub fn skipped(&self) -> impl Iterator<Item = Skipped> + use<'a> {
        let interleaved = self.interleaved;
        self.skipped.chunks_exact(ForwardTsn::entry_len(interleaved)).map(move |entry| {
            let (stream, second) = (word16(entry, 0), word16(entry, 2));
            match interleaved {
                false => Skipped { stream, unordered: false, number: u32::from(second) },
                true => Skipped { stream, unordered: second & 1 == 1, number: word32(entry, 4) },
            }
        })
    }
}

impl Skipped {
    pub(super) fn emit(&self, interleaved: bool) -> ([u8; 8], usize) {
        let mut entry = [0; 8];
        entry[..2].copy_from_slice(&self.stream.to_be_bytes());
        if !interleaved {
            entry[2..4].copy_from_slice(&(self.number as u16).to_be_bytes());
            return (entry, 4);
        }
        entry[2..4].copy_from_slice(&u16::from(self.unordered).to_be_bytes());
        entry[4..].copy_from_slice(&self.number.to_be_bytes());
        (entry, 8)
    }
}

/// How to handle a chunk or parameter of unknown type, by its two highest bits (RFC 9260 §3.2, §3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// Continue with the next one.
    pub skip: bool,
    /// Report it to the peer.
    pub report: bool,
}

impl Unknown {
    pub fn chunk(kind: u8) -> Unknown {
        Unknown { skip: kind & 0x80 != 0, report: kind & 0x40 != 0 }
    }

    pub fn parameter(kind: u16) -> Unknown {
        Unknown::chunk((kind >> 8) as u8)
    }
}
