//! Which of this machine's addresses is used towards a peer, for sockets that are bound to the wildcard.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::record::{Direction, Ends};
use crate::address::any_for;
use crate::multicast::source_address;
use crate::options::SocketOptions;

/// Remembered results of the routing table.
#[derive(Default)]
pub(super) struct Facing {
    known: BTreeMap<IpAddr, IpAddr>,
}

impl Facing {
    /// `ends` with a local address that is valid in a packet: of the peer's family, and not a wildcard if the routing
    /// table knows the address. No packet has a group's address as its source, so that is replaced, too.
    pub fn complete(&mut self, direction: Direction, ends: Ends) -> Ends {
        let Ends { local, peer } = ends;
        let sent_from_group = direction == Direction::Sent && local.ip().is_multicast();
        if local.is_ipv4() == peer.is_ipv4() && !local.ip().is_unspecified() && !sent_from_group {
            return ends;
        }
        Ends { local: SocketAddr::new(self.towards(peer), local.port()), peer }
    }

    fn towards(&mut self, peer: SocketAddr) -> IpAddr {
        if let Some(local) = self.known.get(&peer.ip()) {
            return *local;
        }
        // The discard port (RFC 863), since port zero cannot be connected to.
        let asked = SocketAddr::new(peer.ip(), if peer.port() == 0 { 9 } else { peer.port() });
        let local = source_address(asked, &SocketOptions::default()).unwrap_or(any_for(peer).ip());
        if self.known.len() == MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(peer.ip(), local);
        local
    }
}

/// The most peers remembered: as many as a listening line knows.
const MOST_KNOWN: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(direction: Direction, local: &str, peer: &str) -> String {
        let ends = Ends { local: local.parse().unwrap(), peer: peer.parse().unwrap() };
        Facing::default().complete(direction, ends).local.to_string()
    }

    #[test]
    fn wildcards_become_the_address_that_faces_the_peer() {
        use Direction::{Received, Sent};
        for direction in [Sent, Received] {
            assert_eq!(completed(direction, "0.0.0.0:5", "127.0.0.1:9"), "127.0.0.1:5");
            // A socket of both families receives from an IPv4 peer.
            assert_eq!(completed(direction, "[::]:5", "127.0.0.9:0"), "127.0.0.1:5");
            assert_eq!(completed(direction, "192.0.2.5:5", "127.0.0.1:9"), "192.0.2.5:5");
            assert_eq!(
                completed(direction, "192.0.2.5:5", "[2001:db8::1]:9").parse::<SocketAddr>().unwrap().port(),
                5
            );
        }
        // A group's address is a destination, never a source.
        assert_eq!(completed(Received, "239.1.2.3:5", "127.0.0.1:9"), "239.1.2.3:5");
        assert_eq!(completed(Sent, "239.1.2.3:5", "127.0.0.1:9"), "127.0.0.1:5");
    }
}
