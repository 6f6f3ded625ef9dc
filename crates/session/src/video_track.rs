//! Sends pictures beside the sound of a session: access units, cut into payloads elsewhere, each at its own time, or left out
//! whole when nobody could still show them.

mod config;
mod open;
mod recent;
mod source;
mod tag;
mod way;

use std::time::Duration;

use antiphon_core::{Epoch, Instant};
use antiphon_media::packet::{Marking, VIDEO_CLOCK, VideoStream};

pub use config::{VideoTrackConfig, VideoTrackCounters};
use open::Open;
pub(crate) use recent::Part;
use recent::Recent;
use source::Head;
pub use source::{VideoPayload, VideoSource, VideoWay};
pub(crate) use tag::{AGAIN, BESIDE, again_tag, video_of, video_tag};
use way::Judged;
pub(crate) use way::Way;

/// A video track.
pub struct VideoTrack {
    source: Box<dyn VideoSource>,
    config: VideoTrackConfig,
    stream: VideoStream,
    buf: Vec<u8>,
    /// The unit of the last payload, and whether it is sent.
    unit: Option<Unit>,
    /// Time from one unit to the next, by the last two.
    interval: Duration,
    /// Units of the lowest temporal layer so far.
    base_pictures: u8,
    /// A unit that others need was left out: until the next one that needs none.
    broken: bool,
    open: Open,
    next: Next,
    /// Until then nothing is sent: what was granted is used up, or the transport took no more.
    held: Option<Instant>,
    /// Pictures have waited since the source was last told.
    was_held: bool,
    /// The source has been told since the present unit began.
    is_told: bool,
    recent: Recent,
    /// The packet that was given begins a key frame.
    begins_key: bool,
    /// When its source had something for the first time, if it had nothing before.
    ready: Option<Instant>,
    counters: VideoTrackCounters,
}

/// When a track has something to do.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// So long after it began.
    After(Duration),
    /// At this instant it is asked again: its source had nothing, or the transport has too much.
    At(Instant),
    /// Never: it has ended.
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    number: u64,
    due: Duration,
    is_sent: bool,
    /// Until when its packets are of use.
    until: Option<Instant>,
    /// How long after it was due it was begun.
    late: Duration,
}

/// A packet of a video track.
#[derive(Debug)]
pub(crate) struct VideoPacket<'a> {
    pub unit: u64,
    /// Which of the unit's packets it is, of how many.
    pub part: (u32, u32),
    pub bytes: &'a mut [u8],
    /// RTP's number of it.
    pub number: u16,
    /// Whether it begins a key frame.
    pub begins_key: bool,
    /// Whether other pictures need this one.
    pub is_needed: bool,
    pub payload: usize,
    /// When it was due.
    pub due: Instant,
    /// Until when it is of use.
    pub deadline: Option<Instant>,
}

impl VideoTrack {
    /// A track of what `source` gives.
    pub fn new(source: Box<dyn VideoSource>, config: VideoTrackConfig) -> Self {
        let VideoTrackConfig { encoding, payload_type, sound, seed, max_packet, .. } = config;
        VideoTrack {
            source,
            stream: VideoStream::new(encoding, payload_type, sound, seed),
            config,
            buf: vec![0; max_packet],
            unit: None,
            interval: Duration::ZERO,
            base_pictures: 0,
            broken: false,
            open: Open::new(),
            next: Next::After(Duration::ZERO),
            held: None,
            was_held: false,
            is_told: true,
            recent: Recent::new(),
            begins_key: false,
            ready: None,
            counters: VideoTrackCounters::default(),
        }
    }

    /// The track's synchronisation source.
    pub fn ssrc(&self) -> u32 {
        self.stream.ssrc()
    }

    /// Goes on under another SSRC, or beside sound of another one.
    pub(crate) fn set_ssrc(&mut self, ssrc: u32, sound: u32) {
        self.stream.set_ssrc(ssrc, sound);
    }

    /// It is the sender's track of this number, 0 for the first.
    pub(crate) fn set_number(&mut self, number: u8) {
        self.stream.set_track(number);
    }

    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.config.epoch = epoch;
    }

    /// Totals.
    pub fn counters(&self) -> VideoTrackCounters {
        self.counters
    }

    /// Whether everything was sent or left out.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.source.next().is_none() && self.source.is_ended()
    }

    /// Whether its next packet should have left by now, or one has no outcome yet.
    pub(crate) fn is_behind(&mut self, now: Instant, origin: Instant) -> bool {
        !self.is_settled() || self.source.next().is_some_and(|payload| origin + payload.due <= now)
    }

    /// How fast the transport takes pictures, in bytes a second; `None`: at once.
    pub(crate) fn rate_taken(&self) -> Option<f64> {
        self.open.rate()
    }

    /// Whether all that was sent has its outcome.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// RTP's time stamp of now, for sender reports. `origin`: when the track began.
    pub(crate) fn timestamp(&self, now: Instant, origin: Instant) -> u32 {
        self.stream.timestamp_at(ticks(now.since(origin)))
    }

    /// When [`Self::poll`] has something to do.
    pub(crate) fn next_call(&self, origin: Instant) -> Option<Instant> {
        match self.next {
            Next::After(time) => Some(origin + time),
            Next::At(at) => Some(at),
            Next::Never => None,
        }
    }

    /// The next packet if it is due: what is of no use any more is left out, in whole units.
    pub(crate) fn poll(&mut self, now: Instant, origin: Instant, way: Way) -> Option<VideoPacket<'_>> {
        if let Some(until) = self.held.filter(|until| *until > now) {
            self.next = Next::At(until);
            return None;
        }
        self.tell_source(way);
        let is_held = self.is_held(now, way);
        if self.unit.is_none() && self.source.next().is_none() {
            self.ready = Some(now + ASK_AGAIN);
        }
        let way = Way { since: way.since.max(self.ready), ..way };
        loop {
            let Some(head) = self.source.next().as_ref().map(Head::of) else {
                self.next = if self.source.is_ended() { Next::Never } else { Next::At(now + ASK_AGAIN) };
                return None;
            };
            if let Some(next) = self.turn_to(now, origin, &head, (way, is_held)) {
                self.next = next;
                return None;
            }
            if !self.unit.is_some_and(|unit| unit.is_sent) {
                self.source.take();
            } else if way.is_missing {
                self.next = Next::At(now + ASK_AGAIN);
                return None;
            } else if let Some(len) = self.write(origin, &head) {
                return Some(VideoPacket {
                    unit: head.unit,
                    part: head.part,
                    number: self.stream.number(),
                    begins_key: self.begins_key,
                    is_needed: head.is_needed,
                    payload: head.len,
                    due: origin + head.due,
                    deadline: self.unit.and_then(|unit| unit.until),
                    bytes: &mut self.buf[..len],
                });
            } else {
                // What does not fit was cut for a wider path: its number is missing, as it is.
                self.counters.refused += 1;
                self.stream.advance();
                self.source.take();
            }
        }
    }

    /// Tells the source of the way, once for each unit.
    fn tell_source(&mut self, way: Way) {
        if !std::mem::replace(&mut self.is_told, true) {
            let (is_held, left_out) = (std::mem::take(&mut self.was_held), self.counters.left_out);
            let late = self.unit.map_or(Duration::ZERO, |unit| unit.late);
            self.source.on_way(VideoWay { rate: way.rate, is_held, left_out, late });
        }
    }

    /// Whether the transport has had a unit for so long that the next one waits.
    fn is_held(&self, now: Instant, way: Way) -> bool {
        // Of a recording none is too late: by its age, one that is late by more than an answer takes would hold up the next until it is
        // confirmed, and so on, so that they would be sent one in a round trip.
        let age = if way.patience.is_some() { self.open.age(now) } else { self.open.handed_for(now) };
        way.longest.is_some_and(|longest| age > longest)
    }

    /// A payload is next: decides of a new unit whether it is sent, and breaks off one that is late. Returns when to look at it again, if it waits.
    fn turn_to(
        &mut self,
        now: Instant,
        origin: Instant,
        head: &Head,
        (way, is_held): (Way, bool),
    ) -> Option<Next> {
        let (part, parts) = head.part;
        // A unit's packets don't stand in front of the sound all at once.
        let spread = (self.interval / 2).min(MOST_SPREAD) * part / parts.max(1);
        let due = origin + head.due;
        if due + spread > now {
            return Some(Next::After(head.due + spread));
        }
        let begins = self.unit.is_none_or(|unit| unit.number != head.unit);
        // A key frame that is late makes room for the next one, unless it is the first.
        let is_first = self.counters.units + self.counters.left_out + u64::from(begins) == 1;
        let known = way.known.filter(|_| head.is_needed && (is_first || !head.is_key));
        let way = Way { known, ..way };
        if begins {
            let interval = match self.unit {
                Some(before) => head.due.saturating_sub(before.due),
                None => self.interval,
            };
            let bytes = f64::from(parts) * head.len as f64;
            let Some(judged) = way.judge(now, (due, interval), bytes, is_held) else {
                return Some(Next::At(now + ASK_AGAIN));
            };
            self.interval = interval;
            self.begin_unit(head, judged, now.since(due));
        }
        let is_late = |unit: &Unit| unit.until.is_some_and(|until| until < now);
        if let Some(unit) = self.unit.as_mut().filter(|unit| unit.is_sent && is_late(unit)) {
            let left = f64::from(parts - part) * head.len as f64;
            // When the first one was begun, nothing was known of the path.
            let is_first = self.counters.units == 1 && head.is_key;
            let finishes = || way.finishes_late(now, due, left).filter(|_| is_first);
            if let Some(until) = way.excused_until(now, due).or_else(finishes) {
                unit.until = Some(until);
                return None;
            }
            // The rest of it has waited too long, for a transport or a path that is full.
            unit.is_sent = false;
            self.broken |= head.is_needed;
            self.counters.units -= 1;
            self.counters.left_out += 1;
        }
        None
    }

    fn begin_unit(&mut self, head: &Head, judged: Judged, late: Duration) {
        let is_sent = judged.is_of_use && (head.is_key || !self.broken);
        self.broken = !is_sent && (self.broken || head.is_needed);
        self.unit = Some(Unit { number: head.unit, due: head.due, is_sent, until: judged.until, late });
        self.is_told = false;
        let is_base = is_sent && head.layer == 0;
        self.base_pictures = self.base_pictures.wrapping_add(u8::from(is_base));
        self.counters.units += u64::from(is_sent);
        self.counters.left_out += u64::from(!is_sent);
    }

    /// Makes the packet of the payload that is next; returns its length, or `None` where it does not fit.
    fn write(&mut self, origin: Instant, head: &Head) -> Option<usize> {
        let (part, parts) = head.part;
        let marking = Marking {
            start: part == 0,
            end: part + 1 == parts,
            independent: head.is_key,
            discardable: !head.is_needed,
            temporal_layer: head.layer,
            base_pictures: self.base_pictures,
        };
        self.begins_key = part == 0 && head.is_key;
        let payload = self.source.next()?;
        let ntp = self.config.epoch.ntp(origin + head.shown);
        self.stream.packet((ticks(head.shown), marking), ntp, payload.bytes, &mut self.buf)
    }

    /// Whether it has more to send than the path carries.
    pub(crate) fn is_held_at(&self, now: Instant) -> bool {
        self.held.is_some_and(|until| until > now)
    }

    /// Nothing is sent before this instant.
    pub(crate) fn hold(&mut self, until: Instant) {
        (self.held, self.next, self.was_held) = (Some(until), Next::At(until), true);
    }

    /// What [`Self::poll`] gave found no room: it gives it again.
    pub(crate) fn on_blocked(&mut self, now: Instant) {
        self.hold(now + ASK_AGAIN);
    }

    /// What [`Self::poll`] gave was handed over: to so many peers, who took and refused it.
    pub(crate) fn on_sent(&mut self, now: Instant, due: Instant, bytes: usize, (taken, refused): (u64, u64)) {
        let head = self.source.next().as_ref().map(Head::of);
        self.source.take();
        self.stream.advance();
        if self.begins_key {
            self.recent.begin(now);
        }
        if let Some(Head { unit, part: (part, parts), .. }) = head {
            self.recent.push(&self.buf[..bytes], Part { unit, part, parts });
        }
        if let Some(unit) = self.unit {
            self.open.add(now, (unit.number, due), taken, bytes as u64);
        }
        self.counters.packets += taken;
        self.counters.bytes += taken * bytes as u64;
        self.counters.refused += refused;
    }

    /// Bytes of the packets since the last key frame, if all is there that can be decoded with it.
    pub(crate) fn since_key_frame(&self) -> Option<usize> {
        (self.recent.is_whole() && !self.broken).then(|| self.recent.len())
    }

    /// How many bytes a second they are, by now.
    pub(crate) fn rate_since_key_frame(&self, now: Instant) -> f64 {
        self.recent.rate(now)
    }

    /// One of them. Who sends it gives it a number.
    pub(crate) fn recent_packet(&mut self, index: usize) -> Option<(&mut [u8], Part)> {
        self.recent.packet(index)
    }

    /// How many there are.
    pub(crate) fn recent_packets(&self) -> usize {
        self.recent.packets()
    }

    /// When the last key frame began.
    pub(crate) fn key_frame_at(&self) -> Instant {
        self.recent.since()
    }

    /// The packet at `index` of those since the last key frame, made one that repeats it to a group, and its number; `None` if there is none.
    pub(crate) fn repeated_packet(&mut self, index: usize) -> Option<(&mut [u8], Part, u16)> {
        let (packet, part) = self.recent.packet(index)?;
        let number = self.stream.repeat(packet)?;
        Some((packet, part, number))
    }

    /// Whether packets of this SSRC are of the track.
    pub(crate) fn has_ssrc(&self, ssrc: u32) -> bool {
        ssrc == self.stream.ssrc() || ssrc == self.stream.again_ssrc()
    }

    /// RTP's number of the next packet.
    pub(crate) fn number(&self) -> u16 {
        self.stream.number()
    }

    /// A peer is sent them.
    pub(crate) fn on_catching_up(&mut self) {
        self.counters.caught_up += 1;
    }

    /// A packet was sent again to a peer, or refused.
    pub(crate) fn on_repeated(&mut self, bytes: usize, is_taken: bool) {
        self.counters.packets += u64::from(is_taken);
        self.counters.bytes += if is_taken { bytes as u64 } else { 0 };
        self.counters.refused += u64::from(!is_taken);
    }

    /// A message of the unit that [`video_of`] names has its outcome.
    pub(crate) fn on_outcome(&mut self, now: Instant, unit: u64, expired: bool) {
        self.counters.expired += u64::from(expired);
        self.open.settle(now, unit, expired);
    }
}

fn ticks(time: Duration) -> u64 {
    (time.as_nanos() * u128::from(VIDEO_CLOCK) / 1_000_000_000) as u64
}

/// A unit's packets are spread over this time at most: a fortieth of a second is between two pictures of 40 Hz.
const MOST_SPREAD: Duration = Duration::from_millis(20);
/// How soon a source that had nothing is asked again, and a transport that had too much.
const ASK_AGAIN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
