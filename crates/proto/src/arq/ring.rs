//! Entries of packets in flight by consecutive numbers, at most [`SPAN`] of them at once. Allocates only when more are
//! in flight than ever before.

use super::wire::SPAN;

/// Entries numbered `first..next`, some of them settled already.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// A power of two, so that neighbouring numbers keep different slots where numbers wrap.
    slots: Vec<Option<T>>,
    first: u64,
    next: u64,
    held: usize,
}

impl<T> Ring<T> {
    /// An empty ring whose first entry will have number `first`.
    pub fn new(first: u64) -> Self {
        Ring { slots: (0..FIRST_SLOTS).map(|_| None).collect(), first, next: first, held: 0 }
    }

    /// Reserves memory for `entries` in flight.
    pub fn reserve(&mut self, entries: usize) {
        while (self.slots.len() as u64) < (entries as u64).min(SPAN) {
            self.grow();
        }
    }

    /// Whether one more may be in flight.
    pub fn has_room(&self) -> bool {
        self.next.wrapping_sub(self.first) < SPAN
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Entries in flight.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The oldest number that is not settled; the next one if all are.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next entry will have.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Puts an entry at the end; only where there [is room](Self::has_room).
    pub fn push(&mut self, entry: T) {
        assert!(self.has_room(), "an entry pushed into a full ring");
        if self.next.wrapping_sub(self.first) >= self.slots.len() as u64 {
            self.grow();
        }
        let slot = self.slot(self.next);
        self.slots[slot] = Some(entry);
        self.next = self.next.wrapping_add(1);
        self.held += 1;
    }

    /// The entry of `number`, if it is in flight.
    pub fn entry_mut(&mut self, number: u64) -> Option<&mut T> {
        let slot = self.known(number)?;
        self.slots[slot].as_mut()
    }

    /// The entry of `number`, if it is in flight.
    pub fn entry(&self, number: u64) -> Option<&T> {
        self.slots[self.known(number)?].as_ref()
    }

    /// Removes the entry of `number`: it is settled.
    pub fn take(&mut self, number: u64) -> Option<T> {
        let slot = self.known(number)?;
        let entry = self.slots[slot].take()?;
        self.held -= 1;
        while self.first != self.next && self.slots[self.slot(self.first)].is_none() {
            self.first = self.first.wrapping_add(1);
        }
        Some(entry)
    }

    /// The entries with their numbers, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let (first, len) = (self.first, self.next.wrapping_sub(self.first));
        let start = self.slot(first);
        let (before, after) = self.slots.split_at_mut(start);
        let entries = after.iter_mut().chain(before).take(len as usize).enumerate();
        entries.filter_map(move |(i, slot)| Some((first.wrapping_add(i as u64), slot.as_mut()?)))
    }

    /// Doubles the slots; each entry moves to its number's new slot.
    fn grow(&mut self) {
        let before = self.slots.len();
        self.slots.resize_with(2 * before, || None);
        for i in 0..before as u64 {
            let number = self.first.wrapping_add(i);
            let (from, to) = ((number % before as u64) as usize, self.slot(number));
            if from != to {
                self.slots.swap(from, to);
            }
        }
    }

    fn known(&self, number: u64) -> Option<usize> {
        let known = number.wrapping_sub(self.first) < self.next.wrapping_sub(self.first);
        known.then(|| self.slot(number))
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}

/// A third of a second of packets in blocks of 256 sample frames at 48 kHz.
const FIRST_SLOTS: u64 = 64;
const _: () = assert!(FIRST_SLOTS.is_power_of_two() && SPAN.is_power_of_two() && FIRST_SLOTS <= SPAN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_what_is_settled_makes_room() {
        let start = u64::MAX - 500;
        let mut ring = Ring::new(start);
        for i in 0..SPAN {
            ring.push(i);
        }
        assert!(!ring.has_room());
        assert_eq!(ring.take(start.wrapping_add(1)), Some(1));
        assert!(!ring.has_room(), "the oldest still stands");
        assert_eq!(ring.take(start), Some(0));
        assert_eq!((ring.first(), ring.has_room()), (start.wrapping_add(2), true));
        assert_eq!(ring.take(start), None, "settled once");
        assert_eq!(ring.take(start.wrapping_add(SPAN)), None, "never sent");
        let seen: Vec<(u64, u64)> = ring.iter_mut().map(|(n, entry)| (n, *entry)).collect();
        assert_eq!(seen, (2..SPAN).map(|i| (start.wrapping_add(i), i)).collect::<Vec<_>>());
        assert_eq!(ring.entry(start.wrapping_add(700)), Some(&700));
    }
}
