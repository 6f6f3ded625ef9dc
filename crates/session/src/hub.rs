//! Many associations on one socket: finds the station for a datagram, makes one when the protocol allows it, and
//! bounds what strangers can cost.
//!
//! One hub serves all datagram transports. `reflect` runs one with room for many peers; `receive` runs one with room
//! for a single peer, so that a stranger is noticed and never mixed in.

use std::time::Duration;

use antiphon_core::{Doorkeeper, Input, Instant, PathId, Transmit};

use crate::doorway::Doorway;
use crate::station::{Station, sooner};

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
    peers: Vec<Peer<S>>,
    /// The peer that transmitted last, so that the others get their turn.
    turn: usize,
    stopping: bool,
    counters: HubCounters,
}

struct Peer<S> {
    path: PathId,
    station: S,
    last_heard: Instant,
}

impl<S: Station> Hub<S> {
    /// An empty hub.
    pub fn new(config: HubConfig, make: MakeStation<S>) -> Self {
        let peers = Vec::with_capacity(config.max_peers.min(1024));
        let doorway = Doorway::new(config.admits);
        Hub { config, doorway, make, peers, turn: 0, stopping: false, counters: HubCounters::default() }
    }

    /// Puts a transport's doorkeeper at the door (`Endpoint::doorkeeper`): it decides then who gets a station, not
    /// [`HubConfig::admits`]. `None` leaves the door as it was.
    pub fn with_doorkeeper(mut self, keeper: Option<Box<dyn Doorkeeper>>) -> Self {
        self.doorway.set_keeper(keeper);
        self
    }

    /// The associations there are.
    pub fn stations(&self) -> impl Iterator<Item = (PathId, &S)> {
        self.peers.iter().map(|peer| (peer.path, &peer.station))
    }

    /// What was counted so far.
    pub fn counters(&self) -> HubCounters {
        HubCounters { answered: self.doorway.answered(), ..self.counters }
    }

    fn index_for(&mut self, now: Instant, path: PathId, first: &[u8]) -> Option<usize> {
        if let Some(at) = self.peers.iter().position(|peer| peer.path == path) {
            return Some(at);
        }
        let answered = self.doorway.answered();
        if self.stopping || !self.doorway.lets_in(now, path, first) {
            self.counters.not_admitted += u64::from(self.doorway.answered() == answered);
            return None;
        }
        if self.peers.len() >= self.config.max_peers {
            self.drop_idle(now);
        }
        if self.peers.len() >= self.config.max_peers {
            self.counters.no_room += 1;
            return None;
        }
        self.counters.admitted += 1;
        let station = (self.make)(now, path);
        self.peers.push(Peer { path, station, last_heard: now });
        Some(self.peers.len() - 1)
    }

    fn drop_idle(&mut self, now: Instant) {
        let before = self.peers.len();
        let idle = self.config.idle;
        self.peers.retain(|peer| now.since(peer.last_heard) < idle);
        self.counters.idle += (before - self.peers.len()) as u64;
    }
}

impl<S: Station> Station for Hub<S> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        let Input::Datagram { path, bytes, ecn, received_at } = input else {
            // A shared socket's errors name no peer.
            return;
        };
        if let Some(at) = self.index_for(now, path, bytes) {
            let peer = &mut self.peers[at];
            peer.last_heard = now;
            let path = PathId::default();
            peer.station.handle_input(now, Input::Datagram { path, bytes, ecn, received_at });
        }
    }

    fn advance(&mut self, now: Instant) {
        for peer in &mut self.peers {
            peer.station.advance(now);
        }
        self.peers.retain(|peer| !peer.station.is_finished());
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if let Some(answer) = self.doorway.poll_transmit(buf) {
            return Some(answer);
        }
        for step in 0..self.peers.len() {
            let at = (self.turn + step) % self.peers.len();
            let peer = &mut self.peers[at];
            if let Some(transmit) = peer.station.poll_transmit(now, buf) {
                self.turn = at + 1;
                return Some(Transmit { path: peer.path, ..transmit });
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.iter().fold(None, |soonest, peer| sooner(soonest, peer.station.poll_timeout()))
    }

    fn stop(&mut self, now: Instant) {
        self.stopping = true;
        for peer in &mut self.peers {
            peer.station.stop(now);
        }
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.peers.iter().all(|peer| peer.station.is_finished())
    }

    fn knows(&self, path: PathId) -> bool {
        self.peers.iter().any(|peer| peer.path == path)
    }
}
