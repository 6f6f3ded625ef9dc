//! Memory that the FIFOs of many channels share, in segments: a FIFO has as many as it needs for what it holds.
//!
//! Segments come from chunks, which are reserved as channels begin. The operating system backs a chunk with memory when it is written to first,
//! and segments that were used are used again before others; so what is resident is about what was held at most. While
//! channels run nothing is allocated.

/// Segments for the FIFOs of one peer.
#[derive(Debug)]
pub struct VoicePool {
    chunks: Vec<Box<[u8]>>,
    /// Of each segment of `chunks` the one behind it, in its FIFO or among those that are free again.
    next: Vec<u32>,
    /// The first that is free again.
    free: u32,
    /// Segments that were used once; those behind them were not.
    fresh: u32,
    /// Segments that FIFOs have.
    used: u32,
    /// Segments that they may have.
    most: u32,
    /// Segments that the FIFOs that there are could use.
    wanted: u64,
}

impl VoicePool {
    /// For so many bytes at most.
    pub fn new(most: usize) -> Self {
        let most = (most / SEGMENT) as u32;
        VoicePool { chunks: Vec::new(), next: Vec::new(), free: NONE, fresh: 0, used: 0, most, wanted: 0 }
    }

    /// Bytes of the segments that FIFOs have.
    pub fn held(&self) -> usize {
        self.used as usize * SEGMENT
    }

    /// Bytes that may still be taken.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.used) as usize * SEGMENT
    }

    /// Whether so many bytes are left for something else, which has them from now on.
    pub fn give_away(&mut self, bytes: usize) -> bool {
        let fits = self.room() >= bytes;
        if fits {
            self.most -= bytes.div_ceil(SEGMENT) as u32;
        }
        fits
    }

    /// Makes ready what a FIFO of `len` bytes can use. Allocates: for a channel that begins.
    pub fn reserve(&mut self, len: usize) {
        // Bytes in a FIFO need not begin with a segment.
        self.wanted += len.div_ceil(SEGMENT) as u64 + 1;
        while (self.next.len() as u64) < self.wanted.min(u64::from(self.most)) {
            self.chunks.push(vec![0; CHUNK * SEGMENT].into_boxed_slice());
            self.next.resize(self.chunks.len() * CHUNK, NONE);
        }
    }

    /// All FIFOs are gone; `most`: bytes for the next ones.
    pub fn clear(&mut self, most: usize) {
        (self.free, self.fresh, self.used, self.wanted) = (NONE, 0, 0, 0);
        self.most = (most / SEGMENT) as u32;
    }

    /// A segment that follows none; `None` if all are used.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.used >= self.most {
            return None;
        }
        let segment = match self.free {
            NONE if (self.fresh as usize) < self.next.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            NONE => return None,
            free => {
                self.free = self.next[free as usize];
                free
            }
        };
        self.used += 1;
        self.next[segment as usize] = NONE;
        Some(segment)
    }

    pub(super) fn give_back(&mut self, segment: u32) {
        self.next[segment as usize] = self.free;
        self.free = segment;
        self.used -= 1;
    }

    pub(super) fn link(&mut self, segment: u32, behind: u32) {
        self.next[segment as usize] = behind;
    }

    pub(super) fn behind(&self, segment: u32) -> u32 {
        self.next[segment as usize]
    }

    pub(super) fn bytes(&self, segment: u32) -> &[u8] {
        let (chunk, at) = (segment as usize / CHUNK, segment as usize % CHUNK);
        &self.chunks[chunk][at * SEGMENT..][..SEGMENT]
    }

    pub(super) fn bytes_mut(&mut self, segment: u32) -> &mut [u8] {
        let (chunk, at) = (segment as usize / CHUNK, segment as usize % CHUNK);
        &mut self.chunks[chunk][at * SEGMENT..][..SEGMENT]
    }
}

/// Bytes of a segment. A FIFO has half a segment more than it holds, on average at each end; each segment costs looks at memory that no cache holds, as a
/// hundred thousand channels have gone by since the last one.
pub(super) const SEGMENT: usize = 512;
/// Segments of a chunk: 1 MiB, which comes from the operating system and is not touched before it is used.
const CHUNK: usize = 2048;
/// No segment.
pub(super) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_used_again_before_others_and_bounded() {
        let mut pool = VoicePool::new(3 * SEGMENT + 10);
        assert_eq!(pool.take(), None, "nothing is reserved");
        pool.reserve(2 * SEGMENT);
        let taken = [pool.take(), pool.take(), pool.take(), pool.take()];
        assert_eq!((taken, pool.held(), pool.room()), ([Some(0), Some(1), Some(2), None], 3 * SEGMENT, 0));
        pool.give_back(1);
        assert_eq!((pool.room(), pool.take()), (SEGMENT, Some(1)));
        pool.give_back(2);
        assert!(!pool.give_away(SEGMENT + 1) && pool.give_away(1));
        assert_eq!((pool.room(), pool.take()), (0, None));
        pool.clear(2 * SEGMENT);
        assert_eq!((pool.held(), pool.room(), pool.take()), (0, 2 * SEGMENT, Some(0)));
    }
}
