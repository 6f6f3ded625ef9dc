//! The operating system's clocks as `core::Instant` and `core::Epoch`.
#![allow(unsafe_code, reason = "clock_gettime has no safe wrapper that also reads a thread's CPU time")]

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};

/// The monotonic clock, counted from the moment this value was made.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    start: Duration,
    epoch: Epoch,
}

impl OsClock {
    /// A clock whose [`Instant::ZERO`] is now.
    pub fn start() -> Self {
        // Two readings of the monotonic clock around the wall clock: their middle belongs to it.
        let before = read(libc::CLOCK_MONOTONIC);
        let wall = read(libc::CLOCK_REALTIME);
        let after = read(libc::CLOCK_MONOTONIC);
        let start = before + (after - before) / 2;
        OsClock { start, epoch: Epoch { ntp_at_zero: NtpTime::from_unix(wall) } }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(read(libc::CLOCK_MONOTONIC).saturating_sub(self.start).as_nanos() as u64)
    }

    /// Where [`Instant::ZERO`] stands on the wall.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Turns the kernel's receive time stamp (wall clock) into an instant no later than `now`.
    ///
    /// The wall clock may have been set since the start, so the difference between both clocks is read anew.
    pub(crate) fn instant_of_stamp(&self, stamp: Duration, now: Instant) -> Instant {
        let age = read(libc::CLOCK_REALTIME).saturating_sub(stamp);
        // A stamp over a second old on a socket that was just polled is a clock that was set, not a delay.
        if age > Duration::from_secs(1) { now } else { (self.now() - age).min(now) }
    }
}

/// Processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the clocks used here exist on every Linux.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "clock_gettime knows the clocks that this module names");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
