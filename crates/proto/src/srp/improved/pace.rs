//! Limits the sender's rate according to the receiver's reports.

use std::time::Duration;

use antiphon_core::Instant;

/// A limit on new data and repairs, if the path cannot carry what is offered.
///
/// There is none until the receiver's reports show overload: a queue that has grown by [`QUEUED`] with a quarter of the
/// packets lost, or one that is longer than the playout delay. Then the limit is four fifths of what arrived, so that
/// the queue drains, and grows by a twentieth with each report of a short queue, until it has no effect. Three bounds
/// keep a sender from being silenced by forged reports or by other traffic:
///
/// * the limit is never below a sixteenth of what is offered;
/// * a queue that stays for [`TRIAL`] although the sender slows down is caused by others: slowing down would only help
///   them, and the limit is lifted for [`REST`];
/// * a judgement needs [`ENOUGH`] packets.
///
/// If a receiver that has reported before is silent for [`SILENCE`] while data is sent, it has gone, or its reports are
/// lost on an overloaded path: the rate is halved each second, down to the same sixteenth, until it is heard again.
#[derive(Debug)]
pub(super) struct Pace {
    /// Queueing delay that is tolerated.
    latency: Duration,
    offered: Meter,
    packet_bytes: f64,
    /// Bytes a second.
    limit: Option<f64>,
    /// Bytes that may be sent now; negative after a long message.
    tokens: f64,
    refilled: Instant,
    window: Option<Window>,
    trial: Option<Trial>,
    rests_until: Instant,
    /// The first packet sent since the receiver was last heard, if it ever was.
    unanswered: Option<Instant>,
    heard: bool,
    halved_at: Option<Instant>,
}

/// Decision on a message to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Send it.
    Send,
    /// Do not send it: the receiver does not want its stream, or the path can't carry it in time.
    Drop,
    /// Wait until this instant. Only for messages without a deadline.
    Wait(Instant),
    /// Wait for the receiver's next report.
    Hold,
}

/// Packets since the last judgement.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    received: f64,
    lost: f64,
}

/// An overload to which the sender has reacted.
#[derive(Clone, Copy, Debug)]
struct Trial {
    began: Instant,
    queueing: Duration,
    loss: f64,
}

/// Bytes a second, smoothed over some tenths of a second.
#[derive(Debug, Default)]
struct Meter {
    since: Option<Instant>,
    bytes: f64,
    rate: f64,
}

impl Pace {
    /// `latency`: age from which messages can't be played any more.
    pub fn new(latency: Duration) -> Self {
        Pace {
            latency,
            offered: Meter::default(),
            packet_bytes: 0.0,
            limit: None,
            tokens: 0.0,
            refilled: Instant::ZERO,
            window: None,
            trial: None,
            rests_until: Instant::ZERO,
            unanswered: None,
            heard: false,
            halved_at: None,
        }
    }

    /// The limit in bytes a second, where there is one.
    pub fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// Decides whether a message of `bytes`, with all its packets, may be sent now.
    pub fn admit(&mut self, now: Instant, bytes: usize, urgent: bool, has_deadline: bool) -> Admission {
        self.halve_in_silence(now);
        self.refill(now);
        let Some(limit) = self.limit else {
            self.offered.add(now, bytes);
            return Admission::Send;
        };
        // Less urgent messages leave the last half to urgent ones.
        let needed = if urgent { 0.0 } else { self.most_tokens(limit) / 2.0 };
        if self.tokens > needed {
            self.offered.add(now, bytes);
            return Admission::Send;
        }
        if has_deadline {
            self.offered.add(now, bytes);
            return Admission::Drop;
        }
        let wait = Duration::from_secs_f64((needed - self.tokens) / limit);
        Admission::Wait(now + wait + Duration::from_micros(1))
    }

    /// Whether a retransmission may be sent now. None waits, as it will be requested again.
    pub fn admits_repair(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.limit.is_none() || self.tokens > 0.0
    }

    /// A packet was sent.
    pub fn on_sent(&mut self, now: Instant, bytes: usize) {
        let weight = if self.packet_bytes > 0.0 { 1.0 / 16.0 } else { 1.0 };
        self.packet_bytes += weight * (bytes as f64 - self.packet_bytes);
        self.tokens -= bytes as f64;
        if self.heard {
            self.unanswered.get_or_insert(now);
        }
    }

    /// A packet from the receiver arrived.
    pub fn on_heard(&mut self) {
        self.heard = true;
        self.unanswered = None;
        if self.halved_at.take().is_some() {
            self.limit = None;
        }
    }

    /// Processes a report: packets `received` and `lost` since the last one, and the current queueing delay.
    pub fn on_report(&mut self, now: Instant, received: u32, lost: u32, queueing: Duration) {
        self.on_heard();
        let Some(window) = &mut self.window else {
            self.window = Some(Window { since: now, received: 0.0, lost: 0.0 });
            return;
        };
        window.received += f64::from(received);
        window.lost += f64::from(lost);
        let Window { since, received, lost } = *window;
        let elapsed = now.since(since).as_secs_f64();
        if received + lost < ENOUGH || elapsed <= 0.0 {
            return;
        }
        self.window = Some(Window { since: now, received: 0.0, lost: 0.0 });
        let loss = lost / (received + lost);
        let full = queueing > QUEUED && (self.limit.is_some() || loss > HEAVY_LOSS);
        if full || queueing > self.latency.max(QUEUED) {
            self.yield_to(now, Trial { began: now, queueing, loss }, received * self.packet_bytes / elapsed);
        } else {
            self.recover();
        }
    }

    fn yield_to(&mut self, now: Instant, found: Trial, arrives: f64) {
        if now < self.rests_until {
            return;
        }
        let trial = *self.trial.get_or_insert(found);
        let is_of_use = found.queueing < trial.queueing.mul_f64(0.8) || found.loss < trial.loss / 2.0;
        if now.since(trial.began) >= TRIAL && !is_of_use {
            (self.limit, self.trial) = (None, None);
            self.rests_until = now + REST;
            return;
        }
        if self.limit.is_none() {
            (self.tokens, self.refilled) = (0.0, now);
        }
        self.limit = Some((YIELD * arrives).max(self.least()));
    }

    fn recover(&mut self) {
        self.trial = None;
        if let Some(limit) = self.limit {
            let more = limit * CREEP;
            self.limit = (more < ENDS_ABOVE * self.offered.rate).then_some(more);
        }
    }

    fn halve_in_silence(&mut self, now: Instant) {
        let silent = self.unanswered.is_some_and(|since| now.since(since) >= SILENCE);
        if !silent || self.halved_at.is_some_and(|at| now.since(at) < HALVE_EVERY) {
            return;
        }
        let from = if self.halved_at.is_none() { self.offered.rate } else { self.limit.unwrap_or(f64::MAX) };
        self.halved_at = Some(now);
        self.limit = Some((self.limit.unwrap_or(f64::MAX).min(from) / 2.0).max(self.least()));
    }

    fn least(&self) -> f64 {
        // Before any message was offered: at least a byte a second, to avoid divisions by zero.
        (self.offered.rate / 16.0).max(1.0)
    }

    fn refill(&mut self, now: Instant) {
        if let Some(limit) = self.limit {
            let more = limit * now.since(self.refilled).as_secs_f64();
            self.tokens = (self.tokens + more).min(self.most_tokens(limit));
        } else {
            self.tokens = 0.0;
        }
        self.refilled = now;
    }

    /// Bytes that may be sent at once: as many as a queue can hold without harm, at least two packets.
    fn most_tokens(&self, limit: f64) -> f64 {
        (limit * BURST.as_secs_f64()).max(2.0 * self.packet_bytes)
    }
}

impl Meter {
    fn add(&mut self, now: Instant, bytes: usize) {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.since(since);
        if elapsed >= METER_WINDOW {
            let rate = self.bytes / elapsed.as_secs_f64();
            self.rate = if self.rate > 0.0 { 0.75 * self.rate + 0.25 * rate } else { rate };
            (self.since, self.bytes) = (Some(now), 0.0);
        }
        self.bytes += bytes as f64;
    }
}

/// An increase of the delay that indicates a filled queue: more than the jitter of WLAN and less than the buffers of
/// home routers.
pub(super) const QUEUED: Duration = Duration::from_millis(50);
/// More than links lose without congestion (the report's worst: 15 %), even among few packets.
const HEAVY_LOSS: f64 = 0.25;
/// Packets that a judgement needs: of 50 packets at a loss of 15 %, more than a quarter are lost in 3 cases of 100.
const ENOUGH: f64 = 50.0;
/// Share of the arrival rate: a queue of 200 ms drains in a second.
const YIELD: f64 = 0.8;
const CREEP: f64 = 1.05;
/// A limit this far above the offered rate has no effect.
const ENDS_ABOVE: f64 = 1.25;
/// How long a queue may take to shrink by a fifth after the sender has reacted: longer than it takes to drain.
const TRIAL: Duration = Duration::from_millis(1_500);
const REST: Duration = Duration::from_secs(10);
/// Five missed reports: at a loss of 15 % each way that happens once in 10⁴.
const SILENCE: Duration = Duration::from_secs(5);
const HALVE_EVERY: Duration = Duration::from_secs(1);
const BURST: Duration = Duration::from_millis(50);
const METER_WINDOW: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
