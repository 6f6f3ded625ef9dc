//! Asks whether anybody is there, where a transport has no handshake that would show it: an application that waits for its
//! peer waits for the first sign of life.

use std::time::Duration;

use antiphon_core::{Instant, Message, Profile, Tag};
use antiphon_media::rtcp::Presence;

use super::Session;
use super::end::State;
use crate::associations::AssociationId;

/// A caller's questions, until anything comes from the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    next: Instant,
    pause: Duration,
}

impl Session {
    /// A peer of the application is called over `id`.
    pub(super) fn begin_asking(&mut self, now: Instant, id: AssociationId) {
        let asks = self.associations.profile(id).is_some_and(|profile| is_silent(&profile));
        if let Some(data) = &mut self.data {
            data.asking = asks.then_some(Asking { next: now, pause: FIRST_PAUSE });
        }
    }

    /// When the next question is due.
    pub(super) fn next_question(&self) -> Option<Instant> {
        let asking = self.data.as_ref().filter(|_| self.state == State::Open)?.asking?;
        Some(asking.next)
    }

    pub(super) fn ask(&mut self, now: Instant) {
        if self.next_question().is_none_or(|next| next > now) {
            return;
        }
        let peer = self.peers.iter().flatten().find(|peer| peer.connected);
        let id = peer.and_then(|peer| peer.association);
        if let Some(asking) = self.data.as_mut().and_then(|data| data.asking.as_mut()) {
            asking.next = now + asking.pause;
            asking.pause = (2 * asking.pause).min(LONGEST_PAUSE);
        }
        if let Some(id) = id {
            self.say(now, id, Presence::Question);
        }
    }

    /// A message came over `id`: returns whether it was a question or an answer, and not the application's.
    pub(super) fn on_presence(&mut self, now: Instant, id: AssociationId, bytes: &[u8]) -> bool {
        if let Some(data) = &mut self.data {
            data.asking = None;
        }
        let Some(presence) = Presence::parse(bytes) else { return false };
        if !self.associations.profile(id).is_some_and(|profile| is_silent(&profile)) {
            return false;
        }
        if presence == Presence::Question {
            self.say(now, id, Presence::Answer);
        }
        true
    }

    fn say(&mut self, now: Instant, id: AssociationId, presence: Presence) {
        let bytes = presence.to_bytes(self.ssrc);
        // Without room it is not said; the question comes again.
        let _without_room = self.associations.send(now, id, Message::new(OWN, &bytes, None));
    }
}

/// Whether nothing that a listener sends shows a caller that it is there, before the application says something.
fn is_silent(profile: &Profile) -> bool {
    !profile.capabilities.connection_oriented && !profile.calls_with_first_message
}

/// The tag of questions and answers, which the application does not hear of.
pub(super) const OWN: Tag = Tag(u64::MAX - 1);
/// The pause after the first question; doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, as between calls over TCP.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
