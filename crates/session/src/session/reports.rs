//! RTCP of a session's peers (RFC 3550 §6).

use std::time::Duration;

use antiphon_core::{Instant, PathStats};
use antiphon_media::rtcp::{RemoteReport, RtcpConfig, RtcpEvent, RtcpSession};

use super::Session;
use super::change::Destinations;
use super::end::State;
use crate::send_track::SendTrack;

impl Session {
    /// The RTCP of a new peer.
    pub(super) fn new_rtcp(&self, now: Instant) -> RtcpSession {
        let rate = self.send.as_ref().map_or(48_000, |track| track.packetiser().config().format.rate());
        let config = RtcpConfig::new(self.ssrc, &self.config.cname, rate, self.config.epoch);
        let bandwidth =
            self.send.as_ref().filter(|_| self.group).map_or(config.bandwidth, SendTrack::bandwidth);
        let config = RtcpConfig { group: self.group, bandwidth, ..config };
        let mut rtcp = RtcpSession::new(config, self.config.seed, now);
        for ssrc in self.send.iter().flat_map(SendTrack::ssrcs).skip(1) {
            rtcp.add_source(ssrc);
        }
        rtcp.tell_playout(self.config.tells);
        rtcp
    }

    /// A compound packet of the peer at `at`.
    /// `from_media`: it came from where the media comes from; from elsewhere a goodbye counts only if the media stops.
    pub(super) fn on_rtcp(
        &mut self,
        now: Instant,
        at: usize,
        bytes: &[u8],
        repaired: bool,
        from_media: bool,
    ) {
        let Some(peer) = &mut self.peers[at] else { return };
        let (send, receive) = (&self.send, &mut self.receive);
        let (reports, members, longest_gap) = (&mut peer.reports, &mut peer.members, &mut self.longest_gap);
        let reflected = self.config.reflected.is_some();
        let (mut left, mut collided) = (false, false);
        let endpoint = peer.association.and_then(|id| self.associations.endpoint(id));
        let longest = endpoint.map_or(Duration::MAX, |endpoint| longest_round_trip(&endpoint.stats()));
        // The RTCP session checks a whole compound before it reports events of it, and counts broken ones, which change
        // nothing.
        let result = peer.rtcp.handle(now, bytes, repaired, |event| match event {
            RtcpEvent::Report(report) => {
                let group = |track: &SendTrack| track.ssrcs().position(|ssrc| ssrc == report.block.ssrc);
                if let Some(group) = send.as_ref().and_then(group) {
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
                left = true;
                receive.iter_mut().for_each(|track| match from_media {
                    true => track.on_bye(now, ssrc),
                    false => track.on_doubtful_bye(now, ssrc),
                });
            }
            RtcpEvent::OwnBye { ssrc } if reflected => {
                receive.iter_mut().for_each(|track| track.on_bye(now, ssrc));
            }
            RtcpEvent::Collision => collided = true,
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
    let answer = |srtt| srtt + 4 * stats.rttvar.unwrap_or_default() + SLACK;
    stats.srtt.map_or(Duration::MAX, answer)
}

/// Below the transports' time-out margins above their round trips, above the time that threads take to wake.
const SLACK: Duration = Duration::from_millis(10);
