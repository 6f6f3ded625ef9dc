//! The system calls of a TCP line: non-blocking reads with time stamps, writes, the kernel's figures.
#![allow(unsafe_code, reason = "recvmsg with control messages has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use antiphon_core::{ByteCount, KernelReport};
use socket2::Socket;

use crate::control::kernel_stamp;
use crate::poll::{self, Readiness};
use crate::system;

/// Reads available bytes, waiting for them as long as the socket's receive time-out if told to: returns the number of
/// bytes (0 at the end of the stream) and the time stamp of the last of them.
pub(crate) fn read(fd: RawFd, buf: &mut [u8], wait: bool) -> io::Result<(usize, Option<Duration>)> {
    let mut vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // Room for the time stamp.
    let mut control = [0u64; 4];
    // SAFETY: a msghdr of zeros is valid; its pointers are set to live buffers of the lengths given.
    let (n, header) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        (libc::recvmsg(fd, &raw mut header, if wait { 0 } else { libc::MSG_DONTWAIT }), header)
    };
    if n < 0 {
        return Err(interrupted_is_nothing(io::Error::last_os_error()));
    }
    Ok((n as usize, kernel_stamp(&header)))
}

/// Writes without waiting, and without a signal if the peer is gone.
pub(crate) fn write(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).map_err(interrupted_is_nothing)
}

/// An interrupted call is repeated like one that found nothing to do.
fn interrupted_is_nothing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
        _ => error,
    }
}

/// Bytes written that the peer's machine has not acknowledged.
pub(crate) fn unconfirmed(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ, tcp(7)) writes one int, which lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { bytes.max(0) as usize } else { 0 }
}

/// Whether a connection in progress is established (`Ok`), failed, or still in progress (`None`).
pub(crate) fn connection_state(socket: &Socket) -> Option<io::Result<()>> {
    let want = Readiness { readable: false, writable: true };
    let ready = poll::wait(socket.as_raw_fd(), want, Duration::ZERO);
    if !ready.writable {
        return None;
    }
    Some(match socket.take_error() {
        Ok(None) => socket.peer_addr().map(|_| ()),
        Ok(Some(error)) | Err(error) => Err(error),
    })
}

/// The kernel's figures of a connection.
pub(crate) fn kernel_report(socket: &Socket) -> Option<KernelReport> {
    let mut info = [0u8; TCP_INFO_ROOM];
    system::tcp_info(socket, &mut info).ok()?;
    // Older kernels write a shorter structure; unknown fields stay zero.
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
    let micros = |at: usize| Duration::from_micros(u64::from(word(at)));
    let mss = u64::from(word(offset::SND_MSS));
    Some(KernelReport {
        srtt: micros(offset::RTT),
        rttvar: micros(offset::RTTVAR),
        min_rtt: micros(offset::MIN_RTT),
        cwnd: ByteCount(u64::from(word(offset::SND_CWND)) * mss),
        in_flight: ByteCount(u64::from(word(offset::UNACKED)) * mss),
        retransmitted: u64::from(word(offset::TOTAL_RETRANS)),
        sent_bytes: long(offset::BYTES_SENT),
        segments_sent: u64::from(word(offset::SEGS_OUT)),
    })
}

/// Room for `struct tcp_info`, which grows with the kernel.
const TCP_INFO_ROOM: usize = 280;

/// Byte offsets in `struct tcp_info` (linux/tcp.h, stable: fields are only ever added at the end).
mod offset {
    pub const SND_MSS: usize = 16;
    pub const UNACKED: usize = 24;
    pub const RTT: usize = 68;
    pub const RTTVAR: usize = 72;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const SEGS_OUT: usize = 136;
    pub const MIN_RTT: usize = 148;
    pub const BYTES_SENT: usize = 200;
}
