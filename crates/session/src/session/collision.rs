//! Another party has our SSRC (RFC 3550 §8.2).

use antiphon_core::{Instant, Rng};

use super::Session;
use crate::send_track::SendTrack;

impl Session {
    /// Another party uses one of our SSRCs: says goodbye under them, and goes on under others.
    ///
    /// Once in a session: a party that then has our new SSRC, too, follows us, and answering it would end no loop. A
    /// recording over a reliable transport keeps what it was promised, packets that are numbered under the old SSRC.
    pub(super) fn on_collision(&mut self, now: Instant) {
        let delivers = self.peers.iter().flatten().any(|peer| peer.delivery.is_some());
        // One of many receivers must not make the others begin anew.
        if self.serving.is_some()
            || self.collided
            || delivers
            || self.config.reflected.is_some()
            || self.data.is_some()
        {
            return;
        }
        self.collided = true;
        let before = self.own_ssrcs();
        self.say_goodbye_under(now, &before);
        let mut rng = Rng::fork(self.config.seed, "collision");
        let mut fresh: Vec<u32> = Vec::with_capacity(before.len());
        while fresh.len() < before.len() {
            let drawn = rng.next_u32();
            if !before.contains(&drawn) && !fresh.contains(&drawn) {
                fresh.push(drawn);
            }
        }
        self.on_renamed(now, &before);
        self.ssrc = fresh[0];
        if let Some(track) = &mut self.send {
            track.set_ssrcs(&fresh);
        }
        for track in self.video.tracks_mut() {
            track.set_ssrc(track.ssrc(), fresh[0]);
        }
        self.beside.tracks_mut().for_each(|track| track.set_sound(fresh[0]));
        for peer in self.peers.iter_mut().flatten() {
            for (old, new) in before.iter().zip(&fresh) {
                peer.rtcp.set_ssrc(*old, *new);
            }
        }
    }

    fn own_ssrcs(&self) -> Vec<u32> {
        self.send.as_ref().map_or_else(|| vec![self.ssrc], |track| SendTrack::ssrcs(track).collect())
    }

    /// One that has never spoken under an SSRC leaves it without a word.
    fn say_goodbye_under(&mut self, now: Instant, ssrcs: &[u32]) {
        for at in 0..self.peers.len() {
            for (group, ssrc) in ssrcs.iter().enumerate() {
                let Some(peer) = &self.peers[at] else { break };
                let goodbye = peer.rtcp.goodbye_of(now, *ssrc, &mut self.report);
                if let Some(len) = goodbye {
                    self.send_report(now, at, len, self.send.is_some().then_some(group));
                }
            }
        }
    }
}
