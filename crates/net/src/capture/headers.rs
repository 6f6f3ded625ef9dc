//! IP, UDP and TCP headers around bytes that a socket has carried.
//!
//! A socket shows neither; what is written here is made up, with addresses, ports, lengths and checksums that are right,
//! and TTL, DSCP and identification that say nothing.

use std::net::{IpAddr, SocketAddr};

/// What a TCP header says beside the ports (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// Whole words of options.
    pub options: &'a [u8],
}

/// Flags of a TCP header.
pub(super) mod flag {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
}

/// Writes a UDP packet into `out` in place of what is there.
///
/// ```text
///  0      7 8     15 16    23 24    31
/// +--------+--------+--------+--------+
/// |   source port   | destination port|   RFC 768
/// +--------+--------+--------+--------+
/// |     length      |    checksum     |
/// +--------+--------+--------+--------+
/// ```
pub(super) fn udp(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    let len = (UDP_HEADER + payload.len()) as u16;
    let transport = ip(out, from.ip(), to.ip(), UDP, len);
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    let sum = transport_checksum(from.ip(), to.ip(), UDP, &out[transport..]);
    // Zero would say that there is none (RFC 768), which IPv6 forbids (RFC 8200 §8.1).
    let sum = if sum == 0 { 0xffff } else { sum };
    out[transport + 6..transport + 8].copy_from_slice(&sum.to_be_bytes());
}

/// Writes a TCP segment into `out` in place of what is there.
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
pub(super) fn tcp(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, segment: Segment<'_>, payload: &[u8]) {
    let header = TCP_HEADER + segment.options.len();
    let transport = ip(out, from.ip(), to.ip(), TCP, (header + payload.len()) as u16);
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&segment.seq.to_be_bytes());
    out.extend_from_slice(&segment.ack.to_be_bytes());
    out.extend_from_slice(&[((header / 4) as u8) << 4, segment.flags]);
    out.extend_from_slice(&u16::MAX.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(segment.options);
    out.extend_from_slice(payload);
    let sum = transport_checksum(from.ip(), to.ip(), TCP, &out[transport..]);
    out[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Writes the IP header for `len` bytes of payload; returns where these begin. Both addresses are of one family.
fn ip(out: &mut Vec<u8>, from: IpAddr, to: IpAddr, protocol: u8, len: u16) -> usize {
    out.clear();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Version 4, five words; then total length, identification 0 and "don't fragment" (RFC 6864 §4.1).
            let total = len.saturating_add(IPV4_HEADER as u16).to_be_bytes();
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
    out.len()
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

/// Adds the 16-bit words of `bytes`, a last odd byte as the upper half of one (RFC 1071 §1).
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
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of the headers without options.
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
/// TTL or hop limit: the recommended default (RFC 1700).
const HOPS: u8 = 64;

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
        udp(&mut out, "192.0.2.1:1000".parse().unwrap(), "192.0.2.2:2000".parse().unwrap(), b"abc");
        // Checksums worked out apart, by the rules of RFC 1071.
        let expected = [
            0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0xb6, 0xca, 192, 0, 2, 1, 192, 0, 2, 2, 0x03, 0xe8, 0x07,
            0xd0, 0, 11, 0xab, 0xb9, b'a', b'b', b'c',
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn a_udp_checksum_of_zero_is_written_as_ones() {
        let ends = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        let mut out = Vec::new();
        // The payload that brings the sum to ffff: the complement of the sum without it.
        udp(&mut out, ends.0, ends.1, &[0, 0]);
        let payload = [out[46], out[47]];
        udp(&mut out, ends.0, ends.1, &payload);
        assert_eq!(out[46..48], [0xff, 0xff]);
    }
}
