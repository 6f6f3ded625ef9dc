//! What all Unix systems have in common.
#![allow(unsafe_code, reason = "calls and C structures that nix and socket2 lack")]

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_getres, clock_gettime};
use socket2::{InterfaceIndexOrAddress, Socket};

use self::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// C's names for sockets.
pub(crate) use ::libc;
/// Reads a byte stream with the time stamp of what came.
pub(crate) use ::libc::recvmsg as receive_stream;

/// Sockets, which are descriptors.
pub(crate) mod fd {
    pub use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
}

/// No socket.
pub(crate) const NO_FD: RawFd = -1;
/// Whether a receiving call may wait by itself, as long as the socket's time-out; one that may not is told by a flag.
pub(crate) const SLEEPS_IN_CALL: bool = true;
/// Whether a receiving call that is to return at once may wait all the same, on a socket whose owner has it wait.
pub(crate) const MAY_WAIT: bool = false;
/// Whether a raw socket receives before it is bound.
pub(crate) const RECEIVES_UNBOUND: bool = true;
/// Flags for writing to a stream without waiting, and without a signal if the peer is gone.
pub(crate) const WRITE_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// The error by which a datagram socket tells that no socket is bound at the peer's port.
pub(crate) const UDP_REFUSED: i32 = libc::ECONNREFUSED;

/// What holds a name, see `hold_name`.
pub(crate) type HeldName = std::os::unix::net::UnixDatagram;

/// The longest payload of a segment of this connection, in bytes.
pub(crate) fn segment_of(socket: &socket2::Socket) -> Option<usize> {
    socket.tcp_mss().ok().and_then(|bytes| bytes.try_into().ok())
}

/// Nanoseconds of the clock that never goes back.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub(crate) fn wall_nanos() -> u64 {
    nanos(ClockId::CLOCK_REALTIME)
}

/// Nanoseconds of processor time that the calling thread has used.
pub(crate) fn thread_cpu_nanos() -> u64 {
    nanos(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("every Unix has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// The resolution that the system promises for the clock that never goes back.
pub(crate) fn clock_resolution() -> Option<Duration> {
    let resolution = clock_getres(ClockId::CLOCK_MONOTONIC).ok()?;
    Some(Duration::new(u64::try_from(resolution.tv_sec()).ok()?, u32::try_from(resolution.tv_nsec()).ok()?))
}

/// The most files and sockets that this process may have open, after it has raised its own limit; `None`: unlimited, or not to be read.
pub(crate) fn most_open_files() -> Option<u64> {
    let limits = getrlimit(Resource::RLIMIT_NOFILE).ok();
    limits.filter(|(soft, _)| *soft != libc::RLIM_INFINITY).map(|(_, hard)| hard)
}

/// Raises the limit on open files to `wanted` as far as the system lets this process; returns it if that is not enough.
pub(crate) fn allow_open_files(wanted: u64) -> Result<(), u64> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let raised = wanted.min(hard);
    if soft >= wanted || raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() {
        return if soft.max(raised) >= wanted { Ok(()) } else { Err(soft.max(raised)) };
    }
    Err(soft)
}

/// Bytes written to a TCP connection that the peer's machine has not acknowledged.
pub(crate) fn unconfirmed(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ, tcp(7)) writes one int, which lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { bytes.max(0) as usize } else { 0 }
}

/// Prepares a socket that has just been opened: nothing is needed here.
pub(crate) fn prepare(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

/// Prepares an established connection, begun without waiting, for use: calls wait unless they are told not to.
pub(crate) fn settle(stream: &Socket) -> io::Result<()> {
    stream.set_nonblocking(false)
}

/// Has a datagram socket report what the peer's machine refuses: it does so, once it is connected.
pub(crate) fn report_refusals(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

/// Lets a listening socket be bound while connections of an earlier one are in TIME-WAIT.
pub(crate) fn allow_rebinding(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)
}

/// Sets the traffic class of IPv6 packets.
pub(crate) fn set_traffic_class(socket: &Socket, class: u32) -> io::Result<()> {
    socket.set_tclass_v6(class)
}

/// Takes a connected datagram socket's peer away, and with it the source address that the kernel chose.
pub(crate) fn disconnect(socket: &Socket) -> io::Result<()> {
    // SAFETY: zeros are a valid address; on some systems it begins with its length.
    let mut nobody: libc::sockaddr = unsafe { std::mem::zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the pointer is to a live sockaddr of the length given.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &raw const nobody, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends to IPv4 groups through that interface, from its address `source` if given.
pub(crate) fn set_multicast_interface_v4(socket: &Socket, index: u32, source: Ipv4Addr) -> io::Result<()> {
    let request = libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: libc::in_addr { s_addr: u32::from(source).to_be() },
        imr_ifindex: index as i32,
    };
    crate::options::set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

/// Where a group of IPv4 is joined: by the interface's index, 0 for the system's choice.
pub(crate) fn interface_to_join(index: u32, _name: Option<&str>) -> InterfaceIndexOrAddress {
    InterfaceIndexOrAddress::Index(index)
}

/// The address from which an answer should leave: for a broadcast the interface's.
pub(crate) fn own_address_v4(info: &libc::in_pktinfo) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)))
}

/// What has a packet sent from `source`.
pub(crate) fn from_address_v4(source: Ipv4Addr) -> libc::in_pktinfo {
    let address = libc::in_addr { s_addr: u32::from(source).to_be() };
    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: libc::in_addr { s_addr: 0 } }
}

/// Index of the network interface of that name or, if it is an address, with that address; `None` if there is none.
pub(crate) fn interface_index(name: &str) -> io::Result<Option<u32>> {
    let Ok(address) = name.parse::<IpAddr>() else { return Ok(nix::net::if_::if_nametoindex(name).ok()) };
    let of_that_address = |interface: &nix::ifaddrs::InterfaceAddress| {
        interface.address.is_some_and(|storage| match address {
            IpAddr::V4(v4) => storage.as_sockaddr_in().is_some_and(|found| found.ip() == v4),
            IpAddr::V6(v6) => storage.as_sockaddr_in6().is_some_and(|found| found.ip() == v6),
        })
    };
    let found = nix::ifaddrs::getifaddrs()?.find(of_that_address);
    Ok(found.and_then(|found| nix::net::if_::if_nametoindex(found.interface_name.as_str()).ok()))
}

/// Another descriptor of the same socket; a bad number is answered with `EBADF`.
pub(crate) fn duplicate(lender: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes a number; a bad one is answered with EBADF.
    let copy = unsafe { libc::fcntl(lender, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// What a descriptor refers to: device and inode number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(libc::dev_t, libc::ino_t);

impl Identity {
    /// What an open descriptor refers to.
    pub fn of(fd: RawFd) -> Option<Self> {
        // SAFETY: all zeros are a valid stat; fstat writes into it, and answers a bad number with an error.
        let (result, stat) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &raw mut stat), stat)
        };
        (result == 0).then_some(Identity(stat.st_dev, stat.st_ino))
    }

    /// Whether that descriptor refers to the same.
    pub fn is_of(self, fd: RawFd) -> bool {
        Self::of(fd) == Some(self)
    }
}
