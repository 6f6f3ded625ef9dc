//! Sockets that send to a group or join one, and the address that a machine sends from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use crate::line::LineError;
use crate::options::{self, SocketOptions};
use crate::system;

/// The address that this machine sends from to `peer`, a single one or a group, with these options; `None` without a
/// route. Nothing is sent.
pub fn source_address(peer: SocketAddr, options: &SocketOptions) -> Option<IpAddr> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP)).ok()?;
    if options::is_multicast(peer.ip()) {
        set_up_sending(&socket, peer.ip(), options).ok()?;
    }
    // Connecting a UDP socket has the kernel choose its address (ip(7)).
    socket.connect(&peer.into()).ok()?;
    let local = socket.local_addr().ok()?.as_socket()?.ip();
    (!local.is_unspecified()).then_some(local)
}

/// Has `socket` send to `group` by the interface and with the TTL of the options.
pub(crate) fn set_up_sending(socket: &Socket, group: IpAddr, options: &SocketOptions) -> io::Result<()> {
    let ttl = u32::from(options.multicast.ttl.unwrap_or(1));
    let interface = options.multicast.interface.as_deref();
    match group {
        IpAddr::V4(_) => {
            socket.set_multicast_ttl_v4(ttl)?;
            if let Some(name) = interface {
                let source = name.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
                system::set_multicast_interface_v4(socket, options::interface_index(name)?, source)?;
            }
        }
        IpAddr::V6(_) => {
            socket.set_multicast_hops_v6(ttl)?;
            if let Some(name) = interface {
                socket.set_multicast_if_v6(options::interface_index(name)?)?;
            }
        }
    }
    Ok(())
}

/// A link-local group has no meaning, and cannot be bound to, without an interface.
pub(crate) fn with_scope(local: SocketAddr, options: &SocketOptions) -> Result<SocketAddr, LineError> {
    let (SocketAddr::V6(mut v6), Some(name)) = (local, &options.multicast.interface) else {
        return Ok(local);
    };
    if v6.ip().is_multicast() && v6.scope_id() == 0 {
        v6.set_scope_id(options::interface_index(name).map_err(LineError::system("multicast"))?);
    }
    Ok(v6.into())
}

/// Joins `group`, or of it only what one source sends (RFC 4607).
pub(crate) fn join(socket: &Socket, group: IpAddr, options: &SocketOptions) -> io::Result<()> {
    let index = options.multicast.interface.as_deref().map_or(Ok(0), options::interface_index)?;
    match (group, options.multicast.source) {
        (_, Some(source)) => options::join_source(socket, index, group, source),
        (IpAddr::V4(group), None) => {
            let name = options.multicast.interface.as_deref();
            socket.join_multicast_v4_n(&group, &system::interface_to_join(index, name))
        }
        (IpAddr::V6(group), None) => socket.join_multicast_v6(&group, index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{Configured, Namespace, Netlink};
    use crate::options::Multicast;

    #[test]
    fn the_source_of_what_a_group_gets_is_the_chosen_interface() {
        let namespace = match Namespace::private() {
            Ok(namespace) => namespace,
            Err(error) => return antiphon_testkit::skip_without_namespace(&error),
        };
        let found = namespace.run(|| {
            let mut netlink = Netlink::open()?;
            for (lane, [name, other]) in [(1, ["one0", "one1"]), (2, ["two0", "two1"])] {
                netlink.add_veth(name, other, None)?;
                netlink.set_up(other)?;
                netlink.configure(name, Configured::of_lane(lane, 1), None)?;
            }
            let found = ["one0", "two0"].map(|name| {
                let multicast = Multicast { interface: Some(name.into()), ..Multicast::default() };
                let options = SocketOptions { multicast, ..SocketOptions::default() };
                source_address("239.1.2.3:5004".parse().expect("an address"), &options)
            });
            Ok::<_, crate::netns::NetnsError>(found)
        });
        let expected = [1, 2].map(|lane| Some(Configured::of_lane(lane, 1).v4.into()));
        assert_eq!(found.expect("a namespace").expect("devices"), expected);
    }

    #[test]
    fn a_single_peer_is_sent_to_from_the_address_that_faces_it() {
        let found = source_address("127.0.0.9:5".parse().expect("an address"), &SocketOptions::default());
        assert_eq!(found, Some(Ipv4Addr::LOCALHOST.into()));
    }
}
