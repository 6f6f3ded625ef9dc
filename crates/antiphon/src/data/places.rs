//! Which bytes of a data track are there.

use std::collections::BTreeMap;

use super::DataHole;

/// Stretches of bytes that came, joined where they touch.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The end of each by its beginning.
    there: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Places {
    /// Notes bytes; returns whether some of them are new. Bytes that would make more holes than are told apart are not noted.
    pub fn note(&mut self, begin: u64, len: u64) -> bool {
        let (mut from, mut to) = (begin, begin + len);
        if len == 0 {
            return false;
        }
        let mut joined = 0;
        while let Some((&start, &end)) = self.there.range(..=to).next_back()
            && end >= from
        {
            if start <= begin && end >= begin + len {
                return false;
            }
            self.there.remove(&start);
            joined += end - start;
            (from, to) = (from.min(start), to.max(end));
        }
        if joined == 0 && self.there.len() >= MOST_STRETCHES {
            return false;
        }
        self.bytes += to - from - joined;
        self.there.insert(from, to);
        true
    }

    /// Bytes that came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The byte after the last one that came.
    pub fn end(&self) -> u64 {
        self.there.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// The holes before `length`.
    pub fn holes(&self, length: u64) -> impl Iterator<Item = DataHole> {
        let begins = self.there.keys().copied().chain([length]);
        let ends = [0].into_iter().chain(self.there.values().copied());
        let hole = move |(at, next): (u64, u64)| DataHole { at, bytes: next.min(length).saturating_sub(at) };
        ends.zip(begins).map(hole).filter(|hole| hole.bytes > 0)
    }
}

/// Stretches that are told apart: each second packet of 70 MB may be missing.
const MOST_STRETCHES: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_join_and_the_rest_are_holes() {
        let mut places = Places::default();
        let holes = |places: &Places, length| {
            places.holes(length).map(|hole| (hole.at, hole.bytes)).collect::<Vec<_>>()
        };
        assert_eq!((holes(&places, 0), holes(&places, 7)), (vec![], vec![(0, 7)]));
        assert!(places.note(10, 5) && places.note(20, 5) && !places.note(10, 5) && !places.note(21, 3));
        assert_eq!(holes(&places, 30), [(0, 10), (15, 5), (25, 5)]);
        assert!(places.note(12, 10) && places.note(0, 10) && !places.note(9, 16));
        assert_eq!((holes(&places, 25), places.bytes(), places.end()), (vec![], 25, 25));
        assert!(places.note(40, 1) && places.note(30, 20));
        assert_eq!((holes(&places, 50), places.bytes()), (vec![(25, 5)], 45));
        assert!(!places.note(60, 0));
    }

    #[test]
    fn every_second_byte_takes_bounded_memory() {
        let mut places = Places::default();
        for n in 0..2 * MOST_STRETCHES as u64 {
            places.note(2 * n, 1);
        }
        assert_eq!((places.there.len(), places.bytes()), (MOST_STRETCHES, MOST_STRETCHES as u64));
        assert!(places.note(1, 1), "what joins two is noted");
    }
}
