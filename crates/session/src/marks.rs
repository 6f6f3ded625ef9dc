//! Which associations wait for something: a set of places, walked in order.

/// A set of small numbers, one bit each. Finding the next looks at 64 at a time.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
    count: usize,
}

impl Marks {
    /// Holds memory ready for places below `places`.
    pub fn reserve(&mut self, places: usize) {
        self.words.reserve(places.div_ceil(64));
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn contains(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    /// Marks `place`. Allocates only for a place beyond all earlier ones.
    #[inline]
    pub fn set(&mut self, place: usize) {
        if self.words.len() <= place / 64 {
            self.words.resize(place / 64 + 1, 0);
        }
        let (word, bit) = (&mut self.words[place / 64], 1 << (place % 64));
        self.count += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Clears the mark of `place`.
    #[inline]
    pub fn clear(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place / 64) {
            let bit = 1 << (place % 64);
            self.count -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// The first marked place at or after `start`.
    #[inline]
    pub fn next_from(&self, start: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let first = self.words.get(start / 64)? & (u64::MAX << (start % 64));
        let rest = self.words.iter().enumerate().skip(start / 64 + 1).map(|(at, word)| (at, *word));
        let found = std::iter::once((start / 64, first)).chain(rest).find(|(_, word)| *word != 0);
        found.map(|(at, word)| at * 64 + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use antiphon_core::Rng;

    #[test]
    fn marks_are_found_in_order() {
        let (mut rng, mut marks, mut plain) = (Rng::fork(1, "marks"), Marks::default(), BTreeSet::new());
        assert_eq!((marks.next_from(0), marks.next_from(900)), (None, None));
        for _ in 0..20_000 {
            let place = rng.next_u32() as usize % 300;
            if rng.next_u32().is_multiple_of(3) {
                marks.set(place);
                plain.insert(place);
            } else {
                marks.clear(place);
                plain.remove(&place);
            }
            let start = rng.next_u32() as usize % 400;
            let next = plain.range(start..).next().copied();
            assert_eq!(marks.next_from(start), next);
            assert_eq!((marks.contains(start), marks.is_empty()), (plain.contains(&start), plain.is_empty()));
        }
    }
}
