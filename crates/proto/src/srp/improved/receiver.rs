//! The receiver: delivers at once, tracks missing packets, decides about each, and requests many in one packet.

mod suspicion;

use std::time::Duration;

use antiphon_core::Instant;

use super::assembly::{Assemblies, MAX_UNDER_WAY};
use super::chances;
use super::config::{ReceiverConfig, ReceiverCounts};
use super::missing::{Awaiting, Fate, MAX_FULL_GAP, MAX_MISSING, Missing, Window};
use super::numbering::{Numbering, Place};
use super::requests::{MIN_WAIT, Requests};
use super::schedule::{Schedule, Stamp};
use super::sender::MAX_KEPT;
use crate::srp::decide::{Choice, Decide, Situation};
use crate::srp::estimate::{QualityAverages, Smoothed};
use crate::srp::halves::{AnyPacket, ReceivingHalf};
use crate::srp::wire::extended::{Extended, Part, Report, Wanted};
use crate::srp::{Deliver, Delivery, Streams};
use suspicion::MAX_ASKED_UNPROVEN;
pub use suspicion::TIMER_FROM;

/// A receiver of one sender.
/// A packet is missing when a later one has arrived: at once, or, where the path was seen to reorder, after the
/// reordering time measured. In streams with at least [`TIMER_FROM`] between messages it is missing as well when it is
/// overdue: waiting for the next message would take too long there. In faster ones it is where packets have been lost lately, as those of a burst could
/// be requested only after its end otherwise. A request is repeated at once when a later one is
/// answered first.
///
/// Without incoming data nothing is sent and no time-out is requested: an idle receiver costs nothing.
pub struct Receiver {
    config: ReceiverConfig,
    decide: Box<dyn Decide>,
    numbering: Numbering,
    window: Window,
    missing: Vec<Missing>,
    schedule: Schedule,
    assemblies: Assemblies,
    requests: Requests,
    quality: QualityAverages,
    /// How long a gap may close by itself, since the path reorders.
    reordering: Duration,
    counts: ReceiverCounts,
    /// When a packet was last found to be lost.
    last_loss: Option<Instant>,
}

impl Receiver {
    /// A receiver without a stream; it joins a stream at the first packet that arrives.
    pub fn new(config: ReceiverConfig, decide: Box<dyn Decide>) -> Self {
        let mut requests = if config.full { Requests::full() } else { Requests::default() };
        if config.streams != Streams::ALL {
            requests.tell();
        }
        Receiver {
            decide,
            numbering: if config.full { Numbering::full() } else { Numbering::default() },
            window: Window::new(),
            missing: Vec::with_capacity(64),
            schedule: Schedule::default(),
            // A message has two packets at least.
            assemblies: Assemblies::new(if config.full { MAX_KEPT / 2 } else { MAX_UNDER_WAY }),
            requests,
            quality: QualityAverages::from_means(config.keep_loss, config.keep_latency),
            reordering: Duration::ZERO,
            counts: ReceiverCounts::default(),
            last_loss: None,
            config,
        }
    }

    /// Processes a sender's packet that arrived at `received_at`; delivers complete messages.
    pub fn handle(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &Extended<'_>,
        deliver: &mut Deliver<'_>,
    ) {
        match packet {
            Extended::Data(part) => self.on_part(now, received_at, part, false, deliver),
            Extended::Answer(part) => self.on_part(now, received_at, part, true, deliver),
            Extended::Echo { epoch, time } => {
                if self.numbering.stream.is_none_or(|stream| stream.epoch == *epoch) {
                    self.requests.on_echo(now, received_at, *time);
                }
            }
            Extended::Nack(_) | Extended::Probe { .. } => {}
        }
    }

    fn on_part(
        &mut self,
        now: Instant,
        received_at: Instant,
        part: &Part<'_>,
        answer: bool,
        deliver: &mut Deliver<'_>,
    ) {
        let id = match self.numbering.place(part, answer, received_at) {
            Place::Known(id) => id,
            Place::Unknown => {
                self.counts.unknown += 1;
                return;
            }
            Place::Restarted { id, skipped } => {
                self.restart(skipped, deliver);
                id
            }
        };
        self.forget_confirmed(id, part.age);
        let asked_at = answer.then(|| self.requests.on_answer(received_at, part.time)).flatten();
        let lateness = match answer {
            false => self.on_first_sending(now, received_at, id, part, deliver),
            true => Duration::ZERO,
        };
        match self.window.fate(id) {
            Fate::Received => self.counts.duplicates += 1,
            before => {
                self.numbering.on_new(received_at);
                let late = self.settle(now, received_at, id, before, answer).max(lateness);
                self.counts.repaired += u64::from(answer);
                self.quality.on_delivered(self.one_way() + late);
                self.deliver(id, part, answer, received_at, deliver);
            }
        }
        if let Some(asked_at) = asked_at {
            self.overtaken(now, asked_at, id, deliver);
        }
        self.requests.on_data(now, self.schedule.queueing());
    }

    /// Where nothing is given up, a sender has forgotten only what was confirmed: by a receiver before us, if we miss it.
    fn forget_confirmed(&mut self, id: u64, age: u8) {
        if self.config.full && age < u8::MAX {
            self.missing.retain(|missing| missing.id >= id - u64::from(age));
        }
    }

    /// Discards the old stream's state. Everything between it and the new stream counts as lost.
    fn restart(&mut self, skipped: u64, deliver: &mut Deliver<'_>) {
        self.counts.resets += 1;
        self.counts.unknown += 1;
        self.counts.lost += skipped;
        for missing in self.missing.drain(..).filter(|missing| !missing.suspected) {
            self.counts.given_up += 1;
            deliver(Delivery::Lost { id: missing.id as u32 });
        }
        self.window.clear();
        self.assemblies.clear();
        self.schedule = Schedule::default();
        self.reordering = Duration::ZERO;
    }

    /// Updates the clocks, and finds packets missing before this one. Returns how much later than usual it arrived.
    fn on_first_sending(
        &mut self,
        now: Instant,
        received_at: Instant,
        id: u64,
        part: &Part<'_>,
        deliver: &mut Deliver<'_>,
    ) -> Duration {
        let Some(mut stream) = self.numbering.stream else { return Duration::ZERO };
        let sent_nanos = self.schedule.extend(part.time);
        let message_end = id - u64::from(part.index) + u64::from(part.count);
        let stamp = Stamp { id, message_end, sent_nanos, received_at };
        if id >= stream.horizon {
            // The place held the fate of an old packet.
            self.window.set(id, Fate::Unknown);
        }
        self.counts.received += u64::from(self.window.fate(id) != Fate::Received);
        let newest = self.schedule.last().is_none_or(|last| id > last.id);
        if newest {
            self.confirm_suspects(now, id);
            for missing in stream.horizon..id {
                let due = self.schedule.due_between(&stamp, missing);
                let priority = if missing + 1 == id { part.previous_priority } else { 0 };
                self.miss(now, missing, due, priority, false);
            }
            stream.horizon = stream.horizon.max(id + 1);
            stream.message_end = stream.message_end.max(message_end);
            stream.suspected = (stream.horizon - (id + 1)) as u32;
            self.numbering.stream = Some(stream);
        }
        let lateness = self.schedule.lateness(&stamp);
        self.schedule.on_packet(stamp, part.index == 0);
        self.decide_due(now, deliver);
        lateness
    }

    /// Records a packet as missing. The caller moves the horizon.
    fn miss(&mut self, now: Instant, id: u64, due: Instant, priority: u8, suspected: bool) {
        self.counts.lost += u64::from(!suspected);
        self.last_loss = if suspected { self.last_loss } else { Some(now) };
        let most = if self.config.full { MAX_FULL_GAP as usize } else { MAX_MISSING };
        if self.missing.len() >= most {
            self.window.set(id, Fate::GivenUp);
            self.counts.given_up += 1;
            return;
        }
        self.window.set(id, Fate::Missing);
        let state = if suspected { Awaiting::Decision(now) } else { self.after_reordering(now, due) };
        self.missing.push(Missing { id, due, found_at: now, asked: 0, priority, state, suspected });
    }

    /// An overtaken packet may still arrive: waits for the path's reordering time, if the deadline allows it.
    fn after_reordering(&self, now: Instant, due: Instant) -> Awaiting {
        let last = self.requests.last_request(due + self.config.desired_latency);
        Awaiting::Decision((now + self.reordering).min(last).max(now))
    }

    /// Records that a packet has arrived; returns how late.
    fn settle(
        &mut self,
        now: Instant,
        received_at: Instant,
        id: u64,
        before: Fate,
        answer: bool,
    ) -> Duration {
        self.window.set(id, Fate::Received);
        if before == Fate::GivenUp {
            self.counts.late += 1;
        }
        let at = self.missing.iter().position(|missing| missing.id == id);
        let Some(missing) = at.map(|at| self.missing.remove(at)) else { return Duration::ZERO };
        if !answer && !missing.suspected {
            // It was reordered, not lost: the path reorders by this much.
            self.counts.lost = self.counts.lost.saturating_sub(1);
            let limit = self.requests.round_trip().div_f64(2.0).clamp(MIN_WAIT, MAX_REORDERING);
            self.reordering = self.reordering.max(now.since(missing.found_at).mul_f64(1.25)).min(limit);
        } else if answer {
            self.reordering = self.reordering.mul_f64(0.9);
        }
        received_at.since(missing.due)
    }

    fn deliver(
        &mut self,
        id: u64,
        part: &Part<'_>,
        answer: bool,
        received_at: Instant,
        deliver: &mut Deliver<'_>,
    ) {
        let first = id - u64::from(part.index);
        if part.count == 1 {
            let (id, bytes, stream) = (part.id, part.data, part.stream);
            deliver(Delivery::Message { id, bytes, received_at, repaired: answer, stream });
        } else if let Some((bytes, repaired)) =
            self.assemblies.take(first, part.index.into(), part.count.into(), part.data, answer)
        {
            let (id, stream) = (first as u32, part.stream);
            deliver(Delivery::Message { id, bytes, received_at, repaired, stream });
        }
    }

    /// Answers arrive in the order of their requests: packets requested before this one are lost again.
    fn overtaken(&mut self, now: Instant, asked_at: Instant, id: u64, deliver: &mut Deliver<'_>) {
        for at in 0..self.missing.len() {
            let missing = self.missing[at];
            if let Awaiting::Answer { sent, .. } = missing.state
                && (sent, missing.id) < (asked_at, id)
            {
                self.missing[at].state = self.after_reordering(now, missing.due);
            }
        }
        self.decide_due(now, deliver);
    }

    /// Decides about every missing packet that is due.
    fn decide_due(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        let mut at = 0;
        while at < self.missing.len() {
            let missing = self.missing[at];
            let due = match missing.state {
                Awaiting::Decision(when) => when <= now,
                Awaiting::Answer { until, .. } => until <= now,
                Awaiting::Request | Awaiting::Proof => false,
            };
            if !due {
                at += 1;
            } else if self.choose(now, &missing) == Choice::Retransmit {
                self.missing[at].state = Awaiting::Request;
                at += 1;
            } else if let Some(until) = self.still_under_way(now, &missing) {
                self.missing[at].state = until;
                at += 1;
            } else if missing.suspected {
                // A packet never sent is not lost: the stream may have paused.
                self.missing[at].state = Awaiting::Proof;
                at += 1;
            } else {
                self.missing.remove(at);
                self.window.set(missing.id, Fate::GivenUp);
                self.counts.given_up += 1;
                self.quality.on_lost();
                deliver(Delivery::Lost { id: missing.id as u32 });
            }
        }
    }

    /// The state of a packet that is not requested again, while an answer may still be in flight.
    fn still_under_way(&self, now: Instant, missing: &Missing) -> Option<Awaiting> {
        let Awaiting::Answer { sent, .. } = missing.state else { return None };
        let until = self.requests.overdue_at(sent);
        (until > now).then_some(Awaiting::Answer { sent, until })
    }

    fn choose(&mut self, now: Instant, missing: &Missing) -> Choice {
        if self.config.full {
            return Choice::Retransmit;
        }
        let chances = match missing.suspected && self.hurries() {
            true => chances(missing.priority).min(MAX_ASKED_UNPROVEN),
            false => chances(missing.priority),
        };
        if missing.asked >= chances {
            return Choice::GiveUp;
        }
        let deadline = missing.due + self.config.desired_latency;
        self.decide.decide(&Situation {
            current_loss: self.quality.loss,
            current_latency: self.quality.latency,
            desired_loss: self.config.desired_loss,
            desired_latency: self.config.desired_latency,
            keep_loss: self.quality.next_keeps_of_loss(),
            keep_latency: self.quality.next_keeps_of_latency(),
            round_trip: self.requests.round_trip(),
            round_trip_deviation: self
                .requests
                .measured()
                .map_or(Duration::ZERO, |smoothed| smoothed.measured_deviation()),
            overdue: now.since(missing.due),
            time_left: Some(deadline.since(now)),
            asked: missing.asked,
            priority: missing.priority,
        })
    }

    /// Statistics of the sender's packets.
    pub fn report(&self) -> Report {
        Report {
            highest: self.schedule.last().map_or(0, |last| last.id as u32),
            settled: self.settled() as u32,
            received: self.counts.received as u32,
            lost: self.counts.lost as u32,
            queueing_us: u32::try_from(self.schedule.queueing().as_micros()).unwrap_or(u32::MAX),
        }
    }

    /// Every id before this one has arrived or is given up.
    fn settled(&self) -> u64 {
        let horizon = self.numbering.stream.map_or(0, |stream| stream.horizon);
        self.missing.iter().map(|missing| missing.id).min().unwrap_or(horizon).min(horizon)
    }

    /// Assumes that both directions of the path take equally long (report, section 3).
    fn one_way(&self) -> Duration {
        self.requests.round_trip() / 2
    }

    /// The averages that decisions are based on.
    pub fn quality(&self) -> QualityAverages {
        self.quality
    }

    /// Totals so far.
    pub fn counts(&self) -> ReceiverCounts {
        ReceiverCounts {
            nacks: self.requests.nacks,
            asked: self.requests.asked,
            incomplete: self.assemblies.dropped,
            ..self.counts
        }
    }
}

impl ReceivingHalf for Receiver {
    fn handle_packet(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &AnyPacket<'_>,
        deliver: &mut Deliver<'_>,
    ) {
        if let AnyPacket::Improved(packet) = packet {
            self.handle(now, received_at, packet, deliver);
        }
    }

    fn handle_timeout(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        // Ends after a few: the number suspected in a row is bounded.
        while self.next_suspicion().is_some_and(|at| at <= now) {
            self.suspect(now);
        }
        self.decide_due(now, deliver);
        self.requests.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let streams = self.config.streams;
        let Some(stream) = self.numbering.stream else {
            let wanted = Wanted { streams, blind: true };
            return self.requests.write_probe(now, 0, Report::default(), wanted, buf);
        };
        let latency = self.config.desired_latency;
        if let Some(len) =
            self.requests.write_nack(now, stream.epoch, (latency, self.hurries()), &mut self.missing, buf)
        {
            return Some(len);
        }
        let report = self.report();
        self.requests.write_probe(now, stream.epoch, report, Wanted { streams, blind: false }, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.missing.iter().filter_map(|missing| match missing.state {
            Awaiting::Decision(when) => Some(when),
            Awaiting::Answer { until, .. } => Some(until),
            Awaiting::Request | Awaiting::Proof => None,
        });
        waits.chain(self.next_suspicion()).chain(self.requests.poll_timeout()).min()
    }

    fn reserve(&mut self, messages: usize, _typical: usize) {
        let most = if self.config.full { MAX_KEPT } else { MAX_MISSING };
        self.missing.reserve_exact(messages.min(most).saturating_sub(self.missing.len()));
    }

    fn want(&mut self, streams: Streams) {
        self.config.streams = streams;
        self.requests.tell();
    }

    fn duplicates(&self) -> u64 {
        self.counts.duplicates
    }

    fn measured_round_trip(&self) -> Option<Smoothed> {
        self.requests.measured()
    }

    fn least_round_trip(&self) -> Option<Duration> {
        self.requests.least_round_trip()
    }
}

/// Longest wait for reordered packets: a path that reorders by more causes needless requests.
const MAX_REORDERING: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
