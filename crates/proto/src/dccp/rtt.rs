//! Round-trip time within DCCP's bounds, and the time-out drawn from it (RFC 6298 §2, as RFC 4341 §5 asks for).

use std::time::Duration;

/// Smoothed round-trip time, its variation, the shortest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt(crate::rtt::Rtt);

impl Rtt {
    /// Folds in one round trip, the peer's delay taken off. Numbers are never used twice, so every sample is good.
    pub fn on_sample(&mut self, sample: Duration) {
        self.0.on_sample(sample.clamp(SHORTEST, LONGEST));
    }

    /// SRTT, once something was measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.0.srtt()
    }

    /// SRTT, or RFC 4340's stand-in before the first measurement.
    pub fn estimate(&self) -> Duration {
        self.srtt().unwrap_or(UNMEASURED)
    }

    /// RTTVAR, once something was measured.
    pub fn rttvar(&self) -> Option<Duration> {
        self.0.rttvar()
    }

    /// The shortest round trip, once something was measured.
    pub fn min(&self) -> Option<Duration> {
        self.0.min()
    }

    /// The same without DCCP's stand-ins.
    pub fn smoothed(&self) -> &crate::rtt::Rtt {
        &self.0
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
