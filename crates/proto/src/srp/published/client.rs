//! The client as published: delivers in order, estimates when messages are due, decides about each missing one.

use std::time::Duration;

use antiphon_core::{Instant, Seq32};

use super::early::{Early, EarlyInfo};
use super::{Counts, clock_ms};
use crate::srp::decide::{Choice, Decide, Situation};
use crate::srp::estimate::{KEEP, LONGEST_ROUND_TRIP, QualityAverages, Smoothed};
use crate::srp::halves::{AnyPacket, ReceivingHalf};
use crate::srp::recent::Recent;
use crate::srp::wire::{Packet, STATUS_RESEND};
use crate::srp::{Deliver, Delivery};

/// Settings of a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClientConfig {
    /// Loss that the application tolerates, above 0 and below 1.
    pub desired_loss: f64,
    /// Latency that it tolerates, above 0.
    pub desired_latency: Duration,
    /// Weight that the old loss average keeps at each message.
    pub keep_loss: f64,
    /// Weight that the old latency average keeps at each message.
    pub keep_latency: f64,
    /// Messages that may wait for an earlier one, rounded up to a power of two. *Reading*: the report gives no number.
    pub buffer: usize,
    /// Whether to send a probe at once, before any message arrives.
    pub probe_at_start: bool,
    /// Sets the first bit of every time sent. Two sides that are both client and server need different values, to tell
    /// their own probes from the other's; a plain client may leave it off.
    pub time_mark: bool,
}

impl ClientConfig {
    /// The defaults for a desired loss and latency.
    pub fn new(desired_loss: f64, desired_latency: Duration) -> Self {
        ClientConfig {
            desired_loss,
            desired_latency,
            keep_loss: KEEP,
            keep_latency: KEEP,
            buffer: 256,
            probe_at_start: true,
            time_mark: false,
        }
    }
}

/// A client of one server.
///
/// *Readings*, where the report is silent or ambiguous:
/// * ids are compared as serial numbers (RFC 1982), so that the step from the greatest number to 0 is a step forward;
/// * the interval starts from the first one measured, its deviation from an eighth of that, the round trip's from half;
/// * until an interval is known the client waits without limit, or, if a later message is there already, for a second: the stream
///   may be over; until a round trip is known, four intervals stand for it;
/// * no wait is shorter than [`MIN_WAIT`], or every hiccup on a quiet link would become a NACK;
/// * a message that is too early while an answer is awaited is kept without a decision;
/// * the latency of a message is half a round trip and the time by which it came later than expected;
/// * a round trip is measured only from times that this client sent itself not long ago: a forged answer is delivered
///   like any other, but changes no estimate, nor does one that came while the machine slept.
///
/// Kept with its defects: after a gap longer than the buffer, or when the server restarts, every message is too early
/// or too late and nothing is delivered.
pub struct Client {
    config: ClientConfig,
    decide: Box<dyn Decide>,
    expected: Seq32,
    waiting: Waiting,
    early: Early,
    interval: Option<Smoothed>,
    round_trip: Option<Smoothed>,
    /// Last normal reception time, the report's LNRT.
    last_normal: Option<Instant>,
    /// Messages since then that did not renew it, the report's last_LNRT.
    since_normal: u32,
    previous_normal: Option<(Seq32, Instant)>,
    /// When the expected message was first due.
    due: Option<Instant>,
    asked: u32,
    quality: QualityAverages,
    nack: bool,
    /// The times of the last probes and requests.
    sent_times: Recent<u32>,
    probe_due: bool,
    /// When to send the next probe, unless a round trip is measured before; `None` before the first message or probe.
    probe_at: Option<Instant>,
    counts: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// For a normal message, without limit while no interval is known.
    Normal(Option<Instant>),
    /// For the answer to a request.
    Answer(Instant),
}

impl Client {
    /// A client at `now`; the first id it expects is 1.
    pub fn new(config: ClientConfig, decide: Box<dyn Decide>, now: Instant) -> Self {
        Client::expecting(1, config, decide, now)
    }

    /// A client whose first id is `id`.
    pub fn expecting(id: u32, config: ClientConfig, decide: Box<dyn Decide>, now: Instant) -> Self {
        Client {
            decide,
            expected: Seq32(id),
            waiting: Waiting::Normal(None),
            early: Early::new(config.buffer),
            interval: None,
            round_trip: None,
            last_normal: None,
            since_normal: 0,
            previous_normal: None,
            due: None,
            asked: 0,
            quality: QualityAverages::new(config.keep_loss, config.keep_latency),
            nack: false,
            sent_times: Recent::default(),
            probe_due: config.probe_at_start,
            probe_at: config.probe_at_start.then_some(now + PROBE_AFTER),
            counts: Counts::default(),
            config,
        }
    }

    /// Processes a server's packet that arrived at `received_at`; delivers what is now in order.
    pub fn handle(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &Packet<'_>,
        deliver: &mut Deliver<'_>,
    ) {
        match *packet {
            Packet::Data { id, data, .. } => {
                self.on_message(now, id, data, EarlyInfo { received_at, answer: false }, deliver);
            }
            Packet::Answer { id, data, time } => {
                self.on_time(received_at, time);
                self.on_message(now, id, data, EarlyInfo { received_at, answer: true }, deliver);
            }
            Packet::Probe { time } => self.on_time(received_at, time),
            Packet::Nack { .. } => {}
        }
    }

    fn on_message(&mut self, now: Instant, id: u32, data: &[u8], info: EarlyInfo, deliver: &mut Deliver<'_>) {
        // The first message starts the probes, unless they started at once.
        if self.probe_at.is_none() {
            self.probe_due = true;
            self.probe_at = Some(now + PROBE_AFTER);
        }
        let ahead = Seq32(id).distance(self.expected);
        if ahead < 0 {
            self.counts.too_late += 1;
        } else if ahead == 0 {
            self.finish_with(now, data, info, deliver);
            self.advance(now, deliver);
        } else if ahead as usize >= self.early.places() {
            self.counts.beyond_buffer += 1;
        } else {
            self.counts.duplicates += u64::from(!self.early.store(id, data, info));
            if let Waiting::Normal(_) = self.waiting {
                self.consult(now, deliver);
            }
        }
    }

    /// The expected message has arrived: updates the clocks, delivers it, continues with the next.
    fn finish_with(&mut self, now: Instant, data: &[u8], info: EarlyInfo, deliver: &mut Deliver<'_>) {
        let at = info.received_at;
        if info.answer {
            self.since_normal += 1;
        } else {
            if let Some((id, before)) = self.previous_normal
                && id.next() == self.expected
            {
                let sample = at.since(before);
                match &mut self.interval {
                    Some(interval) => interval.fold(sample),
                    None => self.interval = Some(Smoothed::new(sample, 1.0 / 8.0)),
                }
            }
            self.previous_normal = Some((self.expected, at));
            self.last_normal = Some(at);
            self.since_normal = 0;
        }
        let late = self.due.map_or(Duration::ZERO, |due| at.since(due));
        self.quality.on_delivered(self.round_trip() / 2 + late);
        self.counts.delivered += 1;
        let repaired = info.answer;
        deliver(Delivery::Message { id: self.expected.0, bytes: data, received_at: at, repaired, stream: 0 });
        self.expect_next(now);
    }

    fn give_up(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        self.since_normal = self.since_normal.saturating_add(1);
        self.quality.on_lost();
        self.counts.given_up += 1;
        deliver(Delivery::Lost { id: self.expected.0 });
        self.expect_next(now);
        self.advance(now, deliver);
    }

    fn expect_next(&mut self, now: Instant) {
        self.expected = self.expected.next();
        self.asked = 0;
        self.nack = false;
        self.due = self.eta();
        let until = self
            .interval
            .zip(self.due)
            .map(|(interval, due)| (due + interval.deviation() * 4).max(now + MIN_WAIT));
        self.waiting = Waiting::Normal(until);
    }

    /// Delivers the next messages from the buffer. Bounded by the buffer's places.
    fn advance(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        // Moved out for the loop, as its borrows must outlive changes to other fields.
        let mut early = std::mem::replace(&mut self.early, Early::empty());
        while let Some((info, data)) = early.take(self.expected.0) {
            self.finish_with(now, data, info, deliver);
        }
        self.early = early;
        if self.waiting == Waiting::Normal(None) && self.early.holds_any() {
            self.waiting = Waiting::Normal(Some(now + BLIND_WAIT));
        }
    }

    /// When the expected message is due: ETA = LNRT + (last_LNRT + 1) Sexp.
    fn eta(&self) -> Option<Instant> {
        let step = self.interval?.mean();
        Some(self.last_normal? + step * (self.since_normal.saturating_add(1)))
    }

    fn round_trip(&self) -> Duration {
        let stand_in = || self.interval.map_or(Duration::ZERO, |interval| interval.mean() * 4);
        self.round_trip.map_or_else(stand_in, |smoothed| smoothed.mean())
    }

    fn round_trip_deviation(&self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |smoothed| smoothed.deviation())
    }

    /// Asks the decision algorithm about the expected message and follows its decision.
    fn consult(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        let (loss, latency) = (self.quality.loss, self.quality.latency);
        let overdue = self.due.map_or(Duration::ZERO, |due| now.since(due));
        let deadline =
            self.due.map(|due| due + self.config.desired_latency.saturating_sub(self.round_trip() / 2));
        let situation = Situation {
            current_loss: loss,
            current_latency: latency,
            desired_loss: self.config.desired_loss,
            desired_latency: self.config.desired_latency,
            keep_loss: self.quality.keep_loss,
            keep_latency: self.quality.keep_latency,
            round_trip: self.round_trip(),
            round_trip_deviation: self.round_trip_deviation(),
            overdue,
            time_left: deadline.map(|deadline| deadline.since(now)),
            asked: self.asked,
            priority: 0,
        };
        match self.decide.decide(&situation) {
            Choice::GiveUp => self.give_up(now, deliver),
            Choice::Retransmit => {
                let wait = self.round_trip() + self.round_trip_deviation() * 4;
                let wait = if wait.is_zero() { BLIND_WAIT } else { wait.max(MIN_WAIT) };
                self.waiting = Waiting::Answer(now + wait);
                self.nack = true;
                self.asked = self.asked.saturating_add(1);
            }
        }
    }

    /// A time that this side sent has come back.
    fn on_time(&mut self, received_at: Instant, time: u32) {
        if !self.sent_times.iter().any(|sent| *sent == time) {
            return;
        }
        let millis = clock_ms(received_at).wrapping_sub(time) & !MARK;
        let sample = Duration::from_millis(millis.into());
        if sample > LONGEST_ROUND_TRIP {
            return;
        }
        match &mut self.round_trip {
            Some(smoothed) => smoothed.fold(sample),
            None => self.round_trip = Some(Smoothed::new(sample, 0.5)),
        }
        self.probe_at = Some(received_at + PROBE_AFTER);
    }

    /// The averages that decisions are based on.
    pub fn quality(&self) -> QualityAverages {
        self.quality
    }

    /// The id expected next.
    pub fn expected(&self) -> u32 {
        self.expected.0
    }

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl ReceivingHalf for Client {
    fn handle_packet(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &AnyPacket<'_>,
        deliver: &mut Deliver<'_>,
    ) {
        if let AnyPacket::AsPublished(packet) = packet {
            self.handle(now, received_at, packet, deliver);
        }
    }

    fn handle_timeout(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_due = true;
            self.probe_at = Some(now + PROBE_AFTER);
        }
        let due = match self.waiting {
            Waiting::Normal(until) => until.is_some_and(|until| until <= now),
            Waiting::Answer(until) => until <= now,
        };
        if due {
            self.counts.timeouts += 1;
            self.consult(now, deliver);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let time = clock_ms(now) & !MARK | if self.config.time_mark { MARK } else { 0 };
        if self.nack {
            self.nack = false;
            self.counts.nacks += 1;
            self.sent_times.push(time);
            return Packet::Nack { time, status: STATUS_RESEND, id: self.expected.0 }.emit(buf);
        }
        if self.probe_due {
            self.probe_due = false;
            self.sent_times.push(time);
            return Packet::Probe { time }.emit(buf);
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wait = match self.waiting {
            Waiting::Normal(until) => until,
            Waiting::Answer(until) => Some(until),
        };
        wait.into_iter().chain(self.probe_at).min()
    }

    fn reserve(&mut self, _messages: usize, typical: usize) {
        self.early.reserve(typical);
    }

    fn duplicates(&self) -> u64 {
        self.counts.duplicates
    }

    fn measured_round_trip(&self) -> Option<Smoothed> {
        self.round_trip
    }
}

/// The shortest wait. Own value: a busy machine takes 1 to 2 ms to schedule a process.
pub const MIN_WAIT: Duration = Duration::from_millis(2);
/// A probe is sent after this time without a measured round trip (report, section 3.2).
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// The wait for an answer while neither a round trip nor an interval is known, and for a message behind which others wait: TCP's before its first sample (RFC 6298
/// §2.1).
const BLIND_WAIT: Duration = Duration::from_secs(1);
/// The bit of a time that `time_mark` sets.
pub(in crate::srp) const MARK: u32 = 1 << 31;

#[cfg(test)]
mod tests;
