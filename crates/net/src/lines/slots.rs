//! Lines and listening sockets, found by the wire's number and by `epoll`'s key.

use std::time::Duration;

use antiphon_core::{Instant, WireId};

use super::ROOM;
use crate::line::{Line, LineStats};
use crate::tcp_listening::TcpListening;

/// All entries, in slots that are reused.
pub(super) struct Slots<'a> {
    slots: Vec<Slot<'a>>,
    free: Vec<u32>,
    /// How many of them hold listening sockets.
    listening: usize,
    /// By the wire's number. Entries that are closing have none any more.
    index: Vec<(WireId, Key)>,
}

struct Slot<'a> {
    /// How often the slot was used: an event of an earlier use must not reach the next.
    generation: u32,
    held: Option<Held<'a>>,
}

/// Names one use of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub slot: u32,
    pub generation: u32,
}

/// What the poller watches, as the data of its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    Held(Key),
    Waker(usize),
}

impl Watched {
    pub fn data(self) -> u64 {
        let (high, low) = match self {
            Watched::Held(Key { slot, generation }) => (generation, slot),
            Watched::Waker(at) => (at as u32, WAKER),
        };
        u64::from(high) << 32 | u64::from(low)
    }

    pub fn of(data: u64) -> Self {
        match ((data >> 32) as u32, data as u32) {
            (at, WAKER) => Watched::Waker(at as usize),
            (generation, slot) => Watched::Held(Key { slot, generation }),
        }
    }
}

/// In place of a slot's number.
const WAKER: u32 = u32::MAX;

/// What a wire leads to.
pub(super) struct Held<'a> {
    pub wire: WireId,
    pub kind: Kind<'a>,
    /// [`crate::LineCommon`]'s number of changes when its descriptors were last passed to `epoll`.
    pub watched: Option<u32>,
    pub timeout: Option<Instant>,
    /// Whether it is in the list of lines that have sent.
    pub flushed: bool,
}

pub(super) enum Kind<'a> {
    /// A line; `listener`: the listening wire that accepted it; such a line ends with its connection.
    Open { line: Box<dyn Line + 'a>, listener: Option<WireId> },
    /// A listening socket. With a time-out it is paused until then.
    Listening(Box<Listening>),
    /// A line that the participant has closed, until everything written has been sent; `pause`: time between two
    /// checks.
    Closing { line: Box<dyn Line + 'a>, listener: Option<WireId>, until: Instant, pause: Duration },
}

pub(super) struct Listening {
    pub socket: TcpListening,
    /// Counters of connections that were refused, and of those that have ended.
    pub stats: LineStats,
    /// Whether there was a connection before.
    had_one: bool,
}

impl Listening {
    pub fn new(socket: TcpListening) -> Self {
        Listening { socket, stats: LineStats::default(), had_one: false }
    }

    /// A connection was accepted.
    pub fn on_come(&mut self) {
        self.stats.reconnected += u64::from(std::mem::replace(&mut self.had_one, true));
    }

    /// `line`, which was accepted here, has ended.
    pub fn on_gone(&mut self, line: &dyn Line) {
        self.stats.add(line.stats());
    }
}

impl<'a> Held<'a> {
    pub fn new(wire: WireId, kind: Kind<'a>) -> Self {
        Held { wire, kind, watched: None, timeout: None, flushed: false }
    }

    pub fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// The listening wire that accepted it.
    pub fn listener(&self) -> Option<WireId> {
        match &self.kind {
            Kind::Open { listener, .. } | Kind::Closing { listener, .. } => *listener,
            Kind::Listening(_) => None,
        }
    }

    pub fn line(&self) -> Option<&(dyn Line + 'a)> {
        match &self.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => Some(&**line),
            Kind::Listening(_) => None,
        }
    }

    pub fn line_mut(&mut self) -> Option<&mut (dyn Line + 'a)> {
        match &mut self.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => Some(&mut **line),
            Kind::Listening(_) => None,
        }
    }

    /// The same entry, with a line that must close by `until`.
    pub fn closing(mut self, until: Instant, pause: Duration) -> Self {
        if let Kind::Open { line, listener } = self.kind {
            self.kind = Kind::Closing { line, listener, until, pause };
        }
        self
    }

    pub fn into_line(self) -> Option<Box<dyn Line + 'a>> {
        match self.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => Some(line),
            Kind::Listening(_) => None,
        }
    }
}

impl Default for Slots<'_> {
    fn default() -> Self {
        Slots {
            slots: Vec::with_capacity(ROOM),
            free: Vec::with_capacity(ROOM),
            listening: 0,
            index: Vec::with_capacity(ROOM),
        }
    }
}

impl<'a> Slots<'a> {
    /// Adds an entry for a wire that has none yet.
    pub fn insert(&mut self, held: Held<'a>) -> Key {
        let place = self.place_of(held.wire).expect_err("each wire of a participant has a number of its own");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, held: None });
            self.slots.len() as u32 - 1
        });
        let key = Key { slot, generation: self.slots[slot as usize].generation };
        self.index.insert(place, (held.wire, key));
        self.listening += usize::from(held.is_listening());
        self.slots[slot as usize].held = Some(held);
        key
    }

    pub fn remove(&mut self, key: Key) -> Option<Held<'a>> {
        self.listening -= usize::from(self.get(key)?.is_listening());
        self.forget_wire(key);
        let slot = &mut self.slots[key.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        slot.held.take()
    }

    /// Frees the wire's number and replaces the entry with the result of `change`.
    pub fn detach(&mut self, key: Key, change: impl FnOnce(Held<'a>) -> Held<'a>) {
        if self.get(key).is_some() {
            self.forget_wire(key);
            let slot = &mut self.slots[key.slot as usize];
            slot.held = slot.held.take().map(change);
        }
    }

    fn forget_wire(&mut self, key: Key) {
        let place = self.get(key).and_then(|held| self.place_of(held.wire).ok());
        if let Some(place) = place.filter(|place| self.index[*place].1 == key) {
            self.index.remove(place);
        }
    }

    pub fn find(&self, wire: WireId) -> Option<Key> {
        self.place_of(wire).ok().map(|place| self.index[place].1)
    }

    pub fn get(&self, key: Key) -> Option<&Held<'a>> {
        let slot = self.slots.get(key.slot as usize)?;
        slot.held.as_ref().filter(|_| slot.generation == key.generation)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut Held<'a>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        slot.held.as_mut().filter(|_| slot.generation == key.generation)
    }

    /// Number of slots, used or not.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The key of a slot's present use, if it is used.
    pub fn key_of(&self, slot: usize) -> Option<Key> {
        let Slot { generation, held } = self.slots.get(slot)?;
        held.as_ref().map(|_| Key { slot: slot as u32, generation: *generation })
    }

    pub fn held(&self) -> impl Iterator<Item = &Held<'a>> {
        self.slots.iter().filter_map(|slot| slot.held.as_ref())
    }

    pub fn wires(&self) -> impl Iterator<Item = WireId> {
        self.index.iter().map(|(wire, _)| *wire)
    }

    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut (dyn Line + 'a)> {
        self.slots.iter_mut().filter_map(|slot| slot.held.as_mut()?.line_mut())
    }

    /// The open line, if all other entries are listening sockets.
    pub fn only_line(&self) -> Option<(WireId, Key)> {
        let used = self.slots.len() - self.free.len();
        let is_open = |key| matches!(self.get(key), Some(Held { kind: Kind::Open { .. }, .. }));
        let found = || self.index.iter().copied().find(|(_, key)| is_open(*key));
        if used == self.listening + 1 { found() } else { None }
    }

    /// Whether there is a listening socket.
    pub fn listens(&self) -> bool {
        self.listening > 0
    }

    fn place_of(&self, wire: WireId) -> Result<usize, usize> {
        self.index.binary_search_by_key(&wire, |(wire, _)| *wire)
    }
}
