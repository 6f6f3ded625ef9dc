//! The messages of a track by number, in reserved memory: the packetiser writes them; sending, repetition and parity read
//! them. The last ones are always remembered, and what a recording has not confirmed is kept as far as there is room.
//!
//! Buffers that are free are used again in the order of a stack, so that a store of which little is used touches little
//! memory, however large it may become.

use antiphon_core::Instant;
use antiphon_media::packet::PacketInfo;

/// What is stored with a message's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Counts the messages of the track.
    pub number: u64,
    /// The channel group it is of.
    pub group: usize,
    /// Counts the messages of its group: its RTP sequence number without the wraps, from 0.
    pub index: u64,
    /// Its RTP header.
    pub info: PacketInfo,
    /// When its last sample was captured.
    pub due: Instant,
}

/// How many messages a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreRoom {
    /// Messages that are remembered at least.
    pub remembered: usize,
    /// Messages that it can hold.
    pub most: usize,
    /// The longest message, in bytes.
    pub longest: usize,
}

/// The messages of a track.
#[derive(Debug)]
pub struct Store {
    room: StoreRoom,
    /// By number modulo their count: what is stored, its length, and its buffer's place in `bytes`.
    slots: Vec<Option<Slot>>,
    bytes: Vec<u8>,
    /// Buffers that are not used; the last one is used next.
    free: Vec<u32>,
    /// The oldest message that is stored.
    first: u64,
    /// The number of the next message.
    next: u64,
    /// Messages before this one may be forgotten.
    released: u64,
    /// Messages that were forgotten although they had not been released.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stored: Stored,
    len: usize,
    buffer: u32,
}

impl Store {
    /// Remembers the last messages; nothing has to be kept beyond that until [`Self::keep_from`] says so.
    pub fn new(room: StoreRoom) -> Self {
        let remembered = room.remembered.max(1);
        let most = room.most.max(remembered);
        let mut store = Store {
            room: StoreRoom { remembered, most, ..room },
            slots: vec![None; most],
            // The system gives memory of zeros only where it is written.
            bytes: vec![0; most * room.longest],
            free: Vec::with_capacity(most),
            first: 0,
            next: 0,
            released: u64::MAX,
            dropped: 0,
        };
        store.free.extend((0..most as u32).rev());
        store
    }

    /// Messages from `number` on are kept as long as there is room; `u64::MAX`: none beyond those remembered.
    pub fn keep_from(&mut self, number: u64) {
        self.released = number;
        self.forget();
    }

    /// Whether the next message would take the place of one that is to be kept.
    pub fn is_full(&self, messages: usize) -> bool {
        let kept = self.next.saturating_sub(self.released.max(self.first));
        kept as usize + messages > self.room.most
    }

    /// Messages that were forgotten although they were to be kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a message, in place of the oldest if there is no room.
    pub fn push(&mut self, group: usize, index: u64, info: PacketInfo, due: Instant, bytes: &[u8]) -> u64 {
        let number = self.next;
        if self.free.is_empty() {
            self.dropped += u64::from(self.first >= self.released);
            self.forget_first();
        }
        let buffer = self.free.pop().expect("the oldest message has just given one back");
        let at = self.place(number);
        let stored = Stored { number, group, index, info, due };
        self.slots[at] = Some(Slot { stored, len: bytes.len(), buffer });
        let from = buffer as usize * self.room.longest;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.next += 1;
        self.forget();
        number
    }

    /// The number that the next message will have.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The oldest message that is stored.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The message of that number, if it is still stored.
    pub fn get(&self, number: u64) -> Option<(Stored, &[u8])> {
        let slot = self.slots[self.place(number)].filter(|slot| slot.stored.number == number)?;
        let from = slot.buffer as usize * self.room.longest;
        Some((slot.stored, &self.bytes[from..from + slot.len]))
    }

    /// Forgets what is neither remembered nor kept.
    fn forget(&mut self) {
        let remembered = self.next.saturating_sub(self.room.remembered as u64);
        while self.first < self.released.min(remembered) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let at = self.place(self.first);
        if let Some(slot) = self.slots[at].take() {
            self.free.push(slot.buffer);
        }
        self.first += 1;
    }

    fn place(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}

/// Bytes of messages that a sender keeps for a recording: 40 s of 48 kHz stereo in 16 bits. The program stays under 20 MB with them.
pub const KEPT_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use antiphon_core::MediaTime;

    use super::*;

    fn push(store: &mut Store) -> u64 {
        let number = store.next();
        let info = PacketInfo {
            sequence: number as u16,
            timestamp: 0,
            media: MediaTime::new(number, 48_000),
            frames: 1,
            marker: false,
        };
        store.push(0, number, info, Instant::ZERO, &number.to_be_bytes())
    }

    fn numbers(store: &Store) -> Vec<u64> {
        let stored = |number: &u64| {
            store.get(*number).map(|(stored, bytes)| {
                assert_eq!((stored.number, bytes), (*number, &number.to_be_bytes()[..]));
            })
        };
        (0..store.next()).filter(|number| stored(number).is_some()).collect()
    }

    #[test]
    fn the_last_messages_are_remembered() {
        let mut store = Store::new(StoreRoom { remembered: 3, most: 8, longest: 8 });
        (0..20).for_each(|number| assert_eq!(push(&mut store), number));
        assert_eq!((numbers(&store), store.dropped()), (vec![17, 18, 19], 0));
        assert!(store.free.len() == 5 && store.free.iter().all(|buffer| *buffer < 8));
        // Only as many buffers as needed are ever touched: the one that was freed is used next.
        let used: Vec<u32> = store.slots.iter().flatten().map(|slot| slot.buffer).collect();
        assert!(used.iter().all(|buffer| *buffer < 4), "{used:?}");
    }

    #[test]
    fn messages_are_kept_until_they_are_released() {
        let mut store = Store::new(StoreRoom { remembered: 2, most: 6, longest: 8 });
        store.keep_from(0);
        (0..6).for_each(|_| assert!(push(&mut store) < 6));
        assert_eq!((numbers(&store), store.is_full(1)), ((0..6).collect(), true));
        store.keep_from(4);
        assert_eq!((numbers(&store), store.is_full(4), store.is_full(5)), (vec![4, 5], false, true));
        (6..10).for_each(|number| assert_eq!(push(&mut store), number));
        assert_eq!((numbers(&store), store.dropped()), ((4..10).collect(), 0));
        // What is pushed nevertheless takes the place of the oldest.
        assert_eq!((push(&mut store), store.dropped(), store.first()), (10, 1, 5));
        store.keep_from(u64::MAX);
        assert_eq!((numbers(&store), store.is_full(6)), (vec![9, 10], false));
    }
}
