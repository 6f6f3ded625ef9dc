//! Datagram system calls, for one (`recvmsg`, `sendto`) or for a batch (`recvmmsg`, `sendmmsg`), with the kernel's receive
//! time stamps.
//!
//! Our own code over libc, since the batching libraries examined (quinn-udp 0.5) drop the time stamps. Everything is
//! allocated once; a round of the media thread costs one system call each way. A call for a batch costs a loopback
//! round trip half a microsecond more than one for a single datagram, so it is used only where several datagrams wait.
#![allow(unsafe_code, reason = "C structures of the socket calls")]

mod receive;
mod send;

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use crate::system::{self, libc};

pub(crate) use receive::{Ask, Datagram, ReceiveBatch};
pub(crate) use send::{Batch, SendBatch, Taken};

/// Datagrams per system call: a burst of several streams.
pub(crate) const BATCH: usize = 16;

/// A zeroed C structure.
fn zeroed<T: Plain>() -> T {
    // SAFETY: Plain types are C structures for which all bits zero is a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// C structures for which all bits zero is valid.
trait Plain {}
impl Plain for libc::sockaddr_storage {}
impl Plain for system::mmsghdr {}

/// The address that the kernel wrote, of either version of IP.
pub(crate) fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in, which is smaller and less aligned.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = std::net::Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
