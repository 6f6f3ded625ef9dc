//! `mode=as-published`: the sender and the receiver of the report, as an endpoint.
//!
//! A packet is sent at 0 and, unacknowledged, at 20, 40 and 60 ms; then it is forgotten. Every data packet that arrives
//! is acknowledged at once, also a repeated one, and delivered as it is: order, gaps and duplicates are left to the
//! application, as above UDP (the receivers here match messages by their RTP numbers).
//!
//! Additions of the endpoint to the published program: a message waits for one more time-out after its last repetition,
//! so that its outcome tells whether the peer has it (nothing on the wire changes); a message is not *first* sent after
//! its deadline. Repetitions ignore deadlines, as published: they end after 60 ms.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    Capabilities, CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId,
    PathStats, Profile, Received, SendError, Transmit, Wire,
};

use super::paper_loop::{LoopSettings, PaperLoop};
use super::ring::Ring;
use super::text::{self, Text};
use super::{MAX_UDP_PAYLOAD, State};
use crate::inbox::Inbox;
use crate::queue::{LEAN_PLACES, MAX_FRAMES, Queued, Room, SendQueue};
use crate::tally::{Datagram, Tally};

/// Settings left open by the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Time from one transmission to the next.
    pub timeout: Duration,
    /// Repetitions after the first transmission.
    pub repetitions: u32,
    /// The paper's sender loop; `None`: acts at once without pacing.
    pub paper_loop: Option<LoopSettings>,
}

#[derive(Debug)]
pub(super) struct Published {
    settings: Settings,
    queue: SendQueue,
    inbox: Inbox,
    flight: Ring<Entry>,
    /// Numbers to retransmit, as soon as the wire takes them.
    repeats: VecDeque<u64>,
    /// Numbers to be acknowledged.
    acks: VecDeque<u64>,
    /// No entry is due before this.
    next_due: Option<Instant>,
    paper_loop: Option<PaperLoop>,
    /// Whether the peer has acknowledged something, or was called by us; see [`super::flight`].
    is_proved: bool,
    max_datagram: usize,
    tally: Tally,
    state: State,
}

/// A line of the report's retransmission list.
#[derive(Debug)]
struct Entry {
    message: Queued,
    due: Instant,
    repetitions_left: u32,
    /// Listed in `repeats`, and its time-out is stopped.
    waits: bool,
}

impl Published {
    /// `first` is the number of the first packet: 1 as published.
    pub fn new(settings: Settings, max_datagram: usize, first: u64) -> Self {
        let mut queue = SendQueue::new(Room::LEAN_UNTIL_ACKED, max_datagram);
        // There is no handshake: messages flow from the first moment.
        queue.report(Event::Connected);
        Published {
            settings,
            queue,
            inbox: Inbox::new(Room::LEAN, max_datagram),
            flight: Ring::new(first),
            repeats: VecDeque::with_capacity(LEAN_PLACES),
            acks: VecDeque::with_capacity(LEAN_PLACES),
            next_due: None,
            paper_loop: settings.paper_loop.map(PaperLoop::new),
            is_proved: true,
            max_datagram,
            tally: Tally::default(),
            state: State::Open,
        }
    }

    /// For a listener: its peer has to prove that it hears us. The published numbers begin with 1, so a forger can guess what to
    /// acknowledge; the improved mode has a random epoch. Not with the published loop, which a study runs to the letter.
    pub fn of_listener(mut self) -> Self {
        self.is_proved = self.paper_loop.is_some();
        self
    }

    fn max_message(&self) -> usize {
        self.max_datagram.saturating_sub(text::MAX_HEADER)
    }

    fn handle_data(&mut self, number: u64, payload: &[u8], datagram: &Datagram<'_>) {
        if self.acks.len() < MAX_FRAMES {
            self.acks.push_back(number);
        }
        self.inbox.push(payload, &[], datagram.path, datagram.received_at);
    }

    fn handle_ack(&mut self, now: Instant, number: u64) {
        // Numbers never sent count as errors; those settled before are normal after a repetition.
        if number.wrapping_sub(self.flight.next()) < u64::MAX / 2 {
            self.tally.on_malformed();
            return;
        }
        match &mut self.paper_loop {
            None => self.settle(number),
            Some(paper_loop) => {
                paper_loop.handle_ack(number);
                self.run_loop(now);
            }
        }
    }

    fn settle(&mut self, number: u64) {
        if let Some(entry) = self.flight.take(number) {
            self.is_proved = true;
            self.queue.finish(entry.message, Outcome::Acked);
        }
        if self.flight.is_empty() {
            self.next_due = None;
        }
    }

    /// Step 2 of the published loop: packets that are due are retransmitted, or forgotten.
    fn repeat_due(&mut self, now: Instant) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        let mut soonest: Option<Instant> = None;
        for number in numbers(self.flight.first(), self.flight.next()) {
            let Some(entry) = self.flight.entry_mut(number) else { continue };
            if entry.waits {
                continue;
            }
            if entry.due <= now {
                if entry.repetitions_left == 0 || !self.is_proved {
                    if let Some(entry) = self.flight.take(number) {
                        self.queue.finish(entry.message, Outcome::RetriesExhausted);
                    }
                    continue;
                }
                entry.repetitions_left -= 1;
                entry.waits = true;
                self.repeats.push_back(number);
            } else {
                soonest = Some(soonest.map_or(entry.due, |s| s.min(entry.due)));
            }
        }
        self.next_due = soonest;
    }

    /// Runs the published loop up to `now`.
    fn run_loop(&mut self, now: Instant) {
        let Some(mut paper_loop) = self.paper_loop.take() else { return };
        while paper_loop.is_due(now) {
            if let Some(number) = paper_loop.read_ack(now) {
                self.settle(number);
            }
            self.repeat_due(now);
            paper_loop.turn(now, !self.queue.is_empty());
        }
        if self.flight.is_empty() && self.queue.is_empty() {
            paper_loop.rest();
        }
        self.paper_loop = Some(paper_loop);
    }

    fn write_repeat(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        while let Some(number) = self.repeats.pop_front() {
            let Some(entry) = self.flight.entry_mut(number) else { continue };
            entry.waits = false;
            // The published list counts from the time-out, not from the transmission; a wire that was blocked restarts
            // the count.
            let next = entry.due + self.settings.timeout;
            entry.due = if next > now { next } else { now + self.settings.timeout };
            self.next_due = Some(self.next_due.map_or(entry.due, |due| due.min(entry.due)));
            self.tally.on_repeat();
            return Some(text::emit_data(number, &entry.message.bytes, buf));
        }
        None
    }

    fn write_first(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.flight.has_room() || self.paper_loop.as_ref().is_some_and(|l| !l.may_send()) {
            return None;
        }
        let message = self.queue.pop(now)?;
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.on_sent();
        }
        let due = now + self.settings.timeout;
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
        let number = self.flight.next();
        let len = text::emit_data(number, &message.bytes, buf);
        self.flight.push(Entry { message, due, repetitions_left: self.settings.repetitions, waits: false });
        Some(len)
    }

    fn finish(&mut self) {
        for number in numbers(self.flight.first(), self.flight.next()) {
            if let Some(entry) = self.flight.take(number) {
                self.queue.finish(entry.message, Outcome::Aborted);
            }
        }
        self.queue.finish_all(Outcome::Aborted);
        self.inbox.clear();
        self.acks.clear();
        self.repeats.clear();
        self.state = State::Closed;
        self.queue.report(Event::Closed(CloseReason::Local));
    }

    fn finish_closing(&mut self) {
        let idle = self.flight.is_empty() && self.queue.is_empty() && self.acks.is_empty();
        if self.state == State::Closing && idle {
            self.finish();
        }
    }
}

impl Endpoint for Published {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: self.max_message(),
            max_receive: MAX_UDP_PAYLOAD,
            message_overhead: TYPICAL_HEADER,
            bare: false,
            acknowledged: true,
            ordered: false,
            retransmits: self.settings.repetitions > 0,
            reliable: false,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: self.settings.paper_loop.is_some_and(|settings| settings.pace.is_some()),
            capabilities: Capabilities::OF_UDP,
        }
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.state != State::Open {
            return Err(SendError::Closed);
        }
        self.queue.push(message, self.max_message())?;
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.wake(now);
            self.run_loop(now);
        }
        Ok(())
    }

    fn close(&mut self, _now: Instant, mode: CloseMode) {
        match (self.state, mode) {
            (State::Closed, _) => {}
            (_, CloseMode::Abort) => self.finish(),
            (_, CloseMode::Graceful) => {
                self.state = State::Closing;
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
        match text::parse(datagram.bytes) {
            Some(Text::Data { number, payload }) => self.handle_data(number, payload, &datagram),
            Some(Text::Ack { number }) => self.handle_ack(now, number),
            None => self.tally.on_malformed(),
        }
        self.finish_closing();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.queue.expire(now);
        if self.paper_loop.is_some() {
            self.run_loop(now);
        } else {
            self.repeat_due(now);
        }
        self.finish_closing();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let ack = self.acks.pop_front().map(|number| text::emit_ack(number, buf));
        let written = ack.or_else(|| self.write_repeat(now, buf)).or_else(|| self.write_first(now, buf));
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
        let due = match &self.paper_loop {
            Some(paper_loop) => paper_loop.poll_timeout(),
            None => self.next_due,
        };
        [due, self.queue.next_expiry()].into_iter().flatten().min()
    }

    fn reserve(&mut self, messages: usize) {
        // After a stall of the peer, every message has been retransmitted to it.
        let sendings = 1 + self.settings.repetitions as usize;
        let arrivals = messages.saturating_mul(sendings).min(MAX_FRAMES);
        self.queue.make_room(Room::of(messages), self.max_datagram);
        self.inbox.make_room(Room::of(arrivals), self.max_datagram);
        self.flight.reserve(messages);
        self.repeats.reserve_exact(messages.min(MAX_FRAMES).saturating_sub(self.repeats.len()));
        self.acks.reserve_exact(arrivals.saturating_sub(self.acks.len()));
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.reserve(arrivals);
        }
    }

    fn stats(&self) -> PathStats {
        PathStats { counters: self.tally.counters(&self.queue, &self.inbox), ..PathStats::default() }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

/// `first..next` where the numbers may wrap.
fn numbers(first: u64, next: u64) -> impl Iterator<Item = u64> {
    (0..next.wrapping_sub(first)).map(move |i| first.wrapping_add(i))
}

/// `seq:`, six digits and a space: packets 100 000 to 999 999 of a stream, 12 minutes to 2 hours at 135.7 a second.
const TYPICAL_HEADER: usize = 11;

#[cfg(test)]
mod tests;
