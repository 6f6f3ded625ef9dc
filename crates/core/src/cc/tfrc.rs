//! The throughput equation of TFRC (RFC 5348 §3.1), its inverse, and the mean loss interval (§5.4).

use std::time::Duration;

/// f(p), so that the rate is s / (R f(p)): b = 1, t_RTO = 4 R.
pub fn f(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// The rate of a TCP with segments of `size` bytes, in bytes per second.
///
/// `p`: loss event rate, above 0, at most 1.
pub fn throughput(size: f64, rtt: Duration, p: f64) -> f64 {
    size / (rtt.as_secs_f64().max(1e-6) * f(p.clamp(1e-9, 1.0)))
}

/// The loss event rate at which [`throughput`] is `rate`, by bisection; between 10⁻⁸ and 1.
pub fn loss_event_rate(size: f64, rtt: Duration, rate: f64) -> f64 {
    let wanted = size / (rtt.as_secs_f64().max(1e-6) * rate.max(1e-3));
    let (mut low, mut high) = (1e-8f64, 1.0f64);
    // f grows with p. 40 halvings of the exponent's range are exact to a millionth.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if f(middle) < wanted { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// The weighted mean of RFC 5348 §5.4: of the closed intervals alone, or with the open one, whichever is larger.
///
/// `intervals`: newest first, the open one at the front; lengths in packets.
pub fn mean_interval(intervals: impl Iterator<Item = f64> + Clone) -> f64 {
    let weighted = |skip: usize| {
        let pairs = intervals.clone().skip(skip).zip(WEIGHTS);
        pairs.fold((0.0, 0.0), |(sum, weights), (length, weight)| (sum + length * weight, weights + weight))
    };
    let (with_open, closed) = (weighted(0), weighted(1));
    if closed.1 == 0.0 {
        return with_open.0.max(1.0);
    }
    // Both sums are divided by the weights of the closed intervals.
    let count = intervals.clone().count() - 1;
    let open_sum: f64 = intervals.take(count).zip(WEIGHTS).map(|(length, weight)| length * weight).sum();
    (open_sum.max(closed.0) / closed.1).max(1.0)
}

/// Lengths of the intervals between the loss events that a sender has seen, in any unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossIntervals {
    /// Newest first; the first is still open.
    lengths: [f64; KEPT],
    /// Intervals that are known, without the open one.
    closed: usize,
}

impl LossIntervals {
    /// So much was acknowledged since the last call.
    pub fn on_ack(&mut self, acked: f64) {
        self.lengths[0] += acked;
    }

    /// A loss event: losses within a round trip are one, and so are those with no acknowledgement between.
    pub fn on_loss_event(&mut self) {
        if self.lengths[0] == 0.0 {
            return;
        }
        self.lengths.copy_within(0..KEPT - 1, 1);
        self.lengths[0] = 0.0;
        self.closed = (self.closed + 1).min(KEPT - 1);
    }

    /// The mean interval; `None` before any loss.
    pub fn mean(&self) -> Option<f64> {
        (self.closed > 0).then(|| mean_interval(self.lengths[..=self.closed].iter().copied()))
    }
}

/// RFC 5348 §5.4: n = 8.
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Intervals kept, with the open one.
pub const KEPT: usize = WEIGHTS.len() + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_gives_the_table_and_its_inverse_takes_it_back() {
        // Computed independently for s = 1000 bytes, R = 0.1 s.
        let table = [
            (0.0001, 0.008172, 1_223_644.0),
            (0.001, 0.026052, 383_844.0),
            (0.005, 0.060335, 165_741.0),
            (0.01, 0.089022, 112_332.0),
            (0.02, 0.136521, 73_249.0),
            (0.05, 0.271305, 36_859.0),
            (0.1, 0.564939, 17_701.0),
            (0.2, 1.863717, 5_366.0),
        ];
        let rtt = Duration::from_millis(100);
        for (p, expected_f, rate) in table {
            assert!((f(p) - expected_f).abs() < 1e-6, "f({p}) = {}", f(p));
            assert!((throughput(1000.0, rtt, p) - rate).abs() < 1.0, "X({p})");
            let back = loss_event_rate(1000.0, rtt, rate);
            assert!((back / p - 1.0).abs() < 1e-3, "{back} for {p}");
        }
    }

    #[test]
    fn loss_intervals_are_weighted_and_the_open_one_counts_when_long() {
        let mut intervals = LossIntervals::default();
        intervals.on_ack(100.0);
        assert_eq!(intervals.mean(), None);
        intervals.on_loss_event();
        assert_eq!(intervals.mean(), Some(100.0));
        intervals.on_ack(40.0);
        intervals.on_loss_event();
        intervals.on_ack(10.0);
        assert_eq!(intervals.mean(), Some(70.0), "a short open interval says nothing yet");
        intervals.on_ack(190.0);
        assert_eq!(intervals.mean(), Some(120.0), "200 and 40, the latest two of three");
        intervals.on_loss_event();
        let before = intervals.mean();
        intervals.on_loss_event();
        assert_eq!(intervals.mean(), before, "nothing was acknowledged between");
    }
}
