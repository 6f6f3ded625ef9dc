//! Messages to peers that record over a reliable transport: handed over as the transport takes them, kept until they are
//! confirmed, and handed over again after a break.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseReason, Instant, Message, PathId, SendError, Stack, WireId, sooner};
use antiphon_media::rtcp::{PlayoutDelay, Receipt};

use super::change::Destinations;
use super::end::State;
use super::{Session, tell};
use crate::associations::AssociationId;
use crate::delivery::Delivery;
use crate::observer::{Seen, Sent};
use crate::peer::{Peer, PeerEnd};
use crate::protect::Emit;
use crate::send_track::{SendTrack, tag};

/// How a wire was called.
#[derive(Clone)]
pub(super) struct Called {
    pub wire: WireId,
    pub paths: Vec<PathId>,
    pub stack: Rc<dyn Stack>,
}

/// How to call the peer again when its association has ended.
pub(super) struct Redial {
    called: Called,
    /// Whether a peer is called again that does not record, or that has never answered.
    always: bool,
    /// When to call next, while there is no connection.
    next: Option<Instant>,
}

impl Session {
    /// Calls a peer as [`Self::call`] does, and again whenever the association has ended without our doing: one that records,
    /// or, with `always`, any.
    pub fn keep_calling(
        &mut self,
        now: Instant,
        wire: WireId,
        paths: &[PathId],
        stack: Rc<dyn Stack>,
        always: bool,
    ) {
        self.call(now, wire, paths, &*stack);
        let called = Called { wire, paths: paths.to_vec(), stack };
        self.redial = Some(Redial { called, always, next: None });
    }

    /// Decides whether the peer at `at` gets every message: it records, and its transport loses nothing.
    pub(super) fn judge_delivery(&mut self, now: Instant, at: usize) {
        let has_programmes = self.has_programmes();
        let Some(track) = &self.send else { return };
        let Some(peer) = &mut self.peers[at] else { return };
        let records = peer.playout_delay.unwrap_or(self.config.playout_delay) == PlayoutDelay::Unbounded;
        let profile = |id| self.associations.profile(id);
        let is_reliable = peer.association.and_then(profile).is_some_and(|profile| profile.reliable);
        let all = records
            && is_reliable
            && self.config.reflected.is_none()
            && track.copies() == 1
            && track.can_keep()
            && !has_programmes;
        match (&mut peer.delivery, all) {
            (None, true) => {
                let groups = track.ssrcs().count();
                peer.delivery = Some(Delivery::new(groups, track.store().next(), now));
            }
            // Without an association it is not known which kind the next one will be.
            (Some(_), false) if peer.association.is_some() => {
                self.hand_over(now, at);
                if let Some(peer) = &mut self.peers[at] {
                    peer.delivery = None;
                }
            }
            _ => {}
        }
        self.keep();
    }

    /// Hands what is to be delivered to the associations, as far as they take it.
    pub(super) fn deliver(&mut self, now: Instant) {
        if !self.peers.iter().flatten().any(|peer| peer.delivery.is_some()) {
            return;
        }
        self.send.iter_mut().for_each(SendTrack::refill);
        for at in 0..self.peers.len() {
            if self.peers[at].as_ref().is_some_and(|peer| peer.delivery.is_some()) {
                self.hand_over(now, at);
            }
        }
        self.keep();
    }

    fn hand_over(&mut self, now: Instant, at: usize) {
        let (Some(track), Some(peer)) = (&self.send, &mut self.peers[at]) else { return };
        let destinations = Destinations::of(peer);
        let Some((first, others)) = destinations.ids().split_first() else { return };
        let Peer { delivery: Some(delivery), outcomes, counters, rtcp, .. } = &mut **peer else { return };
        let store = track.store();
        while let Some(number) = delivery.next(now, store) {
            let Some((stored, bytes)) = store.get(number) else { break };
            let mut send = |id: AssociationId| {
                let message = Message::new(tag(0, Emit { number, copy: 0 }), bytes, None);
                self.associations.send_media(now, id, stored.group, message)
            };
            outcomes.begin(number, destinations.ids().len());
            let result = send(*first);
            match result {
                Ok(()) => {}
                // It goes on when there is room, or another association.
                Err(SendError::Blocked { .. } | SendError::Closed) => {
                    delivery.on_blocked();
                    break;
                }
                Err(SendError::TooLarge { .. } | SendError::Empty) => delivery.on_unsendable(),
            }
            let others_refused = others.iter().filter(|id| send(**id).is_err()).count();
            counters.settled += outcomes.refuse(number, others_refused + usize::from(result.is_err()));
            if result.is_err() {
                counters.refused += 1;
                continue;
            }
            if !delivery.on_handed(now, &stored) {
                counters.repeated += 1;
                continue;
            }
            counters.accepted += 1;
            counters.accepted_bytes += bytes.len() as u64;
            let captured = track.captured_at(&stored);
            rtcp.on_sent(now, track.ssrc_of(stored.group), captured, stored.info.payload);
            tell(&mut self.observers, now, &Seen::Sent(Sent::of(&stored, bytes.len(), result)));
        }
    }

    /// The first association of the peer at `at` takes messages again.
    pub(super) fn on_writable(&mut self, at: usize) {
        if let Some(delivery) = self.peers[at].as_mut().and_then(|peer| peer.delivery.as_mut()) {
            delivery.on_writable();
        }
    }

    /// The store keeps what some peer has not confirmed. The source waits for a single peer, but not for one of many.
    fn keep(&mut self) {
        let owed = self.peers.iter().flatten().filter_map(|peer| peer.delivery.as_ref());
        let from = owed.map(Delivery::confirmed).min().unwrap_or(u64::MAX);
        if let Some(track) = &mut self.send {
            track.keep_from(from, from != u64::MAX && self.listening.is_empty());
        }
    }

    /// A receipt of the peer at `at`; returns whether the message was one.
    pub(super) fn on_receipt(&mut self, now: Instant, at: usize, bytes: &[u8]) -> bool {
        let Some(receipt) = Receipt::parse(bytes) else { return false };
        let (Some(track), Some(peer)) = (&self.send, &mut self.peers[at]) else { return true };
        let group = track.ssrcs().position(|ssrc| ssrc == receipt.source);
        if let (Some(group), Some(delivery)) = (group, &mut peer.delivery) {
            delivery.on_receipt(now, group, &receipt, track.store());
        }
        self.keep();
        true
    }

    /// Whether a peer that can still be reached has not confirmed everything that was made for it.
    pub(super) fn is_owed(&self, now: Instant) -> bool {
        let Some(track) = &self.send else { return false };
        let mut owed = self.peers.iter().flatten().filter_map(|peer| peer.delivery.as_ref());
        owed.any(|delivery| {
            !delivery.is_complete(now, track.store()) && now.since(delivery.progress()) < self.patience
        })
    }

    /// Whether a peer that is owed something has confirmed nothing for the patience.
    pub(super) fn has_fallen_silent(&self, now: Instant) -> bool {
        self.next_silence().is_some_and(|silent| silent <= now)
    }

    /// When that will be so.
    pub(super) fn next_silence(&self) -> Option<Instant> {
        if self.serving.is_some() {
            // The others go on.
            return None;
        }
        let store = self.send.as_ref()?.store();
        let owed = self.peers.iter().flatten().filter_map(|peer| peer.delivery.as_ref());
        let owed = owed.filter(|delivery| delivery.confirmed() < store.next());
        owed.map(|delivery| delivery.progress() + self.patience).min()
    }

    /// The receivers of the peer at `at` have said goodbye: the stream ends, unless they are waited for. A group goes on, as others may
    /// join it.
    pub(super) fn on_left(&mut self, now: Instant, at: usize) {
        let waits = self.group || self.redial.as_ref().is_none_or(|redial| redial.always);
        // A call hears its peer's last sound first.
        let called = self.listening.is_empty() && self.config.reflected.is_none() && self.two_way.is_none();
        self.on_receiver_left(now, at);
        let Some(peer) = &self.peers[at] else { return };
        if !called || waits || self.state != State::Open || !peer.members.have_left() {
            return;
        }
        self.peer_end.get_or_insert(PeerEnd::Left);
        self.close(now);
    }

    /// The first association of the peer at `at` has broken or ended: returns whether another is called.
    pub(super) fn calls_again(&mut self, now: Instant, at: usize) -> bool {
        if self.state != State::Open && !self.is_owed(now) {
            return false;
        }
        let (Some(redial), Some(peer)) = (&mut self.redial, &mut self.peers[at]) else { return false };
        if !redial.always && (peer.delivery.is_none() || !peer.answered) {
            return false;
        }
        redial.next = Some(now);
        (peer.association, peer.connected) = (None, false);
        if let Some(delivery) = &mut peer.delivery {
            delivery.rewind();
        }
        true
    }

    /// Another association has become the first one of the peer at `at`: what is not confirmed is handed over again, if it is to
    /// be, and the peer is called again over the wire of that one.
    pub(super) fn on_new_first(&mut self, now: Instant, at: usize) {
        let Some(peer) = &mut self.peers[at] else { return };
        if let Some(delivery) = &mut peer.delivery {
            delivery.rewind();
        }
        let wire = peer.wire;
        if let Some((wire, always)) = wire.zip(self.redial.as_ref().map(|redial| redial.always)) {
            self.redial = self.called(wire).map(|called| Redial { called, always, next: None });
        }
        self.judge_delivery(now, at);
    }

    /// A byte stream has broken under an association: a new association begins, whose messages are not behind old ones.
    pub(super) fn renew(&mut self, now: Instant, at: usize) {
        let records = |peer: &&Peer| peer.delivery.is_some() && peer.further_of_sound().next().is_none();
        let Some(peer) = self.peers[at].as_deref().filter(records) else { return };
        if let (Some(id), Some(_)) = (peer.association, &self.redial) {
            self.associations.end(now, id, CloseReason::Peer);
        }
    }

    /// Calls again, if it is time.
    pub(super) fn step_redial(&mut self, now: Instant) {
        let Some(redial) = self.redial.as_mut().filter(|redial| redial.next.is_some_and(|next| next <= now))
        else {
            return;
        };
        let Some(at) = self.peers.iter().position(Option::is_some) else {
            // It has ended within [`CALL_AGAIN`] of the last call.
            redial.next = None;
            return;
        };
        let peer = self.peers[at].as_ref();
        if peer.is_some_and(|peer| peer.connected) {
            redial.next = None;
            return;
        }
        redial.next = Some(now + CALL_AGAIN);
        if let Some(id) = peer.and_then(|peer| peer.association) {
            // It has not connected in time; its end is not the peer's.
            self.peer_of[id.index()] = None;
            self.associations.end(now, id, CloseReason::TimedOut);
        }
        let Called { wire, paths, stack } = redial.called.clone();
        let id = self.associate(now, wire, &paths, &*stack);
        self.attach(now, id, at);
        self.show_tokens_apart(now, at);
    }

    /// When one of these has something to do.
    pub(super) fn next_delivery(&self) -> Option<Instant> {
        let redial = self.redial.as_ref().and_then(|redial| redial.next);
        let owed = self.peers.iter().flatten().filter_map(|peer| peer.delivery.as_ref());
        owed.map(|delivery| delivery.poll_timeout()).fold(redial, sooner)
    }
}

/// How long a call may take before it is made anew: the time-outs of a handshake double, and a path that is there again is
/// to be used within a second.
pub(super) const CALL_AGAIN: Duration = Duration::from_secs(1);
