//! Sockets under the names that Unix has for them.

use std::os::windows::io::{AsRawSocket, AsSocket};

pub use std::os::windows::io::{BorrowedSocket as BorrowedFd, OwnedSocket as OwnedFd, RawSocket as RawFd};

/// What has the number of a socket.
pub trait AsRawFd {
    /// The number.
    fn as_raw_fd(&self) -> RawFd;
}

impl<T: AsRawSocket> AsRawFd for T {
    fn as_raw_fd(&self) -> RawFd {
        self.as_raw_socket()
    }
}

/// What has a socket.
pub trait AsFd {
    /// The socket.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl<T: AsSocket> AsFd for T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_socket()
    }
}
