//! A system whose services are not told by a socket: Windows. A name in the environment is refused with a sentence.

use std::ffi::OsStr;
use std::io;

/// A way to tell a manager, of which this system has none.
pub(super) struct Manager(std::convert::Infallible);

impl Manager {
    /// Fails.
    pub fn find(_name: &OsStr) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no service manager of that kind"))
    }

    pub fn send(&self, _text: &str) {
        match self.0 {}
    }
}
