//! Several associations with one peer: a second one beside the first for good, or one that takes its place without a gap.
//!
//! The sender announces a token over the first association and shows it over the other ([`App`]); the receiver takes only an
//! association that shows the token of the sender that it follows. From the other's connection on everything is sent over
//! both, and the receiver drops what it has. When the receiver has taken the other one, and a round trip and a playout delay
//! have passed, all that the first still carries is late: it is closed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseMode, Event, Instant, PathId, Role, Stack, WireId, sooner};
use antiphon_media::packet::{PacketKind, classify};
use antiphon_media::rtcp::{App, AppKind, PlayoutDelay, Token};

use super::change::{Change, ChangeFailure};
use super::deliver::Called;
use super::end::State;
use super::{Apart, Session};
use crate::associations::AssociationId;
use crate::peer::{Further, Joining, Peer};

/// What a session knows of further associations.
#[derive(Default)]
pub(super) struct FurtherState {
    /// The token that this sender announces.
    pub(super) own: Token,
    /// The token that the sender announced that is followed.
    pub(super) announced: Option<Token>,
    /// How each further wire was called.
    stacks: Vec<Called>,
    /// The peer with several associations; sessions with many peers have none.
    at: Option<usize>,
    /// When to announce and show the token next.
    pub(super) tell_at: Option<Instant>,
    pub(super) changes: VecDeque<Change>,
    /// Associations on further listening wires that have not shown the token.
    pub(super) candidates: Vec<AssociationId>,
}

impl Session {
    /// Sends over one more association with the peer that was called, on `wire`, which has these paths. `token`: random,
    /// known to nobody else; the first one counts. The results are reported by [`Self::poll_change`].
    pub fn call_further(
        &mut self,
        now: Instant,
        wire: WireId,
        paths: &[PathId],
        stack: &Rc<dyn Stack>,
        joining: Joining,
        token: Token,
    ) {
        let at = match self.peer_for_further(stack.open(now, Role::Caller).profile().max_message, joining) {
            Ok(at) => at,
            Err(why) => {
                self.further.changes.push_back(Change::Failed(wire, why));
                return self.associations.close_wire(wire);
            }
        };
        if let (Some(track), Some(peer)) = (&self.send, &mut self.peers[at]) {
            peer.outcomes.merge_from(track.store().next());
        }
        let id = self.associations.call(now, wire, paths, &**stack);
        self.further.stacks.push(Called { wire, paths: paths.to_vec(), stack: Rc::clone(stack) });
        self.attach_further(now, (id, None), at, joining, false);
        if self.further.own == Token::default() {
            self.further.own = token;
        }
        self.further.tell_at = Some(now);
    }

    /// The peer that may get a further association, which carries messages of at most `most` bytes.
    fn peer_for_further(&self, most: usize, joining: Joining) -> Result<usize, ChangeFailure> {
        let sends = self.state == State::Open && self.listening.is_empty();
        let track = self.send.as_ref().filter(|_| sends).ok_or(ChangeFailure::NoStream)?;
        let needed = track.longest_message();
        if most < needed {
            return Err(ChangeFailure::TooSmall { most, needed });
        }
        let found = self.peers.iter().enumerate().find_map(|(at, peer)| Some((at, peer.as_ref()?)));
        let (at, peer) = found.ok_or(ChangeFailure::NoStream)?;
        if joining == Joining::Instead && peer.further.iter().any(|one| one.joining == Some(Joining::Instead))
        {
            return Err(ChangeFailure::Moving);
        }
        if peer.further_of_sound().count() + 1 >= MOST_ASSOCIATIONS {
            return Err(ChangeFailure::TooMany { most: MOST_ASSOCIATIONS });
        }
        Ok(at)
    }

    pub(super) fn attach_further(
        &mut self,
        now: Instant,
        (id, apart): (AssociationId, Option<Apart>),
        at: usize,
        joining: Joining,
        connected: bool,
    ) {
        self.map_to_peer(id, at);
        if apart.is_some() {
            self.associations.set_aside(id);
        }
        let (wire, joining) = (self.associations.wire_of(id), Some(joining));
        let Some(peer) = &mut self.peers[at] else { return };
        self.further.at = Some(at);
        peer.further.push(Further { id, wire, joining, connected, began: now, accepted: None, apart });
        self.hold(self.associations.profile(id).map_or(0, |profile| profile.max_receive));
        if self.room > 0 {
            self.associations.reserve_messages(id, self.room);
        }
    }

    /// What became of further associations.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.further.changes.pop_front()
    }

    /// An association began on a listening wire while the peer is heard over another: it has to show the token.
    pub(super) fn is_candidate(&mut self, now: Instant, id: AssociationId, at: usize) -> bool {
        let first = self.peers[at].as_ref().and_then(|peer| peer.association);
        // One that has made room for another has no listener any more.
        let elsewhere = |first: &AssociationId| {
            let listener = self.associations.listener_of(*first);
            listener.is_some() && listener != self.associations.listener_of(id)
        };
        let alive = self.listener_apart(id).is_some()
            || first
                .filter(elsewhere)
                .is_some_and(|first| self.associations.is_alive(now, first, self.silence));
        if alive {
            self.further.candidates.push(id);
        }
        alive
    }

    /// Associations that are no peer's.
    pub(super) fn candidates(&mut self) -> Vec<AssociationId> {
        let mut all = std::mem::take(&mut self.further.candidates);
        all.extend(self.associations.iter().filter(|id| self.associations.is_waiting(*id)));
        all
    }

    /// A message over an association that is no peer's.
    pub(super) fn on_candidate(&mut self, now: Instant, id: AssociationId, bytes: &[u8]) {
        if !self.further.candidates.contains(&id) {
            return;
        }
        let Some(at) = self.single else { return };
        match App::parse(bytes) {
            Some(App { kind: AppKind::Join, token, .. }) if self.further.announced == Some(token) => {
                self.further.candidates.retain(|one| *one != id);
                let apart = self.listener_apart(id);
                if let Some(apart) = apart {
                    self.make_way_apart(at, apart);
                    self.associations.keep(id);
                }
                self.attach_further(now, (id, apart), at, Joining::Beside, true);
                self.tell(now, id, AppKind::Accept, token);
            }
            _ if classify(bytes) != Some(PacketKind::Rtp) => {}
            _ if self.listener_apart(id).is_some() => self.unknown_sources += 1,
            _ => {
                let first = self.peers[at].as_ref().and_then(|peer| peer.association);
                if first.is_some_and(|first| self.associations.is_alive(now, first, self.silence)) {
                    self.unknown_sources += 1;
                } else {
                    // The sender that was followed is gone: the next one takes its place, as on a single wire.
                    self.further.candidates.retain(|one| *one != id);
                    self.replace(now, id, at);
                }
            }
        }
    }

    /// Handles a packet about associations; returns whether it was one.
    pub(super) fn on_app(&mut self, now: Instant, id: AssociationId, at: usize, bytes: &[u8]) -> bool {
        let Some(app) = App::parse(bytes) else { return false };
        let Some(peer) = &mut self.peers[at] else { return true };
        match app.kind {
            AppKind::Announce if self.receive.is_some() => self.further.announced = Some(app.token),
            // Its answer was lost.
            AppKind::Join if peer.further_mut(id).is_some() && self.further.announced == Some(app.token) => {
                self.tell(now, id, AppKind::Accept, app.token);
            }
            AppKind::Accept if app.token == self.further.own => {
                if let Some(one) = peer.further_mut(id).filter(|one| one.accepted.is_none()) {
                    one.accepted = Some(now);
                    self.further.changes.extend(one.wire.map(Change::Joined));
                    if let Some(apart) = one.apart {
                        self.on_way_apart(now, apart);
                    }
                }
            }
            AppKind::Leave if self.receive.is_some() && self.further.announced == Some(app.token) => {
                self.associations.release(id);
                if peer.association == Some(id) {
                    self.promote(now, at);
                }
                if let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.further_mut(id)) {
                    one.joining = None;
                }
            }
            AppKind::Ask => self.on_ask(now, id, at, app.token),
            AppKind::Challenge => self.on_challenge(now, app.token),
            AppKind::Full => self.on_full(now, id),
            _ => {}
        }
        true
    }

    /// The first of the further associations becomes the first one, those that the receiver has taken before others; that
    /// one stays, and is sent nothing. Returns the one that was promoted, if there was one.
    fn promote(&mut self, now: Instant, at: usize) -> Option<Further> {
        let peer = self.peers[at].as_mut()?;
        let usable = Further::carries_sound;
        let taken = peer.further.iter().position(|one| usable(one) && one.accepted.is_some());
        let place = taken.or_else(|| peer.further.iter().position(usable))?;
        let next = peer.further.remove(place);
        if let Some(before) = peer.take_place(next) {
            peer.further.push(before);
        }
        self.on_new_first(now, at);
        Some(next)
    }

    /// How a further wire was called.
    pub(super) fn called(&mut self, wire: WireId) -> Option<Called> {
        let at = self.further.stacks.iter().position(|called| called.wire == wire)?;
        Some(self.further.stacks.remove(at))
    }

    /// Another sender takes the place of the peer at `at`: nothing further of the previous one counts.
    pub(super) fn forget_further(&mut self, at: usize) {
        self.further.announced = None;
        let Some(peer) = &mut self.peers[at] else { return };
        for one in std::mem::take(&mut peer.further) {
            self.peer_of[one.id.index()] = None;
            self.associations.release(one.id);
            if one.apart.is_some() {
                // It may be the next one's: it goes on to show its token.
                self.further.candidates.push(one.id);
            }
        }
    }

    /// An event of an association that is not the first one.
    pub(super) fn on_further_event(&mut self, now: Instant, at: usize, id: AssociationId, event: &Event) {
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.further_mut(id)) else { return };
        if let Some(apart) = one.apart {
            return self.on_apart_event(now, at, apart, event);
        }
        match event {
            Event::Connected => one.connected = true,
            Event::Closed(_) => self.remove_further(at, id),
            _ => {}
        }
    }

    fn remove_further(&mut self, at: usize, id: AssociationId) {
        let Some(peer) = &mut self.peers[at] else { return };
        let Some(place) = peer.further.iter().position(|one| one.id == id) else { return };
        let one = peer.further.remove(place);
        let Some(wire) = one.wire.filter(|_| self.listening.is_empty()) else { return };
        self.associations.close_wire(wire);
        if one.joining.is_some() && self.state == State::Open {
            let why = if one.connected { ChangeFailure::Ended } else { ChangeFailure::NoConnection };
            self.further.changes.push_back(Change::Failed(wire, why));
        }
    }

    /// The first association has ended: returns whether another takes its place.
    pub(super) fn goes_on_without(&mut self, now: Instant, at: usize, id: AssociationId) -> bool {
        let wire = self.peers[at].as_ref().and_then(|peer| peer.wire);
        if self.state != State::Open {
            return false;
        }
        let Some(next) = self.promote(now, at) else { return false };
        // It is gone, and no longer stands among the others.
        if let Some(peer) = &mut self.peers[at] {
            peer.further.retain(|one| one.id != id);
        }
        if let Some(wire) = wire.filter(|_| self.listening.is_empty()) {
            self.associations.close_wire(wire);
            self.further.changes.push_back(Change::Failed(wire, ChangeFailure::Ended));
        }
        if next.joining == Some(Joining::Instead) {
            self.further.changes.extend(next.wire.map(Change::Moved));
        }
        true
    }

    /// Announces and shows the token, gives up what does not connect, and closes what is not needed any more.
    pub(super) fn step_further(&mut self, now: Instant) {
        self.further.candidates.retain(|id| self.associations.endpoint(*id).is_some());
        if self.send.is_none() || self.state != State::Open {
            return;
        }
        if let Some(at) = self.further.at {
            self.show_token(now, at);
            self.give_up_unused(now, at);
            self.finish_move(now, at);
        }
    }

    fn show_token(&mut self, now: Instant, at: usize) {
        if self.further.tell_at.is_none_or(|tell_at| tell_at > now) {
            return;
        }
        let Some(peer) = &self.peers[at] else { return };
        let unaccepted = |one: &Further| one.joining.is_some() && one.accepted.is_none();
        // A receiver that was started again knows nothing of those for pictures and data, and nothing else tells so.
        let told = |one: &Further| unaccepted(one) || one.apart.is_some();
        let (first, count) = (peer.association.filter(|_| peer.connected), peer.further.len());
        let youngest = peer.further.iter().filter(|one| unaccepted(one)).map(|one| one.began).max();
        let is_young = youngest.is_some_and(|began| now.since(began) < EAGER);
        let tells = peer.further.iter().any(told);
        self.further.tell_at = tells.then(|| now + if is_young { TELL_SOON } else { TELL_LATER });
        let token = self.further.own;
        if let (Some(first), true) = (first, tells) {
            self.tell(now, first, AppKind::Announce, token);
        }
        for place in 0..count {
            let one = self.peers[at].as_ref().map(|peer| peer.further[place]);
            if let Some(one) = one.filter(|one| one.connected && told(one)) {
                self.tell(now, one.id, AppKind::Join, token);
            }
        }
    }

    fn tell(&mut self, now: Instant, id: AssociationId, kind: AppKind, token: Token) {
        let bytes = App { ssrc: self.ssrc, kind, token }.to_bytes();
        self.associations.send_control(now, id, None, &bytes);
    }

    fn give_up_unused(&mut self, now: Instant, at: usize) {
        let Some(peer) = &mut self.peers[at] else { return };
        let late = |one: &&mut Further| {
            one.joining == Some(Joining::Instead)
                && one.accepted.is_none()
                && now.since(one.began) >= PATIENCE
        };
        let mut given_up = Vec::new();
        for one in peer.further.iter_mut().filter(late) {
            let why = if one.connected { ChangeFailure::NotTaken } else { ChangeFailure::NoConnection };
            one.joining = None;
            given_up.push((one.id, one.wire, why));
        }
        for (id, wire, why) in given_up {
            self.further.changes.extend(wire.map(|wire| Change::Failed(wire, why)));
            self.associations.close(now, id, CloseMode::Abort);
        }
    }

    /// Goes on over the association that takes the place of the first one, once all that the first carries is late.
    fn finish_move(&mut self, now: Instant, at: usize) {
        let Some((id, due)) = self.next_move(at) else { return };
        let Some(peer) = self.peers[at].as_mut().filter(|_| due <= now) else { return };
        let Some(place) = peer.further.iter().position(|one| one.id == id) else { return };
        let next = peer.further.remove(place);
        let before = peer.take_place(next);
        self.further.changes.extend(next.wire.map(Change::Moved));
        peer.further.extend(before);
        self.on_new_first(now, at);
        let Some(before) = before else { return };
        let token = self.further.own;
        (0..LEAVES).for_each(|_| self.tell(now, before.id, AppKind::Leave, token));
        self.associations.close(now, before.id, CloseMode::Graceful);
    }

    /// The association that takes the place of the first one, and when.
    fn next_move(&self, at: usize) -> Option<(AssociationId, Instant)> {
        let peer = self.peers[at].as_ref()?;
        let moves = |one: &&Further| one.joining == Some(Joining::Instead);
        let one = peer.further.iter().find(moves)?;
        Some((one.id, one.accepted? + self.overlap(peer)))
    }

    /// How long everything is sent over both: a round trip and the playout delay.
    fn overlap(&self, peer: &Peer) -> Duration {
        let endpoint = peer.association.and_then(|id| self.associations.endpoint(id));
        let round_trip = endpoint.and_then(|endpoint| endpoint.stats().srtt);
        let reported = peer.reports.iter().flatten().filter_map(|report| report.round_trip).max();
        let delay = match peer.playout_delay.unwrap_or(self.config.playout_delay) {
            PlayoutDelay::Of(delay) => delay,
            PlayoutDelay::Unbounded => RECORDING_OVERLAP,
        };
        round_trip.max(reported).unwrap_or(UNKNOWN_ROUND_TRIP) + delay
    }

    pub(super) fn next_further(&self) -> Option<Instant> {
        if self.send.is_none() || self.state != State::Open {
            return None;
        }
        let at = self.further.at?;
        let peer = self.peers[at].as_ref()?;
        let waits = |one: &&Further| one.joining == Some(Joining::Instead) && one.accepted.is_none();
        let given_up = peer.further.iter().filter(waits).map(|one| one.began + PATIENCE).min();
        let moved = self.next_move(at).map(|(_, due)| due);
        sooner(self.further.tell_at, sooner(moved, given_up))
    }
}

/// The most associations with one peer: the first, one beside it, and one that takes the first's place while its
/// predecessor is ending.
pub(super) const MOST_ASSOCIATIONS: usize = 4;
/// How often the token is told at first: often enough that a lost packet does not delay a change noticeably.
const TELL_SOON: Duration = Duration::from_millis(20);
/// How long that lasts.
const EAGER: Duration = Duration::from_secs(2);
/// And later: a receiver may come late, and others never answer.
const TELL_LATER: Duration = Duration::from_secs(1);
/// How long an association that is to take the first one's place may take until the receiver has it: two lost packets of a
/// handshake take 3 s.
const PATIENCE: Duration = Duration::from_secs(5);
/// Goodbyes to an association that is left: all are lost once in a thousand times at 10 % loss.
const LEAVES: u32 = 3;
/// Until a round trip was measured: that of a path across a continent.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(100);
/// A recording has no playout delay; what the first association still carries is not dropped, but comes over both for so long.
const RECORDING_OVERLAP: Duration = Duration::from_millis(500);
