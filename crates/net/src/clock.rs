//! The one clock of a run.

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`, beginning at zero when the clock is made. Copies share the beginning, so threads agree.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    zero_nanos: u64,
    epoch: Epoch,
}

impl OsClock {
    /// A clock that stands at [`Instant::ZERO`] now. Wall time is read here and never again, so that a step of the
    /// wall clock does not tear the run.
    pub fn new() -> Self {
        OsClock {
            zero_nanos: nanos(ClockId::CLOCK_MONOTONIC),
            epoch: Epoch {
                ntp_at_zero: NtpTime::from_unix(Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME))),
            },
        }
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(nanos(ClockId::CLOCK_MONOTONIC).saturating_sub(self.zero_nanos))
    }

    /// Where this clock stands on the wall.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Turns the kernel's receive time stamp (wall clock) into an instant no later than `now`.
    ///
    /// The wall clock may have been set since the start, so the difference between both clocks is read anew.
    pub(crate) fn instant_of_stamp(&self, stamp: Duration, now: Instant) -> Instant {
        let age = Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME)).saturating_sub(stamp);
        // A stamp over a second old on a socket that was just polled is a clock that was set, not a delay.
        if age > Duration::from_secs(1) { now } else { (self.now() - age).min(now) }
    }

    /// An instant of this run as time of `CLOCK_MONOTONIC`, for absolute timers.
    pub fn monotonic(&self, at: Instant) -> Duration {
        Duration::from_nanos(self.zero_nanos.saturating_add(at.as_nanos()))
    }
}

impl Default for OsClock {
    fn default() -> Self {
        OsClock::new()
    }
}

/// Processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanos(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_begins_at_zero_and_never_goes_back() {
        let clock = OsClock::new();
        let mut before = Instant::ZERO;
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= before);
            before = now;
        }
        // A minute would mean that it counts from somewhere else.
        assert!(before < Instant::from_millis(60_000));
        assert_eq!(clock.monotonic(Instant::ZERO), Duration::from_nanos(clock.zero_nanos));
    }
}
