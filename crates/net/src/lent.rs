//! A UDP socket that belongs to the application, which lends it to a protocol.
//!
//! A duplicate of the descriptor is used here, never the program's own number: when the program closes its descriptor,
//! or the system gives the number to another file, nothing here reads or writes there. The program's close is noticed
//! by comparing what both descriptors refer to. No flag of the socket is changed: it may block or not.
#![allow(unsafe_code, reason = "descriptors, recvmsg and sendto on a socket that no Rust value owns")]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::Instant;
use socket2::SockAddr;

use crate::batch::socket_address;
use crate::clock::OsClock;
use crate::control::kernel_stamp;
use crate::options::{is_multicast, read_int, set_int};
use crate::poll::{self, Readiness};
use crate::system::fd::{AsRawFd, OwnedFd, RawFd};
use crate::system::{self, libc};
use crate::wake::Waker;

/// A program's UDP socket, used to talk to one peer. Dropping it leaves the program's descriptor open and unchanged.
#[derive(Debug)]
pub struct LentSocket {
    socket: OwnedFd,
    lender: RawFd,
    identity: system::Identity,
    peer: SocketAddr,
    peer_name: SockAddr,
    waker: Waker,
    stamps_are_ours: bool,
}

/// Result of a read of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A datagram of the peer's.
    Datagram {
        /// Its length in bytes, at most the buffer's.
        len: usize,
        /// When the kernel received it.
        received_at: Instant,
    },
    /// A datagram from another address than the peer's: taken off the queue and dropped.
    UnknownSource,
    /// No datagram waits.
    Nothing,
}

impl LentSocket {
    /// Borrows the UDP socket that is descriptor `lender` of this process, to talk to `peer`.
    ///
    /// Errors carry the number known in C: `EBADF` (no open descriptor), `ENOTSOCK`, `EPROTOTYPE` (not a datagram
    /// socket), `EPROTONOSUPPORT` (not UDP), `EAFNOSUPPORT` (of another IP version than `peer`), `EINVAL` (`peer` is a
    /// group, has no port or no address).
    pub fn lend(lender: RawFd, peer: SocketAddr) -> io::Result<Self> {
        let failed = |number: i32| Err(io::Error::from_raw_os_error(number));
        let socket = system::duplicate(lender)?;
        if read_int(&socket, libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_DGRAM {
            return failed(libc::EPROTOTYPE);
        }
        let family = if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        if system::family_of(&socket)? != family {
            return failed(libc::EAFNOSUPPORT);
        }
        if system::protocol_of(&socket)? != libc::IPPROTO_UDP {
            return failed(libc::EPROTONOSUPPORT);
        }
        if peer.port() == 0 || peer.ip().is_unspecified() || is_multicast(peer.ip()) {
            return failed(libc::EINVAL);
        }
        let identity = system::Identity::of(socket.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        let waker = Waker::new()?;
        // The two kinds of time stamp exclude each other: a program that has enabled either keeps it.
        let has = |name| read_int(&socket, libc::SOL_SOCKET, name).is_ok_and(|value| value != 0);
        let free = !has(system::SO_STAMPS) && !has(libc::SO_TIMESTAMP);
        // Without time stamps, the time of arrival is the time of reading.
        let stamps_are_ours = free && set_int(&socket, libc::SOL_SOCKET, system::SO_STAMPS, 1).is_ok();
        Ok(LentSocket { socket, lender, identity, peer, peer_name: peer.into(), waker, stamps_are_ours })
    }

    /// Ends [`Self::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Whether the program's descriptor is still open and still this socket.
    pub fn is_lent(&self) -> bool {
        self.identity.is_of(self.lender)
    }

    /// Sleeps until a datagram arrives, the waker is used, or the time-out is over. Returns an error when a signal came
    /// (`EINTR`), or when the socket was shut down or the program has closed it (`EBADF`), which is checked before and
    /// after the wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        if !self.is_lent() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let want = Readiness { readable: true, writable: false };
        let waited = poll::wait_or_woken(self.socket.as_raw_fd(), want, self.waker.fd(), timeout)?;
        if waited.woken {
            self.waker.clear();
        }
        if waited.hung_up || !self.is_lent() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        Ok(())
    }

    /// Reads the next datagram of the socket's queue, without waiting. Errors of earlier datagrams (ICMP) are returned
    /// here, once each, where the socket is connected.
    pub fn receive(&self, clock: &OsClock, buf: &mut [u8]) -> io::Result<Arrival> {
        if system::MAY_WAIT
            && !poll::wait(self.socket.as_raw_fd(), Readiness::READABLE, Duration::ZERO).readable
        {
            return Ok(Arrival::Nothing);
        }
        let mut vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let mut control = [0u64; 16];
        // SAFETY: all zeros are a valid address of no family.
        let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        // SAFETY: a msghdr of zeros is valid; its pointers are set to live buffers of the lengths given.
        let (n, header) = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_name = (&raw mut name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut vector;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            (libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT), header)
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Arrival::Nothing),
                _ => Err(error),
            };
        }
        let from = socket_address(&name);
        if from.is_none_or(|from| (from.ip(), from.port()) != (self.peer.ip(), self.peer.port())) {
            return Ok(Arrival::UnknownSource);
        }
        let received_at = clock.read().instant_of(kernel_stamp(&header));
        Ok(Arrival::Datagram { len: n as usize, received_at })
    }

    /// Sends a datagram to the peer, waiting for room as the program's socket does. If only an ICMP error of an earlier
    /// datagram is pending, it is tried again.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.send_once(bytes) {
            Err(error) if error.raw_os_error() == Some(system::UDP_REFUSED) => self.send_once(bytes),
            other => other,
        }
    }

    fn send_once(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: pointers and lengths are of a live slice and a live address.
        let n = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL,
                self.peer_name.as_ptr().cast(),
                self.peer_name.len(),
            )
        };
        if n >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for LentSocket {
    fn drop(&mut self) {
        if self.stamps_are_ours {
            // The program that owns the socket did not enable stamps.
            let _nothing_to_be_done = set_int(&self.socket, libc::SOL_SOCKET, system::SO_STAMPS, 0);
        }
    }
}

#[cfg(test)]
mod tests;
