//! Waiting for a descriptor with nanosecond time-outs.
#![allow(unsafe_code, reason = "ppoll: the safe wrappers round time-outs to milliseconds")]

use std::os::fd::RawFd;
use std::time::Duration;

/// What to wait for, and what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness {
    pub readable: bool,
    pub writable: bool,
}

/// Waits until one of two sockets has something to read, or the time-out is over; a signal ends the wait early.
pub(crate) fn wait_for_either(fds: [RawFd; 2], timeout: Duration) {
    let mut polls = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time = timespec(timeout);
    // SAFETY: two live pollfds and a live timespec; no signal mask.
    unsafe { libc::ppoll(polls.as_mut_ptr(), 2, &raw const time, std::ptr::null()) };
}

/// Waits until `fd` is ready as wanted or the time-out is over; a signal ends the wait early. A negative descriptor is
/// never ready.
pub(crate) fn wait(fd: RawFd, want: Readiness, timeout: Duration) -> Readiness {
    let mut events = 0;
    events |= if want.readable { libc::POLLIN } else { 0 };
    events |= if want.writable { libc::POLLOUT } else { 0 };
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    let time = timespec(timeout);
    // SAFETY: one live pollfd and a live timespec; no signal mask.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) };
    if ready <= 0 {
        return Readiness::default();
    }
    let failed = poll.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
    Readiness {
        // An error is fetched by reading.
        readable: failed || poll.revents & libc::POLLIN != 0,
        writable: failed || poll.revents & libc::POLLOUT != 0,
    }
}

fn timespec(timeout: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: timeout.as_secs().min(3600) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    }
}
