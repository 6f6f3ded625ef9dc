//! The messages of a track by number, in reserved memory: the packetiser writes them; sending, repetition and parity read
//! them. The last ones are always remembered, and what a recording has not confirmed is kept as far as there is room.
//!
//! Buffers that are free are used again in the order of a stack, and what is noted of messages stays at the beginning of its memory, so that
//! a store of which little is used touches little memory, however large it may become.

use std::ops::Deref;

use antiphon_core::Instant;
use antiphon_media::packet::PacketInfo;

use crate::spool::Spool;

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
pub struct Store {
    room: StoreRoom,
    /// What is in memory, in the order of its numbers. Numbers are missing where a spool dropped messages.
    slots: Slots,
    bytes: Vec<u8>,
    /// Buffers that are not used; the last one is used next.
    free: Vec<u32>,
    /// What memory has no room for, once something is to be kept.
    spool: Option<Box<dyn Spool>>,
    /// The number after the last message in memory.
    held: u64,
    /// The number of the next message.
    next: u64,
    /// Messages before this one may be forgotten.
    released: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stored: Stored,
    len: usize,
    buffer: u32,
}

/// Slots in the order of their numbers. A ring would pass through all of its memory, and touch it.
struct Slots {
    all: Vec<Slot>,
    /// How many at the beginning are forgotten.
    gone: usize,
}

impl Slots {
    /// For up to `most`, and a part of that more, so that those that are left are not moved for each that is forgotten.
    fn of(most: usize) -> Self {
        Slots { all: Vec::with_capacity(most + most / SPARE + 1), gone: 0 }
    }

    fn push_back(&mut self, slot: Slot) {
        if self.gone >= self.len().max(FEW) || self.all.len() == self.all.capacity() {
            self.all.drain(..self.gone);
            self.gone = 0;
        }
        self.all.push(slot);
    }

    fn pop_front(&mut self) -> Option<Slot> {
        let slot = self.first().copied()?;
        self.gone += 1;
        Some(slot)
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.all[self.gone..]
    }
}

/// For so many slots there is a spare place: a slot is moved as often at most for one that comes.
const SPARE: usize = 8;
/// Slots that are not moved for each other: 8 kB.
const FEW: usize = 64;

impl StoreRoom {
    /// For messages of `longest` bytes in so many bytes of memory, of which at least `remembered` are held.
    pub fn within(bytes: usize, longest: usize, remembered: usize) -> Self {
        let slot = size_of::<Slot>();
        let each = longest + slot + slot.div_ceil(SPARE) + size_of::<u32>();
        StoreRoom { remembered, most: bytes.saturating_sub(slot) / each, longest }
    }
}

impl Store {
    /// Remembers the last messages; nothing has to be kept beyond that until [`Self::keep_from`] says so.
    pub fn new(room: StoreRoom) -> Self {
        let remembered = room.remembered.max(1);
        let most = room.most.max(remembered);
        Store {
            room: StoreRoom { remembered, most, ..room },
            slots: Slots::of(most),
            // The system gives memory of zeros only where it is written.
            bytes: vec![0; most * room.longest],
            free: (0..most as u32).rev().collect(),
            spool: None,
            held: 0,
            next: 0,
            released: u64::MAX,
        }
    }

    /// Messages from `number` on are kept as long as there is room; `u64::MAX`: none beyond those remembered.
    pub fn keep_from(&mut self, number: u64) {
        self.released = number;
        self.forget();
    }

    /// What is to be kept, and memory has no room for, waits in `spool`.
    pub fn set_spool(&mut self, spool: Box<dyn Spool>) {
        self.spool = Some(spool);
    }

    /// Fetches messages from the spool, as far as there is room.
    pub fn refill(&mut self) {
        let longest = self.room.longest;
        let Some(spool) = &mut self.spool else { return };
        while let (Some(buffer), 1..) = (self.free.last().copied(), spool.waiting()) {
            let from = buffer as usize * longest;
            let Some((stored, len)) = spool.take(&mut self.bytes[from..from + longest]) else { return };
            self.free.pop();
            self.slots.push_back(Slot { stored, len, buffer });
            self.held = stored.number + 1;
        }
    }

    /// Whether so many more messages would take the place of some that are to be kept.
    pub fn is_full(&self, messages: usize) -> bool {
        let kept = self.next.saturating_sub(self.released.max(self.first()));
        kept as usize + messages > self.room.most
    }

    /// Adds a message. If there is no room, it waits in the spool, or takes the place of the oldest.
    pub fn push(&mut self, group: usize, index: u64, info: PacketInfo, due: Instant, bytes: &[u8]) -> u64 {
        let number = self.next;
        let stored = Stored { number, group, index, info, due };
        self.next += 1;
        let keeps_all = self.free.is_empty() && self.first() >= self.released;
        if let Some(spool) = self.spool.as_mut().filter(|spool| keeps_all || spool.waiting() > 0) {
            spool.put(&stored, bytes);
            return number;
        }
        if self.free.is_empty() {
            self.forget_first();
        }
        let buffer = self.free.pop().expect("the oldest message has just given one back");
        self.slots.push_back(Slot { stored, len: bytes.len(), buffer });
        let from = buffer as usize * self.room.longest;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.held = self.next;
        self.forget();
        number
    }

    /// The number that the next message will have.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The oldest message in memory; the next one that will be there, if there is none.
    pub fn first(&self) -> u64 {
        self.slots.first().map_or(self.held, |slot| slot.stored.number)
    }

    /// The number after the last message in memory: those from it on are in the spool.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The message of that number, if it is in memory.
    pub fn get(&self, number: u64) -> Option<(Stored, &[u8])> {
        // Numbers are missing only where a spool has dropped some.
        let at = usize::try_from(number.checked_sub(self.first())?).ok()?;
        let is_it = |slot: &&Slot| slot.stored.number == number;
        let slot = self.slots.get(at).filter(is_it).or_else(|| {
            let at = self.slots.partition_point(|slot| slot.stored.number < number);
            self.slots.get(at).filter(is_it)
        })?;
        let from = slot.buffer as usize * self.room.longest;
        Some((slot.stored, &self.bytes[from..from + slot.len]))
    }

    /// Forgets what is neither remembered nor kept.
    fn forget(&mut self) {
        let remembered = self.next.saturating_sub(self.room.remembered as u64);
        while !self.slots.is_empty() && self.first() < self.released.min(remembered) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.free.push(slot.buffer);
        }
    }
}

/// Bytes of memory in which a sender keeps messages for a recording: 30 s of 48 kHz stereo in 16 bits. With the megabyte that
/// is on its way to a spool they are 8 MB, and the program stays under 20 MB.
pub const KEPT_BYTES: usize = 7 << 20;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use antiphon_core::MediaTime;

    use super::*;

    fn push(store: &mut Store) -> u64 {
        let number = store.next();
        let info = PacketInfo {
            sequence: number as u16,
            timestamp: 0,
            media: MediaTime::new(number, 48_000),
            frames: 1,
            payload: 4,
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
    fn the_memory_of_a_store_includes_what_it_notes_beside_the_bytes() {
        let room = StoreRoom::within(KEPT_BYTES, 1_056, 5);
        let store = Store::new(room);
        let noted = store.slots.all.capacity() * size_of::<Slot>() + store.free.capacity() * size_of::<u32>();
        assert!((KEPT_BYTES - 4_096..=KEPT_BYTES).contains(&(store.bytes.len() + noted)), "{room:?}");
    }

    #[test]
    fn the_last_messages_are_remembered() {
        let mut store = Store::new(StoreRoom { remembered: 3, most: 8, longest: 8 });
        (0..20).for_each(|number| assert_eq!(push(&mut store), number));
        assert_eq!(numbers(&store), [17, 18, 19]);
        assert!(store.free.len() == 5 && store.free.iter().all(|buffer| *buffer < 8));
        // Only as many buffers as needed are ever touched: the one that was freed is used next.
        let used: Vec<u32> = store.slots.iter().map(|slot| slot.buffer).collect();
        assert!(used.iter().all(|buffer| *buffer < 4), "{used:?}");
    }

    #[test]
    fn what_is_noted_stays_in_little_memory_and_is_moved_seldom() {
        let mut store = Store::new(StoreRoom { remembered: 10, most: 5_000, longest: 8 });
        let most = |store: &mut Store, count: u64| {
            let pushed = (0..count).map(|_| {
                push(store);
                store.slots.all.len()
            });
            pushed.max().unwrap()
        };
        assert!(most(&mut store, 20_000) <= 2 * FEW, "a ring would have touched all 5000");
        store.keep_from(store.next());
        let full = most(&mut store, 12_000);
        assert!((5_001..=5_626).contains(&full), "{full}: moved when an eighth is forgotten");
        assert_eq!(numbers(&store), (27_000..32_000).collect::<Vec<_>>());
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
        assert_eq!(numbers(&store), (4..10).collect::<Vec<_>>());
        // What is pushed nevertheless takes the place of the oldest.
        assert_eq!((push(&mut store), store.first()), (10, 5));
        store.keep_from(u64::MAX);
        assert_eq!((numbers(&store), store.is_full(6)), (vec![9, 10], false));
    }

    /// A spool of `most` messages; the oldest are dropped.
    struct Queue {
        waiting: VecDeque<(Stored, Vec<u8>)>,
        most: usize,
    }

    impl Spool for Queue {
        fn put(&mut self, stored: &Stored, bytes: &[u8]) {
            if self.waiting.len() == self.most {
                self.waiting.pop_front();
            }
            self.waiting.push_back((*stored, bytes.to_vec()));
        }

        fn take(&mut self, buf: &mut [u8]) -> Option<(Stored, usize)> {
            let (stored, bytes) = self.waiting.pop_front()?;
            buf[..bytes.len()].copy_from_slice(&bytes);
            Some((stored, bytes.len()))
        }

        fn waiting(&self) -> u64 {
            self.waiting.len() as u64
        }
    }

    #[test]
    fn what_memory_has_no_room_for_waits_in_the_spool() {
        let mut store = Store::new(StoreRoom { remembered: 1, most: 4, longest: 8 });
        store.set_spool(Box::new(Queue { waiting: VecDeque::new(), most: 5 }));
        (0..10).for_each(|number| assert_eq!(push(&mut store), number, "nothing is kept: memory is enough"));
        assert_eq!((store.held(), numbers(&store)), (10, vec![9]));
        store.keep_from(9);
        (10..20).for_each(|number| assert_eq!(push(&mut store), number));
        // Of 13 to 19 the spool has the last five.
        assert_eq!((store.held(), numbers(&store)), (13, (9..13).collect()));
        store.refill();
        assert_eq!(store.held(), 13, "no room");
        store.keep_from(12);
        store.refill();
        assert_eq!((store.held(), numbers(&store)), (18, vec![12, 15, 16, 17]));
        assert_eq!(push(&mut store), 20, "behind those in the spool");
        store.keep_from(18);
        store.refill();
        assert_eq!((store.held(), numbers(&store)), (21, vec![18, 19, 20]));
        assert_eq!((push(&mut store), numbers(&store)), (21, vec![18, 19, 20, 21]), "the spool is empty");
    }
}
