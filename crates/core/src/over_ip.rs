//! A transport directly over IP, with no UDP between.

use std::fmt::Debug;
use std::net::IpAddr;

/// How a transport runs directly over IP, as a protocol of its own.
///
/// Its packets are the same as in UDP, and its endpoint does not notice: what the addresses have to do with a packet is
/// the wire's business, which asks here. Over IP there are no ports but the transport's own.
pub trait OverIp: Debug {
    /// Number of the protocol (IANA).
    fn protocol(&self) -> u8;

    /// The query key for the listener's port inside UDP. Over IP that port is the one in the address instead.
    fn port_key(&self) -> &'static str;

    /// Ports of a packet: its source's and its destination's. `None` if it has none, as when it is too short.
    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)>;

    /// Completes a packet from one address to another: writes the checksum over them, if there is one.
    fn seal(&self, packet: &mut [u8], from: IpAddr, to: IpAddr);

    /// Whether a packet arrived unchanged between these addresses, as far as such a checksum shows.
    fn is_sound(&self, packet: &[u8], from: IpAddr, to: IpAddr) -> bool;
}

/// A reference to one is one, too.
impl<T: OverIp + ?Sized> OverIp for &T {
    fn protocol(&self) -> u8 {
        (**self).protocol()
    }

    fn port_key(&self) -> &'static str {
        (**self).port_key()
    }

    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        (**self).ports(packet)
    }

    fn seal(&self, packet: &mut [u8], from: IpAddr, to: IpAddr) {
        (**self).seal(packet, from, to);
    }

    fn is_sound(&self, packet: &[u8], from: IpAddr, to: IpAddr) -> bool {
        (**self).is_sound(packet, from, to)
    }
}

/// The ports in the first four bytes of a packet, source first, as all of TCP's relatives have them (RFC 9260 §3.1,
/// RFC 4340 §5.1). `None` if it is too short to have any.
pub fn first_ports(packet: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *packet.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
