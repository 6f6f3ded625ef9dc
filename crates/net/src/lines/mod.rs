//! The wires of one participant on one media thread: lines, listening sockets, and accepted connections.
//!
//! A single line waits by itself, in its receiving call where possible: that is the cheapest wait. Callers may have to
//! wait a moment meanwhile. As soon as there is more to wait for, all descriptors wait in one `epoll`, level-triggered,
//! so that no socket must be read to its end: each line does a bounded amount of work in a round, and a flood on one
//! does not delay the others for long.

mod accept;
mod handover;
mod round;
mod slots;
mod wires;

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::{Instant, PathId, WireId};

use crate::line::{Line, LineError, LineStats};
use crate::poll::Readiness;
use crate::system::{Poller, PollerEvent, no_event};
use crate::tcp_listening::TcpListening;
use crate::wake::Waker;
pub use handover::{Handover, Opened};
use slots::{Held, Key, Kind, Listening, Slots, Watched};

/// The wires of a participant, and their sockets. [`crate::drive`] serves them.
pub struct Lines<'a> {
    slots: Slots<'a>,
    /// The only line, while there is nothing else to wait for except callers, which are looked for at intervals.
    alone: Option<(WireId, Key)>,
    /// When callers are looked for next.
    next_look: Instant,
    /// Created when it is first needed.
    poller: Option<Poller>,
    events: Vec<PollerEvent>,
    wakers: Vec<Waker>,
    handover: Option<rtrb::Consumer<(WireId, Opened)>>,
    observer: Option<Box<dyn LineObserver + 'a>>,
    /// New entries, served in the next round without an event.
    fresh: Vec<Key>,
    /// Lines that have sent since they were last asked for the kernel's figures.
    flushed: Vec<Key>,
    /// The soonest time-out of all, and whether it must be determined again.
    soonest: Option<Instant>,
    soonest_changed: bool,
    /// See [`Self::let_input_wait`].
    input_waits: Duration,
    /// Datagrams and reads while there were several lines.
    received: u64,
    /// The error of the only line.
    error: Option<LineError>,
    failures: Vec<(WireId, LineError)>,
}

/// Called when a line begins or ends to be driven, to set a tap and to take it back. Called on the media thread.
pub trait LineObserver {
    /// `line` is about to be driven as `wire`.
    fn on_open(&mut self, wire: WireId, line: &mut dyn Line);

    /// `line` is no longer driven, and is dropped after this.
    fn on_close(&mut self, wire: WireId, line: &mut dyn Line);
}

impl<'a> Lines<'a> {
    /// No lines yet.
    pub fn new() -> Self {
        Lines {
            slots: Slots::default(),
            alone: None,
            next_look: Instant::ZERO,
            poller: None,
            events: vec![no_event(); MOST_EVENTS],
            wakers: Vec::new(),
            handover: None,
            observer: None,
            fresh: Vec::with_capacity(ROOM),
            flushed: Vec::with_capacity(ROOM),
            soonest: None,
            soonest_changed: false,
            input_waits: Duration::ZERO,
            received: 0,
            error: None,
            failures: Vec::new(),
        }
    }

    /// Adds a line. An error if `wire` has one already.
    pub fn add(&mut self, wire: WireId, line: Box<dyn Line + 'a>) -> Result<(), LineError> {
        self.check_free(wire)?;
        self.open(wire, line, None);
        Ok(())
    }

    /// Adds a listening socket: the participant is asked about each incoming connection
    /// ([`antiphon_core::Participant::accept`]), and names its wire. An error if `wire` is used already.
    pub fn listen(&mut self, wire: WireId, listening: TcpListening) -> Result<(), LineError> {
        self.check_free(wire)?;
        self.hold(wire, Kind::Listening(Box::new(Listening::new(listening))));
        Ok(())
    }

    /// Lets another thread end the waits of [`crate::drive`] early. For a single line this costs one system call for
    /// each wait.
    pub fn set_waker(&mut self, waker: Waker) {
        for line in self.slots.lines_mut().filter(|line| line.common().waker.is_none()) {
            line.set_waker(waker.clone());
        }
        self.take_waker(waker);
    }

    /// From now on, input waits in its socket for a time-out that is due within `most`, and is read when that is: one wake-up of the thread then
    /// serves both, where each of thousands of datagrams a second would cause one. The kernel's time stamps tell when datagrams came all the same.
    /// [`Duration::ZERO`], as at first: input is read as it comes.
    pub fn let_input_wait(&mut self, most: Duration) {
        self.input_waits = most;
    }

    /// Tells `observer` of every line that begins or ends from now on.
    pub fn set_observer(&mut self, observer: Box<dyn LineObserver + 'a>) {
        self.observer = Some(observer);
    }

    /// The line of that wire; `None` for a listening socket.
    pub fn line(&self, wire: WireId) -> Option<&(dyn Line + 'a)> {
        self.slots.get(self.slots.find(wire)?)?.line()
    }

    /// The same, mutable.
    pub fn line_mut(&mut self, wire: WireId) -> Option<&mut (dyn Line + 'a)> {
        let key = self.slots.find(wire)?;
        self.slots.get_mut(key)?.line_mut()
    }

    /// Removes a line as it is; the participant is not told.
    pub fn take(&mut self, wire: WireId) -> Option<Box<dyn Line + 'a>> {
        let key = self.slots.find(wire)?;
        if matches!(self.slots.get(key)?.kind, Kind::Listening(_)) {
            return None;
        }
        if let Some(poller) = &self.poller {
            self.slots.get(key)?.line()?.watch(&mut |fd, _| poller.forget(fd));
        }
        let held = self.slots.remove(key)?;
        self.regroup();
        held.into_line()
    }

    /// All wires, in their order.
    pub fn wires(&self) -> impl Iterator<Item = WireId> {
        self.slots.wires()
    }

    /// Counters of a wire. Of a listening socket: those of its connections, including ended ones, and as unknown
    /// sources those that the participant refused.
    pub fn stats(&self, wire: WireId) -> Option<LineStats> {
        match &self.slots.get(self.slots.find(wire)?)?.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => Some(line.stats()),
            Kind::Listening(listening) => {
                let mut stats = listening.stats;
                let theirs = self.slots.held().filter(|held| held.listener() == Some(wire));
                theirs.filter_map(Held::line).for_each(|line| stats.add(line.stats()));
                Some(stats)
            }
        }
    }

    /// The address at which others reach a wire.
    pub fn local_address(&self, wire: WireId) -> Option<SocketAddr> {
        match &self.slots.get(self.slots.find(wire)?)?.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => Some(line.local_address()),
            Kind::Listening(listening) => Some(listening.socket.local_address()),
        }
    }

    /// The address to which packets on a path of a wire go; `None` if no peer is known there.
    pub fn peer_address(&self, wire: WireId, path: PathId) -> Option<SocketAddr> {
        self.line(wire)?.peer_address(path)
    }

    /// Wires that failed beside others, and why; only the first few. Their participant was told that they broke.
    pub fn failures(&self) -> &[(WireId, LineError)] {
        &self.failures
    }

    fn check_free(&self, wire: WireId) -> Result<(), LineError> {
        match self.slots.find(wire) {
            Some(_) => Err(LineError::WireInUse { wire: wire.0 }),
            None => Ok(()),
        }
    }

    /// Begins to drive a line; `listener`: the listening wire that accepted it.
    fn open(&mut self, wire: WireId, mut line: Box<dyn Line + 'a>, listener: Option<WireId>) {
        match (line.common().waker.clone(), self.wakers.first()) {
            (Some(waker), _) => self.take_waker(waker),
            // It may be the only line later.
            (None, Some(waker)) => line.set_waker(waker.clone()),
            (None, None) => {}
        }
        if let Some(observer) = &mut self.observer {
            observer.on_open(wire, &mut *line);
        }
        self.hold(wire, Kind::Open { line, listener });
    }

    fn hold(&mut self, wire: WireId, kind: Kind<'a>) {
        let key = self.slots.insert(Held::new(wire, kind));
        self.fresh.push(key);
        self.soonest_changed = true;
        self.regroup();
    }

    /// Drops a line or a listening socket; its descriptors close.
    fn drop_held(&mut self, key: Key) {
        let Some(held) = self.slots.remove(key) else { return };
        if let Some(poller) = &self.poller {
            poller.forget_closed(Watched::Held(key).data());
        }
        let (wire, listener) = (held.wire, held.listener());
        if let Some(mut line) = held.into_line() {
            if let Some(observer) = &mut self.observer {
                observer.on_close(wire, &mut *line);
            }
            if let Some(listening) = self.listening_mut(listener) {
                listening.on_gone(&*line);
            }
        }
        self.soonest_changed = true;
        self.regroup();
    }

    fn listening_mut(&mut self, wire: Option<WireId>) -> Option<&mut Listening> {
        let key = self.slots.find(wire?)?;
        match &mut self.slots.get_mut(key)?.kind {
            Kind::Listening(listening) => Some(listening),
            Kind::Open { .. } | Kind::Closing { .. } => None,
        }
    }

    fn take_waker(&mut self, waker: Waker) {
        if self.wakers.iter().all(|known| known.fd() != waker.fd()) {
            self.wakers.push(waker);
            self.watch_wakers(self.wakers.len() - 1);
        }
        self.regroup();
    }

    /// Has the poller watch the wakers from that one on.
    fn watch_wakers(&self, first: usize) {
        let Some(poller) = &self.poller else { return };
        for (at, waker) in self.wakers.iter().enumerate().skip(first) {
            // Without it the thread wakes at the next time-out, as without a waker.
            let _woken_later = poller.watch(waker.as_fd(), Watched::Waker(at).data(), Readiness::READABLE);
        }
    }

    /// Determines whether there is only one line, and nothing else to wait for except callers.
    fn regroup(&mut self) {
        let only = self.slots.only_line().filter(|_| self.wakers.len() <= 1);
        if let (None, Some((_, key))) = (only, self.alone) {
            // From now on it waits together with others.
            self.fresh.push(key);
        }
        self.alone = only;
    }
}

impl Default for Lines<'_> {
    fn default() -> Self {
        Lines::new()
    }
}

/// The most descriptors served in one round. A line does at most 0.2 ms of work for each, so that timers are late by a
/// few milliseconds at worst; the kernel names the others first in the next round.
const MOST_EVENTS: usize = 32;
/// Wires for which memory is reserved from the start.
const ROOM: usize = 16;
/// The most failures kept.
const MOST_FAILURES: usize = 16;

#[cfg(test)]
mod tests;
