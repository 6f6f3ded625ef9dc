//! Token bucket: a shaper ([`Queue`](crate::Queue)) makes a packet wait until it conforms.

use std::time::Duration;

use antiphon_core::{BitRate, ByteCount, Instant};

/// Tokens accumulate at a rate, up to a depth; a packet takes as many as it has bytes.
///
/// Over any time t at most r t + b passes. Counted in whole billionths of a bit: at any rate a nanosecond adds a whole
/// number, so nothing is rounded and nothing drifts.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: BitRate,
    depth: u64,
    tokens: u64,
    /// When the bucket had that many.
    at: Instant,
}

impl TokenBucket {
    /// A full bucket. A rate of zero counts as 1 bit/s; depths beyond 1 GB are reduced to 1 GB.
    pub fn new(rate: BitRate, depth: ByteCount) -> Self {
        let depth = nano_bits(depth.0.min(MAX_DEPTH));
        TokenBucket { rate: BitRate(rate.0.max(1)), depth, tokens: depth, at: Instant::ZERO }
    }

    /// The first instant not before `at`, nor before the last packet taken, at which a packet of `len` bytes conforms;
    /// `None` if it is longer than the bucket's depth and never does.
    pub fn ready(&self, at: Instant, len: usize) -> Option<Instant> {
        let need = nano_bits(u64::try_from(len).ok().filter(|len| *len <= MAX_DEPTH)?);
        if need > self.depth {
            return None;
        }
        let at = at.max(self.at);
        let missing = need.saturating_sub(self.level(at));
        Some(at + Duration::from_nanos(missing.div_ceil(self.rate.0)))
    }

    /// Takes the tokens of a packet of `len` bytes at `at`, the instant that [`Self::ready`] returned for it, or later.
    pub fn take(&mut self, at: Instant, len: usize) {
        self.tokens = self.level(at).saturating_sub(nano_bits((len as u64).min(MAX_DEPTH)));
        self.at = at.max(self.at);
    }

    /// Tokens at `at`, in billionths of a bit.
    fn level(&self, at: Instant) -> u64 {
        let gained = u128::from(self.rate.0) * at.since(self.at).as_nanos();
        (u128::from(self.tokens) + gained).min(u128::from(self.depth)) as u64
    }
}

/// 8 × 10¹⁸ billionths of a bit: the most of these limits that fits into 64 bits.
const MAX_DEPTH: u64 = 1_000_000_000;

fn nano_bits(bytes: u64) -> u64 {
    bytes * 8_000_000_000
}

#[cfg(test)]
mod tests {
    use antiphon_core::Rng;

    use super::*;

    const RATE: BitRate = BitRate(8_000_000);
    const DEPTH: u64 = 10_000;

    #[test]
    fn over_any_time_at_most_rate_and_depth_conform() {
        let mut bucket = TokenBucket::new(RATE, ByteCount(DEPTH));
        let mut rng = Rng::fork(1, "arrivals");
        let (mut now, mut passed, mut lowest, mut dropped) = (0u64, 0.0, f64::MAX, 0);
        for _ in 0..300_000 {
            // 800 bytes on average, each 0.4 ms on average: twice the rate.
            now += (rng.exponential() * 400_000.0) as u64;
            let len = 100 + rng.below(1401) as usize;
            let at = Instant::from_nanos(now);
            if bucket.ready(at, len) == Some(at) {
                bucket.take(at, len);
                // What passed after any earlier instant s: out(t) - out(s) <= r (t - s) + b. One byte a nanosecond less
                // the rate is 10⁻³ bytes, so the bound is met to rounding of the floating sum.
                let credit = now as f64 * 1e-3;
                lowest = f64::min(lowest, passed - credit);
                passed += len as f64;
                assert!(passed - credit - lowest <= DEPTH as f64 + 1e-3, "{passed} bytes by {now} ns");
            } else {
                dropped += 1;
            }
        }
        // In overload fewer tokens are left than the last dropped packet needed: the bound is reached within a packet.
        // A bucket that began empty would be short by 10 000 bytes, one that lost fractions of a byte by far more.
        let bound = now as f64 * 1e-3 + DEPTH as f64;
        assert!(passed <= bound && passed > bound - 1600.0, "{passed} of {bound}");
        assert!(dropped > 100_000, "{dropped}");
    }

    #[test]
    fn a_packet_waits_for_exactly_the_tokens_it_lacks() {
        // 1 byte a microsecond, and a rate that no nanosecond divides.
        let mut bucket = TokenBucket::new(RATE, ByteCount(DEPTH));
        bucket.take(Instant::ZERO, 10_000);
        assert_eq!(bucket.ready(Instant::ZERO, 1500), Some(Instant::from_micros(1500)));
        assert_eq!(bucket.ready(Instant::from_micros(1600), 1500), Some(Instant::from_micros(1600)));
        // It holds no more than its depth, and never lets more through at once.
        assert_eq!(bucket.ready(Instant::from_millis(9000), 10_000), Some(Instant::from_millis(9000)));
        assert_eq!(bucket.ready(Instant::ZERO, 10_001), None);
        assert_eq!(bucket.ready(Instant::ZERO, usize::MAX), None);
        let mut odd = TokenBucket::new(BitRate(7_000_003), ByteCount(3000));
        let mut at = Instant::ZERO;
        for _ in 0..70_002 {
            at = odd.ready(at, 1500).expect("not too long");
            odd.take(at, 1500);
        }
        // All but two of the packets wait: 840 Mbit at 7.000003 Mbit/s. Rounding each wait up would add 35 µs.
        let exact = 70_000.0 * 12_000.0 / 7_000_003.0;
        assert!((at.since(Instant::ZERO).as_secs_f64() - exact).abs() < 2e-9, "{at:?}, not {exact}");
    }
}
