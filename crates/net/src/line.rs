//! A socket with its addresses, as the driver sees it.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use antiphon_core::{Instant, Wire, WireView};

use crate::capture::Tap;
use crate::clock::OsClock;
use crate::poll::{self, NO_FD, Readiness};
use crate::wake::Waker;

/// A way to the wire: moves bytes between a socket and a participant.
pub trait Line {
    /// Waits as told, then hands everything that has arrived to the participant; a line that was full goes on sending as
    /// soon as it has room. Answers what time it was when it last looked, after the wait.
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError>;

    /// Sends what the participant has to send, as far as the socket takes it.
    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError>;

    /// Tells the participant what only the kernel knows of the connection, if the last time was long enough ago, or if
    /// this is the last.
    fn report(&mut self, now: Instant, participant: &mut WireView<'_>, last: bool);

    /// Datagrams or a byte stream.
    fn wire(&self) -> Wire;

    /// Names each descriptor that the line has, and what it waits for there. It is asked again after
    /// [`LineCommon::note_watch_changed`]; a descriptor that is named no more has been closed.
    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness));

    /// When the line itself has something to do, such as connecting again.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether everything that was transmitted is out of this machine's hands, so that the line may be dropped without
    /// loss. Datagrams are at once.
    fn is_flushed(&self) -> bool;

    /// Whether nothing will ever come or go here again: an accepted connection that has ended.
    fn is_over(&self) -> bool;

    /// What is worth knowing of the line, in words: the kernel's congestion control.
    fn facts(&self) -> Vec<String>;

    /// What it has beside its socket.
    fn common(&self) -> &LineCommon;

    /// The same, to be changed.
    fn common_mut(&mut self) -> &mut LineCommon;

    /// The address that others reach this line at.
    fn local_address(&self) -> SocketAddr {
        self.common().local
    }

    /// What the line has counted.
    fn stats(&self) -> LineStats {
        self.common().stats
    }

    /// Options that the system refused, in words.
    fn notes(&self) -> &[String] {
        &self.common().notes
    }

    /// Shows everything that crosses the socket from now on to `tap`. Set it before the line is driven: a connection
    /// that already carries messages is not shown.
    fn set_tap(&mut self, tap: Tap) {
        self.common_mut().tap = Some(tap);
    }

    /// Takes the tap back, for a line that comes after this one; see [`Tap::hang_up`].
    fn take_tap(&mut self) -> Option<Tap> {
        self.common_mut().tap.take()
    }

    /// Lets another thread end the waits of [`Self::receive`] early, for one system call more in each: lines without it
    /// sleep in the receiving call.
    fn set_waker(&mut self, waker: Waker) {
        self.common_mut().waker = Some(waker);
    }
}

/// A line that is lent.
impl<L: Line + ?Sized> Line for &mut L {
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        (**self).receive(clock, participant, wait)
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        (**self).transmit(now, participant)
    }

    fn report(&mut self, now: Instant, participant: &mut WireView<'_>, last: bool) {
        (**self).report(now, participant, last);
    }

    fn wire(&self) -> Wire {
        (**self).wire()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        (**self).watch(each);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }

    fn is_flushed(&self) -> bool {
        (**self).is_flushed()
    }

    fn is_over(&self) -> bool {
        (**self).is_over()
    }

    fn facts(&self) -> Vec<String> {
        (**self).facts()
    }

    fn common(&self) -> &LineCommon {
        (**self).common()
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        (**self).common_mut()
    }
}

/// What every line has beside its socket: where it is reached, what it counted, and its tap.
pub struct LineCommon {
    pub(crate) local: SocketAddr,
    pub(crate) stats: LineStats,
    pub(crate) notes: Vec<String>,
    pub(crate) tap: Option<Tap>,
    pub(crate) waker: Option<Waker>,
    /// How often what the line waits for has changed.
    pub(crate) watch_changes: u32,
}

impl LineCommon {
    /// Those of a line that is reached at `local`; `notes` are the options that the system refused, in words.
    pub fn new(local: SocketAddr, notes: Vec<String>) -> Self {
        LineCommon { local, stats: LineStats::default(), notes, tap: None, waker: None, watch_changes: 0 }
    }

    /// Sleeps until `fd` is ready as wanted, the waker was rung, or the time is over; answers whether `fd` is ready.
    pub(crate) fn poll(&self, fd: RawFd, want: Readiness, time: Duration) -> bool {
        let waker = self.waker.as_ref().map_or(NO_FD, Waker::fd);
        // A signal ends the wait like a time-out.
        let waited = poll::wait_or_woken(fd, want, waker, time).unwrap_or_default();
        if let (true, Some(waker)) = (waited.woken, &self.waker) {
            waker.clear();
        }
        waited.ready.readable || waited.ready.writable
    }

    /// Notes that [`Line::watch`] has changed: other descriptors, or something else to wait for.
    pub fn note_watch_changed(&mut self) {
        self.watch_changes = self.watch_changes.wrapping_add(1);
    }
}

/// How [`Line::receive`] waits for input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until something arrives, or so long at most, to the microsecond. It may end early, with nothing received.
    For(Duration),
    /// Until something arrives, or about [`IDLE`].
    Idle,
}

/// How long [`Wait::Idle`] lasts at most, so that a request to stop is noticed.
pub const IDLE: Duration = Duration::from_millis(50);

/// What a line has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineStats {
    /// Datagrams or writes.
    pub sent: u64,
    /// Datagrams or reads.
    pub received: u64,
    /// Datagrams that the socket refused: no room within the send time-out, or larger than the path takes.
    pub send_failed: u64,
    /// Times the peer was not there (ICMP port unreachable, connection reset).
    pub refused: u64,
    /// Datagrams from addresses for which there was no room in the table, or that are none of the several that the line
    /// calls.
    pub unknown_sources: u64,
    /// Packets of IP protocols whose checksum was wrong.
    pub damaged: u64,
    /// Connections after the first.
    pub reconnected: u64,
    /// Whether the kernel stamped what it received.
    pub kernel_stamps: bool,
}

/// Why a line can't be opened, or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Another socket has the port.
    #[error("port {port} is in use on this machine: choose another, or end the program that has it")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// Nothing answers there.
    #[error(
        "{address} cannot be reached: {why}; check the address, the firewall, and that the peer is running"
    )]
    Unreachable {
        /// Where to.
        address: SocketAddr,
        /// What was tried, and what came of it.
        why: String,
    },
    /// The user may not open the raw socket that a protocol directly over IP needs.
    #[error(
        "IP protocol {protocol} needs a raw socket, which this user may not open: run as root, give the program the \
         capability (setcap cap_net_raw+ep PROGRAM), or go through UDP, which needs neither (leave over=ip out)"
    )]
    RawRefused {
        /// Number of the protocol.
        protocol: u8,
    },
    /// The wire's number has a line already.
    #[error("wire {wire} is there already: each wire of a participant has a number of its own")]
    WireInUse {
        /// The number.
        wire: u32,
    },
    /// A participant asks to be called again without end.
    #[error(
        "{participant}: it asks to be called again at once without end, which is an error of this program"
    )]
    NeverQuiet {
        /// Its thread's name.
        participant: String,
    },
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The system's words.
        source: std::io::Error,
    },
}

impl LineStats {
    /// Adds what another line has counted.
    pub(crate) fn add(&mut self, other: LineStats) {
        self.sent += other.sent;
        self.received += other.received;
        self.send_failed += other.send_failed;
        self.refused += other.refused;
        self.unknown_sources += other.unknown_sources;
        self.damaged += other.damaged;
        self.reconnected += other.reconnected;
        self.kernel_stamps |= other.kernel_stamps;
    }
}

impl LineError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> LineError {
        let what = what.into();
        move |source| LineError::System { what, source }
    }

    pub(crate) fn binding(address: SocketAddr) -> impl FnOnce(std::io::Error) -> LineError {
        move |source| match source.kind() {
            std::io::ErrorKind::AddrInUse => LineError::PortInUse { port: address.port() },
            _ => LineError::System { what: format!("cannot listen on {address}"), source },
        }
    }

    /// Whether the peer is what is missing (exit code 4).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, LineError::Unreachable { .. })
    }
}
