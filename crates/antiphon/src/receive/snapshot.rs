//! The media thread's snapshots of a stream being received, and notices as text.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, Ppm};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{ChannelGroups, SourceCounters, StreamFormat};
use antiphon_net::Lines;
use antiphon_session::{Notice, ReceiveTrack, ReceiveTrackCounters, Session};

use super::ReceiveStatus;
use crate::groups::{MOST_GROUPS, ReceiveGroup, channels_label};
use crate::live::{LiveFigures, Look, PeakMeter};

/// A notice as a sentence for the user.
pub(super) fn describe_notice(notice: Notice) -> String {
    match notice {
        Notice::Began(format, sample) => format!("sound begins: {format}, {}", sample.name()),
        Notice::NewStream { ssrc } => {
            format!("the sender has restarted, or another one has taken over (SSRC {ssrc:08x})")
        }
        Notice::UnknownSource { ssrc } => {
            format!("another sender (SSRC {ssrc:08x}) also sends here; its packets are ignored")
        }
        Notice::OtherFormat(format, sample) => format!(
            "the sender changed to {format}, {}, which this sink cannot follow: start receiving again",
            sample.name()
        ),
        Notice::UnknownFormat { payload_type } => format!(
            "packets of payload type {payload_type} do not say what they carry: give the sender's SDP with --sdp FILE, \
             or --format such as l16/48000/2"
        ),
        Notice::OtherFraming { ours } => ours.mismatch().into(),
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
pub(super) struct Snapshot {
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
    pub look: Look,
    pub notice: Option<Notice>,
}

impl Snapshot {
    pub fn of(session: &mut Session, now: Instant, meter: &PeakMeter) -> Self {
        let notice = session.receive_track_mut().and_then(ReceiveTrack::poll_notice);
        let jitter = session.peers().flat_map(|peer| peer.rtcp().receptions());
        let jitter = jitter.map(|(_, reception)| reception.jitter()).max();
        let unknown_sources = session.unknown_sources();
        let track = session.receive_track().expect("a session that receives has a track");
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
            look: Look::new(now, meter, MediaTime::new(track.playout_level(), rate), track.counters().bytes),
            notice,
        }
    }

    /// Also where the sender is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        Snapshot { look: self.look.with_peer(session, lines), ..self }
    }

    /// The figures, but for the live ones.
    pub fn status(&self, latency: Option<Duration>) -> ReceiveStatus {
        // Before the stream begins nothing was played, lost or late: zeros are correct.
        let playout = self.playout.unwrap_or_default();
        let group = |(channels, Group { lost, late, concealed }): (std::ops::Range<usize>, Group)| {
            ReceiveGroup { channels: channels_label(&channels), lost, late, concealed }
        };
        ReceiveStatus {
            played_s: MediaTime::new(self.played_frames, self.rate).duration().as_secs_f64(),
            packets_received: self.counters.packets,
            lost: playout.lost,
            late: playout.late,
            duplicate: self.counters.duplicates + playout.duplicate,
            reordered: playout.reordered,
            concealed: playout.concealments,
            unknown_sources: self.sources.unknown_sources + self.unknown_sources,
            malformed: self.counters.malformed,
            jitter_rfc3550_ms: self.jitter.map(|(jitter, rate)| f64::from(jitter) * 1e3 / f64::from(rate)),
            drift_ppm: self.drift.map(|drift| drift.0),
            latency_ms: latency.map(|latency| latency.as_secs_f64() * 1e3),
            live: LiveFigures::default(),
            groups: self
                .divided
                .map_or_else(Vec::new, |groups| groups.ranges().zip(self.groups).map(group).collect()),
        }
    }
}
