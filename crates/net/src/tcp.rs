//! A TCP connection as a line: calling with reconnection, listening for one peer at a time, or accepted for serving.
//!
//! The kernel's send buffer is kept short (`TCP_NOTSENT_LOWAT`), so that frames wait in the endpoint, where a deadline
//! can still drop them. What the kernel did not take of a write stays here until it does: a frame is never cut.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use antiphon_core::{BrokenReason, Input, Instant};
use antiphon_session::Station;
use socket2::{SockAddr, Socket};

use crate::address::Target;
use crate::capture::{Direction, Ending, Ends};
use crate::clock::OsClock;
use crate::line::{Fittings, IDLE, Line, LineError, Wait};
use crate::options::SocketOptions;
use crate::poll::{self, NOBODY, Readiness};
use crate::tcp_io;
use crate::tcp_setup::{
    accept, address_of, begin_connecting, listening_socket, new_socket, set_up_accepted, settle,
};
use crate::wake::Waker;

/// A line over TCP, for one station.
pub struct TcpLine {
    stream: Option<Socket>,
    source: Source,
    options: SocketOptions,
    /// Bytes that the station gave and the kernel has not taken.
    pending: Vec<u8>,
    taken: usize,
    receive: Vec<u8>,
    blocked: bool,
    connected_told: bool,
    next_report: Instant,
    fittings: Fittings,
}

/// Where connections come from.
enum Source {
    /// We call, and call again.
    ///
    /// `connecting`: until when the call under way may take.
    Caller { peer: SocketAddr, retry_at: Option<Instant>, backoff: Duration, connecting: Option<Instant> },
    /// Peers call, one at a time.
    Listener { socket: Socket, next_look: Instant, had_peer: bool },
    /// One connection, no more.
    Accepted,
}

impl TcpLine {
    /// Opens the line that `target` asks for; a call must succeed within [`CONNECT_PATIENCE`].
    pub fn open(target: Target, options: &SocketOptions) -> Result<Self, LineError> {
        match target {
            Target::Call(peer) => Self::call(peer, options),
            Target::Listen(local) => Self::listen(local, options),
        }
    }

    /// Calls `peer`. Later breaks of the connection are mended with back-off; the first call must succeed.
    pub fn call(peer: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let unreachable = |error: io::Error| LineError::Unreachable { address: peer, why: error.to_string() };
        let mut notes = Vec::new();
        let socket = new_socket(peer, options, &mut notes)?;
        socket.connect_timeout(&peer.into(), CONNECT_PATIENCE).map_err(unreachable)?;
        let source = Source::Caller { peer, retry_at: None, backoff: FIRST_BACKOFF, connecting: None };
        let local = address_of(&socket)?;
        Ok(Self::with(Some(socket), source, local, options, notes))
    }

    /// Waits for a peer on `local`. While one is there, others are refused.
    pub fn listen(local: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let socket = listening_socket(local, options, &mut notes)?;
        let local = address_of(&socket)?;
        let source = Source::Listener { socket, next_look: Instant::ZERO, had_peer: false };
        Ok(Self::with(None, source, local, options, notes))
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
            pending: Vec::with_capacity(WRITE_ROOM),
            taken: 0,
            receive: vec![0; READ_ROOM],
            blocked: false,
            connected_told: false,
            next_report: Instant::ZERO,
            fittings: Fittings::new(local, notes),
        }
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.stream.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    fn fd(&self) -> Option<RawFd> {
        self.stream.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Looks after the connection: finishes connecting, calls again, accepts, refuses.
    fn tend(&mut self, now: Instant, station: &mut dyn Station) {
        let settled = match self.source {
            Source::Caller { .. } => self.tend_call(now),
            Source::Listener { .. } => self.tend_callers(now),
            Source::Accepted => true,
        };
        if settled && self.stream.is_some() && !self.connected_told {
            self.connected_told = true;
            self.show_opened(now);
            station.handle_input(now, Input::Connected);
        }
    }

    /// Shows the connection that has just been made to the tap.
    fn show_opened(&mut self, now: Instant) {
        let (Some(tap), Some(stream)) = (&mut self.fittings.tap, &self.stream) else { return };
        // A connection that has lost its peer already has no ends to show, and carries nothing.
        let end = |address: io::Result<SockAddr>| address.ok().and_then(|address| address.as_socket());
        if let (Some(local), Some(peer)) = (end(stream.local_addr()), end(stream.peer_addr())) {
            let caller = match self.source {
                Source::Caller { .. } => Direction::Sent,
                Source::Listener { .. } | Source::Accepted => Direction::Received,
            };
            tap.opened(caller, now, Ends { local, peer });
        }
    }

    /// Finishes the call under way or begins the next; answers whether none is under way.
    fn tend_call(&mut self, now: Instant) -> bool {
        let Source::Caller { peer, retry_at, backoff, connecting } = &mut self.source else { return true };
        if let (Some(until), Some(stream)) = (*connecting, &self.stream) {
            match tcp_io::connection_state(stream).map(|made| made.and_then(|()| settle(stream))) {
                None if now < until => return false,
                Some(Ok(local)) => {
                    (*connecting, *backoff, self.fittings.local) = (None, FIRST_BACKOFF, local);
                    self.fittings.stats.reconnected += 1;
                }
                // Refused; or unanswered for so long that the kernel's next try is further off than ours.
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
        }
        connecting.is_none()
    }

    /// Accepts one caller and turns the others away.
    fn tend_callers(&mut self, now: Instant) -> bool {
        let Source::Listener { socket, next_look, had_peer } = &mut self.source else { return true };
        if self.stream.is_none() || now >= *next_look {
            *next_look = now + LOOK_FOR_STRANGERS;
            for _ in 0..MOST_ACCEPTS {
                let Some((stream, peer)) = accept(socket) else { break };
                if self.stream.is_some() {
                    self.fittings.stats.strangers += 1;
                } else if set_up_accepted(&stream, peer, &self.options, &mut Vec::new()).is_ok() {
                    // What was refused is noted of the listening socket already.
                    self.fittings.stats.reconnected += u64::from(std::mem::replace(had_peer, true));
                    self.stream = Some(stream);
                }
            }
        }
        true
    }

    fn lose(&mut self, now: Instant, reason: BrokenReason, station: &mut dyn Station) {
        if let Some(tap) = &mut self.fittings.tap {
            let orderly = reason == BrokenReason::EndOfStream;
            tap.closed(if orderly { Ending::Finished(Direction::Received) } else { Ending::Reset }, now);
        }
        self.fittings.stats.refused += u64::from(reason != BrokenReason::EndOfStream);
        self.stream = None;
        self.connected_told = false;
        self.blocked = false;
        self.pending.clear();
        self.taken = 0;
        if let Source::Caller { retry_at, .. } = &mut self.source {
            *retry_at = Some(now + FIRST_BACKOFF);
        }
        station.handle_input(now, Input::Broken(reason));
    }

    fn report(&mut self, now: Instant, station: &mut dyn Station) {
        if now < self.next_report {
            return;
        }
        self.next_report = now + REPORT_EVERY;
        if let Some(report) = self.stream.as_ref().and_then(tcp_io::kernel_report) {
            station.handle_input(now, Input::Report(report));
        }
    }

    /// Waits until the connection, or the making of one, wants attention.
    fn watch(&self, timeout: Duration) {
        let (fd, want) = match (&self.stream, &self.source) {
            (Some(stream), Source::Caller { connecting: Some(_), .. }) => {
                (stream.as_raw_fd(), Readiness { readable: false, writable: true })
            }
            (Some(stream), _) => (stream.as_raw_fd(), Readiness { readable: true, writable: self.blocked }),
            (None, Source::Listener { socket, .. }) => {
                (socket.as_raw_fd(), Readiness { readable: true, writable: false })
            }
            (None, _) => (NOBODY, Readiness::default()),
        };
        let bell = self.fittings.waker.as_ref().map_or(NOBODY, Waker::fd);
        // A signal ends the wait like a time-out.
        let waited = poll::wait_or_woken(fd, want, bell, timeout).unwrap_or_default();
        if let (true, Some(waker)) = (waited.woken, &self.fittings.waker) {
            waker.hear();
        }
    }

    fn is_ready(&self) -> bool {
        self.stream.is_some() && self.connected_told
    }
}

impl Line for TcpLine {
    fn receive(&mut self, clock: &OsClock, station: &mut dyn Station, wait: Wait) -> Result<(), LineError> {
        // Only a connection with nothing else to watch may sleep in the call that reads it.
        let mut block =
            wait == Wait::Idle && self.is_ready() && !self.blocked && self.fittings.waker.is_none();
        match wait {
            Wait::For(time) => self.watch(time),
            Wait::Idle if !block => self.watch(IDLE),
            Wait::Idle | Wait::No => {}
        }
        self.tend(clock.now(), station);
        for _ in 0..MOST_READS {
            let Some(fd) = self.fd().filter(|_| self.is_ready()) else { break };
            match tcp_io::read(fd, &mut self.receive, block) {
                Ok((0, _)) => self.lose(clock.now(), BrokenReason::EndOfStream, station),
                Ok((n, stamp)) => {
                    let now = clock.now();
                    self.fittings.stats.received += 1;
                    self.fittings.stats.kernel_stamps |= stamp.is_some();
                    let received_at = stamp.map_or(now, |stamp| clock.instant_of_stamp(stamp, now));
                    if let Some(tap) = &mut self.fittings.tap {
                        tap.stream(Direction::Received, received_at, &self.receive[..n]);
                    }
                    station.handle_input(now, Input::Stream { bytes: &self.receive[..n], received_at });
                    if n < self.receive.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.lose(clock.now(), reason(&error), station),
            }
            block = false;
        }
        Ok(())
    }

    fn transmit(&mut self, now: Instant, station: &mut dyn Station) -> Result<(), LineError> {
        while self.is_ready() {
            if self.taken == self.pending.len() {
                self.taken = 0;
                self.pending.resize(WRITE_ROOM, 0);
                let len = station.poll_transmit(now, &mut self.pending).map_or(0, |t| t.len);
                self.pending.truncate(len);
                if len == 0 {
                    self.blocked = false;
                    break;
                }
            }
            let Some(fd) = self.fd() else { break };
            match tcp_io::write(fd, &self.pending[self.taken..]) {
                Ok(n) => {
                    self.fittings.stats.sent += 1;
                    if let Some(tap) = &mut self.fittings.tap {
                        tap.stream(Direction::Sent, now, &self.pending[self.taken..self.taken + n]);
                    }
                    self.taken += n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) => self.lose(now, reason(&error), station),
            }
        }
        if self.is_ready() {
            self.report(now, station);
        }
        // A station that ends wants the kernel's last figures; one more report costs nothing.
        if station.is_finished()
            && let Some(report) = self.stream.as_ref().and_then(tcp_io::kernel_report)
        {
            station.handle_input(now, Input::Report(report));
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.source {
            Source::Caller { connecting: Some(until), .. } => Some(*until),
            Source::Caller { retry_at, .. } if self.stream.is_none() => *retry_at,
            _ => None,
        }
    }

    fn is_flushed(&self) -> bool {
        self.taken == self.pending.len() && self.fd().is_none_or(|fd| tcp_io::unconfirmed(fd) == 0)
    }

    fn facts(&self) -> Vec<String> {
        let name = self.stream.as_ref().and_then(|stream| stream.tcp_congestion().ok());
        // The kernel pads the name with zeros.
        let name = name.map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string());
        name.map(|name| format!("kernel TCP with congestion control {name}")).into_iter().collect()
    }

    fn fittings(&self) -> &Fittings {
        &self.fittings
    }

    fn fittings_mut(&mut self) -> &mut Fittings {
        &mut self.fittings
    }
}

/// A listening socket for servers of many peers: one line per connection.
pub struct TcpListening {
    socket: Socket,
    local: SocketAddr,
    options: SocketOptions,
}

impl TcpListening {
    /// Listens on `local`.
    pub fn bind(local: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let socket = listening_socket(local, options, &mut Vec::new())?;
        let local = address_of(&socket)?;
        Ok(TcpListening { socket, local, options: options.clone() })
    }

    /// The address listened on.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The next connection, if one comes within `timeout`.
    pub fn accept(&self, timeout: Duration) -> Option<(TcpLine, SocketAddr)> {
        let want = Readiness { readable: true, writable: false };
        let ready = poll::wait(self.socket.as_raw_fd(), want, timeout);
        let Some((stream, peer)) = accept(&self.socket) else {
            // A caller that can't be had, as where this process has no descriptor left, stays at the door: whoever asks
            // again must not do so without end.
            if ready.readable {
                std::thread::park_timeout(timeout);
            }
            return None;
        };
        let mut notes = Vec::new();
        // One that can't be set up has gone already.
        set_up_accepted(&stream, peer, &self.options, &mut notes).ok()?;
        Some((TcpLine::with(Some(stream), Source::Accepted, self.local, &self.options, notes), peer))
    }
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
/// Callers looked at in one round at most.
const MOST_ACCEPTS: usize = 16;
/// How often a listener that has its peer looks for others, to refuse them.
const LOOK_FOR_STRANGERS: Duration = Duration::from_millis(200);
/// How often the kernel is asked for its figures.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Bytes asked of the station at a time: one full segment, so that choosing stays late.
const WRITE_ROOM: usize = 1_448;
/// Bytes read at a time.
const READ_ROOM: usize = 16_384;
/// Reads in one round at most, so that a fast peer can't keep the media thread from its other work.
const MOST_READS: usize = 32;

#[cfg(test)]
mod tests;
