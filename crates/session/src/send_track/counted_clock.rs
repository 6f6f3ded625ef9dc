//! A clock that the time stamps count, and that receivers follow as well, such as PTP's (RFC 7273 §5.2, AES67).

use std::time::Duration;

use antiphon_core::Instant;

/// The clock, as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedClock {
    /// When it was read, by the run's clock.
    at: Instant,
    /// What it showed then, since its epoch.
    time: Duration,
}

impl CountedClock {
    pub fn new((at, time): (Instant, Duration)) -> Self {
        CountedClock { at, time }
    }

    /// The first sample frame of the clock that begins at `start` or later: its time stamp, and when it begins. That of the epoch has 0.
    pub fn frame_from(&self, start: Instant, rate: u32) -> (u32, Instant) {
        let rate = i128::from(rate.max(1));
        let time = self.time.as_nanos() as i128 + i128::from(start.signed_nanos_since(self.at));
        // One that began at this very nanosecond is meant, though its beginning was rounded up to it.
        let frame = ceil((time - 1) * rate, SECOND);
        let begins = ceil(frame * SECOND, rate);
        // Less than a sample frame.
        let wait = Duration::from_nanos(u64::try_from(begins - time).unwrap_or(0));
        (frame as u32, start + wait)
    }

    /// It is read again. Returns whether it was set since, against the run's clock.
    pub fn read(&mut self, (at, time): (Instant, Duration)) -> bool {
        let ran = i128::from(at.signed_nanos_since(self.at));
        let off = time.as_nanos() as i128 - (self.time.as_nanos() as i128 + ran);
        let was_set = off.unsigned_abs() >= LEAST_STEP.as_nanos();
        if was_set {
            *self = CountedClock { at, time };
        }
        was_set
    }
}

fn ceil(number: i128, by: i128) -> i128 {
    -(-number).div_euclid(by)
}

const SECOND: i128 = 1_000_000_000;
/// What is less may be the reading itself: both clocks are not read at one moment, and are steered alike otherwise.
const LEAST_STEP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_at_a_whole_number_of_them_since_the_epoch() {
        // 2026-11-28, as PTP counts.
        let time = Duration::new(1_795_824_037, 250_010_000);
        let clock = CountedClock::new((Instant::from_millis(500), time));
        let whole = (1_795_824_037_u64 * 48_000 + 12_000) as u32;
        // 10 µs into a frame of 20.83: the next one.
        let (stamp, begins) = clock.frame_from(Instant::from_millis(500), 48_000);
        assert_eq!(stamp, whole.wrapping_add(1));
        assert_eq!(begins.since(Instant::from_millis(500)), Duration::from_nanos(10_834));
        // At the beginning of a frame it is that one.
        assert_eq!(clock.frame_from(begins, 48_000), (stamp, begins));
        let earlier = Instant::from_nanos(500_000_000 - 10_000);
        assert_eq!(clock.frame_from(earlier, 48_000), (whole, earlier));
        assert_eq!(clock.frame_from(Instant::ZERO, 48_000).0, whole.wrapping_sub(24_000 - 1));
    }

    #[test]
    fn a_reading_that_is_off_by_little_is_no_step() {
        let mut clock = CountedClock::new((Instant::ZERO, Duration::from_secs(100)));
        let at = Instant::from_millis(2_000);
        assert!(!clock.read((at, Duration::from_micros(102_000_900))));
        assert!(!clock.read((at, Duration::from_micros(101_999_100))));
        assert_eq!(clock.frame_from(at, 48_000).0, 102 * 48_000);
        assert!(clock.read((at, Duration::from_millis(101_500))));
        assert_eq!(clock.frame_from(at, 48_000).0, 203 * 24_000);
    }
}
