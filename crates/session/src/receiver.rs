//! Endpoint to sink: packets told apart, one sender followed, buffered, played out in time, reports sent back.

mod figures;
mod types;

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, MediaTime, PathId, Received, Rng};
use antiphon_media::packet::{
    Depacketiser, ExtensionIds, MediaPacket, PacketKind, RtpView, classify, parse_rtp,
};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::rtcp::{RtcpConfig, RtcpEvent, RtcpSession};
use antiphon_media::{Origin, Sink, SourceTracker, Verdict};

pub use types::{GroupFigures, Notice, OpenSink, ReceiveError, ReceiverConfig, ReceiverCounters};

use crate::framing::StreamFraming;
use crate::part::{Formats, Part};
use crate::player::{PULL_FRAMES, Player, Stream};
use crate::station::{send_report, sooner};
use crate::witness::{Passing, Witness};

/// The receiving half of a stream, above the endpoint.
pub struct SoundReceiver {
    config: ReceiverConfig,
    open_sink: OpenSink,
    tracker: SourceTracker,
    stream: Option<Stream>,
    rtcp: RtcpSession,
    notices: Vec<Notice>,
    report: Vec<u8>,
    formats: Formats,
    /// The first packet of a sender of whose format only the payload type tells, until a second one follows it.
    held: Option<Held>,
    /// Packets whose format was not known, since the last stream began.
    unknown_run: u32,
    /// When the sender we follow took leave, until its stragglers had their time.
    leaving: Option<Instant>,
    said_bye: bool,
    /// Since when some of the channel groups have taken leave, and which: bit *n* for group *n*.
    some_left: Option<(Instant, u64)>,
    /// Whether nothing was heard on this connection yet, and it is not the first.
    reconnected: bool,
    /// A stream has begun, and no packet of it has shown its pace.
    is_new: bool,
    /// How long a packet of a stream that has begun lasts, until somebody asks.
    pace: Option<Duration>,
    error: Option<ReceiveError>,
    counters: ReceiverCounters,
    witness: Option<Witness>,
}

/// A packet that waits for the one after it.
struct Held {
    ssrc: u32,
    next: u16,
    received: Received,
    bytes: Box<[u8]>,
}

impl SoundReceiver {
    /// A receiver that opens its sink with `open_sink` when the first packet tells the format.
    pub fn new(config: ReceiverConfig, open_sink: OpenSink, now: Instant) -> Self {
        let ssrc = Rng::fork(config.seed, "receiver").next_u32();
        // The clock rate is set right by the first stream; until then nothing is reported on.
        let rtcp =
            RtcpSession::new(RtcpConfig::new(ssrc, &config.cname, 48_000, config.epoch), config.seed, now);
        SoundReceiver {
            tracker: SourceTracker::new(Some(ssrc), config.silence),
            formats: Formats::new(config.description.as_ref(), config.any_payload_type),
            config,
            open_sink,
            stream: None,
            rtcp,
            notices: Vec::with_capacity(MOST_NOTICES),
            report: vec![0; 1500],
            held: None,
            unknown_run: 0,
            leaving: None,
            said_bye: false,
            some_left: None,
            reconnected: false,
            is_new: false,
            pace: None,
            error: None,
            counters: ReceiverCounters::default(),
            witness: None,
        }
    }

    /// Lets `witness` know of every packet of our sender as it arrived; of one with several channel groups, of the first
    /// one's, whose numbers are in a row.
    pub fn set_witness(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    /// Takes one received frame.
    pub fn on_frame(&mut self, now: Instant, received: Received, bytes: &[u8]) {
        match classify(bytes) {
            Some(PacketKind::Rtcp) => self.on_rtcp(now, bytes),
            Some(PacketKind::Rtp) => match parse_rtp(bytes, ExtensionIds::default()) {
                Ok(view) => self.on_rtp(now, received, &view, bytes),
                Err(_) => self.counters.malformed += 1,
            },
            None => self.counters.malformed += 1,
        }
    }

    fn on_rtcp(&mut self, now: Instant, bytes: &[u8]) {
        let (tracker, mut left) = (&mut self.tracker, 0);
        let result = self.rtcp.handle(now, bytes, |event| {
            let RtcpEvent::Bye { ssrc } = event else { return };
            match tracker.group_of(ssrc) {
                Some(group) => left |= 1 << group,
                // The sender itself, of whose first group nothing has come.
                None => left |= u64::from(tracker.ssrc() == Some(ssrc)),
            }
            if tracker.ssrc() != Some(ssrc) {
                tracker.on_bye(ssrc);
            }
        });
        self.counters.malformed += u64::from(result.is_err());
        if left == 0 || self.said_bye {
            return;
        }
        let (since, before) = self.some_left.unwrap_or((now, 0));
        self.some_left = Some((since, before | left));
        if self.tracker.heard_groups() & !(before | left) == 0 {
            self.begin_leaving(now);
        }
    }

    /// All groups of the sender have taken leave, or those that have not have had their time.
    fn begin_leaving(&mut self, now: Instant) {
        (self.said_bye, self.leaving, self.some_left) = (true, Some(now), None);
        self.notice(Notice::Bye);
    }

    /// The sender has left for good: what waits of it goes out, and whoever comes next is a new stream at once.
    fn finish_leaving(&mut self) {
        if self.leaving.take().is_some() {
            self.forget_source();
            if let Some(stream) = &mut self.stream {
                stream.playout.finish();
            }
        }
    }

    /// Nobody is followed any more: the next sender is a new stream at its first packet.
    pub(crate) fn forget_source(&mut self) {
        if let Some(ssrc) = self.tracker.ssrc() {
            self.tracker.on_bye(ssrc);
        }
    }

    /// The connection beneath is there, `again` if it had broken: then its first sender is ours, the one we knew or
    /// another.
    pub(crate) fn on_connected(&mut self, again: bool) {
        self.reconnected = again;
    }

    /// How long the packets of a stream last that has begun since this was last asked.
    pub(crate) fn takes_pace(&mut self) -> Option<Duration> {
        self.pace.take()
    }

    /// Whether there has been sound.
    pub(crate) fn has_begun(&self) -> bool {
        self.stream.is_some()
    }

    /// What comes is in another framing: an error that ends the stream, or else a notice.
    pub(crate) fn on_foreign_framing(&mut self, ours: StreamFraming, ends: bool) {
        if ends {
            self.error = Some(ReceiveError::OtherFraming { ours });
        } else {
            self.notice(Notice::OtherFraming { ours });
        }
    }

    /// Whether our sender took leave and nobody has followed it.
    pub(crate) fn has_left(&self) -> bool {
        self.said_bye && self.leaving.is_none()
    }

    fn on_rtp(&mut self, now: Instant, received: Received, view: &RtpView<'_>, bytes: &[u8]) {
        let part = self.formats.part_of(view, self.known_part(view.ssrc));
        let sender = part.map_or(view.ssrc, |part| part.origin.sender);
        if self.leaving.is_some() && self.tracker.ssrc() != Some(sender) {
            self.finish_leaving();
        }
        let Some(part) = part else {
            self.counters.unknown_format += 1;
            self.unknown_run += 1;
            if self.unknown_run == UNKNOWN_PATIENCE {
                self.notice(Notice::UnknownFormat { payload_type: view.payload_type });
            }
            return;
        };
        if std::mem::take(&mut self.reconnected) && self.tracker.ssrc() != Some(sender) {
            self.forget_source();
        }
        if self.stream.is_none() && self.formats.is_hearsay(view) {
            let held = self.held.take().filter(|held| held.ssrc == view.ssrc && held.next == view.sequence);
            let Some(held) = held else {
                let (ssrc, next) = (view.ssrc, view.sequence.wrapping_add(1));
                self.held = Some(Held { ssrc, next, received, bytes: bytes.into() });
                return;
            };
            if let Ok(first) = parse_rtp(&held.bytes, ExtensionIds::default()) {
                self.follow(now, held.received, &first, part);
            }
        }
        self.follow(now, received, view, part);
    }

    fn follow(&mut self, now: Instant, received: Received, view: &RtpView<'_>, part: Part) {
        let Part { origin, .. } = part;
        // One association is one path here; SSRCs tell senders behind it apart.
        match self.tracker.on_packet_of(now, origin, PathId::default(), view.sequence) {
            Verdict::Accepted => {}
            Verdict::Resumed => {
                if let Some(stream) = self.stream.as_mut().filter(|stream| stream.groups == part.groups) {
                    stream.restart_group(origin.group);
                }
            }
            Verdict::NewStream => self.begin(now, part),
            // One that took leave and is far off now has begun anew.
            Verdict::Jump if self.leaving.is_some() => {
                self.finish_leaving();
                self.tracker.on_packet_of(now, origin, PathId::default(), view.sequence);
                self.begin(now, part);
            }
            Verdict::Stranger { first: true } => {
                return self.notice(Notice::Stranger { ssrc: origin.sender });
            }
            Verdict::Stranger { .. } | Verdict::Jump | Verdict::Own => return,
        }
        self.counters.packets += 1;
        self.counters.bytes += received.len as u64;
        if let Some(witness) = self.witness.as_mut().filter(|_| origin.group == 0) {
            witness(Passing::arrived(&received, view));
        }
        self.rtcp.on_received(received.received_at, view.ssrc, view.sequence, view.timestamp);
        let Some(stream) = &mut self.stream else { return };
        if stream.format() != (part.format, part.sample) || stream.groups != part.groups {
            self.counters.other_format += 1;
            return;
        }
        match stream.depacketiser.accept_in(origin.group, view) {
            Ok(packet) => {
                if std::mem::take(&mut self.is_new) {
                    let time = MediaTime::new(packet.frames as u64, stream.format().0.rate());
                    self.pace = Some(time.duration() / stream.groups.count() as u32);
                }
                let packet = MediaPacket { recovered: received.repaired, ..packet };
                self.counters.overrun_frames +=
                    stream.insert(origin.group, received.received_at, now, &packet, &mut self.error);
            }
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// The packet as one of the stream we follow, if its SSRC is known to be of that.
    fn known_part(&self, ssrc: u32) -> Option<Part> {
        let stream = self.stream.as_ref()?;
        let (sender, group) = (self.tracker.ssrc()?, self.tracker.group_of(ssrc)?);
        let (groups, (format, sample)) = (stream.groups, stream.format());
        let origin = Origin { ssrc, sender, group, groups: groups.count() };
        Some(Part { origin, groups, format, sample })
    }

    fn begin(&mut self, now: Instant, part: Part) {
        let Part { origin, groups, format, sample } = part;
        (self.said_bye, self.leaving, self.some_left, self.unknown_run) = (false, None, None, 0);
        if let Some(witness) = &mut self.witness {
            witness(Passing::Began { rate: format.rate() });
        }
        self.finish_playout(now);
        self.is_new = true;
        let (config, rtcp) = (&self.config, &mut self.rtcp);
        if let Some(stream) = &mut self.stream {
            rtcp.on_restart();
            if stream.format() != (format, sample) {
                return self.notice(Notice::OtherFormat(format, sample));
            }
            if stream.groups == groups {
                stream.depacketiser.restart();
                stream.playout.restart();
            } else if let Err(error) = stream.divide(config, groups, now) {
                self.error = Some(error);
            }
            return self.notice(Notice::NewStream { ssrc: origin.sender });
        }
        match self.open(now, part) {
            Ok(stream) => {
                let config =
                    RtcpConfig::new(self.rtcp.ssrc(), &self.config.cname, format.rate(), self.config.epoch);
                self.rtcp = RtcpSession::new(config, self.config.seed, now);
                self.stream = Some(stream);
                self.notice(Notice::Began(format, sample));
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn open(&mut self, now: Instant, part: Part) -> Result<Stream, ReceiveError> {
        let Part { groups, format, sample, .. } = part;
        let sink = (self.open_sink)(format, sample).map_err(ReceiveError::Sink)?;
        let playout = Player::new(&self.config, format, groups, &*sink, now)?;
        let channels = format.channels();
        let block = vec![0.0; PULL_FRAMES * channels];
        let depacketiser = Depacketiser::grouped(format, sample, groups);
        let past = PlayoutCounters::default();
        Ok(Stream { depacketiser, groups, past, playout, sink, block, ending: false })
    }

    /// Plays what is due and sends the report that is due.
    pub fn advance(&mut self, now: Instant, endpoint: &mut dyn Endpoint) {
        if self.leaving.is_none() && self.linger_end().is_some_and(|end| end <= now) {
            self.begin_leaving(now);
        }
        if self.leaving.is_some() && self.linger_end().is_some_and(|end| end <= now) {
            self.finish_leaving();
        }
        if let Some(stream) = &mut self.stream {
            stream.ending = self.leaving.is_some();
            self.counters.overrun_frames += stream.play(now, &mut self.error);
        }
        if let Some(len) = self.rtcp.poll_report(now, &mut self.report) {
            let stream = endpoint.profile().control_stream();
            send_report(endpoint, now, &self.report[..len], stream);
        }
    }

    /// Says goodbye to the sender.
    pub fn leave(&mut self, now: Instant, endpoint: &mut dyn Endpoint) {
        if let Some(len) = self.rtcp.close(now, &mut self.report) {
            let stream = endpoint.profile().control_stream();
            send_report(endpoint, now, &self.report[..len], stream);
        }
    }

    /// Lets out what waits, whatever is missing: the stream is over.
    pub fn finish_playout(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream {
            (stream.ending, self.leaving) = (false, None);
            stream.playout.finish();
            self.counters.overrun_frames += stream.play(now, &mut self.error);
        }
    }

    /// When [`Self::advance`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let playing = self.stream.as_ref().filter(|stream| !stream.is_at_end());
        let playout = playing.and_then(|stream| stream.playout.poll_timeout());
        sooner(sooner(playout, self.linger_end()), self.rtcp.poll_timeout())
    }

    /// Until when stragglers of a sender that took leave are waited for, or the goodbyes of its other channel groups.
    fn linger_end(&self) -> Option<Instant> {
        let linger = if self.config.ordered { Duration::ZERO } else { LINGER };
        let others = self.some_left.map(|(since, _)| since + self.config.silence);
        self.leaving.map(|left| left + linger).or(others)
    }

    /// Whether the sender took leave and everything it sent has been played.
    pub fn is_over(&self) -> bool {
        self.said_bye
            && self.leaving.is_none()
            && self.stream.as_ref().is_none_or(|stream| stream.playout.is_drained())
    }

    /// What the user should hear of, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }

    /// Why receiving can't go on, if it can't.
    pub fn error(&self) -> Option<&ReceiveError> {
        self.error.as_ref()
    }

    /// The sink, to be finished off the media thread.
    pub fn take_sink(&mut self) -> Option<Box<dyn Sink>> {
        self.stream.take().map(|stream| stream.sink)
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }
}

/// How long the stragglers of a sender that took leave are waited for where the network may reorder (RFC 3550 §6.3.4
/// wants it, too): longer than its three goodbyes take.
const LINGER: Duration = Duration::from_millis(100);
/// Packets of unknown format before the user hears of it: our own senders tell it in one of sixteen.
const UNKNOWN_PATIENCE: u32 = 50;
/// Notices kept until they are fetched.
const MOST_NOTICES: usize = 32;
