//! Pictures over an association of their own, while the sound goes over the first one: two transports of one session.
//!
//! The association is a further one of the peer ([`super::further`]): it shows the token that is announced beside the sound, again and
//! again, as a receiver may be started anew. Pictures are sent once the receiver has taken it, and wait while it is not there. It is
//! called as long as the sound is sent; what becomes of it touches no sound.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Event, Instant, PathId, Stack, Wire, WireId, sooner};
use antiphon_media::rtcp::{App, AppKind, PlayoutDelay, RtcpSession, Token};

use super::Session;
use super::change::{Change, ChangeFailure};
use super::deliver::{CALL_AGAIN, Called};
use super::end::State;
use super::video_reports::SentReports;
use crate::associations::{AssociationId, Associations, Policy};
use crate::looks::of_pictures;
use crate::peer::{Joining, Peer};
use crate::send_track::SendTrack;

/// The pictures' way to or from a peer that has one for them.
pub(super) enum VideoApart {
    /// They are sent.
    Sends(Sending),
    /// They are received.
    Receives(Receiving),
}

/// Of a sender.
pub(super) struct Sending {
    /// How it is called; `None` before there is a wire.
    called: Option<Called>,
    /// When to call, while there is no association.
    redial: Option<Instant>,
    /// Since when pictures can be sent.
    since: Option<Instant>,
    /// When the transport last took pictures or was done with some, or none was due.
    progress: Instant,
    /// The user was told that it is not there.
    told: bool,
    /// The session ended before all pictures were sent.
    is_cut_short: bool,
    /// Of an RTP session of their own, to a program that knows no token: it is not asked whether it takes them.
    pub(super) reports: Option<SentReports>,
}

/// Of a receiver.
pub(super) struct Receiving {
    listener: WireId,
    /// Whether it has ever been there.
    came: bool,
    /// Since when the sound is over.
    over: Option<Instant>,
}

/// What a receiver knows of pictures that have an association of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VideoEnd {
    /// The sender never came over it.
    NeverCame,
    /// It ended, or fell silent, without the sender's goodbye.
    CutShort,
    /// The sender has said that these were all, or comes still.
    Whole,
}

impl VideoApart {
    /// The transport took pictures, or has done with some.
    pub fn on_progress(&mut self, now: Instant) {
        if let Some(sending) = self.sending_mut() {
            sending.progress = now;
        }
    }

    /// The reports of pictures that are sent in an RTP session of their own.
    pub fn reports_mut(&mut self) -> Option<&mut RtcpSession> {
        self.sending_mut()?.reports.as_mut()?.rtcp.as_deref_mut()
    }

    pub(super) fn sending_mut(&mut self) -> Option<&mut Sending> {
        match self {
            VideoApart::Sends(sending) => Some(sending),
            VideoApart::Receives(_) => None,
        }
    }
}

impl Session {
    /// Sends pictures over an association of their own, which [`Self::call_for_video`] calls; until then they wait. Call it before there
    /// is a peer.
    pub fn set_video_apart(&mut self, now: Instant) {
        self.video_apart = Some(VideoApart::Sends(Sending {
            called: None,
            redial: None,
            since: None,
            progress: now,
            told: false,
            is_cut_short: false,
            reports: None,
        }));
    }

    /// Calls the peer for pictures alone over `wire`, on which it has these paths, and again whenever that association has ended. `token`:
    /// random, known to nobody else; the first one counts. The results are reported by [`Self::poll_change`].
    pub fn call_for_video(
        &mut self,
        now: Instant,
        wire: WireId,
        paths: &[PathId],
        stack: &Rc<dyn Stack>,
        token: Token,
    ) {
        if self.further.own == Token::default() {
            self.further.own = token;
        }
        if let Some(sending) = self.sending_video_mut() {
            let called = Called { wire, paths: paths.to_vec(), stack: Rc::clone(stack) };
            sending.called = Some(called);
            // At once: a connection says only once that it is there.
            self.dial_for_video(now);
        }
    }

    /// Waits for pictures on `wire`, of the sender whose sound comes over another one.
    pub fn listen_for_video(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, silence: Duration) {
        self.video_apart = Some(VideoApart::Receives(Receiving { listener: wire, came: false, over: None }));
        self.listen_for(now, wire, of_pictures(stack), Policy::Single { silence, streams: true });
    }

    /// Whether pictures were not sent to the end, as their association was not there, or took no more.
    pub fn is_video_cut_short(&self) -> bool {
        matches!(&self.video_apart, Some(VideoApart::Sends(sending)) if sending.is_cut_short)
    }

    /// What became of an association for pictures that [`Self::listen_for_video`] waits for.
    pub fn video_end(&self) -> Option<VideoEnd> {
        let Some(VideoApart::Receives(receiving)) = &self.video_apart else {
            return self.video_session_end();
        };
        let has_ended = self.has_apart_ended();
        Some(match receiving.came {
            false => VideoEnd::NeverCame,
            true if has_ended || self.state == State::Open => VideoEnd::Whole,
            true => VideoEnd::CutShort,
        })
    }

    /// Whether the sender has ended what is received of pictures and data.
    fn has_apart_ended(&self) -> bool {
        let pictures = self.video.receives().then(|| self.video.has_ended());
        let mut of_both = pictures.into_iter().chain(self.beside.has_ended()).peekable();
        of_both.peek().is_some() && of_both.all(|has_ended| has_ended)
    }

    pub(super) fn sending_video_mut(&mut self) -> Option<&mut Sending> {
        self.video_apart.as_mut().and_then(VideoApart::sending_mut)
    }

    /// Whether pictures go over an association of their own.
    pub(super) fn sends_video_apart(&self) -> bool {
        matches!(self.video_apart, Some(VideoApart::Sends(_)))
    }

    /// Whether the source at `index` among ours is of pictures that go over an association of their own.
    pub(super) fn says_goodbye_apart(&self, index: usize) -> bool {
        self.sends_video_apart() && index >= self.send.as_ref().map_or(0, |track| track.ssrcs().count())
    }

    /// The association over which `peer` is sent pictures now.
    pub(super) fn video_destination(is_apart: bool, peer: &Peer) -> Option<AssociationId> {
        if is_apart { peer.video_way() } else { peer.association.filter(|_| peer.connected) }
    }

    /// Since when pictures can be sent over it.
    pub(super) fn video_open_since(&self) -> Option<Instant> {
        match &self.video_apart {
            Some(VideoApart::Sends(sending)) => sending.since,
            _ => None,
        }
    }

    /// Whether associations of this one's listening wire carry pictures alone.
    pub(super) fn is_listener_for_video(&self, id: AssociationId) -> bool {
        let Some(VideoApart::Receives(receiving)) = &self.video_apart else { return false };
        self.associations.listener_of(id) == Some(receiving.listener)
    }

    /// Whether a message shows the token of the sender that is followed.
    pub(super) fn shows_token(&self, bytes: &[u8]) -> bool {
        let joins = |app: App| app.kind == AppKind::Join && self.further.announced == Some(app.token);
        App::parse(bytes).is_some_and(joins)
    }

    /// Another association is to carry the pictures of the peer at `at`.
    pub(super) fn make_way_for_video(&mut self, at: usize) {
        if let Some(VideoApart::Receives(receiving)) = &mut self.video_apart {
            receiving.came = true;
        }
        let Some(peer) = &mut self.peers[at] else { return };
        let Some(place) = peer.further.iter().position(|one| one.is_for_video) else { return };
        let before = peer.further.remove(place);
        self.peer_of[before.id.index()] = None;
        self.associations.release(before.id);
        self.further.candidates.push(before.id);
    }

    /// The receiver has taken the association for pictures.
    pub(super) fn on_way_for_video(&mut self, now: Instant) {
        if let Some(sending) = self.sending_video_mut() {
            (sending.since, sending.progress, sending.told) = (Some(now), now, false);
        }
    }

    /// The sound of the peer at `at` goes over another association: the token is announced there.
    pub(super) fn show_video_token(&mut self, now: Instant, at: usize) {
        if self.sends_video_session() {
            return;
        }
        if let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.for_video_mut()) {
            one.began = now;
            self.further.tell_at = Some(now);
        }
    }

    /// An event of the association for pictures.
    pub(super) fn on_video_apart_event(&mut self, now: Instant, at: usize, event: &Event) {
        if self.sends_video_session() {
            return self.on_video_session_event(now, at, event);
        }
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.for_video_mut()) else { return };
        let id = one.id;
        match event {
            Event::Connected => {
                one.connected = true;
                self.show_video_token(now, at);
            }
            Event::Broken(_) => {
                // A stream connects again; datagrams are sent on, and may be heard again.
                one.connected &=
                    self.associations.profile(id).is_some_and(|profile| profile.wire == Wire::Datagram);
                self.lose_way_for_video(at, ChangeFailure::Unreachable);
            }
            Event::Closed(reason) => {
                let why = match (reason, one.connected) {
                    (CloseReason::Refused, _) => ChangeFailure::Unreachable,
                    (_, true) => ChangeFailure::Ended,
                    (_, false) => ChangeFailure::NoConnection,
                };
                self.lose_way_for_video(at, why);
                self.remove_way_for_video(at);
                if let Some(sending) = self.sending_video_mut() {
                    sending.redial = Some(now + CALL_AGAIN);
                }
            }
            _ => {}
        }
    }

    /// Pictures wait until the receiver has taken the association again.
    fn lose_way_for_video(&mut self, at: usize, why: ChangeFailure) {
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.for_video_mut()) else { return };
        one.accepted = None;
        let (wire, is_open) = (one.wire, self.state == State::Open);
        let Some(sending) = self.sending_video_mut() else { return };
        sending.since = None;
        if let Some(wire) = wire.filter(|_| is_open && !std::mem::replace(&mut sending.told, true)) {
            self.further.changes.push_back(Change::Failed(wire, why));
        }
    }

    fn remove_way_for_video(&mut self, at: usize) {
        if let Some(peer) = &mut self.peers[at] {
            peer.further.retain(|one| !one.is_for_video);
        }
    }

    /// The peer at `at` is gone: the association for its pictures ends, too.
    pub(super) fn end_way_for_video(&mut self, now: Instant, at: usize) {
        let Some(one) = self.peers[at].as_ref().and_then(|peer| peer.for_video().copied()) else { return };
        self.peer_of[one.id.index()] = None;
        self.remove_way_for_video(at);
        let mode = if one.connected { CloseMode::Graceful } else { CloseMode::Abort };
        self.associations.close(now, one.id, mode);
    }

    /// Calls for pictures if it is time, and notices what does not answer.
    pub(super) fn step_video_apart(&mut self, now: Instant) {
        if self.next_video_apart().is_none_or(|due| due > now) {
            return;
        }
        match &mut self.video_apart {
            Some(VideoApart::Receives(_)) => return,
            Some(VideoApart::Sends(sending)) => {
                if sending.redial.is_some_and(|due| due <= now) {
                    sending.redial = None;
                    return self.dial_for_video(now);
                }
            }
            None => return,
        }
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let Some(one) = self.peers[at].as_ref().and_then(|peer| peer.for_video().copied()) else { return };
        if one.connected {
            self.lose_way_for_video(at, ChangeFailure::Ended);
        } else {
            // It has not connected in time.
            self.peer_of[one.id.index()] = None;
            self.remove_way_for_video(at);
            self.associations.end(now, one.id, CloseReason::TimedOut);
            self.dial_for_video(now);
        }
    }

    fn dial_for_video(&mut self, now: Instant) {
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let Some(Sending { called: Some(called), .. }) = self.sending_video_mut() else { return };
        let Called { wire, paths, stack } = called.clone();
        let id = self.associations.call(now, wire, &paths, &*stack);
        self.attach_further(now, (id, true), at, Joining::Beside, false);
        if !self.sends_video_session() {
            self.further.tell_at = Some(now);
        }
    }

    /// When [`Self::step_video_apart`] has something to do, or [`Self::waits_for_video`] says something else.
    pub(super) fn next_video_apart(&self) -> Option<Instant> {
        if self.sends_video_session() {
            return None;
        }
        match self.video_apart.as_ref().filter(|_| self.state == State::Open)? {
            VideoApart::Receives(receiving) => self.video_silence_at(receiving),
            VideoApart::Sends(sending) => {
                let one = self.peers.iter().flatten().find_map(|peer| peer.for_video());
                let datagrams = |id| {
                    let profile = self.associations.profile(id);
                    profile.is_some_and(|profile| profile.wire == Wire::Datagram)
                };
                let unheard = one.filter(|one| datagrams(one.id)).and_then(|one| match one.accepted {
                    _ if !one.connected => Some(one.began + CONNECTS),
                    Some(_) => self.associations.heard_at(one.id).map(|at| at + UNHEARD),
                    None => None,
                });
                sooner(sending.redial, unheard)
            }
        }
    }

    /// Whether all pictures were sent, or those that are left are given up, at a sender whose sound is at its end.
    pub(super) fn is_video_over(&mut self, now: Instant) -> bool {
        // The goodbye must not overtake the last of them: it goes another way than the sound's.
        if self.is_catching_up() {
            return false;
        }
        if self.video.is_drained() && (self.video.is_settled() || !self.sends_video_apart()) {
            return true;
        }
        let is_behind = self.video_origin().is_some_and(|origin| self.video.is_behind(now, origin));
        let has_way = self.peers.iter().flatten().any(|peer| peer.video_way().is_some());
        let Some(sending) = self.sending_video_mut() else { return false };
        if !is_behind {
            sending.progress = now;
        }
        let patience = if has_way { SILENCE_OF_A_WAY } else { SILENCE };
        sending.is_cut_short = now.since(sending.progress) >= patience;
        sending.is_cut_short
    }

    /// Whether a receiver whose sound is over waits for the rest of the pictures, which come another way.
    pub(super) fn waits_for_video(&mut self, now: Instant) -> bool {
        let is_over = self.receive.as_ref().is_some_and(|track| track.is_over());
        let comes = self.peers.iter().flatten().any(|peer| peer.for_video().is_some());
        let has_ended = self.has_apart_ended();
        let Some(VideoApart::Receives(receiving)) = &mut self.video_apart else { return false };
        if !is_over || !comes || has_ended {
            receiving.over = None;
            return false;
        }
        receiving.over.get_or_insert(now);
        let Some(VideoApart::Receives(receiving)) = &self.video_apart else { return false };
        self.video_silence_at(receiving).is_some_and(|until| now < until)
    }

    /// Until when the rest of the pictures is waited for, once the sound is over.
    fn video_silence_at(&self, receiving: &Receiving) -> Option<Instant> {
        let over = receiving.over?;
        let one = self.peers.iter().flatten().find_map(|peer| peer.for_video());
        let heard = one.and_then(|one| self.associations.heard_at(one.id));
        let records = self.config.tells == Some(PlayoutDelay::Unbounded);
        let patience = if records { SILENCE } else { SILENCE_AT_THE_END };
        Some(heard.map_or(over, |heard| heard.max(over)) + patience)
    }

    /// Whether pictures go over a stream of bytes of their own: how fast that takes them is seen.
    pub(super) fn has_stream_for_video(&self) -> bool {
        let id = self.peers.iter().flatten().find_map(|peer| peer.video_way());
        id.and_then(|id| self.associations.profile(id))
            .is_some_and(|profile| profile.wire == Wire::ByteStream)
    }

    /// The association by whose name a congestion manager knows the path of sound over `id`: that of the pictures beside it, if they have one
    /// of their own. `None`: of sound in a stream of bytes it knows nothing.
    pub(super) fn path_of_sound(
        associations: &Associations,
        video: Option<AssociationId>,
        id: AssociationId,
    ) -> Option<AssociationId> {
        let Some(video) = video else { return Some(id) };
        let is_datagram = associations.profile(id).is_some_and(|profile| profile.wire == Wire::Datagram);
        is_datagram.then_some(video)
    }

    /// What sound takes of the path that a congestion manager knows, in bytes a second.
    pub(super) fn sound_on_path(&self) -> f64 {
        let sound = self.send.as_ref().map_or(0.0, |track| SendTrack::bandwidth(track).0 as f64 / 8.0);
        let mut peers = self.peers.iter().flatten();
        let path = |video, id| Self::path_of_sound(&self.associations, video, id);
        let counts = peers.all(|peer| peer.association.is_none_or(|id| path(peer.video_way(), id).is_some()));
        if counts { sound } else { 0.0 }
    }
}

/// Silence after which an association over datagrams is taken to be gone: its token is shown and answered once a second, and arrivals are
/// told more often.
const UNHEARD: Duration = Duration::from_secs(3);
/// How long a handshake may take before it is begun anew: its time-outs double, and a path that is there again is to be used soon.
const CONNECTS: Duration = Duration::from_secs(3);
/// How long pictures without an association are kept after the sound, and how long a recording waits for the rest of them.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a player waits for the rest of them.
const SILENCE_AT_THE_END: Duration = Duration::from_millis(500);
/// How long a transport may take none, after the sound: a kernel takes that long to find that a connection is dead.
const SILENCE_OF_A_WAY: Duration = Duration::from_secs(15);
