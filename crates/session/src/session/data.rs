//! A track of an application's messages, both ways: no sound and no RTP, only what the transport does.

use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant, Message, PathStats, Received, SendError, Wire};

use super::Session;
use super::end::State;
use super::presence::{Asking, OWN};
use crate::associations::STOP_PATIENCE;

/// Where an application's messages come from and go to: in practice, queues to other threads.
pub trait MessagePort {
    /// The next message to send; it is returned again until [`Self::taken`].
    fn next(&mut self) -> Option<Message<'_>>;

    /// The message of [`Self::next`] was accepted by the transport, or refused for good, and is removed.
    fn taken(&mut self, result: Result<(), SendError>);

    /// Whether [`Self::deliver`] has room.
    fn has_room(&mut self) -> bool;

    /// A message from the peer; called only where there is room.
    fn deliver(&mut self, bytes: &[u8], received: Received);

    /// Something happened to the association or to a message.
    fn on_event(&mut self, event: &Event);

    /// Called at the end of each round.
    fn on_round(&mut self, stats: &PathStats, state: LinkState, unknown_sources: u64);

    /// The most messages that wait at once.
    fn room(&self) -> usize;
}

/// State of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkState {
    /// No peer yet, or no sign of life from one that was called.
    #[default]
    Waiting,
    /// Messages flow.
    Connected,
    /// The peer cannot be reached for now.
    Broken,
    /// It has ended.
    Closed,
}

/// An application's messages in a session.
pub(super) struct MessageTrack {
    port: Box<dyn MessagePort>,
    blocked: bool,
    /// The port was full, and endpoints may hold more messages.
    paused: bool,
    pub broken_at: Option<Instant>,
    /// The session ends once the port is empty; since when no message was taken out of it.
    emptying: Option<Instant>,
    /// Until anything came from the peer that was called.
    pub asking: Option<Asking>,
    /// Why the association of the single peer ended.
    pub ended: Option<CloseReason>,
    told_closed: bool,
}

impl MessageTrack {
    pub fn new(port: Box<dyn MessagePort>) -> Self {
        MessageTrack {
            port,
            blocked: false,
            paused: false,
            broken_at: None,
            emptying: None,
            asking: None,
            ended: None,
            told_closed: false,
        }
    }

    pub fn room(&self) -> usize {
        self.port.room()
    }

    /// Another peer has taken the place of the previous one.
    pub fn on_replaced(&mut self) {
        (self.blocked, self.broken_at) = (false, None);
    }

    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected => self.broken_at = None,
            Event::Writable => self.blocked = false,
            // Reported once the session knows that the association has ended, and after all other events.
            Event::Closed(_) => return,
            Event::Outcome { tag: OWN, .. } => return,
            _ => {}
        }
        self.port.on_event(event);
    }
}

impl Session {
    /// Hands over received messages, as far as the application has room; the rest waits in the transport.
    pub(super) fn fetch_messages(&mut self, now: Instant) {
        let Some(data) = &mut self.data else { return };
        if data.paused && data.port.has_room() {
            data.paused = false;
            self.peers
                .iter()
                .flatten()
                .filter_map(|peer| peer.association)
                .for_each(|id| self.associations.touch(id));
        }
        while self.data.as_mut().is_some_and(|data| data.port.has_room()) {
            let Some((id, received)) = self.associations.poll_message(&mut self.buf) else { return };
            if !self.gets_place(now, id) {
                continue;
            }
            let buf = std::mem::take(&mut self.buf);
            let is_ours = self.on_presence(now, id, &buf[..received.len]);
            self.buf = buf;
            let Some(data) = &mut self.data else { return };
            let peer = self.peer_of.get(id.index()).copied().flatten();
            if let Some(peer) = peer.and_then(|at| self.peers[at as usize].as_mut()) {
                (peer.answered, peer.broken) = (true, None);
            }
            data.broken_at = None;
            if !is_ours {
                data.port.deliver(&self.buf[..received.len], received);
            }
        }
        // The application wakes the session when it takes a message out of a full queue, and the endpoints are asked
        // again.
        self.data.iter_mut().for_each(|data| data.paused = true);
        for id in self.peers.iter().flatten().filter_map(|peer| peer.association) {
            self.associations.pause(id);
        }
    }

    /// Sends what the application has, as far as the transport takes it.
    pub(super) fn send_messages(&mut self, now: Instant) {
        let Some(data) = &mut self.data else { return };
        if self.state != State::Open {
            return;
        }
        let peer = self.peers.iter().flatten().find(|peer| peer.connected);
        let id = peer.and_then(|peer| peer.association);
        while let (Some(id), false) = (id, data.blocked) {
            let Some(message) = data.port.next() else { break };
            match self.associations.send(now, id, message) {
                Err(SendError::Blocked { .. }) => data.blocked = true,
                result => {
                    data.port.taken(result);
                    data.emptying = data.emptying.map(|_| now);
                }
            }
        }
        let Some(since) = data.emptying else { return };
        // A peer that takes nothing more does not delay the end of the session.
        if id.is_none() || data.port.next().is_none() || now.since(since) >= STOP_PATIENCE {
            self.close(now);
        }
    }

    pub(super) fn empty_port(&mut self, now: Instant) {
        if let Some(data) = &mut self.data {
            data.emptying.get_or_insert(now);
        }
    }

    /// When the session stops waiting for the port to become empty.
    pub(super) fn next_give_up(&self) -> Option<Instant> {
        let since = self.data.as_ref().filter(|_| self.state == State::Open)?.emptying?;
        Some(since + STOP_PATIENCE)
    }

    /// Shows the application the state of its association.
    pub(super) fn show_port(&mut self, now: Instant) {
        if self.data.is_none() {
            return;
        }
        let (state, stats) = (self.link_state(now), self.stats());
        let Some(data) = &mut self.data else { return };
        if state == LinkState::Closed && !data.told_closed {
            data.told_closed = true;
            data.port.on_event(&Event::Closed(data.ended.unwrap_or(CloseReason::Local)));
        }
        data.port.on_round(&stats, state, self.unknown_sources);
    }

    fn link_state(&self, now: Instant) -> LinkState {
        let peer = self.peers.iter().flatten().find(|peer| peer.connected);
        let endpoint = peer.and_then(|peer| self.associations.endpoint(peer.association?));
        // Success of a datagram is not reported, so a refusal is forgotten after a while.
        let forgives = endpoint.is_none_or(|endpoint| endpoint.profile().wire == Wire::Datagram);
        let is_broken = |at: Instant| !forgives || now.since(at) < REFUSED_FOR;
        match self.state {
            State::Finished => LinkState::Closed,
            _ if peer.is_none() => LinkState::Waiting,
            _ if self.data.as_ref().and_then(|data| data.broken_at).is_some_and(is_broken) => {
                LinkState::Broken
            }
            _ if self.data.as_ref().is_some_and(|data| data.asking.is_some()) => LinkState::Waiting,
            _ => LinkState::Connected,
        }
    }
}

/// How long a refused datagram marks its peer as unreachable: a stream sends many more in that time, each refused
/// again.
const REFUSED_FOR: Duration = Duration::from_secs(2);
