//! The peers of a session, and the associations that lead to them.

use antiphon_core::{Instant, Wire};

use super::Session;
use super::data::MessageTrack;
use super::two_way::TwoWay;
use crate::associations::AssociationId;
use crate::peer::{Outcomes, Peer};
use crate::receive_track::ReceiveTrack;
use crate::send_track::{SendTrack, messages_of_a_stall};

impl Session {
    pub(super) fn new_peer(&mut self, now: Instant) -> usize {
        let rtcp = self.new_rtcp(now);
        let groups = self.send.as_ref().map_or(0, |track| track.ssrcs().count());
        let outcomes = self.send.as_ref().map_or_else(Outcomes::default, |track| {
            Outcomes::new(track.copies(), track.messages_of_a_stall().max(MOST_OPEN))
        });
        let peer = Peer::new(rtcp, groups, outcomes);
        let at = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        if at == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[at] = Some(Box::new(peer));
        at
    }

    /// The association `id` leads to the peer at `at`.
    pub(super) fn attach(&mut self, now: Instant, id: AssociationId, at: usize) {
        self.map_to_peer(id, at);
        let wire = self.associations.wire_of(id);
        if let Some(peer) = &mut self.peers[at] {
            (peer.association, peer.wire, peer.connected) = (Some(id), wire, false);
            self.report_timers.set(at, peer.rtcp.poll_timeout());
        }
        self.judge_delivery(now, at);
        let profile = self.associations.profile(id);
        self.answers |= profile.is_some_and(|profile| profile.wire == Wire::Datagram && !profile.bare);
        self.hold(profile.map_or(0, |profile| profile.max_receive));
        let sent = self.send.as_ref().map_or(0, SendTrack::messages_of_a_stall);
        self.room = self.room.max(sent).max(self.data.as_ref().map_or(0, MessageTrack::room));
        // A peer that is one of many gets little memory.
        if self.room > 0 && self.peers.iter().flatten().count() == 1 {
            self.associations.reserve_messages(id, self.room);
        }
    }

    pub(super) fn map_to_peer(&mut self, id: AssociationId, at: usize) {
        if self.peer_of.len() <= id.index() {
            self.peer_of.resize(id.index() + 1, None);
        }
        self.peer_of[id.index()] = Some(at as u32);
    }

    pub(super) fn peer_at(&self, id: AssociationId) -> Option<usize> {
        self.peer_of.get(id.index()).copied().flatten().map(|at| at as usize)
    }

    /// Creates peers for associations that a listening wire admitted.
    pub(super) fn take_opened(&mut self, now: Instant) {
        while let Some(id) = self.associations.poll_opened() {
            if self.peer_at(id).is_some() || self.associations.is_waiting(id) {
                continue;
            }
            match self.single {
                Some(at) => {
                    if !self.is_candidate(now, id, at) {
                        self.replace(now, id, at);
                    }
                }
                None => {
                    let at = self.new_peer(now);
                    self.attach(now, id, at);
                }
            }
        }
    }

    /// Another association replaces that of a single peer.
    pub(super) fn replace(&mut self, now: Instant, id: AssociationId, at: usize) {
        let before = self.peers[at].as_ref().and_then(|peer| peer.association);
        self.forget_further(at);
        self.attach(now, id, at);
        if before.is_some() {
            if let Some(data) = &mut self.data {
                data.on_replaced();
            }
            self.two_way.iter_mut().for_each(TwoWay::on_replaced);
            if let Some(track) = &mut self.receive {
                track.forget_source();
            }
        }
    }

    /// Reserves memory for a stream that has begun, according to its packet duration.
    pub(super) fn hold_ready(&mut self) {
        let Some(interval) = self.receive.as_mut().and_then(ReceiveTrack::takes_pace) else { return };
        let room = messages_of_a_stall(interval);
        if room <= self.room {
            return;
        }
        self.room = room;
        let ids: Vec<AssociationId> =
            self.peers.iter().flatten().filter_map(|peer| peer.association).collect();
        if let [id] = ids[..] {
            self.associations.reserve_messages(id, self.room);
        }
    }
}

/// The least number of messages whose copies may be without an outcome at once.
pub(super) const MOST_OPEN: usize = 1024;
