//! From a URI to socket addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use antiphon_core::uri::Uri;
use socket2::Socket;

use crate::line::LineError;

/// The target of a line: an address to call or one to listen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Call this address.
    Call(SocketAddr),
    /// Wait on this address.
    Listen(SocketAddr),
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The name has no address.
    #[error("cannot find the address of '{host}': {why}; check the name, or write an IP address")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's message.
        why: String,
    },
}

impl Target {
    /// Resolves the authority of `uri`; `default_port` where none was written. An empty host listens on both IP
    /// versions. Of several addresses of a host to call it is the first to which this machine has a way. May ask a name server, so never on a media thread.
    pub fn resolve(uri: &Uri, default_port: u16) -> Result<Self, AddressError> {
        let port = uri.port.unwrap_or(default_port);
        if uri.host.is_empty() {
            return Ok(Target::Listen(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
        }
        let found = resolve(&uri.host, port)?;
        Ok(if uri.listen { Target::Listen(found[0]) } else { Target::Call(choose(&found, has_way)) })
    }

    /// As [`Self::resolve`]; of several addresses of a host to call, those that refuse at once are passed over (RFC 8305 in
    /// small). `stream`: a byte stream is to be opened, not datagrams sent. Takes a quarter of a second for each address.
    pub fn resolve_willing(uri: &Uri, default_port: u16, stream: bool) -> Result<Self, AddressError> {
        let port = uri.port.unwrap_or(default_port);
        if uri.host.is_empty() || uri.listen {
            return Self::resolve(uri, default_port);
        }
        let found = resolve(&uri.host, port)?;
        let willing = |address| has_way(address) && (found.len() == 1 || !refuses(address, stream));
        let first = found.iter().copied().find(|address| willing(*address));
        Ok(Target::Call(first.unwrap_or_else(|| choose(&found, has_way))))
    }

    /// The address, whichever way it is used.
    pub fn address(self) -> SocketAddr {
        match self {
            Target::Call(address) | Target::Listen(address) => address,
        }
    }
}

/// At least one address, in the resolver's order.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, AddressError> {
    let unresolved = |why: String| AddressError::Unresolved { host: host.into(), why };
    // The standard library's own words are not for users.
    let reason = |error: std::io::Error| {
        let text = error.to_string();
        text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_string()
    };
    let found = (host, port).to_socket_addrs().map_err(|error| unresolved(reason(error)))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(unresolved("no address".into())) } else { Ok(found) }
}

/// The first that can be called, or the first of all, so that an error names it.
fn choose(found: &[SocketAddr], has_way: impl Fn(SocketAddr) -> bool) -> SocketAddr {
    found.iter().copied().find(|address| has_way(*address)).unwrap_or(found[0])
}

/// Whether this machine has a route to `address` and a source address for it. Nothing is sent: many hosts have an IPv6
/// address, and many networks no IPv6.
fn has_way(address: SocketAddr) -> bool {
    let connected = UdpSocket::bind(any_for(address)).and_then(|socket| socket.connect(address));
    // A broadcast address needs an option first.
    connected.is_ok() || connected.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Whether no program listens there, as far as the machine says so soon. A datagram for that has one byte, which no transport takes
/// for its own.
fn refuses(address: SocketAddr, stream: bool) -> bool {
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    if stream {
        return TcpStream::connect_timeout(&address, REFUSAL).is_err_and(refused);
    }
    if address.ip().is_multicast() {
        return false;
    }
    let ask = || -> std::io::Result<()> {
        let socket = UdpSocket::bind(any_for(address))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(REFUSAL))?;
        socket.send(&[0])?;
        socket.recv(&mut [0]).map(drop)
    };
    ask().is_err_and(refused)
}

/// How long a refusal may take: the round trip of the farthest networks, as RFC 8305 §5 (Connection Attempt Delay).
const REFUSAL: Duration = Duration::from_millis(250);

/// The wildcard address of the same IP version as `peer`, port chosen by the kernel.
pub(crate) fn any_for(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Opens a socket for `local`, which the wildcard of IPv6 takes IPv4 with; machines without IPv6 still listen. Returns it
/// and where it is to be bound.
pub(crate) fn open_for(
    local: SocketAddr,
    mut open: impl FnMut(SocketAddr) -> Result<Socket, LineError>,
) -> Result<(Socket, SocketAddr), LineError> {
    if !(local.is_ipv6() && local.ip().is_unspecified()) {
        return Ok((open(local)?, local));
    }
    let Ok(socket) = open(local) else {
        let v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port());
        return Ok((open(v4)?, v4));
    };
    socket.set_only_v6(false).map_err(LineError::system("IPv4 in addition to IPv6"))?;
    Ok((socket, local))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::netns::Namespace;

    #[test]
    fn an_address_that_refuses_is_passed_over() {
        // Ports that nobody gets when they are let go.
        let addresses = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], antiphon_testkit::free_ports(1))));
        let (tcp, udp) = (TcpListener::bind(addresses[0]), UdpSocket::bind(addresses[1]));
        let (tcp, udp) = (tcp.expect("loopback"), udp.expect("loopback"));
        let refused = || [refuses(addresses[0], true), refuses(addresses[1], false)];
        assert_eq!(refused(), [false, false]);
        drop((tcp, udp));
        // A machine that stands still for longer than a refusal may take is told from one that does not tell.
        assert!((0..5).any(|_| refused() == [true, true]));
    }

    #[test]
    fn the_first_address_with_a_way_is_called() {
        let [v6, v4]: [SocketAddr; 2] =
            ["[2001:db8::1]:5004", "192.0.2.1:5004"].map(|text| text.parse().expect("an address"));
        assert_eq!(choose(&[v6, v4], |_| true), v6, "the resolver's order");
        assert_eq!(choose(&[v6, v4], |address| address.is_ipv4()), v4);
        assert_eq!(choose(&[v6, v4], |_| false), v6, "the error names the first");
        assert!(has_way("127.0.0.1:9".parse().expect("an address")), "loopback");
        // A namespace has no network.
        match Namespace::private() {
            Ok(namespace) => assert!(!namespace.run(|| has_way(v4)).expect("a namespace")),
            Err(error) => antiphon_testkit::skip_without_namespace(&error),
        }
    }
}
