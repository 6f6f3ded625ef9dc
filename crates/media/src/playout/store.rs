//! Decoded sound in a ring addressed by media time, and the packets to which it belongs. Packets that can be decoded only in
//! order wait as they came (`coded`) until their sound is wanted; their place in the ring is kept.

use std::collections::VecDeque;

use super::coded::{Coded, Held};
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
    /// The packet that is yet to be decoded, and the sample frames of it that are left out.
    pub held: Option<(Held, usize)>,
}

impl Record {
    pub fn end(&self) -> u64 {
        self.start + self.frames as u64
    }

    /// Leaves out the beginning of a packet that was not decoded yet, if the next one begins before its end: GStreamer sends the
    /// first packet of a stream with what the encoder gives before the sound, and with the time stamp of the sound.
    fn make_way(&mut self, next: &Record) {
        let over = self.end().saturating_sub(next.start) as usize;
        let follows = next.sequence == self.sequence + 1 && (1..self.frames).contains(&over);
        if let Some((_, skip)) = self.held.as_mut().filter(|_| follows) {
            self.frames -= over;
            *skip += over;
        }
    }
}

pub(super) struct Store {
    channels: usize,
    samples: Vec<f32>,
    /// In order of media time, never overlapping.
    records: VecDeque<Record>,
    /// For packets that are decoded in order.
    coded: Option<Box<Coded>>,
}

impl Store {
    pub fn new(channels: usize, capacity: usize) -> Self {
        // Sixteen sample frames are our smallest block; others' smaller packets may fill the list before the ring.
        let records = (capacity / 16).clamp(64, 8192);
        Store {
            channels,
            samples: vec![0.0; capacity * channels],
            records: VecDeque::with_capacity(records),
            coded: None,
        }
    }

    /// The same for packets of Opus.
    pub fn of_opus(channels: usize, capacity: usize) -> Self {
        Store { coded: Some(Box::new(Coded::new(channels, capacity))), ..Self::new(channels, capacity) }
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
        let record = self.records.pop_front()?;
        if let (Some((held, _)), Some(coded)) = (record.held, &mut self.coded) {
            coded.release(held);
        }
        Some(record)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
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
        let mut record = Record {
            start: packet.timestamp + skip as u64,
            frames: packet.frames - skip,
            sequence: packet.sequence,
            late: skip > 0,
            held: None,
        };
        let at = match self.back() {
            Some(last) if last.start > record.start => {
                self.records.partition_point(|r| r.start <= record.start)
            }
            _ => self.records.len(),
        };
        if let Some(before) = at.checked_sub(1).and_then(|i| self.records.get_mut(i)) {
            before.make_way(&record);
        }
        let free = |neighbour: Option<&Record>| {
            neighbour.is_none_or(|r| r.end() <= record.start || record.end() <= r.start)
        };
        let before = at.checked_sub(1).and_then(|i| self.records.get(i));
        let full = self.records.len() == self.records.capacity() || record.frames > self.capacity();
        if full || !free(before) || !free(self.records.get(at)) {
            return false;
        }
        match &mut self.coded {
            None => self.write(packet, skip, record),
            Some(coded) => {
                let Some(held) = coded.hold(packet.payload) else { return false };
                record.held = Some((held, packet.lead + skip));
            }
        }
        self.records.insert(at, record);
        true
    }

    fn write(&mut self, packet: &MediaPacket<'_>, skip: usize, record: Record) {
        let (at, first) = self.span(record.start, record.frames);
        let (c, frames) = (self.channels, record.frames);
        packet.decode(skip, &mut self.samples[at * c..(at + first) * c]);
        packet.decode(skip + first, &mut self.samples[..(frames - first) * c]);
    }

    /// Decodes the packets that begin before media time `end`, as far as there is no gap between them. They will be played
    /// next.
    pub fn decode_until(&mut self, end: u64) {
        let Some(coded) = &mut self.coded else { return };
        let capacity = self.samples.len() / self.channels;
        let mut follows = None;
        for record in &mut self.records {
            if record.start >= end || follows.is_some_and(|start| start != record.start) {
                break;
            }
            follows = Some(record.end());
            let Some((held, skip)) = record.held.take() else { continue };
            let sound = coded.decode(held, skip);
            let at = (record.start % capacity as u64) as usize * self.channels;
            let len = sound.len().min(record.frames * self.channels);
            let (first, rest) = sound[..len].split_at(len.min(self.samples.len() - at));
            self.samples[at..at + first.len()].copy_from_slice(first);
            self.samples[..rest.len()].copy_from_slice(rest);
        }
    }

    /// Fills `out` with what the decoder makes up; `hole`: sample frames up to the next packet, if one waits. False if there
    /// is no decoder.
    pub fn make_up(&mut self, hole: Option<usize>, out: &mut [f32]) -> bool {
        let next = self.front().and_then(|record| record.held).filter(|(_, skip)| *skip == 0);
        let Some(coded) = &mut self.coded else { return false };
        coded.make_up(hole, next.map(|(held, _)| held), out);
        true
    }

    /// Another sender's packets follow.
    pub fn restart(&mut self) {
        self.coded.iter_mut().for_each(|coded| coded.restart());
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
        if record.held.is_some() {
            return &[];
        }
        let (at, first) = self.span(record.start, record.frames.min(frames));
        &self.samples[at * self.channels..(at + first) * self.channels]
    }

    /// Index of media time `start`, and how many of `frames` fit before the ring's end.
    fn span(&self, start: u64, frames: usize) -> (usize, usize) {
        let at = (start % self.capacity() as u64) as usize;
        (at, frames.min(self.capacity() - at))
    }
}
