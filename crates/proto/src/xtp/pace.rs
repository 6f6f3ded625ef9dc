//! Rate and burst control: credit of a burst, refilled whenever its bytes have had their time.

use std::time::Duration;

use antiphon_core::Instant;

/// How fast packets may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Own limit, in bytes per second and bytes; 0: none.
    own: (u32, u32),
    /// The peer's.
    peer: (u32, u32),
    credit: u64,
    /// When the credit was last a whole burst (RTIMER).
    filled_at: Instant,
    /// A packet waits for credit.
    waits: bool,
}

impl Pace {
    /// `rate` in bytes per second, 0 for none; `burst` in bytes.
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        Pace { own: (rate, burst), peer: (0, 0), credit: u64::from(burst), filled_at: now, waits: false }
    }

    /// The peer wants no more than this; 0: as much as we like.
    pub fn limit(&mut self, rate: u32, burst: u32) {
        // A burst of less than a packet would let none leave.
        self.peer = (rate, burst.max(LEAST_BURST));
    }

    /// Rate and burst of the stricter limit.
    fn limits(&self) -> Option<(u32, u32)> {
        [self.own, self.peer].into_iter().filter(|(rate, _)| *rate > 0).min()
    }

    /// The rate in bits per second, if there is a limit.
    pub fn rate(&self) -> Option<u64> {
        self.limits().map(|(rate, _)| 8 * u64::from(rate))
    }

    /// The time in which the rate carries a burst.
    fn period(rate: u32, burst: u32) -> Duration {
        Duration::from_nanos(u64::from(burst) * 1_000_000_000 / u64::from(rate))
    }

    /// Whether a packet of `len` bytes may leave now; it then counts.
    pub fn take(&mut self, now: Instant, len: usize) -> bool {
        let Some((rate, burst)) = self.limits() else { return true };
        if now.since(self.filled_at) >= Self::period(rate, burst) {
            self.credit = u64::from(burst);
            self.filled_at = now;
        }
        self.waits = self.credit < len as u64;
        if !self.waits {
            self.credit -= len as u64;
        }
        !self.waits
    }

    /// When a waiting packet may leave.
    pub fn next(&self) -> Option<Instant> {
        let (rate, burst) = self.limits().filter(|_| self.waits)?;
        Some(self.filled_at + Self::period(rate, burst))
    }

    /// The time has come, or not.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.next().is_some_and(|at| at <= now) {
            self.waits = false;
        }
    }
}

/// A packet of an Ethernet path.
const LEAST_BURST: u32 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_leaves_at_once_and_the_rate_holds_on_average() {
        let start = Instant::from_millis(100);
        let mut pace = Pace::new(100_000, 3_000, start);
        let (mut now, mut sent, mut at_once) = (start, 0, 0);
        while now < start + Duration::from_secs(10) {
            if pace.take(now, 1_000) {
                sent += 1_000;
                at_once += 1;
            } else {
                assert!(at_once <= 3, "no more than a burst");
                at_once = 0;
                now = pace.next().expect("a packet waits");
                pace.on_timeout(now);
                assert_eq!(pace.next(), None, "spent");
            }
        }
        assert!((1_000_000..=1_003_000).contains(&sent), "{sent} bytes in 10 s");
    }

    #[test]
    fn the_stricter_limit_counts_and_none_is_none() {
        let now = Instant::ZERO;
        let mut pace = Pace::new(0, 0, now);
        assert!((0..1000).all(|_| pace.take(now, 1500)) && pace.rate().is_none());
        pace.limit(10_000, 1);
        assert_eq!(pace.rate(), Some(80_000));
        let mut pace = Pace::new(5_000, 2_000, now);
        pace.limit(10_000, 3_000);
        assert_eq!(pace.rate(), Some(40_000));
    }
}
