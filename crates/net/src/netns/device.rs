//! The router's end of a device: IP packets in and out, for any kind of device.

#![allow(
    unsafe_code,
    reason = "TUN devices and packet sockets are set up by ioctl and bind on kernel structures"
)]

use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::uio::writev;
use socket2::{Domain, Socket, Type};

use super::NetnsError;
use crate::options::set_int;

/// Reads and writes whole IP packets, without blocking.
pub(crate) struct Port {
    file: std::fs::File,
    /// Destination and source addresses before each packet, on Ethernet.
    ethernet: Option<[u8; 12]>,
}

/// Destination, source, type.
const ETHERNET_HEADER: usize = 14;

impl Port {
    /// The next packet, from the IP header on; `None` if none waits. `buffer` holds any packet of the device.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let skip = if self.ethernet.is_some() { ETHERNET_HEADER } else { 0 };
        // ENETDOWN (the device is being removed) ends reading like any other error.
        let len = self.file.read(buffer).ok()?;
        // Shorter than a header: an empty packet, which the router ignores.
        Some(buffer[..len].get(skip..).unwrap_or_default())
    }

    /// Hands a packet to the kernel; false if it would not take it.
    pub fn write(&mut self, packet: &[u8]) -> bool {
        let Some(addresses) = &self.ethernet else {
            return writev(&self.file, &[IoSlice::new(packet)]).is_ok();
        };
        let kind: [u8; 2] = match packet.first().map(|byte| byte >> 4) {
            Some(6) => [0x86, 0xdd],
            _ => [0x08, 0x00],
        };
        writev(&self.file, &[IoSlice::new(addresses), IoSlice::new(&kind), IoSlice::new(packet)]).is_ok()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates a TUN device of that name in the namespace of the calling thread. It is removed when the port is dropped.
///
/// No offloads are asked for, so the kernel hands over finished packets: segmented, with their checksums.
pub(crate) fn tun_port(name: &str) -> Result<Port, NetnsError> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| NetnsError::new("cannot open /dev/net/tun", error))?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    Errno::result(result)
        .map_err(|error| NetnsError::new(format!("cannot make the TUN device {name}"), error))?;
    Ok(Port { file, ethernet: None })
}

/// Opens a packet socket on the device of that name in the namespace of the calling thread: the router's end of a pair
/// whose other end has the hardware address `peer`.
pub(crate) fn veth_port(name: &str, peer: [u8; 6]) -> Result<Port, NetnsError> {
    let failed = |error: io::Error| NetnsError::new(format!("cannot open a packet socket on {name}"), error);
    let index = if_nametoindex(name).map_err(|error| failed(error.into()))?;
    let every = (libc::ETH_P_ALL as u16).to_be();
    // Without a protocol nothing is received before the socket is bound to its device.
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None).map_err(failed)?;
    set_int(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1).map_err(failed)?;
    // This end was set up before its peer, so the kernel gives it a working transmit queue only up to a second later,
    // when its link watch runs, and silently drops packets until then. Bypassing the queue avoids that.
    set_int(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1).map_err(failed)?;
    if set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
        // The size is limited, which is harmless.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER as usize);
    }
    // SAFETY: sockaddr_ll is plain numbers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = every;
    address.sll_ifindex = index as i32;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a whole sockaddr_ll of the stated length and lives through the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    Errno::result(bound).map_err(|error| failed(error.into()))?;
    let mut ethernet = [0; 12];
    ethernet[..6].copy_from_slice(&peer);
    ethernet[6..].copy_from_slice(&ROUTER_ADDRESS);
    Ok(Port { file: OwnedFd::from(socket).into(), ethernet: Some(ethernet) })
}

/// Makes the kernel complete its packets (checksums, segmentation) before they reach a device in the namespace of the
/// calling thread, as for a plain network card.
///
/// A pair of virtual devices otherwise passes on packets for its far end to complete, and the router would see packets
/// of 64 kB without checksums.
pub(crate) fn disable_offloads(name: &str) -> Result<(), NetnsError> {
    let failed = |error: io::Error| NetnsError::new(format!("cannot turn the offloads of {name} off"), error);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(failed)?;
    for command in [ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO] {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = request(name);
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads one ifreq and the ethtool_value it points to; both live through the call.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        match Errno::result(result) {
            // Segmentation offload that the device never had, or that ended with the checksums.
            Ok(_) | Err(Errno::EOPNOTSUPP) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(())
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

// linux/ethtool.h.
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Room for some 2000 full packets that wait for the router.
const RECEIVE_BUFFER: i32 = 8 << 20;

/// Locally administered; visible only within the private pair.
const ROUTER_ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 0xff];

fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain numbers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte less than the room: the name ends with a zero.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}
