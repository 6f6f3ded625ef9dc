//! Several tracks of pictures beside one sound: each comes into a sink of its own, and each gives way to those before it.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::packet::PacketConfig;
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_proto::TRANSPORTS;
use antiphon_session::{SendTrackConfig, Session, SharedPath, VideoTrack, VideoTrackConfig};
use antiphon_testkit::{Kept, Noise, World, expected, stereo};

use crate::transits::Transits;
use crate::video::{Pictures, Shared, config};
use crate::wired::Wired;
use crate::world::{ms, receive_session, send_session, send_session_within, track_config, world_of};

const END: Instant = Instant::from_millis(60_000);
const FRAMES: u64 = 4 * 48_000;

/// Adds tracks in the order of their precedence.
fn with_tracks(mut session: Session, tracks: impl IntoIterator<Item = Box<Pictures>>) -> Session {
    let sound = session.send_track().unwrap().packetiser().ssrc();
    for (seed, pictures) in (3..).zip(tracks) {
        session.add_video_track(VideoTrack::new(pictures, VideoTrackConfig { seed, ..config(sound) }));
    }
    session
}

/// Has a session receive so many tracks.
fn sinks(session: &mut Session, count: usize) -> Vec<Shared> {
    let sinks: Vec<Shared> = (0..count).map(|_| Shared::default()).collect();
    sinks.iter().for_each(|sink| session.add_video_sink(Box::new(sink.clone())));
    sinks
}

/// A track of payloads of a length of its own: a sink panics where it is given those of another.
fn of_length(bytes: usize, units: u64) -> Box<Pictures> {
    Pictures::of_parts(ms(40), 4, units, bytes)
}

#[test]
fn each_track_comes_into_a_sink_of_its_own_over_every_transport() {
    for transport in TRANSPORTS {
        let name = transport.scheme;
        let near = send_session(name, stereo(), FRAMES, 5);
        let mut near = with_tracks(near, [of_length(900, 95), of_length(500, 90), of_length(300, 85)]);
        near.set_congestion_manager(Box::new(SharedPath::new(4)));
        let kept = Kept::default();
        let mut far = receive_session(name, None, &kept);
        let seen = sinks(&mut far, 3);
        let mut world = world_of(transport, near, far, ("delay=10ms", 3), (ms(10), 100_000));
        world.run(END);
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{name}: the sound");
        for (seen, count) in seen.iter().zip([95, 90, 85]) {
            let whole = seen.whole(4);
            assert_eq!(whole.len(), count, "{name}");
            for (n, place) in whole.iter().enumerate().skip(2) {
                let place = place.unwrap_or_else(|| panic!("{name}: picture {n} has no place"));
                assert!((place - n as i64 * 40_000_000).abs() < 100_000, "{name}: {n} at {place}");
            }
        }
        assert_eq!(world.far.video_received().unwrap().packets, 4 * (95 + 90 + 85), "{name}");
    }
}

#[test]
fn a_receiver_of_one_track_gets_the_first() {
    let near = send_session("rtp", stereo(), FRAMES, 5);
    let near = with_tracks(near, [of_length(900, 95), of_length(500, 95)]);
    let kept = Kept::default();
    let mut far = receive_session("rtp", None, &kept);
    let seen = sinks(&mut far, 1);
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(END);
    let received = world.far.video_received().unwrap();
    assert_eq!((seen[0].whole(4).len(), received.packets, received.others), (95, 380, 380));
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}

#[test]
fn all_tracks_go_over_the_transport_of_the_pictures() {
    let names = [("rtp", "delay=10ms"), ("sctp", "delay=10ms")];
    let first = Shared::default();
    let mut world = Wired::with_pictures_apart(&names, None, of_length(900, 95), Box::new(first.clone()));
    let second = Shared::default();
    world.far.add_video_sink(Box::new(second.clone()));
    let sound = world.near.send_track().unwrap().packetiser().ssrc();
    let other = VideoTrackConfig { seed: 4, ..config(sound) };
    world.near.add_video_track(VideoTrack::new(of_length(500, 95), other));
    world.end_flawless();
    assert_eq!((first.whole(4).len(), second.whole(4).len()), (95, 95));
    let ended = world.near.video_sent().map(|sent| sent.units).collect::<Vec<_>>();
    assert_eq!(ended, [95, 95]);
}

/// How the sound and each track fared on a path of 1.5 Mbit/s.
struct Fared {
    /// 99 % of the sound waits no longer.
    wait: Duration,
    whole: Vec<usize>,
}

/// Sound of 0.35 Mbit/s and tracks of pictures each so far apart, of 5 kB.
fn beside(intervals: &[Duration]) -> Fared {
    let mono = StreamFormat::new(16_000, 1).unwrap();
    let packet = PacketConfig::new(mono, SampleFormat::L16, 320);
    let track = SendTrackConfig { packet, ..track_config(mono, 5) };
    let near = send_session_within("rtp", Noise::new(mono, 20 * 16_000), track, ms(200));
    let pictures = |interval: &Duration| {
        let units = 20_000 / interval.as_millis() as u64;
        Pictures::new(*interval, 5, units).independent()
    };
    let mut near = with_tracks(near, intervals.iter().map(pictures));
    near.set_congestion_manager(Box::new(SharedPath::new(1 + intervals.len())));
    let kept = Kept::default();
    let mut far = receive_session("rtp", Some(ms(200)), &kept);
    let seen = sinks(&mut far, intervals.len());
    let transits = Transits::of(&mut far);
    let mut world = World::linked(near, far, "delay=10ms,rate=1.5Mbit/s,queue=100kB", 3);
    world.run_until(Instant::from_millis(20_000));
    let wait = transits.waited(0.99);
    Fared { wait, whole: seen.iter().map(|seen| seen.whole(5).len()).collect() }
}

/// A path that is too narrow for all: the first track fares as if it were alone, and what it leaves is the second's.
#[test]
fn a_track_costs_neither_the_sound_nor_those_before_it() {
    // 0.5 Mbit/s and 1 Mbit/s, which is more than the path has beside the sound.
    let alone = beside(&[ms(80)]);
    let both = beside(&[ms(80), ms(40)]);
    let turned = beside(&[ms(40), ms(80)]);
    let all = beside(&[ms(80), ms(160), ms(40)]);
    // As much by one track: the path is as full.
    let one = beside(&[ms(27)]);
    for (name, fared) in
        [("alone", &alone), ("one", &one), ("both", &both), ("turned", &turned), ("three", &all)]
    {
        println!("{name}: {:?} {:?}", fared.wait, fared.whole);
    }
    let longest = one.wait + ms(5);
    for (name, fared) in [("both", &both), ("three", &all)] {
        assert!(fared.wait <= longest, "{name}: {:?}, one {:?}", fared.wait, one.wait);
        assert!(
            fared.whole[0] * 100 >= alone.whole[0] * 97,
            "{name}: {:?} of {:?}",
            fared.whole,
            alone.whole
        );
    }
    assert!(both.whole[1] >= 150, "{:?}: what is left is used", both.whole);
    // The one that comes first is the whole one, whichever it is.
    assert!(turned.whole[0] > 430 && turned.whole[1] < both.whole[0] / 2, "{:?}", turned.whole);
    assert!(all.whole[1] * 100 >= 125 * 85 && all.whole[2] < both.whole[1], "{:?}", all.whole);
}
