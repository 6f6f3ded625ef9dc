//! Rings that take each other's place: made by the thread that watches the server, used by the media thread, and freed where they were
//! made, so that the media thread neither allocates nor frees.

use rtrb::{Consumer, Producer, RingBuffer};

/// What makes them.
pub(super) struct Maker<T> {
    new: Producer<T>,
    spent: Consumer<T>,
}

/// What uses them, one at a time.
pub(super) struct InUse<T> {
    pub now: T,
    new: Consumer<T>,
    spent: Producer<T>,
}

/// Both, with the first in use.
pub(super) fn replaced<T>(first: T) -> (Maker<T>, InUse<T>) {
    let (hand, new) = RingBuffer::new(MOST);
    let (spent, back) = RingBuffer::new(MOST);
    (Maker { new: hand, spent: back }, InUse { now: first, new, spent })
}

impl<T> Maker<T> {
    /// This one is to be used next.
    pub fn hand_over(&mut self, next: T) {
        // A media thread that has fetched none of so many has ended.
        let _nobody_fetches = self.new.push(next);
    }

    /// Frees what is not used any more.
    pub fn collect(&mut self) {
        while self.spent.pop().is_ok() {}
    }
}

impl<T> InUse<T> {
    /// Goes over to the next, if there is one.
    pub fn follow(&mut self) -> bool {
        let Ok(next) = self.new.pop() else { return false };
        let old = std::mem::replace(&mut self.now, next);
        // There is room: the maker collects before it hands over, and no more wait to be used than fit here.
        let _never_full = self.spent.push(old);
        true
    }

    /// The next, if there is one.
    pub fn next(&self) -> Option<&T> {
        // None there is no fault.
        self.new.peek().ok()
    }
}

/// On their way to the media thread at most, and on their way back.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_used_in_turn_and_freed_by_its_maker() {
        let marks: Vec<_> = (0..4).map(std::sync::Arc::new).collect();
        let (mut maker, mut used) = replaced(marks[0].clone());
        marks[1..].iter().for_each(|mark| maker.hand_over(mark.clone()));
        assert_eq!(used.next(), Some(&marks[1]));
        while used.follow() {}
        assert!(*used.now == 3 && used.next().is_none());
        let count = |mark| std::sync::Arc::strong_count(mark);
        assert!(marks.iter().all(|mark| count(mark) == 2), "freed by whom they don't belong to");
        maker.collect();
        assert_eq!(marks.iter().map(count).collect::<Vec<_>>(), [1, 1, 1, 2]);
    }
}
