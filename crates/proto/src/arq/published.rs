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

use antiphon_core::wire::MAX_UDP_PAYLOAD;
use antiphon_core::{Instant, Outcome, Profile, Role, sooner};

use super::paper_loop::{LoopSettings, PaperLoop};
use super::ring::Ring;
use super::text::{self, Text};
use crate::association::{Association, Common, Protocol};
use crate::queue::{LEAN_PLACES, MAX_FRAMES, Queued, Room};
use crate::tally::Datagram;

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

pub(super) struct Published {
    common: Common,
    settings: Settings,
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
    pub fn open(settings: Settings, role: Role, max_datagram: usize, first: u64) -> Association<Self> {
        Association(Published {
            common: Common::new(Room::LEAN_UNTIL_ACKED, max_datagram),
            settings,
            flight: Ring::new(first),
            repeats: VecDeque::with_capacity(LEAN_PLACES),
            acks: VecDeque::with_capacity(LEAN_PLACES),
            next_due: None,
            paper_loop: settings.paper_loop.map(PaperLoop::new),
            // A listener's peer has to prove that it hears us. The published numbers begin with 1, so a forger can guess what
            // to acknowledge; the improved mode has a random epoch. Not with the published loop, which a study runs to the
            // letter.
            is_proved: role == Role::Caller || settings.paper_loop.is_some(),
            max_datagram,
        })
    }

    fn handle_data(&mut self, number: u64, payload: &[u8], datagram: &Datagram<'_>) {
        if self.acks.len() < MAX_FRAMES {
            self.acks.push_back(number);
        }
        self.common.inbox.push(payload, &[], datagram.path, datagram.received_at);
    }

    fn handle_ack(&mut self, now: Instant, number: u64) {
        // Numbers never sent count as errors; those settled before are normal after a repetition.
        if number.wrapping_sub(self.flight.next()) < u64::MAX / 2 {
            self.common.tally.on_malformed();
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
            self.common.queue.finish(entry.message, Outcome::Acked);
        }
        if self.flight.is_empty() {
            self.next_due = None;
        }
    }

    /// Step 2 of the published loop: packets that are due are retransmitted, or forgotten. Returns how many are
    /// retransmitted.
    fn repeat_due(&mut self, now: Instant) -> u32 {
        if self.next_due.is_none_or(|due| due > now) {
            return 0;
        }
        let mut repeated = 0;
        let mut soonest: Option<Instant> = None;
        for number in numbers(self.flight.first(), self.flight.next()) {
            let Some(entry) = self.flight.entry_mut(number) else { continue };
            if entry.waits {
                continue;
            }
            if entry.due <= now {
                if entry.repetitions_left == 0 || !self.is_proved {
                    if let Some(entry) = self.flight.take(number) {
                        self.common.queue.finish(entry.message, Outcome::RetriesExhausted);
                    }
                    continue;
                }
                entry.repetitions_left -= 1;
                entry.waits = true;
                self.repeats.push_back(number);
                repeated += 1;
            } else {
                soonest = sooner(soonest, Some(entry.due));
            }
        }
        self.next_due = soonest;
        repeated
    }

    /// Runs the published loop up to `now`.
    fn run_loop(&mut self, now: Instant) {
        let Some(mut paper_loop) = self.paper_loop.take() else { return };
        paper_loop.end_work(now);
        while paper_loop.is_due(now) {
            if let Some(number) = paper_loop.read_ack(now) {
                self.settle(number);
            }
            let repeated = self.repeat_due(now);
            paper_loop.turn(now, !self.common.queue.is_empty(), repeated);
        }
        if self.flight.is_empty() && self.common.queue.is_empty() {
            paper_loop.rest();
        }
        self.paper_loop = Some(paper_loop);
    }

    /// Whether the published loop is busy with the repetition that it sent last.
    fn is_at_work(&self) -> bool {
        self.paper_loop.as_ref().is_some_and(|paper_loop| paper_loop.busy_until().is_some())
    }

    fn write_repeat(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        while let Some(number) = self.repeats.pop_front() {
            let Some(entry) = self.flight.entry_mut(number) else { continue };
            entry.waits = false;
            // The published list counts from the time-out, not from the transmission; a wire that was blocked restarts
            // the count.
            let next = entry.due + self.settings.timeout;
            entry.due = if next > now { next } else { now + self.settings.timeout };
            self.next_due = sooner(self.next_due, Some(entry.due));
            self.common.tally.on_repeat();
            if let Some(paper_loop) = &mut self.paper_loop {
                paper_loop.on_repeated(now);
            }
            return Some(text::emit_data(number, &entry.message.bytes, buf));
        }
        None
    }

    fn write_first(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.flight.has_room() || self.paper_loop.as_ref().is_some_and(|l| !l.may_send()) {
            return None;
        }
        let message = self.common.queue.pop(now)?;
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.on_sent();
        }
        let due = now + self.settings.timeout;
        self.next_due = sooner(self.next_due, Some(due));
        let number = self.flight.next();
        let len = text::emit_data(number, &message.bytes, buf);
        self.flight.push(Entry { message, due, repetitions_left: self.settings.repetitions, waits: false });
        Some(len)
    }
}

impl Protocol for Published {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn profile(&self) -> Profile {
        Profile {
            acknowledged: true,
            retransmits: self.settings.repetitions > 0,
            paces_itself: self.settings.paper_loop.is_some_and(|settings| settings.pace.is_some()),
            ..Profile::of_datagrams(
                self.max_datagram.saturating_sub(text::MAX_HEADER),
                MAX_UDP_PAYLOAD,
                TYPICAL_HEADER,
            )
        }
    }

    fn on_max_datagram(&mut self, most: usize) {
        self.max_datagram = self.max_datagram.min(most);
    }

    fn on_accepted(&mut self, now: Instant) {
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.wake(now);
            self.run_loop(now);
        }
    }

    fn on_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        match text::parse(datagram.bytes) {
            Some(Text::Data { number, payload }) => self.handle_data(number, payload, datagram),
            Some(Text::Ack { number }) => self.handle_ack(now, number),
            None => self.common.tally.on_malformed(),
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.paper_loop.is_some() {
            self.run_loop(now);
        } else {
            self.repeat_due(now);
        }
    }

    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let ack = self.acks.pop_front().map(|number| text::emit_ack(number, buf));
        if ack.is_none() && self.is_at_work() {
            return None;
        }
        ack.or_else(|| self.write_repeat(now, buf)).or_else(|| self.write_first(now, buf))
    }

    fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.acks.is_empty()
    }

    fn abandon(&mut self) {
        for number in numbers(self.flight.first(), self.flight.next()) {
            if let Some(entry) = self.flight.take(number) {
                self.common.queue.finish(entry.message, Outcome::Aborted);
            }
        }
        self.acks.clear();
        self.repeats.clear();
    }

    fn next_timeout(&self) -> Option<Instant> {
        match &self.paper_loop {
            Some(paper_loop) => sooner(paper_loop.busy_until(), paper_loop.poll_timeout()),
            None => self.next_due,
        }
    }

    /// After a stall of the peer, every message has been retransmitted to it.
    fn arrivals(&self, messages: usize) -> usize {
        let sendings = 1 + self.settings.repetitions as usize;
        messages.saturating_mul(sendings).min(MAX_FRAMES)
    }

    fn reserve(&mut self, messages: usize, _typical: usize) {
        let arrivals = self.arrivals(messages);
        self.flight.reserve(messages);
        self.repeats.reserve_exact(messages.min(MAX_FRAMES).saturating_sub(self.repeats.len()));
        self.acks.reserve_exact(arrivals.saturating_sub(self.acks.len()));
        if let Some(paper_loop) = &mut self.paper_loop {
            paper_loop.reserve(arrivals);
        }
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
