//! When packets are due, from the sender's own clock: send times are free of the network's jitter.

use std::time::Duration;

use antiphon_core::{Instant, Unwrapper};

use super::super::estimate::{ALPHA, Smoothed};

/// The smoothed transit time (arrival less send time, up to the clocks' offset), its deviation, and the interval
/// between messages.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    clock: Unwrapper<32>,
    transit: Option<Transit>,
    interval: Option<Smoothed>,
    last: Option<Stamp>,
}

/// A packet that came at its first sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// The packet's id, extended.
    pub id: u64,
    /// The id behind its message's last part.
    pub message_end: u64,
    /// On the sender's clock.
    pub sent_nanos: i64,
    pub received_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Transit {
    /// Nanoseconds.
    mean: f64,
    deviation: f64,
    /// The shortest of this period, and of the one before: what an empty queue takes, without holding on for ever to a
    /// value from before the clocks drifted.
    least: f64,
    least_before: f64,
    period_ends: Instant,
}

impl Schedule {
    /// The sender's clock in nanoseconds, extended.
    pub fn extend(&mut self, time_us: u32) -> i64 {
        self.clock.extend(time_us.into()) as i64 * 1_000
    }

    /// Folds in a packet of its first sending.
    pub fn on_packet(&mut self, stamp: Stamp, starts_message: bool) {
        let sample = stamp.received_at.as_nanos() as f64 - stamp.sent_nanos as f64;
        match &mut self.transit {
            Some(transit) => transit.fold(sample, stamp.received_at),
            None => self.transit = Some(Transit::new(sample, stamp.received_at)),
        }
        let Some(last) = self.last else {
            self.last = Some(stamp);
            return;
        };
        if stamp.id <= last.id {
            return;
        }
        // Parts of one message leave together; only the step from message to message says when the next is due.
        if starts_message && stamp.id == last.message_end {
            let step = u64::try_from(stamp.sent_nanos - last.sent_nanos).unwrap_or(0);
            let sample = Duration::from_nanos(step.min(LONGEST_INTERVAL));
            match &mut self.interval {
                Some(interval) => interval.fold(sample),
                None => self.interval = Some(Smoothed::new(sample, 1.0 / 8.0)),
            }
        }
        self.last = Some(stamp);
    }

    /// When the `n`th of `gap` packets between the last one and `next` was due, `n` from 1: sent at even distances.
    pub fn due_between(&self, next: &Stamp, n: u64, gap: u64) -> Instant {
        let (Some(last), Some(transit)) = (self.last, self.transit) else { return next.received_at };
        let share = n as f64 / (gap + 1) as f64;
        let sent = last.sent_nanos as f64 + (next.sent_nanos - last.sent_nanos) as f64 * share;
        let due = Instant::from_nanos((sent + transit.mean).max(0.0) as u64);
        // A forged time puts nothing outside of what can be.
        due.clamp(last.received_at.min(next.received_at), next.received_at)
    }

    /// When the message `steps` behind the last one is due, `None` while too little is known.
    pub fn due_after(&self, steps: u32) -> Option<Instant> {
        let (last, transit, interval) = (self.last?, self.transit?, self.interval?);
        let sent = last.sent_nanos as f64 + interval.mean().as_nanos() as f64 * f64::from(steps);
        let due = Instant::from_nanos((sent + transit.mean).max(0.0) as u64);
        let latest = last.received_at + interval.mean() * steps + interval.mean();
        Some(due.clamp(last.received_at, latest))
    }

    /// How long after its due time a message is missing: four deviations, as in the report, of the transit times
    /// and of the intervals.
    pub fn patience(&self) -> Duration {
        let transit = self.transit.map_or(0.0, |transit| transit.deviation);
        let intervals = self.interval.map_or(Duration::ZERO, |interval| interval.deviation());
        (Duration::from_nanos(transit as u64) + intervals) * 4
    }

    /// By how much a packet came later than packets do on average.
    pub fn lateness(&self, stamp: &Stamp) -> Duration {
        let Some(transit) = self.transit else { return Duration::ZERO };
        let late = stamp.received_at.as_nanos() as f64 - stamp.sent_nanos as f64 - transit.mean;
        Duration::from_nanos(late.max(0.0) as u64)
    }

    /// How much longer packets take now than the fastest of the last seconds.
    pub fn queueing(&self) -> Duration {
        self.transit.map_or(Duration::ZERO, |t| {
            Duration::from_nanos((t.mean - t.least.min(t.least_before)).max(0.0) as u64)
        })
    }

    pub fn interval(&self) -> Option<Duration> {
        Some(self.interval?.mean())
    }

    pub fn last(&self) -> Option<Stamp> {
        self.last
    }
}

impl Transit {
    fn new(sample: f64, now: Instant) -> Self {
        let least = sample;
        Transit { mean: sample, deviation: 0.0, least, least_before: least, period_ends: now + PERIOD }
    }

    fn fold(&mut self, sample: f64, now: Instant) {
        self.mean = ALPHA * self.mean + (1.0 - ALPHA) * sample;
        self.deviation = ALPHA * self.deviation + (1.0 - ALPHA) * (sample - self.mean).abs();
        if now >= self.period_ends {
            (self.least_before, self.least) = (self.least, sample);
            self.period_ends = now + PERIOD;
        }
        self.least = self.least.min(sample);
    }
}

/// A minute without a message is a pause, not an interval.
const LONGEST_INTERVAL: u64 = 60_000_000_000;
/// Clocks 55 ppm apart drift by 0.55 ms in it.
const PERIOD: Duration = Duration::from_secs(10);
