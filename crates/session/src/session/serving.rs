//! A sender that many receivers call: each gets the stream from when it has called until it leaves.
//!
//! A receiver asks for the stream ([`AppKind::Ask`]), again and again while it is there. Where the transport has no handshake
//! that would prove its address, it is first told a token, and gets sound once it has shown that token: nobody has the
//! stream sent to another's address. One that falls silent is gone.

use std::time::Duration;

use antiphon_core::{CloseMode, CloseReason, Draws, Instant, PathId, Secret, Wire, WireId};
use antiphon_media::rtcp::{App, AppKind, Token};

use super::Session;
use super::end::State;
use super::programmes::Question;
use crate::associations::AssociationId;
use crate::peer::{Peer, PeerCounters};

/// Whom a session serves.
#[derive(Clone, Copy, Debug)]
pub struct Serve {
    /// The most receivers at once; further ones are told that there is no room.
    pub most: usize,
    /// Silence after which a receiver is gone.
    pub idle: Duration,
    /// Tokens that prove addresses come from it.
    pub secret: Secret,
}

/// What only a session has that serves many.
pub(super) struct Serving {
    most: usize,
    idle: Duration,
    tokens: Draws,
    /// When it is next looked whether receivers are still there.
    look: Instant,
    counters: ServedCounters,
    /// Receivers that are gone, the last of them.
    gone: Vec<Receiver>,
}

/// What became of those who have called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServedCounters {
    /// Receivers that get the stream now.
    pub present: u64,
    /// Receivers that have got it, in all.
    pub joined: u64,
    /// Those of them that said goodbye or ended the connection.
    pub left: u64,
    /// Those of them that fell silent.
    pub silent: u64,
    /// Callers that were told that there is no room.
    pub refused: u64,
}

/// A receiver that is, or was, served.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Its number, in the order of joining, from 1.
    pub number: u64,
    /// Where it is reached, while it is there.
    pub place: Option<(WireId, PathId)>,
    /// When it joined.
    pub joined: Instant,
    /// Why it is gone, if it is.
    pub gone: Option<CloseReason>,
    /// What was sent to it.
    pub sent: PeerCounters,
    /// What it reports.
    pub member: Option<crate::Member>,
}

/// What a peer is to a session that serves many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// The token that it was told.
    token: Option<Token>,
    /// Whether it says again and again that it is there.
    asks: bool,
    /// Its number and when it joined.
    joined: Option<(u64, Instant)>,
    /// It was told that there is no room, or has left: it gets nothing more.
    done: bool,
    /// The number of the programme that it is sent.
    pub programme: usize,
    /// What it has asked about programmes, until it is answered.
    pub question: Option<Question>,
    /// When it was last told of programmes.
    pub told: Option<Instant>,
}

impl Served {
    /// Whether it gets nothing more.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

impl Serving {
    fn new(now: Instant, serve: Serve) -> Self {
        Serving {
            most: serve.most,
            idle: serve.idle,
            tokens: serve.secret.draws("receivers"),
            look: now + LOOK,
            counters: ServedCounters::default(),
            gone: Vec::with_capacity(MOST_GONE),
        }
    }

    fn draw(&mut self) -> Token {
        let mut token = Token::default();
        let (words, _) = token.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = self.tokens.next_u64().to_be_bytes());
        token
    }
}

impl Session {
    pub(super) fn begin_serving(&mut self, now: Instant, serve: Serve) {
        self.serving.get_or_insert_with(|| Serving::new(now, serve));
        // Receivers tell how they fare, whether they are to play in step or not.
        self.tell_clock_from(now, None);
    }

    /// What became of those who have called.
    pub fn served(&self) -> ServedCounters {
        self.serving.as_ref().map_or_else(ServedCounters::default, |serving| serving.counters)
    }

    /// Those that are served, and then the last of those that were.
    pub fn receivers(&self) -> impl Iterator<Item = Receiver> {
        let messages = self.send.as_ref().map_or(0, |track| track.store().next());
        let present = self.peers().filter_map(move |peer| {
            let place = peer.association.and_then(|id| self.associations.first_path_of(id));
            receiver(peer, messages, place, None)
        });
        present.chain(self.serving.iter().flat_map(|serving| serving.gone.iter().copied()))
    }

    /// Whether an association may not be sent sound yet: its peer may be one that forged its address.
    pub(super) fn awaits_proof(&self, id: AssociationId) -> bool {
        self.serving.is_some() && !self.associations.is_validated(id)
    }

    /// A receiver asks for the stream.
    pub(super) fn on_ask(&mut self, now: Instant, id: AssociationId, at: usize, shown: Token) {
        let (Some(serving), Some(peer)) = (&mut self.serving, &mut self.peers[at]) else { return };
        if peer.association != Some(id) || peer.served.done {
            return;
        }
        peer.served.asks = true;
        if !self.associations.is_validated(id) {
            let own = *peer.served.token.get_or_insert_with(|| serving.draw());
            if shown != own {
                return self.tell_receiver(now, id, AppKind::Challenge, own);
            }
            self.associations.validate(id);
        }
        if !peer.connected {
            self.admit_receiver(now, at);
        }
    }

    /// A receiver whose address is proved gets the stream from now on, if there is room.
    pub(super) fn admit_receiver(&mut self, now: Instant, at: usize) {
        let (Some(serving), Some(peer)) = (&mut self.serving, &mut self.peers[at]) else { return };
        // Its question may come before its transport says that it is connected.
        let fresh = self.state == State::Open && !peer.connected && !peer.served.done;
        let Some(id) = peer.association.filter(|_| fresh) else { return };
        if serving.counters.present >= serving.most as u64 {
            peer.served.done = true;
            serving.counters.refused += 1;
            self.tell_receiver(now, id, AppKind::Full, Token::default());
            return self.associations.close(now, id, CloseMode::Graceful);
        }
        serving.counters.joined += 1;
        serving.counters.present += 1;
        peer.served.joined = Some((serving.counters.joined, now));
        peer.connected = true;
        self.start_at(now);
        self.judge_delivery(now, at);
        self.begin_telling(now, at);
        self.answer_about_programmes(now, at);
        self.begin_catching_up(now, at);
    }

    fn tell_receiver(&mut self, now: Instant, id: AssociationId, kind: AppKind, token: Token) {
        let bytes = App { ssrc: self.ssrc, kind, token }.to_bytes();
        if self.associations.is_validated(id) || self.associations.may_stream(id, bytes.len()) {
            self.associations.send_control(now, id, None, &bytes);
        }
    }

    /// The receiver at `at` has said goodbye.
    pub(super) fn on_receiver_left(&mut self, now: Instant, at: usize) {
        let Some(peer) = self.peers[at].as_ref().filter(|_| self.serving.is_some()) else { return };
        if let Some(id) = peer.association.filter(|_| peer.members.have_left()) {
            // Its place is free at once, however long its association takes to end.
            self.on_receiver_gone(at, CloseReason::Peer);
            self.associations.close(now, id, CloseMode::Graceful);
        }
    }

    /// The receiver at `at` has left, or its association has ended.
    pub(super) fn on_receiver_gone(&mut self, at: usize, why: CloseReason) {
        let messages = self.send.as_ref().map_or(0, |track| track.store().next());
        let (Some(serving), Some(peer)) = (&mut self.serving, &mut self.peers[at]) else { return };
        let Some(gone) = receiver(peer, messages, None, Some(why)) else { return };
        (peer.served.joined, peer.served.done, peer.connected) = (None, true, false);
        serving.counters.present -= 1;
        match why {
            CloseReason::TimedOut => serving.counters.silent += 1,
            _ => serving.counters.left += 1,
        }
        if serving.gone.len() == MOST_GONE {
            serving.gone.remove(0);
        }
        serving.gone.push(gone);
    }

    /// Ends the associations of receivers that have fallen silent.
    pub(super) fn look_after_receivers(&mut self, now: Instant) {
        let Some(serving) = self.serving.as_mut().filter(|serving| serving.look <= now) else { return };
        serving.look = now + LOOK;
        let idle = serving.idle;
        for at in 0..self.peers.len() {
            let Some(peer) = &self.peers[at] else { continue };
            let Some(id) = peer.association else { continue };
            // The kernel knows of a connection whether its peer is there; other players say nothing by themselves.
            let stream = self.associations.profile(id).is_some_and(|one| one.wire == Wire::ByteStream);
            let tells = peer.served.asks || !stream;
            if tells && self.associations.silence_of(now, id) >= idle {
                self.on_receiver_gone(at, CloseReason::TimedOut);
                self.associations.end(now, id, CloseReason::TimedOut);
            }
        }
    }

    /// When that is due.
    pub(super) fn next_look_after_receivers(&self) -> Option<Instant> {
        let serving = self.serving.as_ref().filter(|_| self.state == State::Open)?;
        self.peers.iter().any(Option::is_some).then_some(serving.look)
    }
}

/// What is known of a peer that has joined.
fn receiver(
    peer: &Peer,
    messages: u64,
    place: Option<(WireId, PathId)>,
    gone: Option<CloseReason>,
) -> Option<Receiver> {
    let (number, joined) = peer.served.joined?;
    let member = peer.members().iter().max_by_key(|member| member.heard).copied();
    Some(Receiver { number, place, joined, gone, sent: peer.counted(messages), member })
}

/// How often it is looked whether receivers are still there.
const LOOK: Duration = Duration::from_millis(250);
/// Receivers that are gone of which figures are kept.
const MOST_GONE: usize = 256;
