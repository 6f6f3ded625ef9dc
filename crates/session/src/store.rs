//! The recent messages of a track by number, in reserved memory: the packetiser writes them; sending, repetition and
//! parity read them.

use antiphon_core::Instant;
use antiphon_media::packet::PacketInfo;

/// What is stored with a message's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Counts the messages of the track.
    pub number: u64,
    /// The channel group it is of.
    pub group: usize,
    /// Its RTP header.
    pub info: PacketInfo,
    /// When its last sample was captured.
    pub due: Instant,
}

/// The last messages of a track.
#[derive(Debug)]
pub struct Store {
    slots: Vec<Slot>,
    /// The number of the next message.
    next: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    stored: Option<Stored>,
    len: usize,
    bytes: Vec<u8>,
}

impl Store {
    /// Remembers the last `messages` messages of at most `room` bytes each.
    pub fn new(messages: usize, room: usize) -> Self {
        let slot = Slot { stored: None, len: 0, bytes: vec![0; room] };
        Store { slots: vec![slot; messages.max(1)], next: 0 }
    }

    /// Adds a message, in place of the oldest.
    pub fn push(&mut self, group: usize, info: PacketInfo, due: Instant, bytes: &[u8]) -> u64 {
        let number = self.next;
        self.next += 1;
        let at = self.place(number);
        let slot = &mut self.slots[at];
        slot.stored = Some(Stored { number, group, info, due });
        slot.len = bytes.len();
        slot.bytes[..bytes.len()].copy_from_slice(bytes);
        number
    }

    /// The number that the next message will have.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The message of that number, if it is still remembered.
    pub fn get(&self, number: u64) -> Option<(Stored, &[u8])> {
        let slot = &self.slots[self.place(number)];
        let stored = slot.stored.filter(|stored| stored.number == number)?;
        Some((stored, &slot.bytes[..slot.len]))
    }

    fn place(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}
