//! A TCP connection as a line: called, with reconnection, or accepted (see [`crate::TcpListening`]).
//!
//! The kernel's send buffer is kept short (`TCP_NOTSENT_LOWAT`, which is asked before each write), so that messages wait in the
//! endpoint, where a deadline can still drop them. The rest of a write that the kernel did not take stays here until it does: a
//! message is never truncated.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::{BrokenReason, Input, Instant, PathId, Wire, WireView};
use socket2::{SockAddr, Socket};

use crate::capture::{Direction, Ending, Ends};
use crate::clock::OsClock;
use crate::line::{Line, LineCommon, LineError, Wait};
use crate::options::SocketOptions;
use crate::poll::{self, NO_FD, Readiness};
use crate::receive_timeout::{ReceiveTimeout, Sleep};
use crate::system;
use crate::system::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use crate::tcp_io;
use crate::tcp_setup::{address_of, begin_connecting, new_socket, settle};

/// A line over TCP, for one participant.
pub struct TcpLine {
    stream: Option<Socket>,
    source: Source,
    options: SocketOptions,
    /// Bytes from the participant: of `given` bytes the kernel has taken the first `taken`.
    pending: Vec<u8>,
    given: usize,
    taken: usize,
    /// Bytes of a full segment, which the participant is asked for at a time.
    segment: usize,
    receive: Vec<u8>,
    timeout: ReceiveTimeout,
    /// The kernel takes no more for now.
    blocked: bool,
    /// Value of `blocked` when [`Line::watch`] was last reported as changed.
    watched_blocked: bool,
    /// The participant takes nothing now: it is asked again then, and meanwhile the kernel's buffer fills, which the sender's
    /// flow control sees.
    held_until: Option<Instant>,
    connected_told: bool,
    /// The kernel's congestion control of the last connection.
    congestion: Option<String>,
    next_report: Instant,
    common: LineCommon,
}

/// Origin of connections.
enum Source {
    /// This side calls, and calls again after a break.
    ///
    /// `connecting`: the time limit of the call in progress.
    Caller { peer: SocketAddr, retry_at: Option<Instant>, backoff: Duration, connecting: Option<Instant> },
    /// A single accepted connection.
    Accepted,
}

impl TcpLine {
    /// Calls `peer`. Later breaks of the connection are followed by new calls with back-off; the first call must
    /// succeed, within [`CONNECT_PATIENCE`].
    pub fn call(peer: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let unreachable = |error: io::Error| LineError::Unreachable { address: peer, why: error.to_string() };
        let mut notes = Vec::new();
        let socket = new_socket(peer, options, &mut notes)?;
        socket.connect_timeout(&peer.into(), CONNECT_PATIENCE).map_err(unreachable)?;
        system::settle(&socket).map_err(LineError::system("TCP options"))?;
        let source = Source::Caller { peer, retry_at: None, backoff: FIRST_BACKOFF, connecting: None };
        let local = address_of(&socket)?;
        Ok(Self::with(Some(socket), source, local, options, notes))
    }

    /// The line of a connection that was accepted at `local`.
    pub(crate) fn accepted(
        stream: Socket,
        local: SocketAddr,
        options: &SocketOptions,
        notes: Vec<String>,
    ) -> Self {
        Self::with(Some(stream), Source::Accepted, local, options, notes)
    }

    fn with(
        stream: Option<Socket>,
        source: Source,
        local: SocketAddr,
        options: &SocketOptions,
        notes: Vec<String>,
    ) -> Self {
        TcpLine {
            stream,
            source,
            options: options.clone(),
            pending: vec![0; WRITE_ROOM],
            given: 0,
            taken: 0,
            segment: WRITE_ROOM,
            receive: vec![0; READ_ROOM],
            timeout: ReceiveTimeout::new(),
            blocked: false,
            watched_blocked: false,
            held_until: None,
            connected_told: false,
            congestion: None,
            next_report: Instant::ZERO,
            common: LineCommon::new(local, notes),
        }
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    fn fd(&self) -> Option<RawFd> {
        self.stream.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Maintains the connection: finishes connecting, calls again.
    fn tend(&mut self, now: Instant, participant: &mut WireView<'_>) {
        let settled = match self.source {
            Source::Caller { .. } => self.tend_call(now),
            Source::Accepted => true,
        };
        if settled && self.stream.is_some() && !self.connected_told {
            self.connected_told = true;
            // It was watched for the connection's completion; from now on for input.
            self.common.note_watch_changed();
            self.show_opened(now);
            self.learn_segment();
            self.congestion =
                self.stream.as_ref().and_then(|stream| system::congestion(stream).ok()).map(name_of);
            participant.handle_input(now, Input::Connected);
        }
    }

    /// One that does not fit into a segment would go as a full one and the rest.
    fn learn_segment(&mut self) {
        let segment = self.stream.as_ref().and_then(system::segment_of);
        self.segment = segment.unwrap_or(WRITE_ROOM).clamp(LEAST_SEGMENT, WRITE_ROOM);
    }

    /// Reports the new connection to the tap.
    fn show_opened(&mut self, now: Instant) {
        let (Some(tap), Some(stream)) = (&mut self.common.tap, &self.stream) else { return };
        // A connection that has lost its peer already has no addresses, and carries nothing.
        let end = |address: io::Result<SockAddr>| address.ok().and_then(|address| address.as_socket());
        if let (Some(local), Some(peer)) = (end(stream.local_addr()), end(stream.peer_addr())) {
            let caller = match self.source {
                Source::Caller { .. } => Direction::Sent,
                Source::Accepted => Direction::Received,
            };
            tap.opened(caller, now, Ends { local, peer });
        }
    }

    /// Finishes the call in progress or begins the next; returns whether none is in progress.
    fn tend_call(&mut self, now: Instant) -> bool {
        let Source::Caller { peer, retry_at, backoff, connecting } = &mut self.source else { return true };
        if let (Some(until), Some(stream)) = (*connecting, &self.stream) {
            match tcp_io::connection_state(stream).map(|made| made.and_then(|()| settle(stream))) {
                None if now < until => return false,
                Some(Ok(local)) => {
                    (*connecting, *backoff, self.common.local) = (None, FIRST_BACKOFF, local);
                    self.common.stats.reconnected += 1;
                }
                // Refused; or unanswered for so long that the kernel's next attempt is later than ours.
                Some(Err(_)) | None => {
                    self.stream = None;
                    (*connecting, *retry_at) = (None, Some(now + *backoff));
                }
            }
        } else if self.stream.is_none() && retry_at.is_none_or(|at| at <= now) {
            *retry_at = Some(now + *backoff);
            *backoff = (*backoff * 2).min(LONGEST_BACKOFF);
            let begun = new_socket(*peer, &self.options, &mut Vec::new())
                .is_ok_and(|socket| begin_connecting(socket, *peer, &mut self.stream));
            *connecting = begun.then(|| now + CONNECT_PATIENCE);
            self.timeout = ReceiveTimeout::new();
            self.common.note_watch_changed();
        }
        connecting.is_none()
    }

    fn lose(&mut self, now: Instant, reason: BrokenReason, participant: &mut WireView<'_>) {
        if let Some(tap) = &mut self.common.tap {
            let orderly = reason == BrokenReason::EndOfStream;
            tap.closed(if orderly { Ending::Finished(Direction::Received) } else { Ending::Reset }, now);
        }
        self.common.stats.refused += u64::from(reason != BrokenReason::EndOfStream);
        self.stream = None;
        self.connected_told = false;
        self.blocked = false;
        self.given = 0;
        self.taken = 0;
        self.common.note_watch_changed();
        if let Source::Caller { retry_at, .. } = &mut self.source {
            *retry_at = Some(now + FIRST_BACKOFF);
        }
        participant.handle_input(now, Input::Broken(reason));
    }

    /// Waits as told, as far as the receiving call does not: returns whether that call is to wait.
    fn sleep(&mut self, wait: Wait) -> bool {
        let sleep = match &self.stream {
            // Only a connection with nothing else to watch may sleep in the receiving call.
            Some(stream) if self.may_sleep_in_call() => self.timeout.plan(stream, wait),
            _ => Sleep::polling(wait),
        };
        if let Sleep::Poll(time) = sleep {
            let mut watched = (NO_FD, Readiness::default());
            self.watch(&mut |fd, want| watched = (fd.as_raw_fd(), want));
            self.common.poll(watched.0, watched.1, time);
        }
        sleep == Sleep::InCall
    }

    /// Passes on received bytes; returns when that was.
    fn pass_on(
        &mut self,
        n: usize,
        stamp: Option<Duration>,
        clock: &OsClock,
        participant: &mut WireView<'_>,
    ) -> Instant {
        let reading = clock.read();
        self.common.stats.received += 1;
        self.common.stats.kernel_stamps |= stamp.is_some();
        let (received_at, bytes) = (reading.instant_of(stamp), &mut self.receive[..n]);
        if let Some(tap) = &mut self.common.tap {
            tap.stream(Direction::Received, received_at, bytes);
        }
        participant.handle_input(reading.now, Input::Stream { bytes, received_at });
        reading.now
    }

    /// Writes what the participant gave; returns whether it may give more.
    fn write(&mut self, now: Instant, participant: &mut WireView<'_>) -> bool {
        let Some(stream) = &self.stream else { return false };
        // A write alone would be taken into the last unsent segment, up to 64 KiB, whatever `TCP_NOTSENT_LOWAT` says: Linux looks at
        // that only when it begins a segment (`tcp_sendmsg`).
        if !poll::wait(stream.as_raw_fd(), Readiness::WRITABLE, Duration::ZERO).writable {
            self.blocked = true;
            return false;
        }
        match tcp_io::write(stream, &self.pending[self.taken..self.given]) {
            Ok(n) => {
                self.common.stats.sent += 1;
                if let Some(tap) = &mut self.common.tap {
                    tap.stream(Direction::Sent, now, &self.pending[self.taken..self.taken + n]);
                }
                self.taken += n;
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked = true;
                false
            }
            Err(error) => {
                self.lose(now, reason(&error), participant);
                false
            }
        }
    }

    /// Whether nothing but input is waited for.
    fn may_sleep_in_call(&self) -> bool {
        self.connected_told && !self.blocked && self.held_until.is_none() && self.common.waker.is_none()
    }

    /// Whether the participant takes what comes; if not, the socket is not read for a while.
    fn is_taken(&mut self, clock: &OsClock, participant: &WireView<'_>) -> bool {
        let takes = participant.takes();
        if takes == self.held_until.is_some() {
            self.common.note_watch_changed();
        }
        self.held_until = (!takes).then(|| clock.now() + ASK_AGAIN);
        takes
    }

    fn is_ready(&self) -> bool {
        self.stream.is_some() && self.connected_told
    }
}

impl Line for TcpLine {
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let mut wait = self.sleep(wait);
        let mut looked = None;
        if !self.is_ready() {
            let now = clock.now();
            self.tend(now, participant);
            looked = Some(now);
        }
        let reads = if self.is_taken(clock, participant) { MOST_READS } else { 0 };
        for _ in 0..reads {
            let Some(fd) = self.fd().filter(|_| self.is_ready()) else { break };
            match tcp_io::read(fd, &mut self.receive, wait) {
                Ok((n @ 1.., stamp)) => {
                    looked = Some(self.pass_on(n, stamp, clock, participant));
                    if n < self.receive.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if wait {
                        self.timeout.on_empty();
                        looked = None;
                    }
                    break;
                }
                ended => {
                    let now = clock.now();
                    let why = ended.map_or_else(|error| reason(&error), |_| BrokenReason::EndOfStream);
                    self.lose(now, why, participant);
                    looked = Some(now);
                }
            }
            wait = false;
        }
        let now = looked.unwrap_or_else(|| clock.now());
        if std::mem::take(&mut self.blocked) {
            self.transmit(now, participant)?;
        }
        Ok(now)
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        while self.is_ready() && !self.blocked {
            if self.taken == self.given {
                self.taken = 0;
                self.given = participant
                    .poll_transmit(now, &mut self.pending[..self.segment])
                    .map_or(0, |given| given.len);
                if self.given == 0 {
                    break;
                }
            }
            if !self.write(now, participant) {
                break;
            }
        }
        if self.blocked != self.watched_blocked {
            self.watched_blocked = self.blocked;
            self.common.note_watch_changed();
        }
        Ok(())
    }

    fn report(&mut self, now: Instant, participant: &mut WireView<'_>, last: bool) {
        if now < self.next_report && !last {
            return;
        }
        self.next_report = now + REPORT_EVERY;
        // The path may carry less than it did.
        self.learn_segment();
        let stream = self.stream.as_ref().filter(|_| self.connected_told);
        if let Some(report) = stream.and_then(system::kernel_report) {
            participant.handle_input(now, Input::Report(report));
        }
    }

    fn wire(&self) -> Wire {
        Wire::ByteStream
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        match (&self.stream, &self.source) {
            (Some(stream), Source::Caller { connecting: Some(_), .. }) => {
                each(stream.as_fd(), Readiness::WRITABLE);
            }
            (Some(stream), _) => {
                let readable = self.held_until.is_none();
                each(stream.as_fd(), Readiness { readable, writable: self.blocked });
            }
            (None, _) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.source {
            Source::Caller { connecting: Some(until), .. } => Some(*until),
            Source::Caller { retry_at, .. } if self.stream.is_none() => *retry_at,
            _ => self.held_until,
        }
    }

    fn is_flushed(&self) -> bool {
        self.taken == self.given && self.fd().is_none_or(|fd| system::unconfirmed(fd) == 0)
    }

    fn is_over(&self) -> bool {
        matches!(self.source, Source::Accepted) && self.stream.is_none()
    }

    fn facts(&self) -> Vec<String> {
        let now = self.stream.as_ref().and_then(|stream| system::congestion(stream).ok()).map(name_of);
        let fact = |name| format!("kernel TCP with congestion control {name}");
        now.or_else(|| self.congestion.clone()).map(fact).into_iter().collect()
    }

    fn peer_address(&self, _path: PathId) -> Option<SocketAddr> {
        self.stream.as_ref()?.peer_addr().ok()?.as_socket()
    }

    fn common(&self) -> &LineCommon {
        &self.common
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        &mut self.common
    }
}

/// The kernel pads names with zeros.
fn name_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()
}

fn reason(error: &io::Error) -> BrokenReason {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            BrokenReason::Refused
        }
        _ => BrokenReason::Unreachable,
    }
}

/// How long the first call may take: the user is told within two seconds.
pub const CONNECT_PATIENCE: Duration = Duration::from_millis(1_800);
/// Pause before calling again after a break; doubles with every failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// How soon a participant that takes nothing is asked again: a disk that was busy has room for more within milliseconds.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// How often the kernel is asked for its figures.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// The most bytes asked of the participant at a time: one full segment of Ethernet, so that the choice is made late.
const WRITE_ROOM: usize = antiphon_core::wire::TCP_SEGMENT;
/// A peer may ask for segments of a few bytes; calls for less than this would cost more than they are worth (536: RFC 9293 §3.7.1).
const LEAST_SEGMENT: usize = 536;
/// Bytes read at a time.
const READ_ROOM: usize = 16_384;
/// The most reads in one round (128 KiB, 0.1 ms here), so that a fast peer cannot delay the media thread's other work.
const MOST_READS: usize = 8;

#[cfg(test)]
mod tests;
