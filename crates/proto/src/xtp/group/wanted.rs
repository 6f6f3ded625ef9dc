//! The packets that some member lacks, while a round of repairs is made: a bit for each that is held.

/// A set of ordinals.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    base: u64,
    bits: Vec<u64>,
}

impl Wanted {
    /// Makes room for so many ordinals.
    pub fn reserve(&mut self, ordinals: usize) {
        self.bits.reserve(words(ordinals).saturating_sub(self.bits.len()));
    }

    /// Empties it, for ordinals from `base` on, so many at most.
    pub fn restart(&mut self, base: u64, ordinals: usize) {
        self.base = base;
        self.bits.clear();
        self.bits.resize(words(ordinals), 0);
    }

    pub fn insert(&mut self, ordinal: u64) {
        let at = ordinal - self.base;
        self.bits[(at / 64) as usize] |= 1 << (at % 64);
    }

    /// Removes the first, and what is among the 64 from it on. Returns it and which these are.
    pub fn take_stretch(&mut self) -> Option<(u64, u64)> {
        let word = self.bits.iter().position(|bits| *bits != 0)?;
        let shift = self.bits[word].trailing_zeros();
        let mut mask = self.bits[word] >> shift;
        self.bits[word] = 0;
        if shift > 0 {
            // There is a word behind the last ordinal.
            let next = &mut self.bits[word + 1];
            mask |= *next << (64 - shift);
            *next = *next >> shift << shift;
        }
        Some((self.base + 64 * word as u64 + u64::from(shift), mask))
    }
}

fn words(ordinals: usize) -> usize {
    ordinals / 64 + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_begin_with_what_is_wanted_and_reach_64_far() {
        let ordinals = [1_000, 1_001, 1_063, 1_064, 1_100, 1_127, 1_128, 1_500, 1_999];
        let mut wanted = Wanted::default();
        for _ in 0..2 {
            wanted.restart(990, 1_010);
            ordinals.iter().for_each(|ordinal| wanted.insert(*ordinal));
            let mut found = Vec::new();
            let mut firsts = Vec::new();
            while let Some((first, mask)) = wanted.take_stretch() {
                assert!(mask & 1 == 1);
                firsts.push(first);
                found.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| first + bit));
            }
            assert_eq!((&firsts[..], &found[..]), (&[1_000, 1_064, 1_128, 1_500, 1_999][..], &ordinals[..]));
        }
    }
}
