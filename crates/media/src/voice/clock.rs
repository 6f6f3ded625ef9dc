//! The clock of converters, which gives or takes a byte every 125 us of its own time.

use antiphon_core::Instant;

/// Counts bytes since it began.
///
/// A converter's crystal is off by parts per million, and each machine has its own, so two ends drift apart: at 100 ppm by
/// 0.8 bytes a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteClock {
    began: Instant,
    /// Bytes in 125 seconds of the run's clock.
    speed: u64,
}

impl ByteClock {
    /// A clock that begins at `began` and runs `ppm` parts per million faster than the run's clock, within ±[`MOST_PPM`].
    pub fn new(began: Instant, ppm: i32) -> Self {
        let ppm = i64::from(ppm.clamp(-MOST_PPM, MOST_PPM));
        ByteClock { began, speed: MILLION.saturating_add_signed(ppm) }
    }

    /// Bytes that it has counted at `now`.
    pub fn bytes(&self, now: Instant) -> u64 {
        let nanos = now.since(self.began).as_nanos() as u64;
        // nanos * speed / (125 000 * 1 000 000), in 64 bits: the remainder of the first division is carried along.
        let (whole, rest) = (nanos / NANOS, nanos % NANOS);
        (whole * self.speed + rest * self.speed / NANOS) / MILLION
    }

    /// The first instant at which it has counted `bytes`.
    pub fn at(&self, bytes: u64) -> Instant {
        let nanos = (u128::from(bytes) * u128::from(NANOS * MILLION)).div_ceil(u128::from(self.speed));
        self.began + std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Nanoseconds of a byte.
pub(super) const NANOS: u64 = 1_000_000_000 / super::VOICE_RATE as u64;
const MILLION: u64 = 1_000_000;
/// How much faster or slower a clock may run than the run's, in parts per million: far beyond any crystal.
pub const MOST_PPM: i32 = 100_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_byte_every_125_us_of_its_own_time() {
        let began = Instant::from_millis(3);
        let clock = ByteClock::new(began, 0);
        assert_eq!((clock.bytes(Instant::ZERO), clock.bytes(began)), (0, 0));
        assert_eq!(clock.bytes(began + Duration::from_nanos(124_999)), 0);
        assert_eq!(clock.bytes(began + Duration::from_micros(125)), 1);
        // Ten minutes at 100 ppm: 480 bytes more, or fewer.
        let later = began + Duration::from_secs(600);
        assert_eq!(clock.bytes(later), 4_800_000);
        assert_eq!(ByteClock::new(began, 100).bytes(later), 4_800_480);
        assert_eq!(ByteClock::new(began, -100).bytes(later), 4_799_520);
    }

    proptest! {
        #[test]
        fn instants_are_the_first_with_their_count(bytes in 0u64..1 << 40, ppm in -1000i32..1000, began in 0u64..1 << 50) {
            let clock = ByteClock::new(Instant::from_nanos(began), ppm);
            let at = clock.at(bytes);
            prop_assert_eq!(clock.bytes(at), bytes);
            prop_assert!(bytes == 0 || clock.bytes(at - Duration::from_nanos(1)) == bytes - 1);
        }
    }
}
