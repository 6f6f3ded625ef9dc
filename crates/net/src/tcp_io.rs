//! The system calls of a TCP line: non-blocking reads with time stamps, writes, the kernel's figures.
#![allow(unsafe_code, reason = "recvmsg with control messages has no safe wrapper")]

use std::io;
use std::time::Duration;

use socket2::Socket;

use crate::control::kernel_stamp;
use crate::poll::{self, Readiness};
use crate::system::fd::{AsRawFd, RawFd};
use crate::system::{self, libc};

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
        (system::receive_stream(fd, &raw mut header, if wait { 0 } else { libc::MSG_DONTWAIT }), header)
    };
    if n < 0 {
        return Err(interrupted_is_nothing(io::Error::last_os_error()));
    }
    Ok((n as usize, kernel_stamp(&header)))
}

/// Writes without waiting, and without a signal if the peer is gone.
pub(crate) fn write(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, system::WRITE_FLAGS).map_err(interrupted_is_nothing)
}

/// An interrupted call is repeated like one that found nothing to do.
fn interrupted_is_nothing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
        _ => error,
    }
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
