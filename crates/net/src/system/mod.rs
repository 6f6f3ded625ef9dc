//! What operating systems differ in, under common names: a module for Linux, one for other Unix systems (macOS, BSD), and one for Windows; what all Unix
//! systems share stands in `unix`.
//!
//! A socket option that a system lacks has the number [`NO_OPTION`], so that setting and reading it fails at run time
//! (`ENOPROTOOPT`), as it does on a Linux that is too old; what uses options copes with that already.
//!
//! Sockets are named as Unix has them (`fd`), and C's socket calls and constants are those of `libc`; for Windows there are types, calls and constants of these
//! names over Winsock.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod many;
#[cfg(all(unix, not(target_os = "linux")))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use many::{mmsghdr, recvmmsg, sendmmsg};
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) use other::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The number of no socket option: the system refuses it as unknown.
#[cfg(not(target_os = "linux"))]
const NO_OPTION: i32 = -1;

#[cfg(not(target_os = "linux"))]
fn missing<T>(what: &str) -> std::io::Result<T> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{what} on Linux only")))
}
