//! Waits for sockets: `WSAPoll`, whose time-outs are whole milliseconds.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use antiphon_core::Instant;
use windows_sys::Win32::Networking::WinSock as sock;

use super::fd::{AsFd, AsRawFd};
use super::{NO_FD, end_waits_on_time, libc};
use crate::clock::OsClock;
use crate::poll::Readiness;

/// The data of what is ready.
pub(crate) type PollerEvent = u64;

/// No event yet.
pub(crate) fn no_event() -> PollerEvent {
    0
}

/// `WSAPoll` for a list of sockets, level-triggered.
pub(crate) struct Poller(RefCell<Watched>);

#[derive(Default)]
struct Watched {
    sockets: Vec<sock::WSAPOLLFD>,
    /// What their events bear, in the same order.
    data: Vec<u64>,
    /// Where the next look at the results begins: each has its turn, however many are ready.
    first: usize,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        end_waits_on_time();
        let mut watched = Watched::default();
        watched.sockets.reserve(ROOM);
        watched.data.reserve(ROOM);
        Ok(Poller(RefCell::new(watched)))
    }

    /// Watches `fd` as wanted from now on; its events bear `data`. One that is closed must be forgotten, see [`Self::forget_closed`].
    pub fn watch(&self, fd: impl AsFd, data: u64, want: Readiness) -> io::Result<()> {
        let mut events = 0;
        events |= if want.readable { sock::POLLIN } else { 0 };
        events |= if want.writable { sock::POLLOUT } else { 0 };
        if events == 0 {
            self.forget(fd);
            return Ok(());
        }
        let socket = fd.as_fd().as_raw_fd() as sock::SOCKET;
        let entry = sock::WSAPOLLFD { fd: socket, events, revents: 0 };
        let Watched { sockets, data: all_data, .. } = &mut *self.0.borrow_mut();
        match sockets.iter().position(|watched| watched.fd == socket) {
            Some(at) => (sockets[at], all_data[at]) = (entry, data),
            None => {
                sockets.push(entry);
                all_data.push(data);
            }
        }
        Ok(())
    }

    /// Stops watching `fd`.
    pub fn forget(&self, fd: impl AsFd) {
        let socket = fd.as_fd().as_raw_fd() as sock::SOCKET;
        self.0.borrow_mut().keep(|watched, _| watched.fd != socket);
    }

    /// Stops watching what bears `data`, of which some may be closed already: its number may belong to another socket by now.
    pub fn forget_closed(&self, data: u64) {
        self.0.borrow_mut().keep(|_, of_this| of_this != data);
    }

    /// Waits for events, at most until `until`, or not at all without it; returns how many there are. It may end early
    /// with none.
    pub fn wait(&mut self, clock: &OsClock, until: Option<Instant>, events: &mut [PollerEvent]) -> usize {
        let time = until.map_or(Duration::ZERO, |until| until.since(clock.now()));
        let watched = self.0.get_mut();
        if !poll(&mut watched.sockets, time) {
            return 0;
        }
        watched.first += 1;
        let count = watched.sockets.len();
        let ready = (0..count)
            .map(|at| (at + watched.first) % count)
            .filter(|at| watched.sockets[*at].revents != 0)
            .map(|at| watched.data[at]);
        let mut n = 0;
        for (event, data) in events.iter_mut().zip(ready) {
            *event = data;
            n += 1;
        }
        n
    }

    /// The data of an event's socket.
    pub fn read(&mut self, event: PollerEvent) -> Option<u64> {
        Some(event)
    }
}

impl Watched {
    fn keep(&mut self, keep: impl Fn(&sock::WSAPOLLFD, u64) -> bool) {
        let mut at = 0;
        while at < self.sockets.len() {
            if keep(&self.sockets[at], self.data[at]) {
                at += 1;
            } else {
                self.sockets.swap_remove(at);
                self.data.swap_remove(at);
            }
        }
    }
}

/// `WSAPoll` for at most `time`, rounded up to milliseconds; whether anything is ready.
#[allow(unsafe_code, reason = "WSAPoll writes into the list")]
fn poll(sockets: &mut [sock::WSAPOLLFD], time: Duration) -> bool {
    let millis = time.as_nanos().div_ceil(1_000_000).min(LONGEST_MILLIS) as i32;
    if sockets.is_empty() {
        // It refuses an empty list.
        std::thread::sleep(Duration::from_millis(millis as u64));
        return false;
    }
    // SAFETY: a live list of that length.
    let ready = unsafe { sock::WSAPoll(sockets.as_mut_ptr(), sockets.len() as u32, millis) };
    if ready < 0 {
        // There is no memory, or no network at all: not to be asked again at once.
        std::thread::sleep(Duration::from_millis(1));
    }
    ready > 0
}

/// C's `ppoll`: a time-out in nanoseconds, which is rounded up to milliseconds. [`NO_FD`] is never ready.
///
/// # Safety
///
/// `polls` points to `count` live structures, at most [`MOST_POLLED`], and `time` to a live one.
#[allow(unsafe_code, reason = "C structures that the caller owns")]
pub(crate) unsafe fn ppoll(
    polls: *mut libc::pollfd,
    count: libc::nfds_t,
    time: *const libc::timespec,
    _mask: *const libc::sigset_t,
) -> libc::c_int {
    // SAFETY: as promised by the caller.
    let (polls, time) = unsafe { (std::slice::from_raw_parts_mut(polls, count), &*time) };
    let mut sockets = [sock::WSAPOLLFD { fd: sock::INVALID_SOCKET, events: 0, revents: 0 }; MOST_POLLED];
    let mut used = 0;
    for one in polls.iter_mut() {
        one.revents = 0;
        if one.fd != NO_FD {
            sockets[used] = sock::WSAPOLLFD { fd: one.fd as sock::SOCKET, events: one.events, revents: 0 };
            used += 1;
        }
    }
    let time = Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32);
    if !poll(&mut sockets[..used], time) {
        return 0;
    }
    let polled = polls.iter_mut().filter(|one| one.fd != NO_FD);
    let mut ready = 0;
    for (one, socket) in polled.zip(&sockets) {
        one.revents = socket.revents;
        ready += i32::from(socket.revents != 0);
    }
    ready
}

/// Sockets for which memory is reserved.
const ROOM: usize = 64;
/// The most sockets of a line, and its waker.
const MOST_POLLED: usize = 8;
/// An hour.
const LONGEST_MILLIS: u128 = 3_600_000;
