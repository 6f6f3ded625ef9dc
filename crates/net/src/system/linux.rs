//! Linux.
#![allow(unsafe_code, reason = "calls and C structures that nix and socket2 lack")]

mod poller;
mod tcp_info;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_getres, clock_gettime};
use socket2::Socket;

pub(crate) use libc::{
    IP_MTU, IPV6_MTU, POLLRDHUP, SO_BUSY_POLL, SO_PRIORITY, SO_RXQ_OVFL, TCP_NOTSENT_LOWAT, mmsghdr, ppoll,
    recvmmsg, sendmmsg,
};
pub(crate) use nix::sys::epoll::EpollEvent as PollerEvent;
pub(crate) use poller::Poller;
pub(crate) use tcp_info::kernel_report;
#[cfg(test)]
pub(crate) use tcp_info::tcp_info_of;

use super::unix::HeldName;
use crate::machine::WallClockState;
use crate::options::{read_int, set_int};
use crate::realtime::Scheduling;

/// For how long the machine has been suspended since it was started: `CLOCK_BOOTTIME` goes on then, and `CLOCK_MONOTONIC` does not.
pub(crate) fn suspended() -> Duration {
    let read = |clock| clock_gettime(clock).map(Duration::from);
    match (read(ClockId::CLOCK_BOOTTIME), read(ClockId::CLOCK_MONOTONIC)) {
        (Ok(since_boot), Ok(awake)) => since_boot.saturating_sub(awake),
        // A sandbox may withhold a clock.
        _ => Duration::ZERO,
    }
}

/// By how much TAI is ahead of the wall clock, in whole seconds, if a time service has told the kernel.
pub(crate) fn tai_ahead() -> Option<Duration> {
    let read = |clock| clock_gettime(clock).map(Duration::from).ok();
    let (wall, tai) = (read(ClockId::CLOCK_REALTIME)?, read(ClockId::CLOCK_TAI)?);
    // They are read one after the other.
    let seconds = tai.saturating_sub(wall).as_secs_f64().round();
    (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
}

/// No event yet.
pub(crate) fn no_event() -> PollerEvent {
    PollerEvent::empty()
}

/// The option that has the kernel stamp what it receives, and the kind of the control message with the stamp.
pub(crate) const SO_STAMPS: i32 = libc::SO_TIMESTAMPNS;
pub(crate) const SCM_STAMP: i32 = libc::SCM_TIMESTAMPNS;
/// What that message holds.
pub(crate) type StampTime = libc::timespec;
/// The control message that has the kernel cut a datagram into several, since Linux 4.18.
pub(crate) const UDP_SEGMENT: Option<i32> = Some(libc::UDP_SEGMENT);
/// The option that has the kernel hand over datagrams of one length in a row as one, and the kind of the control message with their length, since Linux 5.0.
pub(crate) const UDP_GRO: Option<i32> = Some(libc::UDP_GRO);

/// How many times as large as asked for a socket's buffer is told to be: the kernel counts its own bookkeeping (socket(7), SO_RCVBUF).
pub(crate) const BUFFER_FACTOR: usize = 2;

/// Nanoseconds of a stamp's second.
pub(crate) fn nanos_of(stamp: &StampTime) -> i64 {
    stamp.tv_nsec
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family_of(socket: &impl AsRawFd) -> io::Result<i32> {
    read_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)
}

/// The protocol of a socket, such as `IPPROTO_UDP`.
pub(crate) fn protocol_of(socket: &impl AsRawFd) -> io::Result<i32> {
    read_int(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// Forbids (or allows) IP fragmentation of this socket's datagrams.
pub(crate) fn set_fragmentation(socket: &Socket, allowed: bool, v6: bool) -> io::Result<()> {
    let mode = if allowed { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_DO };
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, mode)?;
    }
    // For the IPv4 peers of a dual-stack socket, too.
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
}

/// The congestion control of a TCP socket, by its name.
pub(crate) fn congestion(socket: &Socket) -> io::Result<Vec<u8>> {
    socket.tcp_congestion()
}

/// Chooses a congestion control.
pub(crate) fn set_congestion(socket: &Socket, name: &[u8]) -> io::Result<()> {
    socket.set_tcp_congestion(name)
}

/// How long sent data may wait for its acknowledgement.
pub(crate) fn set_user_timeout(socket: &Socket, patience: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(patience))
}

/// Whether an error of `accept` that only Linux has concerns one caller (accept(2)).
pub(crate) fn is_of_a_caller(code: i32) -> bool {
    code == libc::ENONET
}

/// A socket whose name no other socket in this network namespace can have meanwhile; released with it.
pub(crate) fn hold_name(name: &str) -> io::Result<Option<HeldName>> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Some)
}

/// A descriptor that is readable once it has been set.
#[derive(Debug)]
pub(crate) struct Signal(EventFd);

impl Signal {
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Signal(EventFd::from_flags(flags)?))
    }

    pub fn set(&self) {
        // It fails only when the counter is full: then it is set already.
        let _is_set_already = self.0.write(1);
    }

    /// Whether it was set.
    pub fn clear(&self) -> bool {
        self.0.read().is_ok()
    }

    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

/// The kernel's tick (1/HZ), which is the resolution of its coarse clock.
pub(crate) fn tick() -> Option<Duration> {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok().map(Duration::from)
}

/// Has the calling thread's waits end on time.
pub(crate) fn end_waits_on_time() {
    // SAFETY: a plain system call on the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Raises the calling thread's priority among ordinary ones, where that is permitted. On Linux a thread has its own nice value; 0 means the caller.
pub(crate) fn raise_priority() -> Option<Scheduling> {
    // SAFETY: a plain system call.
    let raised = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) == 0 };
    raised.then_some(Scheduling::Nice(NICE))
}

/// Schiavoni et al. 2013 ran their hosts at nice −19.
const NICE: i32 = -19;

/// `SCHED_FIFO` at `priority` for the calling thread.
pub(crate) fn become_real_time(priority: i32) -> io::Result<Scheduling> {
    // SAFETY: all zeros is a valid structure, which has further fields with some C libraries (musl).
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: 0 is the calling thread; the structure lives through the call, which only reads it.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(Scheduling::Fifo(priority)) } else { Err(io::Error::last_os_error()) }
}

/// What helps a user whose threads get no real-time scheduling.
pub(crate) const REAL_TIME_REMEDY: &str =
    "allow it with 'ulimit -r 80' or an rtprio line in /etc/security/limits.conf";

/// The soft limits of real-time priority and locked memory; `None`: unlimited, or not to be read.
pub(crate) fn realtime_and_memory_limits() -> [Option<u64>; 2] {
    [Resource::RLIMIT_RTPRIO, Resource::RLIMIT_MEMLOCK].map(|resource| {
        getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != libc::RLIM_INFINITY)
    })
}

/// The state of the wall clock.
pub(crate) fn wall_clock_state() -> io::Result<WallClockState> {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all zeros is a valid timex, whose modes then ask for nothing to be changed; the kernel fills it.
    let state = unsafe {
        if libc::adjtimex(state.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        state.assume_init()
    };
    Ok(WallClockState {
        synchronised: state.status & libc::STA_UNSYNC == 0,
        max_error: Duration::from_micros(u64::try_from(state.maxerror).unwrap_or(0)),
    })
}
