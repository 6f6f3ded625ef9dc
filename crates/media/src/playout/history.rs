//! Records which packets arrived and which never did.

/// Remembers the last numbers, to distinguish a repetition, a late packet and a loss.
#[derive(Clone, Debug)]
pub(super) struct History {
    seen: Vec<u64>,
    base: Option<u64>,
    highest: u64,
    /// Highest number whose fate is known: missing ones below it are lost.
    passed: Option<u64>,
    /// Numbers whose fate is known.
    resolved: u64,
}

/// Whether a number is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Novelty {
    New { reordered: bool },
    Repeated,
    TooOld,
}

impl History {
    pub fn new() -> Self {
        History { seen: vec![0; (SPAN / 64) as usize], base: None, highest: 0, passed: None, resolved: 0 }
    }

    pub fn note(&mut self, sequence: u64) -> Novelty {
        let Some(base) = self.base else {
            (self.base, self.highest) = (Some(sequence), sequence);
            self.set(sequence);
            return Novelty::New { reordered: false };
        };
        if sequence > self.highest {
            for gone in self.highest + 1..=sequence.min(self.highest + SPAN) {
                self.clear(gone);
            }
            self.highest = sequence;
            self.set(sequence);
            return Novelty::New { reordered: false };
        }
        if self.highest - sequence >= SPAN {
            return Novelty::TooOld;
        }
        let (word, bit) = place(sequence);
        if self.seen[word] & bit != 0 {
            return Novelty::Repeated;
        }
        self.set(sequence);
        self.base = Some(base.min(sequence));
        Novelty::New { reordered: true }
    }

    /// Records that the fate of an arrived number is known.
    pub fn resolve(&mut self, sequence: u64) {
        self.resolved += 1;
        self.passed = Some(self.passed.map_or(sequence, |passed| passed.max(sequence)));
    }

    pub fn is_passed(&self, sequence: u64) -> bool {
        self.passed.is_some_and(|passed| sequence < passed)
    }

    /// Numbers below the highest passed that never arrived; `overtaken` of them are here and wait.
    pub fn lost(&self, overtaken: u64) -> u64 {
        let (Some(base), Some(passed)) = (self.base, self.passed) else {
            return 0;
        };
        (passed - base.min(passed) + 1).saturating_sub(self.resolved + overtaken)
    }

    fn set(&mut self, sequence: u64) {
        let (word, bit) = place(sequence);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, sequence: u64) {
        let (word, bit) = place(sequence);
        self.seen[word] &= !bit;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % SPAN;
    ((at / 64) as usize, 1 << (at % 64))
}

/// Numbers remembered: 5 s of the shortest packets (16 sample frames at 48 kHz), 43 s of 256, in 2 kB.
const SPAN: u64 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_neither_new_nor_repeated() {
        let mut history = History::new();
        let new = |reordered| Novelty::New { reordered };
        assert_eq!(history.note(5), new(false));
        assert_eq!((history.note(SPAN + 4), history.note(5)), (new(false), Novelty::Repeated));
        assert_eq!((history.note(SPAN + 5), history.note(5)), (new(false), Novelty::TooOld));
        // The slots of forgotten numbers are free again.
        assert_eq!((history.note(SPAN + 3), history.note(3 * SPAN)), (new(true), new(false)));
        assert_eq!(history.note(2 * SPAN + 4), new(true));
    }

    #[test]
    fn losses_before_the_first_arrival_count_from_the_first_number() {
        let mut history = History::new();
        for sequence in [12, 10] {
            history.note(sequence);
            history.resolve(sequence);
        }
        assert_eq!((history.lost(0), history.is_passed(11), history.is_passed(12)), (1, true, false));
    }
}
