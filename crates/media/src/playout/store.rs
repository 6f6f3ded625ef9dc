//! Decoded sound in a ring addressed by media time, and the packets to which it belongs.

use std::collections::VecDeque;

use crate::packet::MediaPacket;

/// A packet whose sound is in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Media time of its first sample frame in the ring.
    pub start: u64,
    /// Sample frames.
    pub frames: usize,
    pub sequence: u64,
    /// Whether it has already been counted: it came late, or numbers have restarted since.
    pub late: bool,
}

impl Record {
    pub fn end(&self) -> u64 {
        self.start + self.frames as u64
    }
}

pub(super) struct Store {
    channels: usize,
    samples: Vec<f32>,
    /// In order of media time, never overlapping.
    records: VecDeque<Record>,
}

impl Store {
    pub fn new(channels: usize, capacity: usize) -> Self {
        // Sixteen sample frames are our smallest block; others' smaller packets may fill the list before the ring.
        let records = (capacity / 16).clamp(64, 8192);
        Store { channels, samples: vec![0.0; capacity * channels], records: VecDeque::with_capacity(records) }
    }

    /// Sample frames that the ring holds.
    pub fn capacity(&self) -> usize {
        self.samples.len() / self.channels
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn front(&self) -> Option<Record> {
        self.records.front().copied()
    }

    pub fn back(&self) -> Option<Record> {
        self.records.back().copied()
    }

    pub fn pop(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.iter_mut()
    }

    pub fn count(&self, which: impl Fn(&Record) -> bool) -> u64 {
        self.records.iter().filter(|record| which(record)).count() as u64
    }

    /// Whether everything from `start` to the last packet still fits into the ring.
    pub fn can_begin_at(&self, start: u64) -> bool {
        self.back().is_none_or(|last| last.end().saturating_sub(start) <= self.capacity() as u64)
    }

    /// Stores the sound of `packet` from its sample frame `skip` on; false if that place is already taken or the list
    /// is full. The caller has checked that it lies within one ring's length of the playout position.
    pub fn insert(&mut self, packet: &MediaPacket<'_>, skip: usize) -> bool {
        let record = Record {
            start: packet.timestamp + skip as u64,
            frames: packet.frames - skip,
            sequence: packet.sequence,
            late: skip > 0,
        };
        let at = match self.back() {
            Some(last) if last.start > record.start => {
                self.records.partition_point(|r| r.start <= record.start)
            }
            _ => self.records.len(),
        };
        let free = |neighbour: Option<&Record>| {
            neighbour.is_none_or(|r| r.end() <= record.start || record.end() <= r.start)
        };
        let before = at.checked_sub(1).and_then(|i| self.records.get(i));
        let full = self.records.len() == self.records.capacity() || record.frames > self.capacity();
        if full || !free(before) || !free(self.records.get(at)) {
            return false;
        }
        self.write(packet, skip, record);
        self.records.insert(at, record);
        true
    }

    fn write(&mut self, packet: &MediaPacket<'_>, skip: usize, record: Record) {
        let (at, first) = self.span(record.start, record.frames);
        let (c, frames) = (self.channels, record.frames);
        packet.decode(skip, &mut self.samples[at * c..(at + first) * c]);
        packet.decode(skip + first, &mut self.samples[..(frames - first) * c]);
    }

    /// Copies from media time `start` on; the caller knows that it is in the ring.
    pub fn read(&self, start: u64, out: &mut [f32]) {
        let (at, first) = self.span(start, out.len() / self.channels);
        let (head, tail) = out.split_at_mut(first * self.channels);
        head.copy_from_slice(&self.samples[at * self.channels..][..head.len()]);
        tail.copy_from_slice(&self.samples[..tail.len()]);
    }

    /// Up to `frames` sample frames of a packet, as far as they are contiguous.
    pub fn peek(&self, record: Record, frames: usize) -> &[f32] {
        let (at, first) = self.span(record.start, record.frames.min(frames));
        &self.samples[at * self.channels..(at + first) * self.channels]
    }

    /// Index of media time `start`, and how many of `frames` fit before the ring's end.
    fn span(&self, start: u64, frames: usize) -> (usize, usize) {
        let at = (start % self.capacity() as u64) as usize;
        (at, frames.min(self.capacity() - at))
    }
}
