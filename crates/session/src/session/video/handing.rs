//! The packets of a video track on their way to each peer.

use std::time::Duration;

use antiphon_core::{Instant, Message, SendError};
use antiphon_media::packet::renumber;
use antiphon_media::rtcp::PlayoutDelay;

use crate::associations::Associations;
use crate::manager::{CongestionManager, TrackId};
use crate::observer::{Observer, PictureSent, Seen};
use crate::peer::Peer;
use crate::session::{Session, tell};
use crate::video_track::{VideoPacket, video_tag};

/// How the packets of a track are handed over.
pub(super) struct Handing {
    pub track: usize,
    /// The transport's stream that it uses.
    pub stream: usize,
    /// A peer whose transport has no room is waited for.
    pub waits: bool,
    pub is_apart: bool,
    /// An address that is not proved gets no more than it is good for.
    pub bounded: bool,
    /// The playout delay of a peer that has told none.
    pub delay: PlayoutDelay,
}

/// Where packets are handed over to.
pub(super) struct To<'a> {
    pub peers: &'a mut [Option<Box<Peer>>],
    pub associations: &'a mut Associations,
    pub manager: &'a mut dyn CongestionManager,
    pub observers: &'a mut [Box<dyn Observer>],
}

impl Handing {
    /// Hands a packet to all peers; returns how many took it and refused it, or `None` if it waits.
    pub fn hand_over(&self, now: Instant, packet: VideoPacket<'_>, to: To<'_>) -> Option<(u64, u64)> {
        let VideoPacket { unit, part: (part, parts), bytes, number, begins_key, is_needed, due, .. } = packet;
        let (deadline, whole) = (packet.deadline, parts as usize * bytes.len());
        let To { peers, associations, manager, observers } = to;
        let (mut taken, mut refused) = (0, 0);
        for peer in peers.iter_mut().flatten() {
            let Some(id) = Session::video_destination(self.is_apart, peer) else { continue };
            let patience = match peer.playout_delay.unwrap_or(self.delay) {
                PlayoutDelay::Of(delay) => delay / 2,
                PlayoutDelay::Unbounded => USUAL_PATIENCE,
            };
            let path = Session::path_to(associations, peer);
            let flow = peer.pictures_of(self.track);
            let takes = || self.waits || manager.takes(now, id, whole, patience);
            if !flow.gets((part == 0, begins_key, is_needed), takes) {
                continue;
            }
            let Some(sequence) = flow.number(now, number, begins_key) else { continue };
            renumber(bytes, sequence);
            let message = Message::new(video_tag(self.track, unit), bytes, deadline);
            let message = Message { priority: priority_of(self.track), ..message };
            // Of a call, as the sound.
            let result = match !self.bounded || associations.may_stream(id, bytes.len()) {
                true => associations.send_media(now, id, self.stream, message),
                false => Err(SendError::Blocked { queued: 0 }),
            };
            match result {
                Ok(()) => {
                    if let Some(path) = path.of(associations, id) {
                        manager.on_sent(now, path, TrackId(1 + self.track as u16), bytes);
                    }
                    taken += 1;
                }
                Err(SendError::Blocked { .. }) if self.waits => return None,
                Err(_) => refused += 1,
            }
            let sent = PictureSent {
                track: self.track,
                sequence,
                picture: unit,
                part: (part, parts),
                is_again: false,
                due,
                len: bytes.len(),
                result,
            };
            tell(observers, now, &Seen::PictureSent(sent));
        }
        Some((taken, refused))
    }
}

/// The priority of the messages of the track of this number.
pub(in crate::session) fn priority_of(track: usize) -> u8 {
    if track == 0 { PICTURES_PRIORITY } else { FURTHER_PRIORITY }
}

/// Sound goes first, where a transport or a router can choose.
pub(crate) const PICTURES_PRIORITY: u8 = 1;
/// Further tracks of pictures come behind the first, and share what is left of a transport's room with data.
const FURTHER_PRIORITY: u8 = 2;
/// For how long pictures wait of which none is too late.
pub(super) const USUAL_PATIENCE: Duration = Duration::from_secs(1);
