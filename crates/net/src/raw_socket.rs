//! Raw sockets of one IP protocol: opening them, and the headers around their packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use antiphon_core::OverIp;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::batch::Datagram;
use crate::capture::Ends;
use crate::datagrams::path_mtu;
use crate::line::LineError;
use crate::multicast::{join, set_up_sending};
use crate::options::{self, SocketOptions};
use crate::system::fd::{AsRawFd, RawFd};
use crate::system::{self, libc};

/// A raw socket of one protocol and one IP version.
pub(crate) struct RawSocket {
    socket: Socket,
    local: SocketAddr,
    is_v6: bool,
}

impl RawSocket {
    /// A socket that receives from one peer only.
    pub fn call(
        peer: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let socket = RawSocket::new(peer, protocol, options, notes)?;
        let unreachable = |error: io::Error| LineError::Unreachable { address: peer, why: error.to_string() };
        socket.socket.connect(&without_port(peer)).map_err(unreachable)?;
        socket.with_address()
    }

    /// Sockets that receive from all sources: for the wildcard of IPv6 one of each version, where the machine has both.
    pub fn listen(
        local: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Self>, LineError> {
        let mut listen_on = |local: SocketAddr| {
            let socket = RawSocket::new(local, protocol, options, notes)?;
            if !local.ip().is_unspecified() || !system::RECEIVES_UNBOUND {
                socket.socket.bind(&without_port(local)).map_err(LineError::binding(local))?;
            }
            socket.with_address()
        };
        if !(local.is_ipv6() && local.ip().is_unspecified()) {
            return Ok(vec![listen_on(local)?]);
        }
        let v4 = listen_on(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), local.port()))?;
        // Machines without IPv6 still listen.
        let v6 = listen_on(local).ok();
        Ok(v6.into_iter().chain([v4]).collect())
    }

    /// A socket that sends to a group and to single members, and receives from all sources.
    pub fn send_to_group(
        group: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let socket = RawSocket::new(group, protocol, options, notes)?;
        set_up_sending(&socket.socket, group.ip(), options).map_err(LineError::system("multicast"))?;
        socket.bound()
    }

    /// A socket that receives what is sent to a group and to this machine: it is not bound to the group, as it then would receive
    /// nothing else.
    pub fn join(
        group: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let socket = RawSocket::new(group, protocol, options, notes)?;
        join(&socket.socket, group.ip(), options)
            .map_err(LineError::system(format!("cannot join {}", group.ip())))?;
        socket.bound()
    }

    /// One of the version of `address`, neither bound nor connected.
    fn new(
        address: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let is_v6 = address.is_ipv6();
        let socket = new_socket(is_v6, protocol)?;
        prepare(&socket, is_v6, options, notes)?;
        let nowhere: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Ok(RawSocket { socket, local: SocketAddr::new(nowhere, 0), is_v6 })
    }

    /// Bound to the wildcard, where a socket must be to receive.
    fn bound(self) -> Result<Self, LineError> {
        if !system::RECEIVES_UNBOUND {
            self.socket.bind(&self.local.into()).map_err(LineError::binding(self.local))?;
        }
        Ok(self)
    }

    /// Adds its present address: an IPv4 socket that was never bound has an address of no family.
    fn with_address(mut self) -> Result<Self, LineError> {
        let local = self.socket.local_addr().map_err(LineError::system("socket address"))?;
        self.local = local.as_socket().unwrap_or(self.local);
        Ok(self)
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Our address, or the wildcard; the port has no meaning.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The packet in what the socket returned, with its source and destination. IPv4's raw sockets include the IP
    /// header, IPv6's never do and report our address (`destination`) separately, if asked.
    pub fn read<'a>(
        &self,
        over_ip: &dyn OverIp,
        datagram: Datagram<'a>,
        destination: Option<Ipv6Addr>,
    ) -> Option<(Ends, &'a mut [u8])> {
        let (local, packet) = if self.is_v6 {
            (destination.map_or(self.local.ip(), IpAddr::V6), datagram.bytes)
        } else {
            let (destination, packet) = payload_v4(datagram.bytes)?;
            (destination.into(), packet)
        };
        let (source, destination) = over_ip.ports(packet)?;
        let mut peer = datagram.from?;
        peer.set_port(source);
        Some((Ends { local: SocketAddr::new(local, destination), peer }, packet))
    }

    /// The size that fits the path's MTU with the IP header, as far as the kernel knows the path, at most Ethernet's.
    pub fn max_datagram(&self, options: &SocketOptions) -> usize {
        if options.fragment {
            return LARGEST_IP - IPV6_HEADER;
        }
        path_mtu(&self.socket, self.is_v6) - if self.is_v6 { IPV6_HEADER } else { IPV4_HEADER }
    }
}

/// A raw socket interprets a port as the protocol number.
fn without_port(mut address: SocketAddr) -> SockAddr {
    address.set_port(0);
    address.into()
}

fn new_socket(v6: bool, protocol: u8) -> Result<Socket, LineError> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))));
    socket.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => LineError::RawRefused { protocol },
        _ => LineError::system("cannot open a raw socket")(error),
    })
}

fn prepare(
    socket: &Socket,
    v6: bool,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> Result<(), LineError> {
    options::apply_to_datagrams(socket, options, v6, notes);
    if v6 {
        // Answers must be sent from the address that received the request; checksums cover it as well.
        options::set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
            .map_err(LineError::system("addresses of packets received"))?;
    }
    Ok(())
}

/// Destination and payload of an IPv4 packet (RFC 791 §3.1).
fn payload_v4(packet: &mut [u8]) -> Option<(Ipv4Addr, &mut [u8])> {
    let header = packet.first_chunk::<IPV4_HEADER>()?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    let fits = header[0] >> 4 == 4 && len >= IPV4_HEADER;
    if fits { packet.get_mut(len..).map(|payload| (destination, payload)) } else { None }
}

/// A note for the user if this kernel implements the protocol itself, in this namespace.
pub(crate) fn kernel_speaks(protocol: u8) -> Option<String> {
    // Without the file nothing is known.
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    let name = match protocol {
        132 => "SCTP",
        33 => "DCCP",
        _ => return None,
    };
    protocols.lines().any(|line| line.starts_with(name)).then(|| {
        format!(
            "this machine's kernel has its own {name} and rejects packets for our ports: unload its module, or drop its \
             replies with a firewall rule"
        )
    })
}

/// Reserves a listener's port of a protocol against other listeners on this machine.
///
/// Raw sockets share everything, and two listeners on one port would both answer. An abstract Unix address belongs to
/// one socket in a network namespace, as a port does, and is released with it. On systems other than Linux nothing is reserved.
pub(crate) struct PortHeld {
    _socket: Option<system::HeldName>,
}

impl PortHeld {
    pub fn take(protocol: u8, local: SocketAddr) -> Result<Self, LineError> {
        let name = format!("antiphon/ip/{protocol}/{local}");
        let socket = system::hold_name(&name).map_err(LineError::binding(local))?;
        Ok(PortHeld { _socket: socket })
    }
}

/// Bytes of the IP headers without options.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// The largest IP packet (RFC 791).
const LARGEST_IP: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_stands_behind_a_header_of_its_own_length() {
        let mut packet = vec![0u8; 28];
        packet[0] = 0x46;
        packet[16..20].copy_from_slice(&[192, 0, 2, 1]);
        packet[24..].copy_from_slice(b"abcd");
        assert_eq!(payload_v4(&mut packet), Some((Ipv4Addr::new(192, 0, 2, 1), &mut b"abcd".to_owned()[..])));
        for (first, len) in [(0x44, 28), (0x56, 28), (0x4f, 28), (0x45, 19)] {
            packet[0] = first;
            assert_eq!(payload_v4(&mut packet[..len]), None, "{first:#x} of {len}");
        }
    }

    #[test]
    fn a_port_is_held_once_a_protocol() {
        let local: SocketAddr = "[::]:47123".parse().expect("an address");
        let held = PortHeld::take(200, local).expect("free");
        assert!(matches!(PortHeld::take(200, local), Err(LineError::PortInUse { port: 47_123 })));
        assert!(PortHeld::take(201, local).is_ok());
        drop(held);
        assert!(PortHeld::take(200, local).is_ok());
    }
}
