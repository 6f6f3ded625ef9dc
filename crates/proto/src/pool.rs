//! Reusable buffers.

/// Spare buffers, up to a maximum number.
#[derive(Debug)]
pub(crate) struct Pool {
    spare: Vec<Vec<u8>>,
    most: usize,
    /// Buffers in use, for which places are reserved here.
    out: usize,
}

impl Pool {
    /// Allocates nothing yet.
    pub fn new(most: usize) -> Self {
        Pool { spare: Vec::new(), most, out: 0 }
    }

    /// Ensures `buffers` of `bytes` each, including those in use, and `places` to return them without an allocation.
    /// Buffers for more than an Ethernet packet grow when first used: a thousand of the largest would be 64 MB that may
    /// never be needed.
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
        // More buffers are in use than ever before: makes another, which is returned here later. The callers bound how
        // many are in use.
        self.out += 1;
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back; drops it beyond the maximum.
    pub fn give(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.out = self.out.saturating_sub(1);
        if self.spare.len() < self.most {
            self.spare.push(bytes);
        }
    }

    /// Number of spare buffers.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.spare.len()
    }
}

/// Size of a buffer made in advance: an Ethernet packet's.
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
