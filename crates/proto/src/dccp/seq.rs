//! DCCP's 48-bit sequence numbers.

use antiphon_core::Rng;

/// A 48-bit sequence or acknowledgement number (RFC 4340 §7): compared by distance, never by size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seq48(u64);

impl Seq48 {
    /// The number whose lowest 48 bits are `value`'s.
    pub const fn new(value: u64) -> Self {
        Seq48(value & MASK)
    }

    /// A number that cannot be predicted.
    pub fn random(rng: &mut Rng) -> Self {
        Seq48::new(rng.next_u64())
    }

    /// As a plain number below 2⁴⁸.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The number `n` further on, or back.
    #[must_use]
    pub const fn plus(self, n: i64) -> Self {
        Seq48::new(self.0.wrapping_add(n as u64))
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// Signed distance from `other` to `self` by the shorter way round.
    pub const fn distance(self, other: Self) -> i64 {
        // Shifted up, the sign of the 48-bit difference is the sign of the 64-bit one.
        ((self.0.wrapping_sub(other.0) << 16) as i64) >> 16
    }

    /// Whether `self` comes before `other`, less than half the circle away.
    pub const fn is_before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Whether `self` lies in `low..=high`.
    pub const fn is_within(self, low: Self, high: Self) -> bool {
        !self.is_before(low) && !high.is_before(self)
    }

    /// The later of the two.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

const MASK: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Seq48::new(MASK);
        assert_eq!(last.next(), Seq48::new(0));
        assert!(last.is_before(last.next()) && !last.next().is_before(last));
        assert_eq!(last.plus(5).distance(last.plus(-3)), 8);
        assert_eq!(last.plus(-3).distance(last.plus(5)), -8);
        assert!(last.is_within(last.plus(-1), last.plus(1)));
        assert!(!last.plus(2).is_within(last.plus(-1), last.plus(1)));
        assert_eq!(last.later(last.next()), last.next());
    }
}
