//! Reusable buffers.

/// Spare buffers, and how many are kept at most.
#[derive(Debug)]
pub(crate) struct Pool {
    spare: Vec<Vec<u8>>,
    most: usize,
    /// Buffers taken and not returned, for which places are reserved here.
    out: usize,
}

impl Pool {
    /// Without memory yet.
    pub fn new(most: usize) -> Self {
        Pool { spare: Vec::new(), most, out: 0 }
    }

    /// Makes sure that there are `buffers` of `bytes` each, including those in use, and that `places` fit here without
    /// an allocation. Those of packets longer than Ethernet's grow once: a thousand of the largest would be 64 MB that
    /// may never be needed.
    pub fn fill(&mut self, places: usize, buffers: usize, bytes: usize) {
        let places = places.max(buffers).max(self.spare.len() + self.out);
        self.spare.reserve_exact(places - self.spare.len());
        let bytes = bytes.min(MOST_READY);
        while self.spare.len() + self.out < buffers {
            self.spare.push(Vec::with_capacity(bytes));
        }
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        // More are in use than ever before: one more is made, and returned here later. The callers bound how many are
        // in use.
        self.out += 1;
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back; one beyond the most is let go.
    pub fn give(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.out = self.out.saturating_sub(1);
        if self.spare.len() < self.most {
            self.spare.push(bytes);
        }
    }

    /// Buffers that lie ready.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.spare.len()
    }
}

/// Bytes of a buffer made ahead: an Ethernet packet's.
const MOST_READY: usize = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_no_more_than_the_most_are_kept() {
        let mut pool = Pool::new(3);
        pool.fill(2, 1, 100);
        let mut first = pool.take();
        assert_eq!((first.capacity(), pool.take().capacity()), (100, 0));
        first.push(7);
        pool.give(first);
        let again = pool.take();
        assert_eq!((again.len(), again.capacity()), (0, 100));
        (0..5).for_each(|_| pool.give(Vec::new()));
        assert_eq!(pool.len(), 3);
        pool.fill(2, 2, 100);
        assert_eq!(pool.len(), 3, "there are enough");
        let mut pool = Pool::new(9);
        pool.fill(3, 3, 100);
        let out = [pool.take(), pool.take()];
        pool.fill(3, 3, 100);
        out.into_iter().for_each(|bytes| pool.give(bytes));
        assert_eq!((pool.len(), pool.spare.capacity()), (3, 3), "those that were out are counted");
        let mut pool = Pool::new(3);
        pool.fill(1, 1, 65_507);
        assert_eq!(pool.take().capacity(), 1500);
    }
}
