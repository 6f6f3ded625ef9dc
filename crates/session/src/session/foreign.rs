//! Detects senders that use another framing than the one expected.

use super::Session;
use crate::framing::StreamFraming;
use crate::receive_track::ReceiveTrack;

impl Session {
    /// Looks for packets in the other framing in received bytes; not done once there is sound.
    pub(super) fn look_for_framing(&mut self, bytes: &[u8]) {
        if self.looks_for_framing()
            && let Some((_, profile)) = self.listening.first()
        {
            self.other_framing += self.config.framing.foreign_in(profile, bytes);
        }
    }

    fn looks_for_framing(&self) -> bool {
        !self.told_framing && self.receive.as_ref().is_some_and(|track| !track.has_begun())
    }

    /// One stray datagram does not identify a sender's framing, several do.
    pub(super) fn judge_framing(&mut self) {
        if !self.looks_for_framing() {
            return;
        }
        // Within a transport of its own, only bytes that belong to no packet show the other framing.
        let lost = self.config.framing == StreamFraming::Medusa && {
            let ids = self.peers.iter().flatten().filter_map(|peer| peer.association);
            let mut endpoints = ids.filter_map(|id| self.associations.endpoint(id));
            endpoints.any(|endpoint| {
                let counters = endpoint.stats().counters;
                counters.messages_delivered == 0 && counters.malformed >= FOREIGN_PATIENCE as u64
            })
        };
        if lost || self.other_framing >= FOREIGN_PATIENCE {
            self.told_framing = true;
            let (framing, ends) = (self.config.framing, self.config.ends_with_stream);
            let tell = |track: &mut ReceiveTrack| track.on_foreign_framing(framing, ends);
            self.receive.as_mut().into_iter().for_each(tell);
        }
    }
}

/// Packets in the other framing before the user is notified: 40 ms of sound in blocks of 256 at 48 kHz.
const FOREIGN_PATIENCE: usize = 8;
