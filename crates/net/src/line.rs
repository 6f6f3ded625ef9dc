//! A socket with its addresses, for the driver.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Wire, WireView};

use crate::capture::Tap;
use crate::clock::OsClock;
use crate::poll::{self, NO_FD, Readiness};
use crate::system::fd::{BorrowedFd, RawFd};
use crate::wake::Waker;

/// Moves bytes between a socket and a participant.
///
/// Defaults are those of a datagram socket, which has no connection to tend, to flush or to report. What wraps a line
/// must forward them.
pub trait Line {
    /// Waits as told, then hands everything that has arrived to the participant; a line that was full resumes sending
    /// as soon as it has room. Returns the time when it last read the clock, after the wait.
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError>;

    /// Sends what the participant has to send, as far as the socket takes it.
    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError>;

    /// Gives the participant the kernel's figures of the connection, if the last time was long enough ago, or if this
    /// is the last.
    fn report(&mut self, _now: Instant, _participant: &mut WireView<'_>, _last: bool) {}

    /// Datagrams or a byte stream.
    fn wire(&self) -> Wire;

    /// Reports each descriptor of the line, and what it waits for. It is called again after
    /// [`LineCommon::note_watch_changed`]; a descriptor that is no longer reported has been closed.
    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness));

    /// When the line itself has something to do, such as connecting again.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether everything that was transmitted has left this machine, so that the line may be dropped without loss.
    /// Datagrams have at once.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Whether nothing can be received or sent any more: an accepted connection that has ended.
    fn is_over(&self) -> bool {
        false
    }

    /// Facts about the line, in words, such as the kernel's congestion control.
    fn facts(&self) -> Vec<String> {
        Vec::new()
    }

    /// The address to which packets on `path` go; `None` if no peer is known there.
    fn peer_address(&self, path: PathId) -> Option<SocketAddr>;

    /// Its state besides the socket.
    fn common(&self) -> &LineCommon;

    /// The same, mutable.
    fn common_mut(&mut self) -> &mut LineCommon;

    /// The address at which others reach this line.
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

    /// Captures everything that crosses the socket from now on with `tap`. Set it before the line is driven: a
    /// connection that already carries messages is not captured.
    fn set_tap(&mut self, tap: Tap) {
        self.common_mut().tap = Some(tap);
    }

    /// Takes the tap back, for a later line; see [`Tap::hang_up`].
    fn take_tap(&mut self) -> Option<Tap> {
        self.common_mut().tap.take()
    }

    /// Lets another thread end the waits of [`Self::receive`] early, at the cost of one more system call in each: lines
    /// without a waker sleep in the receiving call.
    fn set_waker(&mut self, waker: Waker) {
        self.common_mut().waker = Some(waker);
    }
}

/// State of every line besides its socket: its address, its counters, and its tap.
pub struct LineCommon {
    pub(crate) local: SocketAddr,
    pub(crate) stats: LineStats,
    pub(crate) notes: Vec<String>,
    pub(crate) tap: Option<Tap>,
    pub(crate) waker: Option<Waker>,
    /// How often the set of watched descriptors has changed.
    pub(crate) watch_changes: u32,
}

impl LineCommon {
    /// For a line that is reached at `local`; `notes` are the options that the system refused, in words.
    pub fn new(local: SocketAddr, notes: Vec<String>) -> Self {
        LineCommon { local, stats: LineStats::default(), notes, tap: None, waker: None, watch_changes: 0 }
    }

    /// Sleeps until `fd` is ready as wanted, the waker was used, or the time is over; returns whether `fd` is ready.
    pub(crate) fn poll(&self, fd: RawFd, want: Readiness, time: Duration) -> bool {
        let waker = self.waker.as_ref().map_or(NO_FD, Waker::fd);
        // A signal ends the wait like a time-out.
        let waited = poll::wait_or_woken(fd, want, waker, time).unwrap_or_default();
        if let (true, Some(waker)) = (waited.woken, &self.waker) {
            waker.clear();
        }
        waited.ready.readable || waited.ready.writable
    }

    /// Records that [`Line::watch`] has changed: other descriptors, or other conditions to wait for.
    pub fn note_watch_changed(&mut self) {
        self.watch_changes = self.watch_changes.wrapping_add(1);
    }
}

/// How [`Line::receive`] waits for input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until something arrives, or at most this long, to the microsecond. It may end early, with nothing received.
    For(Duration),
    /// Until something arrives, or about [`IDLE`].
    Idle,
}

/// The longest duration of [`Wait::Idle`], so that a request to stop is noticed.
pub const IDLE: Duration = Duration::from_millis(50);

/// Counters of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineStats {
    /// Datagrams or writes.
    pub sent: u64,
    /// Datagrams or reads.
    pub received: u64,
    /// Datagrams that the socket refused: no room within the send time-out, or larger than the path's MTU.
    pub send_failed: u64,
    /// Times the peer was absent (ICMP port unreachable, connection reset).
    pub refused: u64,
    /// Datagrams from addresses for which there was no room in the table, or that are not among the several that the
    /// line calls.
    pub unknown_sources: u64,
    /// Datagrams that came and were dropped in this machine, as the socket's receive buffer was full.
    pub dropped: u64,
    /// Times that a calling socket was bound to another address of this machine, as its own was gone.
    pub moved: u64,
    /// Packets of IP protocols whose checksum was wrong.
    pub damaged: u64,
    /// Connections after the first.
    pub reconnected: u64,
    /// Whether received datagrams had the kernel's time stamps.
    pub kernel_stamps: bool,
}

/// Why a line cannot be opened, or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Another socket has the port.
    #[error("port {port} is in use: choose another, or stop the program that uses it")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// No answer from the peer.
    #[error(
        "{address} cannot be reached: {why}; check the address, the firewall, and that the peer is running"
    )]
    Unreachable {
        /// The peer's address.
        address: SocketAddr,
        /// The operation, and its result.
        why: String,
    },
    /// The user may not open the raw socket that a protocol directly over IP needs.
    #[error(
        "IP protocol {protocol} needs a raw socket, which this user cannot open: run as root, give the program the \
         capability (setcap cap_net_raw+ep PROGRAM), or use UDP, which needs neither (omit over=ip)"
    )]
    RawRefused {
        /// Number of the protocol.
        protocol: u8,
    },
    /// The wire's number is used already.
    #[error("wire {wire} is there already: each wire of a participant has a number of its own")]
    WireInUse {
        /// The number.
        wire: u32,
    },
    /// A participant asks to be called again without end.
    #[error("{participant}: it asks to be called again immediately without end, which is a bug in antiphon")]
    NeverQuiet {
        /// Its thread's name.
        participant: String,
    },
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The system's message.
        source: std::io::Error,
    },
}

impl LineStats {
    /// Adds another line's counters.
    pub(crate) fn add(&mut self, other: LineStats) {
        self.sent += other.sent;
        self.received += other.received;
        self.send_failed += other.send_failed;
        self.refused += other.refused;
        self.unknown_sources += other.unknown_sources;
        self.dropped += other.dropped;
        self.moved += other.moved;
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
            std::io::ErrorKind::AddrNotAvailable => LineError::System {
                what: format!(
                    "cannot listen on {address}: not an address of this machine (use one of its own or none)"
                ),
                source,
            },
            _ => LineError::System { what: format!("cannot listen on {address}"), source },
        }
    }

    /// Whether the error is that the peer is unreachable (exit code 4).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, LineError::Unreachable { .. })
    }
}
