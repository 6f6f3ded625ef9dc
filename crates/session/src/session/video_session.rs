//! Pictures in an RTP session of their own beside that of the sound, each with its port, reports and goodbyes (RFC 3550 §5.2), as other
//! programs have them and SDP describes them.
//!
//! Nothing of ours is asked of the other end: no token, no arrivals. A sender sends to an address that it was told ([`super::video_reports`] beside
//! [`super::apart`]). A receiver takes what comes under the payload type that it was told, from one address at a time; where each
//! picture belongs it knows by the sender's reports ([`Tie`]).

use std::time::Duration;

use antiphon_core::{Instant, PathId, Transmit, WireId, sooner};
use antiphon_media::packet::{EncodingName, ExtensionIds, PacketKind, VIDEO_CLOCK, classify, parse_rtp};
use antiphon_media::rtcp::{MAX_REPORT, PlayoutDelay, RtcpConfig, RtcpEvent, RtcpSession};

use super::apart::VideoEnd;
use super::end::State;
use super::{Apart, Session};
use crate::receive_track::ReceiveTrack;
use crate::tie::{Tie, VideoTie};

/// How the packets of another program's pictures are recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoFormat {
    /// The payload format.
    pub encoding: EncodingName,
    /// RTP's number for it.
    pub payload_type: u8,
    /// Under which identifiers packets have header extension elements.
    pub extensions: ExtensionIds,
}

/// Pictures that are received.
pub(super) struct VideoSession {
    format: VideoFormat,
    /// Where RTP comes, and RTCP as well.
    rtp: WireId,
    /// Where RTCP comes if it has a port of its own.
    rtcp: Option<WireId>,
    reports: RtcpSession,
    /// Where the pictures come from, and when they last came.
    from: Option<(PathId, Instant)>,
    /// Where their reports come from.
    reports_from: Option<(WireId, PathId)>,
    /// What came from there, and what was sent there: nobody is sent more, as the address is not proved.
    heard: usize,
    told: usize,
    /// The report that waits to be sent.
    report: Vec<u8>,
    is_ready: bool,
    tie: Tie,
    /// Since when the sound is over.
    over: Option<Instant>,
    /// How long the rest of the pictures is waited for then.
    patience: Duration,
    /// Packets under another payload type.
    other_types: u64,
}

impl VideoSession {
    /// A packet of the sound came.
    pub fn on_sound(&mut self, at: Instant, source: (u32, u32), rate: u32) {
        self.tie.on_sound(at, source, rate);
    }

    /// Reports on pictures that are received.
    pub fn reports_mut(&mut self) -> &mut RtcpSession {
        &mut self.reports
    }

    fn has(&self, wire: WireId) -> bool {
        self.rtp == wire || self.rtcp == Some(wire)
    }

    /// Where to send reports: to where theirs come from, or the pictures.
    fn destination(&self) -> Option<(WireId, PathId)> {
        self.reports_from.or(self.from.map(|(path, _)| (self.rtp, path)))
    }

    /// Another address takes the place of one that has been silent.
    fn follow(&mut self, now: Instant, path: PathId) -> bool {
        if self.from.is_some_and(|(known, last)| known != path && now.since(last) < SILENCE) {
            return false;
        }
        if self.from.is_none_or(|(known, _)| known != path) {
            (self.reports_from, self.heard, self.told) = (None, 0, 0);
        }
        self.from = Some((path, now));
        true
    }

    /// Has the first `len` bytes of `report` sent, if their receiver may get so many.
    fn put(&mut self, report: &[u8]) {
        if self.destination().is_some() && self.told + report.len() <= self.heard {
            self.told += report.len();
            self.report.clear();
            self.report.extend_from_slice(report);
            self.is_ready = true;
        }
    }
}

impl Session {
    /// Receives pictures of another program, in an RTP session of their own, on the wire `rtp`, and their RTCP on that and on `rtcp`. They
    /// go to the sink of [`Self::set_video_sink`].
    pub fn listen_for_video_session(
        &mut self,
        now: Instant,
        format: VideoFormat,
        rtp: WireId,
        rtcp: Option<WireId>,
    ) {
        let config = RtcpConfig::new(self.ssrc, &self.config.cname, VIDEO_CLOCK, self.config.epoch);
        let records = self.config.tells == Some(PlayoutDelay::Unbounded);
        self.video_session = Some(VideoSession {
            format,
            rtp,
            rtcp,
            reports: RtcpSession::new(config, self.config.seed ^ u64::from(VIDEO_CLOCK), now),
            from: None,
            reports_from: None,
            heard: 0,
            told: 0,
            report: Vec::with_capacity(2 * MAX_REPORT),
            is_ready: false,
            tie: Tie::new(if records { REPORTS_COME } else { SHOWN_WITHOUT_REPORTS }),
            over: None,
            patience: if records { SILENCE_OF_A_RECORDING } else { SILENCE_AT_THE_END },
            other_types: 0,
        });
    }

    /// By what received pictures of another program are tied to their sound, once they are.
    pub fn video_tie(&self) -> Option<VideoTie> {
        self.video_session.as_ref()?.tie.by()
    }

    /// Packets that came in place of pictures under another payload type than was told.
    pub fn video_of_other_types(&self) -> u64 {
        self.video_session.as_ref().map_or(0, |session| session.other_types)
    }

    /// What became of the pictures of another program. Many programs say no goodbye.
    pub(super) fn video_session_end(&self) -> Option<VideoEnd> {
        let session = self.video_session.as_ref()?;
        Some(if session.from.is_some() { VideoEnd::Whole } else { VideoEnd::NeverCame })
    }

    /// Looks for sender reports in a datagram on any wire: the first ones come before there is a source that they could belong to.
    pub(super) fn note_sender_reports(&mut self, bytes: &[u8]) {
        if let Some(session) = &mut self.video_session
            && classify(bytes) == Some(PacketKind::Rtcp)
        {
            session.tie.on_compound(bytes);
        }
    }

    /// A datagram: returns whether it came on a wire for pictures.
    pub(super) fn on_video_session(
        &mut self,
        now: Instant,
        (wire, path): (WireId, PathId),
        received_at: Instant,
        bytes: &[u8],
    ) -> bool {
        let Some(session) = self.video_session.as_ref().filter(|session| session.has(wire)) else {
            return false;
        };
        match classify(bytes) {
            Some(PacketKind::Rtcp) => self.on_report_of_pictures(now, (wire, path), bytes),
            Some(PacketKind::Rtp) if session.rtp == wire => {
                self.on_foreign_picture(now, path, received_at, bytes);
            }
            Some(PacketKind::Rtp) | None => self.on_malformed(),
        }
        true
    }

    fn on_foreign_picture(&mut self, now: Instant, path: PathId, received_at: Instant, bytes: &[u8]) {
        let (Some(session), Some(video)) = (&mut self.video_session, self.video.receive_mut()) else {
            return;
        };
        let Ok(view) = parse_rtp(bytes, session.format.extensions) else { return self.on_malformed() };
        if view.payload_type != session.format.payload_type {
            session.other_types += 1;
            return;
        }
        if !session.follow(now, path) {
            video.counters.others += 1;
            return;
        }
        session.heard += bytes.len();
        let sound = self.receive.as_ref().and_then(ReceiveTrack::followed);
        let of_sound = sound.map(|sound| (sound, video.rate_of_sound()));
        let numbers = (view.ssrc, view.timestamp);
        let captured = of_sound.and_then(|sound| session.tie.on_picture(received_at, numbers, sound));
        let told = (session.format.encoding, captured);
        if video.on_foreign(now, (&view, bytes), told, self.receive.as_ref()) {
            let numbers = (view.sequence, view.timestamp);
            session.reports.on_received_at(received_at, view.ssrc, numbers, VIDEO_CLOCK);
        }
    }

    fn on_report_of_pictures(&mut self, now: Instant, (wire, path): (WireId, PathId), bytes: &[u8]) {
        let (Some(session), Some(video)) = (&mut self.video_session, self.video.receive_mut()) else {
            return;
        };
        // Reports come before the first picture, and from a port of their own: the SSRC tells whose they are.
        let is_followed = bytes.get(4..8).is_some_and(|ssrc| video.follows(ssrc));
        if !is_followed {
            return;
        }
        session.reports_from.get_or_insert((wire, path));
        let result = session.reports.handle(now, bytes, false, |event| {
            if let RtcpEvent::Bye { ssrc } = event {
                video.on_bye(ssrc);
            }
        });
        if result.is_err() {
            self.on_malformed();
        }
    }

    /// Sends reports, and asks for a key frame, when it is time.
    pub(super) fn step_video_session(&mut self, now: Instant) {
        if self.state == State::Open {
            self.send_video_reports(now);
        }
        let (Some(session), State::Open) = (&mut self.video_session, self.state) else { return };
        let pictures = self.video.receive_mut().and_then(|video| video.asks_for_key_frame(now));
        // The first question of all is not put off until a report is due.
        let question =
            pictures.and_then(|pictures| session.reports.write_question(now, pictures, &mut self.report));
        let len = question.or_else(|| session.reports.poll_report(now, &mut self.report));
        if let Some(len) = len {
            session.put(&self.report[..len]);
        }
    }

    /// Says goodbye to the sender of the pictures.
    pub(super) fn leave_video_session(&mut self, now: Instant) {
        let Some(session) = &mut self.video_session else { return };
        if let Some(len) = session.reports.close(now, &mut self.report) {
            session.put(&self.report[..len]);
        }
    }

    /// Whether a receiver whose sound is over waits for the rest of the pictures.
    pub(super) fn waits_for_video_session(&mut self, now: Instant) -> bool {
        let has_ended = self.video.has_ended();
        let Some(session) = &mut self.video_session else { return false };
        if has_ended || session.from.is_none() {
            return false;
        }
        session.over.get_or_insert(now);
        session.silent_at().is_some_and(|until| now < until)
    }

    /// When [`Self::step_video_session`] has something to do, or [`Self::waits_for_video_session`] says something else.
    pub(super) fn next_video_session(&self) -> Option<Instant> {
        let sending = self.apart.sending(Apart::Pictures);
        let sent = sending.and_then(|sending| sending.reports.as_ref()?.rtcp.as_ref()?.poll_timeout());
        let received = self.video_session.as_ref();
        let reports = received.and_then(|session| session.reports.poll_timeout());
        let due = sooner(sooner(sent, reports), received.and_then(VideoSession::silent_at));
        due.filter(|_| self.state == State::Open)
    }

    pub(super) fn poll_video_session(&mut self) -> Option<WireId> {
        let session = self.video_session.as_mut()?;
        let (wire, _) = session.destination()?;
        std::mem::take(&mut session.is_ready).then_some(wire)
    }

    pub(super) fn transmit_for_video(&mut self, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let session = self.video_session.as_mut().filter(|session| !session.report.is_empty())?;
        let (_, path) = session.destination().filter(|(to, _)| *to == wire)?;
        let len = session.report.len();
        buf.get_mut(..len)?.copy_from_slice(&session.report);
        session.report.clear();
        Some(Transmit { path, len })
    }

    pub(super) fn knows_video(&self, wire: WireId, path: PathId) -> bool {
        let session = self.video_session.as_ref().filter(|session| session.has(wire));
        session.is_some_and(|session| {
            session.reports_from == Some((wire, path))
                || wire == session.rtp && session.from.is_some_and(|(known, _)| known == path)
        })
    }
}

impl VideoSession {
    /// Until when the rest of the pictures is waited for.
    fn silent_at(&self) -> Option<Instant> {
        let (over, (_, last)) = self.over.zip(self.from)?;
        Some(last.max(over) + self.patience)
    }
}

/// Silence after which pictures from another address take the place of those that were followed.
const SILENCE: Duration = Duration::from_secs(1);
/// By then a sender has told its clocks: reports come every 5 s (RFC 3550 §6.2), and a recording can wait.
const REPORTS_COME: Duration = Duration::from_secs(6);
/// A viewer cannot: many programs begin with a report.
const SHOWN_WITHOUT_REPORTS: Duration = Duration::from_millis(300);
/// How long a recording waits for the rest of the pictures, of a sender that may say no goodbye, and how long a player does.
const SILENCE_OF_A_RECORDING: Duration = Duration::from_secs(2);
const SILENCE_AT_THE_END: Duration = Duration::from_millis(500);
