//! DCCP's checksum (RFC 4340 §9): the Internet's, over a pseudo-header, the header and the covered part of the data.

use std::net::IpAddr;

use crate::internet_checksum::{self, words};

/// CRC-32c (RFC 4340 §9.3, RFC 3309): what the Data Checksum option carries, over the data.
pub use crc32c::crc32c;

/// How packets are protected, by what carries them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Over UDP the field is sent as zero and ignored: UDP's own checksum covers all (RFC 6773 §3.5).
    #[default]
    Udp,
    /// Directly over IP (protocol 33): with the addresses' part of the pseudo-header, summed up.
    Ip {
        /// One's-complement sum of both addresses and the protocol number, not folded.
        addresses: u32,
    },
}

impl Checksum {
    /// For packets between these addresses directly over IP, in either direction. `None` if they are of different
    /// families.
    pub fn over_ip(one: IpAddr, other: IpAddr) -> Option<Checksum> {
        let addresses = match (one, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => words(&a.octets()) + words(&b.octets()),
            (IpAddr::V6(a), IpAddr::V6(b)) => words(&a.octets()) + words(&b.octets()),
            _ => return None,
        };
        Some(Checksum::Ip { addresses: addresses + PROTOCOL })
    }

    /// The checksum field of `packet`, whose own is zero, when its first `covered` bytes are protected.
    pub(super) fn compute(self, packet: &[u8], covered: usize) -> u16 {
        match self {
            Checksum::Udp => 0,
            Checksum::Ip { addresses } => !fold(addresses, packet, covered),
        }
    }

    /// Whether the checksum field of `packet` is right.
    pub(super) fn verifies(self, packet: &[u8], covered: usize) -> bool {
        match self {
            Checksum::Udp => true,
            Checksum::Ip { addresses } => fold(addresses, packet, covered) == 0xffff,
        }
    }
}

/// Writes the checksum that `packet`, as the endpoint made it for UDP, needs directly over IP. What is no DCCP packet
/// stays as it is.
pub fn seal(packet: &mut [u8], from: IpAddr, to: IpAddr) {
    let (Some(checksum), Some(covered)) = (Checksum::over_ip(from, to), protected(packet)) else { return };
    packet[6..8].fill(0);
    let sum = checksum.compute(packet, covered);
    packet[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// Whether `packet` was sent like this between these addresses directly over IP, as far as its checksum tells.
pub fn is_sound(packet: &[u8], from: IpAddr, to: IpAddr) -> bool {
    match (Checksum::over_ip(from, to), protected(packet)) {
        (Some(checksum), Some(covered)) => checksum.verifies(packet, covered),
        _ => false,
    }
}

/// As [`covered`], by what the packet's own header says.
fn protected(packet: &[u8]) -> Option<usize> {
    let generic = packet.first_chunk::<12>()?;
    let offset = usize::from(generic[4]) * 4;
    if offset > packet.len() {
        return None;
    }
    covered(offset, packet.len(), generic[5] & 0x0f)
}

/// How many bytes of a packet the checksum protects (RFC 4340 §9.2): header and options always; of the data all at
/// coverage 0, else the first (coverage - 1) * 4 bytes. `None` if there are not so many.
pub(super) fn covered(offset: usize, len: usize, coverage: u8) -> Option<usize> {
    match coverage {
        0 => Some(len),
        n => Some(offset + (usize::from(n) - 1) * 4).filter(|covered| *covered <= len),
    }
}

/// The pseudo-header's length field counts the whole packet, whatever is covered (RFC 4340 §9.1).
fn fold(addresses: u32, packet: &[u8], covered: usize) -> u16 {
    internet_checksum::fold(u64::from(addresses) + packet.len() as u64 + u64::from(words(&packet[..covered])))
}

/// DCCP's number among IP protocols.
pub const PROTOCOL: u32 = 33;
