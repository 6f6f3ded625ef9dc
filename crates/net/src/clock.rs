//! The single clock of a run.

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};

use crate::system;

/// The clock that is never set (`CLOCK_MONOTONIC`, on Windows the performance counter), beginning at zero when it is made. Copies share the beginning, so threads agree.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    zero_nanos: u64,
    epoch: Epoch,
}

impl OsClock {
    /// A clock that is at [`Instant::ZERO`] now. Wall time is read only here, so that a step of the wall clock does not
    /// disturb the run.
    pub fn new() -> Self {
        OsClock {
            zero_nanos: system::monotonic_nanos(),
            epoch: Epoch { ntp_at_zero: NtpTime::from_unix(Duration::from_nanos(system::wall_nanos())) },
        }
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(system::monotonic_nanos().saturating_sub(self.zero_nanos))
    }

    /// Wall-clock time of this clock's zero.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Wall-clock time of this clock's zero by the wall clock as it is now: another than [`Self::epoch`] once the wall clock
    /// was set, or the machine was suspended, in which time this clock stands still.
    pub fn epoch_now(&self) -> Epoch {
        self.read().epoch()
    }

    /// Both clocks at one moment.
    pub(crate) fn read(&self) -> Reading {
        let wall = Duration::from_nanos(system::wall_nanos());
        Reading { now: self.now(), wall }
    }

    /// TAI since 1970, as PTP counts it, and when it was read: by the wall clock, which follows PTP's on hosts where `ptp4l` and
    /// `phc2sys` steer it. Where the kernel does not know how far TAI is ahead, it is [`TAI_AHEAD`].
    pub fn tai(&self) -> (Instant, Duration) {
        let ahead = system::tai_ahead().unwrap_or(TAI_AHEAD);
        // A thread that is held up between the two clocks reads them again.
        let read = || {
            let before = self.now();
            let wall = Duration::from_nanos(system::wall_nanos());
            (self.now().since(before), before, wall)
        };
        let readings = [read(), read(), read()];
        let (took, before, wall) =
            readings.into_iter().min_by_key(|(took, ..)| *took).expect("there are three");
        (before + took / 2, wall + ahead)
    }

    /// Whether a time service has told the kernel how far TAI is ahead of UTC, so that [`Self::tai`] is more than taken to be.
    pub fn tai_is_told() -> bool {
        system::tai_ahead().is_some()
    }

    /// For how long the machine has been suspended since it was started: the clock of a run stands still then. Zero where the system
    /// does not tell.
    pub fn suspended() -> Duration {
        system::suspended()
    }

    /// An instant of this run as time of `CLOCK_MONOTONIC`, for absolute timers.
    pub fn monotonic(&self, at: Instant) -> Duration {
        Duration::from_nanos(self.zero_nanos.saturating_add(at.as_nanos()))
    }
}

/// The clock of the run and the one on the wall, read at one moment: the kernel stamps what it receives with the latter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    /// The present instant.
    pub now: Instant,
    /// Time since 1970. The wall clock may have been set since the start, so it is read each time.
    wall: Duration,
}

impl Reading {
    /// Wall-clock time when the clock of the run was at zero.
    fn epoch(self) -> Epoch {
        let run = Duration::from_nanos(self.now.as_nanos());
        Epoch { ntp_at_zero: NtpTime::from_unix(self.wall.saturating_sub(run)) }
    }

    /// Turns the kernel's receive time stamp (wall clock) into an instant no later than now; without one, it is now.
    pub fn instant_of(&self, stamp: Option<Duration>) -> Instant {
        let Some(stamp) = stamp else { return self.now };
        let age = self.wall.saturating_sub(stamp);
        // A stamp over a second old on a socket that was just polled means that the clock was set, not a delay.
        if age > Duration::from_secs(1) { self.now } else { self.now - age }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        OsClock::new()
    }
}

/// TAI is ahead of UTC by so much since 2017 (IERS, Bulletin C 52); until 2035 no leap second is expected.
pub const TAI_AHEAD: Duration = Duration::from_secs(37);

/// Processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(system::thread_cpu_nanos())
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
        // A minute would mean that it counts from another origin.
        assert!(before < Instant::from_millis(60_000));
        assert_eq!(clock.monotonic(Instant::ZERO), Duration::from_nanos(clock.zero_nanos));
    }

    #[test]
    fn tai_is_ahead_of_the_wall_clock_by_whole_seconds() {
        let clock = OsClock::new();
        let (at, tai) = clock.tai();
        let wall = Duration::from_nanos(system::wall_nanos());
        let ahead = tai + clock.now().since(at) - wall;
        let expected = system::tai_ahead().unwrap_or(TAI_AHEAD);
        assert!(ahead.abs_diff(expected) < Duration::from_millis(500), "{ahead:?}, not {expected:?}");
    }

    #[test]
    fn the_epoch_moves_by_what_the_wall_clock_was_set() {
        let clock = OsClock::new();
        let error = clock.epoch_now().ntp_at_zero.signed_nanos_since(clock.epoch().ntp_at_zero);
        assert!(error.abs() < 1_000_000_000, "{error} ns");
        let at = |run_s: u64, wall_s: u64| {
            let reading =
                Reading { now: Instant::from_millis(1000 * run_s), wall: Duration::from_secs(wall_s) };
            reading.epoch().ntp_at_zero
        };
        let before = at(5, 1_700_000_005);
        assert_eq!(at(65, 1_700_000_065), before);
        // The machine slept for an hour, in which the clock of the run stood still.
        assert_eq!(at(65, 1_700_003_665).signed_nanos_since(before), 3_600_000_000_000);
    }

    #[test]
    fn stamps_become_instants_that_are_not_in_the_future() {
        let (now, wall) = (Instant::from_millis(5_000), Duration::from_secs(1_700_000_000));
        let reading = Reading { now, wall };
        let ms = Duration::from_millis;
        assert_eq!(reading.instant_of(None), now);
        assert_eq!(reading.instant_of(Some(wall - ms(3))), now - ms(3));
        assert_eq!(reading.instant_of(Some(wall + ms(3))), now, "the wall clock was set back");
        assert_eq!(reading.instant_of(Some(wall - ms(1_001))), now, "the wall clock was set on");
    }
}
