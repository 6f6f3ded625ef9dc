//! CCID 3, the sending half: TFRC (RFC 5348 §4, RFC 4342).

use std::time::Duration;

use antiphon_core::{BitRate, Instant, PathStats};

use super::Sender;
use super::guess::Guess;
use super::loss::DUPLICATES;
use crate::cc::tfrc;
use crate::dccp::logs::{Fate, SentLog};
use crate::dccp::read::Seen;
use crate::dccp::rtt::Rtt;
use crate::dccp::seq::Seq48;
use crate::patience::LONGEST_PAUSE;

/// Sends at the rate that the equation allows for the receiver's reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct SenderThree {
    /// Allowed rate, bytes per second; none before anything was sent.
    rate: Option<f64>,
    /// R, smoothed as in RFC 5348 §4.3.
    rtt: Option<Duration>,
    /// Mean of the round trips' square roots, and the newest root: growing queues slow the sender a little, so that
    /// rates do not oscillate (RFC 5348 §4.5).
    roots: Option<(f64, f64)>,
    /// Mean size of data packets, bytes.
    size: f64,
    /// p, as last reported; `None` before the first feedback.
    loss: Option<f64>,
    first_interval: FirstInterval,
    received: ReceivedRates,
    /// When the rate was last doubled.
    doubled_at: Instant,
    nofeedback_at: Option<Instant>,
    /// Whether nothing was sent since that timer was set.
    idle: bool,
    /// Whether that timer has expired since the last report, and losses had not made the sender slower than
    /// [`LONGEST_PAUSE`] before. The pause after a packet is by its bytes; after one of sound
    /// among small reports it would be a multiple of the mean one.
    unanswered: bool,
    /// When the last packet should have gone at the rate, and its bytes.
    departed: (Instant, usize),
    limits: DataLimit,
    counter: u8,
    counted_at: Instant,
    guess: Guess,
}

/// X_recv_set: the recently reported rates, so that one bad report does not stop the flow (RFC 5348 §4.3).
#[derive(Clone, Copy, Debug, Default)]
struct ReceivedRates {
    entries: [(Instant, f64); 3],
}

/// State after the first loss, for as long as the peer's reports contain one event.
///
/// Until the second event the mean interval is the open one, once that is longer than the initial one for the time
/// before (RFC 5348 §5.4, §6.3.1). Linux omits it, and after a first loss that it takes for an interval of one packet
/// reports p = 1 until the next: a few packets a second. With reports that follow the RFC this changes nothing.
#[derive(Clone, Copy, Debug, Default)]
enum FirstInterval {
    #[default]
    Lossless,
    /// `inverse` is reported since then; up to `upto` there are so many data `packets` in the interval.
    Open {
        inverse: u32,
        upto: Seq48,
        packets: u32,
    },
    Past,
}

/// Whether reports cover a time in which the application, not the rate, was the limit (RFC 5348 §8.2.1).
#[derive(Clone, Copy, Debug, Default)]
struct DataLimit {
    first: Instant,
    second: Instant,
    old: Instant,
    new: Instant,
    next: Instant,
}

impl SenderThree {
    /// `rtt`: the handshake's round trip.
    pub fn new(now: Instant, rtt: Option<Duration>) -> Self {
        SenderThree {
            rtt,
            received: ReceivedRates { entries: [(now, f64::INFINITY), (now, 0.0), (now, 0.0)] },
            doubled_at: now,
            idle: true,
            departed: (now, 0),
            counted_at: now,
            ..SenderThree::default()
        }
    }
}

impl Sender for SenderThree {
    fn may_send(&mut self, now: Instant, len: usize) -> bool {
        if self.rate.is_none() {
            self.size = len as f64;
            // A round trip from the handshake counts as a first report (RFC 5348 §4.2); otherwise a packet a second.
            self.rate = Some(if self.rtt.is_some() { self.initial_rate() } else { self.size });
        }
        let may = self.departs_at() <= now;
        if !may {
            self.limits.on_limited(now);
        }
        may
    }

    /// The counter rises by one in a quarter of a round trip, by five at most (RFC 4342 §8.1).
    fn ccval(&mut self, now: Instant) -> u8 {
        let quarter = self.rtt.unwrap_or(NO_RTT).max(Duration::from_micros(4)) / 4;
        let passed = now.since(self.counted_at).as_nanos() / quarter.as_nanos().max(1);
        if passed > 0 {
            let steps = passed.min(5) as u8;
            self.counter = (self.counter + steps) & 0x0f;
            self.counted_at = if passed > 5 { now } else { self.counted_at + quarter * u32::from(steps) };
        }
        self.counter
    }

    fn on_sent(&mut self, now: Instant, len: usize, _rtt: &Rtt) {
        self.size = 0.9 * self.size + 0.1 * len as f64;
        // Unused time is kept for at most a round trip (RFC 5348 §4.6).
        let oldest = now - self.rtt.unwrap_or_default().min(MOST_CREDIT);
        self.departed = (self.due().max(oldest), len);
        self.idle = false;
        if self.nofeedback_at.is_none() {
            self.nofeedback_at = Some(now + self.patience());
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        ack: Seq48,
        seen: &Seen<'_>,
        log: &mut SentLog,
        rtt: &mut Rtt,
    ) -> bool {
        let Some(sent) = log.entry_mut(ack).copied() else { return false };
        // Packets that follow an acknowledgement are a round trip later (RFC 4342 §8.1).
        if self.counter.wrapping_sub(sent.ccval) & 0x0f < 4 {
            self.counter = (sent.ccval + 4) & 0x0f;
            self.counted_at = now;
        }
        // Before anything was sent there is nothing to report on.
        let Some(received) = seen.receive_rate.filter(|_| self.rate.is_some()) else { return false };
        let r = self.on_sample(now.since(sent.at).saturating_sub(seen.elapsed), rtt);
        let before = self.loss;
        let loss = match seen.loss_event_rate {
            Some(u32::MAX) => 0.0,
            Some(inverse) => {
                let open = self.first_interval.on_report(inverse, ack, log);
                1.0 / f64::from(inverse.max(open).max(1))
            }
            // Without the option there is no new information on losses.
            None => before.unwrap_or(0.0),
        };
        self.loss = Some(loss);
        let data_limited = self.limits.on_feedback(now, sent.at);
        let worse = loss > before.unwrap_or(0.0);
        self.guess.on_report(ack, worse, log);
        match before {
            // The first report's rate is meaningless: the receiver had measured over no time.
            None => {
                self.rate = Some(self.rate.unwrap_or(0.0).max(self.initial_rate()));
                self.doubled_at = now;
                if loss > 0.0 {
                    self.follow(now, f64::INFINITY);
                }
            }
            Some(_) => {
                // A report covers a round trip, and the packet that it names arrived in that (RFC 5348 §6.1, §6.2).
                // Linux measures since its previous report, however long nothing was sent.
                let named = if sent.data { self.size / r.as_secs_f64() } else { 0.0 };
                let received = f64::from(received).max(named);
                let limit = self.received.limit(now, received, r, data_limited, worse);
                let limit = if seen.slow { limit.min(self.rate.unwrap_or(limit)) } else { limit };
                self.follow(now, limit);
            }
        }
        self.nofeedback_at = Some(now + self.patience());
        (self.idle, self.unanswered) = (true, false);
        worse && before.is_some()
    }

    /// Returns whether the nofeedback timer expired and the rate was reduced (RFC 5348 §4.4).
    fn handle_timeout(&mut self, now: Instant, log: &mut SentLog) -> bool {
        if self.nofeedback_at.is_none_or(|at| now < at) {
            return false;
        }
        let (size, loss) = (self.size.max(1.0), self.loss.unwrap_or(0.0));
        let rate = self.rate.unwrap_or(size);
        let known = self.received.greatest();
        let modest = if loss > 0.0 { known < self.initial_rate() } else { rate < 2.0 * self.initial_rate() };
        if self.idle {
            // Idle, and slow already: nothing to halve, and no timer until something is sent.
            self.nofeedback_at = None;
            if modest {
                return false;
            }
        }
        let lower = if self.rtt.is_none() || loss == 0.0 {
            rate / 2.0
        } else {
            let equation = tfrc::throughput(size, self.rtt.unwrap_or(NO_RTT), loss);
            let limit = if equation > 2.0 * known { known } else { equation / 2.0 };
            self.received.reset(now, limit.max(size / SLOWEST) / 2.0);
            equation.min(limit)
        };
        // Departs from the RFC, which continues down to a packet in 64 s: the end of an outage would not be noticed.
        let least = size / (self.longest_pause().as_secs_f64() * self.swing());
        self.set_rate(lower.max(least.min(rate)));
        self.unanswered |= rate >= least;
        if !self.idle {
            self.nofeedback_at = Some(now + self.patience());
            log.settle(log.next, Fate::Lost);
        }
        self.idle = true;
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.nofeedback_at
    }

    fn next_departure(&self) -> Option<Instant> {
        self.rate.map(|_| self.departs_at())
    }

    fn figures(&self, _packet: usize, stats: PathStats) -> PathStats {
        PathStats { pacing_rate: self.rate.map(|rate| BitRate((rate * 8.0) as u64)), ..stats }
    }
}

impl SenderThree {
    /// Folds in a round trip, without the peer's delay; returns R (RFC 5348 §4.3, §4.5).
    fn on_sample(&mut self, sample: Duration, rtt: &mut Rtt) -> Duration {
        rtt.on_sample(sample);
        // At least the clock's granularity, which also bounds the shortest one.
        let sample = rtt.min().map_or(sample, |least| sample.max(least));
        let r = self.rtt.map_or(sample, |r| (r * 9 + sample) / 10).max(Duration::from_micros(20));
        self.rtt = Some(r);
        let root = sample.as_secs_f64().sqrt().max(1e-4);
        self.roots = Some((self.roots.map_or(root, |(mean, _)| 0.9 * mean + 0.1 * root), root));
        r
    }

    /// The rate after a report (RFC 5348 §4.3 step 4).
    fn follow(&mut self, now: Instant, limit: f64) {
        let (rtt, size) = (self.rtt.unwrap_or(NO_RTT), self.size.max(1.0));
        let rate = self.rate.unwrap_or(size);
        let loss = self.loss.unwrap_or(0.0);
        if loss > 0.0 {
            self.set_rate(tfrc::throughput(size, rtt, loss).min(limit));
        } else if now.since(self.doubled_at) >= rtt {
            self.set_rate((2.0 * rate).min(limit).max(self.initial_rate()));
            self.doubled_at = now;
        }
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = Some(rate.clamp(self.size.max(1.0) / SLOWEST, FASTEST));
    }

    /// When the next packet is due: after the last one, by its size at the present rate.
    fn due(&self) -> Instant {
        let (at, len) = self.departed;
        let pause = self.time_for(len as f64);
        at + if self.unanswered { pause.min(self.longest_pause()) } else { pause }
    }

    fn time_for(&self, bytes: f64) -> Duration {
        let rate = self.rate.unwrap_or(1.0) * self.swing();
        Duration::from_secs_f64((bytes / rate.max(1e-3)).min(SLOWEST))
    }

    /// Between packets that nothing answers.
    fn longest_pause(&self) -> Duration {
        LONGEST_PAUSE.max(self.rtt.unwrap_or_default())
    }

    /// By how much the newest round trip changes the rate (RFC 5348 §4.5).
    fn swing(&self) -> f64 {
        self.roots.map_or(1.0, |(mean, newest)| mean / newest)
    }

    /// Slightly early is right on average (RFC 5348 §4.6: t_delta).
    fn departs_at(&self) -> Instant {
        let interval = self.time_for(self.size);
        self.due() - interval.min(GRANULARITY).min(self.rtt.unwrap_or(GRANULARITY)) / 2
    }

    /// W_init / R (RFC 5348 §4.2, RFC 3390).
    fn initial_rate(&self) -> f64 {
        let size = self.size.max(1.0);
        (4.0 * size).min((2.0 * size).max(4380.0)) / self.rtt.unwrap_or(NO_RTT).as_secs_f64().max(1e-6)
    }

    /// max(4 R, 2 s/X), but no shorter than a peer may be busy; before the first report 2 s.
    fn patience(&self) -> Duration {
        match (self.loss, self.rtt) {
            (Some(_), Some(rtt)) => (4 * rtt).max(self.time_for(2.0 * self.size)).max(SHORTEST_SILENCE),
            _ => Duration::from_secs(2),
        }
    }
}

impl ReceivedRates {
    /// Processes a report and returns recv_limit.
    fn limit(&mut self, now: Instant, reported: f64, rtt: Duration, data_limited: bool, worse: bool) -> f64 {
        if !data_limited {
            // Reports of the last two round trips count.
            self.entries.rotate_right(1);
            self.entries[0] = (now, reported);
            self.entries[1..]
                .iter_mut()
                .filter(|e| now.since(e.0) > 2 * rtt || e.1.is_infinite())
                .for_each(|e| e.1 = 0.0);
            return 2.0 * self.greatest();
        }
        let (old, reported) =
            if worse { (self.greatest() / 2.0, reported * 0.85) } else { (self.greatest(), reported) };
        let old = if old.is_infinite() { 0.0 } else { old };
        self.reset(now, old.max(reported));
        if worse { self.greatest() } else { 2.0 * self.greatest() }
    }

    fn greatest(&self) -> f64 {
        self.entries.iter().map(|entry| entry.1).fold(0.0, f64::max)
    }

    fn reset(&mut self, now: Instant, rate: f64) {
        self.entries = [(now, rate), (now, 0.0), (now, 0.0)];
    }
}

impl FirstInterval {
    /// Processes a report of losses, 1/p; returns the length of the open interval, 0 when it is not the first any more.
    fn on_report(&mut self, inverse: u32, ack: Seq48, log: &mut SentLog) -> u32 {
        let (mut upto, mut packets) = match *self {
            // A lost packet has so many packets after it (RFC 5348 §5.1), up to the acknowledged one.
            FirstInterval::Lossless => (ack.plus(-1 - DUPLICATES as i64), 0),
            FirstInterval::Open { inverse: first, upto, packets } if first == inverse => (upto, packets),
            FirstInterval::Open { .. } | FirstInterval::Past => {
                *self = FirstInterval::Past;
                return 0;
            }
        };
        upto = upto.later(log.first.plus(-1));
        while upto.is_before(ack) {
            upto = upto.next();
            packets += u32::from(log.entry_mut(upto).is_some_and(|sent| sent.data));
        }
        *self = FirstInterval::Open { inverse, upto, packets };
        packets
    }
}

impl DataLimit {
    /// Something waits and the rate does not permit it: this instant is not data-limited.
    fn on_limited(&mut self, now: Instant) {
        if self.first <= self.new {
            self.first = now;
        } else if self.second <= self.next {
            self.second = now;
        }
    }

    /// A report on packets sent up to `sent_at`; returns whether the application was the limit in the time that it
    /// covers.
    fn on_feedback(&mut self, now: Instant, sent_at: Instant) -> bool {
        self.old = self.new;
        self.new = sent_at;
        self.next = now;
        let covers = |at: Instant| self.old < at && at <= self.new;
        let limited = !(covers(self.first) || covers(self.second));
        if self.first <= self.new && self.second > self.new {
            self.first = self.second;
        }
        limited
    }
}

/// Used in place of a round trip that was not measured (RFC 4340 §3.4).
const NO_RTT: Duration = Duration::from_millis(200);
/// t_mbi, seconds: the longest time between packets (RFC 5348 §4.3).
const SLOWEST: f64 = 64.0;
/// Bytes per second: 100 Gbit/s, so that no report gives a value that is not a number.
const FASTEST: f64 = 1.25e10;
/// t_gran: the resolution of a driver's timer.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Credit for a round trip may be a burst of many packets; the time of one message is enough for sound.
const MOST_CREDIT: Duration = Duration::from_millis(20);
/// On loopback 4 R would be a few microseconds, and a peer's thread may sleep longer.
const SHORTEST_SILENCE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests;
