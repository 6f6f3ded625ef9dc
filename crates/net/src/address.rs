//! From a URI to socket addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use antiphon_core::uri::Uri;

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
    /// versions. May ask a name server, so never on a media thread.
    pub fn resolve(uri: &Uri, default_port: u16) -> Result<Self, AddressError> {
        let port = uri.port.unwrap_or(default_port);
        if uri.host.is_empty() {
            return Ok(Target::Listen(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
        }
        let address = resolve(&uri.host, port)?;
        Ok(if uri.listen { Target::Listen(address) } else { Target::Call(address) })
    }

    /// The address, whichever way it is used.
    pub fn address(self) -> SocketAddr {
        match self {
            Target::Call(address) | Target::Listen(address) => address,
        }
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, AddressError> {
    let unresolved = |why: String| AddressError::Unresolved { host: host.into(), why };
    // The standard library's own words are not for users.
    let reason = |error: std::io::Error| {
        let text = error.to_string();
        text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_string()
    };
    let mut found = (host, port).to_socket_addrs().map_err(|error| unresolved(reason(error)))?;
    found.next().ok_or_else(|| unresolved("no address".into()))
}

/// The wildcard address of the same IP version as `peer`, port chosen by the kernel.
pub(crate) fn any_for(peer: SocketAddr) -> SocketAddr {
    let ip =
        if peer.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}
