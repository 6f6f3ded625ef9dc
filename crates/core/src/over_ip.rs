//! A transport directly over IP, with no UDP between.

use std::net::IpAddr;

/// How a transport runs directly over IP, as a protocol of its own.
///
/// Its packets are the same as in UDP, and its endpoint does not notice: what the addresses have to do with a packet is
/// the line's business, which asks these functions. Over IP there are no ports but the transport's own, which stand in
/// the first four bytes of every packet, source first (as all of TCP's relatives have them).
#[derive(Clone, Copy, Debug)]
pub struct OverIp {
    /// Number of the protocol (IANA).
    pub protocol: u8,
    /// The query key that names the listener's port inside UDP. Over IP that port stands behind the address instead.
    pub port_key: &'static str,
    /// Completes a packet that goes from one address to another: writes the checksum that covers them, if there is one.
    pub seal: fn(packet: &mut [u8], from: IpAddr, to: IpAddr),
    /// Whether a packet arrived as it was sent between these addresses, as far as such a checksum tells.
    pub is_sound: fn(packet: &[u8], from: IpAddr, to: IpAddr) -> bool,
}

/// Ports of a packet: its source's and its destination's. `None` if it is too short to have any.
pub fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *packet.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
