//! Data beside sound and pictures: byte for byte where the transport loses nothing, holes in their places where it does, and never at the cost
//! of what comes before them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_core::{BitRate, Instant};
use antiphon_media::packet::DataPlace;
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_proto::TRANSPORTS;
use antiphon_session::{
    DataPiece, DataSink, DataSource, DataTrack, DataTrackConfig, DataTrackCounters, MOST_PIECE,
    SendTrackConfig, Session, SharedPath,
};
use antiphon_testkit::{Kept, Noise, World, expected, stereo};

use crate::common::{ms, track_config};
use crate::transits::Transits;
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{receive_session, send_session, send_session_within, world_of};

/// Bytes that are given as fast as they are taken.
pub struct Bytes {
    /// What is left; a deque, whose beginning is taken away without moving the rest.
    pub left: VecDeque<u8>,
    pub is_live: bool,
}

impl DataSource for Bytes {
    fn pull(&mut self) -> Option<DataPiece> {
        let len = self.left.len().min(MOST_PIECE);
        let bytes: Vec<u8> = self.left.drain(..len).collect();
        (len > 0).then(|| DataPiece::new(true, &bytes))
    }

    fn is_ended(&mut self) -> bool {
        self.left.is_empty() && !self.is_live
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}

/// What came: the bytes in their places, which of them, and the length, once it is known.
#[derive(Default)]
pub struct Got {
    pub bytes: Vec<u8>,
    pub has: Vec<bool>,
    pub length: Option<u64>,
}

#[derive(Clone, Default)]
pub struct Sink(pub Arc<Mutex<Got>>);

impl DataSink for Sink {
    fn on_piece(&mut self, place: DataPlace, bytes: &[u8]) {
        let mut got = self.0.lock().unwrap();
        let (begin, end) = (place.offset as usize, place.offset as usize + bytes.len());
        if got.bytes.len() < end {
            got.bytes.resize(end, 0);
            got.has.resize(end, false);
        }
        got.bytes[begin..end].copy_from_slice(bytes);
        got.has[begin..end].fill(true);
        if place.ends {
            got.length = Some(place.offset);
        }
    }
}

/// Bytes of which none is what stands a piece before or behind it.
pub fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

pub fn with_data(mut session: Session, bytes: Vec<u8>, change: impl FnOnce(&mut DataTrackConfig)) -> Session {
    add_data(&mut session, bytes, change);
    session
}

pub fn add_data(session: &mut Session, bytes: Vec<u8>, change: impl FnOnce(&mut DataTrackConfig)) {
    let sound = session.send_track().unwrap().packetiser().ssrc();
    let mut config =
        DataTrackConfig { track: 0, payload_type: 126, sound, seed: 5, rate: None, deadline: None };
    change(&mut config);
    session.add_data_track(DataTrack::new(Box::new(Bytes { left: bytes.into(), is_live: false }), config));
}

pub fn sent(session: &Session) -> DataTrackCounters {
    session.data_sent().next().unwrap()
}

const END: Instant = Instant::from_millis(120_000);
const FRAMES: u64 = 4 * 48_000;

#[test]
fn data_come_byte_for_byte_over_every_transport_beside_the_sound() {
    for transport in TRANSPORTS {
        let near = send_session(transport.scheme, stereo(), FRAMES, 5);
        let mut near = with_data(near, content(40_000), |_| {});
        near.set_congestion_manager(Box::new(SharedPath::new(2)));
        let (kept, sink) = (Kept::default(), Sink::default());
        let mut far = receive_session(transport.scheme, None, &kept);
        far.set_data_sink(Box::new(sink.clone()));
        let mut world = world_of(transport, near, far, ("delay=10ms", 3), (ms(10), 100_000));
        world.run(END);
        let name = transport.scheme;
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{name}: the sound");
        let got = sink.0.lock().unwrap();
        assert!(got.bytes == content(40_000) && got.has.iter().all(|has| *has), "{name}");
        assert_eq!(got.length, Some(40_000), "{name}");
        let sent = sent(&world.near);
        assert_eq!((sent.bytes, sent.expired, sent.refused, sent.ended), (40_000, 0, 0, true), "{name}");
    }
}

#[test]
fn what_a_transport_repairs_comes_whole_and_others_leave_holes() {
    let repairs =
        ["sctp?reliability=full", "arq?reliability=full", "srp?reliability=full", "xtp?reliability=full"];
    for name in repairs.into_iter().chain(["rtp"]) {
        let mut near = with_data(send_session(name, stereo(), FRAMES, 5), content(100_000), |_| {});
        near.set_congestion_manager(Box::new(SharedPath::new(2)));
        let (kept, sink) = (Kept::default(), Sink::default());
        let mut far = receive_session(name, None, &kept);
        far.set_data_sink(Box::new(sink.clone()));
        let mut world = World::linked(near, far, "delay=20ms,loss=5%,rate=4Mbit/s,queue=100kB", 7);
        world.run(END);
        let got = sink.0.lock().unwrap();
        let holes = got.has.iter().filter(|has| !**has).count() + 100_000 - got.has.len();
        assert_eq!(got.length, Some(100_000), "{name}");
        if repairs.contains(&name) {
            assert!(holes == 0 && got.bytes == content(100_000), "{name}: {holes} bytes are missing");
        } else {
            assert!((1_000..15_000).contains(&holes), "{name}: {holes} bytes are missing");
            let right = |at: usize| !got.has[at] || got.bytes[at] == content(100_000)[at];
            assert!((0..got.bytes.len()).step_by(97).all(right), "{name}: the rest is in its place");
        }
    }
}

/// How sound and pictures fared on a path of 1.5 Mbit/s, which they fill, or leave half empty.
struct Fared {
    /// 99 % of the sound waits no longer.
    wait: Duration,
    whole: usize,
    data: u64,
}

fn beside(interval: Duration, data: Option<usize>) -> Fared {
    let mono = StreamFormat::new(16_000, 1).unwrap();
    let packet = antiphon_media::packet::PacketConfig::new(mono, SampleFormat::L16, 320);
    let track = SendTrackConfig { packet, ..track_config(mono, 5) };
    let near = send_session_within("rtp", Noise::new(mono, 20 * 16_000), track, ms(200));
    let units = 20_000 / interval.as_millis() as u64;
    let near = with_pictures(near, Pictures::new(interval, 5, units).independent());
    let mut near = match data {
        Some(len) => with_data(near, content(len), |_| {}),
        None => near,
    };
    near.set_congestion_manager(Box::new(SharedPath::new(3)));
    let (kept, seen, sink) = (Kept::default(), Shared::default(), Sink::default());
    let mut far = receive_session("rtp", Some(ms(200)), &kept);
    far.set_video_sink(Box::new(seen.clone()));
    far.set_data_sink(Box::new(sink.clone()));
    let transits = Transits::of(&mut far);
    let mut world = World::linked(near, far, "delay=10ms,rate=1.5Mbit/s,queue=100kB", 3);
    world.run_until(Instant::from_millis(20_000));
    let data = world.far.data_received().map_or(0, |data| data.bytes);
    let wait = transits.waited(0.99);
    Fared { wait, whole: seen.whole(5).len(), data }
}

/// More data than the path carries in the time: the sound waits no longer than beside pictures alone, and no picture less is whole; the data get
/// what is left.
#[test]
fn data_cost_neither_the_sound_nor_the_pictures() {
    for (interval, least) in [(ms(40), 0), (ms(100), 600_000)] {
        let (alone, both) = (beside(interval, None), beside(interval, Some(4_000_000)));
        println!(
            "{interval:?}: alone {:?} {}, both {:?} {} {}",
            alone.wait, alone.whole, both.wait, both.whole, both.data
        );
        assert!(both.wait <= alone.wait.max(ms(20)) + ms(10), "{:?}, alone {:?}", both.wait, alone.wait);
        assert!(both.whole * 100 >= alone.whole * 98, "{} of {} pictures", both.whole, alone.whole);
        assert!(both.data >= least, "{} bytes of data", both.data);
    }
}

/// Over a stream of bytes nobody tells what the path carries: no more goes than over a channel of telephony, unless a rate is given.
#[test]
fn data_keep_their_rate() {
    for (name, rate, most) in
        [("tcp", None, 8_000.0), ("tcp", Some(200_000), 25_000.0), ("rtp", Some(80_000), 10_000.0)]
    {
        let near = send_session(name, stereo(), 10 * 48_000, 5);
        let mut near = with_data(near, content(400_000), |config| config.rate = rate.map(BitRate));
        near.set_congestion_manager(Box::new(SharedPath::new(2)));
        let (kept, sink) = (Kept::default(), Sink::default());
        let mut far = receive_session(name, None, &kept);
        far.set_data_sink(Box::new(sink.clone()));
        let transport = TRANSPORTS.iter().find(|one| one.scheme == name).unwrap();
        let mut world = world_of(transport, near, far, ("delay=10ms", 3), (ms(10), 100_000));
        world.run_until(Instant::from_millis(8_000));
        let bytes = sink.0.lock().unwrap().bytes.len() as f64;
        assert!((0.7 * 8.0 * most..=8.2 * most).contains(&bytes), "{name}, {rate:?}: {bytes} bytes in 8 s");
    }
}

/// Pieces that wait for longer than they are of use are left out, and what follows stands in its place.
#[test]
fn data_past_their_deadline_are_left_out() {
    let near = send_session("rtp", stereo(), FRAMES, 5);
    let near = with_data(near, content(60_000), |config| {
        (config.rate, config.deadline) = (Some(BitRate(80_000)), Some(ms(500)));
    });
    let (kept, sink) = (Kept::default(), Sink::default());
    let mut far = receive_session("rtp", None, &kept);
    far.set_data_sink(Box::new(sink.clone()));
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    let (sent, got) = (sent(&world.near), sink.0.lock().unwrap());
    assert!(sent.expired > 20 && sent.ended, "{sent:?}");
    assert_eq!(sent.pieces + sent.expired, 60_000_u64.div_ceil(MOST_PIECE as u64));
    assert_eq!(got.length, Some(60_000));
    assert_eq!(got.has.iter().filter(|has| **has).count() as u64, sent.bytes);
    assert!((0..got.bytes.len()).all(|at| !got.has[at] || got.bytes[at] == content(60_000)[at]));
}

/// A source that does not end ends with the sound; what it had given by then comes, and a receiver knows that it is all.
#[test]
fn a_live_source_ends_with_the_sound() {
    let mut near = send_session("rtp", stereo(), FRAMES, 5);
    let sound = near.send_track().unwrap().packetiser().ssrc();
    let config = DataTrackConfig { track: 2, payload_type: 126, sound, seed: 5, rate: None, deadline: None };
    near.add_data_track(DataTrack::new(
        Box::new(Bytes { left: content(1_000).into(), is_live: true }),
        config,
    ));
    let (kept, sink) = (Kept::default(), Sink::default());
    let mut far = receive_session("rtp", None, &kept);
    far.set_data_sink(Box::new(sink.clone()));
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    let got = sink.0.lock().unwrap();
    assert!(got.bytes == content(1_000) && got.length == Some(1_000));
    assert!(sent(&world.near).ended && world.now < Instant::from_millis(6_000));
}

/// A receiver that wants no data, and one that is never there, cost the sound nothing.
#[test]
fn data_that_nobody_takes_do_not_hold_up_the_sound() {
    let near = with_data(send_session("rtp", stereo(), FRAMES, 5), content(40_000), |_| {});
    let kept = Kept::default();
    let far = receive_session("rtp", None, &kept);
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
    assert!(world.far.data_received().is_none());
}
