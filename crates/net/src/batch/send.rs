//! Buffers for sending datagrams.
#![allow(unsafe_code, reason = "sendto, sendmsg and sendmmsg over buffers that this module owns")]

use std::io;
use std::net::{IpAddr, SocketAddr};

use antiphon_core::BrokenReason;
use socket2::SockAddr;

use super::{BATCH, zeroed};
use crate::control::{self, Control};
use crate::datagrams::{Trouble, classify, is_unroutable};
use crate::system::fd::RawFd;
use crate::system::{self, libc};

/// One datagram to send.
pub(crate) struct Outgoing<'a> {
    pub bytes: &'a [u8],
    /// `None`: the connected peer.
    pub to: Option<SocketAddr>,
}

/// Results of the datagrams of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub len: usize,
    pub taken: Taken,
    /// The error that a peer's machine reported, if any.
    pub refused: Option<BrokenReason>,
    /// Whether the kernel had no way or no source address for a datagram.
    pub unroutable: bool,
    /// Whether a datagram was larger than the path takes.
    pub too_large: bool,
}

/// Which datagrams of a batch the kernel took, the first in the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken(pub(super) u64);

impl Taken {
    /// How many.
    pub fn count(self) -> u64 {
        u64::from(self.0.count_ones())
    }

    /// Their indices in the batch.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..SEGMENTS).filter(move |i| self.0 & (1 << i) != 0)
    }
}

/// Buffers for sending.
pub(crate) struct SendBatch {
    data: Vec<u8>,
    room: usize,
    /// Datagrams that it holds.
    places: usize,
    names: Vec<SockAddr>,
    named: Vec<bool>,
    control: Vec<Control>,
    control_len: Vec<usize>,
    vectors: Vec<libc::iovec>,
    headers: Vec<system::mmsghdr>,
    /// How many datagrams each header has.
    runs: Vec<usize>,
    /// Whether datagrams of one length in a row leave as one, which the kernel cuts.
    segments: bool,
    len: usize,
}

impl SendBatch {
    /// Buffers for datagrams of at most `room` bytes.
    pub fn new(room: usize) -> Self {
        SendBatch::with_places(room, BATCH)
    }

    fn with_places(room: usize, places: usize) -> Self {
        let nowhere: SocketAddr = ([0, 0, 0, 0], 0).into();
        SendBatch {
            data: vec![0; places * room],
            room,
            places,
            names: vec![nowhere.into(); places],
            named: vec![false; places],
            control: vec![Control::default(); places],
            control_len: vec![0; places],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; places],
            headers: vec![zeroed(); places],
            runs: vec![1; places],
            segments: false,
            len: 0,
        }
    }

    /// Datagrams of one length in a row leave as one, which the kernel cuts at the end of its way (`UDP_SEGMENT`, udp(7)): a quarter of the
    /// processor time for each. Where a socket cannot, they leave one by one. Such a batch is empty, and holds as many as the kernel takes as one.
    pub fn in_segments(self, segments: bool) -> Self {
        if !segments || system::UDP_SEGMENT.is_none() {
            return self;
        }
        SendBatch { segments, ..SendBatch::with_places(self.room, SEGMENTS) }
    }

    /// Datagrams that it holds at most.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The buffer for the next datagram; `None` when the batch is full.
    pub fn next(&mut self) -> Option<&mut [u8]> {
        let start = self.len * self.room;
        (self.len < self.places).then(|| &mut self.data[start..start + self.room])
    }

    /// Takes what was written into [`Self::next`]: `len` bytes for `to`, or for the connected peer.
    pub fn commit(&mut self, len: usize, to: Option<SocketAddr>) {
        self.commit_from(len, to, None);
    }

    /// Like [`Self::commit`], sent from that address of this machine; `None` lets the kernel choose.
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

    /// Sends everything and returns the results.
    pub fn flush(&mut self, fd: RawFd) -> Batch {
        let (len, mut refused, mut unroutable, mut too_large) = (self.len, None, false, false);
        let taken = self.send(fd, |error| {
            unroutable |= is_unroutable(&error);
            too_large |= error.raw_os_error() == Some(libc::EMSGSIZE);
            match classify(&error) {
                Trouble::Refused(reason) => refused = Some(reason),
                // The datagram is lost, and counted as not sent. If the socket is unusable, reading it reports that.
                Trouble::PacketEvent | Trouble::Fatal => {}
            }
        });
        Batch { len, taken, refused, unroutable, too_large }
    }

    /// Sends everything; calls `failed` with each error of the socket. Returns which datagrams it took.
    ///
    /// The socket's send time-out is waited for only once per batch, even if its queue is full.
    pub(super) fn send(&mut self, fd: RawFd, mut failed: impl FnMut(io::Error)) -> Taken {
        let (mut sent, mut taken, mut tried_again, mut flags) = (0, 0, false, 0);
        while sent < self.len {
            let n = match self.len {
                1 => self.send_one(fd, flags),
                _ => self.send_from(fd, sent, flags),
            };
            if n > 0 {
                taken |= (u64::MAX >> (SEGMENTS - n as usize)) << sent;
                sent += n as usize;
                tried_again = false;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted || self.stops_segments(&error) {
                continue;
            }
            // The error is that of the first datagram not sent. A pending ICMP error of an earlier datagram is cleared
            // when it is reported, so this one is tried once more.
            let pending = matches!(classify(&error), Trouble::Refused(BrokenReason::Refused)) && !tried_again;
            if error.kind() == io::ErrorKind::WouldBlock {
                flags = libc::MSG_DONTWAIT;
            }
            failed(error);
            tried_again = pending;
            sent += usize::from(!pending);
        }
        self.len = 0;
        Taken(taken)
    }

    /// How many datagrams each of the latest headers had.
    #[cfg(test)]
    pub fn runs_for_tests(&self, headers: usize) -> &[usize] {
        &self.runs[..headers]
    }

    /// Whether the error is one of a socket or path that cannot cut: then datagrams leave one by one from now on.
    fn stops_segments(&mut self, error: &io::Error) -> bool {
        let cannot = matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
        );
        let stops = cannot && self.segments && self.len > 1 && self.runs[0] > 1;
        self.segments &= !stops;
        stops
    }

    /// Sends the only datagram of the batch; plain calls cost less than `sendmmsg`. Returns 1, or less on an error.
    fn send_one(&mut self, fd: RawFd, flags: i32) -> i32 {
        let (vector, name) = (self.vectors[0], &self.names[0]);
        let (name, name_len) =
            if self.named[0] { (name.as_ptr().cast(), name.len()) } else { (std::ptr::null(), 0) };
        let n = if self.control_len[0] == 0 {
            // SAFETY: the vector and the name are of buffers owned by self.
            unsafe { libc::sendto(fd, vector.iov_base, vector.iov_len, flags, name, name_len) }
        } else {
            self.prepare(0, 0, 1);
            // SAFETY: the header points into buffers owned by self, set just above.
            unsafe { libc::sendmsg(fd, &raw const self.headers[0].msg_hdr, flags) }
        };
        if n < 0 { -1 } else { 1 }
    }

    /// Sends the datagrams from `first` on with one call; returns how many were sent, or less than 1 on an error.
    fn send_from(&mut self, fd: RawFd, first: usize, flags: i32) -> i32 {
        let (mut i, mut headers) = (first, 0);
        while i < self.len {
            let run = self.run_at(i);
            self.prepare(headers, i, run);
            headers += 1;
            i += run;
        }
        // SAFETY: so many headers point into buffers owned by self, set just above.
        let sent = unsafe { system::sendmmsg(fd, self.headers.as_mut_ptr(), headers as u32, flags as _) };
        let Ok(whole) = usize::try_from(sent) else { return sent };
        self.runs[..whole].iter().sum::<usize>() as i32
    }

    /// Datagrams from the `i`th on that may leave as one: to and from the same address, and of one length but for the last, which may be shorter.
    fn run_at(&self, i: usize) -> usize {
        if !self.segments {
            return 1;
        }
        let (mut run, mut bytes) = (0, 0);
        let longest = self.vectors[i].iov_len;
        for at in i..self.len {
            let len = self.vectors[at].iov_len;
            let alike = self.named[at] == self.named[i]
                && (!self.named[i] || self.names[at].as_socket() == self.names[i].as_socket())
                && self.control_len[at] == self.control_len[i]
                && self.control[at][..self.control_len[at] / 8] == self.control[i][..self.control_len[i] / 8];
            if !alike || len > longest || len == 0 || bytes + len > MOST_TOGETHER {
                break;
            }
            (run, bytes) = (run + 1, bytes + len);
            if len < longest {
                break;
            }
        }
        if run < LEAST_RUN { 1 } else { run }
    }

    /// Sets a header for `run` datagrams from the `i`th on.
    fn prepare(&mut self, at: usize, i: usize, run: usize) {
        self.runs[at] = run;
        if run > 1 {
            let len = self.vectors[i].iov_len as u16;
            let before = self.control_len[i];
            self.control_len[i] = control::write_segment_len(&mut self.control[i], before, len);
        }
        let header = &mut self.headers[at].msg_hdr;
        let name = &self.names[i];
        header.msg_name = if self.named[i] { name.as_ptr().cast_mut().cast() } else { std::ptr::null_mut() };
        header.msg_namelen = if self.named[i] { name.len() } else { 0 };
        header.msg_iov = &raw mut self.vectors[i];
        header.msg_iovlen = run as _;
        header.msg_control = match self.control_len[i] {
            0 => std::ptr::null_mut(),
            _ => self.control[i].as_mut_ptr().cast(),
        };
        header.msg_controllen = self.control_len[i] as _;
        if run > 1 {
            // If it is sent again, it may have another length.
            self.control_len[i] = control::len_without_segment(self.control_len[i]);
        }
    }
}

/// Datagrams that the kernel takes as one (`UDP_MAX_SEGMENTS` of Linux before 6.9).
const SEGMENTS: usize = 64;
/// Datagrams that are worth to be sent as one.
const LEAST_RUN: usize = 4;
/// Bytes of them at most: those of the longest datagram of IPv4.
const MOST_TOGETHER: usize = 65_507;

// SAFETY: the raw pointers inside point into the same value's own buffers and are set again before every system call,
// so a move to another thread leaves nothing dangling.
unsafe impl Send for SendBatch {}
