use antiphon_core::{Epoch, Tag};
use antiphon_media::packet::EncodingName;

use super::*;
use crate::send_track::{NUMBER_BITS, NUMBER_MASK};

/// Units of three payloads, 40 ms apart: by kind, `k` a key, `p` one that others need, `d` one that none does.
struct Kinds {
    kinds: &'static [u8],
    at: (usize, u32),
    ended: bool,
}

impl VideoSource for Kinds {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.at;
        let kind = self.kinds.get(unit)?;
        let due = Duration::from_millis(40) * unit as u32;
        Some(VideoPayload {
            unit: unit as u64,
            part: (part, 3),
            due,
            shown: due,
            is_key: *kind == b'k',
            is_needed: *kind != b'd',
            layer: 0,
            bytes: b"picture",
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.at;
        self.at = if part == 2 { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        self.ended && self.at.0 == self.kinds.len()
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

fn track(kinds: &'static [u8]) -> VideoTrack {
    let config = VideoTrackConfig {
        encoding: EncodingName::new("VP8").unwrap(),
        payload_type: 97,
        sound: 1,
        epoch: Epoch::default(),
        seed: 1,
        max_packet: 100,
    };
    VideoTrack::new(Box::new(Kinds { kinds, at: (0, 0), ended: !kinds.is_empty() }), config)
}

const ORIGIN: Instant = Instant::from_millis(1_000);
const WAY: Way = Way {
    patience: Some(Duration::from_millis(100)),
    longest: None,
    rate: None,
    is_stream: false,
    is_missing: false,
    since: None,
    known: None,
};

/// Takes everything that is due at `now`; returns the units.
fn drain(track: &mut VideoTrack, now: u64) -> Vec<u64> {
    drain_over(track, now, WAY)
}

fn drain_over(track: &mut VideoTrack, now: u64, way: Way) -> Vec<u64> {
    let mut units = Vec::new();
    while let Some(packet) = track.poll(Instant::from_millis(now), ORIGIN, way) {
        let (due, len) = (packet.due, packet.bytes.len());
        units.push(packet.unit);
        track.on_sent(Instant::from_millis(now), due, len, (1, 0));
    }
    units.dedup();
    units
}

#[test]
fn packets_of_a_picture_are_spread_and_the_next_call_is_theirs() {
    let mut track = track(b"kkk");
    assert_eq!(drain(&mut track, 1_000), [0], "nothing is known of the interval yet");
    assert_eq!(track.next_call(ORIGIN), Some(Instant::from_millis(1_040)));
    drain(&mut track, 1_040);
    // A third of 20 ms after it, since pictures are 40 ms apart.
    assert_eq!(track.next_call(ORIGIN), Some(Instant::from_nanos(1_046_666_666)));
    drain(&mut track, 1_060);
    drain(&mut track, 1_100);
    assert_eq!((track.next_call(ORIGIN), track.is_drained()), (None, true));
    assert_eq!(track.counters().packets, 9);
}

#[test]
fn what_is_late_is_left_out_with_all_that_needs_it() {
    // At 1 s + 250 ms, units before 150 ms are late: 0 to 3. Unit 4 needs them, 5 as well; 6 is a key.
    let mut track = track(b"kppdppkp");
    assert_eq!(drain(&mut track, 1_250), [6]);
    assert_eq!((track.counters().left_out, track.counters().units), (6, 1));
    assert_eq!(drain(&mut track, 1_300), [6, 7], "the rest of 6, and what needs it alone");
}

#[test]
fn one_that_nobody_needs_is_left_out_alone() {
    let mut track = track(b"kddddddp");
    drain(&mut track, 1_000);
    assert_eq!(drain(&mut track, 1_250), [4, 5, 6], "1 to 3 are late");
    assert_eq!(track.counters().left_out, 3);
    assert_eq!(drain(&mut track, 1_300), [6, 7]);
}

#[test]
fn a_picture_waits_while_the_transport_has_an_old_one() {
    let mut track = track(b"kpp");
    let longest = Some(Duration::from_millis(50));
    let at = Instant::from_millis;
    while let Some(packet) = track.poll(at(1_030), ORIGIN, Way { longest, ..WAY }) {
        let due = packet.due;
        track.on_sent(at(1_030), due, 1, (1, 0));
    }
    assert!(track.poll(at(1_060), ORIGIN, Way { longest, ..WAY }).is_none(), "unit 0 is open since 60 ms");
    assert_eq!(track.next_call(ORIGIN), Some(at(1_065)));
    for _ in 0..3 {
        let (index, unit) = video_of(video_tag(5, 0)).unwrap();
        assert_eq!(index, 5);
        track.on_outcome(at(1_064), unit, false);
    }
    assert_eq!(track.poll(at(1_065), ORIGIN, Way { longest, ..WAY }).map(|packet| packet.unit), Some(1));
}

#[test]
fn pictures_wait_for_a_way_until_they_are_late() {
    let missing = Way { is_missing: true, ..WAY };
    let mut track = track(b"kpppkp");
    assert_eq!(drain_over(&mut track, 1_030, missing), [0; 0]);
    assert_eq!(
        (track.next_call(ORIGIN), track.counters()),
        (Some(Instant::from_millis(1_035)), VideoTrackCounters::default())
    );
    // A way that comes within half a second is not too late for it.
    assert_eq!(drain_over(&mut track, 1_590, missing), [0; 0]);
    assert_eq!(track.counters().left_out, 0);
    // Unit 0 is late at 1.6 s, and the three that need it with it.
    assert_eq!(drain_over(&mut track, 1_650, missing), [0; 0]);
    assert_eq!(track.counters().left_out, 2, "0 and 1 are late, 2 is not yet");
    let came = Way { since: Some(Instant::from_millis(1_655)), ..WAY };
    assert_eq!(drain_over(&mut track, 1_655, came), [4, 5]);
    assert_eq!((track.counters().left_out, track.counters().units), (4, 2));
}

/// It is asked again and again meanwhile.
#[test]
fn the_first_picture_waits_for_a_way_that_opens_soon() {
    let missing = Way { is_missing: true, ..WAY };
    let mut track = track(b"kppppppppppp");
    for now in (1_000..1_400).step_by(5) {
        assert_eq!(drain_over(&mut track, now, missing), [0; 0]);
    }
    let open = Way { since: Some(Instant::from_millis(1_400)), ..WAY };
    assert_eq!(drain_over(&mut track, 1_400, open), (0..=10).collect::<Vec<_>>());
}

/// A file that is read late begins late, and not at its second key frame.
#[test]
fn the_first_picture_waits_for_its_source() {
    let mut track = track(b"");
    for now in (1_000..1_300).step_by(5) {
        assert_eq!(drain(&mut track, now), [0; 0]);
    }
    track.source = Box::new(Kinds { kinds: b"kppppppppp", at: (0, 0), ended: true });
    assert_eq!(drain(&mut track, 1_300), (0..=7).collect::<Vec<_>>());
}

#[test]
fn the_first_pictures_are_of_use_when_the_way_is_there() {
    let since = Some(Instant::from_millis(1_400));
    let mut first = track(b"kppkpppppppp");
    // It took 400 ms: without more, all up to the unit of 300 ms were late, and none of the others could be decoded.
    assert_eq!(drain(&mut first, 1_400), [0; 0]);
    let mut waited = track(b"kppkpppppppp");
    assert_eq!(drain_over(&mut waited, 1_400, Way { since, ..WAY }), (0..=10).collect::<Vec<_>>());
    // Those of long before are not.
    let since = Some(Instant::from_millis(1_600));
    let mut late = track(b"kppkpppppppp");
    assert_eq!(drain_over(&mut late, 1_600, Way { since, ..WAY }), (3..=11).collect::<Vec<_>>());
}

/// What waited until the paths of a group were known is sent, as far as those that follow need it; a key frame of which the next one has come is not.
#[test]
fn pictures_that_others_need_wait_until_the_paths_of_a_group_are_known() {
    for (kinds, sent) in [(&b"kpppppppp"[..], (0..=8).collect::<Vec<_>>()), (&b"kkkkkkkkk"[..], vec![0, 8])] {
        let mut track = track(kinds);
        for now in (1_000..1_400).step_by(5) {
            // Only the first packet may leave meanwhile.
            let way = Way { known: Some(Instant::from_millis(now)), ..WAY };
            if now == 1_000 {
                assert_eq!(
                    track.poll(Instant::from_millis(now), ORIGIN, way).map(|packet| packet.unit),
                    Some(0)
                );
            }
            track.hold(Instant::from_millis(now + 5));
            assert!(track.poll(Instant::from_millis(now), ORIGIN, way).is_none());
        }
        assert_eq!(track.counters().left_out, 0);
        let known = Way { known: Some(Instant::from_millis(1_400)), ..WAY };
        assert_eq!(drain_over(&mut track, 1_400, known), sent);
    }
}

/// The next picture waits in front of a slow stream, however late it gets, until there is a newer one.
#[test]
fn over_a_slow_stream_one_picture_is_sent_after_the_other() {
    // 21 bytes of payload take 120 ms.
    let (patience, longest) = (Some(Duration::from_millis(20)), Some(Duration::from_millis(30)));
    let slow = Way { patience, longest, rate: Some(175.0), is_stream: true, ..WAY };
    let mut track = track(b"kdddk");
    assert_eq!(drain_over(&mut track, 1_000, slow), [0]);
    for now in (1_040..1_130).step_by(5) {
        assert_eq!(drain_over(&mut track, now, slow), [0; 0], "{now}: unit 0 is under way");
    }
    (0..3).for_each(|_| track.on_outcome(Instant::from_millis(1_130), 0, false));
    assert_eq!(drain_over(&mut track, 1_130, slow), [3], "the newest");
    assert_eq!((track.counters().left_out, track.counters().units), (2, 2));
    // What it has begun it finishes, however late: without a deadline.
    let mut begun = self::track(b"kd");
    let packet = |track: &mut VideoTrack, now| {
        let packet = track.poll(Instant::from_millis(now), ORIGIN, slow).expect("a packet");
        let (unit, due, deadline, len) = (packet.unit, packet.due, packet.deadline, packet.bytes.len());
        track.on_sent(Instant::from_millis(now), due, len, (1, 0));
        (unit, deadline)
    };
    assert_eq!(packet(&mut begun, 1_000), (0, None));
    begun.on_blocked(Instant::from_millis(1_000));
    assert_eq!(packet(&mut begun, 1_900), (0, None), "the second packet of three");
    // Without that, each would stand behind the one before it.
    let mut other = self::track(b"kdddk");
    let others = Way { is_stream: false, ..slow };
    let begun: Vec<u64> =
        (1_000..1_290).step_by(5).flat_map(|now| drain_over(&mut other, now, others)).collect();
    assert!(begun.contains(&1), "{begun:?}");
}

/// A stream of bytes that takes a picture at once, and two of three packets of the next one within 90 ms.
#[test]
fn how_fast_a_transport_takes_pictures_is_seen() {
    let mut track = track(b"kkk");
    let at = Instant::from_millis;
    drain(&mut track, 1_000);
    let before = track.counters().bytes;
    for _ in 0..3 {
        track.on_outcome(at(1_004), 0, false);
    }
    assert_eq!(track.rate_taken(), None, "it took them at once");
    drain(&mut track, 1_060);
    let bytes = (track.counters().bytes - before) as f64;
    for (millis, expired) in [(1_070, false), (1_080, false), (1_150, true)] {
        track.on_outcome(at(millis), 1, expired);
    }
    // Two of three packets in 90 ms are a quarter of what is known.
    let pace = 0.09 / (2.0 / 3.0 * bytes) / 4.0;
    let rate = track.rate_taken().expect("it took its time");
    assert!((rate * pace - 1.0).abs() < 1e-6, "{rate}");
}

#[test]
fn a_packet_that_finds_no_room_is_given_again_until_it_is_late() {
    let mut track = track(b"kkdk");
    let at = Instant::from_millis;
    assert_eq!(drain(&mut track, 1_000), [0]);
    let first = track.poll(at(1_040), ORIGIN, WAY).map(|packet| packet.bytes.to_vec());
    track.on_blocked(at(1_040));
    assert!(track.poll(at(1_041), ORIGIN, WAY).is_none());
    assert_eq!(track.next_call(ORIGIN), Some(at(1_045)));
    let again = track.poll(at(1_045), ORIGIN, WAY).map(|packet| packet.bytes.to_vec());
    assert!(first.is_some() && first == again, "the same number");
    track.on_blocked(at(1_045));
    // After 100 ms the rest of it is left out, and what needs it; the next key is sent.
    assert_eq!(drain(&mut track, 1_150), [3]);
    assert_eq!((track.counters().units, track.counters().left_out), (2, 2));
}

#[test]
fn the_first_picture_is_finished_though_it_is_late() {
    let blocked = || {
        let mut track = track(b"kdk");
        assert!(track.poll(ORIGIN, ORIGIN, WAY).is_some());
        track.on_blocked(ORIGIN);
        track
    };
    let mut late = blocked();
    assert_eq!(drain(&mut late, 1_110), [0, 1, 2]);
    assert_eq!((late.counters().units, late.counters().left_out), (3, 0));
    // Not for ever.
    let mut too_late = blocked();
    assert_eq!(drain(&mut too_late, 1_700), []);
    assert_eq!((too_late.counters().units, too_late.counters().left_out), (0, 3));
}

#[test]
fn what_does_not_fit_is_refused_alone() {
    let mut track = track(b"k");
    track.buf.truncate(10);
    assert!(drain(&mut track, 1_100).is_empty());
    assert_eq!((track.counters().refused, track.is_drained()), (3, true));
}

#[test]
fn tags_of_sound_are_none_of_pictures() {
    assert_eq!((video_of(Tag::NONE), video_of(Tag(255 << NUMBER_BITS | 7))), (None, None));
    assert_eq!(video_of(video_tag(255, u64::MAX)), Some((255, NUMBER_MASK)));
}
