//! A transport directly over IP, without UDP.

use std::fmt::Debug;
use std::net::IpAddr;

/// How a transport runs directly over IP, with its own protocol number.
///
/// Its packets are the same as in UDP, and its endpoint sees no difference: the wire handles everything that involves
/// addresses, through this trait. Over IP the only ports are the transport's own.
pub trait OverIp: Debug {
    /// IANA number of the protocol.
    fn protocol(&self) -> u8;

    /// The query key for the listener's port inside UDP. Over IP, the address carries that port instead.
    fn port_key(&self) -> &'static str;

    /// Source and destination port of a packet. `None` if it has none, for example because it is too short.
    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)>;

    /// Completes a packet between two addresses: writes the checksum over them, if there is one.
    fn seal(&self, packet: &mut [u8], from: IpAddr, to: IpAddr);

    /// Whether a packet arrived unchanged between these addresses, as far as that checksum shows.
    fn is_sound(&self, packet: &[u8], from: IpAddr, to: IpAddr) -> bool;
}

/// A reference to an `OverIp` is one, too.
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

/// The ports in the first four bytes of a packet, source first, as in TCP and similar protocols (RFC 9260 §3.1, RFC
/// 4340 §5.1). `None` if it is too short.
pub fn first_ports(packet: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *packet.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
