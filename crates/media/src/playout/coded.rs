//! Packets of Opus that wait in the playout buffer as they came, and their decoder.
//!
//! A decoder goes on from the packet before, so each packet is decoded when its sound is wanted: in the order of media time,
//! whatever order packets came in. What is missing is made up by the decoder, which then stands where the next packet follows.

use std::ops::Range;

use crate::opus::{BIT_RATES, Decoder, MOST_BYTES, MOST_FRAMES, RATE};

/// A packet that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    chunk: u32,
    len: usize,
}

/// Waiting packets and the decoder of one channel group. Allocates at construction, and for another sender's stream.
pub(super) struct Coded {
    channels: usize,
    decoder: Decoder,
    chunks: Chunks,
    packet: Vec<u8>,
    /// A packet's sound.
    sound: Vec<f32>,
    /// Sound that was made up, and the part of it that has not been played.
    made_up: Vec<f32>,
    left: Range<usize>,
}

impl Coded {
    /// For as many sample frames of waiting packets.
    pub fn new(channels: usize, capacity: usize) -> Self {
        Coded {
            channels,
            decoder: Decoder::new(channels),
            chunks: Chunks::new(capacity),
            packet: vec![0; MOST_BYTES],
            sound: vec![0.0; MOST_FRAMES * channels],
            made_up: vec![0.0; MOST_FRAMES * channels],
            left: 0..0,
        }
    }

    /// Keeps a packet; `None` if there is no room.
    pub fn hold(&mut self, packet: &[u8]) -> Option<Held> {
        self.chunks.put(packet).map(|chunk| Held { chunk, len: packet.len() })
    }

    /// Forgets a packet.
    pub fn release(&mut self, held: Held) {
        self.chunks.free(held.chunk, held.len);
    }

    /// Decodes and forgets a packet whose turn has come: its sound from sample frame `skip` on.
    pub fn decode(&mut self, held: Held, skip: usize) -> &mut [f32] {
        self.chunks.read(held.chunk, &mut self.packet[..held.len]);
        self.release(held);
        let frames = self.decoder.decode(&self.packet[..held.len], &mut self.sound);
        let channels = self.channels;
        let from = skip.min(frames) * channels;
        let sound = &mut self.sound[from..frames * channels];
        // The packet came while it was being made up: what was made up goes over into it.
        let over = self.left.len().min(BLEND * channels).min(sound.len());
        let frames = over / channels;
        let made_up = &self.made_up[self.left.start..self.left.start + over];
        let pairs = sound.chunks_exact_mut(channels).zip(made_up.chunks_exact(channels));
        for (n, (to, from)) in pairs.enumerate() {
            let weight = (n + 1) as f32 / (frames + 1) as f32;
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *to * weight + *from * (1.0 - weight));
        }
        self.left = 0..0;
        sound
    }

    /// Fills `out` with sound that is missing; `hole`: sample frames up to the next packet, which `next` is, if one waits.
    pub fn make_up(&mut self, hole: Option<usize>, next: Option<Held>, out: &mut [f32]) {
        let mut done = 0;
        while done < out.len() {
            if self.left.is_empty() {
                let missing = hole.map(|hole| hole.saturating_sub(done / self.channels));
                self.make_more(missing, next);
            }
            let len = self.left.len().min(out.len() - done);
            let from = self.left.start;
            out[done..done + len].copy_from_slice(&self.made_up[from..from + len]);
            (self.left.start, done) = (from + len, done + len);
        }
    }

    fn make_more(&mut self, missing: Option<usize>, next: Option<Held>) {
        let whole =
            missing.filter(|frames| (1..=MOST_RECOVERED).contains(frames) && frames % Decoder::STEP == 0);
        let frames = match (whole, next) {
            (Some(frames), Some(next)) => {
                self.chunks.read(next.chunk, &mut self.packet[..next.len]);
                self.decoder.recover(&self.packet[..next.len], frames, &mut self.made_up);
                frames
            }
            // What comes before the copy in the next packet is made up first.
            _ => {
                let most = missing.map_or(USUAL, |frames| frames.clamp(Decoder::STEP, USUAL));
                let frames = most / Decoder::STEP * Decoder::STEP;
                self.decoder.conceal(frames, &mut self.made_up);
                frames
            }
        };
        self.left = 0..frames * self.channels;
    }

    /// Another sender's packets follow.
    pub fn restart(&mut self) {
        (self.decoder, self.left) = (Decoder::new(self.channels), 0..0);
    }
}

/// Memory for packets of any length, in chunks of equal length that are linked.
struct Chunks {
    bytes: Vec<[u8; CHUNK]>,
    next: Vec<u32>,
    /// The first chunk that is free, and how many are.
    first: u32,
    free: usize,
}

impl Chunks {
    fn new(frames: usize) -> Self {
        // The packets of so much time at the highest bit rate, and some of the longest, which may fill their chunks badly.
        let bytes = frames as u64 * u64::from(*BIT_RATES.end()) / (8 * u64::from(RATE));
        let count = bytes as usize / CHUNK + frames / 480 + 4 * MOST_BYTES.div_ceil(CHUNK);
        Chunks { bytes: vec![[0; CHUNK]; count], next: (1..=count as u32).collect(), first: 0, free: count }
    }

    /// Copies `packet`; returns its first chunk.
    fn put(&mut self, packet: &[u8]) -> Option<u32> {
        let needed = packet.len().div_ceil(CHUNK);
        if needed > self.free || needed == 0 {
            return None;
        }
        let first = self.first;
        for part in packet.chunks(CHUNK) {
            let at = self.first as usize;
            self.bytes[at][..part.len()].copy_from_slice(part);
            self.first = self.next[at];
        }
        self.free -= needed;
        Some(first)
    }

    /// Copies a packet back.
    fn read(&self, first: u32, packet: &mut [u8]) {
        let mut at = first as usize;
        for part in packet.chunks_mut(CHUNK) {
            part.copy_from_slice(&self.bytes[at][..part.len()]);
            at = self.next[at] as usize;
        }
    }

    fn free(&mut self, first: u32, len: usize) {
        let count = len.div_ceil(CHUNK);
        let mut last = first as usize;
        for _ in 1..count {
            last = self.next[last] as usize;
        }
        self.next[last] = self.first;
        self.first = first;
        self.free += count;
    }
}

/// Bytes of a chunk: half of a usual packet.
const CHUNK: usize = 128;
/// Sample frames that are made up at a time while it is not known how many are missing: 10 ms, the shortest frame of the speech codec.
const USUAL: usize = 480;
/// The longest gap whose end the next packet may hold: a packet of 60 ms.
const MOST_RECOVERED: usize = 2880;
/// Sample frames over which made-up sound goes over into sound that came: 2.5 ms.
const BLEND: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_back_in_any_order() {
        let mut chunks = Chunks::new(4_800);
        let packet = |n: u32| -> Vec<u8> { (0..n % 700 + 1).map(|at| (at ^ n) as u8).collect() };
        let all = chunks.free;
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        for n in 0..2_000u32 {
            match chunks.put(&packet(n * 37)) {
                Some(first) => waiting.push((n, first)),
                None => assert!(chunks.free < 6),
            }
            if chunks.free < 12 || n % 3 == 0 {
                let (n, first) = waiting.swap_remove((n as usize * 7) % waiting.len());
                let wanted = packet(n * 37);
                let mut read = vec![0; wanted.len()];
                chunks.read(first, &mut read);
                assert_eq!(read, wanted);
                chunks.free(first, wanted.len());
            }
        }
        waiting.iter().for_each(|(n, first)| chunks.free(*first, packet(n * 37).len()));
        assert_eq!(chunks.free, all);
    }
}
