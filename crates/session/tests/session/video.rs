//! Pictures beside sound: each arrives whole over every transport and is placed where it was captured; what nobody could still
//! show is left out in whole pictures, and the sound goes first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};
use antiphon_media::packet::EncodingName;
use antiphon_media::rtcp::PictureLoss;
use antiphon_proto::TRANSPORTS;
use antiphon_session::{
    Budget, CongestionManager, Session, TrackId, VideoArrived, VideoPayload, VideoSink, VideoSource,
    VideoTrack, VideoTrackConfig, VideoWay,
};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::world::{
    MAX_DATAGRAM, World, heard, ms, receive_session, send_session, send_session_with, send_session_within,
    track_config, world_of,
};

const END: Instant = Instant::from_millis(60_000);
const FRAMES: u64 = 4 * 48_000;

/// Pictures of so many payloads, one each `interval`; each sixth one is a key unless said otherwise.
pub struct Pictures {
    interval: Duration,
    parts: u32,
    units: u64,
    /// Whether the pictures between keys need one another.
    chained: bool,
    /// Each so many-th one is a key.
    keys: u64,
    next: (u64, u32),
    bytes: Vec<u8>,
    /// When the first one is due.
    start: Duration,
}

impl Pictures {
    pub fn new(interval: Duration, parts: u32, units: u64) -> Box<Self> {
        Pictures::of_parts(interval, parts, units, 1000)
    }

    /// Each so many-th one is a key.
    pub fn keys(self, keys: u64) -> Box<Self> {
        Box::new(Pictures { keys, ..self })
    }

    /// None needs another one.
    pub fn independent(self) -> Box<Self> {
        Box::new(Pictures { chained: false, keys: 1, ..self })
    }

    /// The same with payloads of so many bytes.
    pub fn of_parts(interval: Duration, parts: u32, units: u64, bytes: usize) -> Box<Self> {
        Box::new(Pictures {
            interval,
            parts,
            units,
            chained: true,
            keys: 6,
            next: (0, 0),
            bytes: vec![0; bytes],
            start: Duration::ZERO,
        })
    }

    /// The first one is due at this time of the sound.
    pub fn from(self, start: Duration) -> Box<Self> {
        Box::new(Pictures { start, ..self })
    }
}

impl VideoSource for Pictures {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.next;
        if unit == self.units {
            return None;
        }
        self.bytes.fill(unit as u8);
        self.bytes[0] = part as u8;
        let due = self.start + self.interval * unit as u32;
        let is_key = unit.is_multiple_of(self.keys);
        Some(VideoPayload {
            unit,
            part: (part, self.parts),
            due,
            shown: due,
            is_key,
            is_needed: is_key || self.chained,
            layer: 0,
            bytes: &self.bytes,
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.next;
        self.next = if part + 1 == self.parts { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        self.next.0 == self.units
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// What a sink was given: of each time stamp the parts, whether the last one came, and where it belongs.
#[derive(Default)]
pub struct Seen {
    units: BTreeMap<u32, (Vec<u8>, bool, Option<i64>)>,
    duplicates: usize,
    packets: usize,
    /// Of the track.
    pub ssrc: u32,
    /// RTP's number of each packet.
    pub numbers: Vec<u16>,
    /// The unit of each packet, as its bytes tell.
    pub order: Vec<u8>,
    /// Packets after which a key frame is wanted.
    pub wants_after: Option<usize>,
    /// A member of a group that wants packets again until those of a key frame have come.
    pub wants_repeats: bool,
    /// What was sent again to a group: RTP's numbers, the units, and when.
    pub again: Vec<(u16, u8, antiphon_core::Instant)>,
    /// Bytes of a payload.
    bytes: Option<usize>,
}

#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Seen>>);

impl VideoSink for Shared {
    fn on_packet(&mut self, packet: &VideoArrived<'_>) {
        assert_eq!(packet.encoding.as_str(), "H264");
        let mut seen = self.0.lock().unwrap();
        let bytes = *seen.bytes.get_or_insert(packet.payload.len());
        assert_eq!(bytes, packet.payload.len(), "all are of one length");
        let unit = seen.units.entry(packet.timestamp).or_default();
        let is_new = !unit.0.contains(&packet.payload[0]);
        unit.0.push(packet.payload[0]);
        unit.1 |= packet.marker;
        unit.2 = packet.place.or(unit.2);
        seen.duplicates += usize::from(!is_new);
        seen.packets += 1;
        seen.ssrc = packet.ssrc;
        seen.numbers.push(u16::from_be_bytes([packet.packet[2], packet.packet[3]]));
        seen.order.push(packet.payload[1]);
    }

    fn wants_key_frame(&self) -> bool {
        let seen = self.0.lock().unwrap();
        seen.wants_after.is_some_and(|packets| seen.packets >= packets)
    }

    fn wants_repeats(&self) -> bool {
        let seen = self.0.lock().unwrap();
        seen.wants_repeats && seen.again.is_empty()
    }

    fn on_repeat(&mut self, packet: &VideoArrived<'_>) {
        let mut seen = self.0.lock().unwrap();
        assert_eq!(
            (packet.ssrc, packet.packet[8..12].to_vec()),
            (seen.ssrc, seen.ssrc.to_be_bytes().to_vec())
        );
        let number = u16::from_be_bytes([packet.packet[2], packet.packet[3]]);
        seen.again.push((number, packet.payload[1], packet.at));
    }
}

impl Shared {
    /// Whether the first picture of which anything came has so many parts, and its end.
    pub fn is_first_whole(&self, parts: usize) -> bool {
        let seen = self.0.lock().unwrap();
        seen.units.values().next().is_some_and(|unit| unit.0.len() == parts && unit.1)
    }

    /// Where whole pictures of so many parts belong.
    pub fn whole(&self, parts: usize) -> Vec<Option<i64>> {
        let seen = self.0.lock().unwrap();
        seen.units.values().filter(|unit| unit.0.len() == parts && unit.1).map(|unit| unit.2).collect()
    }
}

pub fn config(sound: u32) -> VideoTrackConfig {
    VideoTrackConfig {
        encoding: EncodingName::new("H264").unwrap(),
        payload_type: 100,
        sound,
        epoch: Epoch::default(),
        seed: 3,
        max_packet: MAX_DATAGRAM,
    }
}

pub fn with_pictures(session: Session, pictures: Box<Pictures>) -> Session {
    with_track(session, pictures)
}

pub fn with_track(mut session: Session, pictures: Box<dyn VideoSource>) -> Session {
    let sound = session.send_track().unwrap().packetiser().ssrc();
    session.add_video_track(VideoTrack::new(pictures, config(sound)));
    session
}

#[test]
fn pictures_arrive_over_every_transport_and_are_placed_in_the_sound() {
    for transport in TRANSPORTS {
        let near = send_session(transport.scheme, stereo(), FRAMES, 5);
        let near = with_pictures(near, Pictures::new(ms(40), 4, 95));
        let (kept, seen) = (Kept::default(), Shared::default());
        let mut far = receive_session(transport.scheme, None, &kept);
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = world_of(transport, near, far, ("delay=10ms", 3), (ms(10), 100_000));
        world.run(END);
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{}: the sound", transport.scheme);
        let whole = seen.whole(4);
        assert_eq!(whole.len(), 95, "{}", transport.scheme);
        assert_eq!(seen.0.lock().unwrap().bytes, Some(1000), "{}", transport.scheme);
        for (n, place) in whole.iter().enumerate() {
            // Nothing is known of the sound before its first packet.
            let Some(place) = place else {
                assert!(n < 2, "{}: picture {n} has no place", transport.scheme);
                continue;
            };
            let expected = n as i64 * 40_000_000;
            assert!((place - expected).abs() < 100_000, "{}: {n} at {place}", transport.scheme);
        }
        let sent = world.near.video_sent().next().unwrap();
        assert_eq!((sent.units, sent.left_out, sent.packets, sent.refused), (95, 0, 380, 0));
        assert_eq!(world.far.video_received().unwrap().packets, 380);
    }
}

#[test]
fn a_receiver_without_a_sink_for_pictures_is_told_of_them_once() {
    let near = with_pictures(send_session("rtp", stereo(), FRAMES, 5), Pictures::new(ms(40), 4, 95));
    let kept = Kept::default();
    let mut world = World::linked(near, receive_session("rtp", None, &kept), "delay=10ms", 3);
    world.run(END);
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
    let notices = crate::stream::notices(&mut world.far);
    let pictures = notices.iter().filter(|notice| **notice == antiphon_session::Notice::Pictures).count();
    assert_eq!((pictures, heard(&world.far).counters().pictures), (1, 380));
    assert_eq!(heard(&world.far).counters().unknown_format, 0);
}

/// A link that carries the sound and a third of the pictures: those that are too late are left out whole, and what depends on
/// them. Each that is sent arrives whole.
#[test]
fn what_comes_too_late_is_left_out_in_whole_pictures() {
    for (chained, least) in [(true, 20), (false, 25)] {
        let config = track_config(stereo(), 5);
        let near = send_session_within("sctp", Noise::new(stereo(), FRAMES), config, ms(300));
        let pictures = Pictures { chained, ..*Pictures::new(ms(40), 24, 95) };
        let near = with_pictures(near, Box::new(pictures));
        let (kept, seen) = (Kept::default(), Shared::default());
        let mut far = receive_session("sctp", Some(ms(300)), &kept);
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = World::linked(near, far, "delay=5ms,rate=3.5Mbit/s,queue=60kB", 3);
        world.run(END);
        let sent = world.near.video_sent().next().unwrap();
        let whole = seen.whole(24).len() as u64;
        assert_eq!(sent.units + sent.left_out, 95);
        assert!(sent.left_out > 30, "{sent:?}");
        assert!(whole >= least, "chained {chained}: {whole} whole, {sent:?}");
        // The sound goes first here, and has 137 ms of the pictures before it in the router; without priority, 21 packets of
        // 750 come too late.
        let playout = heard(&world.far).playout().unwrap();
        assert!(playout.lost + playout.late <= 7, "chained {chained}: {playout:?}");
    }
}

/// Grants pictures so many bytes each 50 ms, and notes when it was asked for them.
struct Metered(Arc<Mutex<Vec<Instant>>>);

impl CongestionManager for Metered {
    fn budget(&mut self, now: Instant, track: TrackId) -> Budget {
        if track == TrackId::SOUND {
            return Budget::All;
        }
        self.0.lock().unwrap().push(now);
        Budget::Bytes(1, now + ms(50))
    }
}

#[test]
fn pictures_leave_as_they_are_granted() {
    let near = send_session("rtp", stereo(), FRAMES, 5);
    let mut near = with_pictures(near, Pictures::new(ms(40), 4, 20));
    let asked = Arc::new(Mutex::new(Vec::new()));
    near.set_congestion_manager(Box::new(Metered(asked.clone())));
    let (kept, seen) = (Kept::default(), Shared::default());
    let mut far = receive_session("rtp", None, &kept);
    far.set_video_sink(Box::new(seen.clone()));
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    assert_eq!(seen.whole(4).len(), 20, "a recording gets all, later");
    let asked = asked.lock().unwrap();
    // Each grant is one packet.
    assert!(asked.len() >= 80, "{}", asked.len());
    let shortest = asked.windows(2).map(|pair| pair[1].since(pair[0])).min();
    assert!(shortest >= Some(ms(50)), "{shortest:?}");
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}

/// A queue has room for 512 packets of pictures; a picture of more waits for it, and none of a recording is lost.
#[test]
fn a_picture_larger_than_a_queue_arrives_whole() {
    for name in
        ["sctp?reliability=full", "arq?reliability=full", "xtp?reliability=full", "srp?reliability=full"]
    {
        let near = with_pictures(send_session(name, stereo(), FRAMES, 5), Pictures::new(ms(500), 1_300, 3));
        let (kept, seen) = (Kept::default(), Shared::default());
        let mut far = receive_session(name, None, &kept);
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = World::linked(near, far, "delay=5ms,rate=20Mbit/s", 3);
        world.run(END);
        let sent = world.near.video_sent().next().unwrap();
        assert_eq!((sent.units, sent.refused, sent.left_out), (3, 0, 0), "{name}");
        assert_eq!(world.far.video_received().unwrap().packets, 3_900, "{name}: {sent:?}");
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{name}");
    }
}

/// The first of several tracks of a sender is received, and not a mixture of them.
#[test]
fn one_track_of_several_is_received() {
    let near = with_pictures(send_session("rtp", stereo(), FRAMES, 5), Pictures::new(ms(40), 2, 95));
    let sound = near.send_track().unwrap().packetiser().ssrc();
    let (mut near, other) = (near, Pictures::new(ms(40), 2, 95));
    near.add_video_track(VideoTrack::new(other, VideoTrackConfig { seed: 4, ..config(sound) }));
    let (kept, seen) = (Kept::default(), Shared::default());
    let mut far = receive_session("rtp", None, &kept);
    far.set_video_sink(Box::new(seen.clone()));
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    let received = world.far.video_received().unwrap();
    assert_eq!((received.packets, received.others, seen.whole(2).len()), (190, 190, 95));
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}

/// An attacker on the path can claim any time of the sender's clock.
#[test]
fn a_wild_clock_of_pictures_is_only_a_wild_place() {
    let near = send_session_with("rtp", Noise::new(stereo(), FRAMES), track_config(stereo(), 5));
    let mut near = with_pictures(near, Pictures::new(ms(40), 1, 95));
    let (kept, seen) = (Kept::default(), Shared::default());
    let mut far = receive_session("rtp", None, &kept);
    far.set_video_sink(Box::new(seen.clone()));
    near.set_epoch(Epoch { ntp_at_zero: NtpTime::from_bits(u64::MAX / 2) });
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(Instant::from_millis(1_000));
    world.near.set_epoch(Epoch { ntp_at_zero: NtpTime::from_bits(3) });
    world.run(END);
    assert_eq!(seen.whole(1).len(), 95);
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}

/// A receiver that can decode nothing asks for a key frame at once, and again at growing distances; one that can, never.
#[test]
fn a_receiver_without_a_key_frame_asks_for_one() {
    for (wants_after, questions) in [(Some(20), 4), (None, 0)] {
        let near = with_pictures(send_session("rtp", stereo(), FRAMES, 5), Pictures::new(ms(40), 2, 95));
        let (kept, seen) = (Kept::default(), Shared::default());
        seen.0.lock().unwrap().wants_after = wants_after;
        let mut far = receive_session("rtp", None, &kept);
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = World::linked(near, far, "delay=10ms", 3);
        let asked =
            world.log(|leaving| PictureLoss::parse(leaving.bytes).map(|asked| (leaving.at, asked.pictures)));
        world.run(END);
        let asked: Vec<_> = asked.borrow().iter().flatten().copied().collect();
        assert_eq!(asked.len(), questions, "{asked:?}");
        if let [(first, pictures), rest @ ..] = &asked[..] {
            assert!(*first < Instant::from_millis(500) && *pictures != 0, "{first:?}");
            let after: Vec<_> = rest.iter().map(|(at, _)| at.since(*first).as_millis() / 250).collect();
            assert_eq!(after, [1, 3, 7], "{asked:?}");
        }
        // A sender of a file goes on as before, and takes the question for no fault.
        assert!(kept.samples() == expected(stereo(), 0, FRAMES));
        assert_eq!(world.near.video_sent().next().unwrap().units, 95);
    }
}
