//! Reports of pictures that are sent in an RTP session of their own ([`super::video_session`]): theirs alone, since other programs take any
//! report that comes to a port for one of that port's stream.

use antiphon_core::{Event, Instant};
use antiphon_media::packet::VIDEO_CLOCK;
use antiphon_media::rtcp::{RtcpConfig, RtcpEvent, RtcpSession};

use super::video_session::VideoSession;
use super::{Apart, Session};
use crate::associations::AssociationId;

/// The reports of pictures that are sent.
pub(super) struct SentReports {
    /// `None` before there is a track.
    pub rtcp: Option<Box<RtcpSession>>,
    goodbyes: Vec<Vec<u8>>,
}

impl Session {
    /// Sends pictures in an RTP session of their own, to a program that is not asked whether it takes them, over what
    /// [`Self::call_apart`] calls. Call it before there are tracks of pictures.
    pub fn set_video_session(&mut self, now: Instant) {
        self.send_apart(now, Apart::Pictures);
        if let Some(sending) = self.apart.sending_mut(Apart::Pictures) {
            sending.reports = Some(SentReports { rtcp: None, goodbyes: Vec::new() });
        }
    }

    /// A track is added: returns whether it is reported in an RTP session of its own.
    pub(super) fn reports_apart(&mut self, ssrc: u32) -> bool {
        let config = RtcpConfig::new(ssrc, &self.config.cname, VIDEO_CLOCK, self.config.epoch);
        let (seed, opened_at) = (self.config.seed ^ u64::from(ssrc), self.opened_at);
        let sending = self.apart.sending_mut(Apart::Pictures);
        let reports = sending.and_then(|sending| sending.reports.as_mut());
        let Some(SentReports { rtcp, .. }) = reports else { return false };
        match rtcp {
            Some(rtcp) => rtcp.add_source(ssrc),
            None => *rtcp = Some(Box::new(RtcpSession::new(config, seed, opened_at))),
        }
        true
    }

    /// Whether pictures are sent in an RTP session of their own.
    pub(super) fn sends_video_session(&self) -> bool {
        self.apart.sending(Apart::Pictures).is_some_and(|sending| sending.reports.is_some())
    }

    /// Reports of pictures, sent or received, in an RTP session of their own.
    pub(super) fn video_reports_mut(&mut self) -> impl Iterator<Item = &mut RtcpSession> {
        let sent = self.apart.reports_mut();
        sent.into_iter().chain(self.video_session.as_mut().map(VideoSession::reports_mut))
    }

    /// An event of the association for pictures. That nobody listens there yet is no reason to stop.
    pub(super) fn on_video_session_event(&mut self, now: Instant, at: usize, event: &Event) {
        let Some(one) = self.peers[at].as_mut().and_then(|peer| peer.apart_mut(Apart::Pictures)) else {
            return;
        };
        if let Event::Connected = event {
            (one.connected, one.accepted) = (true, Some(now));
            self.on_way_apart(now, Apart::Pictures);
        }
    }

    /// A compound packet over an association of the peer at `at`: returns whether it is of the pictures' RTP session. Their receiver's
    /// goodbye ends nothing: the sound goes on.
    pub(super) fn on_report_on_pictures(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        repaired: bool,
        bytes: &[u8],
    ) -> bool {
        let is_for_video = self.peers[at].as_ref().is_some_and(|peer| peer.way(Apart::Pictures) == Some(id));
        let Some(rtcp) = self.apart.reports_mut().filter(|_| is_for_video) else { return false };
        let mut asked = None;
        let result = rtcp.handle(now, bytes, repaired, |event| {
            if let RtcpEvent::PictureLoss(loss) = event {
                asked = Some(loss);
            }
        });
        if let Some(loss) = asked {
            self.answer_picture_loss(now, at, loss);
        }
        if result.is_err() {
            self.on_malformed();
        }
        true
    }

    /// Makes the goodbyes of the pictures.
    pub(super) fn end_video_reports(&mut self, now: Instant) {
        let Some(sending) = self.apart.sending_mut(Apart::Pictures) else { return };
        if let Some(SentReports { rtcp: Some(rtcp), goodbyes }) = &mut sending.reports {
            rtcp.close_each(now, &mut self.report, |_, bytes| goodbyes.push(bytes.to_vec()));
        }
    }

    /// Sends them, behind the last pictures.
    pub(super) fn send_goodbyes_of_pictures(&mut self, now: Instant) {
        let Some(sending) = self.apart.sending(Apart::Pictures) else { return };
        let Some(SentReports { goodbyes, .. }) = &sending.reports else { return };
        for id in self.peers.iter().flatten().filter_map(|peer| peer.way(Apart::Pictures)) {
            goodbyes.iter().for_each(|bytes| self.associations.send_control(now, id, Some(0), bytes));
        }
    }

    /// Sends the reports that are due.
    pub(super) fn send_video_reports(&mut self, now: Instant) {
        let rtcp = self.apart.reports_mut();
        let Some(len) = rtcp.and_then(|rtcp| rtcp.poll_report(now, &mut self.report)) else { return };
        for id in self.peers.iter().flatten().filter_map(|peer| peer.way(Apart::Pictures)) {
            self.associations.send_control(now, id, None, &self.report[..len]);
        }
    }
}
