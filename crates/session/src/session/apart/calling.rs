//! Calls for the associations of pictures and data, and calls again.

use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Event, Instant, Wire, sooner};

use super::{Apart, Sending};
use crate::peer::{Further, Joining};
use crate::session::Session;
use crate::session::change::{Change, ChangeFailure};
use crate::session::deliver::{CALL_AGAIN, Called};
use crate::session::end::State;

impl Session {
    /// An event of an association that carries no sound.
    pub(in crate::session) fn on_apart_event(
        &mut self,
        now: Instant,
        at: usize,
        apart: Apart,
        event: &Event,
    ) {
        if self.sends_video_session() {
            return self.on_video_session_event(now, at, event);
        }
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.apart_mut(apart)) else { return };
        let id = one.id;
        match event {
            Event::Connected => {
                (one.connected, one.began) = (true, now);
                self.further.tell_at = Some(now);
            }
            Event::Broken(_) => {
                // A stream connects again; datagrams are sent on, and may be heard again.
                one.connected &=
                    self.associations.profile(id).is_some_and(|profile| profile.wire == Wire::Datagram);
                self.lose_way_apart(at, apart, ChangeFailure::Unreachable);
            }
            Event::Closed(reason) => {
                let why = match (reason, one.connected) {
                    (CloseReason::Refused, _) => ChangeFailure::Unreachable,
                    (_, true) => ChangeFailure::Ended,
                    (_, false) => ChangeFailure::NoConnection,
                };
                self.lose_way_apart(at, apart, why);
                self.remove_way_apart(at, apart);
                if let Some(sending) = self.apart.sending_mut(apart) {
                    sending.redial = Some(now + CALL_AGAIN);
                }
            }
            _ => {}
        }
    }

    /// What goes that way waits until the receiver has taken the association again.
    fn lose_way_apart(&mut self, at: usize, apart: Apart, why: ChangeFailure) {
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.apart_mut(apart)) else { return };
        one.accepted = None;
        let (wire, is_open) = (one.wire, self.state == State::Open);
        let Some(sending) = self.apart.sending_mut(apart) else { return };
        sending.since = None;
        if let Some(wire) = wire.filter(|_| is_open && !std::mem::replace(&mut sending.told, true)) {
            self.further.changes.push_back(Change::Failed(wire, why));
        }
    }

    fn remove_way_apart(&mut self, at: usize, apart: Apart) {
        if let Some(peer) = &mut self.peers[at] {
            peer.further.retain(|one| one.apart != Some(apart));
        }
    }

    /// The peer at `at` is gone: the associations that carry no sound of its end, too.
    pub(in crate::session) fn end_ways_apart(&mut self, now: Instant, at: usize) {
        for apart in Apart::ALL {
            let one = self.peers[at].as_ref().and_then(|peer| peer.apart(apart).copied());
            let Some(one) = one else { continue };
            self.peer_of[one.id.index()] = None;
            self.remove_way_apart(at, apart);
            let mode = if one.connected { CloseMode::Graceful } else { CloseMode::Abort };
            self.associations.close(now, one.id, mode);
        }
    }

    /// Calls for them if it is time, and notices what does not answer.
    pub(in crate::session) fn step_apart(&mut self, now: Instant) {
        if self.apart.is_unused() {
            return;
        }
        for apart in Apart::ALL {
            let is_due = self.next_of_way(apart).is_some_and(|due| due <= now);
            if is_due && self.apart.sending(apart).is_some() {
                self.step_way_apart(now, apart);
            }
        }
    }

    fn step_way_apart(&mut self, now: Instant, apart: Apart) {
        let Some(sending) = self.apart.sending_mut(apart) else { return };
        if sending.redial.is_some_and(|due| due <= now) {
            sending.redial = None;
            return self.dial_apart(now, apart);
        }
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let Some(one) = self.peers[at].as_ref().and_then(|peer| peer.apart(apart).copied()) else { return };
        if one.connected {
            self.lose_way_apart(at, apart, ChangeFailure::Ended);
        } else {
            // It has not connected in time.
            self.peer_of[one.id.index()] = None;
            self.remove_way_apart(at, apart);
            self.associations.end(now, one.id, CloseReason::TimedOut);
            self.dial_apart(now, apart);
        }
    }

    pub(super) fn dial_apart(&mut self, now: Instant, apart: Apart) {
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let Some(Sending { called: Some(called), .. }) = self.apart.sending(apart) else { return };
        let Called { wire, paths, stack } = called.clone();
        let id = self.associate(now, wire, &paths, &*stack);
        self.attach_further(now, (id, Some(apart)), at, Joining::Beside, false);
        if !self.sends_video_session() {
            self.further.tell_at = Some(now);
        }
    }

    /// When [`Self::step_apart`] has something to do, or [`Self::waits_for_rest`] says something else.
    pub(in crate::session) fn next_apart(&self) -> Option<Instant> {
        if self.apart.is_unused() {
            return None;
        }
        let [pictures, data] = Apart::ALL.map(|apart| self.next_of_way(apart));
        sooner(pictures, data)
    }

    fn next_of_way(&self, apart: Apart) -> Option<Instant> {
        if self.sends_video_session() || self.state != State::Open {
            return None;
        }
        let Some(sending) = self.apart.sending(apart) else { return self.silence_apart_at(apart) };
        let one = self.peers.iter().flatten().find_map(|peer| peer.apart(apart));
        let is_datagram = |one: &&Further| {
            self.associations.profile(one.id).is_some_and(|profile| profile.wire == Wire::Datagram)
        };
        let unheard = one.filter(is_datagram).and_then(|one| match one.accepted {
            _ if !one.connected => Some(one.began + CONNECTS),
            Some(_) => self.associations.heard_at(one.id).map(|at| at + UNHEARD),
            None => None,
        });
        sooner(sending.redial, unheard)
    }
}

/// Silence after which an association over datagrams is taken to be gone: its token is shown and answered once a second, and arrivals are
/// told more often.
const UNHEARD: Duration = Duration::from_secs(3);
/// How long a handshake may take before it is begun anew: its time-outs double, and a path that is there again is to be used soon.
const CONNECTS: Duration = Duration::from_secs(3);
