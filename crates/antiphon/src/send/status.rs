//! State of a stream that is sent: what the media thread shows of it, and what users see.

use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime};
use antiphon_media::ChannelGroups;
use antiphon_media::rtcp::{RemoteReport, ReportBlock};
use antiphon_net::Lines;
use antiphon_session::{Member, PeerEnd, PlayoutDelay, SendTrack, SenderCounters, Session};

use crate::groups::{MOST_GROUPS, SendGroup, channels_label};
use crate::live::{LiveFigures, Look, PeakMeter};

/// State of a stream being sent; reported about ten times a second.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct SendStatus {
    /// Duration of sound sent so far.
    pub sent_s: f64,
    /// Duration of all sound, where known.
    pub total_s: Option<f64>,
    /// Packets handed to the transport.
    pub packets_sent: u64,
    /// Packets that expired in the send queue.
    pub expired: u64,
    /// Packets that the transport refused.
    pub refused: u64,
    /// Packets to a recording that were sent again after a break of the connection.
    pub repeated: u64,
    /// Packets that a recording has not confirmed yet; where it confirms nothing, those that the transport has not delivered.
    pub unconfirmed: u64,
    /// Packets to a recording that could not be kept until they were confirmed: they are missing there.
    pub dropped: u64,
    /// Milliseconds during which the source had no block in time.
    pub starved: u64,
    /// Round trip according to the receiver's reports, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Loss according to the receiver's reports, in percent of the last interval; of several channel groups the mean.
    pub remote_loss_percent: Option<f64>,
    /// Jitter according to the receiver's reports (RFC 3550), in milliseconds; of several channel groups the worst.
    pub remote_jitter_ms: Option<f64>,
    /// How old the receiver's last report is.
    #[serde(skip)]
    pub report_age: Option<Duration>,
    /// Receivers that have reported: more than one of a multicast group.
    pub members: u64,
    /// Of the members of a group, the highest loss that one has reported last, in percent.
    pub worst_loss_percent: Option<f64>,
    /// Playout delay that the receiver reports, in milliseconds; `None` before it has, and for a recording.
    pub remote_latency_ms: Option<f64>,
    /// Of the last second; at the end, of the whole stream.
    #[serde(flatten)]
    pub live: LiveFigures,
    /// The receiver's reports on each channel group; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SendGroup>,
}

/// A member of a multicast group, as its last report shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendMember {
    /// Its SSRC, in hexadecimal.
    pub ssrc: String,
    /// Packets that it has not received, in all.
    pub lost: i32,
    /// Its loss in the last interval between reports, in percent.
    pub loss_percent: f64,
    /// Its jitter (RFC 3550), in milliseconds.
    pub jitter_ms: f64,
    /// The round trip to it, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Its playout delay, in milliseconds; none if it has told none, or records.
    pub playout_delay_ms: Option<f64>,
}

/// Loss in an interval between reports, in percent (RFC 3550 §6.4.1: in 256ths).
fn percent(fraction_lost: u8) -> f64 {
    f64::from(fraction_lost) / 2.56
}

fn millis(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// A playout delay in milliseconds; none before it was reported, and for a recording.
fn delay_ms(told: Option<PlayoutDelay>) -> Option<f64> {
    match told {
        Some(PlayoutDelay::Of(delay)) => Some(millis(delay)),
        Some(PlayoutDelay::Unbounded) | None => None,
    }
}

/// The members of a group; none for a single receiver.
pub(super) fn members(session: &Session, rate: u32) -> Vec<SendMember> {
    let members = session.members();
    if members.len() < 2 {
        return Vec::new();
    }
    let one = |member: &Member| {
        let RemoteReport { block, round_trip, .. } = member.report?;
        Some(SendMember {
            ssrc: format!("{:08x}", member.ssrc),
            lost: block.cumulative_lost,
            loss_percent: percent(block.fraction_lost),
            jitter_ms: f64::from(block.jitter) * 1e3 / f64::from(rate),
            rtt_ms: round_trip.map(millis),
            playout_delay_ms: delay_ms(member.playout_delay),
        })
    };
    members.iter().filter_map(one).collect()
}

/// Snapshot of the sending session.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    pub position: u64,
    pub counters: SenderCounters,
    pub report: Option<RemoteReport>,
    /// The last report on each channel group.
    blocks: [Option<ReportBlock>; MOST_GROUPS],
    pub unanswered: Option<BrokenReason>,
    /// When it was taken.
    now: Instant,
    /// Members of a group that have not left; of a single receiver 1.
    pub members: u64,
    /// The highest loss that a member of a group has reported last, in 256ths.
    worst: Option<u8>,
    /// Playout delay that the receiver reports.
    pub told: Option<PlayoutDelay>,
    /// Why the stream ended, if neither by its own end nor by ours.
    pub end: Option<PeerEnd>,
    /// Why the receiver cannot be reached now.
    pub broken: Option<BrokenReason>,
    /// Whether nothing came from a receiver whose transport answers.
    pub unheard: bool,
    /// Whether nothing came any more since the end.
    pub silent_since_end: bool,
    /// How long before the end the last report came.
    pub silence: Option<Duration>,
    pub look: Look,
}

impl Snapshot {
    pub fn of(session: &mut Session, now: Instant, meter: &PeakMeter) -> Self {
        let mut blocks = [None; MOST_GROUPS];
        for (block, report) in blocks.iter_mut().zip(session.reports()) {
            *block = report.map(|report| report.block);
        }
        let track = session.send_track();
        let counters = session.sent();
        // Packets of all channel groups carry the same time.
        let waiting = |track: &SendTrack| {
            let (one, groups) = (track.packetiser(), track.ssrcs().count().max(1) as u64);
            let frames = session.unsettled() * one.packet_frames() as u64 / groups;
            MediaTime::new(frames, one.position().rate)
        };
        let buffered = track.map_or(MediaTime::new(0, 48_000), waiting);
        let present = || session.members().iter().filter(|member| !member.left);
        let reports = present().filter_map(|member| member.report);
        let worst = reports.map(|report| report.block.fraction_lost).max();
        Snapshot {
            told: session.told_delay(),
            end: session.peer_end(),
            broken: session.broken(),
            unheard: session.is_unheard(),
            silent_since_end: session.is_silent_since_end(),
            silence: session.silence_at_end(),
            look: Look::new(now, meter, buffered, counters.peers.accepted_bytes),
            position: track.map_or(0, |track| track.packetiser().position().frames),
            counters,
            report: session.last_report(),
            blocks,
            unanswered: session.never_answered(),
            now,
            members: present().count() as u64,
            worst: worst.filter(|_| present().count() > 1),
        }
    }

    /// Also where the receiver is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        Snapshot { look: self.look.with_peer(session, lines), ..self }
    }

    /// The figures, but for the live ones.
    pub fn status(&self, rate: u32, total_s: Option<f64>, groups: ChannelGroups) -> SendStatus {
        let percent_of = |block: ReportBlock| percent(block.fraction_lost);
        let told = || self.blocks.iter().flatten();
        let jitter = told().map(|block| block.jitter).max();
        let group = |(channels, block): (std::ops::Range<usize>, &Option<ReportBlock>)| SendGroup {
            channels: channels_label(&channels),
            remote_loss_percent: block.map(percent_of),
            remote_lost: block.map(|block| block.cumulative_lost),
        };
        let divided = Some(groups).filter(|groups| groups.count() > 1);
        SendStatus {
            sent_s: MediaTime::new(self.position, rate).duration().as_secs_f64(),
            total_s,
            packets_sent: self.counters.peers.accepted,
            expired: self.counters.peers.expired,
            refused: self.counters.peers.refused,
            repeated: self.counters.peers.repeated,
            unconfirmed: self.counters.peers.unconfirmed,
            dropped: self.counters.peers.dropped,
            starved: self.counters.track.starved,
            rtt_ms: self.report.and_then(|report| report.round_trip).map(millis),
            remote_loss_percent: (told().count() > 0)
                .then(|| told().map(|block| percent_of(*block)).sum::<f64>() / told().count() as f64),
            report_age: self.report.map(|report| self.now.since(report.at)),
            members: self.members,
            worst_loss_percent: self.worst.map(percent),
            remote_jitter_ms: jitter.map(|jitter| f64::from(jitter) * 1e3 / f64::from(rate)),
            remote_latency_ms: delay_ms(self.told),
            live: LiveFigures::default(),
            groups: divided.map_or_else(Vec::new, |g| g.ranges().zip(&self.blocks).map(group).collect()),
        }
    }
}
