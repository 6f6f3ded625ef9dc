//! A station that receives a stream.

use std::time::Duration;

use antiphon_core::{
    BrokenReason, CloseMode, Endpoint, Event, Input, Instant, PathId, PathStats, Transmit, Wire,
};
use antiphon_media::packet::{PacketKind, classify};

use crate::doorway::Doorway;
use crate::framing::StreamFraming;
use crate::hub::MOST_PATHS;
use crate::receiver::SoundReceiver;
use crate::sender::frames_of_a_stall;
use crate::station::{Station, sooner};

/// Makes an endpoint for a new association.
pub type MakeEndpoint = Box<dyn FnMut(Instant) -> Box<dyn Endpoint>>;

/// How a receiving station treats its peers.
pub struct ReceiveConfig {
    /// Makes the endpoint, and another one when another peer takes over.
    pub endpoint: MakeEndpoint,
    /// Whether a first datagram may make an association (`proto::Transport::admits`).
    pub admits: fn(&[u8]) -> bool,
    /// Silence after which another peer may take over.
    pub silence: Duration,
    /// Whether the end of the stream is the end of the station (recordings), or another may follow.
    pub ends_with_stream: bool,
    /// What the endpoint has around its frames.
    pub framing: StreamFraming,
}

/// Receives from one association at a time and plays to a sink. Whoever else sends is noticed and not mixed in; when
/// our peer has fallen silent, another may take its place, and the sink goes on.
pub struct ReceiveStation {
    config: ReceiveConfig,
    doorway: Doorway,
    endpoint: Box<dyn Endpoint>,
    receiver: SoundReceiver,
    /// Frames that the endpoint holds memory ready for, once a stream has shown its pace.
    room: usize,
    buf: Vec<u8>,
    peer: Option<Peer>,
    /// Who sent last though our peer is not proven.
    rival: Option<PathId>,
    /// Further paths that our peer has been heard on.
    others: Vec<PathId>,
    strangers: u64,
    /// Packets in the other framing, until there is sound or it was told.
    foreign: usize,
    told_foreign: bool,
    broken: Option<BrokenReason>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    path: PathId,
    last_heard: Instant,
    /// Whether it sent more than one datagram: a stray one must not lock the true sender out.
    proven: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Receiving,
    Closing,
    Finished,
}

impl ReceiveStation {
    /// A station that plays what its endpoint brings.
    pub fn new(mut config: ReceiveConfig, receiver: SoundReceiver, now: Instant) -> Self {
        let mut endpoint = (config.endpoint)(now);
        let mut doorway = Doorway::new(config.framing.admission(&*endpoint, config.admits));
        doorway.set_keeper(endpoint.doorkeeper(now));
        let buf = vec![0; endpoint.profile().max_receive];
        let (peer, rival, strangers, foreign, broken) = (None, None, 0, 0, None);
        let others = Vec::new();
        ReceiveStation {
            config,
            doorway,
            endpoint,
            receiver,
            room: 0,
            buf,
            peer,
            rival,
            others,
            strangers,
            foreign,
            told_foreign: false,
            broken,
            state: State::Receiving,
        }
    }

    /// The receiving half.
    pub fn receiver(&self) -> &SoundReceiver {
        &self.receiver
    }

    /// The receiving half, to fetch notices and the sink.
    pub fn receiver_mut(&mut self) -> &mut SoundReceiver {
        &mut self.receiver
    }

    /// What the transport knows of the path.
    pub fn path_stats(&self) -> PathStats {
        self.endpoint.path_stats()
    }

    /// Datagrams of others than our peer.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Why the path is broken, if it is.
    pub fn broken(&self) -> Option<BrokenReason> {
        self.broken
    }

    /// Which of our peer's paths a datagram came by, if it is one of the peer's.
    fn path_of_peer(&mut self, now: Instant, path: PathId, bytes: &[u8]) -> Option<PathId> {
        if self.peer.is_some_and(|peer| peer.path != path) {
            let known = self.others.iter().position(|other| *other == path);
            let named =
                || self.endpoint.association().is_some_and(|a| self.doorway.association_of(bytes) == Some(a));
            if known.is_some() || (self.others.len() + 1 < MOST_PATHS && named()) {
                let at = known.unwrap_or(self.others.len());
                if known.is_none() {
                    self.others.push(path);
                }
                self.peer.iter_mut().for_each(|peer| peer.last_heard = now);
                return Some(PathId(at as u32 + 1));
            }
        }
        let is_peer = self.is_peer(now, path, bytes) || self.is_peers_rtcp(bytes);
        is_peer.then(PathId::default)
    }

    /// Whether a datagram from `path` is our peer's. A first peer becomes it, or another one after a long silence, after a
    /// goodbye, or with two datagrams while ours has sent only one.
    fn is_peer(&mut self, now: Instant, path: PathId, bytes: &[u8]) -> bool {
        if let Some(peer) = self.peer.as_mut().filter(|peer| peer.path == path) {
            (peer.last_heard, peer.proven) = (now, true);
            return true;
        }
        if !self.doorway.lets_in(now, path, bytes) {
            return false;
        }
        if let Some(peer) = self.peer {
            let is_free = now.since(peer.last_heard) >= self.config.silence || self.receiver.has_left();
            let second = self.rival.replace(path) == Some(path);
            if !is_free && (peer.proven || !second) {
                return false;
            }
            self.renew(now);
            self.receiver.forget_source();
        }
        self.rival = None;
        self.peer = Some(Peer { path, last_heard: now, proven: false });
        true
    }

    /// Whether a datagram from elsewhere is RTCP of our sender: over bare RTP it may have a port of its own, and it is
    /// the SSRC that says whose it is (RFC 3550 §11, §5.1). It may also come before any sound.
    fn is_peers_rtcp(&self, bytes: &[u8]) -> bool {
        let profile = self.endpoint.profile();
        let bare = profile.wire == Wire::Datagram && profile.frame_overhead == 0;
        bare && classify(bytes) == Some(PacketKind::Rtcp)
            && bytes.get(4..8).is_some_and(|ssrc| {
                self.receiver.followed().is_none_or(|followed| ssrc == followed.to_be_bytes())
            })
    }

    fn fetch(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            let frame = &self.buf[..received.len];
            self.receiver.on_frame(now, received, frame);
            self.foreign += self.foreign_in(frame);
        }
        self.judge_framing();
        if let Some(interval) = self.receiver.takes_pace() {
            self.room = frames_of_a_stall(interval);
            self.endpoint.reserve(self.room);
        }
    }

    /// Packets in bytes of the wire, or in a frame, that say that the sender has the other framing. Once there is sound, none
    /// do.
    fn foreign_in(&self, bytes: &[u8]) -> usize {
        if self.receiver.has_begun() || self.told_foreign {
            return 0;
        }
        self.config.framing.foreign_in(&*self.endpoint, bytes)
    }

    /// A stray datagram says nothing of a sender, several do.
    fn judge_framing(&mut self) {
        if self.receiver.has_begun() || self.told_foreign {
            return;
        }
        // Within a transport of its own, what is in no packet is all that shows.
        let lost = self.config.framing == StreamFraming::Medusa && {
            let counters = self.endpoint.path_stats().counters;
            counters.frames_delivered == 0 && counters.malformed >= FOREIGN_PATIENCE as u64
        };
        if lost || self.foreign >= FOREIGN_PATIENCE {
            self.told_foreign = true;
            self.receiver.on_foreign_framing(self.config.framing, self.config.ends_with_stream);
        }
    }

    /// A fresh endpoint for whoever comes next, with room for a stream like the last.
    fn renew(&mut self, now: Instant) {
        self.endpoint = (self.config.endpoint)(now);
        self.endpoint.reserve(self.room);
        self.others.clear();
    }

    fn close(&mut self, now: Instant) {
        if self.state == State::Receiving {
            self.receiver.leave(now, &mut *self.endpoint);
            self.endpoint.close(now, CloseMode::Graceful);
            self.state = State::Closing;
        }
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => self.receiver.on_connected(self.broken.take().is_some()),
                Event::Broken(reason) => self.broken = Some(reason),
                Event::Closed(_) if self.state == State::Closing => self.state = State::Finished,
                Event::Closed(_) => {
                    // The peer took leave.
                    self.renew(now);
                    self.peer = None;
                }
                _ => {}
            }
        }
    }
}

impl Station for ReceiveStation {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        let input = match input {
            Input::Datagram { path, bytes, ecn, received_at } => {
                let (known, answered) = (self.knows(path), self.doorway.answered());
                let Some(path) = self.path_of_peer(now, path, bytes) else {
                    // A call that the doorkeeper answers is no stranger's datagram.
                    if self.doorway.answered() == answered {
                        self.strangers += 1;
                        self.foreign += self.foreign_in(bytes);
                    }
                    return;
                };
                let bytes = if known { bytes } else { self.doorway.entering(bytes) };
                Input::Datagram { path, bytes, ecn, received_at }
            }
            other => other,
        };
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        self.fetch(now);
        if self.state == State::Receiving {
            self.receiver.advance(now, &mut *self.endpoint);
        }
        let over = self.config.ends_with_stream && self.receiver.is_over();
        if over || self.receiver.error().is_some() {
            self.close(now);
        }
        self.events(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if let Some(answer) = self.doorway.poll_transmit(buf) {
            return Some(answer);
        }
        let transmit = self.endpoint.poll_transmit(now, buf)?;
        let other = (transmit.path.0 as usize).checked_sub(1).and_then(|at| self.others.get(at));
        Some(match self.peer {
            Some(peer) => Transmit { path: *other.unwrap_or(&peer.path), ..transmit },
            None => transmit,
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = if self.state == State::Receiving { self.receiver.poll_timeout() } else { None };
        sooner(own, self.endpoint.poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        // What came with the request is not left behind.
        self.fetch(now);
        self.receiver.finish_playout(now);
        self.close(now);
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    fn knows(&self, path: PathId) -> bool {
        self.peer.is_some_and(|peer| peer.path == path) || self.others.contains(&path)
    }
}

/// Packets in the other framing before the user hears of it: 40 ms of sound in blocks of 256 at 48 kHz.
const FOREIGN_PATIENCE: usize = 8;
