//! RTCP of a session's peers (RFC 3550 §6).

use std::time::Duration;

use antiphon_core::{Instant, PathId, PathStats};
use antiphon_media::packet::VIDEO_CLOCK;
use antiphon_media::rtcp::{RemoteReport, RtcpConfig, RtcpEvent, RtcpSession};

use super::Session;
use super::change::Destinations;
use super::end::State;
use super::programmes::track_of;
use crate::send_track::SendTrack;

/// Where a report came from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReportFrom {
    /// From where the media comes from: an association, and the path that it came on.
    Media(PathId),
    /// From another address.
    Elsewhere,
}

impl Session {
    /// The RTCP of a new peer.
    pub(super) fn new_rtcp(&self, now: Instant) -> RtcpSession {
        self.rtcp_of(now, self.send.as_ref())
    }

    /// The same of one that is sent this track.
    pub(super) fn rtcp_of(&self, now: Instant, track: Option<&SendTrack>) -> RtcpSession {
        let rate = track.map_or(48_000, |track| track.packetiser().config().format.rate());
        let ssrc = track.map_or(self.ssrc, |track| track.packetiser().ssrc());
        let config = RtcpConfig::new(ssrc, &self.config.cname, rate, self.config.epoch);
        let bandwidth = track.filter(|_| self.group).map_or(config.bandwidth, SendTrack::bandwidth);
        let any_source = self.conference.is_some();
        let config = RtcpConfig { group: self.group, any_source, bandwidth, ..config };
        let mut rtcp = RtcpSession::new(config, self.config.seed, now);
        for ssrc in track.into_iter().flat_map(SendTrack::ssrcs).skip(1) {
            rtcp.add_source(ssrc);
        }
        // Those of an RTP session of their own are reported there.
        for ssrc in self.video.ssrcs().filter(|_| !self.sends_video_session()) {
            rtcp.add_source_at(ssrc, VIDEO_CLOCK);
        }
        rtcp.tell_playout(self.config.tells);
        rtcp
    }

    /// A compound packet of the peer at `at`, which came at `came`. `from`: a goodbye from elsewhere counts only if the media stops.
    pub(super) fn on_rtcp(
        &mut self,
        now: Instant,
        (at, came): (usize, Instant),
        bytes: &[u8],
        repaired: bool,
        from: ReportFrom,
    ) {
        let Some(peer) = &mut self.peers[at] else { return };
        let (track, receive) = (track_of(&self.send, &self.programmes, peer), &mut self.receive);
        let mut video = self.video.receive_mut();
        let (reports, members, longest_gap) = (&mut peer.reports, &mut peer.members, &mut self.longest_gap);
        let reflected = self.config.reflected.is_some();
        let (mut left, mut collided, mut asked) = (false, false, None);
        let (conference, manager) = (&mut self.conference, &mut self.manager);
        let endpoint = peer.association.and_then(|id| self.associations.endpoint(id));
        let longest = endpoint.map_or(Duration::MAX, |endpoint| longest_round_trip(&endpoint.stats()));
        // The RTCP session checks a whole compound before it reports events of it, and counts broken ones, which change
        // nothing.
        let result = peer.rtcp.handle(came, bytes, repaired, |event| match event {
            RtcpEvent::Report(report) => {
                let group = |track: &SendTrack| track.ssrcs().position(|ssrc| ssrc == report.block.ssrc);
                if let Some(group) = track.and_then(group) {
                    let round_trip = report.round_trip.filter(|time| *time <= longest);
                    if group == 0 {
                        members.on_report(RemoteReport { round_trip, ..report });
                    }
                    // A retransmitted report gives no valid round trip: the previous one is kept.
                    if let Some(before) = reports[group] {
                        *longest_gap = (*longest_gap).max(Some(now.since(before.at)));
                    }
                    let before = reports[group].and_then(|report| report.round_trip);
                    let round_trip = round_trip.or(before);
                    reports[group] = Some(RemoteReport { round_trip, ..report });
                }
            }
            RtcpEvent::Playout { from, delay } => members.on_playout(now, from, delay),
            RtcpEvent::Bye { ssrc } if !reflected => {
                members.on_bye(ssrc);
                manager.on_left(ssrc);
                left = true;
                video.iter_mut().for_each(|video| video.on_bye(ssrc));
                receive.iter_mut().for_each(|track| match from {
                    ReportFrom::Media(_) => track.on_bye(now, ssrc),
                    ReportFrom::Elsewhere => track.on_doubtful_bye(now, ssrc),
                });
                if let (Some(conference), ReportFrom::Media(path)) = (conference.as_mut(), from) {
                    conference.parties.on_bye(now, ssrc, path);
                }
            }
            RtcpEvent::OwnBye { ssrc } if reflected => {
                receive.iter_mut().for_each(|track| track.on_bye(now, ssrc));
            }
            RtcpEvent::Collision => collided = true,
            RtcpEvent::PictureLoss(loss) => asked = Some(loss),
            _ => {}
        });
        peer.members.set_interval(peer.rtcp.receiver_interval(now));
        let delay = peer.members.playout_delay(now).or(peer.playout_delay);
        let told = std::mem::replace(&mut peer.playout_delay, delay) != delay;
        self.report_timers.set(at, peer.rtcp.poll_timeout());
        if told {
            self.judge_delivery(now, at);
        }
        if collided {
            self.on_collision(now);
        }
        if let Some(loss) = asked {
            self.answer_picture_loss(now, at, loss);
        }
        if left {
            self.on_left(now, at);
        }
        if result.is_err() {
            self.on_malformed();
        }
    }

    /// Sends the reports that are due.
    pub(super) fn send_reports(&mut self, now: Instant) {
        if !self.tells_reports() {
            return;
        }
        while let Some(at) = self.report_timers.pop_due(now) {
            let Some(peer) = &mut self.peers[at] else { continue };
            let len = peer.rtcp.poll_report(now, &mut self.report);
            if let (Some(len), Some(_)) = (len, peer.association.filter(|_| peer.connected)) {
                self.send_report(now, at, len, None);
            }
            let next = self.peers[at].as_ref().and_then(|peer| peer.rtcp.poll_timeout());
            self.report_timers.set(at, next);
        }
    }

    /// Sends the first `len` bytes of the report to the peer at `at`, on the stream of a channel group or on the stream
    /// beside the sound.
    pub(super) fn send_report(&mut self, now: Instant, at: usize, len: usize, group: Option<usize>) {
        let Some(peer) = &self.peers[at] else { return };
        let silence = peer.rtcp.receiver_interval(now) * SILENT_INTERVALS;
        if !peer.association.is_none_or(|id| self.associations.may_tell(now, id, len, silence))
            || self.report_apart(now, len)
        {
            return;
        }
        let Some(peer) = &self.peers[at] else { return };
        for id in Destinations::of(peer).ids() {
            if self.associations.may_tell(now, *id, len, silence) {
                self.associations.send_control(now, *id, group, &self.report[..len]);
            }
        }
    }

    /// Whether peers read reports: a reflector does not.
    fn tells_reports(&self) -> bool {
        let state = matches!(self.state, State::Open | State::Draining { .. } | State::Leaving { .. });
        state && self.data.is_none() && self.config.reflected.is_none()
    }

    pub(super) fn next_report(&self) -> Option<Instant> {
        self.report_timers.soonest().filter(|_| self.tells_reports())
    }
}

/// Intervals after which a silent party is sent no reports (RFC 3550 §6.3.5).
const SILENT_INTERVALS: u32 = 5;

/// The longest round trip that is accepted from a report. A longer one was measured on a retransmission that the
/// transport cannot mark as such: SCTP where nothing followed, the kernel's TCP.
fn longest_round_trip(stats: &PathStats) -> Duration {
    stats.answer_time().map_or(Duration::MAX, |time| time + SLACK)
}

/// Below the transports' time-out margins above their round trips, above the time that threads take to wake.
const SLACK: Duration = Duration::from_millis(10);
