use std::sync::{Arc, Mutex};

use antiphon_core::{Instant, NtpTime};
use antiphon_media::packet::{EncodingName, VIDEO_CLOCK, VideoStream};
use antiphon_session::{VideoArrived, VideoSink};
use antiphon_video::{Clip, FrameCutter, Marking, OpenOptions, VideoReader};

use super::*;
use crate::pictures::film::FilmCounters;
use crate::pictures::film::incoming::nanos;
use crate::pictures::queue::queue;

/// Keeps what each listener was given.
#[derive(Clone, Default)]
struct Ears {
    streams: Arc<Mutex<Vec<Vec<u8>>>>,
    begins_again: bool,
}

struct Ear(Arc<Mutex<Vec<Vec<u8>>>>);

impl Listener for Ears {
    type Input = Ear;

    fn open(&self) -> io::Result<Ear> {
        self.streams.lock().unwrap().push(Vec::new());
        Ok(Ear(self.streams.clone()))
    }

    fn begins_again(&self) -> bool {
        self.begins_again
    }
}

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut streams = self.0.lock().unwrap();
        streams.last_mut().expect("one is open").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Input for Ear {
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) {}
}

/// A stream of pictures, and the deposit that puts them beside the sound.
struct Show {
    to: Box<dyn VideoSink>,
    live: LiveDeposit<Ears>,
    ears: Ears,
    counters: FilmCounters,
    shared: Arc<Shared>,
    /// Packets that wait to be sent: when, and what.
    packets: Vec<(i64, Vec<u8>, u32)>,
    encoding: EncodingName,
    ssrc: u32,
    /// How much later than the others a packet arrives, by its place.
    delay: fn(Duration) -> Duration,
    /// How long before its sound is played a packet arrives that is not late, in nanoseconds.
    ahead: i64,
    /// Sample frames that are stored at once.
    block: usize,
}

impl Show {
    fn new(clip: Clip, begins_again: bool) -> Self {
        let shared = Arc::new(Shared::default());
        let (to, from) = queue(shared.clone());
        let ears = Ears { begins_again, ..Ears::default() };
        let format = StreamFormat::new(48_000, 1).expect("a usual format");
        let live = LiveDeposit::new(ears.clone(), format, from, shared.clone(), Duration::from_millis(40));
        let counters = FilmCounters(shared.clone());
        let encoding = EncodingName::new("H264").expect("a word");
        let mut show = Show {
            to: Box::new(to),
            live,
            ears,
            counters,
            shared,
            packets: Vec::new(),
            encoding,
            ssrc: 0,
            delay: |_| Duration::ZERO,
            ahead: 80_000_000,
            block: 256,
        };
        show.cue(clip, 1);
        show
    }

    /// The pictures of a clip are sent, each packet 80 ms before its sound is played.
    fn cue(&mut self, clip: Clip, seed: u64) {
        let mut reader = clip.open().expect("a clip");
        let codec = reader.info().codec;
        self.encoding = EncodingName::new(codec.encoding_name()).expect("a word");
        let mut stream = VideoStream::new(self.encoding, 127, 0, seed);
        self.ssrc = stream.ssrc();
        let (mut cutter, mut buf) = (FrameCutter::new(codec, 1), [0; 1_500]);
        while let Some(frame) = reader.next_frame().expect("a good file") {
            let payloads: Vec<Vec<u8>> =
                cutter.cut(&frame, 1_400).expect("a frame").map(<[u8]>::to_vec).collect();
            for (n, payload) in payloads.iter().enumerate() {
                let marking = Marking {
                    start: n == 0,
                    end: n + 1 == payloads.len(),
                    independent: frame.picture.key,
                    discardable: frame.picture.droppable,
                    temporal_layer: frame.picture.temporal_layer,
                    ..Marking::default()
                };
                let ticks = frame.time.frames * u64::from(VIDEO_CLOCK) / u64::from(frame.time.rate);
                let made = stream.packet((ticks, marking), NtpTime::from_bits(1), payload, &mut buf);
                let len = made.expect("it fits");
                stream.advance();
                self.packets.push((nanos(ticks), buf[..len].to_vec(), stream.timestamp_at(ticks)));
            }
        }
        self.packets.reverse();
    }

    /// Plays up to this place of the sound; of the packets those arrive that `passes` says, given their place.
    fn play(&mut self, until: Duration, mut passes: impl FnMut(Duration) -> bool) {
        let block = vec![0.25; self.block];
        let (delay, ahead) = (self.delay, self.ahead);
        let arrives = move |place: i64| {
            place + delay(Duration::from_nanos(place.unsigned_abs())).as_nanos() as i64 - ahead
        };
        while self.live.now() < until {
            let now = self.live.now().as_nanos() as i64;
            while self.packets.last().is_some_and(|(place, ..)| arrives(*place) <= now) {
                let (place, packet, timestamp) = self.packets.pop().expect("it is there");
                if passes(Duration::from_nanos(place.unsigned_abs())) {
                    self.to.on_packet(&VideoArrived {
                        at: Instant::ZERO,
                        ssrc: self.ssrc,
                        encoding: self.encoding,
                        timestamp,
                        marker: false,
                        place: Some(place),
                        payload: &[],
                        packet: &packet,
                    });
                }
            }
            self.live.store(&block).expect("nothing fails");
        }
    }

    fn end(&mut self) {
        self.live.close().expect("nothing fails");
    }

    /// The pictures of a listener's stream.
    fn frames(&self, listener: usize) -> Vec<Frame> {
        let bytes = self.ears.streams.lock().unwrap()[listener].clone();
        let mut reader = VideoReader::open(io::Cursor::new(bytes), OpenOptions::default()).expect("Matroska");
        std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
    }

    /// Bytes of a listener's stream.
    fn bytes(&self, listener: usize) -> usize {
        self.ears.streams.lock().unwrap()[listener].len()
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn all(_place: Duration) -> bool {
    true
}

#[test]
fn each_picture_is_handed_over_when_its_sound_is() {
    let mut show = Show::new(Clip::H264, false);
    // The first picture comes with the first sound.
    show.play(ms(20), all);
    assert_eq!(show.counters.get().written, 1);
    show.play(ms(1_000), all);
    let written = show.counters.get().written;
    // 25 a second; those that others need are there up to two pictures early.
    assert!((25..=28).contains(&written), "{written}");
    show.play(ms(3_000), all);
    show.end();
    let frames = show.frames(0);
    assert_eq!(frames.len() as u64, show.counters.get().written);
    let mut places: Vec<u64> = frames.iter().map(|frame| frame.time.duration().as_millis() as u64).collect();
    places.sort_unstable();
    assert!(places.iter().enumerate().all(|(n, place)| place.abs_diff(40 * n as u64) <= 1), "{places:?}");
}

#[test]
fn what_is_broken_is_not_shown_nor_what_needs_it() {
    let mut show = Show::new(Clip::H264, false);
    // Nothing arrives of a stretch in which a picture begins that others need.
    let lost = |place: Duration| !(ms(400)..ms(520)).contains(&place);
    show.play(ms(700), lost);
    assert!(show.to.wants_key_frame(), "a key frame is asked for");
    show.play(ms(4_000), lost);
    assert!(!show.to.wants_key_frame());
    show.end();
    let mut places: Vec<u64> =
        show.frames(0).iter().map(|frame| frame.time.duration().as_millis() as u64).collect();
    places.sort_unstable();
    let gap: Vec<&u64> = places.iter().filter(|place| (400..1_995).contains(*place)).collect();
    assert!(gap.is_empty(), "nothing up to the key frame at 2 s: {gap:?}");
    assert!(places.iter().filter(|place| **place >= 1_995).count() >= 49, "all after it: {places:?}");
}

#[test]
fn a_receiver_that_comes_later_begins_with_a_key_frame_and_its_sound() {
    for begins_again in [false, true] {
        let mut show = Show::new(Clip::H264, begins_again);
        // The sound of the sink begins with the first packet that comes.
        show.packets.retain(|(place, ..)| *place >= 500_000_000);
        for (place, ..) in &mut show.packets {
            *place -= 500_000_000;
        }
        show.play(ms(1_400), all);
        assert!(show.to.wants_key_frame() && show.bytes(0) == 0, "nothing before a key frame");
        show.play(ms(3_000), all);
        assert_eq!(show.ears.streams.lock().unwrap().len(), 1);
        show.end();
        let frames = show.frames(0);
        assert!(frames[0].picture.key);
        // They begin with the part of the sound in which it is shown: 1.5 s are 64 sample frames after the beginning of one, 1.3 ms.
        assert_eq!(frames[0].time.duration(), ms(1), "times begin there");
        // The sound since then, 2 bytes a sample, and not what was before.
        let pictures: usize = frames.iter().map(|frame| frame.data.len()).sum();
        let sound = show.bytes(0) - pictures;
        assert!((140_000..200_000).contains(&sound), "{sound} bytes of 1.5 s of sound");
    }
}

impl Show {
    /// Plays up to this place while what came before it is sent again to a group, from the last key frame on, in 200 ms.
    fn play_with_repeats(&mut self, until: Duration, repeats: &[(i64, Vec<u8>, u32)]) {
        let steps = 20;
        let from = self.live.now();
        for step in 0..steps {
            let (begin, end) = (repeats.len() * step / steps, repeats.len() * (step + 1) / steps);
            for (place, packet, timestamp) in &repeats[begin..end] {
                self.to.on_repeat(&VideoArrived {
                    at: Instant::ZERO,
                    ssrc: self.ssrc,
                    encoding: self.encoding,
                    timestamp: *timestamp,
                    marker: false,
                    place: Some(*place),
                    payload: &[],
                    packet,
                });
            }
            self.play(from + ms(10) * (step as u32 + 1), all);
        }
        self.play(until, all);
    }

    /// The packets up to the first one of this place, in the order of sending.
    fn sent_before(&self, place: i64) -> Vec<(i64, Vec<u8>, u32)> {
        self.packets.iter().rev().take_while(|(at, ..)| *at < place).cloned().collect()
    }
}

#[test]
fn a_late_member_of_a_group_begins_with_what_is_sent_again() {
    let mut show = Show::new(Clip::H264, false);
    let joins = 700_000_000;
    for (place, ..) in &mut show.packets {
        *place -= joins;
    }
    // What was sent when the question came, 60 ms after it had joined.
    let repeats = show.sent_before(140_000_000);
    let missed = show.sent_before(0).len();
    show.packets.truncate(show.packets.len() - missed);
    assert!(show.to.wants_repeats(), "before anything came");
    show.play(ms(60), all);
    assert!(show.to.wants_repeats() && show.bytes(0) == 0);
    show.play_with_repeats(ms(500), &repeats);
    assert_eq!(
        (show.to.wants_repeats(), show.to.wants_key_frame()),
        (false, false),
        "{:?}",
        show.counters.get()
    );
    // Of 32 that were sent by then, those that were too late to be shown are left out if no other needs them.
    let counted = show.counters.get();
    assert!(counted.whole >= 30 && counted.written >= 15, "{counted:?}");
    show.play(ms(3_000), all);
    show.end();
    let counted = show.counters.get();
    // 92 pictures are sent in 3.7 s, 80 ms ahead.
    assert!((90..=95).contains(&counted.whole) && counted.broken == 0, "{counted:?}");
    assert_eq!(counted.packets_missing, 0);
    let frames = show.frames(0);
    assert!(frames[0].picture.key && frames.len() >= 75, "{}", frames.len());
}

#[test]
fn what_was_lost_is_used_when_it_is_sent_again_to_a_group() {
    let mut show = Show::new(Clip::H264, false);
    let sent = show.sent_before(780_000_000);
    show.play(ms(700), |place| !(ms(400)..ms(520)).contains(&place));
    assert!(show.to.wants_repeats());
    // The first of it is lost as well: the rest is of no use.
    show.play_with_repeats(ms(900), &sent[1..]);
    assert!(show.to.wants_repeats());
    let sent = show.sent_before(0).len();
    assert_eq!(sent, 0);
    let mut again = Show::new(Clip::H264, false).sent_before(980_000_000);
    show.play_with_repeats(ms(1_200), &again);
    assert!(!show.to.wants_repeats());
    // Who lacks nothing leaves it out.
    again.truncate(40);
    show.play_with_repeats(ms(1_500), &again);
    show.play(ms(3_900), all);
    show.end();
    let counted = show.counters.get();
    assert_eq!((counted.broken, counted.packets_missing), (0, 0), "{counted:?}");
    let mut places: Vec<u64> =
        show.frames(0).iter().map(|frame| frame.time.duration().as_millis() as u64).collect();
    places.sort_unstable();
    // Shown again with the picture of the moment, well before the key frame at 2 s.
    let later = places.iter().filter(|place| (1_200..1_990).contains(*place)).count();
    assert!(later >= 19, "{places:?}");
}

#[test]
fn without_pictures_the_sound_begins_alone_and_they_may_come_later() {
    for begins_again in [false, true] {
        let mut show = Show::new(Clip::H264, begins_again);
        show.play(ms(2_900), |place| place >= ms(1_900));
        // Half a second was waited for.
        let sound = show.bytes(0);
        assert!((48_000..250_000).contains(&sound), "{sound} bytes");
        show.end();
        let listeners = show.ears.streams.lock().unwrap().len();
        assert_eq!(listeners, if begins_again { 2 } else { 1 }, "a player is started again");
        match begins_again {
            true => assert!(show.frames(1).len() >= 20 && show.frames(1)[0].picture.key),
            false => assert_eq!(show.counters.get().written, 0),
        }
    }
}

#[test]
fn pictures_of_another_codec_start_a_player_again() {
    for begins_again in [false, true] {
        let mut show = Show::new(Clip::H264, begins_again);
        show.play(ms(1_000), all);
        show.packets.clear();
        show.cue(Clip::Vp8, 2);
        for (place, ..) in &mut show.packets {
            *place += 1_000_000_000;
        }
        show.play(ms(2_000), all);
        show.end();
        let listeners = show.ears.streams.lock().unwrap().len();
        assert_eq!(listeners, if begins_again { 2 } else { 1 });
        if begins_again {
            assert!(show.frames(1).iter().all(|frame| frame.codec == Codec::Vp8));
            assert!(show.frames(1).len() >= 20, "{}", show.frames(1).len());
        }
    }
}

/// Sound in blocks of 60 ms, as Opus may have it: each picture goes before the part of it that is heard with it.
#[test]
fn a_picture_is_handed_over_before_the_sound_of_its_time() {
    let mut show = Show::new(Clip::H264, false);
    show.block = 2_880;
    show.play(ms(3_000), all);
    show.end();
    let skew = show.counters.get().skew.expect("pictures were shown");
    assert!(skew.worst_ms == 0.0, "{skew:?}");
    // The samples before the first picture that begins a block of pictures at 2 s.
    let frames = show.frames(0);
    let key = frames.iter().rfind(|frame| frame.picture.key).expect("one at 2 s");
    let (bytes, end) = (show.ears.streams.lock().unwrap()[0].clone(), &key.data[key.data.len() - 12..]);
    let at = bytes.windows(12).rposition(|window| window == end).expect("it was written");
    let sound = bytes[..at].windows(2).filter(|pair| *pair == [0, 0x20]).count();
    let heard = sound as f64 / 48.0;
    assert!((1_970.0..=2_000.5).contains(&heard), "{heard} ms of sound before the picture of 2 s");
}

/// A playout delay that adapts makes the sound longer while pictures wait for their place in it.
#[test]
fn pictures_that_wait_are_moved_with_their_sound() {
    let mut show = Show::new(Clip::H264, false);
    // From the picture of 1 s on each says that the sound has become 60 ms longer; that is known at 0.8 s.
    show.ahead = 260_000_000;
    show.packets
        .iter_mut()
        .filter(|(place, ..)| *place >= 1_000_000_000)
        .for_each(|(place, ..)| *place += 60_000_000);
    show.play(ms(3_000), all);
    show.end();
    let frames = show.frames(0);
    let mut places: Vec<u64> = frames.iter().map(|frame| frame.time.duration().as_millis() as u64).collect();
    places.sort_unstable();
    let gap = places.windows(2).find(|pair| pair[1] - pair[0] > 60).expect("60 ms more sound");
    assert!((760..=920).contains(&gap[0]) && (98..=102).contains(&(gap[1] - gap[0])), "{places:?}");
    let skew = show.counters.get().skew.expect("pictures were shown");
    assert!(skew.worst_ms <= 80.0, "{skew:?}");
}

/// Pictures that come too late are not shown with other sound, but decoded, so that those after them can be shown; and it alarms.
#[test]
fn what_comes_too_late_waits_for_a_picture_that_does_not() {
    let mut show = Show::new(Clip::H264, false);
    show.delay = |place| if (ms(400)..ms(1_600)).contains(&place) { ms(300) } else { ms(0) };
    show.play(ms(450), all);
    let (before, is_in_sync) = (show.counters.get().written, show.counters.get().out_of_sync_ms.is_none());
    assert!((9..=13).contains(&before) && is_in_sync, "{before}");
    // 400 arrives at 620, and since then none is in time: the alarm comes within a second.
    show.play(ms(1_300), all);
    let late = show.counters.get();
    assert_eq!(late.written, before, "nothing is shown with other sound");
    assert!(late.out_of_sync_ms.is_some_and(|by| (215.0..270.0).contains(&by)), "{late:?}");
    show.play(ms(4_000), all);
    let after = show.counters.get();
    assert!(
        after.out_of_sync_ms.is_none() && after.skew.is_some_and(|skew| skew.worst_ms <= 80.0),
        "{after:?}"
    );
    // From 440 to 1 700 and more the picture of 400 or before stands still.
    assert!((1.2..1.6).contains(&after.frozen_s), "{after:?}");
    assert!(after.too_late >= 30, "{after:?}");
    show.end();
    let mut needed: Vec<u64> = show
        .frames(0)
        .iter()
        .filter(|frame| !frame.picture.droppable)
        .map(|frame| frame.time.duration().as_millis() as u64)
        .collect();
    needed.sort_unstable();
    assert!(
        needed.windows(2).all(|pair| pair[1] - pair[0] <= 81),
        "none is missing for decoding: {needed:?}"
    );
}

/// A player that was paused: what it could not be given is left out, but what the newest picture needs.
#[test]
fn after_a_pause_the_newest_key_frame_comes_first() {
    let mut show = Show::new(Clip::H264, false);
    show.play(ms(1_000), all);
    let before = show.counters.get().written;
    // Sound and pictures of five seconds come at once.
    let mut late = std::mem::take(&mut show.packets);
    let rest = late.split_off(late.partition_point(|(place, ..)| *place > 6_000_000_000));
    show.packets = late;
    for (place, packet, timestamp) in rest.into_iter().rev() {
        show.to.on_packet(&VideoArrived {
            at: Instant::ZERO,
            ssrc: show.ssrc,
            encoding: show.encoding,
            timestamp,
            marker: false,
            place: Some(place),
            payload: &[],
            packet: &packet,
        });
    }
    show.live.skip(5 * 48_000).expect("nothing fails");
    show.play(ms(7_000), all);
    show.end();
    let frames = show.frames(0);
    let next = &frames[before as usize];
    assert!(next.picture.key, "the key frame of the last whole stretch");
    assert!(next.time.duration() >= ms(3_900), "{:?}", next.time.duration());
    assert!(!show.shared.wants_key.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn pictures_of_next_week_take_little_memory() {
    let mut show = Show::new(Clip::H264Slow, false);
    show.play(ms(500), all);
    let packets = show.packets.clone();
    for _ in 0..12 {
        show.packets.clone_from(&packets);
        for (place, ..) in &mut show.packets {
            *place = 0;
        }
        for (_, packet, timestamp) in std::mem::take(&mut show.packets).into_iter().rev() {
            let place = Some(172_800_000_000_000);
            let (ssrc, encoding) = (show.ssrc, show.encoding);
            let marker = false;
            show.to.on_packet(&VideoArrived {
                at: Instant::ZERO,
                ssrc,
                encoding,
                timestamp,
                marker,
                place,
                payload: &[],
                packet: &packet,
            });
        }
        show.live.checkpoint().expect("nothing fails");
    }
    assert!(show.live.incoming.held_bytes() <= crate::pictures::film::incoming::MOST_HELD);
}
