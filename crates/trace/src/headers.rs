//! IP, UDP and TCP headers around bytes carried by a socket or a modelled link.
//!
//! Sockets and links do not provide headers, so these are made up: addresses, ports, lengths and checksums are correct;
//! TTL, DSCP and identification have no meaning.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Fields of a TCP header besides the ports (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first byte, or of the SYN or FIN.
    pub seq: u32,
    /// The next sequence number expected from the other side; zero without [`flag::ACK`].
    pub ack: u32,
    /// Flags from [`flag`].
    pub flags: u8,
    /// The value in the header: without the window scale applied.
    pub window: u16,
    /// Options, padded to whole 32-bit words; 40 bytes at most.
    pub options: &'a [u8],
}

/// Why no packet was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// Too long for the length field of an IP packet.
    #[error("{len} bytes do not fit into an IP packet, which takes {max}; split them")]
    TooLong {
        /// Bytes of payload, with the TCP header if there is one.
        len: usize,
        /// Bytes available after the IP header.
        max: usize,
    },
    /// TCP options must be whole words and fit into the header.
    #[error("{len} bytes of TCP options; they must be a multiple of 4, and 40 at most")]
    Options {
        /// Bytes of options.
        len: usize,
    },
}

/// Flags of a TCP header (RFC 9293 §3.1).
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// The beginning of the stream.
    pub const SYN: u8 = 0x02;
    /// The connection is reset.
    pub const RST: u8 = 0x04;
    /// To be passed to the application at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
}

/// Writes a UDP packet into `out`, replacing its content.
///
/// ```text
///  0      7 8     15 16    23 24    31
/// +--------+--------+--------+--------+
/// |   source port   | destination port|   RFC 768
/// +--------+--------+--------+--------+
/// |     length      |    checksum     |
/// +--------+--------+--------+--------+
/// ```
pub fn udp(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<(), HeaderError> {
    let (transport, len) = ip(out, from.ip(), to.ip(), UDP, UDP_HEADER + payload.len())?;
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    let sum = transport_checksum(from.ip(), to.ip(), UDP, &out[transport..]);
    // Zero would mean that there is no checksum (RFC 768), which IPv6 forbids (RFC 8200 §8.1).
    let sum = if sum == 0 { 0xffff } else { sum };
    out[transport + 6..transport + 8].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Writes an IP packet of any protocol into `out`, replacing its content: `payload` is the protocol's complete packet,
/// its checksum included.
pub fn plain(
    out: &mut Vec<u8>,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    payload: &[u8],
) -> Result<(), HeaderError> {
    ip(out, from, to, protocol, payload.len())?;
    out.extend_from_slice(payload);
    Ok(())
}

/// Fields of an ICMP echo message (RFC 792).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Whether it is a reply.
    pub reply: bool,
    /// The host that sent the request.
    pub id: u16,
    /// Number of the request.
    pub number: u16,
}

/// Writes an ICMP echo message with `data` zeros into `out`, replacing its content; both addresses are IPv4.
///
/// ```text
///  0      7 8     15 16    23 24    31
/// +--------+--------+--------+--------+
/// |  type  |  code  |    checksum     |   RFC 792
/// +--------+--------+--------+--------+
/// |   identifier    |     number      |
/// +--------+--------+--------+--------+
/// ```
pub fn echo(
    out: &mut Vec<u8>,
    from: Ipv4Addr,
    to: Ipv4Addr,
    echo: Echo,
    data: usize,
) -> Result<(), HeaderError> {
    let (message, _) = ip(out, from.into(), to.into(), ICMP, ECHO_HEADER + data)?;
    out.extend_from_slice(&[if echo.reply { 0 } else { 8 }, 0, 0, 0]);
    out.extend_from_slice(&echo.id.to_be_bytes());
    out.extend_from_slice(&echo.number.to_be_bytes());
    out.resize(out.len() + data, 0);
    let sum = finish(add(0, &out[message..]));
    out[message + 2..message + 4].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Writes a TCP segment into `out`, replacing its content.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------------------------------+-------------------------------+
/// |          source port          |       destination port        |   RFC 9293 §3.1
/// +-------------------------------+-------------------------------+
/// |                        sequence number                        |
/// +---------------------------------------------------------------+
/// |                    acknowledgement number                     |
/// +-------+-------+---------------+-------------------------------+
/// | words |   0   |     flags     |            window             |
/// +-------+-------+---------------+-------------------------------+
/// |           checksum            |        urgent pointer         |
/// +-------------------------------+-------------------------------+
/// ```
pub fn tcp(
    out: &mut Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
    segment: Segment<'_>,
    payload: &[u8],
) -> Result<(), HeaderError> {
    let len = segment.options.len();
    if !len.is_multiple_of(4) || len > MOST_OPTIONS {
        return Err(HeaderError::Options { len });
    }
    let header = TCP_HEADER + len;
    let (transport, _) = ip(out, from.ip(), to.ip(), TCP, header + payload.len())?;
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&segment.seq.to_be_bytes());
    out.extend_from_slice(&segment.ack.to_be_bytes());
    out.extend_from_slice(&[((header / 4) as u8) << 4, segment.flags]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(segment.options);
    out.extend_from_slice(payload);
    let sum = transport_checksum(from.ip(), to.ip(), TCP, &out[transport..]);
    out[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Writes the IP header for `len` bytes of payload; returns where the payload begins, and its length. Addresses of two
/// families are written as IPv6, the IPv4 one in its mapped form.
fn ip(
    out: &mut Vec<u8>,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    len: usize,
) -> Result<(usize, u16), HeaderError> {
    out.clear();
    // IPv4's length includes its header (RFC 791), IPv6's does not (RFC 8200).
    let max = usize::from(u16::MAX) - if from.is_ipv4() && to.is_ipv4() { IPV4_HEADER } else { 0 };
    if len > max {
        return Err(HeaderError::TooLong { len, max });
    }
    let len = len as u16;
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Version 4, five words; then total length, identification 0 and "don't fragment" (RFC 6864 §4.1).
            let total = (len + IPV4_HEADER as u16).to_be_bytes();
            out.extend_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let sum = finish(add(0, out));
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            let len = len.to_be_bytes();
            out.extend_from_slice(&[0x60, 0, 0, 0, len[0], len[1], protocol, HOPS]);
            out.extend_from_slice(&octets_v6(from));
            out.extend_from_slice(&octets_v6(to));
        }
    }
    Ok((out.len(), len))
}

/// Sets the traffic class (DSCP and ECN, RFC 2474, RFC 3168) and the TTL or hop limit of a packet that begins with an IP
/// header without options.
pub fn set_class_and_ttl(packet: &mut [u8], class: u8, ttl: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => {
            (packet[1], packet[8]) = (class, ttl);
            packet[10..12].fill(0);
            let sum = finish(add(0, &packet[..IPV4_HEADER]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() >= IPV6_HEADER => {
            packet[0] = 0x60 | class >> 4;
            packet[1] = packet[1] & 0x0f | class << 4;
            packet[7] = ttl;
        }
        _ => {}
    }
}

fn octets_v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The checksum over pseudo-header and transport header with payload (RFC 768, RFC 9293 §3.1, RFC 8200 §8.1), whose
/// checksum field is zero.
fn transport_checksum(from: IpAddr, to: IpAddr, protocol: u8, bytes: &[u8]) -> u16 {
    let addresses = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => add(add(0, &from.octets()), &to.octets()),
        (from, to) => add(add(0, &octets_v6(from)), &octets_v6(to)),
    };
    finish(add(addresses + u64::from(protocol) + bytes.len() as u64, bytes))
}

/// Adds the 16-bit words of `bytes`; a last odd byte is the upper half of a word (RFC 1071 §1).
fn add(sum: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    sum + last + words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>()
}

/// Folds the carries in and complements.
fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Protocol numbers (IANA).
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of the headers without options.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const ECHO_HEADER: usize = 8;
/// The header's length field allows 15 words, 5 of them taken.
const MOST_OPTIONS: usize = 40;
/// TTL or hop limit: the recommended default (RFC 1700).
pub const HOPS: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_rfc_1071() {
        // The example of RFC 1071 §3: the sum of these words is ddf2.
        assert_eq!(finish(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
        assert_eq!(add(0, &[0x12]), 0x1200);
    }

    #[test]
    fn a_udp_packet_byte_by_byte() {
        let mut out = vec![9; 3];
        udp(&mut out, "192.0.2.1:1000".parse().unwrap(), "192.0.2.2:2000".parse().unwrap(), b"abc").unwrap();
        // Checksums computed independently, by the rules of RFC 1071.
        let expected = [
            0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0xb6, 0xca, 192, 0, 2, 1, 192, 0, 2, 2, 0x03, 0xe8, 0x07,
            0xd0, 0, 11, 0xab, 0xb9, b'a', b'b', b'c',
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn an_echo_message_sums_to_ones() {
        let mut out = Vec::new();
        let ask = Echo { reply: false, id: 0x0102, number: 0x0304 };
        echo(&mut out, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), ask, 3).unwrap();
        // Type 8: 0800 + 0102 + 0304 is 0c06, whose complement is f3f9.
        assert_eq!(out[20..], [8, 0, 0xf3, 0xf9, 1, 2, 3, 4, 0, 0, 0]);
        assert_eq!((out[9], out[3]), (1, 31));
    }

    #[test]
    fn class_and_ttl_are_set_with_a_right_checksum() {
        let mut packet = Vec::new();
        for (from, to) in [("192.0.2.1:1", "192.0.2.2:2"), ("[2001:db8::1]:1", "[2001:db8::2]:2")] {
            udp(&mut packet, from.parse().unwrap(), to.parse().unwrap(), b"x").unwrap();
            let before = packet.clone();
            set_class_and_ttl(&mut packet, 0xb8, 1);
            let marks = match packet[0] >> 4 {
                4 => (finish(add(0, &packet[..20])), packet[1], packet[8]),
                _ => (0, packet[0] << 4 | packet[1] >> 4, packet[7]),
            };
            assert_eq!(marks, (0, 0xb8, 1));
            set_class_and_ttl(&mut packet, 0, HOPS);
            assert_eq!(packet, before);
        }
        set_class_and_ttl(&mut [0x45, 0], 1, 1);
        set_class_and_ttl(&mut [], 1, 1);
    }

    #[test]
    fn a_udp_checksum_of_zero_is_written_as_ones() {
        let ends = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        let mut out = Vec::new();
        // The payload that brings the sum to ffff: the complement of the sum without it.
        udp(&mut out, ends.0, ends.1, &[0, 0]).unwrap();
        let payload = [out[46], out[47]];
        udp(&mut out, ends.0, ends.1, &payload).unwrap();
        assert_eq!(out[46..48], [0xff, 0xff]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let v4 = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let v6 = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        let payload = vec![0; 65_536];
        let mut out = Vec::new();
        for (ends, most) in [(v4, 65_507), (v6, 65_527)] {
            assert_eq!(udp(&mut out, ends.0, ends.1, &payload[..most]), Ok(()));
            let refused = udp(&mut out, ends.0, ends.1, &payload[..most + 1]);
            assert_eq!(refused, Err(HeaderError::TooLong { len: most + 9, max: most + 8 }));
            let segment = Segment { seq: 0, ack: 0, flags: 0, window: 0, options: &[0; 40] };
            assert_eq!(tcp(&mut out, ends.0, ends.1, segment, &payload[..most - 52]), Ok(()));
            assert!(tcp(&mut out, ends.0, ends.1, segment, &payload[..most - 51]).is_err());
        }
        for len in [1, 43, 44] {
            let segment = Segment { seq: 0, ack: 0, flags: 0, window: 0, options: &payload[..len] };
            assert_eq!(tcp(&mut out, v4.0, v4.1, segment, &[]), Err(HeaderError::Options { len }));
        }
    }
}
