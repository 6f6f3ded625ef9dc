//! Records from a tap to the writer: a head of fixed size and its bytes, back to back in a ring of bytes.
//!
//! Every record contains everything needed to write its packets, stream positions included, so that a record dropped on
//! overflow only leaves a gap of the right size.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use antiphon_core::Instant;
use antiphon_trace::headers::HOPS;

/// Both ends of a datagram's path or of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Our address; may be the wildcard where the socket tells no more.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

/// Direction of bytes, or of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From us to the peer.
    Sent,
    /// From the peer to us.
    Received,
}

impl Direction {
    /// The opposite direction.
    pub(crate) fn back(self) -> Self {
        match self {
            Direction::Sent => Direction::Received,
            Direction::Received => Direction::Sent,
        }
    }
}

/// What the IP header of a packet says besides its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Traffic class: DSCP and ECN.
    pub class: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

impl Default for Marks {
    fn default() -> Self {
        Marks { class: 0, ttl: HOPS }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// In order; the side that the direction names closed first.
    Finished(Direction),
    /// It broke: refused, reset, or the path failed.
    Reset,
}

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A packet of that IP protocol; for UDP, what the socket carried.
    Datagram {
        protocol: u8,
        direction: Direction,
    },
    /// A connection that the named side began.
    Opened(Direction),
    /// A part of the stream.
    Stream(Direction),
    Closed(Ending),
}

/// The head of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub at: Instant,
    pub ends: Ends,
    pub marks: Marks,
    /// Stream bytes sent and received on this connection before this record; zero for datagrams.
    pub sent: u64,
    pub received: u64,
    /// Bytes after the head.
    pub len: u32,
}

impl Head {
    /// Bytes of a head in the ring.
    pub const LEN: usize = 68;

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = code(self.kind);
        bytes[1..9].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        bytes[9..27].copy_from_slice(&address_bytes(self.ends.local));
        bytes[27..45].copy_from_slice(&address_bytes(self.ends.peer));
        bytes[45..53].copy_from_slice(&self.sent.to_le_bytes());
        bytes[53..61].copy_from_slice(&self.received.to_le_bytes());
        bytes[61..65].copy_from_slice(&self.len.to_le_bytes());
        bytes[65..].copy_from_slice(&[protocol(self.kind), self.marks.class, self.marks.ttl]);
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Head {
            kind: with_protocol(KINDS[usize::from(bytes[0])], bytes[65]),
            at: Instant::from_nanos(long(1)),
            ends: Ends { local: address(&bytes[9..27]), peer: address(&bytes[27..45]) },
            marks: Marks { class: bytes[66], ttl: bytes[67] },
            sent: long(45),
            received: long(53),
            len: u32::from_le_bytes(bytes[61..65].try_into().expect("four bytes")),
        }
    }
}

/// All kinds, in the order of their codes.
const KINDS: [Kind; 9] = [
    Kind::Datagram { protocol: UDP, direction: Direction::Sent },
    Kind::Datagram { protocol: UDP, direction: Direction::Received },
    Kind::Opened(Direction::Sent),
    Kind::Opened(Direction::Received),
    Kind::Stream(Direction::Sent),
    Kind::Stream(Direction::Received),
    Kind::Closed(Ending::Finished(Direction::Sent)),
    Kind::Closed(Ending::Finished(Direction::Received)),
    Kind::Closed(Ending::Reset),
];

fn code(kind: Kind) -> u8 {
    let kind = with_protocol(kind, UDP);
    KINDS.iter().position(|known| *known == kind).expect("every kind is listed") as u8
}

fn protocol(kind: Kind) -> u8 {
    if let Kind::Datagram { protocol, .. } = kind { protocol } else { 0 }
}

fn with_protocol(kind: Kind, protocol: u8) -> Kind {
    match kind {
        Kind::Datagram { direction, .. } => Kind::Datagram { protocol, direction },
        other => other,
    }
}

/// UDP's number among the IP protocols (IANA).
pub(crate) const UDP: u8 = 17;

/// Sixteen bytes of IPv6 address (IPv4 in its mapped form, RFC 4291 §2.5.5.2) and two of port.
fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

/// The reverse; mapped addresses become IPv4, which is what is on the wire.
fn address(bytes: &[u8]) -> SocketAddr {
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..16]).expect("sixteen bytes"));
    SocketAddr::new(ip.to_canonical(), u16::from_le_bytes([bytes[16], bytes[17]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_mapped_addresses_as_ipv4() {
        let raw = Kind::Datagram { protocol: 132, direction: Direction::Received };
        for (n, kind) in KINDS.into_iter().chain([raw]).enumerate() {
            let head = Head {
                kind,
                at: Instant::from_nanos(u64::MAX - n as u64),
                ends: Ends {
                    local: "[fe80::1]:5".parse().unwrap(),
                    peer: "192.0.2.7:65535".parse().unwrap(),
                },
                marks: Marks { class: 0xb8, ttl: n as u8 },
                sent: 1 << 40,
                received: 7,
                len: 65_507,
            };
            assert_eq!(Head::from_bytes(&head.to_bytes()), head);
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:9".parse().unwrap();
        assert_eq!(address(&address_bytes(mapped)), "192.0.2.7:9".parse().unwrap());
    }
}
