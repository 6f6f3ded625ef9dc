//! Elements that decide by one draw per packet: duplication and corruption.

use antiphon_core::{Instant, Ratio};

use crate::draws::Draws;
use crate::packet::Counters;

/// Sends a share of the packets twice, directly one after the other.
pub struct Duplication {
    share: Ratio,
    draws: Draws,
    pub(crate) counters: Counters,
}

impl Duplication {
    /// Duplicates packets with probability `share`, independently.
    pub fn new(share: Ratio, seed: u64) -> Self {
        Duplication { share, draws: Draws::new(seed, "duplicate"), counters: Counters::default() }
    }

    /// Whether the packet that comes at `now` is duplicated.
    pub fn strikes(&mut self, now: Instant) -> bool {
        self.draws.at(now).chance(self.share.0)
    }
}

/// Inverts one random bit in a share of the packets.
pub struct Corruption {
    share: Ratio,
    draws: Draws,
    pub(crate) counters: Counters,
}

impl Corruption {
    /// Corrupts packets with probability `share`, independently.
    pub fn new(share: Ratio, seed: u64) -> Self {
        Corruption { share, draws: Draws::new(seed, "corrupt"), counters: Counters::default() }
    }

    /// The bit to invert (modulo its length) of the packet that comes at `now`, if it is to be corrupted.
    pub fn strikes(&mut self, now: Instant) -> Option<u64> {
        let mut rng = self.draws.at(now);
        let bit = rng.next_u64();
        rng.chance(self.share.0).then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_agree_and_corrupted_bits_are_uniform() {
        let n = 200_000u32;
        let sigma = (0.03f64 * 0.97 / f64::from(n)).sqrt();
        let mut duplication = Duplication::new(Ratio(0.03), 4);
        let doubled =
            (0..n).filter(|n| duplication.strikes(Instant::from_micros(u64::from(*n) * 300))).count() as f64
                / f64::from(n);
        assert!((doubled - 0.03).abs() < 3.0 * sigma, "{doubled}");
        let mut corruption = Corruption::new(Ratio(0.03), 4);
        let bits: Vec<u64> =
            (0..n).filter_map(|n| corruption.strikes(Instant::from_micros(u64::from(n) * 300))).collect();
        let share = bits.len() as f64 / f64::from(n);
        assert!((share - 0.03).abs() < 3.0 * sigma, "{share}");
        // χ² with 7 degrees of freedom over the bit within the byte: exceeds 24.3 by chance once in a thousand.
        let expected = bits.len() as f64 / 8.0;
        let chi: f64 = (0..8)
            .map(|k| bits.iter().filter(|bit| **bit % 8 == k).count() as f64)
            .map(|count| (count - expected).powi(2) / expected)
            .sum();
        assert!(chi < 24.3, "{chi}");
    }
}
