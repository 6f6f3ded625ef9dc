//! One packet that is sent again, to a peer that has come later or to a group.

use std::time::Duration;

use antiphon_core::{Instant, Message, SendError};
use antiphon_media::packet::renumber;

use super::apart::PathName;
use super::catching_up::Behind;
use super::tell;
use super::video::priority_of;
use crate::associations::{AssociationId, Associations};
use crate::manager::{CongestionManager, TrackId};
use crate::observer::{Observer, PictureSent, Seen};
use crate::video_track::{VideoTrack, again_tag};

/// The way of packets of a track that are sent again.
pub(super) struct SendingAgain<'a> {
    /// Of which track they are.
    pub track: usize,
    pub to: AssociationId,
    /// The transport's stream that the track uses.
    pub stream: usize,
    pub path: PathName,
    /// For how long after the first of them they are of use; `None`: for ever.
    pub useful: Option<Duration>,
    /// An address that is not proved gets no more than it is good for.
    pub bounded: bool,
    pub associations: &'a mut Associations,
    pub manager: &'a mut dyn CongestionManager,
    pub observers: &'a mut [Box<dyn Observer>],
}

/// Under which SSRC and number a packet is sent again.
#[derive(Clone, Copy)]
pub(super) enum Name {
    /// That of the track, with this number.
    OfTrack(u16),
    /// Those of the stream that repeats the track beside it.
    OfRepeats,
}

/// What became of it.
pub(super) enum SentAgain {
    /// It was handed over, or refused for good: the next one follows.
    Done { len: usize, is_open: bool },
    /// The transport has no room now.
    Waits,
    /// There is none that could be sent again under this name.
    Missing,
}

impl SendingAgain<'_> {
    /// Sends the packet of `track` at which `behind` stands, which then goes on to the next.
    pub fn send(
        &mut self,
        now: Instant,
        track: &mut VideoTrack,
        behind: &mut Behind,
        name: Name,
    ) -> SentAgain {
        let named = match name {
            Name::OfTrack(number) => track.recent_packet(behind.next).map(|(packet, part)| {
                renumber(packet, number);
                (packet, part, number)
            }),
            Name::OfRepeats => track.repeated_packet(behind.next),
        };
        let Some((packet, part, sequence)) = named else { return SentAgain::Missing };
        let len = packet.len();
        // Repeats for a group stand behind what is due to all, where a transport can choose.
        let priority = match name {
            Name::OfTrack(_) => priority_of(self.track),
            Name::OfRepeats => priority_of(self.track + 1),
        };
        let deadline = self.useful.map(|useful| behind.since + useful);
        let message = Message { priority, ..Message::new(again_tag(self.track), packet, deadline) };
        let result = match !self.bounded || self.associations.may_stream(self.to, len) {
            true => self.associations.send_media(now, self.to, self.stream, message),
            false => Err(SendError::Blocked { queued: 0 }),
        };
        match result {
            Ok(()) => {
                if let Some(path) = self.path.of(self.associations, self.to) {
                    self.manager.on_sent(now, path, TrackId(1 + self.track as u16), packet);
                }
            }
            Err(SendError::Blocked { .. }) => return SentAgain::Waits,
            // It is counted as refused.
            Err(_) => {}
        }
        let sent = PictureSent {
            track: self.track,
            sequence,
            picture: part.unit,
            part: (part.part, part.parts),
            is_again: true,
            due: behind.since,
            len,
            result,
        };
        tell(self.observers, now, &Seen::PictureSent(sent));
        track.on_repeated(len, result.is_ok());
        (behind.next, behind.sent) = (behind.next + 1, behind.sent + len);
        SentAgain::Done { len, is_open: result.is_ok() }
    }
}
