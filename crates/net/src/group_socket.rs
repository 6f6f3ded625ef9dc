//! A socket that sends to multicast groups and hears them, for small announcements beside a stream.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::line::LineError;
use crate::multicast::{join, set_up_sending};
use crate::options::SocketOptions;

/// Hears IPv4 groups on one port, as other programs beside it may, or sends to groups.
#[derive(Debug)]
pub struct GroupSocket {
    socket: UdpSocket,
}

impl GroupSocket {
    /// Only sends, with the interface and TTL of the options, to groups like `group`.
    pub fn sending(group: IpAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let domain = if group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .and_then(|socket| set_up_sending(&socket, group, options).map(|()| socket))
            .map_err(LineError::system("multicast"))?;
        Ok(GroupSocket { socket: socket.into() })
    }

    /// Hears these groups on `port`.
    pub fn hearing(groups: &[Ipv4Addr], port: u16, options: &SocketOptions) -> Result<Self, LineError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
            .map_err(LineError::system("cannot open a UDP socket"))?;
        // Other programs on this machine hear the same announcements.
        socket.set_reuse_address(true).map_err(LineError::system("multicast"))?;
        socket.bind(&local.into()).map_err(LineError::binding(local))?;
        for group in groups {
            join(&socket, (*group).into(), options)
                .map_err(LineError::system(format!("cannot join {group}")))?;
        }
        Ok(GroupSocket { socket: socket.into() })
    }

    /// Sends one datagram.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(bytes, to).map(|_| ())
    }

    /// Waits at most `wait` for a datagram; of a longer one the beginning is read.
    pub fn receive(&self, buf: &mut [u8], wait: Duration) -> io::Result<Option<(usize, SocketAddr)>> {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.socket.recv_from(buf) {
            Ok(heard) => Ok(Some(heard)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
