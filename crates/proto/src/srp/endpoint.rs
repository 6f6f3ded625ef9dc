//! `srp://` as an [`Endpoint`]: a sending and a receiving half of one mode, for messages in both directions.

use antiphon_core::{
    BitRate, ByteCount, Capabilities, CloseMode, CloseReason, Counters, Endpoint, Event, Input, Instant,
    Message, Outcome, PathId, PathStats, Profile, Received, Role, SendError, StreamId, Transmit, Wire,
};

use super::halves::Halves;
use super::improved::{Admission, CompleteSender};
use super::settings::{Decision, Settings};
use super::streams::Streams;
use crate::inbox::Inbox;
use crate::patience::LONGEST_LEAVE;
use crate::queue::{Queued, Room, SendQueue};
use crate::tally::{Datagram, Tally};

/// One association of SRP, in either mode.
///
/// It needs no handshake, neither to begin nor to end: after a graceful close the improved mode stays for as long as a
/// message can be played, to retransmit the last ones. An association without data costs nothing: it sends nothing and
/// requests no time-out.
///
/// With `reliability=full` a message has arrived when it is told as acknowledged, and a close waits for that.
///
/// In the improved mode a message may expire before its deadline: if the peer does not want its stream, or if the
/// peer's reports show that the path can't carry it in time. Streams above [`LAST_STREAM`](super::LAST_STREAM) share
/// that one.
pub struct SrpEndpoint {
    queue: SendQueue,
    inbox: Inbox,
    halves: Halves,
    /// The message being sent, and its next part.
    current: Option<(Queued, usize)>,
    max_message: usize,
    /// Whether lost messages are requested again.
    retransmits: bool,
    /// Message length for which memory is reserved.
    typical: usize,
    /// Until then, a message without a deadline waits for capacity of the path.
    waits_until: Option<Instant>,
    tally: Tally,
    congestion_changed: bool,
    full: bool,
    state: State,
    /// When closing began.
    closed_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Sends the accepted messages.
    Flushing,
    /// Retransmits on request until this instant.
    Lingering(Instant),
    Closed,
}

impl SrpEndpoint {
    /// Opens an association.
    ///
    /// `max_datagram`: largest UDP payload in bytes that the path carries unfragmented.
    pub fn new(settings: &Settings, role: Role, max_datagram: usize, seed: u64, now: Instant) -> Self {
        let halves = Halves::new(settings, role, max_datagram, seed, now);
        let typical = max_datagram.min(ETHERNET);
        let mut queue = SendQueue::new(Room::LEAN, typical);
        // SRP leaves handshakes to the application: messages are sent from the start.
        queue.report(Event::Connected);
        SrpEndpoint {
            queue,
            inbox: Inbox::new(Room::LEAN, typical),
            typical,
            max_message: halves.max_message(),
            retransmits: settings.decide != Decision::Never,
            halves,
            current: None,
            waits_until: None,
            tally: Tally::default(),
            congestion_changed: false,
            full: settings.full,
            state: State::Open,
            closed_at: Instant::ZERO,
        }
    }

    /// Requests these streams from the peer; has no effect as published.
    pub fn want(&mut self, streams: Streams) {
        self.halves.want(streams);
    }

    fn take_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        let Datagram { path, bytes, received_at, .. } = *datagram;
        let inbox = &mut self.inbox;
        let room = inbox.room();
        let mut deliver = |delivery: super::Delivery<'_>| push(inbox, path, &delivery);
        match self.halves.handle_datagram(now, received_at, bytes, room, &mut deliver) {
            Ok(changed) => self.congestion_changed |= changed,
            Err(_malformed) => self.tally.on_malformed(),
        }
        while let Some(tag) = self.halves.complete_mut().and_then(CompleteSender::take_confirmed) {
            self.queue.settle(tag, Outcome::Acked);
        }
        self.move_on_closing(now);
    }

    /// Writes the next part of the current message, or of the next message.
    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.expire_current(now);
        if self.current.is_none() {
            self.current = self.next_message(now).map(|message| (message, 0));
        }
        let (message, index) = self.current.as_mut()?;
        let len = self.halves.send_part(now, message, *index, buf);
        *index += 1;
        let is_last = *index >= self.halves.parts(message.bytes.len());
        if (is_last || len.is_none())
            && let Some((message, _)) = self.current.take()
        {
            // A buffer shorter than `max_message` is the driver's mistake; the message is lost in either case.
            match len {
                Some(_) if self.full => self.queue.recycle(message.bytes),
                Some(_) => self.queue.finish(message, Outcome::Released),
                None => self.queue.finish(message, Outcome::Aborted),
            }
        }
        len
    }

    /// The next message that the peer wants and the path can carry; those before it expire.
    fn next_message(&mut self, now: Instant) -> Option<Queued> {
        self.waits_until = None;
        loop {
            let admission = self.halves.admit(now, self.queue.peek(now)?);
            match admission {
                Admission::Send => return self.queue.pop(now),
                Admission::Drop => {
                    let message = self.queue.pop(now)?;
                    self.queue.finish(message, Outcome::Expired { maybe_received: false });
                }
                Admission::Wait(until) => {
                    self.waits_until = Some(until);
                    return None;
                }
                Admission::Hold => return None,
            }
        }
    }

    /// Drops the rest of a message whose deadline passed while it was being sent.
    fn expire_current(&mut self, now: Instant) {
        // Parts that were sent are kept for ever, and a message is of use as a whole only.
        let full = self.full;
        let is_late = |message: &Queued| !full && message.deadline.is_some_and(|deadline| now > deadline);
        if let Some((message, sent)) = self.current.take_if(|(message, _)| is_late(message)) {
            self.queue.finish(message, Outcome::Expired { maybe_received: sent > 0 });
        }
    }

    fn move_on_closing(&mut self, now: Instant) {
        if self.leave_by().is_some_and(|leave| leave <= now) {
            self.finish();
        }
        let is_confirmed = self.halves.complete().is_none_or(CompleteSender::is_empty);
        if self.state == State::Flushing && self.current.is_none() && self.queue.is_empty() && is_confirmed {
            self.state = State::Lingering(now + self.halves.linger());
        }
        if let State::Lingering(until) = self.state
            && until <= now
        {
            self.finish();
        }
    }

    /// Until when closing waits for what is to be confirmed.
    fn leave_by(&self) -> Option<Instant> {
        let progress = self.halves.complete().filter(|_| self.state == State::Flushing)?.progress();
        Some(progress.max(self.closed_at) + LONGEST_LEAVE)
    }

    fn finish(&mut self) {
        while let Some(tag) = self.halves.complete_mut().and_then(CompleteSender::take_confirmed) {
            self.queue.settle(tag, Outcome::Acked);
        }
        while let Some(tag) = self.halves.complete_mut().and_then(CompleteSender::abandon) {
            self.queue.settle(tag, Outcome::Aborted);
        }
        if let Some((message, _)) = self.current.take() {
            self.queue.finish(message, Outcome::Aborted);
        }
        self.queue.finish_all(Outcome::Aborted);
        self.inbox.clear();
        self.congestion_changed = false;
        self.state = State::Closed;
        self.queue.report(Event::Closed(CloseReason::Local));
    }
}

fn push(inbox: &mut Inbox, path: PathId, delivery: &super::Delivery<'_>) {
    // A given-up message is simply missing: receivers of sound number messages themselves.
    if let super::Delivery::Message { bytes, received_at, repaired, stream, .. } = *delivery {
        let stream = StreamId(stream.into());
        inbox.push_received(bytes, Received { len: bytes.len(), path, stream, received_at, repaired });
    }
}

impl Endpoint for SrpEndpoint {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: self.max_message,
            max_receive: self.halves.max_receive(),
            message_overhead: super::wire::HEADER,
            bare: false,
            acknowledged: self.full,
            ordered: self.halves.is_ordered(),
            retransmits: self.retransmits,
            // Otherwise a sender keeps messages only for a while, and the receiver decides which it requests.
            reliable: self.full,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities {
                unordered: !self.halves.is_ordered(),
                flow_control: self.full,
                // A receiver's reports slow a sender down.
                congestion_control: self.halves.is_improved(),
                fragmentation: self.halves.is_improved(),
                ..Capabilities::OF_UDP
            },
        }
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        match self.state {
            State::Open => self.queue.push(message, self.max_message),
            State::Flushing | State::Lingering(_) | State::Closed => Err(SendError::Closed),
        }
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        match (self.state, mode) {
            (State::Closed, _) => {}
            (_, CloseMode::Abort) => self.finish(),
            (State::Open, CloseMode::Graceful) => {
                (self.state, self.closed_at) = (State::Flushing, now);
                self.move_on_closing(now);
            }
            (State::Flushing | State::Lingering(_), CloseMode::Graceful) => {}
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.state != State::Closed
            && let Some(datagram) = self.tally.take(input, &mut self.queue)
        {
            self.take_datagram(now, &datagram);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.queue.expire(now);
        self.expire_current(now);
        self.waits_until = self.waits_until.filter(|until| *until > now);
        let inbox = &mut self.inbox;
        self.halves.handle_timeout(now, &mut |delivery| push(inbox, PathId::default(), &delivery));
        self.move_on_closing(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.state == State::Closed {
            return None;
        }
        let len = self.halves.poll_transmit(now, buf).or_else(|| self.write_data(now, buf));
        self.move_on_closing(now);
        Some(self.tally.transmit(len?))
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.congestion_changed) {
            return Some(Event::Congestion(self.stats()));
        }
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let linger = match self.state {
            State::Closed => return None,
            State::Lingering(until) => Some(until),
            State::Open | State::Flushing => None,
        };
        let current = self.current.as_ref().filter(|_| !self.full).and_then(|(message, _)| message.deadline);
        let current = current.map(|deadline| Instant::from_nanos(deadline.as_nanos().saturating_add(1)));
        let waits = [
            linger,
            current,
            self.waits_until,
            self.queue.next_expiry(),
            self.halves.poll_timeout(),
            self.leave_by(),
        ];
        waits.into_iter().flatten().min()
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.typical);
        self.inbox.make_room(Room::of(messages), self.typical);
        self.halves.reserve(messages, self.typical);
    }

    fn stats(&self) -> PathStats {
        let counters = Counters {
            retransmitted: self.halves.retransmitted(),
            duplicates: self.halves.duplicates(),
            ..self.tally.counters(&self.queue, &self.inbox)
        };
        if let Some(sender) = self.halves.complete().filter(|sender| sender.rtt().srtt().is_some()) {
            let (cwnd, on_way) = sender.window();
            return PathStats {
                srtt: sender.rtt().srtt(),
                rttvar: sender.rtt().rttvar(),
                min_rtt: sender.rtt().min(),
                cwnd: cwnd.map(ByteCount),
                in_flight: Some(ByteCount(on_way)),
                counters,
                ..PathStats::default()
            };
        }
        let round_trip = self.halves.round_trip();
        PathStats {
            srtt: round_trip.map(|smoothed| smoothed.mean()),
            rttvar: round_trip.map(|smoothed| smoothed.deviation()),
            min_rtt: self.halves.least_round_trip(),
            pacing_rate: self.halves.limit().map(|bytes| BitRate((8.0 * bytes) as u64)),
            counters,
            ..PathStats::default()
        }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

/// Memory reserved for a message: one Ethernet packet's. Longer ones grow a buffer once.
const ETHERNET: usize = 1472;
