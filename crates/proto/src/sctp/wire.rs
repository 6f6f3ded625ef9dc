//! What this house must read and write of SCTP packets itself (RFC 9260 §3): the common header, the walk over chunks,
//! the parameters of INIT and INIT ACK, and the checksum. Data and acknowledgements are the library's business.
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

/// Bytes of the common header.
pub(super) const HEADER: usize = 12;
/// Bytes of a chunk's or a parameter's header.
const TLV: usize = 4;
/// Bytes of INIT and INIT ACK before their parameters: tag, window, two numbers of streams, first TSN.
const INIT_FIXED: usize = 16;

/// Chunk types that mean something to this layer (RFC 9260 §3.2).
pub(super) mod chunk {
    pub const INIT: u8 = 1;
    pub const INIT_ACK: u8 = 2;
    pub const ABORT: u8 = 6;
    pub const SHUTDOWN_ACK: u8 = 8;
    pub const ERROR: u8 = 9;
    pub const COOKIE_ECHO: u8 = 10;
    pub const COOKIE_ACK: u8 = 11;
    pub const SHUTDOWN_COMPLETE: u8 = 14;
}

/// The state cookie among the parameters (RFC 9260 §3.3.3.1).
const STATE_COOKIE: u16 = 7;
/// Padding, skipped by who does not know it (RFC 4820 §4).
const PADDING: u16 = 0x8005;
/// Error cause: the cookie was good once (RFC 9260 §3.3.10.3).
const STALE_COOKIE: u16 = 3;
/// The verification tag in this ABORT or SHUTDOWN COMPLETE is the one that the receiver of it had put in its own
/// packet, since there is no association to know a better one (RFC 9260 §8.5.1).
const REFLECTED: u8 = 1;

/// The common header, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub source: u16,
    pub destination: u16,
    pub tag: u32,
}

/// A chunk, or a parameter of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tlv<'a> {
    /// Type and flags of a chunk; the type of a parameter.
    kind: u16,
    value: &'a [u8],
    /// All of it with its padding.
    whole: &'a [u8],
}

/// The first chunk of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct First<'a> {
    pub header: Header,
    pub kind: u8,
    pub value: &'a [u8],
    /// The chunks behind it.
    pub rest: &'a [u8],
}

/// The common header of a packet, if it is long enough for one and a chunk.
pub(super) fn header(packet: &[u8]) -> Option<Header> {
    if packet.len() < HEADER + TLV {
        return None;
    }
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let tag = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
    Some(Header { source: word(0), destination: word(2), tag })
}

/// The type of the first chunk, unchecked; `None` when the packet is too short for one.
pub(super) fn first_kind(packet: &[u8]) -> Option<u8> {
    header(packet).map(|_| packet[HEADER])
}

/// The first chunk of a packet whose checksum holds.
pub(super) fn first_chunk(packet: &[u8]) -> Option<First<'_>> {
    let header = header(packet).filter(|_| checksum_holds(packet))?;
    let chunk = take_tlv(&packet[HEADER..])?;
    let rest = &packet[HEADER + chunk.whole.len()..];
    Some(First { header, kind: (chunk.kind >> 8) as u8, value: chunk.value, rest })
}

/// The first chunk or parameter of `bytes`.
fn take_tlv(bytes: &[u8]) -> Option<Tlv<'_>> {
    if bytes.len() < TLV {
        return None;
    }
    let kind = u16::from_be_bytes([bytes[0], bytes[1]]);
    let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    // The last one's padding may be missing: a receiver takes that (RFC 9260 §3.2, "chunk length").
    let whole = len.next_multiple_of(4).min(bytes.len());
    (len >= TLV && len <= bytes.len()).then(|| Tlv { kind, value: &bytes[TLV..len], whole: &bytes[..whole] })
}

/// Replaces the state cookie of an INIT ACK by what `seal` makes of it; `false` when there is none.
pub(super) fn replace_cookie_of_init_ack(
    packet: &mut Vec<u8>,
    seal: impl FnOnce(&[u8]) -> Option<[u8; SEALED]>,
) -> bool {
    let Some(value) =
        first_chunk(packet).filter(|first| first.kind == chunk::INIT_ACK).map(|first| first.value)
    else {
        return false;
    };
    let Some(mut parameters) = value.get(INIT_FIXED..) else { return false };
    let mut at = HEADER + TLV + INIT_FIXED;
    while let Some(parameter) = take_tlv(parameters) {
        if parameter.kind == STATE_COOKIE {
            let (old, sealed) = (parameter.whole.len(), seal(parameter.value));
            let Some(sealed) = sealed else { return false };
            let mut new = [0; TLV + SEALED];
            new[..2].copy_from_slice(&STATE_COOKIE.to_be_bytes());
            new[2..4].copy_from_slice(&((TLV + SEALED) as u16).to_be_bytes());
            new[TLV..].copy_from_slice(&sealed);
            packet.splice(at..at + old, new);
            finish_only_chunk(packet);
            return true;
        }
        at += parameter.whole.len();
        parameters = &parameters[parameter.whole.len()..];
    }
    false
}

/// Writes into `out` a COOKIE ECHO packet as `first` is one, with another cookie.
pub(super) fn echo_with_cookie(first: &First<'_>, cookie: &[u8], out: &mut Vec<u8>) {
    out.clear();
    put_header(out, first.header);
    put_chunk(out, chunk::COOKIE_ECHO, 0, cookie);
    out.extend_from_slice(first.rest);
    write_checksum(out);
}

/// Pads an INIT with a parameter that everybody skips, so that the answer to it is no larger than the question.
pub(super) fn pad_init(packet: &mut Vec<u8>, to: usize) {
    let missing = to.saturating_sub(packet.len()).next_multiple_of(4);
    if first_kind(packet) != Some(chunk::INIT) || missing == 0 {
        return;
    }
    packet.extend_from_slice(&PADDING.to_be_bytes());
    packet.extend_from_slice(&(missing as u16).to_be_bytes());
    packet.resize(packet.len() + missing - TLV, 0);
    finish_only_chunk(packet);
}

/// An answer to a packet that belongs to no association (RFC 9260 §8.4); `None` where silence is the answer.
pub(super) fn answer_out_of_the_blue(first: &First<'_>, out: &mut Vec<u8>) -> bool {
    let kind = match first.kind {
        chunk::ABORT | chunk::SHUTDOWN_COMPLETE | chunk::ERROR | chunk::COOKIE_ACK => return false,
        chunk::INIT | chunk::INIT_ACK => return false,
        chunk::SHUTDOWN_ACK => chunk::SHUTDOWN_COMPLETE,
        _ => chunk::ABORT,
    };
    out.clear();
    put_header(out, back(first.header, first.header.tag));
    put_chunk(out, kind, REFLECTED, &[]);
    write_checksum(out);
    true
}

/// An ERROR that tells by how many microseconds a cookie was too old.
pub(super) fn stale_cookie_error(first: &First<'_>, peer_tag: u32, staleness_us: u32, out: &mut Vec<u8>) {
    let mut cause = [0; 8];
    cause[..2].copy_from_slice(&STALE_COOKIE.to_be_bytes());
    cause[2..4].copy_from_slice(&8u16.to_be_bytes());
    cause[4..].copy_from_slice(&staleness_us.to_be_bytes());
    out.clear();
    put_header(out, back(first.header, peer_tag));
    put_chunk(out, chunk::ERROR, 0, &cause);
    write_checksum(out);
}

fn back(header: Header, tag: u32) -> Header {
    Header { source: header.destination, destination: header.source, tag }
}

fn put_header(out: &mut Vec<u8>, header: Header) {
    out.extend_from_slice(&header.source.to_be_bytes());
    out.extend_from_slice(&header.destination.to_be_bytes());
    out.extend_from_slice(&header.tag.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
}

fn put_chunk(out: &mut Vec<u8>, kind: u8, flags: u8, value: &[u8]) {
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&((TLV + value.len()) as u16).to_be_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Sets length and checksum of a packet of one chunk.
fn finish_only_chunk(packet: &mut [u8]) {
    let len = (packet.len() - HEADER) as u16;
    packet[HEADER + 2..HEADER + 4].copy_from_slice(&len.to_be_bytes());
    write_checksum(packet);
}

fn write_checksum(packet: &mut [u8]) {
    let crc = checksum_of(packet);
    packet[8..HEADER].copy_from_slice(&crc.to_le_bytes());
}

fn checksum_holds(packet: &[u8]) -> bool {
    packet.len() >= HEADER && packet[8..HEADER] == checksum_of(packet).to_le_bytes()
}

/// CRC-32c over a packet with its checksum taken as zero.
fn checksum_of(packet: &[u8]) -> u32 {
    let crc = update(u32::MAX, &packet[..8]);
    let crc = update(crc, &[0; 4]);
    !update(crc, &packet[HEADER..])
}

fn update(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| (crc >> 8) ^ CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

/// Castagnoli's polynomial 0x1EDC6F41, reflected (RFC 9260 appendix A).
const POLYNOMIAL: u32 = 0x82f6_3b78;

static CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

/// Bytes of a sealed cookie (`cookie.rs`).
pub(super) const SEALED: usize = 64;
/// Bytes of our INIT ACK, and so what our INIT is padded to: headers and fixed part, the cookie, partial reliability,
/// and the list of up to four extensions.
pub(super) const GREETING: usize = HEADER + TLV + INIT_FIXED + TLV + SEALED + TLV + TLV + 4;

#[cfg(test)]
mod tests;
