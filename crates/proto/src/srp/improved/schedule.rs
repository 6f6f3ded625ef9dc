//! Estimates when packets are due from the sender's clock: send times contain no network jitter.

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

/// A packet that arrived from its first transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// The packet's id, extended.
    pub id: u64,
    /// The id after its message's last part.
    pub message_end: u64,
    /// Time on the sender's clock.
    pub sent_nanos: i64,
    pub received_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Transit {
    /// In nanoseconds.
    mean: f64,
    deviation: f64,
    /// The shortest transit times of this period and of the one before: those of an empty queue. Older values expire,
    /// since the clocks drift.
    least: f64,
    least_before: f64,
    period_ends: Instant,
}

impl Schedule {
    /// The sender's clock in nanoseconds, extended.
    pub fn extend(&mut self, time_us: u32) -> i64 {
        self.clock.extend(time_us.into()) as i64 * 1_000
    }

    /// Folds in a packet from its first transmission.
    pub fn on_packet(&mut self, stamp: Stamp, starts_message: bool) {
        let sample = stamp.received_at.as_nanos() as f64 - stamp.sent_nanos as f64;
        match &mut self.transit {
            Some(transit) if (sample - transit.mean).abs() < LONGEST_TRANSIT => {
                transit.fold(sample, stamp.received_at);
            }
            _ => self.transit = Some(Transit::new(sample, stamp.received_at)),
        }
        let Some(last) = self.last else {
            self.last = Some(stamp);
            return;
        };
        if stamp.id <= last.id {
            return;
        }
        // Parts of one message are sent together; only the step between messages tells when the next one is due.
        if starts_message && stamp.id == last.message_end {
            let step = u64::try_from(stamp.sent_nanos - last.sent_nanos).unwrap_or(0);
            let sample = Duration::from_nanos(step.min(LONGEST_INTERVAL));
            match &mut self.interval {
                Some(interval) => {
                    interval.fold(sample.min((interval.mean() * LONGEST_STEP).max(LONGEST_FIRST)));
                }
                None => self.interval = Some(Smoothed::new(sample, 1.0 / 8.0)),
            }
        }
        self.last = Some(stamp);
    }

    /// When a packet `id` between the last one and `next` was due, if all were sent at equal distances.
    pub fn due_between(&self, next: &Stamp, id: u64) -> Instant {
        let (Some(last), Some(transit)) = (self.last, self.transit) else { return next.received_at };
        let share = id.saturating_sub(last.id) as f64 / next.id.saturating_sub(last.id).max(1) as f64;
        let sent = last.sent_nanos as f64 + (next.sent_nanos - last.sent_nanos) as f64 * share;
        let due = Instant::from_nanos((sent + transit.mean).max(0.0) as u64);
        // Keeps a forged time within the possible range.
        due.clamp(last.received_at.min(next.received_at), next.received_at)
    }

    /// When the message `steps` after the last one is due; `None` while too little is known.
    pub fn due_after(&self, steps: u32) -> Option<Instant> {
        let (last, transit, interval) = (self.last?, self.transit?, self.interval?);
        let sent = last.sent_nanos as f64 + interval.mean().as_nanos() as f64 * f64::from(steps);
        let due = Instant::from_nanos((sent + transit.mean).max(0.0) as u64);
        let latest = last.received_at + interval.mean() * steps + interval.mean();
        Some(due.clamp(last.received_at, latest))
    }

    /// How long after its due time a message counts as missing: four deviations of the transit times, as in the report,
    /// and of the intervals.
    pub fn patience(&self) -> Duration {
        let transit = self.transit.map_or(0.0, |transit| transit.deviation);
        let intervals = self.interval.map_or(Duration::ZERO, |interval| interval.deviation());
        (Duration::from_nanos(transit as u64) + intervals) * 4
    }

    /// How much later than the average a packet arrived.
    pub fn lateness(&self, stamp: &Stamp) -> Duration {
        let Some(transit) = self.transit else { return Duration::ZERO };
        let late = stamp.received_at.as_nanos() as f64 - stamp.sent_nanos as f64 - transit.mean;
        let late = if late < LONGEST_TRANSIT { late.max(0.0) } else { 0.0 };
        Duration::from_nanos(late as u64)
    }

    /// How much longer packets take now than the fastest of the last seconds, beyond their usual variation: with
    /// exponential jitter the mean is 1.4 mean deviations above the minimum, while a standing queue delays all packets
    /// alike.
    pub fn queueing(&self) -> Duration {
        self.transit.map_or(Duration::ZERO, |t| {
            let longer = t.mean - t.least.min(t.least_before) - 2.0 * t.deviation;
            Duration::from_nanos(longer.max(0.0) as u64)
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

/// A longer time without messages is a pause, not an interval.
const LONGEST_INTERVAL: u64 = 60_000_000_000;
/// In multiples of the interval so far: a longer step was a pause of the source, or a machine that slept, and must not
/// distort the due times of the next minute.
const LONGEST_STEP: u32 = 8;
/// The limit for any stream's first interval: a stream that began with a burst may be slow.
const LONGEST_FIRST: Duration = Duration::from_millis(100);
/// A transit time above 10 s is no delay: a clock was set, or the machine slept, and the schedule starts again.
const LONGEST_TRANSIT: f64 = 10e9;
/// Two clocks 55 ppm apart drift by 0.55 ms in this period.
const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages every 20 ms of the sender's clock, which starts at one hour; 30 ms and some jitter in transit.
    fn schedule(count: u64) -> Schedule {
        let mut schedule = Schedule::default();
        for n in 0..count {
            on_message(&mut schedule, n, Duration::from_micros(n % 3 * 1000));
        }
        schedule
    }

    fn on_message(schedule: &mut Schedule, n: u64, jitter: Duration) -> Stamp {
        let sent_nanos = schedule.extend((3_600_000_000 + n * 20_000) as u32);
        let received_at = Instant::from_millis(30 + n * 20) + jitter;
        let stamp = Stamp { id: n, message_end: n + 1, sent_nanos, received_at };
        schedule.on_packet(stamp, true);
        stamp
    }

    #[test]
    fn due_times_are_free_of_the_network_s_jitter() {
        let schedule = schedule(100);
        let due = schedule.due_after(2).unwrap();
        // The last was sent at 1980 ms; 31 ms in transit on average, of which the smoothing leaves 0.6 ms uncertain. A
        // due time after the last arrival would be off by its 0 to 2 ms of jitter.
        assert!(due.signed_nanos_since(Instant::from_millis(2051)).abs() < 600_000, "{due:?}");
        let patience = schedule.patience();
        // The mean deviation of 0, 1, 2 ms is 0.67 ms; times four.
        assert!((2.0..4.0).contains(&(patience.as_secs_f64() * 1e3)), "{patience:?}");
        assert_eq!(schedule.interval(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_gap_is_spread_evenly_and_a_forged_time_stays_within_it() {
        let mut schedule = schedule(100);
        let next = Stamp {
            id: 103,
            message_end: 104,
            sent_nanos: schedule.extend(3_600_000_000 + 103 * 20_000),
            received_at: Instant::from_millis(2092),
        };
        let dues: Vec<i64> =
            (100..103).map(|id| schedule.due_between(&next, id).signed_nanos_since(Instant::ZERO)).collect();
        assert_eq!((dues[1] - dues[0], dues[2] - dues[1]), (20_000_000, 20_000_000));
        assert!((dues[0] - 2_031_000_000).abs() < 600_000, "{dues:?}");
        let forged = Stamp { sent_nanos: i64::MAX / 4, ..next };
        assert!((100..103).all(|id| schedule.due_between(&forged, id) <= next.received_at));
    }

    #[test]
    fn a_queue_that_fills_shows_and_a_clock_that_jumps_does_not() {
        let mut schedule = schedule(100);
        assert!(schedule.queueing() < Duration::from_millis(2));
        for n in 100..160 {
            on_message(&mut schedule, n, Duration::from_millis(80));
        }
        let queueing = schedule.queueing();
        assert!(queueing > Duration::from_millis(75) && queueing < Duration::from_millis(81), "{queueing:?}");
        let later = on_message(&mut schedule, 160, Duration::from_secs(1000));
        assert_eq!(schedule.queueing(), Duration::ZERO);
        assert_eq!(schedule.lateness(&later), Duration::ZERO);
    }

    #[test]
    fn a_pause_is_no_interval_and_a_burst_no_pace() {
        let mut schedule = schedule(100);
        // Ids continue; the source's clock has advanced by half a minute.
        for n in 100..120 {
            let sent_nanos = schedule.extend((3_600_000_000u64 + 30_000_000 + n * 20_000) as u32);
            let received_at = Instant::from_millis(30_030 + n * 20);
            schedule.on_packet(Stamp { id: n, message_end: n + 1, sent_nanos, received_at }, true);
        }
        // 20 ms, plus 0.15 · 140 ms from one step, of which 0.85¹⁹ remains: 21 ms. The pause itself would leave 200 ms.
        assert!(
            schedule.interval().is_some_and(|i| i < Duration::from_millis(22)),
            "{:?}",
            schedule.interval()
        );
        let mut burst = Schedule::default();
        for n in 0..60u64 {
            let at = 160 * n.saturating_sub(20);
            let sent_nanos = burst.extend((at * 1000) as u32);
            let received_at = Instant::from_millis(30 + at);
            burst.on_packet(Stamp { id: n, message_end: n + 1, sent_nanos, received_at }, true);
        }
        let interval = burst.interval().expect("known");
        assert!(interval > Duration::from_millis(155), "{interval:?}");
    }

    #[test]
    fn the_sender_s_clock_wraps_unnoticed() {
        let mut schedule = Schedule::default();
        // 2³² microseconds are 71.6 minutes: 10 messages before the wrap, 10 after it.
        for n in 0..20u64 {
            let sent_nanos = schedule.extend((u64::from(u32::MAX) - 200_000 + n * 20_000) as u32);
            let received_at = Instant::from_millis(1000 + n * 20);
            schedule.on_packet(Stamp { id: n, message_end: n + 1, sent_nanos, received_at }, true);
        }
        assert_eq!(schedule.interval(), Some(Duration::from_millis(20)));
        assert!(schedule.patience() < Duration::from_millis(3), "{:?}", schedule.patience());
    }
}
