//! The media thread's snapshots of a stream being received, and notices as text.

use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime, Ppm};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{ChannelGroups, SourceCounters, StreamFormat};
use antiphon_net::Lines;
use antiphon_session::{
    AdaptedFigures, GapsBegun, InStep, LATENESS, Notice, Parties, PeerEnd, ReceiveTrack,
    ReceiveTrackCounters, Session, VideoEnd, VideoTie,
};

use super::delay::{AdaptedDelay, TradeOff, millis};
use super::gap::Gap;
use super::{ReceiveStatus, StepStatus};
use crate::Latency;
use crate::groups::{MOST_GROUPS, ReceiveGroup, channels_label};
use crate::live::{LiveFigures, Look, PeakMeter};
use crate::send::ANSWER_PATIENCE;

/// A notice as a sentence for the user.
pub(crate) fn describe_notice(notice: Notice) -> String {
    match notice {
        Notice::Began(format, coding) => format!("sound begins: {format}, {}", coding.name()),
        Notice::NewStream { ssrc } => {
            format!("the sender has restarted, or another one has taken over (SSRC {ssrc:08x})")
        }
        Notice::UnknownSource { ssrc } => {
            format!("another sender (SSRC {ssrc:08x}) also sends here; its packets are ignored")
        }
        Notice::OtherFormat(format, coding) => format!(
            "the sender changed to {format}, {}, which this sink cannot follow: start receiving again",
            coding.name()
        ),
        Notice::UnknownFormat { payload_type } => format!(
            "packets of payload type {payload_type} do not say what they carry: give the sender's SDP with --sdp FILE, \
             or --format such as l16/48000/2"
        ),
        Notice::OtherFraming { ours } => ours.mismatch().into(),
        Notice::Pictures => {
            "the sender sends pictures as well, which are not received: record both into one file, NAME.mkv"
                .into()
        }
        Notice::Bye => "the sender ended the stream".into(),
    }
}

/// Figures of a channel group.
#[derive(Clone, Copy, Default)]
struct Group {
    lost: u64,
    late: u64,
    concealed: u64,
}

/// Snapshot of the receiving session.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    playout: Option<PlayoutCounters>,
    /// Sample frames played of the channel group of which most were played.
    played_frames: u64,
    groups: [Group; MOST_GROUPS],
    divided: Option<ChannelGroups>,
    counters: ReceiveTrackCounters,
    sources: SourceCounters,
    unknown_sources: u64,
    jitter: Option<(u32, u32)>,
    rate: u32,
    drift: Option<Ppm>,
    adapted: Option<AdaptedFigures>,
    lateness: [Option<Duration>; LATENESS.len()],
    gaps: GapsBegun,
    pub look: Look,
    pub notice: Option<Notice>,
    /// Why a sender that is called cannot be reached, if it never answered and an error after [`ANSWER_PATIENCE`] shows it.
    pub unanswered: Option<BrokenReason>,
    /// How it stands to its sender's clock.
    step: Option<InStep>,
    /// Why a sender that was called is gone, if it said no goodbye.
    pub end: Option<PeerEnd>,
    /// Of pictures that have a transport of their own.
    pub video_end: Option<VideoEnd>,
    /// Of pictures of another program.
    pub video_tie: Option<VideoTie>,
    pub video_of_other_types: u64,
}

impl Snapshot {
    pub fn of(session: &mut Session, now: Instant, meter: &PeakMeter) -> Self {
        if let Some(parties) = session.parties() {
            return Self::of_parties(session, parties, now, meter);
        }
        let notice = session.receive_track_mut().and_then(ReceiveTrack::poll_notice);
        let unknown_sources = session.unknown_sources();
        let track = session.receive_track().expect("a session that receives has a track");
        // Pictures have a clock of their own.
        let receptions = session.peers().flat_map(|peer| peer.rtcp().receptions());
        let sound = receptions.filter(|(ssrc, _)| track.is_of(*ssrc));
        let jitter = sound.map(|(_, reception)| reception.jitter()).max();
        let rate = track.format().map_or(48_000, StreamFormat::rate);
        let (mut groups, mut played_frames) = ([Group::default(); MOST_GROUPS], 0);
        for (group, figures) in groups.iter_mut().zip(track.groups()) {
            let PlayoutCounters { lost, late, concealments, .. } = figures.playout;
            *group = Group { lost, late, concealed: concealments };
            played_frames = played_frames.max(figures.playout.played_frames);
        }
        Snapshot {
            played_frames,
            groups,
            divided: track.division().filter(|groups| groups.count() > 1),
            playout: track.playout(),
            counters: track.counters(),
            sources: track.sources(),
            unknown_sources,
            jitter: jitter.map(|worst| (worst, rate)),
            rate,
            drift: track.drift(),
            adapted: track.adapted(),
            lateness: track.lateness(),
            gaps: track.gaps_begun(),
            look: Look::new(now, meter, MediaTime::new(track.playout_level(), rate), track.counters().bytes),
            notice,
            step: session.in_step(now),
            unanswered: session.absent_since(Instant::ZERO + ANSWER_PATIENCE),
            end: session.peer_end(),
            video_end: session.video_end(),
            video_tie: session.video_tie(),
            video_of_other_types: session.video_of_other_types(),
        }
    }

    /// Of all parties of a group together.
    fn of_parties(session: &Session, parties: &Parties, now: Instant, meter: &PeakMeter) -> Self {
        let frames = |time: Duration| (time.as_nanos() * u128::from(PARTIES_RATE) / 1_000_000_000) as u64;
        let jitters =
            session.receptions().filter_map(|(ssrc, one)| Some((one.jitter(), parties.rate_of(ssrc)?)));
        let (counters, tracks) = (parties.counters(), parties.track_counters());
        Snapshot {
            played_frames: frames(parties.played()),
            groups: [Group::default(); MOST_GROUPS],
            divided: None,
            playout: Some(parties.playout()),
            counters: tracks,
            sources: SourceCounters { unknown_sources: counters.refused, ..SourceCounters::default() },
            unknown_sources: session.unknown_sources(),
            jitter: jitters.max_by_key(|(jitter, rate)| u64::from(*jitter) * 1_000_000 / u64::from(*rate)),
            rate: PARTIES_RATE,
            drift: None,
            adapted: parties.longest_delay(),
            lateness: [None; LATENESS.len()],
            gaps: GapsBegun::default(),
            look: Look::new(
                now,
                meter,
                MediaTime::new(frames(parties.fullest()), PARTIES_RATE),
                tracks.bytes,
            ),
            notice: None,
            step: None,
            unanswered: None,
            end: None,
            video_end: None,
            video_tie: None,
            video_of_other_types: 0,
        }
    }

    /// Also where the sender is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        Snapshot { look: self.look.with_peer(session, lines), ..self }
    }

    /// The figures, but for the live ones.
    pub fn status(&self, latency: Option<Latency>) -> ReceiveStatus {
        // Before the stream begins nothing was played, lost or late: zeros are correct.
        let playout = self.playout.unwrap_or_default();
        let group = |(channels, Group { lost, late, concealed }): (std::ops::Range<usize>, Group)| {
            ReceiveGroup { channels: channels_label(&channels), lost, late, concealed }
        };
        ReceiveStatus {
            pictures: None,
            further_pictures: Vec::new(),
            data: Vec::new(),
            played_s: MediaTime::new(self.played_frames, self.rate).duration().as_secs_f64(),
            packets_received: self.counters.packets,
            lost: playout.lost,
            late: playout.late,
            duplicate: self.counters.duplicates + playout.duplicate,
            reordered: playout.reordered,
            concealed: playout.concealments,
            repaired: playout.recovered,
            unknown_sources: self.sources.unknown_sources + self.unknown_sources,
            malformed: self.counters.malformed,
            jitter_rfc3550_ms: self.jitter.map(|(jitter, rate)| f64::from(jitter) * 1e3 / f64::from(rate)),
            drift_ppm: self.drift.map(|drift| drift.0),
            latency_ms: latency.map(|latency| match (latency, self.adapted) {
                (Latency::Of(delay), _) => millis(delay),
                (Latency::Auto(_), Some(adapted)) => millis(adapted.in_force),
                // In step it is as long as the sender wishes.
                (Latency::Auto(adapts), None) => {
                    millis(self.step.filter(|step| step.kept).map_or(adapts.start(), |step| step.delay))
                }
            }),
            step: self.step.map(StepStatus::from),
            adapted: self.adapted.map(|figures| AdaptedDelay::new(&figures, self.rate)),
            trade_off: TradeOff::list(&self.lateness),
            gaps: Gap::list(&self.gaps, self.look.at()),
            live: LiveFigures::default(),
            device: None,
            programmes: None,
            groups: self
                .divided
                .map_or_else(Vec::new, |groups| groups.ranges().zip(self.groups).map(group).collect()),
        }
    }
}

/// In which times of parties with several rates are told, in Hz: a multiple of the usual ones.
const PARTIES_RATE: u32 = 7_056_000;
