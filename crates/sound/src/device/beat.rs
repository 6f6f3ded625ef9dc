//! When a device took sound, and how much: one word, so that both always belong together.

use super::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Written by the device in each cycle, read by the media thread.
#[derive(Default)]
pub(super) struct Beat {
    /// Sample frames taken so far (upper half) and when the last cycle began, in microseconds (lower half); both wrap.
    word: AtomicU64,
    /// Sample frames of the last cycle.
    period: AtomicU32,
    /// Whether sound is being handed over, so that its lack is an underrun.
    pub flows: AtomicBool,
    /// Whether any of it was not silence.
    pub sounds: AtomicBool,
}

impl Beat {
    /// After `taken` sample frames in all, with a cycle of `period` sample frames that began at `micros`.
    pub fn set(&self, taken: u32, micros: u64, period: u32) {
        self.period.store(period, Ordering::Relaxed);
        self.word.store(u64::from(taken) << 32 | micros & 0xffff_ffff, Ordering::Release);
    }

    /// Sample frames that the device has taken by `micros`, as if it took them one by one: those of the running cycle
    /// pass while it lasts. In sample frames since the beginning, wrapping, together with those of the running cycle that
    /// have passed.
    pub fn taken(&self, micros: u64, rate: u32) -> Taken {
        let word = self.word.load(Ordering::Acquire);
        let period = self.period.load(Ordering::Relaxed);
        let since = (micros as u32).wrapping_sub(word as u32);
        // The cycle may have begun after `micros` was read.
        let since = if since > u32::MAX / 2 { 0 } else { since };
        let passed = u64::from(since) * u64::from(rate) / 1_000_000;
        Taken { whole: (word >> 32) as u32, passed: passed.min(u64::from(period)) as u32, period }
    }
}

/// See [`Beat::taken`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    /// Sample frames of whole cycles.
    pub whole: u32,
    /// Sample frames of the next cycle that are due by now.
    pub passed: u32,
    /// Sample frames of a cycle.
    pub period: u32,
}

#[cfg(all(test, feature = "loom"))]
mod model;

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_passes_evenly_and_never_beyond_its_end() {
        let beat = Beat::default();
        beat.set(480, 5_000, 48);
        let taken = |micros| beat.taken(micros, 48_000);
        assert_eq!(taken(5_000), Taken { whole: 480, passed: 0, period: 48 });
        assert_eq!(taken(5_500).passed, 24);
        assert_eq!(taken(9_000).passed, 48);
        assert_eq!(taken(4_000).passed, 0, "the cycle began after the time was read");
    }

    #[test]
    fn counts_and_times_wrap() {
        let beat = Beat::default();
        beat.set(u32::MAX, (1 << 32) - 100, 64);
        let taken = beat.taken((1 << 32) + 900, 48_000);
        assert_eq!((taken.whole, taken.passed), (u32::MAX, 48));
    }
}
