//! A receiver of pictures asks their sender for a key frame, when it can decode none without one.

use antiphon_core::Instant;
use antiphon_media::rtcp::PictureLoss;

use super::Session;
use super::congestion::SILENCE;

impl Session {
    /// Asks, if it is time. The members of a group don't, as they would all ask at once.
    pub(super) fn ask_for_key_frame(&mut self, now: Instant) {
        let Some(at) = self.arrivals.pictures_from().filter(|_| !self.group) else { return };
        let Some(pictures) = self.video.receive_mut().and_then(|video| video.asks_for_key_frame(now)) else {
            return;
        };
        let peer = self.peers.get(at).and_then(Option::as_ref).filter(|peer| peer.connected);
        let Some(id) = peer.and_then(|peer| peer.association) else { return };
        if self.associations.may_tell(now, id, PictureLoss::BYTES, SILENCE) {
            let bytes = PictureLoss { ssrc: self.ssrc, pictures }.to_bytes();
            self.associations.send_control(now, id, None, &bytes);
        }
    }
}
