//! What associations without a handshake have in common: queues, counters, and how they close.

use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, PathStats, Profile,
    Received, SendError, Transmit, soonest,
};

use crate::inbox::Inbox;
use crate::patience::LONGEST_LEAVE;
use crate::queue::{Room, SendQueue};
use crate::tally::{Datagram, Tally};

/// An association with one peer over one path, on which messages flow from the start.
///
/// A graceful close sends what was accepted, then stays for as long as the protocol answers requests. The peer is
/// not told.
pub struct Association<P>(pub(crate) P);

/// A protocol of such associations: what it sends, and how it reads what arrives.
pub(crate) trait Protocol {
    fn common(&self) -> &Common;

    fn common_mut(&mut self) -> &mut Common;

    /// See [`Endpoint::profile`].
    fn profile(&self) -> Profile;

    /// Handles a datagram, which is counted already.
    fn on_datagram(&mut self, now: Instant, datagram: &Datagram<'_>);

    /// Writes the next datagram; returns its length.
    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize>;

    /// The path is narrower than it was thought to be.
    fn on_max_datagram(&mut self, _most: usize) {}

    /// A message was accepted.
    fn on_accepted(&mut self, _now: Instant) {}

    /// A graceful close begins.
    fn on_closing(&mut self) {}

    /// When [`Self::on_timeout`] must be called, besides the deadlines of waiting messages.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Does what is due. Waiting messages past their deadlines have expired.
    fn on_timeout(&mut self, _now: Instant) {}

    /// Whether, besides the waiting messages, nothing is left of which a close waits for the end.
    fn is_idle(&self) -> bool {
        true
    }

    /// When what a close waits for last made progress; `None` if it ends by itself.
    fn progress(&self) -> Option<Instant> {
        None
    }

    /// How long a close stays once all is sent.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends every message that is no longer in the queue: the association is over.
    fn abandon(&mut self) {}

    /// Received messages that may wait at once, if so many sent ones wait.
    fn arrivals(&self, messages: usize) -> usize {
        messages
    }

    /// Reserves memory of its own for so many waiting messages of `typical` bytes.
    fn reserve(&mut self, _messages: usize, _typical: usize) {}

    /// See [`Endpoint::stats`].
    fn stats(&self) -> PathStats {
        self.common().stats()
    }
}

/// What such an association consists of, whatever its protocol.
#[derive(Debug)]
pub(crate) struct Common {
    pub queue: SendQueue,
    pub inbox: Inbox,
    pub tally: Tally,
    /// Congestion began or ended, and the application is to be told.
    pub congestion_changed: bool,
    /// Message length for which memory is reserved.
    typical: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Sends the accepted messages, since this instant.
    Closing(Instant),
    /// Answers the peer until this instant.
    Lingering(Instant),
    Closed,
}

impl Common {
    /// `room` to send messages of `typical` bytes.
    pub fn new(room: Room, typical: usize) -> Self {
        let mut queue = SendQueue::new(room, typical);
        // There is no handshake: messages flow from the first moment.
        queue.report(Event::Connected);
        Common {
            queue,
            inbox: Inbox::new(Room::LEAN, typical),
            tally: Tally::default(),
            congestion_changed: false,
            typical,
            state: State::Open,
        }
    }

    /// Whether a graceful close sends what was accepted.
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing(_))
    }

    /// The counters alone.
    pub fn stats(&self) -> PathStats {
        PathStats { counters: self.tally.counters(&self.queue, &self.inbox), ..PathStats::default() }
    }
}

#[allow(private_bounds, reason = "the protocols are all in this crate")]
impl<P: Protocol> Association<P> {
    fn is_closed(&self) -> bool {
        self.0.common().state == State::Closed
    }

    fn move_on_closing(&mut self, now: Instant) {
        if self.leave_by().is_some_and(|leave| leave <= now) {
            self.finish();
        }
        if self.0.common().is_closing() && self.0.common().queue.is_empty() && self.0.is_idle() {
            self.0.common_mut().state = State::Lingering(now + self.0.linger());
        }
        if self.lingers_until().is_some_and(|until| until <= now) {
            self.finish();
        }
    }

    /// Until when closing waits for what makes no progress.
    fn leave_by(&self) -> Option<Instant> {
        let State::Closing(since) = self.0.common().state else { return None };
        Some(self.0.progress()?.max(since) + LONGEST_LEAVE)
    }

    fn lingers_until(&self) -> Option<Instant> {
        match self.0.common().state {
            State::Lingering(until) => Some(until),
            State::Open | State::Closing(_) | State::Closed => None,
        }
    }

    fn finish(&mut self) {
        self.0.abandon();
        let common = self.0.common_mut();
        common.queue.finish_all(Outcome::Aborted);
        common.inbox.clear();
        common.congestion_changed = false;
        common.state = State::Closed;
        common.queue.report(Event::Closed(CloseReason::Local));
    }
}

impl<P: Protocol> Endpoint for Association<P> {
    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        let most = self.0.profile().max_message;
        let common = self.0.common_mut();
        if common.state != State::Open {
            return Err(SendError::Closed);
        }
        common.queue.push(message, most)?;
        self.0.on_accepted(now);
        Ok(())
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        match (self.0.common().state, mode) {
            (State::Closed, _) => {}
            (_, CloseMode::Abort) => self.finish(),
            (State::Open, CloseMode::Graceful) => {
                self.0.common_mut().state = State::Closing(now);
                self.0.on_closing();
                self.move_on_closing(now);
            }
            (State::Closing(_) | State::Lingering(_), CloseMode::Graceful) => {}
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.is_closed() {
            return;
        }
        if let Input::MaxDatagram(most) = input {
            self.0.on_max_datagram(most);
            return;
        }
        let Common { tally, queue, .. } = self.0.common_mut();
        if let Some(datagram) = tally.take(input, queue) {
            self.0.on_datagram(now, &datagram);
            self.move_on_closing(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.is_closed() {
            self.0.common_mut().queue.expire(now);
            self.0.on_timeout(now);
            self.move_on_closing(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.is_closed() {
            return None;
        }
        let len = self.0.write(now, buf);
        self.move_on_closing(now);
        Some(self.0.common_mut().tally.transmit(len?))
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.0.common_mut().inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.0.common_mut().congestion_changed) {
            return Some(Event::Congestion(self.0.stats()));
        }
        self.0.common_mut().queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        let expiry = self.0.common().queue.next_expiry();
        soonest([self.0.next_timeout(), expiry, self.lingers_until(), self.leave_by()])
    }

    fn reserve(&mut self, messages: usize) {
        let arrivals = self.0.arrivals(messages);
        let common = self.0.common_mut();
        let typical = common.typical;
        common.queue.make_room(Room::of(messages), typical);
        common.inbox.make_room(Room::of(arrivals), typical);
        self.0.reserve(messages, typical);
    }

    fn stats(&self) -> PathStats {
        self.0.stats()
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}
