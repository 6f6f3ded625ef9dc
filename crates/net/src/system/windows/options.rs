//! Socket options.
#![allow(unsafe_code, reason = "Winsock's calls over what their caller owns")]

use std::ffi::c_void;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use antiphon_core::{ByteCount, KernelReport};
use socket2::Socket;
use windows_sys::Win32::Networking::WinSock as sock;

use super::fd::{AsRawFd, RawFd};
use super::libc;
use crate::options::{read_int, set, set_int};

pub(crate) const IP_MTU: i32 = sock::IP_MTU;
pub(crate) const IPV6_MTU: i32 = sock::IPV6_MTU;

/// C's `setsockopt`.
///
/// # Safety
///
/// `value` points to `len` live bytes.
pub unsafe fn setsockopt(fd: RawFd, level: i32, name: i32, value: *const c_void, len: i32) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { sock::setsockopt(fd as sock::SOCKET, level, name, value.cast(), len) }
}

/// C's `getsockopt`.
///
/// # Safety
///
/// `value` points to as many live bytes as `len` says, which is live.
pub unsafe fn getsockopt(fd: RawFd, level: i32, name: i32, value: *mut c_void, len: *mut i32) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { sock::getsockopt(fd as sock::SOCKET, level, name, value.cast(), len) }
}

/// `WSAIoctl` with one value in and, where `output` has room, one out; returns how many bytes came.
fn control<T>(fd: RawFd, code: u32, input: &T, output: &mut [u8]) -> io::Result<usize> {
    let mut returned = 0;
    // SAFETY: pointers and lengths are of live values; without an OVERLAPPED the call is over when it returns.
    let result = unsafe {
        sock::WSAIoctl(
            fd as sock::SOCKET,
            code,
            (&raw const *input).cast(),
            size_of::<T>() as u32,
            output.as_mut_ptr().cast(),
            output.len() as u32,
            &raw mut returned,
            std::ptr::null_mut(),
            None,
        )
    };
    if result == 0 { Ok(returned as usize) } else { Err(io::Error::last_os_error()) }
}

/// Prepares a socket that has just been opened: no call on it waits, and one for datagrams does not report what machines refuse, as it may have many peers.
pub(crate) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if read_int(socket, libc::SOL_SOCKET, libc::SO_TYPE)? == libc::SOCK_DGRAM {
        control(socket.as_raw_fd(), sock::SIO_UDP_CONNRESET, &0i32, &mut [])?;
    }
    Ok(())
}

/// Has a datagram socket, which is connected to one peer, report what the peer's machine refuses.
pub(crate) fn report_refusals(socket: &Socket) -> io::Result<()> {
    control(socket.as_raw_fd(), sock::SIO_UDP_CONNRESET, &1i32, &mut []).map(drop)
}

/// Prepares an established connection for use: no call on it waits.
pub(crate) fn settle(stream: &Socket) -> io::Result<()> {
    stream.set_nonblocking(true)
}

/// Lets a listening socket be bound while connections of an earlier one are in TIME-WAIT: Windows does so by itself, and reuse of the address would have two
/// programs listen on one port.
pub(crate) fn allow_rebinding(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family_of(socket: &impl AsRawFd) -> io::Result<i32> {
    protocol_info(socket).map(|info| info.iAddressFamily)
}

/// The protocol of a socket, such as `IPPROTO_UDP`.
pub(crate) fn protocol_of(socket: &impl AsRawFd) -> io::Result<i32> {
    protocol_info(socket).map(|info| info.iProtocol)
}

fn protocol_info(socket: &impl AsRawFd) -> io::Result<sock::WSAPROTOCOL_INFOW> {
    // SAFETY: integers and arrays of them, for which zeros are valid.
    let mut info: sock::WSAPROTOCOL_INFOW = unsafe { std::mem::zeroed() };
    let mut len = size_of::<sock::WSAPROTOCOL_INFOW>() as i32;
    let to = (&raw mut info).cast();
    // SAFETY: the pointers are to live values of the length given.
    let result = unsafe {
        getsockopt(socket.as_raw_fd(), sock::SOL_SOCKET, sock::SO_PROTOCOL_INFOW, to, &raw mut len)
    };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Forbids (or allows) IP fragmentation of this socket's datagrams.
pub(crate) fn set_fragmentation(socket: &Socket, allowed: bool, v6: bool) -> io::Result<()> {
    if !v6 {
        return set_int(socket, sock::IPPROTO_IP, sock::IP_DONTFRAGMENT, i32::from(!allowed));
    }
    // For the IPv4 peers of a socket of both versions; one of IPv6 alone refuses it.
    let _without_ipv4 = set_int(socket, sock::IPPROTO_IP, sock::IP_DONTFRAGMENT, i32::from(!allowed));
    set_int(socket, sock::IPPROTO_IPV6, sock::IPV6_DONTFRAG, i32::from(!allowed))
}

/// Sets the traffic class of IPv6 packets. Windows takes it, but sends it only where its policy lets programs choose.
pub(crate) fn set_traffic_class(socket: &Socket, class: u32) -> io::Result<()> {
    set_int(socket, sock::IPPROTO_IPV6, sock::IPV6_TCLASS, class as i32)
}

/// How long sent data may wait for its acknowledgement, in whole seconds.
pub(crate) fn set_user_timeout(socket: &Socket, patience: Duration) -> io::Result<()> {
    let seconds = patience.as_secs().clamp(1, i32::MAX as u64) as i32;
    set_int(socket, sock::IPPROTO_TCP, sock::TCP_MAXRT, seconds)
}

/// Takes a connected datagram socket's peer away: by connecting to the address of zeros.
pub(crate) fn disconnect(socket: &Socket) -> io::Result<()> {
    let nobody: [u64; 16] = [0; 16];
    let len = size_of::<sock::SOCKADDR_IN6>() as i32;
    // SAFETY: the pointer is to more live bytes than the length says.
    let result = unsafe { sock::connect(socket.as_raw_fd() as sock::SOCKET, nobody.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends to IPv4 groups through that interface, from its address `source` if given.
pub(crate) fn set_multicast_interface_v4(socket: &Socket, index: u32, source: Ipv4Addr) -> io::Result<()> {
    // An address, or the interface's index in network byte order, which no address of a machine looks like.
    let chosen = if source.is_unspecified() { index } else { u32::from(source) };
    set(socket, sock::IPPROTO_IP, sock::IP_MULTICAST_IF, &chosen.to_be())
}

/// The kernel's figures of a connection (`SIO_TCP_INFO`, Windows 10 and later). It counts bytes, not segments: their numbers are those of full segments.
pub(crate) fn kernel_report(socket: &Socket) -> Option<KernelReport> {
    let info = tcp_info(socket.as_raw_fd())?;
    let segments = |bytes: u64| bytes.div_ceil(u64::from(info.Mss).max(1));
    let micros = |time: u32| Duration::from_micros(time.into());
    Some(KernelReport {
        srtt: micros(info.RttUs),
        // It does not tell this one.
        rttvar: Duration::ZERO,
        min_rtt: micros(info.MinRttUs),
        cwnd: ByteCount(info.Cwnd.into()),
        in_flight: ByteCount(info.BytesInFlight.into()),
        retransmitted: segments(info.BytesRetrans.into()),
        sent_bytes: info.BytesOut,
        segments_sent: segments(info.BytesOut),
    })
}

/// Bytes sent to a TCP connection that the peer's machine has not acknowledged; those that wait to be sent are not told.
pub(crate) fn unconfirmed(fd: RawFd) -> usize {
    tcp_info(fd).map_or(0, |info| info.BytesInFlight as usize)
}

fn tcp_info(fd: RawFd) -> Option<sock::TCP_INFO_v0> {
    let mut room = [0; size_of::<sock::TCP_INFO_v0>()];
    // The input is the structure's version.
    let len = control(fd, sock::SIO_TCP_INFO, &0u32, &mut room).ok()?;
    // SAFETY: integers and a flag; the kernel wrote all of them.
    (len == room.len()).then(|| unsafe { room.as_ptr().cast::<sock::TCP_INFO_v0>().read_unaligned() })
}
