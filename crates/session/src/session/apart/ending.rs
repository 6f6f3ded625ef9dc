//! What becomes of the rest of pictures and data when the sound is at its end.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::PlayoutDelay;

use super::Apart;
use crate::session::Session;
use crate::session::end::State;

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

impl Session {
    /// Whether pictures were not sent to the end, as their association was not there, or took no more.
    pub fn is_video_cut_short(&self) -> bool {
        self.apart.sending(Apart::Pictures).is_some_and(|sending| sending.is_cut_short)
    }

    /// What became of an association for pictures that [`Self::listen_apart`] waits for.
    pub fn video_end(&self) -> Option<VideoEnd> {
        let Some(receiving) = self.apart.receiving(Apart::Pictures) else {
            return self.video_session_end();
        };
        let has_ended = self.has_ended_apart(Apart::Pictures);
        Some(match receiving.came {
            false => VideoEnd::NeverCame,
            true if has_ended || self.state == State::Open => VideoEnd::Whole,
            true => VideoEnd::CutShort,
        })
    }

    /// Whether the sender has ended what is received over that association.
    fn has_ended_apart(&self, apart: Apart) -> bool {
        let pictures = self.video.receives().then(|| self.video.has_ended());
        let pictures = pictures.filter(|_| apart == Apart::Pictures);
        let is_for_data = apart == Apart::Data || self.apart.receiving(Apart::Data).is_none();
        let data = self.beside.has_ended().filter(|_| is_for_data);
        let mut all = pictures.into_iter().chain(data).peekable();
        all.peek().is_some() && all.all(|has_ended| has_ended)
    }

    /// Whether all pictures were sent, or those that are left are given up, at a sender whose sound is at its end.
    pub(in crate::session) fn is_video_over(&mut self, now: Instant) -> bool {
        // The goodbye must not overtake the last of them: it goes another way than the sound's.
        if self.is_catching_up() {
            return false;
        }
        if self.video.is_drained() && (self.video.is_settled() || !self.sends_video_apart()) {
            return true;
        }
        let is_behind = self.video_origin().is_some_and(|origin| self.video.is_behind(now, origin));
        let has_way = self.peers.iter().flatten().any(|peer| peer.way(Apart::Pictures).is_some());
        let Some(sending) = self.apart.sending_mut(Apart::Pictures) else { return false };
        if !is_behind {
            sending.progress = now;
        }
        let patience = if has_way { SILENCE_OF_A_WAY } else { SILENCE };
        sending.is_cut_short = now.since(sending.progress) >= patience;
        sending.is_cut_short
    }

    /// Whether a receiver whose sound is over waits for the rest of what comes another way.
    pub(in crate::session) fn waits_for_rest(&mut self, now: Instant) -> bool {
        // Each is looked at: it notes when its wait began.
        let [pictures, data] = Apart::ALL.map(|apart| self.waits_for_way(now, apart));
        pictures || data
    }

    fn waits_for_way(&mut self, now: Instant, apart: Apart) -> bool {
        let is_over = self.receive.as_ref().is_some_and(|track| track.is_over());
        let comes = self.peers.iter().flatten().any(|peer| peer.apart(apart).is_some());
        let has_ended = self.has_ended_apart(apart);
        let Some(receiving) = self.apart.receiving_mut(apart) else { return false };
        if !is_over || !comes || has_ended {
            receiving.over = None;
            return false;
        }
        receiving.over.get_or_insert(now);
        self.silence_apart_at(apart).is_some_and(|until| now < until)
    }

    /// Until when the rest of it is waited for, once the sound is over.
    pub(super) fn silence_apart_at(&self, apart: Apart) -> Option<Instant> {
        let over = self.apart.receiving(apart)?.over?;
        let one = self.peers.iter().flatten().find_map(|peer| peer.apart(apart));
        let heard = one.and_then(|one| self.associations.heard_at(one.id));
        let records = self.config.tells == Some(PlayoutDelay::Unbounded);
        let patience = if records { SILENCE } else { SILENCE_AT_THE_END };
        Some(heard.map_or(over, |heard| heard.max(over)) + patience)
    }
}

/// How long pictures without an association are kept after the sound, and how long a recording waits for the rest of them.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a player waits for the rest of them.
const SILENCE_AT_THE_END: Duration = Duration::from_millis(500);
/// How long a transport may take none, after the sound: a kernel takes that long to find that a connection is dead.
const SILENCE_OF_A_WAY: Duration = Duration::from_secs(15);
