//! Reassembles messages of several packets from parts in any order.

use crate::pool::Pool;

/// Incomplete messages: beyond a number, a further one replaces the oldest.
pub(super) struct Assemblies {
    most: usize,
    under_way: Vec<Assembly>,
    empty: Vec<Vec<Vec<u8>>>,
    spare: Pool,
    whole: Vec<u8>,
    /// Messages dropped incomplete.
    pub dropped: u64,
}

struct Assembly {
    /// Id of the first part, extended.
    first: u64,
    parts: Vec<Vec<u8>>,
    here: usize,
    repaired: bool,
}

impl Assemblies {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Assemblies {
            most,
            under_way: Vec::with_capacity(MAX_UNDER_WAY),
            empty: Vec::with_capacity(MAX_UNDER_WAY),
            spare: Pool::new(MAX_SPARE),
            whole: Vec::new(),
            dropped: 0,
        }
    }

    /// Takes a new part; returns the message once it is complete, and whether it was repaired.
    pub fn take(
        &mut self,
        first: u64,
        index: usize,
        count: usize,
        data: &[u8],
        repaired: bool,
    ) -> Option<(&[u8], bool)> {
        let known = self.under_way.iter().position(|assembly| assembly.first == first);
        let at = known.unwrap_or_else(|| self.begin(first, count));
        let assembly = &mut self.under_way[at];
        // Two packets that disagree about their message are not from our peer.
        if assembly.parts.len() != count || !assembly.parts[index].is_empty() {
            return None;
        }
        // A last part is shorter: rounded up, its buffer soon fits any other part.
        assembly.parts[index].reserve_exact(data.len().next_power_of_two());
        assembly.parts[index].extend_from_slice(data);
        assembly.here += 1;
        assembly.repaired |= repaired;
        if assembly.here < count {
            return None;
        }
        let done = self.under_way.remove(at);
        let repaired = done.repaired;
        self.whole.clear();
        for part in &done.parts {
            self.whole.extend_from_slice(part);
        }
        self.recycle(done);
        Some((&self.whole, repaired))
    }

    fn begin(&mut self, first: u64, count: usize) -> usize {
        if self.under_way.len() >= self.most {
            self.dropped += 1;
            let oldest = self.under_way.remove(0);
            self.recycle(oldest);
        }
        // More messages are incomplete than ever before: adds a list, which is reused later.
        let mut parts = self.empty.pop().unwrap_or_default();
        parts.extend((0..count).map(|_| self.spare.take()));
        self.under_way.push(Assembly { first, parts, here: 0, repaired: false });
        self.under_way.len() - 1
    }

    fn recycle(&mut self, mut assembly: Assembly) {
        assembly.parts.drain(..).for_each(|part| self.spare.give(part));
        // There are never more lists than the most messages incomplete at once.
        self.empty.push(assembly.parts);
    }

    pub fn clear(&mut self) {
        while let Some(assembly) = self.under_way.pop() {
            self.dropped += 1;
            self.recycle(assembly);
        }
    }
}

/// With 64 parts of an Ethernet packet each, a megabyte and a half at most.
pub(super) const MAX_UNDER_WAY: usize = 16;
const MAX_SPARE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_any_order() {
        let mut assemblies = Assemblies::new(MAX_UNDER_WAY);
        assert_eq!(assemblies.take(7, 2, 3, b"c", false), None);
        assert_eq!(assemblies.take(7, 0, 3, b"aa", true), None);
        assert_eq!(assemblies.take(10, 0, 2, b"x", false), None);
        assert_eq!(assemblies.take(7, 1, 3, b"b", false), Some((&b"aabc"[..], true)));
        assert_eq!(assemblies.take(10, 1, 2, b"y", false), Some((&b"xy"[..], false)));
    }

    #[test]
    fn endless_messages_are_bounded_and_contradictions_refused() {
        let mut assemblies = Assemblies::new(MAX_UNDER_WAY);
        for first in 0..1000 {
            assert_eq!(assemblies.take(100 * first, 0, 64, &[1; 1400], false), None);
        }
        assert_eq!(assemblies.under_way.len(), MAX_UNDER_WAY);
        assert_eq!(assemblies.dropped, 1000 - MAX_UNDER_WAY as u64);
        assert_eq!(assemblies.take(99_900, 1, 2, b"y", false), None, "another count");
        assert_eq!(assemblies.take(99_900, 0, 64, b"y", false), None, "the same part again");
        assert!(assemblies.spare.len() <= MAX_SPARE);
    }
}
