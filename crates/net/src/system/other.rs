//! Other Unix systems: macOS and BSD. What they lack fails at run time with an error that says so.
#![allow(unsafe_code, reason = "calls and C structures that nix and socket2 lack")]

mod poller;

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::Socket;

pub(crate) use poller::{Poller, PollerEvent, no_event};

use antiphon_core::KernelReport;

use super::unix::HeldName;
use super::{NO_OPTION, missing};
use crate::machine::WallClockState;
use crate::options::set_int;
use crate::realtime::Scheduling;

pub(crate) const IP_MTU: i32 = NO_OPTION;
pub(crate) const IPV6_MTU: i32 = NO_OPTION;
pub(crate) const SO_BUSY_POLL: i32 = NO_OPTION;
pub(crate) const SO_PRIORITY: i32 = NO_OPTION;
pub(crate) const SO_RXQ_OVFL: i32 = NO_OPTION;
pub(crate) const TCP_NOTSENT_LOWAT: i32 = NO_OPTION;
/// `poll` does not tell a peer's shutdown apart from something to read.
pub(crate) const POLLRDHUP: libc::c_short = 0;

/// The option that has the kernel stamp what it receives, and the kind of the control message with the stamp.
pub(crate) const SO_STAMPS: i32 = libc::SO_TIMESTAMP;
pub(crate) const SCM_STAMP: i32 = libc::SCM_TIMESTAMP;
/// What that message holds.
pub(crate) type StampTime = libc::timeval;
/// The control message that has the kernel cut a datagram into several: there is none.
pub(crate) const UDP_SEGMENT: Option<i32> = None;
/// The option that has the kernel hand over several datagrams as one: there is none.
pub(crate) const UDP_GRO: Option<i32> = None;

/// How many times as large as asked for a socket's buffer is told to be.
pub(crate) const BUFFER_FACTOR: usize = 1;

/// Not told here.
pub(crate) fn suspended() -> Duration {
    Duration::ZERO
}

/// These systems do not tell it.
pub(crate) fn tai_ahead() -> Option<Duration> {
    None
}

/// Nanoseconds of a stamp's second.
pub(crate) fn nanos_of(stamp: &StampTime) -> i64 {
    i64::from(stamp.tv_usec) * 1000
}

/// `poll` with a time-out in nanoseconds, which is rounded up to milliseconds.
///
/// # Safety
///
/// `polls` points to `count` live structures, and `time` to a live one.
pub(crate) unsafe fn ppoll(
    polls: *mut libc::pollfd,
    count: libc::nfds_t,
    time: *const libc::timespec,
    _mask: *const libc::sigset_t,
) -> libc::c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        let millis =
            (*time).tv_sec.saturating_mul(1000).saturating_add(((*time).tv_nsec + 999_999) / 1_000_000);
        libc::poll(polls, count, millis.clamp(0, i32::MAX.into()) as libc::c_int)
    }
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family_of(socket: &impl AsRawFd) -> io::Result<i32> {
    // SAFETY: zeros are a valid address of no family; the call writes at most `len` bytes.
    let (result, name) = unsafe {
        let mut name: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        (libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut len), name)
    };
    if result == 0 { Ok(name.ss_family.into()) } else { Err(io::Error::last_os_error()) }
}

/// The protocol of a datagram socket: these systems do not tell it, and have no other than UDP in general use.
pub(crate) fn protocol_of(_socket: &impl AsRawFd) -> io::Result<i32> {
    Ok(libc::IPPROTO_UDP)
}

/// Forbids (or allows) IP fragmentation of this socket's datagrams.
pub(crate) fn set_fragmentation(socket: &Socket, allowed: bool, v6: bool) -> io::Result<()> {
    // Of an IPv6 socket this is set for its IPv4 peers as well by the system.
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) } else { (libc::IPPROTO_IP, libc::IP_DONTFRAG) };
    set_int(socket, level, name, i32::from(!allowed))
}

/// The congestion control of a TCP socket, by its name.
pub(crate) fn congestion(_socket: &Socket) -> io::Result<Vec<u8>> {
    missing("the name is told")
}

/// Chooses a congestion control.
pub(crate) fn set_congestion(_socket: &Socket, _name: &[u8]) -> io::Result<()> {
    missing("it can be chosen")
}

/// How long sent data may wait for its acknowledgement.
pub(crate) fn set_user_timeout(_socket: &Socket, _patience: Duration) -> io::Result<()> {
    missing("for data that is sent, it can be set")
}

/// The kernel's figures of a connection, which are read on Linux and Windows only.
pub(crate) fn kernel_report(_socket: &Socket) -> Option<KernelReport> {
    None
}

/// Whether an error of `accept` that only this system has concerns one caller.
pub(crate) fn is_of_a_caller(_code: i32) -> bool {
    false
}

/// A socket whose name no other socket can have meanwhile: these systems have none that is released with the process.
pub(crate) fn hold_name(_name: &str) -> io::Result<Option<HeldName>> {
    Ok(None)
}

/// A descriptor that is readable once it has been set.
#[derive(Debug)]
pub(crate) struct Signal {
    sets: UnixStream,
    reads: UnixStream,
}

impl Signal {
    pub fn new() -> io::Result<Self> {
        let (sets, reads) = UnixStream::pair()?;
        sets.set_nonblocking(true)?;
        reads.set_nonblocking(true)?;
        Ok(Signal { sets, reads })
    }

    pub fn set(&self) {
        // It fails only when the buffer is full: then it is set already.
        let _is_set_already = (&self.sets).write(&[1]);
    }

    /// Whether it was set.
    pub fn clear(&self) -> bool {
        let (mut buf, mut was_set) = ([0; 64], false);
        while (&self.reads).read(&mut buf).is_ok_and(|len| len > 0) {
            was_set = true;
        }
        was_set
    }

    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.reads)
    }
}

/// The kernel's tick, which these systems do not tell.
pub(crate) fn tick() -> Option<Duration> {
    None
}

/// Has the calling thread's waits end on time: the system has no such setting.
pub(crate) fn end_waits_on_time() {}

/// Raises the calling thread's priority among ordinary ones: here a nice value is the process's, and raising it would raise all threads.
pub(crate) fn raise_priority() -> Option<Scheduling> {
    None
}

/// `SCHED_FIFO` at `priority` for the calling thread, as far as the system has so many priorities.
pub(crate) fn become_real_time(priority: i32) -> io::Result<Scheduling> {
    // SAFETY: zeros are a valid structure, which the call only reads; the thread is the calling one.
    let code = unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority.min(MOST_PRIORITY);
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &raw const parameters)
    };
    if code == 0 { Ok(Scheduling::Fifo(priority)) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// macOS has 15 to 47 (`sched_get_priority_max`).
const MOST_PRIORITY: i32 = 47;
/// What helps a user whose threads get no real-time scheduling.
pub(crate) const REAL_TIME_REMEDY: &str = "this system decides by itself";

/// The limits of real-time priority and locked memory: these systems have none that concerns sound.
pub(crate) fn realtime_and_memory_limits() -> [Option<u64>; 2] {
    [None; 2]
}

/// The state of the wall clock.
pub(crate) fn wall_clock_state() -> io::Result<WallClockState> {
    missing("the state of the wall clock is read")
}
