//! Receives one medium: packets told apart by sender, one sender followed, duplicates dropped, buffered, played out in
//! time.

mod bridging;
mod continuing;
mod end;
mod figures;
mod types;

use std::time::Duration;

use antiphon_core::wire::ETHERNET_MTU;
use antiphon_core::{Instant, MediaTime, PathId, Received, sooner};
use antiphon_media::packet::{Depacketiser, ExtensionIds, MediaPacket, RtpView, parse_rtp};
use antiphon_media::playout::{Inserted, PlayoutCounters, pull_frames, pull_frames_of_many};
use antiphon_media::{Origin, Sink, SourceTracker, Verdict};

pub use figures::LATENESS;
pub use types::{
    GroupFigures, LongGaps, MayOpen, Notice, OpenSink, ReceiveError, ReceiveTrackConfig,
    ReceiveTrackCounters, Written,
};

use crate::framing::StreamFraming;
use crate::gaps::Gaps;
use crate::observer::Arrived;
use crate::part::{Formats, Part};
use crate::player::{Origin as RecordedFrom, Player, SINK_BLOCK_FRAMES, Stream};
use crate::recover::{Distinct, Got, Recoverer};
use bridging::BehindGap;
use continuing::{Continues, Newest};
use end::DOUBT;

/// A medium that is received.
pub struct ReceiveTrack {
    config: ReceiveTrackConfig,
    open_sink: OpenSink,
    /// See [`Self::open_when`].
    may_open: Option<MayOpen>,
    /// A sender is followed, and the sink for its sound cannot be opened yet.
    awaits_sink: bool,
    tracker: SourceTracker,
    stream: Option<Stream>,
    recoverer: Box<dyn Recoverer>,
    /// Of each channel group the packet that was sent last, as far as packets have come.
    newest: Vec<Option<Newest>>,
    /// When the recording began.
    began: Instant,
    /// A packet behind a gap, until what is before it has been played.
    behind_gap: Option<BehindGap>,
    /// When a full sink is asked again.
    look_at: Option<Instant>,
    notices: Vec<Notice>,
    formats: Formats,
    /// The first packet of a sender whose format only the payload type tells, until a second one follows it.
    held: Option<Held>,
    /// Packets whose format was not known, since the last stream began.
    unknown_run: u32,
    /// When the sender that is followed ended its stream, until packets still in flight have had time to arrive.
    lingering: Option<Instant>,
    said_bye: bool,
    /// A goodbye that may be forged, and of which SSRC: it counts if no media comes for a while.
    doubted: Option<(Instant, u32)>,
    /// Since when some of the channel groups have ended, and which: bit *n* for group *n*.
    some_ended: Option<(Instant, u64)>,
    /// Whether this is not the first connection, and nothing has been received on it.
    reconnected: bool,
    /// A stream has begun, and no packet has shown its packet duration yet.
    is_new: bool,
    /// Packet duration of a stream that has begun, until it is read.
    pace: Option<Duration>,
    /// The sender goes over to this SSRC: until it is heard, or until then, others are not followed.
    awaited: Option<(u32, Instant)>,
    /// It was heard: the next stream is another one of the same sender.
    goes_over: bool,
    /// Where the sound ends, once known.
    end: Option<u32>,
    error: Option<ReceiveError>,
    counters: ReceiveTrackCounters,
}

/// What a track reports of a packet.
pub(crate) enum Told<'a> {
    /// A stream begins.
    Began {
        /// Rate of its time stamps, in Hz.
        rate: u32,
    },
    /// The next packet of the stream that is followed comes after a gap: so many packets are missing, more than its
    /// sequence number alone shows.
    Skipped {
        /// SSRC under which it came.
        ssrc: u32,
        packets: u64,
    },
    /// A packet of the stream that is followed came.
    Arrived {
        /// SSRC under which it came.
        ssrc: u32,
        arrived: &'a Arrived,
        /// It came too late for RFC 3550's receiver statistics, which would take it for a restart.
        behind: bool,
    },
}

/// A packet that has come.
#[derive(Clone, Copy)]
struct Came<'a> {
    now: Instant,
    received: Received,
    view: &'a RtpView<'a>,
    bytes: &'a [u8],
}

/// A packet that is held back until the next one arrives.
struct Held {
    ssrc: u32,
    next: u16,
    received: Received,
    bytes: Box<[u8]>,
}

/// To whom a track reports its packets.
type Tell<'a> = &'a mut dyn FnMut(Told<'_>);

impl ReceiveTrack {
    /// A track that opens its sink with `open_sink` when the first packet tells the format. `own_ssrc`: the SSRC that
    /// this session sends, which is not mistaken for another sender's unless it is to be received.
    pub fn new(config: ReceiveTrackConfig, open_sink: OpenSink, own_ssrc: Option<u32>) -> Self {
        ReceiveTrack {
            tracker: SourceTracker::new(own_ssrc, config.silence),
            formats: Formats::new(config.description.as_ref(), config.any_payload_type),
            config,
            open_sink,
            may_open: None,
            awaits_sink: false,
            stream: None,
            recoverer: Box::new(Distinct::new(1)),
            newest: Vec::with_capacity(1),
            began: Instant::ZERO,
            behind_gap: None,
            look_at: None,
            notices: Vec::with_capacity(MOST_NOTICES),
            held: None,
            unknown_run: 0,
            lingering: None,
            said_bye: false,
            doubted: None,
            some_ended: None,
            reconnected: false,
            is_new: false,
            pace: None,
            awaited: None,
            goes_over: false,
            end: None,
            error: None,
            counters: ReceiveTrackCounters::default(),
        }
    }

    /// The sink is opened once `may_open` says that this takes no time, as for a device that another thread opens: a server may take half a
    /// second for many channels, in which this thread neither sends nor receives. The stream begins with the next packet then, and those before it are not
    /// counted. A sink that all of a stream goes to is opened with its first packet.
    pub fn open_when(self, may_open: MayOpen) -> Self {
        ReceiveTrack { may_open: Some(may_open), ..self }
    }

    /// Takes an RTP packet; reports it and whether a stream begins with it.
    pub(crate) fn on_rtp(&mut self, now: Instant, received: Received, bytes: &[u8], tell: Tell<'_>) {
        match parse_rtp(bytes, ExtensionIds::default()) {
            Ok(view) if view.video.is_some() => self.on_picture(),
            Ok(view) => self.on_packet(Came { now, received, view: &view, bytes }, tell),
            Err(_) => self.on_malformed(),
        }
    }

    /// A packet of a picture, which nobody wants here.
    fn on_picture(&mut self) {
        self.counters.pictures += 1;
        if self.counters.pictures == 1 {
            self.notice(Notice::Pictures);
        }
    }

    /// A message that is neither RTP nor RTCP came, or a broken one.
    pub fn on_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// The connection beneath is open, `again` if it had broken: its first sender is then followed, whether it is the
    /// previous one or another.
    pub(crate) fn on_connected(&mut self, again: bool) {
        self.reconnected = again;
    }

    /// Packet duration of a stream that has begun since this was last called.
    pub(crate) fn takes_pace(&mut self) -> Option<Duration> {
        self.pace.take()
    }

    /// Whether any sound has been received.
    pub(crate) fn has_begun(&self) -> bool {
        self.stream.is_some()
    }

    /// Packets are in another framing: an error if that ends the stream, otherwise a notice.
    pub(crate) fn on_foreign_framing(&mut self, ours: StreamFraming, ends: bool) {
        if ends {
            self.error = Some(ReceiveError::OtherFraming { ours });
        } else {
            self.notice(Notice::OtherFraming { ours });
        }
    }

    fn on_packet(&mut self, came: Came<'_>, tell: Tell<'_>) {
        let Came { now, received, view, bytes, .. } = came;
        let part = self.formats.part_of(view, self.known_part(view.ssrc));
        if !self.is_awaited(now, part.map_or(view.ssrc, |part| part.origin.sender)) {
            return;
        }
        let sender = part.map_or(view.ssrc, |part| part.origin.sender);
        if self.lingering.is_some() && self.tracker.ssrc() != Some(sender) {
            self.finish_linger();
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
        if self.stream.is_none() && self.formats.has_only_payload_type(view) {
            let held = self.held.take().filter(|held| held.ssrc == view.ssrc && held.next == view.sequence);
            let Some(held) = held else {
                let (ssrc, next) = (view.ssrc, view.sequence.wrapping_add(1));
                self.held = Some(Held { ssrc, next, received, bytes: bytes.into() });
                return;
            };
            if let Ok(first) = parse_rtp(&held.bytes, ExtensionIds::default()) {
                let first = Came { received: held.received, view: &first, bytes: &held.bytes, ..came };
                self.follow(first, part, tell);
            }
        }
        self.follow(came, part, tell);
    }

    fn follow(&mut self, came: Came<'_>, part: Part, tell: Tell<'_>) {
        let (Came { now, received, view, .. }, Part { origin, .. }) = (came, part);
        // A copy may come later than RFC 3550 A.1 lets a packet come, and a restarted sender's packet may look like
        // such a copy.
        let behind = self.is_behind(view, origin);
        let continues = self.continues(view, &part);
        if let Continues::After { packets: 1.. } = continues {
            self.tracker.continue_at(origin.group, view.sequence);
        }
        // One association counts as one path here; SSRCs tell the senders behind it apart.
        let verdict = match behind {
            true => Verdict::Accepted,
            false => self.tracker.on_packet_of(now, origin, PathId::default(), view.sequence),
        };
        match verdict {
            Verdict::Accepted => {}
            Verdict::NewStream | Verdict::Resumed if continues != Continues::Not => {}
            Verdict::Resumed => {
                self.recoverer.restart(origin.group);
                if let Some(stream) = self.stream.as_mut().filter(|stream| stream.groups == part.groups) {
                    stream.restart_group(origin.group);
                }
            }
            Verdict::NewStream => self.begin(now, part, view, tell),
            // A sender that had ended its stream and jumps far has restarted.
            Verdict::Jump if self.lingering.is_some() => {
                self.finish_linger();
                self.tracker.on_packet_of(now, origin, PathId::default(), view.sequence);
                self.begin(now, part, view, tell);
            }
            Verdict::UnknownSource { first: true } => {
                return self.notice(Notice::UnknownSource { ssrc: origin.sender });
            }
            Verdict::UnknownSource { .. } | Verdict::Jump | Verdict::Own => return,
        }
        if self.awaits_sink && verdict != Verdict::NewStream {
            self.begin(now, part, view, tell);
        }
        if self.awaits_sink {
            return;
        }
        if let Continues::After { packets } = continues {
            self.go_on_after(view, origin.group, packets, tell);
        }
        let mut arrived = Arrived {
            group: origin.group,
            sequence: view.sequence,
            timestamp: view.timestamp,
            ntp: view.ntp,
            at: received.received_at,
            len: received.len,
            payload: view.payload.len(),
            frames: part.frames_in(view),
            repaired: received.repaired,
            duplicate: self.recoverer.on_packet(origin.group, view.sequence, view.timestamp)
                == Got::Duplicate,
            inserted: None,
        };
        if arrived.duplicate {
            self.counters.duplicates += 1;
            return tell(Told::Arrived { ssrc: view.ssrc, arrived: &arrived, behind });
        }
        if matches!(continues, Continues::After { .. }) {
            self.doubt_goodbyes(now, view.ssrc);
        }
        self.note_newest(view, &part);
        self.counters.packets += 1;
        self.counters.bytes += received.len as u64;
        arrived.inserted = self.insert(came, part);
        tell(Told::Arrived { ssrc: view.ssrc, arrived: &arrived, behind });
    }

    /// Whether a packet belongs to the stream that is followed, but comes later than packets usually do.
    fn is_behind(&self, view: &RtpView<'_>, origin: Origin) -> bool {
        let ours = self.tracker.group_of(view.ssrc) == Some(origin.group);
        ours && self.lingering.is_none()
            && self.recoverer.remembers(origin.group, view.sequence, view.timestamp)
    }

    /// Buffers a packet of the stream; returns what became of it.
    fn insert(&mut self, came: Came<'_>, part: Part) -> Option<Inserted> {
        let Came { now, received, view, bytes } = came;
        let most_gap = self.most_gap(now);
        let stream = self.stream.as_mut()?;
        if stream.format() != (part.format, part.coding) || stream.groups != part.groups {
            self.counters.other_format += 1;
            return None;
        }
        let group = part.origin.group;
        let Ok(packet) = stream.depacketiser.accept_in(group, view) else {
            self.counters.malformed += 1;
            return None;
        };
        if std::mem::take(&mut self.is_new) {
            let time = MediaTime::new(packet.frames as u64, stream.format().0.rate());
            self.pace = Some(time.duration() / stream.groups.count() as u32);
        }
        let packet = MediaPacket { recovered: received.repaired, ..packet };
        if let Some(bridge) =
            stream.gap_before(&packet, most_gap).filter(|_| self.config.long_gaps == LongGaps::Silence)
        {
            (stream.bridge, self.behind_gap) = (Some(bridge), Some(BehindGap::new(received, part, bytes)));
            stream.playout.finish();
            self.cross(now);
            return Some(Inserted::Buffered);
        }
        let (inserted, dropped) = stream.insert(group, received.received_at, now, &packet, &mut self.error);
        self.counters.overrun_frames += dropped;
        Some(inserted)
    }

    /// The packet's part of the stream that is followed, if its SSRC is known to belong to it.
    fn known_part(&self, ssrc: u32) -> Option<Part> {
        let stream = self.stream.as_ref()?;
        let (sender, group) = (self.tracker.ssrc()?, self.tracker.group_of(ssrc)?);
        let (groups, (format, coding)) = (stream.groups, stream.format());
        let origin = Origin { ssrc, sender, group, groups: groups.count() };
        Some(Part { origin, groups, format, coding })
    }

    fn begin(&mut self, now: Instant, part: Part, first: &RtpView<'_>, tell: Tell<'_>) {
        let Part { origin, groups, format, coding } = part;
        if !self.awaits_sink {
            (self.said_bye, self.lingering, self.some_ended, self.unknown_run) = (false, None, None, 0);
        }
        let is_open = self.stream.is_some();
        let may_open = self.may_open.as_mut().filter(|_| !is_open);
        self.awaits_sink = may_open.is_some_and(|may_open| !may_open(format, coding.sample_format()));
        if self.awaits_sink {
            return;
        }
        let goes_over = std::mem::take(&mut self.goes_over);
        self.newest.clear();
        self.newest.resize(groups.count(), None);
        tell(Told::Began { rate: format.rate() });
        self.recoverer = Box::new(Distinct::new(groups.count()));
        self.finish_playout(now);
        self.is_new = true;
        let config = &self.config;
        if let Some(stream) = &mut self.stream {
            stream.origin = RecordedFrom::Lost;
            if stream.format() != (format, coding) {
                return self.notice(Notice::OtherFormat(format, coding));
            }
            if stream.groups == groups {
                stream.depacketiser.restart();
                stream.playout.restart();
            } else if let Err(error) = stream.divide(config, groups, now) {
                self.error = Some(error);
            }
            if !goes_over {
                self.notice(Notice::NewStream { ssrc: origin.sender });
            }
            return;
        }
        match self.open(now, part, first) {
            Ok(stream) => {
                self.began = now;
                self.stream = Some(stream);
                self.notice(Notice::Began(format, coding));
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn open(&mut self, now: Instant, part: Part, first: &RtpView<'_>) -> Result<Stream, ReceiveError> {
        let Part { groups, format, coding, origin } = part;
        let sink = (self.open_sink)(format, coding.sample_format()).map_err(ReceiveError::Sink)?;
        let (packet, period) = (part.frames_in(first), sink.period());
        let many_channels = is_full(first);
        let pull = match many_channels {
            true => pull_frames_of_many(packet, period, format.rate()),
            false => pull_frames(packet, period),
        };
        let pull = pull.min(SINK_BLOCK_FRAMES);
        Ok(Stream {
            depacketiser: Depacketiser::grouped(format, coding, groups),
            groups,
            in_short_packets: many_channels
                && MediaTime::new(packet as u64, format.rate()).duration() < SHORT,
            past: PlayoutCounters::default(),
            playout: Player::new(&self.config, (format, coding), groups, &*sink, pull, now)?,
            sink,
            block: vec![0.0; SINK_BLOCK_FRAMES * format.channels()],
            ending: false,
            end: self.end,
            played_to: None,
            written: 0,
            gaps: Gaps::new(),
            origin: RecordedFrom::Of(origin.sender),
            bridge: None,
        })
    }

    /// Plays what is due.
    pub fn advance(&mut self, now: Instant) {
        if let Some((since, ssrc)) = self.doubted.filter(|(since, _)| now.since(*since) >= DOUBT) {
            self.doubted = None;
            self.on_bye(since.max(now), ssrc);
        }
        if self.lingering.is_none() && self.linger_end().is_some_and(|end| end <= now) {
            self.begin_linger(now);
        }
        if self.lingering.is_some() && self.linger_end().is_some_and(|end| end <= now) {
            self.finish_linger();
        }
        self.play(now);
        self.cross(now);
        self.look_at = self.is_full().then(|| now + LOOK_AGAIN);
    }

    /// Plays what is due at `at`, and nothing else: that may be yet to come.
    pub(crate) fn play(&mut self, at: Instant) {
        if let Some(stream) = &mut self.stream {
            stream.ending = self.lingering.is_some();
            self.counters.overrun_frames += stream.play(at, &mut self.error);
        }
    }

    /// Whether all sound for the next `frames` sample frames of its sink has come; `None` of a track that plays nothing.
    pub(crate) fn has_come(&self, frames: usize) -> Option<bool> {
        let stream = self.stream.as_ref().filter(|_| self.error.is_none())?;
        Some(stream.playout.has_come(frames))
    }

    /// The sample frame of this time stamp was captured at `captured`, in nanoseconds of our clock, and is handed to the sink
    /// `delay` later. Returns whether that is done: a recording waits.
    pub(crate) fn keep_in_step(&mut self, timestamp: u32, captured: i64, delay: Duration) -> bool {
        let stream = self.stream.as_mut();
        stream.is_some_and(|stream| stream.playout.buffer_mut().keep_in_step(timestamp, captured, delay))
    }

    /// Plays as it is set again.
    pub(crate) fn leave_step(&mut self) {
        if let (Some(stream), Some(latency)) = (&mut self.stream, self.config.latency) {
            stream.playout.buffer_mut().leave_step(latency.start());
        }
    }

    /// When the sample frame of this time stamp, near what is played now, is handed to the sink.
    pub(crate) fn sink_time_of(&self, timestamp: u32) -> Option<Instant> {
        let stream = self.stream.as_ref()?;
        Some(stream.playout.buffer().deadline_at(timestamp)?.offset_nanos(stream.playout.lag_nanos()))
    }

    /// Which sample frame of a sink without a clock has this time stamp; before its first one it is negative. Of sound that is played
    /// as it comes, as it stands now: it may jump, and be stretched. `None`: a recording does not have all of the stream at its media
    /// time.
    pub(crate) fn written_at(&self, timestamp: u32) -> Option<i64> {
        let stream = self.stream.as_ref()?;
        if let (Some(_), Some(media)) = (self.config.latency, stream.played_to) {
            let ahead = timestamp.wrapping_sub(media as u32) as i32;
            return Some(i64::try_from(stream.written).ok()? + i64::from(ahead));
        }
        let first = match stream.origin {
            RecordedFrom::At(_, first) => first,
            // It will begin with what waits to be played.
            RecordedFrom::Of(_) if stream.written == 0 => stream.playout.buffer().span()?.0,
            RecordedFrom::Of(_) | RecordedFrom::Lost => return None,
        };
        // Time stamps wrap after a day; the two are never that far apart.
        Some(i64::from(timestamp.wrapping_sub(first as u32) as i32))
    }

    /// The stream is over: plays what is buffered, whatever is missing.
    pub fn finish_playout(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream {
            (stream.ending, self.lingering) = (false, None);
            stream.playout.finish();
            self.counters.overrun_frames += stream.play(now, &mut self.error);
        }
    }

    /// When [`Self::advance`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let playing = self.stream.as_ref().filter(|stream| !stream.is_at_end());
        let playout = playing.and_then(|stream| stream.playout.poll_timeout());
        let doubt = self.doubted.map(|(since, _)| since + DOUBT);
        sooner(sooner(playout, self.look_at), sooner(doubt, self.linger_end()))
    }

    /// What was written to a sink without a clock, and where it has no sound of the sender; takes the list.
    pub fn take_written(&mut self) -> Option<Written> {
        let stream = self.stream.as_mut()?;
        let (format, coding) = stream.format();
        let origin = match stream.origin {
            RecordedFrom::At(ssrc, media) => Some((ssrc, media as u32)),
            RecordedFrom::Of(_) | RecordedFrom::Lost => None,
        };
        Some(Written {
            format,
            coding,
            frames: stream.written,
            gaps: std::mem::take(&mut stream.gaps),
            origin,
        })
    }

    /// Where the sink has no sound of the sender, if it has no clock.
    pub fn gaps(&self) -> Option<&Gaps> {
        self.stream.as_ref().map(|stream| &stream.gaps)
    }

    /// Notices for the user, oldest first.
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

/// Whether a packet is as long as a datagram may be, so that its channels decide how much time it holds: another like it would not fit.
fn is_full(packet: &RtpView<'_>) -> bool {
    2 * packet.payload.len() > ETHERNET_MTU
}

/// Full packets that hold less than this come more than a thousand times a second.
const SHORT: Duration = Duration::from_millis(1);
/// How soon a sink that was full is asked again: disks write what they have within milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Packets of unknown format before the user is notified: Antiphon's own senders tell the format in one packet of
/// sixteen.
pub(crate) const UNKNOWN_PATIENCE: u32 = 50;
/// Notices kept until they are fetched.
const MOST_NOTICES: usize = 32;
