//! A receiver that calls its sender: asks for the stream, and goes on to show that it is there.

use std::time::Duration;

use antiphon_core::{CloseReason, Instant};
use antiphon_media::rtcp::{App, AppKind, Token};

use super::Session;
use super::end::State;
use crate::associations::AssociationId;
use crate::peer::PeerEnd;
use crate::receive_track::ReceiveTrack;

/// A caller's questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    next: Instant,
    pause: Duration,
    /// The token that the sender told.
    token: Token,
}

impl Session {
    /// A receiver calls its sender.
    pub(super) fn begin_asking_for_sound(&mut self, now: Instant) {
        if self.receive.is_some() && self.send.is_none() && self.data.is_none() && !self.group {
            self.asking.get_or_insert(Asking { next: now, pause: FIRST_PAUSE, token: Token::default() });
        }
    }

    /// Asks, if it is time.
    pub(super) fn ask_for_sound(&mut self, now: Instant) {
        if self.next_ask().is_none_or(|next| next > now) {
            return;
        }
        let hears = self.receive.as_ref().and_then(ReceiveTrack::followed).is_some();
        let peer = self.peers.iter().flatten().find(|peer| peer.connected);
        let (id, ssrc) = (peer.and_then(|peer| peer.association), self.ssrc);
        let Some(asking) = &mut self.asking else { return };
        asking.pause = if hears { LONGEST_PAUSE } else { asking.pause };
        asking.next = now + asking.pause;
        asking.pause = (asking.pause * 3 / 2).min(LONGEST_PAUSE);
        let bytes = App { ssrc, kind: AppKind::Ask, token: asking.token }.to_bytes();
        if let Some(id) = id {
            self.associations.send_control(now, id, None, &bytes);
        }
    }

    pub(super) fn next_ask(&self) -> Option<Instant> {
        let asking = self.asking.filter(|_| self.state == State::Open)?;
        self.peers.iter().flatten().any(|peer| peer.connected).then_some(asking.next)
    }

    /// The sender told a token, which shows it that we are where we seem to be.
    pub(super) fn on_challenge(&mut self, now: Instant, token: Token) {
        if let Some(asking) = &mut self.asking {
            (asking.token, asking.next) = (token, now);
            asking.pause = FIRST_PAUSE;
        }
    }

    /// The sender has as many receivers as it takes.
    pub(super) fn on_full(&mut self, now: Instant, id: AssociationId) {
        let ours = self.peers.iter().flatten().any(|peer| peer.association == Some(id));
        if self.asking.is_some() && ours && self.state == State::Open {
            self.peer_end.get_or_insert(PeerEnd::Closed(CloseReason::Refused));
            self.close(now);
        }
    }
}

/// The pause after the first question; grows by half with each, as the question or the answer may be lost.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The pause while the stream is heard: three questions in a row may be lost before the sender takes us for gone.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
