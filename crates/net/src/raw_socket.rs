//! Raw sockets of one IP protocol: opening them, and what stands around a packet that comes out of one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;

use antiphon_core::over_ip;
use socket2::{Domain, Protocol, Socket, Type};

use crate::batch::Datagram;
use crate::capture::Ends;
use crate::line::LineError;
use crate::options::{self, SocketOptions};
use crate::udp::{ETHERNET_MTU, SMALLEST_MTU};

/// A raw socket of one protocol and one IP version.
pub(crate) struct RawSocket {
    socket: Socket,
    local: SocketAddr,
    is_v6: bool,
}

impl RawSocket {
    /// A socket that hears one peer alone.
    pub fn call(
        peer: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let socket = new_socket(peer.is_ipv6(), protocol)?;
        prepare(&socket, peer.is_ipv6(), options, notes)?;
        let mut address = peer;
        address.set_port(0);
        socket
            .connect(&address.into())
            .map_err(|error| LineError::Unreachable { address: peer, why: error.to_string() })?;
        Self::with(socket, peer.is_ipv6())
    }

    /// Sockets that hear everybody: for the wildcard of IPv6 one of each version, where the machine has both.
    pub fn listen(
        local: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Self>, LineError> {
        if !(local.is_ipv6() && local.ip().is_unspecified()) {
            return Ok(vec![Self::listen_on(local, protocol, options, notes)?]);
        }
        let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), local.port());
        let v4 = Self::listen_on(v4, protocol, options, notes)?;
        // Machines without IPv6 still listen.
        let v6 = Self::listen_on(local, protocol, options, notes).ok();
        Ok(v6.into_iter().chain([v4]).collect())
    }

    fn listen_on(
        local: SocketAddr,
        protocol: u8,
        options: &SocketOptions,
        notes: &mut Vec<String>,
    ) -> Result<Self, LineError> {
        let socket = new_socket(local.is_ipv6(), protocol)?;
        prepare(&socket, local.is_ipv6(), options, notes)?;
        let mut address = local;
        address.set_port(0);
        if !local.ip().is_unspecified() {
            socket.bind(&address.into()).map_err(LineError::binding(local))?;
        }
        Self::with(socket, local.is_ipv6())
    }

    fn with(socket: Socket, is_v6: bool) -> Result<Self, LineError> {
        let local = socket.local_addr().map_err(LineError::system("socket address"))?;
        // An IPv4 socket that was never bound has an address of no family.
        let nowhere: SocketAddr =
            if is_v6 { (Ipv6Addr::UNSPECIFIED, 0).into() } else { (Ipv4Addr::UNSPECIFIED, 0).into() };
        let local = local.as_socket().unwrap_or(nowhere);
        Ok(RawSocket { socket, local, is_v6 })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Our address, or the wildcard; the port says nothing.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The packet in what the socket gave, and between whom it went. IPv4's raw sockets give the IP header as well,
    /// IPv6's never do and tell our address (`destination`) apart, if asked.
    pub fn read<'a>(
        &self,
        datagram: &Datagram<'a>,
        destination: Option<Ipv6Addr>,
    ) -> Option<(Ends, &'a [u8])> {
        let (local, packet) = if self.is_v6 {
            (destination.map_or(self.local.ip(), IpAddr::V6), datagram.bytes)
        } else {
            let (destination, packet) = payload_v4(datagram.bytes)?;
            (destination.into(), packet)
        };
        let (source, destination) = over_ip::ports(packet)?;
        let mut peer = datagram.from?;
        peer.set_port(source);
        Some((Ends { local: SocketAddr::new(local, destination), peer }, packet))
    }

    /// What fits the path's MTU beside the IP header, as far as the kernel knows the path, at most what Ethernet
    /// carries.
    pub fn max_datagram(&self, options: &SocketOptions) -> usize {
        let (level, name, header) = match self.is_v6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_MTU, IPV6_HEADER),
            false => (libc::IPPROTO_IP, libc::IP_MTU, IPV4_HEADER),
        };
        if options.fragment {
            return LARGEST_IP - IPV6_HEADER;
        }
        // Only a connected socket knows its path.
        let mtu =
            options::read_int(&self.socket, level, name).map_or(ETHERNET_MTU, |mtu| mtu.max(0) as usize);
        mtu.clamp(SMALLEST_MTU, ETHERNET_MTU) - header
    }
}

fn new_socket(v6: bool, protocol: u8) -> Result<Socket, LineError> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))));
    socket.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => LineError::RawRefused { protocol },
        _ => LineError::system("cannot open a raw socket")(error),
    })
}

fn prepare(
    socket: &Socket,
    v6: bool,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> Result<(), LineError> {
    options::apply(socket, options, v6, notes);
    if let Err(error) = options::set_fragmentation(socket, options.fragment, v6) {
        notes.push(format!("control of IP fragmentation not obtained: {error}"));
    }
    if v6 {
        // Answers must come from the address that was asked; checksums cover it as well.
        options::set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
            .map_err(LineError::system("addresses of packets received"))?;
    }
    Ok(())
}

/// Destination and payload of an IPv4 packet (RFC 791 §3.1).
fn payload_v4(packet: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let header = packet.first_chunk::<IPV4_HEADER>()?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    let fits = header[0] >> 4 == 4 && len >= IPV4_HEADER;
    packet.get(len..).filter(|_| fits).map(|payload| (destination, payload))
}

/// A word to the user where this kernel speaks the protocol itself, in this namespace.
pub(crate) fn kernel_speaks(protocol: u8) -> Option<String> {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    let name = match protocol {
        132 => "SCTP",
        33 => "DCCP",
        _ => return None,
    };
    protocols.lines().any(|line| line.starts_with(name)).then(|| {
        format!(
            "this machine's kernel speaks {name} itself and refuses packets for ports that it does not know, ours \
             among them: unload its module, or drop what it answers with a firewall rule"
        )
    })
}

/// A listener's port of a protocol, held against other listeners on this machine.
///
/// Raw sockets share everything, and two listeners on one port would both answer. An abstract Unix address belongs to
/// one socket in a network namespace, as a port does, and goes with it.
pub(crate) struct PortHeld {
    _socket: UnixDatagram,
}

impl PortHeld {
    pub fn take(protocol: u8, local: SocketAddr) -> Result<Self, LineError> {
        let name = format!("antiphon/ip/{protocol}/{local}");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)
            .map_err(LineError::system("cannot hold the port"))?;
        let socket = UnixDatagram::bind_addr(&address).map_err(LineError::binding(local))?;
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
        assert_eq!(payload_v4(&packet), Some((Ipv4Addr::new(192, 0, 2, 1), &b"abcd"[..])));
        for (first, len) in [(0x44, 28), (0x56, 28), (0x4f, 28), (0x45, 19)] {
            packet[0] = first;
            assert_eq!(payload_v4(&packet[..len]), None, "{first:#x} of {len}");
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
