//! Waiting for a descriptor with nanosecond time-outs.
#![allow(unsafe_code, reason = "ppoll: the safe wrappers round time-outs to milliseconds")]

use std::io;
use std::time::Duration;

use crate::system::fd::RawFd;
use crate::system::{self, libc};

/// What to wait for at a descriptor, and the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// There is something to read, or an error to fetch.
    pub readable: bool,
    /// There is room to write, or an error to fetch.
    pub writable: bool,
}

impl Readiness {
    /// Wait for input.
    pub const READABLE: Readiness = Readiness { readable: true, writable: false };
    /// Wait for room to write.
    pub const WRITABLE: Readiness = Readiness { readable: false, writable: true };
}

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Waited {
    pub ready: Readiness,
    /// The second descriptor is readable.
    pub woken: bool,
    /// Nothing more can come: shut down, or the other end is gone.
    pub hung_up: bool,
}

/// Waits until `fd` is ready as wanted or the time-out is over; a signal ends the wait early. A negative descriptor is
/// never ready.
pub(crate) fn wait(fd: RawFd, want: Readiness, timeout: Duration) -> Readiness {
    wait_or_woken(fd, want, NO_FD, timeout).unwrap_or_default().ready
}

/// Which of these become readable within the time-out; a signal ends the wait early. [`NO_FD`] never does.
pub(crate) fn wait_for_any<const N: usize>(fds: [RawFd; N], timeout: Duration) -> [bool; N] {
    let mut polls = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time = timespec(timeout);
    // SAFETY: so many live pollfds and a live timespec; no signal mask.
    let ready =
        unsafe { system::ppoll(polls.as_mut_ptr(), N as libc::nfds_t, &raw const time, std::ptr::null()) };
    // An error is fetched by reading.
    polls.map(|poll| ready > 0 && poll.revents != 0)
}

/// Waits like [`wait`], or until `waker` is readable. An error means a signal, or that there is no memory.
pub(crate) fn wait_or_woken(
    fd: RawFd,
    want: Readiness,
    waker: RawFd,
    timeout: Duration,
) -> io::Result<Waited> {
    let mut events = 0;
    events |= if want.readable { libc::POLLIN | system::POLLRDHUP } else { 0 };
    events |= if want.writable { libc::POLLOUT } else { 0 };
    let mut polls = [
        libc::pollfd { fd, events, revents: 0 },
        libc::pollfd { fd: waker, events: libc::POLLIN, revents: 0 },
    ];
    let time = timespec(timeout);
    // SAFETY: two live pollfds and a live timespec; no signal mask.
    let ready = unsafe { system::ppoll(polls.as_mut_ptr(), 2, &raw const time, std::ptr::null()) };
    if ready < 0 {
        return Err(io::Error::last_os_error());
    }
    let came = polls[0].revents;
    let failed = came & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
    Ok(Waited {
        ready: Readiness {
            // An error is fetched by reading.
            readable: failed || came & libc::POLLIN != 0,
            writable: failed || came & libc::POLLOUT != 0,
        },
        woken: polls[1].revents != 0,
        hung_up: came & (system::POLLRDHUP | libc::POLLHUP | libc::POLLNVAL) != 0,
    })
}

fn timespec(timeout: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: timeout.as_secs().min(3600) as _,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    }
}

/// A descriptor that is never ready.
pub(crate) use crate::system::NO_FD;
