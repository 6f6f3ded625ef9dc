//! A station that carries the application's own frames: no sound, no RTP, just what the endpoint does.

use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Frame, Input, Instant, PathId, PathStats, Received, SendError,
    Transmit, Wire,
};

use crate::doorway::Doorway;
use crate::receive::MakeEndpoint;
use crate::station::Station;

/// Where a [`FrameStation`]'s frames come from and go to: in practice, queues to other threads.
pub trait FramePort {
    /// The next frame to send; it stays until [`Self::taken`].
    fn next(&mut self) -> Option<Frame<'_>>;

    /// What became of the frame of [`Self::next`]: accepted by the transport, or refused for good. It is gone.
    fn taken(&mut self, result: Result<(), SendError>);

    /// Whether [`Self::deliver`] has room.
    fn has_room(&mut self) -> bool;

    /// A frame from the peer; called only where there is room.
    fn deliver(&mut self, bytes: &[u8], received: Received);

    /// Something happened to the association or to a frame.
    fn on_event(&mut self, event: &Event);

    /// Called at the end of each round.
    fn on_round(&mut self, stats: &PathStats, state: LinkState, strangers: u64);
}

/// How an association stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkState {
    /// No peer yet.
    #[default]
    Waiting,
    /// Frames flow.
    Connected,
    /// The peer can't be reached for now.
    Broken,
    /// It has ended.
    Closed,
}

/// Whom a [`FrameStation`] talks to.
#[derive(Clone, Copy, Debug)]
pub enum FramePeer {
    /// The one that the line calls.
    Called,
    /// Whoever calls first.
    Awaited {
        /// Whether a first datagram may make an association (`proto::Transport::admits`).
        admits: fn(&[u8]) -> bool,
        /// Silence after which another peer may take over.
        silence: Duration,
    },
}

/// Sends and receives frames over one association at a time.
///
/// Frames wait in the port until the transport says that they flow, and while it is full. One who waits for a caller
/// talks to the first that comes, until it takes leave or falls silent; others are counted as strangers.
pub struct FrameStation<P> {
    make: MakeEndpoint,
    endpoint: Box<dyn Endpoint>,
    port: P,
    waits: Option<Waits>,
    buf: Vec<u8>,
    connected: bool,
    broken: Option<Instant>,
    blocked: bool,
    strangers: u64,
    state: State,
}

/// One who waits for a caller over datagrams.
struct Waits {
    doorway: Doorway,
    silence: Duration,
    peer: Option<(PathId, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Sends what is in the port.
    Emptying,
    Closing,
    Finished,
}

impl<P: FramePort> FrameStation<P> {
    /// A station over the endpoints that `make` opens: one now, and for one who waits another with each new peer.
    pub fn new(mut make: MakeEndpoint, peer: FramePeer, port: P, now: Instant) -> Self {
        let mut endpoint = make(now);
        let profile = endpoint.profile();
        let waits = match peer {
            FramePeer::Awaited { admits, silence } if profile.wire == Wire::Datagram => {
                // On bare datagrams every byte is the application's: no looks tell friend from stranger.
                let bare = profile.frame_overhead == 0;
                let mut doorway = Doorway::new(if bare { not_empty } else { admits });
                doorway.set_keeper(endpoint.doorkeeper(now));
                Some(Waits { doorway, silence, peer: None })
            }
            FramePeer::Awaited { .. } | FramePeer::Called => None,
        };
        FrameStation {
            buf: vec![0; profile.max_receive],
            make,
            endpoint,
            port,
            waits,
            connected: false,
            broken: None,
            blocked: false,
            strangers: 0,
            state: State::Open,
        }
    }

    /// Where frames come from and go to.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// Whether frames can go out now.
    fn flows(&self) -> bool {
        self.connected && self.waits.as_ref().is_none_or(|waits| waits.peer.is_some())
    }

    fn link_state(&self, now: Instant) -> LinkState {
        // A datagram that nobody refuses tells nothing: what was refused is forgotten after a while.
        let forgives = self.endpoint.profile().wire == Wire::Datagram;
        let is_broken = |at: Instant| !forgives || now.since(at) < REFUSED_FOR;
        match self.state {
            State::Finished => LinkState::Closed,
            _ if !self.flows() => LinkState::Waiting,
            _ if self.broken.is_some_and(is_broken) => LinkState::Broken,
            _ => LinkState::Connected,
        }
    }

    /// Whether a datagram from `path` is our peer's, or makes it so.
    fn is_peer(&mut self, now: Instant, path: PathId, bytes: &[u8]) -> bool {
        let Some(waits) = &mut self.waits else { return true };
        if let Some((peer, heard)) = &mut waits.peer
            && *peer == path
        {
            *heard = now;
            return true;
        }
        if waits.peer.is_some_and(|(_, heard)| now.since(heard) < waits.silence)
            || !waits.doorway.lets_in(now, path, bytes)
        {
            return false;
        }
        if waits.peer.replace((path, now)).is_some() {
            self.start_anew(now);
        }
        true
    }

    /// Calls that the doorkeeper has answered.
    fn answered(&self) -> u64 {
        self.waits.as_ref().map_or(0, |waits| waits.doorway.answered())
    }

    /// A fresh endpoint for whoever comes next. What the old one had accepted is told of as lost with it.
    fn start_anew(&mut self, now: Instant) {
        self.endpoint.close(now, CloseMode::Abort);
        self.tell_events(now);
        self.endpoint = (self.make)(now);
        (self.connected, self.broken, self.blocked) = (false, None, false);
    }

    fn send(&mut self, now: Instant) {
        while self.flows() && !self.blocked {
            let Some(frame) = self.port.next() else { break };
            match self.endpoint.send(now, frame) {
                Err(SendError::Blocked { .. }) => self.blocked = true,
                result => self.port.taken(result.map(|_| ())),
            }
        }
        let done = !self.flows() || self.port.next().is_none();
        if self.state == State::Emptying && done {
            let mode = if self.connected { CloseMode::Graceful } else { CloseMode::Abort };
            self.endpoint.close(now, mode);
            self.state = State::Closing;
        }
    }

    fn fetch(&mut self) {
        while self.port.has_room() {
            let Some(received) = self.endpoint.poll_frame(&mut self.buf) else { break };
            self.broken = None;
            self.port.deliver(&self.buf[..received.len], received);
        }
    }

    fn tell_events(&mut self, now: Instant) -> Option<CloseReason> {
        let mut closed = None;
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => (self.connected, self.broken) = (true, None),
                Event::Writable => self.blocked = false,
                Event::Closed(reason) => {
                    closed = Some(reason);
                    continue;
                }
                Event::Broken(_) => self.broken = Some(now),
                Event::Frame { .. } | Event::Congestion(_) => {}
            }
            self.port.on_event(&event);
        }
        closed
    }

    fn events(&mut self, now: Instant) {
        if let Some(reason) = self.tell_events(now) {
            self.port.on_event(&Event::Closed(reason));
            self.state = State::Finished;
        }
    }
}

impl<P: FramePort> Station for FrameStation<P> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        let input = match input {
            Input::Datagram { path, bytes, ecn, received_at } => {
                let (known, answered) = (self.knows(path), self.answered());
                if !self.is_peer(now, path, bytes) {
                    // A call that the doorkeeper answers is no stranger's datagram.
                    self.strangers += u64::from(self.answered() == answered);
                    return;
                }
                let bytes = match &self.waits {
                    Some(waits) if !known => waits.doorway.entering(bytes),
                    _ => bytes,
                };
                Input::Datagram { path: PathId::default(), bytes, ecn, received_at }
            }
            other => other,
        };
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        self.fetch();
        self.events(now);
        if matches!(self.state, State::Open | State::Emptying) {
            self.send(now);
            self.events(now);
        }
        let (stats, state) = (self.endpoint.path_stats(), self.link_state(now));
        self.port.on_round(&stats, state, self.strangers);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let Some(waits) = &mut self.waits else { return self.endpoint.poll_transmit(now, buf) };
        if let Some(answer) = waits.doorway.poll_transmit(buf) {
            return Some(answer);
        }
        let (peer, _) = waits.peer?;
        let transmit = self.endpoint.poll_transmit(now, buf)?;
        Some(Transmit { path: peer, ..transmit })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn stop(&mut self, _now: Instant) {
        if self.state == State::Open {
            self.state = State::Emptying;
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    fn knows(&self, path: PathId) -> bool {
        match &self.waits {
            Some(waits) => waits.peer.is_some_and(|(peer, _)| peer == path),
            None => path == PathId::default(),
        }
    }
}

/// How long a refused datagram speaks against its peer: a stream sends many more in that time, each refused anew.
const REFUSED_FOR: Duration = Duration::from_secs(2);

fn not_empty(datagram: &[u8]) -> bool {
    !datagram.is_empty()
}

#[cfg(test)]
mod tests;
