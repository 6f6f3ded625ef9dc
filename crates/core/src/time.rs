//! Three clocks, three types: [`Instant`] for the run, [`MediaTime`] for the sound, [`NtpTime`] for wall-clock time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Default playout delay: how far sound may be from its picture unnoticed, by the papers on TV sound.
pub const DEFAULT_LATENCY: Duration = Duration::from_millis(80);

/// Nanoseconds since the run began, on a clock that never goes back.
///
/// The driver owns time: `net` reads the operating system's monotonic clock, `lab` jumps from event to event. State
/// machines see only the instants passed to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The beginning of the run.
    pub const ZERO: Instant = Instant(0);

    /// The instant `nanos` nanoseconds after the beginning of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The instant `micros` microseconds after the beginning of the run.
    pub const fn from_micros(micros: u64) -> Self {
        Instant(micros * 1_000)
    }

    /// The instant `millis` milliseconds after the beginning of the run.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis * 1_000_000)
    }

    /// Nanoseconds since the beginning of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Signed difference to `other` in nanoseconds: positive when `self` is later.
    pub fn signed_nanos_since(self, other: Instant) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// `self` moved by a signed number of nanoseconds, limited to the beginning of the run.
    pub fn offset_nanos(self, nanos: i64) -> Instant {
        Instant(self.0.saturating_add_signed(nanos))
    }
}

/// In 64 bits, which hold 584 years: [`Duration::as_nanos`] has 128, and every event of the laboratory adds some durations.
#[inline]
fn saturating_nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates some 584 years after the beginning of the run.
    #[inline]
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(saturating_nanos(d)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    /// Limited to the beginning of the run.
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(saturating_nanos(d)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A position in a stream of sound: `frames` sample frames at `rate` sample frames per second.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MediaTime {
    /// Sample frames since the stream began.
    pub frames: u64,
    /// Sample frames per second; never zero in a value made by [`MediaTime::new`].
    pub rate: u32,
}

impl MediaTime {
    /// A position of `frames` sample frames at `rate` sample frames per second (at least 1).
    pub fn new(frames: u64, rate: u32) -> Self {
        MediaTime { frames, rate: rate.max(1) }
    }

    /// How long the sound up to this position lasts, rounded down to a nanosecond.
    pub fn duration(self) -> Duration {
        frames_to_duration(self.frames, self.rate)
    }
}

/// `frames` sample frames at `rate` per second as a duration, rounded down; computed from the total: no drift.
fn frames_to_duration(frames: u64, rate: u32) -> Duration {
    let rate = rate.max(1);
    // 64-bit divisions are many times as fast, and suffice for the first four days at 48 kHz.
    if let Some(nanos) = frames.checked_mul(1_000_000_000) {
        return Duration::from_nanos(nanos / u64::from(rate));
    }
    let nanos = u128::from(frames) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Wall-clock time as NTP writes it: seconds since 1900 in 32.32 fixed point (RFC 5905 §6, wraps in 2036).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NtpTime(u64);

impl NtpTime {
    /// Seconds from the NTP epoch (1900) to the Unix epoch (1970): RFC 868's 2 208 988 800.
    pub const UNIX_OFFSET_SECONDS: u64 = 2_208_988_800;

    /// The value on the wire: 32 bits of seconds, 32 of fraction.
    pub const fn from_bits(bits: u64) -> Self {
        NtpTime(bits)
    }

    /// The value on the wire.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The middle 32 bits, as RTCP reports carry them (RFC 3550 §6.4.1, LSR).
    pub const fn middle_bits(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// From a duration since the Unix epoch.
    pub fn from_unix(since_1970: Duration) -> Self {
        let seconds = since_1970.as_secs().wrapping_add(Self::UNIX_OFFSET_SECONDS) & 0xffff_ffff;
        let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
        NtpTime((seconds << 32) | fraction)
    }

    /// `self` moved forward by `d`, wrapping with the era.
    pub fn plus(self, d: Duration) -> Self {
        let whole = d.as_secs() << 32;
        let fraction = (u64::from(d.subsec_nanos()) << 32) / 1_000_000_000;
        NtpTime(self.0.wrapping_add(whole).wrapping_add(fraction))
    }

    /// Signed nanoseconds from `earlier` to `self`, correct across an era boundary for differences under 68 years.
    pub fn signed_nanos_since(self, earlier: NtpTime) -> i64 {
        let difference = self.0.wrapping_sub(earlier.0) as i64;
        ((i128::from(difference) * 1_000_000_000) >> 32) as i64
    }
}

/// Wall-clock time of the run's zero: turns an [`Instant`] into an [`NtpTime`] without reading a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Epoch {
    /// Wall time at [`Instant::ZERO`].
    pub ntp_at_zero: NtpTime,
}

impl Epoch {
    /// Wall time at `now`.
    pub fn ntp(&self, now: Instant) -> NtpTime {
        self.ntp_at_zero.plus(Duration::from_nanos(now.as_nanos()))
    }

    /// The instant of a wall time near this run; `None` if it lies before the run began.
    pub fn instant(&self, ntp: NtpTime) -> Option<Instant> {
        u64::try_from(ntp.signed_nanos_since(self.ntp_at_zero)).ok().map(Instant::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_saturate_at_both_ends() {
        assert_eq!(Instant::from_nanos(5) - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::from_nanos(u64::MAX) + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(Instant::from_millis(2).since(Instant::from_millis(5)), Duration::ZERO);
        assert_eq!(Instant::from_millis(2).signed_nanos_since(Instant::from_millis(5)), -3_000_000);
    }

    #[test]
    fn media_time_does_not_drift() {
        // A day of 256-frame blocks at 44.1 kHz: 86 400 s is a whole number of sample frames.
        assert_eq!(MediaTime::new(44_100 * 86_400, 44_100).duration(), Duration::from_secs(86_400));
        assert_eq!(MediaTime::new(1, 48_000).duration(), Duration::from_nanos(20_833));
    }

    #[test]
    fn long_media_times_are_as_exact_as_short_ones() {
        // On both sides of the point where nanoseconds of sample frames exceed 64 bits.
        let most = u64::MAX / 1_000_000_000;
        for frames in [most - 1, most, most + 1, 2 * most, 1 << 40] {
            for rate in [8_000, 44_100, 48_000, 192_000] {
                let nanos = u128::from(frames) * 1_000_000_000 / u128::from(rate);
                assert_eq!(MediaTime::new(frames, rate).duration().as_nanos(), nanos, "{frames} at {rate}");
            }
        }
        assert_eq!(MediaTime::new(u64::MAX, 1).duration(), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn ntp_differences_cross_the_era() {
        let before = NtpTime::from_bits(u64::MAX - (1 << 31));
        let after = before.plus(Duration::from_millis(1_500));
        assert!(after.to_bits() < before.to_bits());
        assert!((after.signed_nanos_since(before) - 1_500_000_000).abs() <= 1);
    }

    #[test]
    fn epoch_maps_both_ways() {
        let epoch = Epoch { ntp_at_zero: NtpTime::from_unix(Duration::from_secs(1_700_000_000)) };
        let at = Instant::from_millis(12_345);
        let back = epoch.instant(epoch.ntp(at)).expect("after the beginning");
        assert!(back.signed_nanos_since(at).abs() <= 1);
        assert_eq!(epoch.instant(NtpTime::from_unix(Duration::from_secs(1_600_000_000))), None);
    }
}
