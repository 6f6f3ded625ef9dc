//! Windows, from version 10 on. What it lacks fails at run time with an error that says so.
//!
//! Sockets never wait by themselves: a media thread waits in `WSAPoll`, whose time-outs are whole milliseconds, so what is due is handled up to a millisecond late.
//! There are no time stamps of arrivals, no count of dropped datagrams, and no priorities within this machine's own queue.
#![allow(unsafe_code, reason = "calls that std and socket2 lack")]

pub(crate) mod fd;
mod interfaces;
pub(crate) mod libc;
mod messages;
mod options;
mod poller;

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::windows::io::BorrowedSocket;
use std::time::Duration;

use socket2::{InterfaceIndexOrAddress, Socket};
use windows_sys::Win32::Foundation::{CompareObjectHandles, FILETIME};
use windows_sys::Win32::Media::timeBeginPeriod;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetSystemTimePreciseAsFileTime;
use windows_sys::Win32::System::Threading::{
    AVRT_PRIORITY_HIGH, AVRT_PRIORITY_NORMAL, AvSetMmThreadCharacteristicsW, AvSetMmThreadPriority,
    GetCurrentThread, GetThreadTimes, SetThreadPriority, THREAD_PRIORITY_TIME_CRITICAL,
};

use self::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use super::{NO_OPTION, missing};
use crate::machine::WallClockState;
use crate::realtime::{MEDIA_PRIORITY, Scheduling};

pub(crate) use interfaces::interface_index;
pub(crate) use messages::receive_stream;
pub(crate) use options::{
    IP_MTU, IPV6_MTU, allow_rebinding, disconnect, family_of, kernel_report, prepare, protocol_of,
    report_refusals, set_fragmentation, set_multicast_interface_v4, set_traffic_class, set_user_timeout,
    settle, unconfirmed,
};
pub(crate) use poller::{Poller, PollerEvent, no_event, ppoll};

/// No socket.
pub(crate) const NO_FD: RawFd = !0;
/// Whether a receiving call may wait by itself, as long as the socket's time-out.
pub(crate) const SLEEPS_IN_CALL: bool = false;
/// Whether a receiving call that is to return at once may wait all the same: it has no flag for that, and a program may lend a socket on which calls wait.
pub(crate) const MAY_WAIT: bool = true;
/// Whether a raw socket receives before it is bound.
pub(crate) const RECEIVES_UNBOUND: bool = false;
/// Flags for writing to a stream.
pub(crate) const WRITE_FLAGS: i32 = 0;
/// The error by which a datagram socket tells that no socket is bound at the peer's port.
pub(crate) const UDP_REFUSED: i32 = windows_sys::Win32::Networking::WinSock::WSAECONNRESET;
pub(crate) const SO_BUSY_POLL: i32 = NO_OPTION;
pub(crate) const SO_PRIORITY: i32 = NO_OPTION;
pub(crate) const SO_RXQ_OVFL: i32 = NO_OPTION;
pub(crate) const TCP_NOTSENT_LOWAT: i32 = NO_OPTION;
/// `WSAPoll` does not tell a peer's shutdown apart from something to read.
pub(crate) const POLLRDHUP: libc::c_short = 0;
pub(crate) const SO_STAMPS: i32 = NO_OPTION;
pub(crate) const SCM_STAMP: i32 = NO_OPTION;
/// What a message with a stamp would hold.
pub(crate) type StampTime = libc::timespec;
/// The control message that has the kernel cut a datagram into several: not used here.
pub(crate) const UDP_SEGMENT: Option<i32> = None;
/// The option that has the kernel hand over several datagrams as one: not used here.
pub(crate) const UDP_GRO: Option<i32> = None;

/// How many times as large as asked for a socket's buffer is told to be.
pub(crate) const BUFFER_FACTOR: usize = 1;

/// Nanoseconds of a stamp's second.
pub(crate) fn nanos_of(stamp: &StampTime) -> i64 {
    stamp.tv_nsec.into()
}

/// Nanoseconds of the performance counter.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut count = 0;
    // SAFETY: writes one integer.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    (u128::from(count as u64) * 1_000_000_000 / u128::from(counts_a_second())) as u64
}

fn counts_a_second() -> u64 {
    let mut frequency = 0;
    // SAFETY: writes one integer; it reads a page that is mapped into every process.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    (frequency as u64).max(1)
}

/// The resolution of the performance counter.
pub(crate) fn clock_resolution() -> Option<Duration> {
    Some(Duration::from_nanos(1_000_000_000u64.div_ceil(counts_a_second())))
}

/// Nanoseconds since 1970.
pub(crate) fn wall_nanos() -> u64 {
    let mut time = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    // SAFETY: writes one structure.
    unsafe { GetSystemTimePreciseAsFileTime(&raw mut time) };
    steps_of(time).saturating_sub(STEPS_TO_1970) * 100
}

/// Nanoseconds of processor time that the calling thread has used.
pub(crate) fn thread_cpu_nanos() -> u64 {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [begun, ended, kernel, user] = &mut times;
    // SAFETY: the handle is the calling thread's; writes four structures.
    unsafe { GetThreadTimes(GetCurrentThread(), begun, ended, kernel, user) };
    (steps_of(times[2]) + steps_of(times[3])) * 100
}

/// In steps of 100 ns.
fn steps_of(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}

/// From 1601, where Windows begins to count.
const STEPS_TO_1970: u64 = 116_444_736_000_000_000;

/// For how long the clock of runs has stood still: the performance counter goes on while the machine is suspended.
pub(crate) fn suspended() -> Duration {
    Duration::ZERO
}

/// The longest payload of a segment is not asked for.
pub(crate) fn segment_of(_socket: &socket2::Socket) -> Option<usize> {
    None
}

/// Windows does not tell it.
pub(crate) fn tai_ahead() -> Option<Duration> {
    None
}

/// The congestion control of a TCP socket, by its name.
pub(crate) fn congestion(_socket: &Socket) -> io::Result<Vec<u8>> {
    missing("the name is told")
}

/// Chooses a congestion control.
pub(crate) fn set_congestion(_socket: &Socket, _name: &[u8]) -> io::Result<()> {
    missing("it can be chosen")
}

/// Whether an error of `accept` that only this system has concerns one caller: one that has gone already.
pub(crate) fn is_of_a_caller(code: i32) -> bool {
    code == windows_sys::Win32::Networking::WinSock::WSAECONNRESET
}

/// What holds a name: nothing does.
pub(crate) type HeldName = std::convert::Infallible;

/// A socket whose name no other socket can have meanwhile: Windows has none.
pub(crate) fn hold_name(_name: &str) -> io::Result<Option<HeldName>> {
    Ok(None)
}

/// Where a group of IPv4 is joined: by the interface's address if it was named by that, else by its index, 0 for the system's choice.
pub(crate) fn interface_to_join(index: u32, name: Option<&str>) -> InterfaceIndexOrAddress {
    let address = name.and_then(|name| name.parse().ok());
    address.map_or(InterfaceIndexOrAddress::Index(index), InterfaceIndexOrAddress::Address)
}

/// The address from which an answer should leave: the one that the packet was sent to, unless that was a broadcast to all or a group.
pub(crate) fn own_address_v4(info: &libc::in_pktinfo) -> Option<Ipv4Addr> {
    let address = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
    (!address.is_broadcast() && !address.is_multicast()).then_some(address)
}

/// What has a packet sent from `source`.
pub(crate) fn from_address_v4(source: Ipv4Addr) -> libc::in_pktinfo {
    libc::in_pktinfo { ipi_addr: libc::in_addr { s_addr: u32::from(source).to_be() }, ipi_ifindex: 0 }
}

/// Another handle of the same socket; a bad number is answered with `WSAENOTSOCK`.
pub(crate) fn duplicate(lender: RawFd) -> io::Result<OwnedFd> {
    if lender == NO_FD {
        return Err(io::Error::from_raw_os_error(libc::ENOTSOCK));
    }
    // SAFETY: only its number is used; a bad one is answered with an error.
    unsafe { BorrowedSocket::borrow_raw(lender) }.try_clone_to_owned()
}

/// A handle of our own, with which others are compared. It must live as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(RawFd);

impl Identity {
    /// What an open handle refers to.
    pub fn of(fd: RawFd) -> Option<Self> {
        Some(Identity(fd))
    }

    /// Whether that handle refers to the same.
    pub fn is_of(self, fd: RawFd) -> bool {
        // SAFETY: takes two numbers; a bad one is like no other.
        unsafe { CompareObjectHandles(self.0 as _, fd as _) != 0 }
    }
}

/// A socket that is readable once it has been set: one of a pair on loopback, connected to each other.
#[derive(Debug)]
pub(crate) struct Signal {
    sets: UdpSocket,
    reads: UdpSocket,
}

impl Signal {
    pub fn new() -> io::Result<Self> {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let (sets, reads) = (open()?, open()?);
        // Each takes datagrams from the other only.
        sets.connect(reads.local_addr()?)?;
        reads.connect(sets.local_addr()?)?;
        sets.set_nonblocking(true)?;
        reads.set_nonblocking(true)?;
        Ok(Signal { sets, reads })
    }

    pub fn set(&self) {
        // It fails only when the buffer is full: then it is set already.
        let _is_set_already = self.sets.send(&[1]);
    }

    /// Whether it was set.
    pub fn clear(&self) -> bool {
        let mut was_set = false;
        while self.reads.recv(&mut [0]).is_ok() {
            was_set = true;
        }
        was_set
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.reads.as_fd()
    }
}

/// The kernel's tick, which Windows does not tell.
pub(crate) fn tick() -> Option<Duration> {
    None
}

/// Has this process's waits end within a millisecond, as long as it runs; they would end with a tick of 15.6 ms.
pub(crate) fn end_waits_on_time() {
    // SAFETY: a plain call. It is refused only where the timer is no faster.
    unsafe { timeBeginPeriod(1) };
}

/// Raises the calling thread's priority among ordinary ones.
pub(crate) fn raise_priority() -> Option<Scheduling> {
    // SAFETY: the handle is the calling thread's.
    let raised = unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL) != 0 };
    raised.then_some(Scheduling::TimeCritical)
}

/// Has the multimedia scheduler count the calling thread among those of sound programs, until it ends; media threads before others.
pub(crate) fn become_real_time(priority: i32) -> io::Result<Scheduling> {
    let name: Vec<u16> = CLASS.encode_utf16().chain([0]).collect();
    let mut index = 0;
    let within = if priority >= MEDIA_PRIORITY { AVRT_PRIORITY_HIGH } else { AVRT_PRIORITY_NORMAL };
    // SAFETY: the name is live and ends with zero; the handle is the one just obtained.
    unsafe {
        let handle = AvSetMmThreadCharacteristicsW(name.as_ptr(), &raw mut index);
        if handle.is_null() || AvSetMmThreadPriority(handle, within) == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Scheduling::Multimedia(CLASS))
}

/// The class of the lowest delay that every Windows has.
const CLASS: &str = "Pro Audio";
/// What helps a user whose threads get no real-time scheduling.
pub(crate) const REAL_TIME_REMEDY: &str = "start the service 'Multimedia Class Scheduler' (MMCSS)";

/// The limits of real-time priority and locked memory: there are none that concern sound.
pub(crate) fn realtime_and_memory_limits() -> [Option<u64>; 2] {
    [None; 2]
}

/// The most files and sockets that this process may have open: as many as there is memory for.
pub(crate) fn most_open_files() -> Option<u64> {
    None
}

/// Raises the limit on open files: there is none.
pub(crate) fn allow_open_files(_wanted: u64) -> Result<(), u64> {
    Ok(())
}

/// The state of the wall clock.
pub(crate) fn wall_clock_state() -> io::Result<WallClockState> {
    missing("the state of the wall clock is read")
}
