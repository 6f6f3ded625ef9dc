//! Round-trip time within DCCP's bounds, and the time-out drawn from it (RFC 6298 §2, as RFC 4341 §5 asks for).

use std::time::Duration;

/// Smoothed round-trip time, its variation, the shortest, to be read as in the type below it; samples and time-outs are
/// bounded here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt(crate::rtt::Rtt);

impl std::ops::Deref for Rtt {
    type Target = crate::rtt::Rtt;

    fn deref(&self) -> &crate::rtt::Rtt {
        &self.0
    }
}

impl Rtt {
    /// Folds in one round trip, the peer's delay taken off. Numbers are never used twice, so every sample is good.
    pub fn on_sample(&mut self, sample: Duration) {
        self.0.on_sample(sample.clamp(SHORTEST, LONGEST));
    }

    /// SRTT, or RFC 4340's stand-in before the first measurement.
    pub fn estimate(&self) -> Duration {
        self.srtt().unwrap_or(UNMEASURED)
    }

    /// SRTT + 4 RTTVAR; before the first measurement a second (RFC 6298 §2.1).
    pub fn timeout(&self) -> Duration {
        self.0.timeout().unwrap_or(UNMEASURED_TIMEOUT)
    }
}

/// The clock's granularity (Linux clamps at 100 µs; loopback is faster).
const SHORTEST: Duration = Duration::from_micros(20);
/// As in Linux: longer ones are a peer's error, and would stop CCID 3 for minutes.
const LONGEST: Duration = Duration::from_secs(3);
/// RFC 4340 §3.4: "a default round-trip time of 0.2 seconds" where none was measured.
const UNMEASURED: Duration = Duration::from_millis(200);
const UNMEASURED_TIMEOUT: Duration = Duration::from_secs(1);
