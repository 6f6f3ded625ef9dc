//! Records millions of durations in fixed memory, without allocation; percentiles have a stated error.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A histogram of durations from 0 to [`Histogram::HIGHEST`], with a relative error of at most
/// [`Histogram::PRECISION`] in every percentile. Count, mean, minimum and maximum are exact.
///
/// About 270 kB, all of it allocated by [`Histogram::new`]; [`Histogram::record`] never allocates.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Longer durations are recorded as this one; minimum, maximum and mean stay exact.
    pub const HIGHEST: Duration = Duration::from_secs(3600);

    /// Bound of a percentile's relative error: three significant figures make at least 1024 buckets per octave, and a
    /// bucket is represented by its middle.
    pub const PRECISION: f64 = 1.0 / 2048.0;

    /// An empty histogram.
    pub fn new() -> Self {
        // Resolution of a nanosecond, as a loopback round trip takes only a few tens of microseconds.
        let highest = Self::HIGHEST.as_nanos() as u64;
        let buckets = hdrhistogram::Histogram::new_with_bounds(1, highest, 3);
        Histogram {
            buckets: buckets.expect("constant bounds, highest at least twice the lowest"),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds one duration.
    pub fn record(&mut self, d: Duration) {
        let nanos = nanos(d);
        self.buckets.saturating_record(nanos);
        self.sum = self.sum.saturating_add(u128::from(nanos));
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The arithmetic mean, rounded down to a nanosecond; `None` if empty.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count()))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The shortest; `None` if empty.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.min))
    }

    /// The longest; `None` if empty.
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.max))
    }

    /// The percentile by nearest rank: the smallest value with at least the share `q` (0.0 to 1.0) of all values at
    /// or below it, that is `sorted[ceil(q·N)]` counted from 1. `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = nearest_rank(q, self.count())?;
        self.at_rank(rank)
    }

    /// The value of rank `rank` (1 is the smallest), within [`Self::PRECISION`]; `None` beyond the count.
    pub fn at_rank(&self, rank: u64) -> Option<Duration> {
        let mut seen = 0;
        for (value, count) in self.weighted() {
            seen += count;
            if seen >= rank.max(1) {
                return Some(Duration::from_nanos(value));
            }
        }
        None
    }

    /// Mean absolute deviation from the mean (see [`crate::mean_absolute_deviation`]), in nanoseconds.
    ///
    /// Each value is known within [`Self::PRECISION`] of itself, so the result is within `PRECISION` times the mean
    /// of the exact one, in absolute terms. `None` if empty.
    pub fn mean_absolute_deviation(&self) -> Option<f64> {
        let mean = self.sum as f64 / self.count() as f64;
        let total: f64 =
            self.weighted().map(|(value, count)| (value as f64 - mean).abs() * count as f64).sum();
        (!self.is_empty()).then(|| total / self.count() as f64)
    }

    /// Values in nanoseconds, rising, each with its count. The first and last are the exact minimum and maximum.
    pub fn weighted(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|step| {
            let middle = self.buckets.median_equivalent(step.value_iterated_to());
            (middle.clamp(self.min, self.max), step.count_since_last_iteration())
        })
    }
}

/// Rank (from 1) of the percentile `q` (0.0 to 1.0) among `n` values: `ceil(q·n)`, at least 1. `None` if `n` is 0.
pub fn nearest_rank(q: f64, n: u64) -> Option<u64> {
    // 0.07 · 100 is 7.000000000000001 in binary: a value that is whole except for the last bits counts as whole.
    let rank = (q.clamp(0.0, 1.0) * n as f64 * (1.0 - 1e-12)).ceil() as u64;
    (n > 0).then(|| rank.clamp(1, n))
}

/// Summary of a histogram, in milliseconds; all `None` when it is empty. Percentiles by nearest rank.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Arithmetic mean.
    #[serde(rename = "mean")]
    pub mean_ms: Option<f64>,
    /// Median.
    #[serde(rename = "p50")]
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    #[serde(rename = "p90")]
    pub p90_ms: Option<f64>,
    /// 99th percentile.
    #[serde(rename = "p99")]
    pub p99_ms: Option<f64>,
    /// 99.9th percentile.
    #[serde(rename = "p999")]
    pub p999_ms: Option<f64>,
    /// Longest.
    #[serde(rename = "max")]
    pub max_ms: Option<f64>,
    /// Shortest.
    #[serde(rename = "min")]
    pub min_ms: Option<f64>,
    /// How many values.
    pub count: u64,
}

impl From<&Histogram> for Distribution {
    fn from(h: &Histogram) -> Self {
        let ms = |d: Option<Duration>| d.map(millis);
        Distribution {
            mean_ms: ms(h.mean()),
            p50_ms: ms(h.quantile(0.5)),
            p90_ms: ms(h.quantile(0.9)),
            p99_ms: ms(h.quantile(0.99)),
            p999_ms: ms(h.quantile(0.999)),
            max_ms: ms(h.max()),
            min_ms: ms(h.min()),
            count: h.count(),
        }
    }
}

/// A duration in milliseconds.
pub fn millis(d: Duration) -> f64 {
    nanos(d) as f64 / 1e6
}

/// Whole nanoseconds, saturating after some 584 years.
pub(crate) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        values.iter().for_each(|v| h.record(Duration::from_nanos(*v)));
        h
    }

    #[test]
    fn empty_is_null_and_never_nan() {
        let json = serde_json::to_value(Distribution::from(&Histogram::new())).unwrap();
        for key in ["mean", "p50", "p90", "p99", "p999", "max", "min"] {
            assert!(json[key].is_null(), "{key}");
        }
        assert_eq!(json["count"], 0);
        assert_eq!(Histogram::new().mean_absolute_deviation(), None);
    }

    #[test]
    fn the_second_highest_of_a_thousand_is_its_p999() {
        // The voice paper's rule, recovery-and-metrics §1.
        assert_eq!(nearest_rank(0.999, 1000), Some(999));
        assert_eq!(nearest_rank(0.07, 100), Some(7));
        assert_eq!(nearest_rank(0.0, 5), Some(1));
        assert_eq!(nearest_rank(1.0, 5), Some(5));
        assert_eq!(nearest_rank(0.5, 0), None);
        // Values under 2048 ns have a bucket each, so the answer is exact.
        let h = filled(&(1..=1000).collect::<Vec<_>>());
        assert_eq!(h.quantile(0.999), Some(Duration::from_nanos(999)));
    }

    #[test]
    fn beyond_an_hour_only_the_percentiles_saturate() {
        let day = Duration::from_secs(86_400);
        let mut h = Histogram::new();
        h.record(day);
        assert_eq!((h.max(), h.mean()), (Some(day), Some(day)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(
            mut values in prop::collection::vec(prop_oneof![0u64..3_000, 0u64..50_000_000, 0u64..3_600_000_000_000], 1..400),
            q in 0.0f64..=1.0,
        ) {
            let h = filled(&values);
            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
            let got = h.quantile(q).unwrap().as_nanos() as f64;
            // One bucket off would be twice this.
            prop_assert!((got - exact as f64).abs() <= exact as f64 * Histogram::PRECISION + 1.0, "{got} {exact}");
            prop_assert_eq!(h.max().unwrap().as_nanos() as u64, values[values.len() - 1]);
            prop_assert_eq!(h.min().unwrap().as_nanos() as u64, values[0]);
            let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
            prop_assert_eq!(h.mean().unwrap().as_nanos(), sum / values.len() as u128);
        }

        #[test]
        fn deviation_is_within_its_bound(values in prop::collection::vec(0u64..10_000_000_000, 1..300)) {
            let h = filled(&values);
            let samples: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            let exact = crate::mean_absolute_deviation(&samples).unwrap();
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            let got = h.mean_absolute_deviation().unwrap();
            prop_assert!((got - exact).abs() <= mean * Histogram::PRECISION + 1.0, "{got} {exact}");
        }
    }
}
