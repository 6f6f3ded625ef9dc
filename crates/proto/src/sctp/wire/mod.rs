//! Packet formats of SCTP (RFC 9260 §3, RFC 3758, RFC 8260), without state or time.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                       verification tag                        |
//! +---------------------------------------------------------------+
//! |            CRC-32c, least significant byte first              |
//! +---------------+---------------+-------------------------------+
//! |  chunk type   |  chunk flags  | length, without the padding   |  once or more,
//! +---------------+---------------+-------------------------------+  each padded with
//! |                             value …                           |  zeros to 4 bytes
//! ```

pub mod chunks;
pub mod init;
pub mod writer;

/// Bytes of the common header.
pub const HEADER: usize = 12;
/// Bytes of the header of a chunk, a parameter or an error cause.
pub const TLV: usize = 4;

/// Chunk types (RFC 9260 §3.2; 64, 192 and 194: RFC 8260 and RFC 3758).
pub mod chunk {
    pub const DATA: u8 = 0;
    pub const INIT: u8 = 1;
    pub const INIT_ACK: u8 = 2;
    pub const SACK: u8 = 3;
    pub const HEARTBEAT: u8 = 4;
    pub const HEARTBEAT_ACK: u8 = 5;
    pub const ABORT: u8 = 6;
    pub const SHUTDOWN: u8 = 7;
    pub const SHUTDOWN_ACK: u8 = 8;
    pub const ERROR: u8 = 9;
    pub const COOKIE_ECHO: u8 = 10;
    pub const COOKIE_ACK: u8 = 11;
    /// Reserved by RFC 9260; some stacks still send them.
    pub const ECNE: u8 = 12;
    pub const CWR: u8 = 13;
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    pub const I_DATA: u8 = 64;
    /// RFC 4820 §3: ignored by every receiver.
    pub const PAD: u8 = 132;
    pub const FORWARD_TSN: u8 = 192;
    pub const I_FORWARD_TSN: u8 = 194;
}

/// Error causes (RFC 9260 §3.3.10).
pub mod cause {
    pub const INVALID_STREAM: u16 = 1;
    pub const STALE_COOKIE: u16 = 3;
    pub const OUT_OF_RESOURCE: u16 = 4;
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    pub const UNRECOGNISED_CHUNK: u16 = 6;
    pub const INVALID_PARAMETER: u16 = 7;
    pub const UNRECOGNISED_PARAMETERS: u16 = 8;
    pub const NO_USER_DATA: u16 = 9;
    pub const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
    pub const USER_ABORT: u16 = 12;
    pub const PROTOCOL_VIOLATION: u16 = 13;
}

/// The verification tag in this ABORT or SHUTDOWN COMPLETE is copied from the packet it answers, since there is no
/// association with a tag of its own (RFC 9260 §8.5.1).
pub const REFLECTED: u8 = 1;

/// The common header, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub source: u16,
    pub destination: u16,
    pub tag: u32,
}

impl Header {
    /// The header of an answer to this packet.
    pub fn back(self, tag: u32) -> Header {
        Header { source: self.destination, destination: self.source, tag }
    }
}

/// A chunk of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    pub kind: u8,
    pub flags: u8,
    pub value: &'a [u8],
    /// Header and value, without padding.
    pub whole: &'a [u8],
}

/// The chunks of a packet, in order.
#[derive(Clone, Debug)]
pub struct Chunks<'a>(Tlvs<'a>);

/// Parameters of a chunk or causes of an error, in order: types and values.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

/// Parses a packet with a valid checksum into header and chunks.
pub fn parse(packet: &[u8]) -> Option<(Header, Chunks<'_>)> {
    let header = header(packet).filter(|_| checksum_holds(packet))?;
    Some((header, chunks_of(packet)))
}

/// The chunks of a packet that is at least as long as the common header; the checksum is not verified.
pub fn chunks_of(packet: &[u8]) -> Chunks<'_> {
    Chunks(Tlvs { rest: &packet[HEADER..] })
}

/// The common header of a packet, if it is long enough for one and a chunk; the checksum is not verified.
pub fn header(packet: &[u8]) -> Option<Header> {
    if packet.len() < HEADER + TLV {
        return None;
    }
    Some(Header { source: word16(packet, 0), destination: word16(packet, 2), tag: word32(packet, 4) })
}

impl<'a> Chunks<'a> {
    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.0.rest
    }

    /// Whether bytes are left that form no chunk: a packet must end after its last chunk.
    pub fn is_broken(&self) -> bool {
        !self.0.rest.is_empty() && take(self.0.rest).is_none()
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (kind, value, whole) = self.0.next()?;
        Some(Chunk { kind: (kind >> 8) as u8, flags: kind as u8, value, whole })
    }
}

impl<'a> Tlvs<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Tlvs { rest }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    /// Type, value, and header and value.
    type Item = (u16, &'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, len) = take(self.rest)?;
        let whole = &self.rest[..len];
        // The last chunk's padding may be missing: a receiver accepts that (RFC 9260 §3.2, "chunk length").
        self.rest = &self.rest[len.next_multiple_of(4).min(self.rest.len())..];
        Some((kind, &whole[TLV..], whole))
    }
}

/// Type and length of the chunk, parameter or cause at the start of `bytes`, if it is complete.
fn take(bytes: &[u8]) -> Option<(u16, usize)> {
    if bytes.len() < TLV {
        return None;
    }
    let len = usize::from(word16(bytes, 2));
    (len >= TLV && len <= bytes.len()).then(|| (word16(bytes, 0), len))
}

pub fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes the checksum into a packet.
fn seal(packet: &mut [u8]) {
    let crc = checksum_of(packet);
    packet[8..HEADER].copy_from_slice(&crc.to_le_bytes());
}

fn checksum_holds(packet: &[u8]) -> bool {
    packet.len() >= HEADER && packet[8..HEADER] == checksum_of(packet).to_le_bytes()
}

/// CRC-32c (RFC 9260 appendix A) over a packet, its checksum taken as zero. Computed by a library with the processor's
/// instructions: with our own tables, four checksums took a twelfth of a round trip.
fn checksum_of(packet: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&packet[..8]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &packet[HEADER..])
}

#[cfg(test)]
mod tests;
