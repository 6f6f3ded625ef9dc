//! Records from a tap to the writer: a head in one ring, its bytes in another.
//!
//! Every record contains everything needed to write its packets, stream positions included, so that a record dropped on
//! overflow only leaves a gap of the right size.

use std::net::SocketAddr;

use antiphon_core::Instant;
use antiphon_trace::headers::HOPS;
use antiphon_trace::pcapng::Way;

/// Both ends of a datagram's path or of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Our address; may be the wildcard where the socket tells no more.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

impl Ends {
    /// From whom to whom bytes of that direction go.
    pub(super) fn way(self, direction: Direction) -> (SocketAddr, SocketAddr) {
        match direction {
            Direction::Sent => (self.local, self.peer),
            Direction::Received => (self.peer, self.local),
        }
    }

    /// With mapped addresses (RFC 4291 §2.5.5.2) as IPv4, which is what is on the wire.
    pub(super) fn canonical(self) -> Self {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ends { local: plain(self.local), peer: plain(self.peer) }
    }
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

impl From<Direction> for Way {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Sent => Way::Outbound,
            Direction::Received => Way::Inbound,
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
    /// Bytes in the other ring.
    pub len: u32,
}

/// UDP's number among the IP protocols (IANA).
pub(crate) const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_ipv4() {
        let ends =
            Ends { local: "[fe80::1]:5".parse().unwrap(), peer: "[::ffff:192.0.2.7]:9".parse().unwrap() };
        let expected = Ends { peer: "192.0.2.7:9".parse().unwrap(), ..ends };
        assert_eq!(ends.canonical(), expected);
    }
}
