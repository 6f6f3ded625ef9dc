//! The playout trade-off: playout delay against the share of late packets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, millis, nearest_rank};

/// Delays of the packets that arrived, and how many were sent: gives the missing share for any playout delay.
///
/// Percentiles by nearest rank over the packets *sent*: a packet that never arrived is late for every playout delay.
#[derive(Clone, Debug)]
pub struct PlayoutCurve {
    /// Delays in nanoseconds, rising, each with the number of packets up to and including it.
    steps: Vec<(u64, u64)>,
    sent: u64,
}

/// One point of the trade-off: a playout delay and the share missing with it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlayoutPoint {
    /// Time from sending to playing, in milliseconds.
    pub target_ms: f64,
    /// Packets missing at that time, in percent of those sent.
    pub missing_percent: f64,
}

/// The smallest playout delay that leaves a given share missing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequiredDelay {
    /// The share allowed, in percent.
    pub missing_percent: f64,
    /// The playout delay in milliseconds; `None` if more packets than allowed never arrived.
    pub target_ms: Option<f64>,
    /// Lower end of its 95 % interval, from blocks of the run, in steps of 0.25 ms (1 ms beyond 50 ms, 10 ms beyond 250 ms).
    pub low_ms: Option<f64>,
    /// Upper end; `None` if the run is too short: too few of its blocks contain packets later than that.
    pub high_ms: Option<f64>,
}

impl PlayoutCurve {
    /// From a histogram, with its precision, of `sent` packets. `divisor` 2 turns round trips into half round trips.
    pub fn from_histogram(h: &Histogram, sent: u64, divisor: u64) -> Self {
        Self::from_weighted(h.weighted().map(|(d, n)| (d / divisor.max(1), n)), sent)
    }

    fn from_weighted(values: impl Iterator<Item = (u64, u64)>, sent: u64) -> Self {
        let mut seen = 0;
        let steps: Vec<(u64, u64)> = values
            .map(|(delay, count)| {
                seen += count;
                (delay, seen)
            })
            .collect();
        PlayoutCurve { steps, sent: sent.max(seen) }
    }

    /// How many packets arrived within `target` of their sending.
    fn in_time(&self, target: Duration) -> u64 {
        let limit = crate::histogram::nanos(target);
        let passed = self.steps.partition_point(|(delay, _)| *delay <= limit);
        passed.checked_sub(1).map_or(0, |last| self.steps[last].1)
    }

    /// Share (0.0 to 1.0) of the packets sent that did not arrive within `target`; `None` if none were sent.
    pub fn missing_share(&self, target: Duration) -> Option<f64> {
        (self.sent > 0).then(|| (self.sent - self.in_time(target)) as f64 / self.sent as f64)
    }

    /// The smallest playout delay with at most the share `missing` (0.0 to 1.0) missing; `None` if more never arrived.
    pub fn delay_for(&self, missing: f64) -> Option<Duration> {
        self.at_rank(nearest_rank(1.0 - missing, self.sent)?)
    }

    /// The curve at `targets`.
    pub fn points(&self, targets: impl IntoIterator<Item = Duration>) -> Vec<PlayoutPoint> {
        let point = |target| {
            Some(PlayoutPoint {
                target_ms: millis(target),
                missing_percent: self.missing_share(target)? * 100.0,
            })
        };
        targets.into_iter().filter_map(point).collect()
    }

    fn at_rank(&self, rank: u64) -> Option<Duration> {
        let at = self.steps.partition_point(|(_, seen)| *seen < rank);
        self.steps.get(at).map(|(delay, _)| Duration::from_nanos(*delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// The curve of the given delays, of `sent` packets (at least as many).
    fn exact(delays: &[Duration], sent: u64) -> PlayoutCurve {
        let mut sorted: Vec<u64> = delays.iter().map(|d| crate::histogram::nanos(*d)).collect();
        sorted.sort_unstable();
        PlayoutCurve::from_weighted(sorted.into_iter().map(|d| (d, 1)), sent)
    }

    #[test]
    fn lost_packets_are_late_for_every_target() {
        let delays: Vec<Duration> = (1..=98).map(ms).collect();
        let curve = exact(&delays, 100);
        assert_eq!(curve.missing_share(ms(98)), Some(0.02));
        assert_eq!(curve.delay_for(0.02), Some(ms(98)));
        assert_eq!(curve.delay_for(0.01), None);
        assert_eq!(curve.delay_for(0.5), Some(ms(50)));
        assert_eq!(exact(&[], 0).missing_share(ms(1)), None);
        assert_eq!(exact(&[], 0).delay_for(0.5), None);
    }

    proptest! {
        #[test]
        fn agrees_with_trying_every_target(
            delays in prop::collection::vec(0u64..500, 1..200),
            lost in 0u64..50,
            share in 0.0f64..1.0,
        ) {
            let times: Vec<Duration> = delays.iter().map(|d| ms(*d)).collect();
            let sent = delays.len() as u64 + lost;
            let curve = exact(&times, sent);
            let missing = |target: u64| sent - delays.iter().filter(|d| **d <= target).count() as u64;
            for target in [0, 50, 250, 499] {
                prop_assert_eq!(curve.missing_share(ms(target)), Some(missing(target) as f64 / sent as f64));
            }
            // A small tolerance for a share that is whole except for the last bits.
            let allowed = share * sent as f64 + 1e-6;
            let tried = (0..500).find(|t| missing(*t) as f64 <= allowed && missing(*t) < sent);
            prop_assert_eq!(curve.delay_for(share), tried.map(ms));
        }

        #[test]
        fn a_histogram_gives_the_same_within_its_precision(delays in prop::collection::vec(1u64..1_000_000_000, 1..200)) {
            let mut h = Histogram::new();
            let times: Vec<Duration> = delays.iter().map(|d| Duration::from_nanos(*d)).collect();
            times.iter().for_each(|d| h.record(*d));
            let sent = times.len() as u64;
            let exact = exact(&times, sent).delay_for(0.1).unwrap().as_nanos() as f64;
            let got = PlayoutCurve::from_histogram(&h, sent, 1).delay_for(0.1).unwrap().as_nanos() as f64;
            prop_assert!((got - exact).abs() <= exact * Histogram::PRECISION + 1.0);
        }
    }
}
