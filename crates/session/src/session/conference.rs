//! A call over a group: everybody sends once, to the group, and hears all others, and sees them where each has a sink of its own.
//!
//! The group is the one peer. Its parties come and go; the call ends when we do: when we are stopped, or our own source is over.

use std::time::Duration;

use antiphon_core::{Instant, Received};
use antiphon_media::packet::{RtpView, VIDEO_CLOCK};
use antiphon_media::rtcp::{Cname, Reception, RemoteReport, RtcpSession};

use super::congestion::OfParty;
use super::{Session, tell};
use crate::associations::AssociationId;
use crate::observer::Seen;
use crate::parties::{Parties, PictureTold};
use crate::receive_track::Told;
use crate::send_track::{SendTrack, messages_of_a_stall};

/// What only a call over a group has.
pub(super) struct Conference {
    pub parties: Parties,
    /// Our SSRCs before a collision, and until when packets under them may still be ours.
    former: Vec<u32>,
    former_until: Instant,
}

impl Session {
    /// Hears all parties of the group that is sent to. Call it before there is a peer.
    pub fn set_parties(&mut self, parties: Parties) {
        self.group = true;
        self.conference = Some(Conference { parties, former: Vec::new(), former_until: Instant::ZERO });
    }

    /// The other parties of a group.
    pub fn parties(&self) -> Option<&Parties> {
        self.conference.as_ref().map(|conference| &conference.parties)
    }

    /// The same, to fetch notices.
    pub fn parties_mut(&mut self) -> Option<&mut Parties> {
        self.conference.as_mut().map(|conference| &mut conference.parties)
    }

    /// The same, to finish their sink.
    pub fn take_parties(&mut self) -> Option<Parties> {
        self.conference.take().map(|conference| conference.parties)
    }

    /// The name of a party, once it has told it.
    pub fn cname_of(&self, ssrc: u32) -> Option<Cname> {
        self.shown()?.rtcp().cname_of(ssrc)
    }

    /// How each source is received, as reports tell it.
    pub fn receptions(&self) -> impl Iterator<Item = (u32, &Reception)> {
        self.shown().into_iter().flat_map(|peer| peer.rtcp().receptions())
    }

    /// What a party last reported of what we send.
    pub fn report_of(&self, ssrc: u32) -> Option<RemoteReport> {
        self.members().iter().find(|member| member.ssrc == ssrc)?.report
    }

    /// An RTP packet from the group. Returns whether this is a call over a group.
    pub(super) fn on_party_rtp(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        received: Received,
        bytes: &[u8],
    ) -> bool {
        let Some(ssrc) = bytes.first_chunk::<12>().map(|header| u32_at(header, 8)) else { return false };
        let own = self.send.as_ref().map_or(self.ssrc == ssrc, |track| track.ssrcs().any(|own| own == ssrc));
        let Some(conference) = &mut self.conference else { return false };
        if own || now < conference.former_until && conference.former.contains(&ssrc) {
            conference.parties.on_own();
            if own && !self.send.as_ref().is_some_and(|track| track.may_have_sent(bytes)) {
                self.on_collision(now);
            }
            return true;
        }
        let (peer, observers) = (&mut self.peers[at], &mut self.observers);
        let (arrivals, parties) = (&mut self.arrivals, conference.parties.len());
        conference.parties.on_rtp(now, received, bytes, &mut |party, told| match told {
            Told::Began { rate } => {
                peer.iter_mut().for_each(|peer| peer.rtcp.begin_source(party, rate));
                tell(observers, now, &Seen::Began { rate });
            }
            Told::Skipped { ssrc, packets } => {
                peer.iter_mut().for_each(|peer| peer.rtcp.skip_packets(ssrc, packets));
            }
            Told::Arrived { ssrc, arrived, behind } => {
                if let Some(peer) = peer.as_mut().filter(|_| !arrived.duplicate && !behind) {
                    peer.rtcp.on_received(arrived.at, ssrc, arrived.sequence, arrived.timestamp);
                }
                let name = (ssrc, arrived.sequence);
                arrivals.on_party(now, (at, id), (OfParty::Sound, parties), name, received);
                tell(observers, now, &Seen::Arrived(*arrived));
            }
        });
        conference.parties.take_early(now, &mut |told| {
            peer.iter_mut().for_each(|peer| note_picture(&mut peer.rtcp, told));
        });
        true
    }

    /// A packet of pictures from the group. Returns whether this is a call over a group.
    pub(super) fn on_party_picture(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        received: Received,
        (view, bytes): (&RtpView<'_>, &[u8]),
    ) -> bool {
        let is_own = self.video.has_ssrc(view.ssrc);
        let Some(conference) = &mut self.conference else { return false };
        if is_own {
            conference.parties.on_own();
            return true;
        }
        // Those that are not shown take as much of the path.
        if let Some(video) = view.video.filter(|video| conference.parties.has(video.sound, received.path)) {
            let what = if video.again.is_some() { OfParty::Repeats } else { OfParty::Pictures };
            let (parties, name) = (conference.parties.len(), (view.ssrc, view.sequence));
            self.arrivals.on_party(now, (at, id), (what, parties), name, received);
        }
        let peer = &mut self.peers[at];
        conference.parties.on_picture(now, received, (view, bytes), &mut |told| {
            peer.iter_mut().for_each(|peer| note_picture(&mut peer.rtcp, told));
        });
        true
    }

    /// Our SSRCs change since another party has one of them.
    pub(super) fn on_renamed(&mut self, now: Instant, before: &[u32]) {
        if let Some(conference) = &mut self.conference {
            conference.former = before.to_vec();
            conference.former_until = now + FORMER;
        }
    }

    /// Plays what the sink takes.
    pub(super) fn play_parties(&mut self, now: Instant) {
        let receives = self.state.receives();
        let Some(conference) = self.conference.as_mut().filter(|_| receives) else { return };
        let peers = &mut self.peers;
        conference.parties.advance(now, &mut |ssrc| {
            peers.iter_mut().flatten().for_each(|peer| peer.rtcp.forget_source(ssrc));
        });
    }

    /// When [`Self::play_parties`] has something to do.
    pub(super) fn next_of_parties(&self) -> Option<Instant> {
        self.conference.as_ref().filter(|_| self.state.receives())?.parties.poll_timeout()
    }

    /// Reserves memory for what all parties send while a machine stands still, once a further one has begun.
    pub(super) fn hold_ready_for_parties(&mut self) {
        let Some(conference) = &mut self.conference else { return };
        let Some(interval) = conference.parties.takes_pace() else { return };
        // Our own packets come back as well.
        let room = messages_of_a_stall(interval.max(SHORTEST_PACKET)) * (conference.parties.len() + 1);
        let ids: Vec<AssociationId> =
            self.peers.iter().flatten().filter_map(|peer| peer.association).collect();
        if let ([id], true) = (&ids[..], room > self.room) {
            self.room = room;
            self.associations.reserve_messages(*id, room);
        }
    }

    /// Whether the sink of a call over a group has failed.
    pub(super) fn cannot_hear(&self) -> bool {
        self.conference.as_ref().is_some_and(|conference| conference.parties.error().is_some())
    }
}

impl SendTrack {
    /// Whether a packet with an SSRC of ours may be ours: its time stamp is one of the last seconds'. Another source that has our
    /// SSRC by chance began at a time stamp of its own.
    fn may_have_sent(&self, bytes: &[u8]) -> bool {
        let (packetiser, Some(header)) = (self.packetiser(), bytes.first_chunk::<12>()) else { return false };
        let now = packetiser.timestamp_at(packetiser.position().frames);
        let back = now.wrapping_sub(u32_at(header, 4));
        back <= packetiser.config().format.rate().saturating_mul(LATELY_S)
    }
}

/// Pictures of a party in the reports on what is received.
fn note_picture(rtcp: &mut RtcpSession, told: PictureTold) {
    match told {
        PictureTold::Taken { received_at, ssrc, sequence, timestamp } => {
            rtcp.on_received_at(received_at, ssrc, (sequence, timestamp), VIDEO_CLOCK);
        }
        PictureTold::Forget(ssrc) => rtcp.forget_source(ssrc),
    }
}

fn u32_at(header: &[u8; 12], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// How long packets of ours under a former SSRC may still come back: longer than any queue.
const FORMER: Duration = Duration::from_secs(5);
/// Seconds within which our packets come back.
const LATELY_S: u32 = 10;
/// Parties whose packets are shorter have less reserved than they send in a stall: what a party sends must not decide how much
/// memory it gets.
const SHORTEST_PACKET: Duration = Duration::from_millis(1);
