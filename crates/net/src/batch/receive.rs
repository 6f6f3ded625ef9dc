//! Buffers for receiving datagrams.
#![allow(unsafe_code, reason = "recvmsg and recvmmsg over buffers that this module owns")]

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::{BATCH, socket_address, zeroed};
use crate::system::fd::RawFd;
use crate::system::libc;
use crate::{control, system};

/// Room per received datagram: the largest possible. Pages that no datagram touches cost no memory.
const RECEIVE_ROOM: usize = 65_536;
/// Distance from one datagram's room to the next. At 64 KiB the beginnings of all would share few sets of the
/// processor's caches, which then hold 8 of 16; these are 25 cache lines apart, the size of an Ethernet packet.
const STRIDE: usize = RECEIVE_ROOM + 1_600;
/// Room for the control messages of one datagram: a time stamp (32 bytes), the destination of IPv6 (40) and of IPv4 (32),
/// the number of drops (24), traffic class and hop limit of both (24 each), and the length of those that came as one (24).
const CONTROL_ROOM: usize = 248;

/// Buffers for receiving.
pub(crate) struct ReceiveBatch {
    data: Vec<u8>,
    control: Vec<[u64; CONTROL_ROOM / 8]>,
    names: Vec<libc::sockaddr_storage>,
    vectors: Vec<libc::iovec>,
    headers: Vec<system::mmsghdr>,
    /// Datagrams that the last call asked for.
    asked: usize,
    /// Whether more than one datagram is likely to wait: one was read late, or several were read.
    behind: bool,
    /// Whether datagrams have come in bursts lately, so that others wait behind one that comes.
    bursts: bool,
    /// Whether the last call brought datagrams that the kernel had put together.
    joined: bool,
}

/// One received datagram, or several of one sender that the kernel handed over as one.
pub(crate) struct Datagram<'a> {
    pub bytes: &'a mut [u8],
    /// Bytes of each of several, the last of which may be shorter.
    segment: Option<usize>,
    /// `None` if names were not requested, or are not of IP.
    pub from: Option<SocketAddr>,
    /// Wall-clock time at which the kernel received it.
    pub stamp: Option<Duration>,
}

impl Datagram<'_> {
    /// Passes on each datagram; returns how many there were.
    pub fn each(self, mut pass: impl FnMut(&mut [u8])) -> u64 {
        let len = self.segment.unwrap_or(self.bytes.len());
        let (mut rest, mut count) = (self.bytes, 0);
        loop {
            let (one, others) = rest.split_at_mut(len.min(rest.len()));
            pass(one);
            (rest, count) = (others, count + 1);
            if rest.is_empty() {
                return count;
            }
        }
    }
}

/// Datagrams to ask the kernel for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// Wait for the first as long as the socket's receive time-out. Such a call expects one datagram, and asks for no
    /// more.
    pub wait: bool,
    /// Also fetch the source addresses, which costs a copy each.
    pub names: bool,
}

impl ReceiveBatch {
    pub fn new() -> Self {
        ReceiveBatch {
            data: vec![0; BATCH * STRIDE],
            control: vec![[0; CONTROL_ROOM / 8]; BATCH],
            names: vec![zeroed(); BATCH],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH],
            headers: vec![zeroed(); BATCH],
            asked: 0,
            behind: false,
            bursts: false,
            joined: false,
        }
    }

    /// Reads waiting datagrams into the buffers: one while that is the usual number, by a cheaper plain `recvmsg`, and
    /// up to [`BATCH`] after several were there. Where the kernel puts datagrams together, one is enough: a call costs little beside it, and the
    /// processor's cache holds one buffer until it is read, but not all of them. Returns how many; 0 if there is none.
    pub fn receive(&mut self, fd: RawFd, ask: Ask) -> io::Result<usize> {
        let joined = std::mem::take(&mut self.joined);
        let count = if ask.wait || joined || !(self.behind || self.bursts) { 1 } else { BATCH };
        let flags = if ask.wait { 0 } else { libc::MSG_DONTWAIT };
        for i in 0..count {
            self.prepare(i, ask.names);
        }
        self.asked = count;
        let n = match count {
            1 => self.receive_one(fd, flags),
            // SAFETY: every header points into buffers owned by self, of the lengths given, which outlive the call.
            _ => unsafe {
                let headers = self.headers.as_mut_ptr();
                system::recvmmsg(fd, headers, count as u32, flags as _, std::ptr::null_mut())
            },
        };
        // The time stamp of a single datagram tells whether there are more, see `fall_behind`.
        self.behind = n > 1;
        if count > 1 {
            self.bursts = n >= LEAST_BURST;
        }
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    }

    fn receive_one(&mut self, fd: RawFd, flags: i32) -> libc::c_int {
        // SAFETY: the header points into buffers owned by self, of the lengths given, which outlive the call.
        let len = unsafe { libc::recvmsg(fd, &raw mut self.headers[0].msg_hdr, flags) };
        if len < 0 {
            return -1;
        }
        self.headers[0].msg_len = len as libc::c_uint;
        1
    }

    fn prepare(&mut self, i: usize, names: bool) {
        self.vectors[i] =
            libc::iovec { iov_base: self.data[i * STRIDE..].as_mut_ptr().cast(), iov_len: RECEIVE_ROOM };
        let header = &mut self.headers[i].msg_hdr;
        header.msg_name = if names { (&raw mut self.names[i]).cast() } else { std::ptr::null_mut() };
        header.msg_namelen = if names { size_of::<libc::sockaddr_storage>() as libc::socklen_t } else { 0 };
        header.msg_iov = &raw mut self.vectors[i];
        header.msg_iovlen = 1;
        header.msg_control = self.control[i].as_mut_ptr().cast();
        header.msg_controllen = CONTROL_ROOM as _;
        header.msg_flags = 0;
    }

    /// Whether more datagrams are likely to wait than have been read: the thread then does not sleep before it reads
    /// them.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// Whether to ask again after the `n` datagrams of the last call: the kernel had as many as requested.
    pub fn has_more(&self, n: usize) -> bool {
        (self.behind || self.bursts) && n == self.asked
    }

    /// Records that a datagram waited in the kernel before it was read, or came without a time stamp: more are likely
    /// to wait.
    pub fn fall_behind(&mut self) {
        self.behind = true;
    }

    /// The `i`th datagram of the last [`Self::receive`].
    pub fn datagram(&mut self, i: usize) -> Datagram<'_> {
        let header = &self.headers[i];
        let len = (header.msg_len as usize).min(RECEIVE_ROOM);
        let named = !header.msg_hdr.msg_name.is_null();
        let segment = control::segment_len(&header.msg_hdr);
        self.joined |= segment.is_some();
        Datagram {
            bytes: &mut self.data[i * STRIDE..i * STRIDE + len],
            from: if named { socket_address(&self.names[i]) } else { None },
            segment,
            stamp: control::kernel_stamp(&header.msg_hdr),
        }
    }

    /// Our address from which an answer to the `i`th datagram should leave, where the socket was told to report it.
    pub fn own_address(&self, i: usize) -> Option<IpAddr> {
        control::own_address(&self.headers[i].msg_hdr)
    }

    /// Traffic class and TTL of the `i`th datagram, where the socket was told to report them.
    pub fn class_and_ttl(&self, i: usize) -> Option<(u8, u8)> {
        control::class_and_ttl(&self.headers[i].msg_hdr)
    }

    /// The kernel's count of datagrams dropped until the `i`th.
    pub fn dropped(&self, i: usize) -> Option<u32> {
        control::dropped(&self.headers[i].msg_hdr)
    }

    /// Our address that the `i`th datagram was sent to, where an IPv6 socket was told to report it.
    pub fn destination_v6(&self, i: usize) -> Option<Ipv6Addr> {
        control::destination_v6(&self.headers[i].msg_hdr)
    }
}

/// So many datagrams at once are a burst: a call for each costs more than one that finds nothing.
const LEAST_BURST: libc::c_int = 4;

// SAFETY: the raw pointers inside point into the same value's own buffers and are set again before every system call,
// so a move to another thread leaves nothing dangling.
unsafe impl Send for ReceiveBatch {}
