//! Which packets a member lacked when it reported last: in little memory, as each of a thousand members has it.

/// Ordinals of packets, as stretches of those that follow each other.
#[derive(Debug)]
pub(super) struct Missing {
    /// Ordinal from which on others are counted.
    base: u64,
    /// First and one behind the last of each stretch, ascending.
    stretches: Vec<(u32, u32)>,
    packets: usize,
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

    /// Adds an ordinal above all others. False: there is no room for it.
    pub fn push(&mut self, ordinal: u64) -> bool {
        let at = (ordinal - self.base) as u32;
        if self.packets >= MOST_MISSING {
            return false;
        }
        let has_room = self.stretches.len() < MOST_STRETCHES;
        match self.stretches.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ if has_room => self.stretches.push((at, at + 1)),
            _ => return false,
        }
        self.packets += 1;
        true
    }

    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub fn contains(&self, ordinal: u64) -> bool {
        self.from(ordinal).next() == Some(ordinal)
    }

    /// Those from this ordinal on.
    pub fn from(&self, ordinal: u64) -> impl Iterator<Item = u64> + '_ {
        let least = ordinal.saturating_sub(self.base);
        let at = self.stretches.partition_point(|(_, end)| u64::from(*end) <= least);
        let behind = move |(first, end): &(u32, u32)| u64::from(*first).max(least)..u64::from(*end);
        self.stretches[at..].iter().flat_map(behind).map(|at| self.base + at)
    }

    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.from(0)
    }
}

/// Missing packets that are remembered for a member; further ones are found in its next report.
const MOST_MISSING: usize = 256;
/// The same for stretches of them: those of the longest report, and some that repairs on their way divide.
const MOST_STRETCHES: usize = 80;
const _: () = assert!(MOST_STRETCHES > crate::xtp::incoming::MOST_SPANS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_hold_what_was_put_in_and_nothing_else() {
        let mut missing = Missing::new();
        missing.restart(1_000);
        let ordinals = [1_000, 1_001, 1_005, 1_007, 1_008, 1_009, 2_000];
        assert!(ordinals.iter().all(|ordinal| missing.push(*ordinal)));
        assert_eq!(missing.stretches.len(), 4);
        assert!(missing.all().eq(ordinals));
        for at in 900..2_100 {
            assert_eq!(missing.contains(at), ordinals.contains(&at), "{at}");
            assert!(missing.from(at).eq(ordinals.iter().copied().filter(|ordinal| *ordinal >= at)), "{at}");
        }
        missing.restart(7);
        assert!(missing.is_empty() && missing.all().next().is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        for step in [1, 2] {
            let mut missing = Missing::new();
            let taken = (0..1_000).take_while(|at| missing.push(at * step)).count();
            assert_eq!(taken, if step == 1 { MOST_MISSING } else { MOST_STRETCHES });
            assert!(missing.stretches.capacity() == MOST_STRETCHES && missing.all().count() == taken);
        }
    }
}
