//! Memory in blocks of one size, for what is kept in order and leaves from the front: it follows what is kept, without a copy when it
//! grows and without an allocation for each packet.

use std::collections::VecDeque;

/// Bytes of packets.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: VecDeque<Vec<u8>>,
    /// Number of the first block, modulo 2^16.
    first: u16,
    spare: Vec<Vec<u8>>,
}

/// Where the bytes of a packet begin, modulo 2^32: the number of the block and the place in it. Places ascend, with a gap where the
/// end of a block was too short for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

impl Place {
    /// Bytes from here to a later place, the unused ends of blocks included.
    pub fn until(self, later: Place) -> usize {
        later.0.wrapping_sub(self.0) as usize
    }

    fn block(self) -> u16 {
        (self.0 >> BLOCK.ilog2()) as u16
    }

    fn at(self) -> usize {
        self.0 as usize % BLOCK
    }
}

impl Blocks {
    /// Makes room for so many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        while (self.blocks.len() + self.spare.len()) * BLOCK < bytes && self.spare.len() < MOST_SPARE {
            self.spare.push(Vec::with_capacity(BLOCK));
        }
    }

    /// Where the next packet begins if the last block has room for it.
    pub fn end(&self) -> Place {
        let used = self.blocks.back().map_or(0, Vec::len);
        let before = self.blocks.len().saturating_sub(1) as u16;
        Place((u32::from(self.first.wrapping_add(before)) << BLOCK.ilog2()).wrapping_add(used as u32))
    }

    /// Keeps the bytes of a packet, at most [`BLOCK`].
    pub fn push(&mut self, bytes: &[u8]) -> Place {
        if self.blocks.back().is_none_or(|block| block.len() + bytes.len() > BLOCK) {
            self.blocks.push_back(self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK)));
        }
        // A full block's end is the beginning of the next, so it is asked for after that is there.
        let place = self.end();
        self.blocks.back_mut().expect("there is one with room").extend_from_slice(bytes);
        place
    }

    /// The `len` bytes kept at a place.
    pub fn get(&self, place: Place, len: usize) -> &[u8] {
        let block = place.block().wrapping_sub(self.first);
        &self.blocks[usize::from(block)][place.at()..][..len]
    }

    /// Forgets what is before a place.
    pub fn release_before(&mut self, place: Place) {
        while self.blocks.len() > 1 && self.first != place.block() {
            self.release_first();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        while !self.blocks.is_empty() {
            self.release_first();
        }
    }

    fn release_first(&mut self) {
        let Some(mut block) = self.blocks.pop_front() else { return };
        self.first = self.first.wrapping_add(1);
        if self.spare.len() < MOST_SPARE {
            block.clear();
            self.spare.push(block);
        }
    }
}

/// Items in chunks of [`CHUNK`].
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: VecDeque<Vec<T>>,
    /// Items of the first chunk that were taken.
    taken: usize,
    spare: Vec<Vec<T>>,
}

impl<T: Copy> Chunks<T> {
    pub fn new() -> Self {
        Chunks { chunks: VecDeque::new(), taken: 0, spare: Vec::new() }
    }

    /// Makes room for so many items.
    pub fn reserve(&mut self, items: usize) {
        while (self.chunks.len() + self.spare.len()) * CHUNK < items && self.spare.len() < MOST_SPARE {
            self.spare.push(Vec::with_capacity(CHUNK));
        }
    }

    pub fn len(&self) -> usize {
        let last = self.chunks.back().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last - self.taken
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        let at = self.taken + at;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let at = self.taken + at;
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// How many come before the first for which this is false, if it is false for all behind.
    pub fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(&mut before) { low = middle + 1 } else { high = middle }
        }
        low
    }

    pub fn push(&mut self, item: T) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push_back(self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK)));
        }
        self.chunks.back_mut().expect("there is one with room").push(item);
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<T> {
        let item = *self.get(0)?;
        self.taken += 1;
        if self.taken == CHUNK
            && let Some(mut chunk) = self.chunks.pop_front()
        {
            self.taken = 0;
            if self.spare.len() < MOST_SPARE {
                chunk.clear();
                self.spare.push(chunk);
            }
        }
        Some(item)
    }
}

/// Bytes of a block: of those that hold 44 full packets, 2 % are not used.
const BLOCK: usize = 1 << 16;
/// Items of a chunk.
const CHUNK: usize = 256;
/// Blocks and chunks that are kept for later.
const MOST_SPARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_by_their_places_while_blocks_come_and_go() {
        // Places wrap in the middle.
        let mut blocks = Blocks { first: u16::MAX - 3, ..Blocks::default() };
        let mut kept = VecDeque::new();
        for number in 0..2_000_usize {
            let len = 1 + number * 37 % 1_452;
            let bytes = vec![number as u8; len];
            kept.push_back((blocks.push(&bytes), bytes));
            if number >= 200 {
                kept.pop_front();
                blocks.release_before(kept[0].0);
            }
            let all = kept.iter().all(|(place, bytes)| blocks.get(*place, bytes.len()) == bytes);
            assert!(all, "{number}");
            let held: usize = kept.iter().map(|(_, bytes)| bytes.len()).sum();
            let spans = kept[0].0.until(blocks.end());
            assert!(spans >= held && spans <= held + 5 * 1_452, "{spans} for {held}");
            assert!((blocks.blocks.len() + blocks.spare.len()) * BLOCK <= spans + (2 + MOST_SPARE) * BLOCK);
        }
        blocks.clear();
        let whole = vec![7; BLOCK];
        let places = [blocks.push(&whole), blocks.push(&whole), blocks.push(&[8])];
        assert_eq!((blocks.get(places[1], BLOCK), blocks.get(places[2], 1)), (&whole[..], &[8][..]));
        assert_eq!(places[0].until(blocks.end()), 2 * BLOCK + 1);
    }

    #[test]
    fn items_leave_from_the_front_and_their_memory_with_them() {
        let mut chunks = Chunks::new();
        let mut kept = VecDeque::new();
        for number in 0..10_000_u32 {
            chunks.push(number);
            kept.push_back(number);
            if number % 3 > 0 || number > 5_000 {
                assert_eq!(chunks.pop(), kept.pop_front());
            }
            assert_eq!(chunks.len(), kept.len());
            assert_eq!(chunks.get(kept.len() / 2), kept.get(kept.len() / 2));
            let middle = number / 2 + 1;
            assert_eq!(
                chunks.partition_point(|item| *item < middle),
                kept.partition_point(|item| *item < middle)
            );
            assert!(
                chunks.chunks.len() * CHUNK <= kept.len() + 2 * CHUNK && chunks.spare.len() <= MOST_SPARE
            );
        }
        *chunks.get_mut(1).expect("many are left") = 77;
        assert_eq!((chunks.get(1), chunks.get(kept.len())), (Some(&77), None));
    }
}
