//! The datagram socket of the service manager.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A way to tell a manager.
pub(super) struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// The one of that name: a path, or what has no file after `@`.
    pub fn find(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => without_file(name),
            [b'/', ..] => SocketAddr::from_pathname(name),
            _ => {
                let why = "it is neither a path nor a name after '@'";
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }?;
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold anything up.
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, address })
    }

    pub fn send(&self, text: &str) {
        // A manager that is gone, or that does not read, notices by its own time-outs.
        let _unheard = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

/// An address without a file (unix(7), abstract names).
#[cfg(target_os = "linux")]
pub(super) fn without_file(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn without_file(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "addresses without a file exist on Linux only"))
}
