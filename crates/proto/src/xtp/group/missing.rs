//! Which packets a member lacked when it reported last: in little memory, as each of a thousand members has it.

use super::gaps::MOST_RANGES;

/// Ordinals of packets, as stretches of those that follow each other.
#[derive(Debug)]
pub(super) struct Missing {
    /// Ordinal from which on others are counted.
    base: u64,
    /// Ascending.
    stretches: Vec<Stretch>,
    packets: usize,
}

/// Packets that follow each other, and that are all seen (`gaps`) or all not.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u16,
    /// How many, and [`SEEN`].
    packets: u16,
}

impl Stretch {
    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.packets & !SEEN)
    }

    fn is_seen(self) -> bool {
        self.packets & SEEN != 0
    }
}

impl Missing {
    pub fn new() -> Self {
        Missing { base: 0, stretches: Vec::with_capacity(MOST_STRETCHES), packets: 0 }
    }

    /// Forgets all. Ordinals from `base` on follow.
    pub fn restart(&mut self, base: u64) {
        *self = Missing { base, stretches: std::mem::take(&mut self.stretches), packets: 0 };
        self.stretches.clear();
    }

    /// Adds an ordinal above all others; `seen`: it follows from combinations and others that are missing. False: there is no room for it.
    pub fn push(&mut self, ordinal: u64, seen: bool) -> bool {
        let Ok(first) = u16::try_from(ordinal - self.base) else { return false };
        if self.packets >= MOST_MISSING {
            return false;
        }
        let has_room = self.stretches.len() < MOST_STRETCHES;
        match self.stretches.last_mut() {
            Some(last) if last.end() == u64::from(first) && last.is_seen() == seen => last.packets += 1,
            _ if has_room => {
                self.stretches.push(Stretch { first, packets: 1 | if seen { SEEN } else { 0 } });
            }
            _ => return false,
        }
        self.packets += 1;
        true
    }

    /// Were all seen, none would be missing: then what the others follow from is behind what was told, and a repair of the last ones helps, too.
    pub fn doubt_last(&mut self) {
        if self.stretches.iter().all(|stretch| stretch.is_seen())
            && let Some(last) = self.stretches.last_mut()
        {
            last.packets &= !SEEN;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub fn contains(&self, ordinal: u64) -> bool {
        self.from(ordinal).next() == Some(ordinal)
    }

    /// Those from this ordinal on, and whether each is seen.
    fn marked_from(&self, ordinal: u64) -> impl Iterator<Item = (u64, bool)> + '_ {
        let least = ordinal.saturating_sub(self.base);
        let at = self.stretches.partition_point(|stretch| stretch.end() <= least);
        let base = self.base;
        self.stretches[at..].iter().flat_map(move |stretch| {
            let seen = stretch.is_seen();
            (u64::from(stretch.first).max(least)..stretch.end()).map(move |at| (base + at, seen))
        })
    }

    /// Those from this ordinal on.
    pub fn from(&self, ordinal: u64) -> impl Iterator<Item = u64> + '_ {
        self.marked_from(ordinal).map(|(ordinal, _)| ordinal)
    }

    /// Those of them that are not seen: of as many a repair is needed.
    pub fn unseen_from(&self, ordinal: u64) -> impl Iterator<Item = u64> + '_ {
        self.marked_from(ordinal).filter(|(_, seen)| !seen).map(|(ordinal, _)| ordinal)
    }

    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.from(0)
    }
}

/// Missing packets that are remembered for a member; further ones are found in its next report.
const MOST_MISSING: usize = 256;
/// The same for stretches of them: those of the longest report, and some that repairs on their way divide.
const MOST_STRETCHES: usize = 160;
const _: () = assert!(MOST_STRETCHES > MOST_RANGES && MOST_MISSING < SEEN as usize);
/// The packets of a stretch are seen.
const SEEN: u16 = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_hold_what_was_put_in_and_nothing_else() {
        let mut missing = Missing::new();
        missing.restart(1_000);
        let ordinals = [1_000, 1_001, 1_005, 1_007, 1_008, 1_009, 2_000];
        assert!(ordinals.iter().all(|ordinal| missing.push(*ordinal, false)));
        assert_eq!(missing.stretches.len(), 4);
        assert!(missing.all().eq(ordinals));
        for at in 900..2_100 {
            assert_eq!(missing.contains(at), ordinals.contains(&at), "{at}");
            assert!(missing.from(at).eq(ordinals.iter().copied().filter(|ordinal| *ordinal >= at)), "{at}");
        }
        missing.restart(7);
        assert!(missing.is_empty() && missing.all().next().is_none());
        assert!(!missing.push(7 + (1 << 16), false), "too far behind the first");
    }

    #[test]
    fn what_is_seen_needs_no_repair_unless_all_is() {
        let mut missing = Missing::new();
        missing.restart(10);
        let pushed = [(10, true), (11, true), (12, false), (20, true), (21, true)];
        assert!(pushed.iter().all(|(ordinal, seen)| missing.push(*ordinal, *seen)));
        missing.doubt_last();
        assert!(missing.all().eq([10, 11, 12, 20, 21]) && missing.unseen_from(0).eq([12]));
        assert!(missing.unseen_from(13).next().is_none() && missing.contains(20));
        missing.restart(10);
        assert!([10, 15, 16].iter().all(|ordinal| missing.push(*ordinal, true)));
        missing.doubt_last();
        assert!(missing.unseen_from(0).eq([15, 16]));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        for step in [1, 2] {
            let mut missing = Missing::new();
            let taken = (0..1_000).take_while(|at| missing.push(at * step, false)).count();
            assert_eq!(taken, if step == 1 { MOST_MISSING } else { MOST_STRETCHES });
            assert!(missing.stretches.capacity() == MOST_STRETCHES && missing.all().count() == taken);
        }
    }
}
