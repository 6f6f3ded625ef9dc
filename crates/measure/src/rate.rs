//! Rates, shares and skew: plain arithmetic on counted figures, in one place so that every table means the same.

use std::time::Duration;

use antiphon_core::{BitRate, Instant};

use crate::histogram::nanos;

/// Mean bit rate of `bytes` over `time`; `None` if no time passed.
pub fn bit_rate(bytes: u64, time: Duration) -> Option<BitRate> {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let rate = bits.checked_div(time.as_nanos())?;
    Some(BitRate(u64::try_from(rate).unwrap_or(u64::MAX)))
}

/// The same in kbit/s (1000 bits).
pub fn kbit_per_s(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / 1e3 / time.as_secs_f64())
}

/// What the wire carried beyond the media, in percent of the media; negative if frames never reached the wire.
/// `None` without media.
pub fn overhead_percent(wire_bytes: u64, media_bytes: u64) -> Option<f64> {
    (media_bytes > 0).then(|| (wire_bytes as f64 - media_bytes as f64) * 100.0 / media_bytes as f64)
}

/// Milliseconds of processor time per second of stream; `None` if the stream had no length.
pub fn cpu_ms_per_s(cpu: Duration, stream: Duration) -> Option<f64> {
    (!stream.is_zero()).then(|| cpu.as_secs_f64() * 1e3 / stream.as_secs_f64())
}

/// `part` in percent of `whole`; `None` if there is no whole.
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

/// Skew between two streams captured together: how much later the sound is played than the picture, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skew {
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
    beyond: u64,
    limit: u64,
}

impl Skew {
    /// Counts what is further out than `limit` on either side (lip-sync: [`crate::LipSync::SKEW`]).
    pub fn new(limit: Duration) -> Self {
        Skew { limit: nanos(limit), ..Skew::default() }
    }

    /// Sound captured together with a picture was played at `sound`, the picture shown at `picture`.
    pub fn on_pair(&mut self, sound: Instant, picture: Instant) {
        let skew = sound.signed_nanos_since(picture);
        (self.min, self.max) = match self.count {
            0 => (skew, skew),
            _ => (self.min.min(skew), self.max.max(skew)),
        };
        self.count += 1;
        self.sum += i128::from(skew);
        self.beyond += u64::from(skew.unsigned_abs() > self.limit);
    }

    /// Mean skew in milliseconds, positive when the sound is later; `None` before the first pair.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }

    /// Smallest and largest skew in milliseconds; `None` before the first pair.
    pub fn range_ms(&self) -> Option<(f64, f64)> {
        (self.count > 0).then(|| (self.min as f64 / 1e6, self.max as f64 / 1e6))
    }

    /// Pairs beyond the limit, in percent; `None` before the first pair.
    pub fn beyond_percent(&self) -> Option<f64> {
        percent(self.beyond, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_known_streams() {
        // One second of CD sound: 44100 · 2 · 16 bit.
        assert_eq!(bit_rate(176_400, Duration::from_secs(1)), Some(BitRate(1_411_200)));
        assert_eq!(kbit_per_s(176_400, Duration::from_secs(2)), Some(705.6));
        assert_eq!(bit_rate(1, Duration::ZERO), None);
        assert_eq!(overhead_percent(988, 940), Some(48.0 * 100.0 / 940.0));
        assert_eq!(overhead_percent(1, 0), None);
        assert_eq!(cpu_ms_per_s(Duration::from_millis(30), Duration::from_secs(15)), Some(2.0));
        assert_eq!(percent(1, 0), None);
    }

    #[test]
    fn skew_has_a_sign() {
        let mut skew = Skew::new(Duration::from_millis(80));
        for (sound, picture) in [(200, 100), (100, 180), (100, 100)] {
            skew.on_pair(Instant::from_millis(sound), Instant::from_millis(picture));
        }
        assert_eq!(skew.range_ms(), Some((-80.0, 100.0)));
        assert_eq!(skew.beyond_percent(), Some(100.0 / 3.0));
        assert!((skew.mean_ms().unwrap() - 20.0 / 3.0).abs() < 1e-9);
    }
}
