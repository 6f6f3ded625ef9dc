//! Cuts messages into packets and numbers them.

use antiphon_core::{Instant, Rng};

use super::clock_us;
use super::sender::Message;
use crate::srp::wire::HEADER;
use crate::srp::wire::extended::{Extended, LAST_EPOCH, LEAST_URGENT, MAX_PARTS, Part};

/// The packets of a sender.
#[derive(Debug)]
pub(super) struct Cutter {
    /// The largest datagram, header included.
    max_datagram: usize,
    pub epoch: u32,
    /// The id of the next packet.
    pub next: u32,
    last_priority: u8,
}

impl Cutter {
    /// The first packet has this id; the epoch follows from `seed`.
    pub fn starting_at(id: u32, max_datagram: usize, seed: u64) -> Self {
        let epoch = Rng::fork(seed, "srp epoch").next_u32() & LAST_EPOCH;
        Cutter { max_datagram, epoch, next: id, last_priority: 0 }
    }

    /// The longest message, in bytes.
    pub fn max_message(&self) -> usize {
        (self.part_len() * MAX_PARTS).min(usize::from(u16::MAX))
    }

    /// Packets that a message of `len` bytes takes.
    pub fn parts(&self, len: usize) -> usize {
        len.div_ceil(self.part_len())
    }

    fn part_len(&self) -> usize {
        self.max_datagram.saturating_sub(HEADER).max(1)
    }

    /// Writes part `index` of a message; returns the packet's id and length. `before`: packets with earlier ids that the
    /// receiver may miss.
    ///
    /// `None` if there is no such part, the message is too long, or `buf` too short.
    pub fn write(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        index: usize,
        before: u64,
        buf: &mut [u8],
    ) -> Option<(u32, usize)> {
        let data = message.bytes.chunks(self.part_len()).nth(index)?;
        if message.bytes.len() > self.max_message() {
            return None;
        }
        let priority = message.priority.min(LEAST_URGENT);
        let part = Part {
            epoch: self.epoch,
            age: u8::try_from(before).unwrap_or(u8::MAX),
            index: index as u8,
            count: self.parts(message.bytes.len()) as u8,
            priority,
            previous_priority: self.last_priority,
            stream: message.stream,
            time: clock_us(now),
            id: self.next,
            data,
        };
        let len = Extended::Data(part).emit(buf)?;
        self.next = self.next.wrapping_add(1);
        self.last_priority = priority;
        Some((part.id, len))
    }
}

/// A sender's random first id.
pub(super) fn first_id(seed: u64) -> u32 {
    Rng::fork(seed, "srp first id").next_u32()
}
