//! RTCP packets on the wire: written into lent buffers, read from unknown sources, nothing allocated.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|  count  |  packet type  |  length in words less one     |
//! +---+-+---------+---------------+-------------------------------+
//! |                     SSRC of packet sender                     |
//! +---------------------------------------------------------------+
//! ```

use antiphon_core::NtpTime;

use super::extended::{self, NominalDelay};
use super::summary::{self, GroupSize};

/// The part of a sender report about its sender (RFC 3550 §6.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderInfo {
    /// Wall time of the report.
    pub ntp: NtpTime,
    /// The same instant on the stream's media clock.
    pub rtp_timestamp: u32,
    /// RTP packets sent so far, wrapping.
    pub packets: u32,
    /// Octets of payload sent so far, wrapping.
    pub octets: u32,
}

impl SenderInfo {
    fn words(&self) -> [u32; 5] {
        let ntp = self.ntp.to_bits();
        [(ntp >> 32) as u32, ntp as u32, self.rtp_timestamp, self.packets, self.octets]
    }
}

/// How one source is received (RFC 3550 §6.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportBlock {
    /// The source.
    pub ssrc: u32,
    /// Share of packets lost since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost in all, 24 bits, negative when there were more duplicates than losses.
    pub cumulative_lost: i32,
    /// Cycles and highest sequence number.
    pub highest_sequence: u32,
    /// Interarrival jitter in time stamp units.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time of the last sender report; 0 for none yet.
    pub last_sr: u32,
    /// Time since that report arrived, in 1/65536 s.
    pub delay_since_last_sr: u32,
}

impl ReportBlock {
    fn words(&self) -> [u32; 6] {
        let lost = self.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
        let lost = u32::from(self.fraction_lost) << 24 | lost;
        [self.ssrc, lost, self.highest_sequence, self.jitter, self.last_sr, self.delay_since_last_sr]
    }
}

/// One item of a compound packet.
#[derive(Clone, Copy, Debug)]
pub enum RtcpItem<'a> {
    /// A sender report.
    Sender {
        /// The sender of the report.
        ssrc: u32,
        /// Sender information.
        info: SenderInfo,
        /// Report blocks.
        blocks: ReportBlocks<'a>,
    },
    /// A receiver report.
    Receiver {
        /// The sender of the report.
        ssrc: u32,
        /// Report blocks.
        blocks: ReportBlocks<'a>,
    },
    /// The permanent name of a source (SDES CNAME, RFC 3550 §6.5.1).
    Cname {
        /// The source.
        ssrc: u32,
        /// Its name: UTF-8 if the peer follows the RFC.
        name: &'a [u8],
    },
    /// A source leaves.
    Bye {
        /// The source.
        ssrc: u32,
    },
    /// How long a receiver buffers packets (XR, RFC 7005).
    Buffered {
        /// The sender.
        ssrc: u32,
        /// Its contents.
        told: NominalDelay,
    },
    /// How large a group is (RSI, RFC 5760).
    Group {
        /// Its sender.
        ssrc: u32,
        /// The size.
        size: GroupSize,
    },
    /// Anything else, such as feedback or other extended reports.
    Other {
        /// 192 to 223.
        packet_type: u8,
        /// The packet, header included.
        bytes: &'a [u8],
    },
}

/// The report blocks of a report.
#[derive(Clone, Copy, Debug)]
pub struct ReportBlocks<'a>(&'a [u8]);

impl Iterator for ReportBlocks<'_> {
    type Item = ReportBlock;

    fn next(&mut self) -> Option<ReportBlock> {
        let (block, rest) = self.0.split_at_checked(BLOCK)?;
        self.0 = rest;
        let lost = u32_at(block, 4);
        Some(ReportBlock {
            ssrc: u32_at(block, 0),
            fraction_lost: (lost >> 24) as u8,
            // The arithmetic shift extends the sign from the 24th bit.
            cumulative_lost: ((lost << 8) as i32) >> 8,
            highest_sequence: u32_at(block, 8),
            jitter: u32_at(block, 12),
            last_sr: u32_at(block, 16),
            delay_since_last_sr: u32_at(block, 20),
        })
    }
}

/// Why bytes are not a compound packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// A length does not fit the packet.
    #[error("an RTCP packet of {actual} bytes does not fit its length of {expected}")]
    Length {
        /// Bytes that its header or count requires.
        expected: usize,
        /// Bytes received.
        actual: usize,
    },
    /// Not version 2.
    #[error("unsupported RTCP version {version}: the peer must use version 2")]
    Version {
        /// The version in the packet.
        version: u8,
    },
    /// Not an RTCP packet type.
    #[error("{packet_type} is not an RTCP packet type")]
    Type {
        /// The type in the packet.
        packet_type: u8,
    },
    /// Padding where it is not permitted, or more than the packet has bytes.
    #[error("invalid RTCP padding")]
    Padding,
}

/// Reads a compound packet: checks all of it first (RFC 3550 A.2), then lends each of its items to `each`.
///
/// Departs from A.2: the first packet need not be a report, so reduced-size packets (RFC 5506) are accepted.
pub fn visit_compound<'a>(bytes: &'a [u8], mut each: impl FnMut(RtcpItem<'a>)) -> Result<(), RtcpError> {
    if bytes.is_empty() {
        return Err(RtcpError::Length { expected: HEADER, actual: 0 });
    }
    for check_only in [true, false] {
        let mut rest = bytes;
        while !rest.is_empty() {
            let First { packet, body, after } = split(rest)?;
            visit_packet(packet, body, &mut |item| {
                if !check_only {
                    each(item);
                }
            })?;
            rest = after;
        }
    }
    Ok(())
}

/// The first packet of a compound.
struct First<'a> {
    packet: &'a [u8],
    /// The bytes after the header, without padding.
    body: &'a [u8],
    after: &'a [u8],
}

fn split(bytes: &[u8]) -> Result<First<'_>, RtcpError> {
    let short = |expected| RtcpError::Length { expected, actual: bytes.len() };
    let header = bytes.get(..HEADER).ok_or(short(HEADER))?;
    let (version, packet_type) = (header[0] >> 6, header[1]);
    if version != 2 {
        return Err(RtcpError::Version { version });
    }
    if !(192..=223).contains(&packet_type) {
        return Err(RtcpError::Type { packet_type });
    }
    let len = 4 * (usize::from(u16::from_be_bytes([header[2], header[3]])) + 1);
    let (packet, after) = bytes.split_at_checked(len).ok_or(short(len))?;
    let mut body = &packet[HEADER..];
    if header[0] & 0x20 != 0 {
        // Only the last packet may be padded, by whole words (RFC 3550 §6.4.1).
        let padding = usize::from(packet[len - 1]);
        if !after.is_empty() || padding == 0 || !padding.is_multiple_of(4) || padding > body.len() {
            return Err(RtcpError::Padding);
        }
        body = &body[..body.len() - padding];
    }
    Ok(First { packet, body, after })
}

fn visit_packet<'a>(
    packet: &'a [u8],
    body: &'a [u8],
    each: &mut impl FnMut(RtcpItem<'a>),
) -> Result<(), RtcpError> {
    let count = usize::from(packet[0] & 31);
    let need = |expected: usize| match body.len() >= expected {
        true => Ok(()),
        false => Err(RtcpError::Length { expected: HEADER + expected, actual: packet.len() }),
    };
    match packet[1] {
        SENDER_REPORT => {
            need(24 + count * BLOCK)?;
            let info = SenderInfo {
                ntp: NtpTime::from_bits(u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8))),
                rtp_timestamp: u32_at(body, 12),
                packets: u32_at(body, 16),
                octets: u32_at(body, 20),
            };
            let blocks = ReportBlocks(&body[24..24 + count * BLOCK]);
            each(RtcpItem::Sender { ssrc: u32_at(body, 0), info, blocks });
        }
        RECEIVER_REPORT => {
            need(4 + count * BLOCK)?;
            let blocks = ReportBlocks(&body[4..4 + count * BLOCK]);
            each(RtcpItem::Receiver { ssrc: u32_at(body, 0), blocks });
        }
        SOURCE_DESCRIPTION => visit_chunks(body, count, packet.len(), each)?,
        GOODBYE => {
            need(count * 4)?;
            body.chunks_exact(4).take(count).for_each(|ssrc| each(RtcpItem::Bye { ssrc: u32_at(ssrc, 0) }));
        }
        EXTENDED_REPORT if body.len() >= 4 => {
            let ssrc = u32_at(body, 0);
            extended::read(body).for_each(|told| each(RtcpItem::Buffered { ssrc, told }));
        }
        SUMMARY if body.len() >= 4 => {
            if let Some(size) = summary::read(body) {
                each(RtcpItem::Group { ssrc: u32_at(body, 0), size });
            }
        }
        packet_type => each(RtcpItem::Other { packet_type, bytes: packet }),
    }
    Ok(())
}

/// Walks the chunks of a source description: SSRC, items of type, length and text, then zeros to the next word.
fn visit_chunks<'a>(
    body: &'a [u8],
    count: usize,
    actual: usize,
    each: &mut impl FnMut(RtcpItem<'a>),
) -> Result<(), RtcpError> {
    let short = |at: usize| RtcpError::Length { expected: HEADER + at, actual };
    let mut at = 0;
    for _ in 0..count {
        let chunk = body.get(at..at + 4).ok_or(short(at + 4))?;
        let ssrc = u32_at(chunk, 0);
        at += 4;
        loop {
            match *body.get(at).ok_or(short(at + 1))? {
                0 => break,
                kind => {
                    let len = usize::from(*body.get(at + 1).ok_or(short(at + 2))?);
                    let name = body.get(at + 2..at + 2 + len).ok_or(short(at + 2 + len))?;
                    if kind == CNAME {
                        each(RtcpItem::Cname { ssrc, name });
                    }
                    at += 2 + len;
                }
            }
        }
        at = (at + 1).next_multiple_of(4);
    }
    Ok(())
}

/// Writes a sender report, or without `info` a receiver report, with up to 31 blocks. Returns the bytes written, or
/// `None` if `buf` is too small.
pub fn write_report(
    ssrc: u32,
    info: Option<&SenderInfo>,
    blocks: &[ReportBlock],
    buf: &mut [u8],
) -> Option<usize> {
    let blocks = &blocks[..blocks.len().min(31)];
    let kind = if info.is_some() { SENDER_REPORT } else { RECEIVER_REPORT };
    let words = std::iter::once(ssrc).chain(info.into_iter().flat_map(SenderInfo::words));
    write_words(buf, kind, blocks.len(), words.chain(blocks.iter().flat_map(ReportBlock::words)))
}

/// Writes a source description with the CNAME alone, cut to 255 bytes.
pub fn write_cname(ssrc: u32, name: &str, buf: &mut [u8]) -> Option<usize> {
    let name = &name[..name.floor_char_boundary(255)];
    // SSRC, item header, text, at least one zero to end the list, whole words.
    let len = HEADER + (4 + 2 + name.len() + 1).next_multiple_of(4);
    let buf = buf.get_mut(..len)?;
    buf.fill(0);
    write_header(buf, SOURCE_DESCRIPTION, 1);
    buf[4..8].copy_from_slice(&ssrc.to_be_bytes());
    buf[8..10].copy_from_slice(&[CNAME, name.len() as u8]);
    buf[10..10 + name.len()].copy_from_slice(name.as_bytes());
    Some(len)
}

/// Writes a BYE for one source.
pub fn write_bye(ssrc: u32, buf: &mut [u8]) -> Option<usize> {
    write_words(buf, GOODBYE, 1, [ssrc])
}

/// Writes an extended report on how long packets of a source are buffered (RFC 7005).
pub fn write_nominal_delay(ssrc: u32, told: NominalDelay, buf: &mut [u8]) -> Option<usize> {
    write_words(buf, EXTENDED_REPORT, 0, extended::words(ssrc, told))
}

/// Writes a receiver summary of `ssrc`'s stream with the size of its group (RFC 5760).
pub fn write_group_size(ssrc: u32, ntp: NtpTime, size: GroupSize, buf: &mut [u8]) -> Option<usize> {
    write_words(buf, SUMMARY, 0, summary::words(ssrc, ntp, size))
}

/// Writes an application-defined packet (RFC 3550 §6.7) of these words after its name.
pub(super) fn write_app(
    buf: &mut [u8],
    subtype: u8,
    ssrc: u32,
    name: [u8; 4],
    words: impl IntoIterator<Item = u32>,
) -> Option<usize> {
    write_words(buf, APP, subtype.into(), [ssrc, u32::from_be_bytes(name)].into_iter().chain(words))
}

/// The subtype and SSRC of an application-defined packet of that name, which is all of `bytes` and has no padding, and
/// what follows its name.
pub(super) fn read_app(bytes: &[u8], name: [u8; 4]) -> Option<(u8, u32, &[u8])> {
    let (header, data) = bytes.split_first_chunk::<12>()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let subtype = header[0] ^ VERSION;
    let fits = subtype < 32 && header[1] == APP && bytes.len() == 4 * (length + 1) && header[8..] == name;
    fits.then(|| (subtype, u32_at(header, 4), data))
}

/// Writes a packet of these words after its header; returns its length, or `None` if `buf` is too small.
fn write_words(
    buf: &mut [u8],
    packet_type: u8,
    count: usize,
    words: impl IntoIterator<Item = u32>,
) -> Option<usize> {
    let mut len = HEADER;
    for word in words {
        buf.get_mut(len..len + 4)?.copy_from_slice(&word.to_be_bytes());
        len += 4;
    }
    write_header(&mut buf[..len], packet_type, count);
    Some(len)
}

/// Writes the header of the packet that fills `packet`.
pub(super) fn write_header(packet: &mut [u8], packet_type: u8, count: usize) {
    let words = (packet.len() / 4 - 1) as u16;
    packet[..2].copy_from_slice(&[VERSION | count as u8, packet_type]);
    packet[2..HEADER].copy_from_slice(&words.to_be_bytes());
}

/// The word at `at`; callers have checked that it exists.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const HEADER: usize = 4;
const BLOCK: usize = 24;
/// Version 2, no padding (§6.4.1).
const VERSION: u8 = 0x80;
// RFC 3550 §12.1 and §12.2.
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
const APP: u8 = 204;
// RFC 3611 §2.
const EXTENDED_REPORT: u8 = 207;
/// Receiver summary information (RFC 5760 §7.1.1).
const SUMMARY: u8 = 209;
const CNAME: u8 = 1;

#[cfg(test)]
mod tests;
