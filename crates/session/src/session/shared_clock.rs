//! A clock that the sender's time stamps count and this host follows, too, such as PTP's (RFC 7273): what is to be heard needs no
//! questions.

use std::time::Duration;

use antiphon_core::Instant;

/// A clock that the sender's time stamps count and this host follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedClock {
    /// RTP's time stamp at the clock's epoch (RFC 7273 §5.2).
    pub offset: u32,
    /// From a sample frame's capture to its playout.
    pub delay: Duration,
}

/// What a receiver knows of it.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    clock: SharedClock,
    /// What it showed last, and when.
    read: Option<(Instant, Duration)>,
    apart: Option<Duration>,
}

impl Shared {
    pub fn new(clock: SharedClock) -> Self {
        Shared { clock, read: None, apart: None }
    }

    pub fn delay(&self) -> Duration {
        self.clock.delay
    }

    pub fn set(&mut self, at: Instant, time: Duration) {
        self.read = Some((at, time));
    }

    /// The time stamp of what is to be heard at `now`, `delay` after its capture, and how long before `now` it was due.
    pub fn due_at(&self, now: Instant, delay: Duration, rate: u32) -> Option<(u32, Duration)> {
        let (at, time) = self.read?;
        let captured =
            time.as_nanos() as i128 + i128::from(now.signed_nanos_since(at)) - delay.as_nanos() as i128;
        Some(frame_at(captured, self.clock.offset, rate))
    }

    /// Whether what is due at `now` is about what the packets that came have played: by them it is due at `by_arrivals`.
    pub fn fits(&mut self, now: Instant, by_arrivals: Instant) -> bool {
        let apart = Duration::from_nanos(by_arrivals.signed_nanos_since(now).unsigned_abs());
        self.apart = (apart > MOST_APART).then_some(apart);
        self.apart.is_none()
    }

    /// How far it is from what the packets show, if it can't be the sender's.
    pub fn apart(&self) -> Option<Duration> {
        self.apart
    }
}

/// The sample frame that has begun `captured` nanoseconds after the one of time stamp `zero`, and how long ago it has.
pub(super) fn frame_at(captured: i128, zero: u32, rate: u32) -> (u32, Duration) {
    let frames = (captured * i128::from(rate)).div_euclid(1_000_000_000);
    let begun = (frames * 1_000_000_000).div_euclid(rate.max(1).into());
    let past = captured - begun;
    (zero.wrapping_add(frames as u32), Duration::from_nanos(past.max(0) as u64))
}

/// No path and no playout delay is as long as the difference of two clocks that do not follow each other may be.
const MOST_APART: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stamp_is_the_clocks_time_in_sample_frames() {
        let mut shared = Shared::new(SharedClock { offset: u32::MAX, delay: Duration::ZERO });
        let now = Instant::from_millis(500);
        assert_eq!(shared.due_at(now, Duration::ZERO, 48_000), None, "not read yet");
        // 2026-11-28, as PTP counts.
        let time = Duration::new(1_795_824_037, 250_010_000);
        shared.set(now, time);
        let frames = (1_795_824_037_u64 * 48_000 + 12_000) as u32;
        let due = |now, delay| shared.due_at(now, delay, 48_000).unwrap();
        assert_eq!(due(now, Duration::ZERO), (frames.wrapping_sub(1), Duration::from_micros(10)));
        let later = now + Duration::from_secs(2);
        assert_eq!(due(later, Duration::from_secs(1)).0, frames.wrapping_add(47_999));
        assert_eq!(due(Instant::ZERO, Duration::ZERO).0, frames.wrapping_sub(24_001));
    }

    #[test]
    fn a_clock_that_is_seconds_from_the_packets_is_another_one() {
        let mut shared = Shared::new(SharedClock { offset: 0, delay: Duration::ZERO });
        let now = Instant::from_millis(60_000);
        assert!(shared.fits(now, now + Duration::from_millis(900)));
        assert!(!shared.fits(now, Instant::from_millis(23_000)));
        assert_eq!(shared.apart(), Some(Duration::from_secs(37)));
        assert!(shared.fits(now, now) && shared.apart().is_none());
    }
}
