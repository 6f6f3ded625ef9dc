//! What operating systems differ in, under common names: a module for Linux, and one for other Unix systems (macOS, BSD).
//!
//! A socket option that a system lacks has the number [`NO_OPTION`], so that setting and reading it fails at run time
//! (`ENOPROTOOPT`), as it does on a Linux that is too old; what uses options copes with that already.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
