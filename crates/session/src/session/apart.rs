//! Pictures and data over associations of their own, while the sound goes over the first one: several transports of one session.
//!
//! Each is a further association of the peer ([`super::further`]): it shows the token that is announced beside the sound, again and
//! again, as a receiver may be started anew. What it carries is sent once the receiver has taken it, and waits while it is not there. It is
//! called as long as the sound is sent; what becomes of it touches no sound, and nothing of the other one.

mod calling;
mod ending;

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Stack, Wire, WireId};
use antiphon_media::rtcp::{App, AppKind, RtcpSession, Token};

use super::Session;
use super::deliver::Called;
use super::video_reports::SentReports;
use crate::associations::{AssociationId, Associations, Policy};
use crate::looks::of_pictures;
use crate::peer::Peer;
use crate::send_track::SendTrack;
pub use ending::VideoEnd;

/// The associations that a session may have beside those of its sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// For pictures, and for data that share it.
    Pictures,
    /// For data alone.
    Data,
}

impl Apart {
    /// Both.
    pub const ALL: [Apart; 2] = [Apart::Pictures, Apart::Data];
}

/// What is known of each of them.
#[derive(Default)]
pub(super) struct WaysApart([Option<WayApart>; Apart::ALL.len()]);

/// A way to or from the peer that carries no sound.
pub(super) enum WayApart {
    /// What goes over it is sent.
    Sends(Sending),
    /// It is received.
    Receives(Receiving),
}

/// Of a sender.
pub(super) struct Sending {
    /// How it is called; `None` before there is a wire.
    called: Option<Called>,
    /// When to call, while there is no association.
    redial: Option<Instant>,
    /// Since when it can be sent over.
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

impl WaysApart {
    fn get(&self, apart: Apart) -> Option<&WayApart> {
        self.0[apart as usize].as_ref()
    }

    /// Of a sender.
    /// Whether there is no other way than the sound's, which is usual.
    pub(super) fn is_unused(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub(super) fn sending(&self, apart: Apart) -> Option<&Sending> {
        match self.get(apart)? {
            WayApart::Sends(sending) => Some(sending),
            WayApart::Receives(_) => None,
        }
    }

    /// The same.
    pub(super) fn sending_mut(&mut self, apart: Apart) -> Option<&mut Sending> {
        match self.0[apart as usize].as_mut()? {
            WayApart::Sends(sending) => Some(sending),
            WayApart::Receives(_) => None,
        }
    }

    /// Of a receiver.
    fn receiving(&self, apart: Apart) -> Option<&Receiving> {
        match self.get(apart)? {
            WayApart::Receives(receiving) => Some(receiving),
            WayApart::Sends(_) => None,
        }
    }

    fn receiving_mut(&mut self, apart: Apart) -> Option<&mut Receiving> {
        match self.0[apart as usize].as_mut()? {
            WayApart::Receives(receiving) => Some(receiving),
            WayApart::Sends(_) => None,
        }
    }

    /// The transport took pictures, or has done with some.
    pub(super) fn on_progress(&mut self, now: Instant) {
        if let Some(sending) = self.sending_mut(Apart::Pictures) {
            sending.progress = now;
        }
    }

    /// The reports of pictures that are sent in an RTP session of their own.
    pub(super) fn reports_mut(&mut self) -> Option<&mut RtcpSession> {
        self.sending_mut(Apart::Pictures)?.reports.as_mut()?.rtcp.as_deref_mut()
    }
}

impl Session {
    /// Sends over an association of its own what `apart` names, which [`Self::call_apart`] calls; until then it waits. Data need
    /// [`Self::set_data_over`] as well. Call it before there is a peer.
    pub fn send_apart(&mut self, now: Instant, apart: Apart) {
        self.apart.0[apart as usize] = Some(WayApart::Sends(Sending {
            called: None,
            redial: None,
            since: None,
            progress: now,
            told: false,
            is_cut_short: false,
            reports: None,
        }));
    }

    /// Calls the peer for what `apart` names over `wire`, on which it has these paths, and again whenever that association has ended. `token`:
    /// random, known to nobody else; the first one counts. The results are reported by [`Self::poll_change`].
    pub fn call_apart(
        &mut self,
        now: Instant,
        apart: Apart,
        (wire, paths): (WireId, &[PathId]),
        stack: &Rc<dyn Stack>,
        token: Token,
    ) {
        if self.further.own == Token::default() {
            self.further.own = token;
        }
        if let Some(sending) = self.apart.sending_mut(apart) {
            let called = Called { wire, paths: paths.to_vec(), stack: Rc::clone(stack) };
            sending.called = Some(called);
            // At once: a connection says only once that it is there.
            self.dial_apart(now, apart);
        }
    }

    /// Waits on `wire` for what `apart` names, of the sender whose sound comes over another one.
    pub fn listen_apart(
        &mut self,
        now: Instant,
        apart: Apart,
        wire: WireId,
        stack: Rc<dyn Stack>,
        silence: Duration,
    ) {
        let receiving = Receiving { listener: wire, came: false, over: None };
        self.apart.0[apart as usize] = Some(WayApart::Receives(receiving));
        self.listen_for(now, wire, of_pictures(stack), Policy::Single { silence, streams: true });
    }

    /// Whether pictures go over an association of their own.
    pub(super) fn sends_video_apart(&self) -> bool {
        self.apart.sending(Apart::Pictures).is_some()
    }

    /// Whether the source at `index` among ours is of pictures that go over an association of their own.
    pub(super) fn says_goodbye_apart(&self, index: usize) -> bool {
        self.sends_video_apart() && index >= self.send.as_ref().map_or(0, |track| track.ssrcs().count())
    }

    /// The association over which `peer` is sent what goes this way now; `None`: with its sound.
    pub(super) fn destination(apart: Option<Apart>, peer: &Peer) -> Option<AssociationId> {
        match apart {
            Some(apart) => peer.way(apart),
            None => peer.association.filter(|_| peer.connected),
        }
    }

    /// The association over which `peer` is sent pictures now.
    pub(super) fn video_destination(is_apart: bool, peer: &Peer) -> Option<AssociationId> {
        Self::destination(is_apart.then_some(Apart::Pictures), peer)
    }

    /// Since when pictures can be sent over it.
    pub(super) fn video_open_since(&self) -> Option<Instant> {
        self.apart.sending(Apart::Pictures)?.since
    }

    /// What associations of this one's listening wire carry, if that is no sound.
    pub(super) fn listener_apart(&self, id: AssociationId) -> Option<Apart> {
        let listens = |apart: &Apart| {
            let receiving = self.apart.receiving(*apart);
            receiving.is_some_and(|one| self.associations.listener_of(id) == Some(one.listener))
        };
        Apart::ALL.into_iter().find(listens)
    }

    /// Whether a message shows the token of the sender that is followed.
    pub(super) fn shows_token(&self, bytes: &[u8]) -> bool {
        let joins = |app: App| app.kind == AppKind::Join && self.further.announced == Some(app.token);
        App::parse(bytes).is_some_and(joins)
    }

    /// Another association is to carry what `apart` names of the peer at `at`.
    pub(super) fn make_way_apart(&mut self, at: usize, apart: Apart) {
        if let Some(receiving) = self.apart.receiving_mut(apart) {
            receiving.came = true;
        }
        let Some(peer) = &mut self.peers[at] else { return };
        let Some(place) = peer.further.iter().position(|one| one.apart == Some(apart)) else { return };
        let before = peer.further.remove(place);
        self.peer_of[before.id.index()] = None;
        self.associations.release(before.id);
        self.further.candidates.push(before.id);
    }

    /// The receiver has taken the association.
    pub(super) fn on_way_apart(&mut self, now: Instant, apart: Apart) {
        if let Some(sending) = self.apart.sending_mut(apart) {
            (sending.since, sending.progress, sending.told) = (Some(now), now, false);
        }
    }

    /// The sound of the peer at `at` goes over another association: the token is announced there.
    pub(super) fn show_tokens_apart(&mut self, now: Instant, at: usize) {
        if self.sends_video_session() {
            return;
        }
        let Some(peer) = &mut self.peers[at] else { return };
        for one in peer.further.iter_mut().filter(|one| one.apart.is_some()) {
            one.began = now;
            self.further.tell_at = Some(now);
        }
    }

    /// Whether pictures go over a stream of bytes of their own: how fast that takes them is seen.
    pub(super) fn has_stream_for_video(&self) -> bool {
        let id = self.peers.iter().flatten().find_map(|peer| peer.way(Apart::Pictures));
        id.and_then(|id| self.associations.profile(id))
            .is_some_and(|profile| profile.wire == Wire::ByteStream)
    }

    /// How a congestion manager knows the path to `peer`.
    pub(super) fn path_to(associations: &Associations, peer: &Peer) -> PathName {
        if peer.further.iter().all(|one| one.apart.is_none()) {
            return PathName::Own;
        }
        let named = [peer.way(Apart::Pictures), peer.association, peer.way(Apart::Data)];
        PathName::Shared(named.into_iter().flatten().find(|id| is_datagram(associations, *id)))
    }

    /// By which name it knows that of what goes over `id` to `peer`.
    pub(super) fn path_of(
        associations: &Associations,
        peer: &Peer,
        id: AssociationId,
    ) -> Option<AssociationId> {
        Self::path_to(associations, peer).of(associations, id)
    }

    /// What sound takes of the path that a congestion manager knows, in bytes a second.
    pub(super) fn sound_on_path(&self) -> f64 {
        let sound = self.send.as_ref().map_or(0.0, |track| SendTrack::bandwidth(track).0 as f64 / 8.0);
        let mut peers = self.peers.iter().flatten();
        let counts = |peer: &Peer| {
            peer.association.is_none_or(|id| Self::path_of(&self.associations, peer, id).is_some())
        };
        if peers.all(|peer| counts(peer)) { sound } else { 0.0 }
    }
}

/// By which name a congestion manager knows the path of an association.
#[derive(Clone, Copy)]
pub(super) enum PathName {
    /// Its own.
    Own,
    /// Tracks have associations of their own: all share one path, which has the name of the first of them that carries datagrams.
    Shared(Option<AssociationId>),
}

impl PathName {
    /// That of `id`; `None`: of a stream of bytes beside others it knows nothing.
    pub fn of(self, associations: &Associations, id: AssociationId) -> Option<AssociationId> {
        match self {
            PathName::Own => Some(id),
            PathName::Shared(name) => name.filter(|_| is_datagram(associations, id)),
        }
    }
}

fn is_datagram(associations: &Associations, id: AssociationId) -> bool {
    associations.profile(id).is_some_and(|profile| profile.wire == Wire::Datagram)
}
