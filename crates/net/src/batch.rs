//! Batched datagram system calls (`recvmmsg`, `sendmmsg`) with the kernel's receive time stamps.
//!
//! Our own over libc, since the batching libraries looked at (quinn-udp 0.5) drop the time stamps. Everything is
//! allocated once; a round of the media thread costs one system call each way.
#![allow(unsafe_code, reason = "recvmmsg and sendmmsg over buffers that this module owns")]

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;

use antiphon_core::BrokenReason;
use socket2::SockAddr;

use crate::control::{self, Control};
use crate::datagrams::{Trouble, classify};

/// Datagrams per system call: a busy moment of several streams.
pub(crate) const BATCH: usize = 16;
/// Room per received datagram: the largest there is. Pages that no datagram touches cost no memory.
const RECEIVE_ROOM: usize = 65_536;
/// Room for the control messages of one datagram: a time stamp and some to spare.
const CONTROL_ROOM: usize = 128;

/// Buffers for receiving.
pub(crate) struct ReceiveBatch {
    data: Vec<u8>,
    control: Vec<[u64; CONTROL_ROOM / 8]>,
    names: Vec<libc::sockaddr_storage>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

/// One received datagram.
pub(crate) struct Datagram<'a> {
    pub bytes: &'a [u8],
    pub from: Option<SocketAddr>,
    /// Wall-clock time at which the kernel took it from the wire.
    pub stamp: Option<Duration>,
}

impl ReceiveBatch {
    pub fn new() -> Self {
        ReceiveBatch {
            data: vec![0; BATCH * RECEIVE_ROOM],
            control: vec![[0; CONTROL_ROOM / 8]; BATCH],
            names: vec![zeroed(); BATCH],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH],
            headers: vec![zeroed(); BATCH],
        }
    }

    /// Reads up to [`BATCH`] datagrams; 0 when there is none. Waits for the first as long as the socket's receive
    /// time-out, if told to.
    pub fn receive(&mut self, fd: RawFd, wait: bool) -> io::Result<usize> {
        // Who waits for one expects one: asking for more costs a second look at an empty queue.
        let (flags, count) = if wait { (0, 1) } else { (libc::MSG_DONTWAIT, BATCH) };
        for i in 0..count {
            self.vectors[i] = libc::iovec {
                iov_base: self.data[i * RECEIVE_ROOM..].as_mut_ptr().cast(),
                iov_len: RECEIVE_ROOM,
            };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.control[i].as_mut_ptr().cast();
            header.msg_controllen = CONTROL_ROOM as _;
            header.msg_flags = 0;
        }
        // SAFETY: every header points into buffers owned by self, of the lengths given, which outlive the call.
        let n = unsafe {
            libc::recvmmsg(fd, self.headers.as_mut_ptr(), count as u32, flags as _, std::ptr::null_mut())
        };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    }

    /// The `i`th datagram of the last [`Self::receive`].
    pub fn datagram(&self, i: usize) -> Datagram<'_> {
        let header = &self.headers[i];
        let len = (header.msg_len as usize).min(RECEIVE_ROOM);
        Datagram {
            bytes: &self.data[i * RECEIVE_ROOM..i * RECEIVE_ROOM + len],
            from: socket_address(&self.names[i]),
            stamp: control::kernel_stamp(&header.msg_hdr),
        }
    }

    /// Our address that the `i`th datagram was sent to, where an IPv6 socket was told to say so.
    pub fn destination_v6(&self, i: usize) -> Option<Ipv6Addr> {
        control::destination_v6(&self.headers[i].msg_hdr)
    }
}

/// One datagram to send.
pub(crate) struct Outgoing<'a> {
    pub bytes: &'a [u8],
    /// `None`: the connected peer.
    pub to: Option<SocketAddr>,
}

/// What became of the datagrams of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub len: usize,
    pub taken: Taken,
    /// What a peer's machine said, if it did.
    pub refused: Option<BrokenReason>,
}

/// Which datagrams of a batch the kernel took, the first in the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken(u32);

impl Taken {
    /// How many.
    pub fn count(self) -> u64 {
        u64::from(self.0.count_ones())
    }

    /// Their places in the batch.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..BATCH).filter(move |i| self.0 & (1 << i) != 0)
    }
}

/// Buffers for sending.
pub(crate) struct SendBatch {
    data: Vec<u8>,
    room: usize,
    names: Vec<SockAddr>,
    named: Vec<bool>,
    control: Vec<Control>,
    control_len: Vec<usize>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    len: usize,
}

impl SendBatch {
    /// For datagrams of at most `room` bytes.
    pub fn new(room: usize) -> Self {
        let nowhere: SocketAddr = ([0, 0, 0, 0], 0).into();
        SendBatch {
            data: vec![0; BATCH * room],
            room,
            names: vec![nowhere.into(); BATCH],
            named: vec![false; BATCH],
            control: vec![Control::default(); BATCH],
            control_len: vec![0; BATCH],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH],
            headers: vec![zeroed(); BATCH],
            len: 0,
        }
    }

    /// The buffer for the next datagram; `None` when the batch is full.
    pub fn next(&mut self) -> Option<&mut [u8]> {
        let start = self.len * self.room;
        (self.len < BATCH).then(|| &mut self.data[start..start + self.room])
    }

    /// Takes what was written into [`Self::next`]: `len` bytes for `to`, or for the connected peer.
    pub fn commit(&mut self, len: usize, to: Option<SocketAddr>) {
        self.commit_from(len, to, None);
    }

    /// As [`Self::commit`], sent from that address of this machine's; `None` leaves it to the kernel.
    pub fn commit_from(&mut self, len: usize, to: Option<SocketAddr>, from: Option<IpAddr>) {
        let i = self.len;
        self.control_len[i] = from.map_or(0, |from| control::write_source(&mut self.control[i], from));
        self.named[i] = to.is_some();
        if let Some(to) = to {
            self.names[i] = to.into();
        }
        self.vectors[i] =
            libc::iovec { iov_base: self.data[i * self.room..].as_mut_ptr().cast(), iov_len: len };
        self.len += 1;
    }

    /// Datagrams waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The `i`th datagram handed to [`Self::commit`] since the last [`Self::send`], this one included.
    pub fn datagram(&self, i: usize) -> Outgoing<'_> {
        let start = i * self.room;
        Outgoing {
            bytes: &self.data[start..start + self.vectors[i].iov_len],
            to: self.named[i].then(|| self.names[i].as_socket()).flatten(),
        }
    }

    /// Sends everything, and says what became of it.
    pub fn flush(&mut self, fd: RawFd) -> Batch {
        let (len, mut refused) = (self.len, None);
        let taken = self.send(fd, |error| match classify(&error) {
            Trouble::Refused(reason) => refused = Some(reason),
            // The datagram is gone, and is counted by not being taken. A socket of no use says so when it is read.
            Trouble::Passing | Trouble::Fatal => {}
        });
        Batch { len, taken, refused }
    }

    /// Sends everything; calls `failed` with each error of the socket. Answers which datagrams it took.
    ///
    /// The socket's send time-out is waited for once: a full queue must not cost it for each of a batch.
    fn send(&mut self, fd: RawFd, mut failed: impl FnMut(io::Error)) -> Taken {
        for i in 0..self.len {
            let header = &mut self.headers[i].msg_hdr;
            let name = &self.names[i];
            header.msg_name =
                if self.named[i] { name.as_ptr().cast_mut().cast() } else { std::ptr::null_mut() };
            header.msg_namelen = if self.named[i] { name.len() } else { 0 };
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = match self.control_len[i] {
                0 => std::ptr::null_mut(),
                _ => self.control[i].as_mut_ptr().cast(),
            };
            header.msg_controllen = self.control_len[i] as _;
        }
        let (mut sent, mut taken, mut tried_again, mut flags) = (0, 0, false, 0);
        while sent < self.len {
            // SAFETY: headers[sent..len] point into buffers owned by self, set just above.
            let n = unsafe {
                libc::sendmmsg(fd, self.headers[sent..].as_mut_ptr(), (self.len - sent) as u32, flags)
            };
            if n > 0 {
                taken |= ((1 << n) - 1) << sent;
                sent += n as usize;
                tried_again = false;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            // The error is of the first datagram not sent. A pending ICMP error of an earlier one is cleared by
            // being reported, and did not cost this one its chance: try it once more.
            let pending = matches!(classify(&error), Trouble::Refused(BrokenReason::Refused)) && !tried_again;
            if error.kind() == io::ErrorKind::WouldBlock {
                flags = libc::MSG_DONTWAIT as _;
            }
            failed(error);
            tried_again = pending;
            sent += usize::from(!pending);
        }
        self.len = 0;
        Taken(taken)
    }
}

// SAFETY: the raw pointers inside point into the same value's own buffers and are set anew before every system call,
// so a move to another thread leaves nothing dangling.
unsafe impl Send for ReceiveBatch {}
// SAFETY: as above.
unsafe impl Send for SendBatch {}

/// A zeroed C structure.
fn zeroed<T: Plain>() -> T {
    // SAFETY: Plain types are C structures for which all bits zero is a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// C structures for which all bits zero is valid.
trait Plain {}
impl Plain for libc::sockaddr_storage {}
impl Plain for libc::mmsghdr {}

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
mod tests {
    use super::*;
    use antiphon_core::Instant;
    use socket2::{Domain, Socket, Type};
    use std::os::fd::AsRawFd;

    use crate::clock::OsClock;

    /// A pair of local sockets: unlike loopback they make a sender wait for its receiver.
    fn pair(timeout: Duration) -> (Socket, Socket) {
        let (near, far) = Socket::pair(Domain::UNIX, Type::DGRAM, None).expect("a socket pair");
        near.set_write_timeout(Some(timeout)).expect("a socket");
        near.set_send_buffer_size(4_096).expect("a socket");
        far.set_nonblocking(true).expect("a socket");
        (near, far)
    }

    fn fill(batch: &mut SendBatch, count: usize) {
        for n in 0..count {
            let room = batch.next().expect("room in the batch");
            room[0] = n as u8;
            batch.commit(100, None);
        }
    }

    #[test]
    fn a_full_batch_is_sent_in_order_and_takes_no_more() {
        let (near, far) = pair(Duration::from_millis(40));
        near.set_send_buffer_size(1 << 16).expect("a socket");
        let mut batch = SendBatch::new(200);
        // Local sockets queue so few only (net.unix.max_dgram_qlen, 10 on most machines).
        fill(&mut batch, 8);
        assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(0xff));
        assert_eq!(batch.len(), 0);
        let mut received = ReceiveBatch::new();
        assert_eq!(received.receive(far.as_raw_fd(), false).expect("a socket"), 8);
        for n in 0..8 {
            let datagram = received.datagram(n);
            assert_eq!((datagram.bytes.len(), datagram.bytes[0]), (100, n as u8));
            assert!(datagram.from.is_none(), "no address of IP");
        }
        assert_eq!(received.receive(far.as_raw_fd(), false).expect("a socket"), 0);
        fill(&mut batch, BATCH);
        assert!(batch.next().is_none());
    }

    #[test]
    fn a_receiver_that_takes_nothing_costs_the_send_time_out_once_a_batch() {
        let (near, _far) = pair(Duration::from_millis(40));
        let clock = OsClock::new();
        let mut batch = SendBatch::new(200);
        let mut failed = 0;
        for _ in 0..4 {
            fill(&mut batch, BATCH);
            batch.send(near.as_raw_fd(), |_| failed += 1);
        }
        // 64 datagrams into a socket with room for some ten: at 40 ms each they would take two seconds.
        assert!(failed > 40, "{failed} found no room");
        let took = clock.now().since(Instant::ZERO);
        assert!(took >= Duration::from_millis(40) && took < Duration::from_millis(600), "{took:?}");
    }
}
