//! Where the bytes of a FIFO stand: in segments of a pool, one behind the other.

use crate::voice::pool::{NONE, SEGMENT, VoicePool};

/// The segments of one FIFO.
#[derive(Debug)]
pub(super) struct Segments {
    first: u32,
    last: u32,
    count: u32,
    /// Where in the first one the next byte to take is.
    skipped: u32,
}

impl Segments {
    pub fn none() -> Self {
        Segments { first: NONE, last: NONE, count: 0, skipped: 0 }
    }

    fn bytes(&self) -> usize {
        self.count as usize * SEGMENT
    }

    /// Bytes for which there is room without another segment, beside the `level` that are there.
    pub fn room(&self, level: usize) -> usize {
        self.bytes() - self.skipped as usize - level
    }

    /// The bytes of the first segment that are still to be taken, and what is behind them.
    pub fn first<'a>(&self, pool: &'a VoicePool) -> &'a [u8] {
        &pool.bytes(self.first)[self.skipped as usize..]
    }

    /// Makes room for `len` bytes beside the `level` that are there, or for as many as the pool has segments for; returns
    /// how many.
    pub fn extend(&mut self, pool: &mut VoicePool, level: usize, len: usize) -> usize {
        while self.room(level) < len && self.add(pool) {}
        len.min(self.room(level))
    }

    /// So many bytes are not of use any more, and `level` are left: segments without any are given back.
    pub fn pass(&mut self, pool: &mut VoicePool, bytes: usize, level: usize) {
        let skipped = self.skipped as usize + bytes;
        (0..skipped / SEGMENT).for_each(|_| self.give_back_first(pool));
        self.skipped = (skipped % SEGMENT) as u32;
        if level == 0 && self.count > 0 {
            self.give_back_first(pool);
            self.skipped = 0;
        }
    }

    /// Visits `len` of the bytes that are there, from the one of number `at` on.
    pub fn each_part(&self, pool: &mut VoicePool, at: usize, len: usize, mut visit: impl FnMut(&mut [u8])) {
        if len == 0 {
            return;
        }
        let at = self.skipped as usize + at;
        let (mut segment, mut from) = (self.of_number(pool, at / SEGMENT), at % SEGMENT);
        let mut left = len;
        loop {
            let part = left.min(SEGMENT - from);
            visit(&mut pool.bytes_mut(segment)[from..from + part]);
            (left, from) = (left - part, 0);
            if left == 0 {
                return;
            }
            segment = pool.behind(segment);
        }
    }

    fn of_number(&self, pool: &VoicePool, number: usize) -> u32 {
        if number + 1 == self.count as usize {
            return self.last;
        }
        (0..number).fold(self.first, |segment, _| pool.behind(segment))
    }

    fn add(&mut self, pool: &mut VoicePool) -> bool {
        let Some(segment) = pool.take() else { return false };
        match self.count {
            0 => self.first = segment,
            _ => pool.link(self.last, segment),
        }
        (self.last, self.count) = (segment, self.count + 1);
        true
    }

    fn give_back_first(&mut self, pool: &mut VoicePool) {
        let first = self.first;
        self.first = pool.behind(first);
        self.count -= 1;
        pool.give_back(first);
    }
}
