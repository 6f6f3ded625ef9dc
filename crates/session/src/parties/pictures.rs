//! Pictures of the parties of a group. A party's pictures say with which sound they were captured, and come from where that comes from:
//! nobody else's get between them.

use std::time::Duration;

use antiphon_core::{Instant, Received};
use antiphon_media::packet::{ExtensionIds, RtpView, parse_rtp};

use super::apart::{Hearing, Output};
use super::{Parties, PartyNotice};
use crate::video_in::VideoIn;

/// What became of a packet of pictures, for the statistics of its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PictureTold {
    /// It is of a party's pictures.
    Taken { received_at: Instant, ssrc: u32, sequence: u16, timestamp: u32 },
    /// The party has other pictures now than those of this SSRC.
    Forget(u32),
}

impl Parties {
    /// A packet of pictures of another party came; reports it.
    pub(crate) fn on_picture(
        &mut self,
        now: Instant,
        received: Received,
        (view, bytes): (&RtpView<'_>, &[u8]),
        tell: &mut dyn FnMut(PictureTold),
    ) {
        let Some(sound) = view.video.map(|video| video.sound) else { return };
        let at = self.list.iter().position(|party| party.ssrc == sound);
        if let Hearing::Mixed(_) = self.hearing {
            self.counters.pictures_left_out += 1;
            let is_of_party = at.is_some_and(|at| self.list[at].path == received.path);
            if is_of_party && !std::mem::replace(&mut self.told_pictures, true) {
                self.notice(PartyNotice::Pictures { ssrc: sound });
            }
            return;
        }
        let is_sound = self.list.iter().any(|party| party.ssrc == view.ssrc);
        let Some(party) = at.map(|at| &mut self.list[at]) else {
            self.early.forget_old(now);
            return self.early.keep((sound, received.path), received, bytes);
        };
        let Output::Apart(apart) = &mut party.output else { return };
        // Sound and pictures are counted apart, so nobody's pictures have the SSRC of a sound.
        if party.path != received.path || is_sound {
            self.counters.pictures_left_out += 1;
            return;
        }
        if !apart.video.on_packet(now, (view, bytes), Some(&party.track)) {
            return;
        }
        if let Some(before) = apart.pictures.replace(view.ssrc).filter(|before| *before != view.ssrc) {
            tell(PictureTold::Forget(before));
        }
        let (ssrc, sequence, timestamp) = (view.ssrc, view.sequence, view.timestamp);
        tell(PictureTold::Taken { received_at: received.received_at, ssrc, sequence, timestamp });
    }

    /// Whether a party is asked for a key frame now: the SSRC of its pictures.
    pub(crate) fn asks_for_key_frame(&mut self, now: Instant, wait: Duration) -> Option<u32> {
        self.videos().find_map(|video| video.asks_in_group(now, wait))
    }

    /// Another one has asked for a key frame of these pictures.
    pub(crate) fn on_asked_by_another(&mut self, now: Instant, pictures: u32) {
        self.videos().for_each(|video| video.on_asked_by_another(now, pictures));
    }

    fn videos(&mut self) -> impl Iterator<Item = &mut VideoIn> {
        self.list.iter_mut().filter_map(|party| match &mut party.output {
            Output::Apart(apart) => Some(&mut apart.video),
            Output::Mixed(_) => None,
        })
    }

    /// The pictures that came before their party was there, if one is new.
    pub(crate) fn take_early(&mut self, now: Instant, tell: &mut dyn FnMut(PictureTold)) {
        let Some((sound, path)) = self.new.take() else { return };
        self.early.forget_old(now);
        while let Some(packet) = self.early.take(sound, path) {
            if let Ok(view) = parse_rtp(&packet.bytes, ExtensionIds::default()) {
                self.on_picture(now, packet.received, (&view, &packet.bytes), tell);
            }
        }
    }
}
