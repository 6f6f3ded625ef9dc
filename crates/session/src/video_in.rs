//! Receives pictures beside the sound of a session, each track of the sender into a sink of its own, and says where in the sound each belongs.

use std::time::Duration;

use antiphon_core::{Instant, NtpTime, Unwrapper};
use antiphon_media::packet::{EncodingName, InBandVideo, RtpView, restore};

use crate::least::Least;
use crate::observer::Arrived;
use crate::receive_track::ReceiveTrack;

/// Where packets of pictures go to. Called on the media thread: copies them into a bounded queue; what joins them to pictures,
/// writes or shows them does so on a thread of its own.
pub trait VideoSink: Send {
    /// A packet of the sender that is followed. It may be a duplicate, or overtaken by others.
    fn on_packet(&mut self, packet: &VideoArrived<'_>);

    /// Whether nothing of what comes can be decoded until the next key frame. Asked while packets come. A sink that does not look into
    /// pictures never knows.
    fn wants_key_frame(&self) -> bool {
        false
    }

    /// Whether a member of a group would use packets since the last key frame that are sent again, before or beside those that come. Asked while packets come.
    fn wants_repeats(&self) -> bool {
        false
    }

    /// A packet that was sent again to a group, with the name that it had at first. The first one begins a key frame; they come while [`Self::on_packet`] is
    /// given those that are due. Only sinks that have wanted it are given any.
    fn on_repeat(&mut self, _packet: &VideoArrived<'_>) {}
}

/// A packet of a video track.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VideoArrived<'a> {
    /// When it came.
    pub at: Instant,
    /// The track's SSRC.
    pub ssrc: u32,
    /// The payload format.
    pub encoding: EncodingName,
    /// RTP's time stamp, in ticks of 90 kHz.
    pub timestamp: u32,
    /// Whether it ends an access unit.
    pub marker: bool,
    /// Where in the sound its picture belongs: in what a sink without a clock is given, in nanoseconds from its beginning. `None`:
    /// nowhere, while no sound is known that was captured with it.
    pub place: Option<i64>,
    /// What the payload format has made.
    pub payload: &'a [u8],
    /// The whole RTP packet.
    pub packet: &'a [u8],
}

/// Counts of a video track that is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VideoInCounters {
    /// Packets of the sender that is followed.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets of other senders' pictures.
    pub others: u64,
}

/// The pictures that a session receives.
pub(crate) struct VideoIn {
    /// By their numbers at the sender.
    tracks: Vec<TrackIn>,
    clock: SoundClock,
    pub counters: VideoInCounters,
}

/// One of the sender's tracks.
struct TrackIn {
    sink: Box<dyn VideoSink>,
    followed: Option<Followed>,
    asking: Option<Asking>,
    /// Packets that are sent again are taken, as the first of them came: when the last one did.
    repeats: Option<Instant>,
    /// One of them, with its first name.
    restored: Vec<u8>,
    /// The sender has ended the track that is followed.
    has_ended: bool,
}

/// The sender's stream that is followed.
#[derive(Clone, Copy, Debug)]
struct Followed {
    ssrc: u32,
    /// The sound that it belongs to.
    sound: u32,
    /// When its last packet came.
    last: Instant,
}

/// A key frame is asked for.
#[derive(Clone, Copy, Debug)]
struct Asking {
    /// When to ask again.
    next: Instant,
    pause: Duration,
    /// The question of another member was waited for.
    has_waited: bool,
    /// Of a member of a group.
    in_group: bool,
}

/// Ties the sender's clock to the time stamps of its sound.
#[derive(Debug, Default)]
struct SoundClock {
    rate: u32,
    timestamps: Unwrapper<32>,
    /// Times of the sender's clock count from this one.
    base: Option<NtpTime>,
    /// The sender's clock when a packet was sent, less its media time, in nanoseconds.
    offset: Least,
}

impl VideoIn {
    /// The first of a sender's tracks goes into this sink; others are not wanted.
    pub fn new(sink: Box<dyn VideoSink>) -> Self {
        VideoIn {
            tracks: vec![TrackIn::new(sink)],
            clock: SoundClock::default(),
            counters: VideoInCounters::default(),
        }
    }

    /// The next one goes into this sink.
    pub fn add(&mut self, sink: Box<dyn VideoSink>) {
        self.tracks.push(TrackIn::new(sink));
    }

    /// How many of a sender's tracks are wanted.
    pub fn tracks(&self) -> usize {
        self.tracks.len()
    }

    /// Sound begins whose time stamps count at `rate` Hz.
    pub fn on_sound(&mut self, rate: u32) {
        self.clock = SoundClock { rate, ..SoundClock::default() };
    }

    /// Whether the bytes are the SSRC of a track that is followed.
    pub fn follows(&self, ssrc: &[u8]) -> bool {
        let mut followed = self.tracks.iter().filter_map(|track| track.followed);
        followed.any(|followed| followed.ssrc.to_be_bytes() == *ssrc)
    }

    /// The sender has ended one of its tracks.
    pub fn on_bye(&mut self, ssrc: u32) {
        for track in &mut self.tracks {
            track.has_ended |= track.followed.is_some_and(|followed| followed.ssrc == ssrc);
        }
    }

    /// Whether the sender has ended all tracks that are followed.
    pub fn has_ended(&self) -> bool {
        let mut followed = self.tracks.iter().filter(|track| track.followed.is_some()).peekable();
        followed.peek().is_some() && followed.all(|track| track.has_ended)
    }

    /// A packet of the sound that is followed came.
    pub fn on_arrived(&mut self, now: Instant, arrived: &Arrived) {
        if let Some(ntp) = arrived.ntp.filter(|_| arrived.group == 0 && !arrived.duplicate) {
            self.clock.note(now, arrived.timestamp, ntp);
        }
    }

    /// Whether the sender is asked for a key frame now: the SSRC of its pictures.
    pub fn asks_for_key_frame(&mut self, now: Instant) -> Option<u32> {
        self.tracks.iter_mut().find_map(|track| track.asks_for_key_frame(now))
    }

    /// The same of a member of a group, which waits for `wait` before its first question: another one may ask.
    pub fn asks_in_group(&mut self, now: Instant, wait: Duration) -> Option<u32> {
        self.tracks.iter_mut().find_map(|track| track.asks_in_group(now, wait))
    }

    /// Another member of the group has asked for a key frame of these pictures: its answer is waited for, once before each question.
    pub fn on_asked_by_another(&mut self, now: Instant, pictures: u32) {
        for track in &mut self.tracks {
            let is_followed = track.followed.is_some_and(|followed| followed.ssrc == pictures);
            if let Some(asking) = track.asking.as_mut().filter(|asking| is_followed && !asking.has_waited) {
                asking.wait(now + FIRST_PAUSE);
                asking.has_waited = true;
            }
        }
    }

    /// A packet of pictures came, and the sound goes to `track`. Returns whether it is of the track that is followed.
    pub fn on_packet(
        &mut self,
        now: Instant,
        (view, packet): (&RtpView<'_>, &[u8]),
        track: Option<&ReceiveTrack>,
    ) -> bool {
        let Some(video) = view.video else { return false };
        let place = view.ntp.zip(track).and_then(|(ntp, track)| self.clock.place(ntp, track));
        self.take(now, (view, packet), (video, place), track)
    }

    /// The same of pictures of another program, whose packets don't say what they are. `captured`: the time stamp of the sound that was
    /// captured with it, which counts where the packet has no clock.
    pub fn on_foreign(
        &mut self,
        now: Instant,
        (view, packet): (&RtpView<'_>, &[u8]),
        (encoding, captured): (EncodingName, Option<u32>),
        track: Option<&ReceiveTrack>,
    ) -> bool {
        let told = view.ntp.zip(track).and_then(|(ntp, track)| self.clock.place(ntp, track));
        let tied = || self.clock.place_of(captured?, track?);
        let place = told.or_else(tied);
        self.take(
            now,
            (view, packet),
            (InBandVideo { sound: 0, encoding, track: 0, again: None }, place),
            track,
        )
    }

    /// The rate of the time stamps of its sound, in Hz; 0 before there is any.
    pub fn rate_of_sound(&self) -> u32 {
        self.clock.rate
    }

    fn take(
        &mut self,
        now: Instant,
        (view, packet): (&RtpView<'_>, &[u8]),
        (video, place): (InBandVideo, Option<i64>),
        track: Option<&ReceiveTrack>,
    ) -> bool {
        let sound = track.and_then(ReceiveTrack::followed);
        let Some(into) = self.tracks.get_mut(usize::from(video.track)) else {
            self.counters.others += 1;
            return false;
        };
        if let Some(number) = video.again {
            into.on_repeat(now, (view, packet), (video, number, place));
            return false;
        }
        let belongs = video.sound == 0 || sound.is_none_or(|sound| sound == video.sound);
        // Another track of the same sender does not take its place, one beside new sound does.
        let follows = into.followed.is_none_or(|followed| {
            let left = sound.is_some_and(|sound| followed.sound != sound && video.sound == sound);
            followed.ssrc == view.ssrc || left || now.since(followed.last) >= SILENCE
        });
        if !belongs || !follows {
            self.counters.others += 1;
            return false;
        }
        into.has_ended &= into.followed.is_some_and(|followed| followed.ssrc == view.ssrc);
        into.followed = Some(Followed { ssrc: view.ssrc, sound: video.sound, last: now });
        if let Some(asking) = into.asking.as_mut().filter(|asking| asking.in_group && begins_key(view)) {
            asking.wait(now + FIRST_PAUSE);
        }
        self.counters.packets += 1;
        self.counters.bytes += view.payload.len() as u64;
        into.sink.on_packet(&VideoArrived {
            at: now,
            ssrc: view.ssrc,
            encoding: video.encoding,
            timestamp: view.timestamp,
            marker: view.marker,
            place,
            payload: view.payload,
            packet,
        });
        true
    }
}

impl TrackIn {
    fn new(sink: Box<dyn VideoSink>) -> Self {
        let restored = Vec::with_capacity(LARGEST);
        TrackIn { sink, followed: None, asking: None, repeats: None, restored, has_ended: false }
    }

    /// The sender may not have one, or the question may be lost: pauses double.
    fn asks_for_key_frame(&mut self, now: Instant) -> Option<u32> {
        let followed = self.followed.filter(|followed| now.since(followed.last) < SILENCE)?;
        if !self.sink.wants_key_frame() {
            self.asking = None;
            return None;
        }
        self.asks_again(now, None).then_some(followed.ssrc)
    }

    fn asks_in_group(&mut self, now: Instant, wait: Duration) -> Option<u32> {
        let followed = self.followed.filter(|followed| now.since(followed.last) < SILENCE)?;
        if !self.sink.wants_repeats() {
            self.asking = None;
            return None;
        }
        self.asks_again(now, Some(wait)).then_some(followed.ssrc)
    }

    /// `wait`: of a member of a group, before its first question.
    fn asks_again(&mut self, now: Instant, wait: Option<Duration>) -> bool {
        let (next, in_group) = (now + wait.unwrap_or(Duration::ZERO), wait.is_some());
        let first = Asking { next, pause: FIRST_PAUSE, has_waited: false, in_group };
        let asking = self.asking.get_or_insert(first);
        if asking.next > now {
            return false;
        }
        asking.next = now + asking.pause;
        asking.pause = (2 * asking.pause).min(LONGEST_PAUSE);
        asking.has_waited = false;
        true
    }

    /// A packet that repeats that of this number. They are of use from the beginning of the key frame on.
    fn on_repeat(
        &mut self,
        now: Instant,
        (view, packet): (&RtpView<'_>, &[u8]),
        (video, number, place): (InBandVideo, u16, Option<i64>),
    ) {
        let Some(followed) = self.followed.filter(|followed| followed.sound == video.sound) else { return };
        let goes_on = self.repeats.is_some_and(|last| now.since(last) < REPEATS_END);
        let begins = begins_key(view) && self.sink.wants_repeats();
        if !goes_on && !begins {
            return;
        }
        self.repeats = Some(now);
        if let Some(asking) = &mut self.asking {
            asking.wait(now + AFTER_REPEATS);
        }
        self.restored.clear();
        self.restored.extend_from_slice(packet);
        restore(&mut self.restored, followed.ssrc, number);
        self.sink.on_repeat(&VideoArrived {
            at: now,
            ssrc: followed.ssrc,
            encoding: video.encoding,
            timestamp: view.timestamp,
            marker: view.marker,
            place,
            payload: view.payload,
            packet: &self.restored,
        });
    }
}

impl Asking {
    /// It asks at this instant at the earliest.
    fn wait(&mut self, until: Instant) {
        self.next = self.next.max(until);
    }
}

/// Whether the packet is the first of a key frame, as its marks tell.
fn begins_key(view: &RtpView<'_>) -> bool {
    view.marking.is_some_and(|marking| marking.start && marking.independent)
}

impl SoundClock {
    fn note(&mut self, now: Instant, timestamp: u32, ntp: NtpTime) {
        let media = self.timestamps.extend(u64::from(timestamp));
        let base = *self.base.get_or_insert(ntp);
        let sound = i128::from(media) * NANOS / i128::from(self.rate.max(1));
        self.offset.note(now, ntp.signed_nanos_since(base).wrapping_sub(sound as i64));
    }

    /// Where what was captured at this time of the sender's clock belongs.
    fn place(&self, ntp: NtpTime, track: &ReceiveTrack) -> Option<i64> {
        let (offset, base) = self.offset.get().zip(self.base)?;
        let media = ntp.signed_nanos_since(base).wrapping_sub(offset);
        self.place_of((i128::from(media) * i128::from(self.rate) / NANOS) as u32, track)
    }

    /// Where the sound of this time stamp belongs.
    fn place_of(&self, timestamp: u32, track: &ReceiveTrack) -> Option<i64> {
        let nanos = |frames: i64| (i128::from(frames) * NANOS / i128::from(self.rate.max(1))) as i64;
        track.written_at(timestamp).map(nanos)
    }
}

const NANOS: i128 = 1_000_000_000;

/// The pause after the first question for a key frame: longer than most round trips.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause: as far as key frames of files often are apart.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Silence after which another track may take its place.
const SILENCE: Duration = Duration::from_secs(1);
/// Packets that are sent again follow one another within less, and come again after more.
const REPEATS_END: Duration = Duration::from_millis(300);
/// After the last of them a sink has had the time to use it.
const AFTER_REPEATS: Duration = Duration::from_millis(150);
/// Bytes for which there is memory from the beginning: more than a packet has on any usual path.
const LARGEST: usize = 2048;
