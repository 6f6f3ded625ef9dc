//! State of a stream that is sent: what the media thread shows of it, and what users see.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime};
use antiphon_media::ChannelGroups;
use antiphon_media::rtcp::{MOST_PROGRAMMES, RemoteReport, ReportBlock};
use antiphon_net::Lines;
use antiphon_session::{
    Joined, MOST_VIDEO_TRACKS, Member, PathFigures, PeerEnd, PlayoutDelay, SendTrack, SenderCounters,
    ServedCounters, Session, Uncounted, VideoTrackCounters,
};

use super::ANSWER_PATIENCE;
use super::members::{SendMember, one_member};
use super::receivers::{Placed, Places, SendReceiver};
use super::watch::{Verdict, Verdicts, Who};
use crate::data::{DataSent, DataSnapshot};
use crate::device::DeviceStatus;
use crate::groups::{MOST_GROUPS, SendGroup, channels_label};
use crate::live::{LiveFigures, Look, PeakMeter};
use crate::pictures::PicturesSent;

/// A programme that is sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SendProgramme {
    /// Its name.
    pub name: String,
    /// Receivers that get it now.
    pub receivers: usize,
    /// Whether its source has ended.
    pub ended: bool,
}

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
    /// Members of a group that get repairs; `None` before the first has joined, and where the transport has none.
    pub joined_members: Option<u64>,
    /// Of the members of a group, the highest loss that one has reported last, in percent.
    pub worst_loss_percent: Option<f64>,
    /// The first members of a group that have reported and not left; empty for a single receiver.
    #[serde(skip)]
    pub members_shown: Vec<SendMember>,
    /// Receivers that have called and are there, of a sender that listens; `None` of one that calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receivers: Option<u64>,
    /// The first of them.
    #[serde(skip)]
    pub receivers_shown: Vec<SendReceiver>,
    /// The programmes among which receivers choose; empty where there is no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programmes: Vec<SendProgramme>,
    /// Playout delay that the receiver reports, in milliseconds; `None` before it has, and for a recording.
    pub remote_latency_ms: Option<f64>,
    /// Of the last second; at the end, of the whole stream.
    #[serde(flatten)]
    pub live: LiveFigures,
    /// Whether the backup is sent in place of the source; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// The receiver's reports on each channel group; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SendGroup>,
    /// The sound server that captures it; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceStatus>,
    /// The pictures beside the sound; `None` without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PicturesSent>,
    /// The further tracks of pictures, in their order; empty without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_pictures: Vec<PicturesSent>,
    /// Each of the data beside the sound; empty without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataSent>,
}

/// Loss in an interval between reports, in percent (RFC 3550 §6.4.1: in 256ths).
pub(super) fn percent(fraction_lost: u8) -> f64 {
    f64::from(fraction_lost) / 2.56
}

pub(super) fn millis(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// A playout delay in milliseconds; none before it was reported, and for a recording.
pub(super) fn delay_ms(told: Option<PlayoutDelay>) -> Option<f64> {
    match told {
        Some(PlayoutDelay::Of(delay)) => Some(millis(delay)),
        Some(PlayoutDelay::Unbounded) | None => None,
    }
}

/// Members of a group that a snapshot has room for: as many as a display shows.
const MOST_SHOWN: usize = 16;

/// Snapshot of the sending session.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    pub position: u64,
    pub counters: SenderCounters,
    pub report: Option<RemoteReport>,
    /// The last report on each channel group.
    blocks: [Option<ReportBlock>; MOST_GROUPS],
    pub unanswered: Option<BrokenReason>,
    /// The same, if an error shows it that came after [`ANSWER_PATIENCE`].
    pub absent: Option<BrokenReason>,
    /// When it was taken.
    now: Instant,
    /// Members of a group that have not left; of a single receiver 1.
    pub members: u64,
    /// Whether it is sent to a multicast group.
    pub to_group: bool,
    /// Who gets repairs of a group.
    pub joined: Joined,
    /// The highest loss that a member of a group has reported last, in 256ths.
    worst: Option<u8>,
    /// The first of its members that are present.
    shown: [Option<Member>; MOST_SHOWN],
    /// What became of those who have called a sender that listens.
    pub served: Option<ServedCounters>,
    /// New verdicts on receivers of TV sound, and where these are.
    verdicts: [Option<(Who, Verdict, Option<SocketAddr>)>; 4],
    /// The first of the receivers that have called and are there.
    receivers: [Option<Placed>; MOST_SHOWN],
    /// Of each programme how many receivers get it, and whether it has ended.
    programmes: [(usize, bool); MOST_PROGRAMMES],
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
    /// Of the pictures beside the sound, and of the path to their receiver.
    pictures: Option<(VideoTrackCounters, PathFigures)>,
    /// Of their further tracks.
    further_pictures: [Option<VideoTrackCounters>; MOST_VIDEO_TRACKS - 1],
    /// Of pictures with a transport of their own: how many were sent when that could not carry the rest.
    pub pictures_cut_short: Option<u64>,
    /// Of the data beside the sound.
    pub data: DataSnapshot,
    pub look: Look,
}

impl Snapshot {
    /// Members of a group that slow its pictures no longer.
    pub fn uncounted(&self) -> Uncounted {
        self.pictures.map_or_else(Uncounted::default, |(_, path)| path.uncounted)
    }

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
        let several = present().count() > 1;
        let mut shown = [None; MOST_SHOWN];
        let reported = present().filter(|member| several && member.report.is_some());
        shown.iter_mut().zip(reported).for_each(|(shown, member)| *shown = Some(*member));
        Snapshot {
            served: None,
            programmes: [(0, false); MOST_PROGRAMMES],
            verdicts: [None; 4],
            receivers: [None; MOST_SHOWN],
            shown,
            told: session.told_delay(),
            end: session.peer_end(),
            broken: session.broken(),
            unheard: session.is_unheard(),
            silent_since_end: session.is_silent_since_end(),
            silence: session.silence_at_end(),
            pictures: session.video_sent().next().map(|counted| (counted, session.path_figures())),
            further_pictures: further_pictures(session),
            pictures_cut_short: session
                .is_video_cut_short()
                .then(|| session.video_sent().map(|counted| counted.units).sum()),
            data: DataSnapshot::of(session),
            look: Look::new(now, meter, buffered, counters.peers.accepted_bytes),
            position: track.map_or(0, |track| track.packetiser().position().frames),
            counters,
            report: session.last_report(),
            blocks,
            unanswered: session.never_answered(),
            absent: session.absent_since(Instant::ZERO + ANSWER_PATIENCE),
            now,
            members: present().count() as u64,
            to_group: session.is_to_group(),
            joined: session.joined(),
            worst: worst.filter(|_| several),
        }
    }

    /// Also where the receiver is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        Snapshot { look: self.look.with_peer(session, lines), ..self }
    }

    /// Also who has called.
    pub fn with_receivers(mut self, session: &Session, places: &Places) -> Self {
        let present = places.all(session).filter(Placed::is_there);
        self.receivers.iter_mut().zip(present).for_each(|(shown, placed)| *shown = Some(placed));
        self.served = Some(session.served());
        for (shown, one) in self.programmes.iter_mut().zip(session.served_programmes()) {
            *shown = (one.receivers, one.ended);
        }
        // What became of one of them is no failure of the stream.
        (self.unanswered, self.absent, self.broken, self.end) = (None, None, None, None);
        let present = session.receivers().filter(|receiver| receiver.gone.is_none());
        let mut lost =
            present.filter_map(|receiver| receiver.member?.report).map(|one| one.block.fraction_lost);
        (self.members, self.worst) = (0, None);
        for fraction in &mut lost {
            self.members += 1;
            self.worst = self.worst.max(Some(fraction));
        }
        self
    }

    /// Also what is new of receivers of TV sound.
    pub fn with_verdicts(mut self, verdicts: Option<Verdicts>, places: &Places) -> Self {
        let verdicts = verdicts.into_iter().flatten();
        for (told, verdict) in self.verdicts.iter_mut().zip(verdicts) {
            *told = verdict.map(|(who, verdict)| {
                let place = match who {
                    Who::Receiver(number) => places.of(number),
                    Who::Member(_) => None,
                };
                (who, verdict, place)
            });
        }
        self
    }

    /// Tells what is new of receivers of TV sound.
    pub fn verdicts(&self, notice: &mut dyn FnMut(String)) {
        for (who, verdict, place) in self.verdicts.iter().flatten() {
            let who = match (who, place) {
                (Who::Receiver(number), Some(place)) => format!("receiver {number} ({place})"),
                (Who::Receiver(number), None) => format!("receiver {number}"),
                (Who::Member(ssrc), _) => format!("receiver {ssrc:08x}"),
            };
            notice(verdict.sentence(&who));
        }
    }

    /// The programmes of these names.
    pub fn programmes(&self, names: &[String]) -> Vec<SendProgramme> {
        let figures = self.programmes.iter().zip(names);
        figures
            .map(|((receivers, ended), name)| SendProgramme {
                name: name.clone(),
                receivers: *receivers,
                ended: *ended,
            })
            .collect()
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
        let further = |counted: &VideoTrackCounters| PicturesSent::new(*counted, PathFigures::default());
        let divided = Some(groups).filter(|groups| groups.count() > 1);
        SendStatus {
            sent_s: MediaTime::new(self.position, rate).duration().as_secs_f64(),
            total_s,
            packets_sent: self.counters.peers.accepted,
            expired: self.counters.peers.expired,
            refused: self.counters.peers.refused,
            repeated: self.counters.peers.repeated,
            unconfirmed: self.counters.peers.unconfirmed,
            pictures: self.pictures.map(|(counted, path)| PicturesSent::new(counted, path)),
            further_pictures: self.further_pictures.iter().flatten().map(further).collect(),
            data: Vec::new(),
            dropped: self.counters.peers.dropped,
            starved: self.counters.track.starved,
            rtt_ms: self.report.and_then(|report| report.round_trip).map(millis),
            remote_loss_percent: (told().count() > 0)
                .then(|| told().map(|block| percent_of(*block)).sum::<f64>() / told().count() as f64),
            report_age: self.report.map(|report| self.now.since(report.at)),
            members: self.members,
            members_shown: self
                .shown
                .iter()
                .flatten()
                .filter_map(|member| one_member(member, rate))
                .collect(),
            receivers: self.served.map(|served| served.present),
            receivers_shown: self.receivers.iter().flatten().map(|placed| placed.figures(rate)).collect(),
            programmes: Vec::new(),
            joined_members: (self.joined.joined > 0).then_some(self.joined.members),
            worst_loss_percent: self.worst.map(percent),
            remote_jitter_ms: jitter.map(|jitter| f64::from(jitter) * 1e3 / f64::from(rate)),
            remote_latency_ms: delay_ms(self.told),
            live: LiveFigures::default(),
            device: None,
            backup: None,
            groups: divided.map_or_else(Vec::new, |g| g.ranges().zip(&self.blocks).map(group).collect()),
        }
    }
}

fn further_pictures(session: &Session) -> [Option<VideoTrackCounters>; MOST_VIDEO_TRACKS - 1] {
    let mut further = [None; MOST_VIDEO_TRACKS - 1];
    further.iter_mut().zip(session.video_sent().skip(1)).for_each(|(place, sent)| *place = Some(sent));
    further
}
