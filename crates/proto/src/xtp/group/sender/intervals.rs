//! How often members report, as they were told, and how long they may be silent.

use std::time::Duration;

use antiphon_core::Instant;

/// Intervals between reports that members go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    /// What they were told last, and when.
    told: Duration,
    told_at: Instant,
    /// The longer of that and what they were told before, which some have not heard.
    current: Duration,
    /// The longest that a member may still go by, as it has planned its next report: it counts down with the time.
    longest: Duration,
    /// When the interval became shorter than `reference`, the longest since it did so last.
    shortened: Instant,
    reference: Duration,
}

impl Intervals {
    pub fn new(now: Instant, interval: Duration) -> Self {
        let (told, current, longest, reference) = (interval, interval, interval, interval);
        Intervals { told, told_at: now, current, longest, shortened: now, reference }
    }

    /// The interval by which members report.
    pub fn current(&self) -> Duration {
        self.current
    }

    /// Whether members are to be told at once, as `interval` is much shorter than what they know.
    pub fn is_to_be_told(&self, interval: Duration) -> bool {
        interval < self.told.mul_f64(SHORTER)
    }

    /// Members are told.
    pub fn tell(&mut self, now: Instant, interval: Duration) {
        if interval < self.reference.mul_f64(SHORTER) {
            (self.shortened, self.reference) = (now, interval);
        }
        self.reference = self.reference.max(interval);
        let passed = now.since(self.told_at);
        self.longest = interval.max(self.longest.saturating_sub(passed));
        self.current = interval.max(self.told);
        (self.told, self.told_at) = (interval, now);
    }

    /// Whether a member has been silent for so many intervals, and for `least` in any case. It hears of a shorter interval only then, and one that has
    /// planned its next report long ago was not silent before.
    pub fn is_silent(&self, now: Instant, heard: Instant, intervals: f64, least: Duration) -> bool {
        let since_told = now.since(heard.max(self.shortened));
        since_told >= least.max(self.current.mul_f64(intervals))
            || now.since(heard) >= least.max(self.longest.mul_f64(intervals))
    }
}

/// An interval that is shorter by so much is told at once, and members have the time that it takes to hear of it.
const SHORTER: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(500);

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn who_reports_rarely_has_time_to_hear_that_it_should_do_so_often() {
        let mut intervals = Intervals::new(ms(0), seconds(10.0));
        (0..20).for_each(|at| intervals.tell(ms(500 * at), seconds(10.0)));
        assert!(
            !intervals.is_silent(ms(15_000), ms(0), 2.0, LEAST)
                && intervals.is_silent(ms(20_000), ms(0), 2.0, LEAST)
        );
        // It was heard 10 s before the interval changed, and has 2 s since.
        let mut intervals = Intervals::new(ms(0), seconds(10.0));
        intervals.tell(ms(10_000), seconds(10.0));
        intervals.tell(ms(10_000), seconds(1.0));
        intervals.tell(ms(10_500), seconds(1.0));
        assert!(!intervals.is_silent(ms(11_900), ms(0), 2.0, LEAST));
        intervals.tell(ms(12_000), seconds(1.0));
        assert!(intervals.is_silent(ms(12_100), ms(0), 2.0, LEAST));
    }

    #[test]
    fn an_interval_that_rises_and_falls_lets_nobody_be_silent_for_ever() {
        let mut intervals = Intervals::new(ms(0), seconds(1.0));
        let mut at = 0;
        while !intervals.is_silent(ms(at), ms(0), 3.0, LEAST) {
            at += 500;
            intervals.tell(ms(at), seconds(if at % 1_000 == 0 { 1.0 } else { 2.0 }));
            assert!(at <= 6_000, "three of the longest");
        }
        assert!(at >= 3_000);
    }
}
