//! Packets on their way, each of which arrives at a time of its own.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use antiphon_core::Instant;

/// Things that arrive in the order of their times, those of one instant in the order in which they were sent.
pub struct Travelling<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sent: u64,
}

struct Entry<T> {
    due: Instant,
    order: u64,
    content: T,
}

impl<T> Default for Travelling<T> {
    fn default() -> Self {
        Travelling { heap: BinaryHeap::new(), sent: 0 }
    }
}

impl<T> Travelling<T> {
    /// Sends something that arrives at `due`.
    pub fn push(&mut self, due: Instant, content: T) {
        self.sent += 1;
        self.heap.push(Reverse(Entry { due, order: self.sent, content }));
    }

    /// When the next of them arrives.
    pub fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.due)
    }

    /// The next that has arrived by `now`, with its instant of arrival.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, T)> {
        self.next_due().filter(|due| *due <= now)?;
        let Reverse(Entry { due, content, .. }) = self.heap.pop()?;
        Some((due, content))
    }

    /// How many are on their way.
    pub fn count(&self) -> usize {
        self.heap.len()
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}
