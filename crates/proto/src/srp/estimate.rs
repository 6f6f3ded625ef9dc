//! Moving averages: of a time with its deviation, and of the quality that decisions are based on.

use std::time::Duration;

/// The report's α: `average = α average + (1 - α) sample` for intervals and round trips (section 3.2).
pub const ALPHA: f64 = 0.85;

/// A longer time is not a round trip: this machine slept meanwhile, and one such sample would prevent every request for
/// minutes. No path that sound is played over takes ten seconds.
pub(super) const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(10);

/// A smoothed time and its smoothed deviation.
///
/// Source: report, section 3.2. The deviation uses the average that already contains the sample, in the order of the
/// printed formulas.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Smoothed {
    mean: f64,
    deviation: f64,
    /// The remainder of the first sample's share in the deviation.
    assumed: f64,
}

impl Smoothed {
    /// Starts from a first sample; `deviation_share` of it is the assumed deviation until there are more.
    pub fn new(first: Duration, deviation_share: f64) -> Self {
        let mean = first.as_nanos() as f64;
        let assumed = mean * deviation_share;
        Smoothed { mean, deviation: assumed, assumed }
    }

    /// Folds a sample in.
    pub fn fold(&mut self, sample: Duration) {
        let sample = sample.as_nanos() as f64;
        self.mean = ALPHA * self.mean + (1.0 - ALPHA) * sample;
        self.deviation = ALPHA * self.deviation + (1.0 - ALPHA) * (sample - self.mean).abs();
        self.assumed *= ALPHA;
    }

    /// The average.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean as u64)
    }

    /// The mean deviation.
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.deviation as u64)
    }

    /// The deviation without the assumption from the first sample. Waiting for an answer needs the assumption; deciding
    /// whether an answer can come in time does not, as it would give up messages without a first attempt.
    pub fn measured_deviation(&self) -> Duration {
        Duration::from_nanos((self.deviation - self.assumed).max(0.0) as u64)
    }
}

/// Loss and latency that decisions are based on: averages over finished messages.
///
/// *Reading.* The report says that only about the last 15 packets count, which 0.85 would give; but then a single loss
/// weighs 15 %, OQ never gives up in any of its tests, and its printed figures are impossible. With 0.98 to 0.99 they
/// are possible, so that is the default; both are parameters (`keep-loss`, `keep-latency`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QualityAverages {
    /// Weight that the old loss average keeps at a new message.
    pub keep_loss: f64,
    /// Weight that the old latency average keeps at a new message.
    pub keep_latency: f64,
    /// Share of messages given up.
    pub loss: f64,
    /// Average latency; zero until a first sample.
    pub latency: Duration,
    delivered: u32,
    finished: u32,
    /// Starts with plain means.
    means_first: bool,
}

/// The published default of [`QualityAverages::keep_loss`] and [`QualityAverages::keep_latency`].
pub const KEEP: f64 = 0.98;

impl QualityAverages {
    /// No loss and no delay yet. A weight outside 0 to 1 counts as [`KEEP`].
    pub fn new(keep_loss: f64, keep_latency: f64) -> Self {
        let share = |keep: f64| if (0.0..=1.0).contains(&keep) { keep } else { KEEP };
        let (keep_loss, keep_latency) = (share(keep_loss), share(keep_latency));
        QualityAverages {
            keep_loss,
            keep_latency,
            loss: 0.0,
            latency: Duration::ZERO,
            delivered: 0,
            finished: 0,
            means_first: false,
        }
    }

    /// The same, but plain means until there are as many messages as the averages reach back: an average over hundreds
    /// that starts at zero would underestimate the first losses.
    pub fn from_means(keep_loss: f64, keep_latency: f64) -> Self {
        QualityAverages { means_first: true, ..QualityAverages::new(keep_loss, keep_latency) }
    }

    /// Weight that the old loss average keeps at the next message.
    pub fn next_keeps_of_loss(&self) -> f64 {
        self.keep(self.keep_loss, self.finished)
    }

    /// Weight that the old latency average keeps at the next message.
    pub fn next_keeps_of_latency(&self) -> f64 {
        self.keep(self.keep_latency, self.delivered)
    }

    fn keep(&self, keep: f64, before: u32) -> f64 {
        if !self.means_first {
            return keep;
        }
        keep.min(f64::from(before) / (f64::from(before) + 1.0))
    }

    /// A message reached the application with this latency.
    pub fn on_delivered(&mut self, latency: Duration) {
        self.loss *= self.next_keeps_of_loss();
        let keep = if self.delivered == 0 { 0.0 } else { self.next_keeps_of_latency() };
        self.latency = self.latency.mul_f64(keep) + latency.mul_f64(1.0 - keep);
        self.delivered = self.delivered.saturating_add(1);
        self.finished = self.finished.saturating_add(1);
    }

    /// A message was given up.
    pub fn on_lost(&mut self) {
        let keep = self.next_keeps_of_loss();
        self.loss = keep * self.loss + (1.0 - keep);
        self.finished = self.finished.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_the_formulas() {
        let mut rtt = Smoothed::new(Duration::from_millis(100), 0.5);
        rtt.fold(Duration::from_millis(200));
        // 0.85 · 100 + 0.15 · 200 = 115; 0.85 · 50 + 0.15 · (200 - 115) = 55.25. With the average before the sample the
        // deviation would be 57.5.
        assert_eq!(rtt.mean(), Duration::from_millis(115));
        assert_eq!(rtt.deviation(), Duration::from_micros(55_250));
        // 0.15 · 85.
        assert_eq!(rtt.measured_deviation(), Duration::from_micros(12_750));
    }

    #[test]
    fn quality_counts_every_finished_message() {
        let mut quality = QualityAverages::new(0.9, 0.5);
        quality.on_delivered(Duration::from_millis(100));
        quality.on_lost();
        quality.on_delivered(Duration::from_millis(200));
        assert!((quality.loss - 0.09).abs() < 1e-12);
        assert_eq!(quality.latency, Duration::from_millis(150));
    }

    #[test]
    fn averages_begin_as_plain_means() {
        let mut quality = QualityAverages::from_means(0.75, 0.5);
        quality.on_lost();
        assert_eq!((quality.loss, quality.next_keeps_of_loss()), (1.0, 0.5));
        quality.on_delivered(Duration::from_millis(100));
        quality.on_delivered(Duration::from_millis(200));
        // One of three, and the mean of two.
        assert!((quality.loss - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(quality.latency, Duration::from_millis(150));
        for _ in 0..9 {
            quality.on_delivered(Duration::from_millis(150));
        }
        assert_eq!((quality.next_keeps_of_loss(), quality.next_keeps_of_latency()), (0.75, 0.5));
        // The fourth keeps 3/4, and so do the eight that follow: 1/3 · 0.75⁹.
        assert!((quality.loss - 0.75f64.powi(9) / 3.0).abs() < 1e-12);
    }
}
