//! Numbers that wrap (RFC 1982): compared by distance, not by value.

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.wrapping_add(1))
            }

            /// The number `n` further on.
            #[must_use]
            pub fn plus(self, n: $inner) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// Signed distance from `other` to `self`, the shorter way around.
            pub fn distance(self, other: Self) -> $signed {
                self.0.wrapping_sub(other.0) as $signed
            }

            /// Whether `self` comes before `other`, by less than half the number space.
            pub fn is_before(self, other: Self) -> bool {
                self.distance(other) < 0
            }
        }
    };
}

serial!(
    /// A 16-bit serial number, such as RTP's sequence number.
    Seq16,
    u16,
    i16
);
serial!(
    /// A 32-bit serial number, such as RTP's time stamp.
    Seq32,
    u32,
    i32
);

/// Unwraps numbers of `BITS` bits, choosing the value nearest the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrapper<const BITS: u32> {
    last: Option<u64>,
}

impl<const BITS: u32> Unwrapper<BITS> {
    /// Extends `low` (its lowest `BITS` bits count). The first call starts in the second cycle, so that numbers
    /// before the first one seen stay positive.
    pub fn extend(&mut self, low: u64) -> u64 {
        let extended = self.peek(low);
        if self.last.is_none_or(|last| extended > last) {
            self.last = Some(extended);
        }
        extended
    }

    /// So many numbers have been skipped: for a jump that the low bits alone would not show, or show the wrong way.
    pub fn skip(&mut self, numbers: u64) {
        self.last = self.last.map(|last| last + numbers);
    }

    /// What [`Self::extend`] would return, without advancing.
    pub fn peek(&self, low: u64) -> u64 {
        let cycle = 1u64 << BITS;
        let low = low & (cycle - 1);
        let Some(last) = self.last else { return cycle + low };
        let candidate = (last & !(cycle - 1)) + low;
        if candidate + cycle / 2 < last {
            candidate + cycle
        } else if candidate > last + cycle / 2 && candidate >= cycle {
            candidate - cycle
        } else {
            candidate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_survives_the_wrap() {
        assert!(Seq16(65_535).is_before(Seq16(0)));
        assert!(!Seq16(0).is_before(Seq16(65_535)));
        assert_eq!(Seq16(2).distance(Seq16(65_534)), 4);
        assert!(Seq32(u32::MAX).is_before(Seq32(5)));
    }

    proptest! {
        #[test]
        fn unwrapping_follows_any_walk_of_small_steps(start in any::<u16>(), steps in prop::collection::vec(-300i64..300, 1..500)) {
            let mut unwrapper = Unwrapper::<16>::default();
            let first = unwrapper.extend(u64::from(start));
            let (mut truth, mut highest) = (first as i64, first as i64);
            for step in steps {
                // A walk must stay within half a cycle below the highest number seen.
                if highest - (truth + step) < 30_000 {
                    truth += step;
                }
                highest = highest.max(truth);
                prop_assert_eq!(unwrapper.extend((truth as u64) & 0xffff) as i64, truth);
            }
        }
    }
}
