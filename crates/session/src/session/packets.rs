//! Handles what a session receives: sound, reports, and anything else.

use std::time::Duration;

use antiphon_core::{Instant, Profile, Received, Wire};
use antiphon_media::StreamFormat;
use antiphon_media::packet::{PacketKind, classify, unmark_returned};

use super::reports::ReportFrom;
use super::{Session, tell};
use crate::associations::AssociationId;
use crate::observer::Seen;
use crate::receive_track::{ReceiveTrack, Told};

impl Session {
    /// Handles received messages.
    pub(super) fn fetch(&mut self, now: Instant) {
        if self.data.is_some() {
            return self.fetch_messages(now);
        }
        let was_full =
            std::mem::replace(&mut self.holds_up, self.receive.as_ref().is_some_and(ReceiveTrack::is_full));
        if self.holds_up {
            return self.associations.pause_all();
        }
        if was_full {
            self.associations.resume_all();
        }
        let mut buf = std::mem::take(&mut self.buf);
        while let Some((id, received)) = self.associations.poll_message(&mut buf) {
            if self.config.reflected.is_some() {
                unmark_returned(&mut buf[..received.len]);
            }
            let bytes = &buf[..received.len];
            let kind = classify(bytes);
            if !self.has_place(now, id, kind, bytes) {
                continue;
            }
            let bytes = &buf[..received.len];
            let Some(at) = self.peer_at(id) else {
                self.on_candidate(now, id, bytes);
                continue;
            };
            if let Some(peer) = self.peers[at].as_mut().filter(|peer| peer.is_of_sound(id)) {
                (peer.answered, peer.broken) = (true, None);
            }
            match kind {
                Some(PacketKind::Rtcp)
                    if self.on_report_on_pictures(now, (at, id), received.repaired, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_app(now, id, at, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_receipt(now, at, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_arrivals_told(now, id, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_picture_loss(now, at, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_delays(now, id, received, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_clock(now, at, received, bytes) => {}
                Some(PacketKind::Rtcp) if self.on_programmes(now, id, at, bytes) => {}
                Some(PacketKind::Rtcp) => {
                    let came = self.came(now, received.received_at);
                    self.on_rtcp(now, (at, came), bytes, received.repaired, ReportFrom::Media(received.path));
                }
                Some(PacketKind::Rtp) if self.on_video(now, (at, id), received, bytes) => {}
                Some(PacketKind::Rtp) => self.on_rtp(now, (at, id), received, bytes),
                None => self.on_malformed(),
            }
            self.look_for_framing(bytes);
            if self.receive.as_mut().is_some_and(|track| track.has_no_room(now)) {
                self.holds_up = true;
                self.associations.pause_all();
                break;
            }
        }
        self.buf = buf;
        self.judge_framing();
        self.hold_ready();
        self.hold_ready_for_parties();
    }

    /// A message of this kind came over an association: returns whether it has a place here. One that waited for the place of
    /// a single peer may get it now.
    fn has_place(&mut self, now: Instant, id: AssociationId, kind: Option<PacketKind>, bytes: &[u8]) -> bool {
        let of_use = match kind {
            _ if self.listener_apart(id).is_some() && self.peer_at(id).is_none() => self.shows_token(bytes),
            Some(PacketKind::Rtp) => true,
            // A receiver sends nothing else, a sender both.
            Some(PacketKind::Rtcp) => self.receive.is_none(),
            None => false,
        };
        if of_use { self.gets_place(now, id) } else { !self.associations.is_waiting(id) }
    }

    /// A message of use came over an association: returns whether it has a place here.
    pub(super) fn gets_place(&mut self, now: Instant, id: AssociationId) -> bool {
        let waits = self.associations.is_waiting(id);
        let has_place = self.associations.on_used(now, id);
        self.unknown_sources += u64::from(!has_place);
        if let (true, true, Some(at)) = (waits, has_place, self.single)
            && !self.is_candidate(now, id, at)
        {
            self.replace(now, id, at);
        }
        has_place
    }

    /// A message that is neither RTP nor RTCP came, or a broken one.
    pub(super) fn on_malformed(&mut self) {
        if let Some(track) = &mut self.receive {
            track.on_malformed();
        }
        if let Some(parties) = self.parties_mut() {
            parties.on_malformed();
        }
        self.foreign += u64::from(self.config.reflected.is_some());
    }

    pub(super) fn on_rtp(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        received: Received,
        bytes: &[u8],
    ) {
        if self.on_party_rtp(now, (at, id), received, bytes) {
            return;
        }
        let tells_receipts = self.tells_receipts(at);
        if self.receive.is_none() {
            return;
        }
        let reflected = self.config.reflected.is_some();
        if !reflected && bytes.get(8..12) == Some(&self.ssrc.to_be_bytes()) {
            self.on_collision(now);
        }
        // Only our own packets come back from a reflector.
        if reflected && bytes.get(8..12) != Some(&self.ssrc.to_be_bytes()) {
            self.foreign += 1;
            return;
        }
        let tells_receipts = tells_receipts && !reflected;
        let Some(track) = &mut self.receive else { return };
        let (peer, observers, receipts) = (&mut self.peers[at], &mut self.observers, &mut self.receipts);
        let first = peer.as_ref().and_then(|peer| peer.association);
        let is_told =
            first.and_then(|id| self.associations.profile(id)).is_some_and(|one| one.wire == Wire::Datagram);
        let (two_way, mut came) = (&mut self.two_way, None);
        let mut video = self.video.receive_mut();
        let (arrivals, video_session) = (&mut self.arrivals, &mut self.video_session);
        let mut rate_of_sound = track.format().map_or(0, StreamFormat::rate);
        track.on_rtp(now, received, bytes, &mut |told| match told {
            Told::Began { rate } => {
                rate_of_sound = rate;
                if let Some(peer) = peer {
                    peer.rtcp.begin_receiving(rate);
                }
                receipts.begin();
                arrivals.begin();
                video.iter_mut().for_each(|video| video.on_sound(rate));
                two_way.iter_mut().for_each(|two_way| two_way.on_began(now));
                tell(observers, now, &Seen::Began { rate });
            }
            Told::Skipped { ssrc, packets } => {
                if let Some(peer) = peer {
                    peer.rtcp.skip_packets(ssrc, packets);
                }
                receipts.skip(ssrc, packets);
            }
            Told::Arrived { ssrc, arrived, behind } => {
                if tells_receipts {
                    receipts.on_packet(now, ssrc, arrived.sequence);
                }
                // A session sends no report on its own stream.
                if let Some(peer) = peer.as_mut().filter(|_| !arrived.duplicate && !behind && !reflected) {
                    peer.rtcp.on_received(arrived.at, ssrc, arrived.sequence, arrived.timestamp);
                }
                if is_told {
                    arrivals.on_sound(now, at, (ssrc, arrived.sequence), received);
                }
                video.iter_mut().for_each(|video| video.on_arrived(now, arrived));
                if let Some(session) =
                    video_session.as_mut().filter(|_| arrived.group == 0 && !arrived.duplicate)
                {
                    session.on_sound(arrived.at, (ssrc, arrived.timestamp), rate_of_sound);
                }
                came = Some(*arrived);
                tell(observers, now, &Seen::Arrived(*arrived));
            }
        });
        came.iter().for_each(|arrived| self.meter_sound(now, arrived));
    }

    /// For how long input may wait in its socket for what is due next: zero, except of packets of many channels over a transport that answers none,
    /// which come thousands of times a second and are of no use before the next sound is due.
    pub fn input_may_wait(&self) -> Duration {
        let in_short_packets = self.receive.as_ref().is_some_and(ReceiveTrack::in_short_packets);
        let associations = || self.peers.iter().flatten().filter_map(|peer| peer.association);
        let is_bare = |id| self.associations.profile(id).is_some_and(|profile| profile.bare);
        if in_short_packets && associations().all(is_bare) { INPUT_WAITS } else { Duration::ZERO }
    }

    /// When a packet came that is handled at `now`: where it waited by our choice, that is not the path's delay.
    fn came(&self, now: Instant, received_at: Instant) -> Instant {
        if now.since(received_at) <= self.input_may_wait() { received_at } else { now }
    }

    /// A datagram of an unknown source. It may be our sender's RTCP, which over bare RTP may come from a port of its
    /// own: the SSRC tells whose it is (RFC 3550 §11, §5.1), and it may come before any sound.
    pub(super) fn on_unknown(&mut self, now: Instant, bytes: &[u8]) {
        let bare = |profile: &Profile| profile.wire == Wire::Datagram && profile.message_overhead == 0;
        let of_our_sender = |ssrc: &[u8]| {
            let followed = self.receive.as_ref().and_then(ReceiveTrack::followed);
            followed.is_none_or(|followed| *ssrc == followed.to_be_bytes())
        };
        let is_rtcp = self.receive.is_some()
            && self.listening.iter().any(|(_, profile)| bare(profile))
            && classify(bytes) == Some(PacketKind::Rtcp)
            && bytes.get(4..8).is_some_and(of_our_sender);
        match self.single.filter(|_| is_rtcp) {
            Some(at) => self.on_rtcp(now, (at, now), bytes, false, ReportFrom::Elsewhere),
            None => {
                self.unknown_sources += 1;
                self.look_for_framing(bytes);
            }
        }
    }
}

/// How long packets wait at most for what is due. Sound is due sooner, and what it needs is read before it is played; figures of the path are taken
/// from the kernel's time stamps.
const INPUT_WAITS: Duration = Duration::from_millis(1);
