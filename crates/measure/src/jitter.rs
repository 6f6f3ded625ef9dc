//! Jitter, by every definition in use. They measure different things: never compare across definitions.

use std::time::Duration;

use antiphon_core::Instant;

use crate::histogram::{Histogram, millis, nanos};

/// Mean absolute deviation of `samples` from their mean: Schiavoni, Queiroz and Wanderley 2013, equation 2 ("latency = mean
/// of t(i); jitter = mean of |t(i) − latency|"). Exact, in two passes; in the unit of the samples. `None` if there are none.
///
/// [`Histogram::mean_absolute_deviation`] gives the same during the run, with a bounded error.
pub fn mean_absolute_deviation(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    (!samples.is_empty()).then(|| samples.iter().map(|t| (t - mean).abs()).sum::<f64>() / n)
}

/// Interarrival jitter of RFC 3550 §6.4.1 in floating point: `J += (|D| − J)/16`, in the order of arrival.
///
/// The caller leaves duplicates out.
#[derive(Clone, Copy, Debug)]
pub struct InterarrivalJitter {
    rate: f64,
    last: Option<(Instant, u32)>,
    jitter: f64,
    max: f64,
}

impl InterarrivalJitter {
    /// For a media clock of `rate` Hz (0 is taken as 1).
    pub fn new(rate: u32) -> Self {
        InterarrivalJitter { rate: f64::from(rate.max(1)), last: None, jitter: 0.0, max: 0.0 }
    }

    /// Adds the arrival of a packet with time stamp `timestamp`.
    pub fn on_packet(&mut self, arrived: Instant, timestamp: u32) {
        if let Some((before, stamp)) = self.last.replace((arrived, timestamp)) {
            let elapsed = arrived.signed_nanos_since(before) as f64 * self.rate / 1e9;
            let media = f64::from(timestamp.wrapping_sub(stamp) as i32);
            self.jitter += ((elapsed - media).abs() - self.jitter) / 16.0;
            self.max = self.max.max(self.jitter);
        }
    }

    /// The current jitter, in milliseconds.
    pub fn ms(&self) -> f64 {
        self.jitter * 1e3 / self.rate
    }

    /// The highest jitter so far, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.max * 1e3 / self.rate
    }
}

/// How many gaps [`RollingDeviation`] covers: the two-stream paper's number.
pub const ROLLING_GAPS: usize = 100;

/// Standard deviation of the last [`ROLLING_GAPS`] gaps between arrivals (population form, divisor n), the two-stream
/// paper's jitter. Computed in integers, so that no error accumulates.
#[derive(Clone, Debug)]
pub struct RollingDeviation {
    gaps: [u64; ROLLING_GAPS],
    len: usize,
    next: usize,
    sum: u128,
    squares: u128,
    max: f64,
}

impl Default for RollingDeviation {
    fn default() -> Self {
        RollingDeviation { gaps: [0; ROLLING_GAPS], len: 0, next: 0, sum: 0, squares: 0, max: 0.0 }
    }
}

impl RollingDeviation {
    /// Longer gaps count as this one, so that a hundred squares fit the sum.
    const LONGEST: Duration = Duration::from_secs(86_400);

    /// Adds a gap, forgetting the oldest when there are [`ROLLING_GAPS`].
    pub fn on_gap(&mut self, gap: Duration) {
        let gap = nanos(gap.min(Self::LONGEST));
        if self.len == ROLLING_GAPS {
            let old = u128::from(self.gaps[self.next]);
            self.sum -= old;
            self.squares -= old * old;
        } else {
            self.len += 1;
        }
        self.gaps[self.next] = gap;
        self.next = (self.next + 1) % ROLLING_GAPS;
        self.sum += u128::from(gap);
        self.squares += u128::from(gap) * u128::from(gap);
        if self.len == ROLLING_GAPS {
            self.max = self.max.max(self.ms().unwrap_or(0.0));
        }
    }

    /// The deviation of the current gaps, in milliseconds; `None` before the second.
    pub fn ms(&self) -> Option<f64> {
        let n = self.len as u128;
        let scaled = n * self.squares - self.sum * self.sum;
        (self.len > 1).then(|| (scaled as f64).sqrt() / self.len as f64 / 1e6)
    }

    /// The highest deviation of any hundred successive gaps, in milliseconds; `None` before the hundredth.
    pub fn max_ms(&self) -> Option<f64> {
        (self.len == ROLLING_GAPS).then_some(self.max)
    }
}

/// Delay variation of RFC 5481: PDV, each delay less the smallest (§4.2), and IPDV, each delay less that of the packet
/// before it in the sequence (§4.1).
#[derive(Clone, Debug, Default)]
pub struct DelayVariation {
    delays: Histogram,
    steps: Histogram,
    last: Option<(u64, Duration)>,
}

impl DelayVariation {
    /// Adds the `delay` of packet `seq`. IPDV is computed only if the packet before it in the sequence was the last one
    /// added, so that a lost or overtaken packet makes no step.
    pub fn on_delay(&mut self, seq: u64, delay: Duration) {
        self.delays.record(delay);
        if let Some((before, last)) = self.last
            && before.checked_add(1) == Some(seq)
        {
            self.steps.record(delay.abs_diff(last));
        }
        self.last = Some((seq, delay));
    }

    /// The steps |IPDV|.
    pub fn ipdv(&self) -> &Histogram {
        &self.steps
    }

    /// The delays themselves.
    pub fn delays(&self) -> &Histogram {
        &self.delays
    }
}

/// PDV (RFC 5481 §4.2) at the share `q` of the delays in `h`; `None` if empty.
pub fn pdv(h: &Histogram, q: f64) -> Option<Duration> {
    Some(h.quantile(q)?.saturating_sub(h.min()?))
}

/// Gaps between arrivals as the TV-sound report counts them: mean, maximum, and those over 80 ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    last: Option<Instant>,
    count: u64,
    sum: u128,
    max: u64,
    over: u64,
}

impl Gaps {
    /// A longer gap is noticed as a loss of synchronisation with the picture.
    pub const LIMIT: Duration = Duration::from_millis(80);

    /// Adds an arrival; returns the gap before it. An arrival stamped before the last one makes a gap of zero.
    pub fn on_arrival(&mut self, at: Instant) -> Option<Duration> {
        let last = self.last.unwrap_or(at);
        let first = self.last.is_none();
        self.last = Some(last.max(at));
        if first {
            return None;
        }
        let gap = at.since(last);
        self.count += 1;
        self.sum += gap.as_nanos();
        self.max = self.max.max(nanos(gap));
        self.over += u64::from(gap > Self::LIMIT);
        Some(gap)
    }

    /// The longest gap in milliseconds; `None` before the second arrival.
    pub fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| millis(Duration::from_nanos(self.max)))
    }

    /// The mean gap in milliseconds; `None` before the second arrival.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }

    /// How many gaps were longer than [`Self::LIMIT`].
    pub fn over_limit(&self) -> u64 {
        self.over
    }
}

#[cfg(test)]
mod tests;
