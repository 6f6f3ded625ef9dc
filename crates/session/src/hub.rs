//! Many associations on one socket: finds the station for a datagram, makes one when the protocol allows it, and
//! bounds what strangers can cost.
//!
//! One hub serves all datagram transports. `reflect` runs one with room for many peers; `receive` runs one with room
//! for a single peer, so that a stranger is noticed and never mixed in.
//!
//! What a datagram costs hardly depends on how many peers there are: its station is found in a tree, and only stations
//! that heard something, sent something or are due are asked anything.

mod marks;
mod timers;

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Doorkeeper, Input, Instant, PathId, Transmit};

use crate::doorway::Doorway;
use crate::station::Station;
use marks::Marks;
use timers::Timers;

/// How a hub treats strangers.
#[derive(Clone, Copy, Debug)]
pub struct HubConfig {
    /// Associations at most.
    pub max_peers: usize,
    /// An association from which nothing came for so long makes room for another peer.
    pub idle: Duration,
    /// Whether a first datagram may make an association (`proto::Transport::admits`).
    pub admits: fn(&[u8]) -> bool,
}

/// What a hub has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HubCounters {
    /// Associations made.
    pub admitted: u64,
    /// Associations given up after silence.
    pub idle: u64,
    /// Datagrams of strangers that the doorkeeper answered; nothing is kept of them.
    pub answered: u64,
    /// Datagrams of strangers that are no beginning of an association.
    pub not_admitted: u64,
    /// Datagrams of strangers for whom there was no room.
    pub no_room: u64,
}

/// Makes the station for a new peer.
pub type MakeStation<S> = Box<dyn FnMut(Instant, PathId) -> S>;

/// A station made of stations, one per peer.
pub struct Hub<S> {
    config: HubConfig,
    doorway: Doorway,
    make: MakeStation<S>,
    /// A peer keeps its place for as long as it is here.
    peers: Vec<Option<Peer<S>>>,
    /// Places of peers that have gone.
    free: Vec<usize>,
    /// The peer of each party on a path, and which of the peer's paths it is.
    places: BTreeMap<(PathId, u16), (usize, u32)>,
    /// Peers by the associations that their packets name, where they do.
    associations: BTreeMap<u64, usize>,
    timers: Timers,
    /// Who heard or sent something, or is due, since it was last advanced.
    touched: Marks,
    /// Who may have something to send.
    ready: Marks,
    /// The place after the one that transmitted last, so that the others get their turn.
    turn: usize,
    /// Before this, nobody has been silent for so long that he makes room.
    nobody_idle_before: Instant,
    stopping: bool,
    counters: HubCounters,
}

struct Peer<S> {
    path: PathId,
    /// Which of the parties behind its addresses it is.
    party: u16,
    /// Further paths that it has been heard on.
    others: Vec<PathId>,
    association: Option<u64>,
    station: S,
    last_heard: Instant,
}

impl<S> Peer<S> {
    /// The driver's number of the station's path.
    fn path_of(&self, path: PathId) -> PathId {
        let other = (path.0 as usize).checked_sub(1).and_then(|at| self.others.get(at));
        other.copied().unwrap_or(self.path)
    }
}

impl<S: Station> Hub<S> {
    /// An empty hub.
    pub fn new(config: HubConfig, make: MakeStation<S>) -> Self {
        let room = config.max_peers.min(1024);
        Hub {
            doorway: Doorway::new(config.admits),
            config,
            make,
            peers: Vec::with_capacity(room),
            free: Vec::with_capacity(room),
            places: BTreeMap::new(),
            associations: BTreeMap::new(),
            timers: Timers::with_capacity(room),
            touched: Marks::with_capacity(room),
            ready: Marks::with_capacity(room),
            turn: 0,
            nobody_idle_before: Instant::ZERO,
            stopping: false,
            counters: HubCounters::default(),
        }
    }

    /// Puts a transport's doorkeeper at the door (`Endpoint::doorkeeper`): it decides then who gets a station, not
    /// [`HubConfig::admits`]. `None` leaves the door as it was.
    pub fn with_doorkeeper(mut self, keeper: Option<Box<dyn Doorkeeper>>) -> Self {
        self.doorway.set_keeper(keeper);
        self
    }

    /// The associations there are.
    pub fn stations(&self) -> impl Iterator<Item = (PathId, &S)> {
        self.peers.iter().flatten().map(|peer| (peer.path, &peer.station))
    }

    /// What was counted so far.
    pub fn counters(&self) -> HubCounters {
        HubCounters { answered: self.doorway.answered(), ..self.counters }
    }

    /// The place of a peer that is here.
    fn place_of(&mut self, path: PathId, datagram: &[u8]) -> Option<(usize, u32)> {
        let party = self.doorway.party_of(datagram);
        let place = self.places.get(&(path, party)).copied();
        place.or_else(|| self.place_elsewhere(path, party, datagram))
    }

    /// A place for who is not, if it is let in.
    fn new_place(&mut self, now: Instant, path: PathId, first: &[u8]) -> Option<(usize, u32)> {
        let party = self.doorway.party_of(first);
        let answered = self.doorway.answered();
        if self.stopping || !self.doorway.lets_in(now, path, first) {
            self.counters.not_admitted += u64::from(self.doorway.answered() == answered);
            return None;
        }
        if self.peers.len() - self.free.len() >= self.config.max_peers {
            self.drop_idle(now);
        }
        if self.peers.len() - self.free.len() >= self.config.max_peers {
            self.counters.no_room += 1;
            self.doorway.turn_away();
            return None;
        }
        self.counters.admitted += 1;
        let station = (self.make)(now, path);
        let peer = Peer { path, party, others: Vec::new(), association: None, station, last_heard: now };
        let at = self.free.pop().unwrap_or(self.peers.len());
        if at == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[at] = Some(peer);
        self.places.insert((path, party), (at, 0));
        Some((at, 0))
    }

    /// The place of a peer that is heard on another path than before.
    fn place_elsewhere(&mut self, path: PathId, party: u16, datagram: &[u8]) -> Option<(usize, u32)> {
        if self.associations.is_empty() {
            return None;
        }
        let at = *self.associations.get(&self.doorway.association_of(datagram)?)?;
        let peer = self.peers[at].as_mut()?;
        if peer.party != party || peer.others.len() + 1 >= MOST_PATHS {
            return None;
        }
        peer.others.push(path);
        let place = (at, peer.others.len() as u32);
        self.places.insert((path, party), place);
        Some(place)
    }

    /// Notes by which name the packets of the peer at `at` go now.
    fn note_association(&mut self, at: usize) {
        let Some(peer) = &mut self.peers[at] else { return };
        let named = peer.station.association();
        if let Some(before) = peer.association.filter(|_| peer.association != named) {
            self.associations.remove(&before);
        }
        if let Some(now) = named.filter(|_| peer.association != named) {
            self.associations.insert(now, at);
        }
        peer.association = named;
    }

    /// Looks at all peers, but no more often than one may have become idle: strangers can't make it look for nothing.
    fn drop_idle(&mut self, now: Instant) {
        if now < self.nobody_idle_before {
            return;
        }
        let mut longest_silent = now;
        for at in 0..self.peers.len() {
            let Some(peer) = &self.peers[at] else { continue };
            if now.since(peer.last_heard) >= self.config.idle {
                self.counters.idle += 1;
                self.remove(at);
            } else {
                longest_silent = longest_silent.min(peer.last_heard);
            }
        }
        self.nobody_idle_before = longest_silent + self.config.idle;
    }

    fn remove(&mut self, at: usize) {
        if let Some(peer) = self.peers[at].take() {
            for path in std::iter::once(peer.path).chain(peer.others) {
                self.places.remove(&(path, peer.party));
            }
            if let Some(association) = peer.association {
                self.associations.remove(&association);
            }
            self.free.push(at);
            self.timers.set(at, None);
            self.touched.clear(at);
            self.ready.clear(at);
        }
    }

    /// Asks the station at `at` anew when it wants to be woken; answers whether that has changed.
    fn set_timer(&mut self, at: usize) -> bool {
        let when = self.peers[at].as_ref().and_then(|peer| peer.station.poll_timeout());
        self.timers.set(at, when)
    }

    fn touch_all(&mut self) {
        (0..self.peers.len()).filter(|at| self.peers[*at].is_some()).for_each(|at| self.touched.set(at));
    }
}

impl<S: Station> Station for Hub<S> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        let Input::Datagram { path, bytes, ecn, received_at } = input else {
            // A shared socket's errors name no peer.
            return;
        };
        let known = self.place_of(path, bytes);
        let Some((at, path)) = known.or_else(|| self.new_place(now, path, bytes)) else { return };
        let bytes = if known.is_some() { bytes } else { self.doorway.entering(bytes) };
        if let Some(peer) = &mut self.peers[at] {
            peer.last_heard = now;
            let path = PathId(path);
            peer.station.handle_input(now, Input::Datagram { path, bytes, ecn, received_at });
        }
        self.touched.set(at);
        self.ready.set(at);
        self.set_timer(at);
    }

    fn advance(&mut self, now: Instant) {
        while let Some(at) = self.timers.pop_due(now) {
            self.touched.set(at);
        }
        if self.stopping {
            // An end may come of anything, and is near.
            self.touch_all();
        }
        let mut next = 0;
        while let Some(at) = self.touched.next_from(next) {
            next = at + 1;
            self.touched.clear(at);
            let Some(peer) = &mut self.peers[at] else { continue };
            peer.station.advance(now);
            if peer.station.is_finished() {
                self.remove(at);
            } else {
                self.ready.set(at);
                self.set_timer(at);
                self.note_association(at);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if let Some(answer) = self.doorway.poll_transmit(buf) {
            return Some(answer);
        }
        while let Some(at) = self.ready.next_around(self.turn) {
            let transmit = self.peers[at].as_mut().and_then(|peer| {
                let transmit = peer.station.poll_transmit(now, buf)?;
                Some(Transmit { path: peer.path_of(transmit.path), ..transmit })
            });
            // What sends, or lets something expire while it looks for what to send, has news of it.
            if self.set_timer(at) || transmit.is_some() {
                self.touched.set(at);
            }
            if transmit.is_some() {
                self.turn = at + 1;
                return transmit;
            }
            self.ready.clear(at);
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.soonest()
    }

    fn stop(&mut self, now: Instant) {
        self.stopping = true;
        for at in 0..self.peers.len() {
            if let Some(peer) = &mut self.peers[at] {
                peer.station.stop(now);
                self.ready.set(at);
                self.set_timer(at);
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.peers.iter().flatten().all(|peer| peer.station.is_finished())
    }

    fn knows(&self, path: PathId) -> bool {
        self.places.range((path, 0)..=(path, u16::MAX)).next().is_some()
    }
}

/// Paths of one peer at most, in line with what transports of several paths keep.
pub(crate) const MOST_PATHS: usize = 4;
