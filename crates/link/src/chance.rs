//! Elements that decide by one draw per packet: duplication and corruption.

use antiphon_core::{Instant, Ratio};

use crate::draws::Draws;
use crate::packet::Counters;

/// Strikes a share of the packets, independently: duplicates them, or inverts one random bit.
pub struct Chance {
    share: Ratio,
    draws: Draws,
    pub(crate) counters: Counters,
}

impl Chance {
    /// Strikes packets with probability `share`; `label` tells the elements of one link apart.
    pub fn new(label: &str, share: Ratio, seed: u64) -> Self {
        Chance { share, draws: Draws::new(seed, label), counters: Counters::default() }
    }

    /// Whether it strikes the packet that comes at `now`.
    pub fn strikes(&mut self, now: Instant) -> bool {
        // An element that never strikes needs no draws, and no other one uses them.
        self.share.0 > 0.0 && self.draws.at(now).chance(self.share.0)
    }

    /// The bit to invert (modulo its length) of the packet that comes at `now`, if it strikes that.
    pub fn strikes_bit(&mut self, now: Instant) -> Option<u64> {
        if self.share.0 <= 0.0 {
            return None;
        }
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
        let mut duplication = Chance::new("duplicate", Ratio(0.03), 4);
        let doubled =
            (0..n).filter(|n| duplication.strikes(Instant::from_micros(u64::from(*n) * 300))).count() as f64
                / f64::from(n);
        assert!((doubled - 0.03).abs() < 3.0 * sigma, "{doubled}");
        let mut corruption = Chance::new("corrupt", Ratio(0.03), 4);
        let bits: Vec<u64> =
            (0..n).filter_map(|n| corruption.strikes_bit(Instant::from_micros(u64::from(n) * 300))).collect();
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
