//! `mode=improved`: the extensions in the report's chapter on future work, as an endpoint.
//!
//! * A message is retransmitted when a packet sent *later* has been acknowledged and the path's reordering time has
//!   passed (RFC 8985), or after SRTT + 4 RTTVAR; never after its deadline, and once more just before it where no
//!   answer can come in time.
//! * One acknowledgement covers many packets, is carried by messages in the other direction, waits a bounded time, and
//!   is sent at once when a gap appears.
//! * The receiver delivers every message once, as soon as it has it: the playout buffer restores the order.
//! * With `reliability=full` nothing is given up. While nothing is answered, one packet at a time probes the path, once a
//!   second at last; what is lost has to fit the congestion window as all else. A receiver without room for a message
//!   doesn't acknowledge it, so that it comes again.
//! * Numbers start anywhere and belong to an *epoch* drawn at opening. Another epoch is heard when this one has brought
//!   nothing new for a second ([`crate::probation`]): neither a forged packet nor a replayed session ends a stream.

use std::time::Duration;

use antiphon_core::{
    ByteCount, Capabilities, CloseMode, CloseReason, Counters, Endpoint, Event, Input, Instant, Message,
    Outcome, PathId, PathStats, Profile, Received, Rng, SendError, Transmit, Wire,
};

use super::flight::{Flight, Outgoing};
use super::window::{Arrival, Window};
use super::wire::{self, DATA_HEADER, Data, Packet};
use super::{MAX_UDP_PAYLOAD, State};
use crate::inbox::Inbox;
use crate::patience::LONGEST_LEAVE;
use crate::queue::{Room, SendQueue};
use crate::tally::{Datagram, Tally};

/// Settings from the URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Minimum retransmission time-out.
    pub rto_floor: Duration,
    /// Longest wait of an acknowledgement, here and at the peer.
    pub ack_delay: Duration,
    /// Whether a window limits the bytes in flight.
    pub window: bool,
    /// Whether every message that was sent is repeated until it is acknowledged, whatever its deadline; only with a window.
    pub full: bool,
}

#[derive(Debug)]
pub(super) struct Improved {
    queue: SendQueue,
    inbox: Inbox,
    flight: Flight,
    window: Window,
    epoch: u32,
    max_datagram: usize,
    tally: Tally,
    full: bool,
    state: State,
    /// Closing has made progress last.
    progress: Instant,
}

impl Improved {
    pub fn new(settings: Settings, max_datagram: usize, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "arq");
        // Above 2³², so that a number before the first stays positive.
        let first = (1 << 32) + u64::from(rng.next_u32());
        Self::starting_at(settings, max_datagram, rng.next_u32(), first)
    }

    pub fn starting_at(settings: Settings, max_datagram: usize, epoch: u32, first: u64) -> Self {
        let mut queue = SendQueue::new(Room::LEAN_UNTIL_ACKED, max_datagram);
        // There is no handshake: messages flow from the start.
        queue.report(Event::Connected);
        Improved {
            queue,
            inbox: Inbox::new(Room::LEAN, max_datagram),
            flight: Flight::new(&settings, max_datagram, epoch, first),
            window: Window::new(settings.ack_delay),
            epoch,
            max_datagram,
            tally: Tally::default(),
            full: settings.full,
            state: State::Open,
            progress: Instant::ZERO,
        }
    }

    /// For a listener: its peer has to prove that it hears us.
    pub fn of_listener(mut self) -> Self {
        self.flight.expect_proof();
        self
    }

    fn max_message(&self) -> usize {
        self.max_datagram.saturating_sub(DATA_HEADER)
    }

    fn handle_data(&mut self, now: Instant, data: &Data<'_>, datagram: &Datagram<'_>) {
        let Datagram { path, bytes, received_at, .. } = *datagram;
        if self.full && !self.inbox.has_room(data.payload.len()) {
            // Not acknowledged, it comes again.
            return;
        }
        match self.window.receive(now, data, received_at, bytes.len()) {
            Arrival::New => self.inbox.push_repaired(data.payload, path, received_at, data.repeated),
            Arrival::Duplicate => self.tally.on_duplicate(),
            Arrival::Foreign => self.tally.on_malformed(),
        }
        if self.state == State::Closing {
            self.window.hurry();
        }
    }

    /// Writes the next data packet, with an acknowledgement if one is owed and fits.
    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let Outgoing { number, back, repeated, payload } = self.flight.next(now, &mut self.queue)?;
        let data = Data { epoch: self.epoch, number: number as u32, back, repeated, payload };
        let fits = DATA_HEADER + payload.len() + self.window.ack_len() <= self.max_datagram;
        let ack = if fits { self.window.take_ack(now) } else { None };
        Some(wire::emit(&Packet { ack, data: Some(data) }, buf))
    }

    fn write_ack(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.window.is_due() {
            return None;
        }
        let ack = Some(self.window.take_ack(now)?);
        Some(wire::emit(&Packet { ack, data: None }, buf))
    }

    fn finish(&mut self) {
        self.flight.finish_all(Outcome::Aborted, &mut self.queue);
        self.queue.finish_all(Outcome::Aborted);
        self.inbox.clear();
        self.state = State::Closed;
        self.queue.report(Event::Closed(CloseReason::Local));
    }

    /// Until when closing waits for an answer; where messages are given up, it ends with the last of them.
    fn leave_by(&self) -> Option<Instant> {
        (self.full && self.state == State::Closing).then(|| self.progress + LONGEST_LEAVE)
    }

    fn finish_closing(&mut self) {
        let idle = self.flight.is_empty() && self.queue.is_empty() && !self.window.is_owed();
        if self.state == State::Closing && idle {
            self.finish();
        }
    }
}

impl Endpoint for Improved {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: self.max_message(),
            max_receive: MAX_UDP_PAYLOAD,
            message_overhead: DATA_HEADER,
            bare: false,
            acknowledged: true,
            ordered: false,
            retransmits: true,
            // Otherwise retransmissions are bounded.
            reliable: self.full,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities {
                flow_control: self.full,
                congestion_control: self.flight.cwnd().is_some(),
                ..Capabilities::OF_UDP
            },
        }
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        match self.state {
            State::Open => self.queue.push(message, self.max_message()),
            State::Closing | State::Closed => Err(SendError::Closed),
        }
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        match (self.state, mode) {
            (State::Closed, _) => {}
            (_, CloseMode::Abort) => self.finish(),
            (_, CloseMode::Graceful) => {
                (self.state, self.progress) = (State::Closing, now);
                self.window.hurry();
                self.finish_closing();
            }
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.state == State::Closed {
            return;
        }
        if let Input::MaxDatagram(most) = input {
            self.max_datagram = self.max_datagram.min(most);
            return;
        }
        let Some(datagram) = self.tally.take(input, &mut self.queue) else { return };
        let Some(packet) = wire::parse(datagram.bytes) else {
            self.tally.on_malformed();
            return;
        };
        if let Some(ack) = &packet.ack {
            match self.flight.handle_ack(ack, datagram.received_at, &mut self.queue) {
                Ok(true) => self.progress = now,
                Ok(false) => {}
                Err(_) => self.tally.on_malformed(),
            }
        }
        if let Some(data) = &packet.data {
            self.handle_data(now, data, &datagram);
        }
        self.finish_closing();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.queue.expire(now);
        self.flight.handle_due(now, &mut self.queue);
        if self.flight.take_halved() {
            self.queue.report(Event::Congestion(self.stats()));
        }
        self.window.handle_timeout(now);
        if self.leave_by().is_some_and(|leave| leave <= now) {
            self.finish();
        }
        self.finish_closing();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.state == State::Closed {
            return None;
        }
        let written = self.write_data(now, buf).or_else(|| self.write_ack(now, buf));
        self.finish_closing();
        Some(self.tally.transmit(written?))
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Closed {
            return None;
        }
        let due = [
            self.flight.poll_timeout(),
            self.window.poll_timeout(),
            self.queue.next_expiry(),
            self.leave_by(),
        ];
        due.into_iter().flatten().min()
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.max_datagram);
        self.inbox.make_room(Room::of(messages), self.max_datagram);
        self.flight.reserve(messages);
    }

    fn stats(&self) -> PathStats {
        let counters = self.tally.counters(&self.queue, &self.inbox);
        let counters = Counters { retransmitted: self.flight.repeated(), ..counters };
        let rtt = self.flight.rtt().smoothed();
        PathStats {
            srtt: rtt.srtt(),
            rttvar: rtt.rttvar(),
            min_rtt: rtt.min(),
            cwnd: self.flight.cwnd().map(ByteCount),
            in_flight: Some(ByteCount(self.flight.bytes())),
            pacing_rate: None,
            counters,
        }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

#[cfg(test)]
mod tests;
