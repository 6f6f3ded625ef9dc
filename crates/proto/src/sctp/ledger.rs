//! What the library was given and has not yet told the end of.

use std::collections::VecDeque;

use antiphon_core::FrameId;

/// Frames in the library's hands, by the numbers under which it reports on them.
#[derive(Debug)]
pub(super) struct Ledger {
    entries: VecDeque<Entry>,
    /// The library's number of the first entry; it takes no 0.
    first: u64,
    open: usize,
    bytes: usize,
}

/// A frame in the library's hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub id: FrameId,
    pub len: usize,
    /// Whether all of it has been on the wire.
    pub sent: bool,
    /// Whether its end has been told.
    told: bool,
}

impl Ledger {
    /// A ledger with room made for `most` entries.
    pub fn new(most: usize) -> Self {
        Ledger { entries: VecDeque::with_capacity(most), first: 1, open: 0, bytes: 0 }
    }

    /// Enters a frame and gives it its number.
    pub fn enter(&mut self, id: FrameId, len: usize) -> u64 {
        self.entries.push_back(Entry { id, len, sent: false, told: false });
        (self.open, self.bytes) = (self.open + 1, self.bytes + len);
        self.first + self.entries.len() as u64 - 1
    }

    /// Notes that all of a frame has been on the wire.
    pub fn mark_sent(&mut self, number: u64) {
        if let Some(entry) = self.at(number) {
            entry.sent = true;
        }
    }

    /// Closes an entry, the first time only.
    pub fn close(&mut self, number: u64) -> Option<Entry> {
        let entry = self.at(number).filter(|entry| !entry.told)?;
        entry.told = true;
        let closed = *entry;
        (self.open, self.bytes) = (self.open - 1, self.bytes - closed.len);
        while self.entries.front().is_some_and(|entry| entry.told) {
            self.entries.pop_front();
            self.first += 1;
        }
        Some(closed)
    }

    /// The numbers of the entries not closed yet for which `choose` holds; the next after `from`.
    pub fn next_open(&self, from: u64, choose: impl Fn(&Entry) -> bool) -> Option<u64> {
        let skip = from.saturating_sub(self.first) as usize;
        let found = self.entries.iter().skip(skip).position(|entry| !entry.told && choose(entry))?;
        Some(self.first + (skip + found) as u64)
    }

    /// Entries kept, told or not: a told one waits for those before it.
    pub fn kept(&self) -> usize {
        self.entries.len()
    }

    /// Whether every entry is closed.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Bytes of the frames not closed yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn at(&mut self, number: u64) -> Option<&mut Entry> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_close_once_in_any_order() {
        let mut ledger = Ledger::new(4);
        let numbers: Vec<u64> = (0..4).map(|n| ledger.enter(FrameId(10 + n), 100)).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        ledger.mark_sent(2);
        assert_eq!(ledger.close(2).map(|entry| (entry.id, entry.sent)), Some((FrameId(11), true)));
        assert_eq!((ledger.close(2), ledger.close(0), ledger.close(9)), (None, None, None));
        assert_eq!((ledger.kept(), ledger.bytes()), (4, 300));
        assert!(ledger.close(1).is_some_and(|entry| !entry.sent));
        assert_eq!(ledger.kept(), 2, "those told at the front are gone");
        assert_eq!((ledger.next_open(0, |_| true), ledger.next_open(4, |_| true)), (Some(3), Some(4)));
        assert_eq!(ledger.close(1), None, "an old number is not mistaken for a new one");
        assert_eq!(ledger.enter(FrameId(14), 1), 5);
        for number in 3..=5 {
            ledger.close(number).unwrap();
        }
        assert!(ledger.is_empty() && ledger.kept() == 0 && ledger.next_open(0, |_| true).is_none());
    }
}
