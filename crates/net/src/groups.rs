//! Multicast groups: sending to them and joining them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use socket2::Socket;

use crate::line::LineError;
use crate::options::{self, SocketOptions};

/// Prepares a socket that sends to `group`.
pub(crate) fn set_up_sending(socket: &Socket, group: IpAddr, options: &SocketOptions) -> io::Result<()> {
    let ttl = u32::from(options.multicast.ttl.unwrap_or(1));
    let interface = options.multicast.interface.as_deref();
    match group {
        IpAddr::V4(_) => {
            socket.set_multicast_ttl_v4(ttl)?;
            if let Some(name) = interface {
                let source = name.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
                options::set_multicast_interface_v4(socket, options::interface_index(name)?, source)?;
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
            socket.join_multicast_v4_n(&group, &socket2::InterfaceIndexOrAddress::Index(index))
        }
        (IpAddr::V6(group), None) => socket.join_multicast_v6(&group, index),
    }
}
