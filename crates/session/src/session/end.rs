//! How a session ends.

use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Instant, Wire, sooner};

use super::{Apart, Session};
use crate::associations::AssociationId;
use crate::peer::PeerEnd;
use crate::receive_track::ReceiveTrack;
use crate::send_track::SendTrack;

/// State of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It sends and receives.
    Open,
    /// Everything was sent, and the goodbyes go out, several times, as a datagram may be lost.
    SayingGoodbye {
        byes: u32,
        next: Instant,
    },
    /// Until then, packets sent to a reflector may still come back.
    Draining {
        until: Instant,
    },
    /// The goodbyes to a large group wait until they are due, at the latest until then (RFC 3550 §6.3.7).
    Leaving {
        until: Instant,
    },
    /// The associations are ending.
    Closing,
    Finished,
}

impl State {
    /// Whether received sound is still played.
    pub fn receives(self) -> bool {
        !matches!(self, State::Leaving { .. } | State::Closing | State::Finished)
    }
}

impl Session {
    /// Goes on to the next state when its time has come.
    pub(super) fn step(&mut self, now: Instant) {
        match self.state {
            State::Open => self.step_open(now),
            State::SayingGoodbye { byes, next } => self.say_goodbye(now, byes, next),
            State::Draining { until } if self.two_way.is_some() => {
                let over = self.receive.as_ref().is_none_or(ReceiveTrack::is_over);
                if (over || until <= now) && !self.hear_out(now) {
                    self.close(now);
                }
            }
            State::Draining { until } => {
                let over = self.receive.as_ref().is_none_or(ReceiveTrack::is_over);
                if over || self.has_heard_all() || until <= now {
                    self.close(now);
                }
            }
            State::Leaving { until } => {
                if until <= now || !self.peers.iter().flatten().any(|peer| peer.rtcp.is_leaving()) {
                    self.close(now);
                }
            }
            State::Closing | State::Finished => {}
        }
    }

    /// The session is finished once the last association has ended and its last event was handled.
    pub(super) fn finish(&mut self) {
        if self.state == State::Closing && self.associations.is_empty() {
            self.state = State::Finished;
        }
    }

    /// Whether every packet sent to a reflector has come back or was given up here, and all has been played.
    fn has_heard_all(&self) -> bool {
        let (sent, track) = (self.sent().peers, self.receive.as_ref());
        track.is_some_and(|track| {
            track.is_at_end() && track.counters().packets + sent.expired >= sent.accepted
        })
    }

    fn step_open(&mut self, now: Instant) {
        if let Some(reflected) = self.config.reflected {
            let began = self.sending.map(|(began, _)| began);
            let arrived = self.receive.as_ref().is_some_and(|track| track.counters().packets > 0);
            self.unanswered = began.is_some_and(|began| !arrived && now.since(began) > reflected.answer);
            // A transport with a handshake would try for minutes; the user of a comparison wants to know sooner.
            let given_up = !self.has_connected() && now.since(self.opened_at) >= reflected.connect;
            if given_up || self.unanswered {
                return self.close(now);
            }
        }
        if self.has_fallen_silent(now) {
            self.peer_end.get_or_insert(PeerEnd::Silent);
            return self.close(now);
        }
        let drained = self.send.is_some() && self.send_tracks().all(SendTrack::is_drained);
        if drained && !self.is_owed(now) && self.is_video_over(now) && self.is_data_over(now) {
            self.end_sending(now);
            self.state = State::SayingGoodbye { byes: 0, next: now };
            return self.say_goodbye(now, 0, now);
        }
        if self.cannot_hear() {
            return self.close(now);
        }
        if self.two_way.is_some() {
            return self.step_two_way(now);
        }
        let Some(track) = &self.receive else { return };
        let over = self.config.ends_with_stream && self.config.reflected.is_none() && track.is_over();
        let failed = track.error().is_some();
        if failed || over && !self.waits_for_rest(now) && !self.waits_for_video_session(now) {
            self.close(now);
        }
    }

    fn end_sending(&mut self, now: Instant) {
        if self.sending.is_some_and(|(_, end)| end.is_none()) {
            let id = self.peers().find_map(|peer| peer.association);
            let profile = id.and_then(|id| self.associations.profile(id));
            let answers = profile.filter(|one| {
                one.wire == Wire::Datagram && (one.acknowledged || one.capabilities.connection_oriented)
            });
            self.heard_by_end = answers.map(|_| self.stats().counters.bytes_received);
        }
        if let Some((_, end)) = &mut self.sending {
            end.get_or_insert(now);
        }
        // The goodbyes may be lost on their way back.
        if let (Some(_), Some(sent), Some(track)) = (self.config.reflected, &self.send, &mut self.receive) {
            let packetiser = sent.packetiser();
            track.set_end(packetiser.timestamp_at(packetiser.position().frames));
        }
    }

    /// Sends a goodbye to every peer, after the last sound of each group: a goodbye that overtook a repetition of that
    /// sound would cut it off.
    fn say_goodbye(&mut self, now: Instant, byes: u32, next: Instant) {
        if next > now {
            return;
        }
        if byes == 0 {
            for peer in self.peers.iter_mut().flatten() {
                let goodbyes = &mut peer.goodbyes;
                peer.rtcp.close_each(now, &mut self.report, |_, bytes| goodbyes.push(bytes.to_vec()));
            }
            self.end_video_reports(now);
        }
        if byes < BYES {
            for at in 0..self.peers.len() {
                self.send_goodbyes(now, at);
            }
            self.send_goodbyes_of_pictures(now);
            self.state = State::SayingGoodbye { byes: byes + 1, next: now + BYE_GAP };
        } else if let Some(reflected) = self.config.reflected {
            self.state = State::Draining { until: now + reflected.drain };
        } else if !self.hear_out(now) {
            self.close(now);
        }
    }

    fn send_goodbyes(&mut self, now: Instant, at: usize) {
        let goodbyes =
            self.peers[at].as_ref().filter(|peer| peer.connected).map_or(0, |peer| peer.goodbyes.len());
        for group in 0..goodbyes {
            let Some(peer) = &self.peers[at] else { return };
            let bytes = &peer.goodbyes[group];
            let len = bytes.len();
            if self.says_goodbye_apart(group) {
                // Of pictures, behind the last of them.
                if let Some(id) = peer.way(Apart::Pictures) {
                    self.associations.send_control(now, id, Some(0), bytes);
                }
                continue;
            }
            self.report[..len].copy_from_slice(bytes);
            self.send_report(now, at, len, Some(group));
        }
    }

    /// Ends the associations; those without a connection at once.
    pub(super) fn close(&mut self, now: Instant) {
        self.end_sending(now);
        if let Some(track) = &mut self.receive {
            track.finish_playout(now);
        }
        if self.send.is_none() && self.data.is_none() {
            self.send_goodbye_to_senders(now);
        }
        self.associations.stop(now);
        for at in 0..self.peers.len() {
            let Some(peer) = &self.peers[at] else { continue };
            let mode = |connected| if connected { CloseMode::Graceful } else { CloseMode::Abort };
            let first = peer.association.map(|id| (id, mode(peer.connected)));
            let further: Vec<_> = peer.further.iter().map(|one| (one.id, mode(one.connected))).collect();
            for (id, mode) in first.into_iter().chain(further) {
                self.associations.close(now, id, mode);
            }
        }
        for id in self.candidates() {
            self.associations.close(now, id, CloseMode::Abort);
        }
        self.state = State::Closing;
    }

    /// Says goodbye to a large group when its turn has come, and ends.
    fn leave(&mut self, now: Instant) {
        if let Some(track) = &mut self.receive {
            track.finish_playout(now);
        }
        self.send_goodbye_to_senders(now);
        for at in 0..self.peers.len() {
            let next = self.peers[at].as_ref().and_then(|peer| peer.rtcp.poll_timeout());
            self.report_timers.set(at, next);
        }
        self.state = State::Leaving { until: now + LEAVE_PATIENCE };
        self.step(now);
    }

    /// A session that only receives sends one goodbye to its senders.
    fn send_goodbye_to_senders(&mut self, now: Instant) {
        for at in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[at] else { continue };
            if let Some(len) = peer.rtcp.close(now, &mut self.report) {
                self.send_report(now, at, len, None);
            }
        }
        self.leave_video_session(now);
    }

    /// Ends the session because the user or the program asks for it.
    pub(super) fn begin_stopping(&mut self, now: Instant) {
        if self.data.is_some() {
            return self.empty_port(now);
        }
        match (&mut self.send, self.state) {
            (Some(track), State::Open) => {
                track.end();
                self.programmes.others.iter_mut().for_each(SendTrack::end);
                let reflected = self.config.reflected.as_mut();
                // Packets in flight may still arrive: waiting for them briefly gives true figures.
                reflected.into_iter().for_each(|reflected| reflected.drain = reflected.drain.min(STOP_DRAIN));
                if self.sending.is_none() {
                    return self.close(now);
                }
                if self.is_owed(now) {
                    // What was made is still delivered, while that gets on; then the stream ends as by itself.
                    self.patience = STOP_OWED;
                    return;
                }
                self.end_sending(now);
                self.state = State::SayingGoodbye { byes: 0, next: now };
            }
            (None, State::Open) => self.leave(now),
            _ => {}
        }
    }

    pub(super) fn on_closed(&mut self, now: Instant, id: AssociationId, at: usize, reason: CloseReason) {
        self.peer_of[id.index()] = None;
        if self.goes_on_without(now, at, id) || self.calls_again(now, at) || self.on_hung_up(now, at, reason)
        {
            return;
        }
        // What ends in answer to our goodbye ends well; a peer that answers no more does not.
        let ended_well = self.state != State::Open && reason != CloseReason::TimedOut;
        self.on_receiver_gone(at, reason);
        let said_bye = self.receive.as_ref().is_some_and(ReceiveTrack::has_said_bye);
        let left_us = self.asking.is_some() && !said_bye;
        if (self.send.is_some() && self.serving.is_none() || left_us) && !ended_well {
            self.peer_end.get_or_insert(PeerEnd::Closed(reason));
        }
        self.end_ways_apart(now, at);
        let Some(peer) = &mut self.peers[at] else { return };
        let ended = self.sending.and_then(|(_, end)| end).unwrap_or(now);
        let broken = peer.broken_lately(ended);
        (peer.association, peer.connected) = (None, false);
        if self.single == Some(at) {
            if let (Some(data), State::Open) = (&mut self.data, self.state) {
                data.ended = Some(reason);
            }
        } else {
            let messages = self.send.as_ref().map_or(0, |track| track.store().next());
            self.past += peer.counted(messages);
            peer.broken = broken;
            self.gone = self.peers[at].take();
            self.report_timers.set(at, None);
        }
        // A session that called has no peer left; a session that listens waits for the next.
        let without_peers = self.listening.is_empty() && self.peers.iter().all(Option::is_none);
        let data_ended = self.data.as_ref().is_some_and(|data| data.ended.is_some());
        // A sender that was called has ended its stream: the rest of it is heard.
        if self.asking.is_some() && said_bye && self.receive.as_ref().is_some_and(|track| !track.is_over()) {
            return;
        }
        if self.state != State::Closing && (without_peers || data_ended) {
            self.close(now);
            self.state = State::Closing;
        }
    }

    pub(super) fn next_step(&self) -> Option<Instant> {
        match self.state {
            State::SayingGoodbye { next, .. } => Some(next),
            State::Leaving { until } => sooner(Some(until), self.report_timers.soonest()),
            State::Draining { until } => Some(until),
            State::Open if self.send.is_some() && self.config.reflected.is_none() => self.next_silence(),
            State::Open => {
                let reflected = self.config.reflected?;
                let patience = match self.sending {
                    Some((began, _)) => began + reflected.answer + Duration::from_nanos(1),
                    // Until it is told when to start, it has nothing to do.
                    None if self.has_connected() => return None,
                    None => self.opened_at + reflected.connect,
                };
                let arrived = self.receive.as_ref().is_some_and(|track| track.counters().packets > 0);
                (!arrived).then_some(patience)
            }
            State::Closing | State::Finished => None,
        }
    }
}

/// Goodbyes sent: all three are lost once in a thousand times at 10 % loss.
const BYES: u32 = 3;
/// Far enough apart not to be lost in one burst, close enough not to delay the user.
const BYE_GAP: Duration = Duration::from_millis(30);
/// How long a stopped sender waits for a recording that confirms nothing more.
const STOP_OWED: Duration = Duration::from_secs(2);
/// How long a stopped receiver waits for its turn to say goodbye: the user who stopped it waits, too.
const LEAVE_PATIENCE: Duration = Duration::from_secs(4);
/// How long an interrupted comparison waits for packets in flight.
const STOP_DRAIN: Duration = Duration::from_millis(500);
