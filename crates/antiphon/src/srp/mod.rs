//! SRP with the programming interface of its report: a client or a server on a UDP socket that the program made.
//!
//! Where [`crate::send`] and [`crate::receive`] carry sound by URI, this carries the program's own messages and reports
//! each loss as it is decided, over a socket that the program makes, binds and connects (report, sections 3 and 8). The
//! C functions `srp_*` are a thin layer over it.
//!
//! One socket serves one client or one server: two would take each other's datagrams. Both sides need the same
//! [`Mode`](antiphon_proto::srp::Mode).

mod client;
mod server;

#[cfg(test)]
mod tests;

pub use client::{Incoming, SrpClient};
pub use server::SrpServer;

use std::io;
use std::net::SocketAddr;

use antiphon_core::wire::{ETHERNET_MTU, UDP_IPV4_HEADERS, UDP_IPV6_HEADERS};

/// Numbers of errors.
#[cfg(unix)]
use libc as number;

/// Numbers of errors, as Windows and its sockets have them.
#[cfg(windows)]
mod number {
    use windows_sys::Win32::Foundation::ERROR_IO_DEVICE;
    use windows_sys::Win32::Networking::WinSock as sock;

    pub const EBADF: i32 = sock::WSAEBADF;
    pub const EINVAL: i32 = sock::WSAEINVAL;
    pub const EMSGSIZE: i32 = sock::WSAEMSGSIZE;
    pub const ECANCELED: i32 = sock::WSAECANCELLED;
    pub const EIO: i32 = ERROR_IO_DEVICE as i32;
}

/// An error with its number in C, on Windows with that of the system.
fn system(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The largest UDP payload that crosses Ethernet whole, to that peer: 1500 bytes less the headers of IP and UDP.
fn max_datagram(to: SocketAddr) -> usize {
    ETHERNET_MTU - if to.is_ipv4() { UDP_IPV4_HEADERS } else { UDP_IPV6_HEADERS }
}

/// Room for any packet.
const PACKET_ROOM: usize = 65_536;
/// How soon it is noticed that the program has closed its descriptor.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
