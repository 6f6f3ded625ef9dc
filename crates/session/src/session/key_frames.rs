//! A receiver of pictures asks their sender for a key frame, when it can decode none without one.
//!
//! Members of a group would all ask at once when a picture is lost that they all need. Each waits for a random time, the longer the more they are, and does not ask if it hears
//! the question of another one, or the answer (RFC 4585 §3.5.2): senders of a group are asked directly by those who only receive, so these hear the answer alone.

use std::time::Duration;

use antiphon_core::{Instant, Rng};
use antiphon_media::rtcp::PictureLoss;

use super::Session;
use super::congestion::SILENCE;

impl Session {
    /// Asks, if it is time.
    pub(super) fn ask_for_key_frame(&mut self, now: Instant) {
        if self.conference.is_some() {
            return self.ask_parties_for_key_frames(now);
        }
        let Some(at) = self.arrivals.pictures_from() else { return };
        let wait = self.group.then(|| self.wait_to_ask(at));
        let asked = self.video.receive_mut().and_then(|video| match wait {
            Some(wait) => video.asks_in_group(now, wait),
            None => video.asks_for_key_frame(now),
        });
        if let Some(pictures) = asked {
            self.send_picture_loss(now, at, pictures);
        }
    }

    /// The same of each party of a call over a group.
    fn ask_parties_for_key_frames(&mut self, now: Instant) {
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let wait = self.wait_to_ask(at);
        while let Some(pictures) =
            self.conference.as_mut().and_then(|conference| conference.parties.asks_for_key_frame(now, wait))
        {
            self.send_picture_loss(now, at, pictures);
        }
    }

    fn send_picture_loss(&mut self, now: Instant, at: usize, pictures: u32) {
        let peer = self.peers.get(at).and_then(Option::as_ref).filter(|peer| peer.connected);
        let Some(id) = peer.and_then(|peer| peer.association) else { return };
        if self.associations.may_tell(now, id, PictureLoss::BYTES, SILENCE) {
            let bytes = PictureLoss { ssrc: self.ssrc, pictures }.to_bytes();
            self.associations.send_control(now, id, None, &bytes);
        }
    }

    /// Another member of the group asks for a key frame of pictures that we do not send.
    pub(super) fn on_asked_by_another(&mut self, now: Instant, pictures: u32) {
        if let Some(video) = self.video.receive_mut() {
            video.on_asked_by_another(now, pictures);
        }
        if let Some(conference) = &mut self.conference {
            conference.parties.on_asked_by_another(now, pictures);
        }
    }

    /// How long a member waits before its first question: random among them, and the same for each time it asks, as only its place among the others counts.
    fn wait_to_ask(&self, at: usize) -> Duration {
        let others = self.peers.get(at).and_then(Option::as_ref).map_or(0, |peer| peer.rtcp.others());
        let most = (WAIT_OF_EACH * others.saturating_sub(FEW)).min(LONGEST_WAIT);
        most.mul_f64(Rng::fork(self.ssrc.into(), "key frame").unit())
    }
}

/// Members who may all ask at once.
const FEW: u32 = 3;
/// What each further one adds to the longest wait: of those who ask at once in a group of hundred, one or two ask while a question and the first of its answer are on their way for 10 ms.
const WAIT_OF_EACH: Duration = Duration::from_millis(5);
/// The longest wait: a picture is there within a second all the same.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
