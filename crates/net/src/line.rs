//! A socket with its addresses, as the driver sees it.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_session::Station;

use crate::capture::Tap;
use crate::clock::OsClock;
use crate::wake::Waker;

/// A way to the wire: moves bytes between a socket and a station.
pub trait Line {
    /// Waits as told, then hands everything that has arrived to the station.
    fn receive(&mut self, clock: &OsClock, station: &mut dyn Station, wait: Wait) -> Result<(), LineError>;

    /// Sends what the station has to send, as far as the socket takes it.
    fn transmit(&mut self, now: Instant, station: &mut dyn Station) -> Result<(), LineError>;

    /// When the line itself has something to do, such as connecting again.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether everything that was transmitted is out of this machine's hands, so that the line may be dropped without
    /// loss. Datagrams are at once.
    fn is_flushed(&self) -> bool {
        true
    }

    /// What it has beside its socket.
    fn fittings(&self) -> &Fittings;

    /// The same, to be changed.
    fn fittings_mut(&mut self) -> &mut Fittings;

    /// The address that others reach this line at.
    fn local_address(&self) -> SocketAddr {
        self.fittings().local
    }

    /// What the line has counted.
    fn stats(&self) -> LineStats {
        self.fittings().stats
    }

    /// What is worth knowing of the line, in words: the kernel's congestion control.
    fn facts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Options that the system refused, in words.
    fn notes(&self) -> &[String] {
        &self.fittings().notes
    }

    /// Shows everything that crosses the socket from now on to `tap`. Set it before the line is driven: a connection
    /// that already carries frames is not shown.
    fn set_tap(&mut self, tap: Tap) {
        self.fittings_mut().tap = Some(tap);
    }

    /// Takes the tap back, for a line that comes after this one; see [`Tap::hang_up`].
    fn take_tap(&mut self) -> Option<Tap> {
        self.fittings_mut().tap.take()
    }

    /// Lets another thread end the waits of [`Self::receive`] early, for one system call more in each. Lines that sleep
    /// in the receiving call without it are spared that call.
    fn set_waker(&mut self, waker: Waker) {
        self.fittings_mut().waker = Some(waker);
    }
}

/// What every line has beside its socket: where it is reached, what it counted, and who looks on.
pub struct Fittings {
    pub(crate) local: SocketAddr,
    pub(crate) stats: LineStats,
    pub(crate) notes: Vec<String>,
    pub(crate) tap: Option<Tap>,
    pub(crate) waker: Option<Waker>,
}

impl Fittings {
    /// Those of a line that is reached at `local`; `notes` are the options that the system refused, in words.
    pub fn new(local: SocketAddr, notes: Vec<String>) -> Self {
        Fittings { local, stats: LineStats::default(), notes, tap: None, waker: None }
    }
}

/// How [`Line::receive`] waits for input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until then at most, to the microsecond: a timer is armed.
    For(Duration),
    /// Until something arrives, or [`IDLE`] at most: the thread sleeps in the receiving call itself, which spares a
    /// system call and a timer (in a virtual machine, microseconds) for every arrival.
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
    pub strangers: u64,
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
    /// Somebody else has the port.
    #[error("port {port} is in use on this machine: choose another, or end the program that has it")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// Nobody there.
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
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The system's words.
        source: std::io::Error,
    },
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
