//! Calls: sound both ways at once, and how they end.

use antiphon_core::{Epoch, Instant, Participant, Role};
use antiphon_link::Direction;
use antiphon_media::StreamFormat;
use antiphon_proto::TRANSPORTS;
use antiphon_session::Session;
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::{End, talking};
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{World, heard, ms, send_session_with, track_config, world_of};

/// A call over that transport, of sources of so many sample frames.
fn call(name: &'static str, frames: [u64; 2]) -> (World<Session, Session>, [Kept; 2]) {
    let noise = |frames| Noise::new(stereo(), frames);
    call_of(name, frames.map(noise))
}

fn call_of(name: &'static str, [near, far]: [Box<Noise>; 2]) -> (World<Session, Session>, [Kept; 2]) {
    let transport = antiphon_proto::find(name.split('?').next().unwrap_or(name)).unwrap();
    // DCCP begins slowly, and what waits longer than the playout delay is given up.
    let (delay, epoch) = (ms(100), Epoch::default());
    let [near_kept, far_kept] = [Kept::default(), Kept::default()];
    let end = |role, source, kept: &Kept, seed| {
        talking(End { name, role, source, sink: kept.opener(), delay, seed, epoch })
    };
    let near = end(Role::Caller, near, &near_kept, 1);
    let far = end(Role::Listener, far, &far_kept, 2);
    let world = world_of(transport, near, far, ("delay=10ms", 7), (ms(10), 1 << 20));
    (world, [near_kept, far_kept])
}

const END: Instant = Instant::from_millis(30_000);

#[test]
fn each_end_hears_all_of_the_other_over_every_transport() {
    for transport in TRANSPORTS {
        // The caller has more to say, then the listener, then both the same.
        for frames in [[96_000, 48_000], [48_000, 96_000], [48_000, 48_000]] {
            let (mut world, kept) = call(transport.scheme, frames);
            world.run(END);
            let name = format!("{} {frames:?} at {:?}", transport.scheme, world.now);
            assert!(world.near.is_finished() && world.far.is_finished(), "{name}: it ends by itself");
            assert!(world.now < Instant::from_millis(3_000), "{name}: and soon");
            for (kept, frames) in kept.into_iter().zip([frames[1], frames[0]]) {
                let samples = kept.samples();
                assert_eq!(samples.len() as u64, 2 * frames, "{name}");
                assert!(samples == expected(stereo(), 0, frames), "{name}: another sound");
            }
            for session in [&world.near, &world.far] {
                let playout = heard(session).playout().unwrap();
                assert_eq!((playout.lost, playout.late, playout.concealments), (0, 0, 0), "{name}");
                assert_eq!(session.peer_end(), None, "{name}");
            }
        }
    }
}

#[test]
fn either_end_can_leave_at_any_time() {
    for transport in TRANSPORTS {
        for leaver in 0..2 {
            let endless = || Noise::endless(stereo());
            let (mut world, kept) = call_of(transport.scheme, [endless(), endless()]);
            let stops = Instant::from_millis(1_500);
            world.run_until(stops);
            match leaver {
                0 => world.near.stop(stops),
                _ => world.far.stop(stops),
            }
            world.run(END);
            let name = format!("{}, {leaver} leaves, at {:?}", transport.scheme, world.now);
            assert!(world.near.is_finished() && world.far.is_finished(), "{name}");
            assert!(world.now < stops + ms(1_500), "{name}: soon");
            // Who stays hears everything to the end.
            let samples = kept[1 - leaver].samples();
            assert!(samples.len() > 2 * 48_000, "{name}: {}", samples.len());
            let frames = samples.len() as u64 / 2;
            let right = expected(stereo(), 0, frames);
            let first = samples.iter().zip(&right).position(|(one, other)| one != other);
            assert_eq!(first, None, "{name}: another sound, of {}", samples.len());
        }
    }
}

#[test]
fn a_source_without_end_stops_when_the_peer_has_left() {
    for transport in TRANSPORTS {
        let sources = [Noise::new(stereo(), 48_000), Noise::endless(stereo())];
        let (mut world, kept) = call_of(transport.scheme, sources);
        world.run(END);
        let name = transport.scheme;
        assert!(world.near.is_finished() && world.far.is_finished(), "{name}");
        assert!(world.now < Instant::from_millis(2_000), "{name}: at {:?}", world.now);
        assert_eq!(kept[1].len(), 2 * 48_000, "{name}");
    }
}

#[test]
fn an_end_whose_peer_is_gone_ends_with_its_source() {
    let (mut world, _) = call("rtp", [480_000, 480_000]);
    world.run_until(Instant::from_millis(2_000));
    // Its machine is switched off.
    world.outage(world.now..END);
    world.run_while(END, |world| !world.near.is_finished());
    assert!(world.near.is_finished());
    let end = world.now;
    assert!((Instant::from_millis(10_000)..Instant::from_millis(10_500)).contains(&end), "{end:?}");
}

/// Bytes of datagrams each way, of five seconds in which a caller of 8 kHz mono is answered in 48 kHz stereo.
fn bytes_each_way(near: Session) -> [usize; 2] {
    let (delay, epoch, kept) = (ms(100), Epoch::default(), Kept::default());
    let (source, sink) = (Noise::endless(stereo()), kept.opener());
    let far = talking(End { name: "rtp", role: Role::Listener, source, sink, delay, seed: 2, epoch });
    let mut world = World::linked(near, far, "delay=10ms", 7);
    let log = world.log(|leaving| (leaving.direction, leaving.bytes.len()));
    world.run_until(Instant::from_millis(5_000));
    let way = |direction| {
        let log = log.borrow();
        log.iter().filter(|(one, _)| *one == direction).map(|(_, len)| len).sum()
    };
    [way(Direction::Up), way(Direction::Down)]
}

#[test]
fn who_does_not_show_that_it_hears_gets_three_times_what_it_sends() {
    let narrow = StreamFormat::new(8_000, 1).unwrap();
    // A sender alone: it may have given another's address.
    let sender = send_session_with("rtp", Noise::endless(narrow), track_config(narrow, 5));
    let [up, down] = bytes_each_way(sender);
    assert!(down <= 3 * up && down > 2 * up, "{up} bytes, {down} back");
    // A caller that hears: 48 kHz stereo are 12 times as many bytes, and smaller headers.
    let (delay, epoch, kept) = (ms(100), Epoch::default(), Kept::default());
    let (source, sink) = (Noise::endless(narrow), kept.opener());
    let caller = talking(End { name: "rtp", role: Role::Caller, source, sink, delay, seed: 1, epoch });
    let [up, down] = bytes_each_way(caller);
    assert!(down > 8 * up, "{up} bytes, {down} back");
    assert!(kept.len() > 2 * 48_000 * 4, "{} samples", kept.len());
}

/// Until a caller has shown that it hears, which takes longer than a picture is of use, none is begun; and none is left out for that.
#[test]
fn the_first_picture_waits_until_the_caller_has_proved_its_address() {
    let narrow = StreamFormat::new(8_000, 1).unwrap();
    let (delay, epoch) = (ms(100), Epoch::default());
    let [near_kept, far_kept] = [Kept::default(), Kept::default()];
    let end = |role, source, kept: &Kept, seed| {
        talking(End { name: "rtp", role, source, sink: kept.opener(), delay, seed, epoch })
    };
    let mut near = end(Role::Caller, Noise::new(narrow, 16_000), &near_kept, 1);
    let far = end(Role::Listener, Noise::new(stereo(), 96_000), &far_kept, 2);
    let seen = Shared::default();
    near.set_video_sink(Box::new(seen.clone()));
    // All need the first one.
    let far = with_pictures(far, Pictures::new(ms(40), 10, 48).keys(1_000));
    let mut world = World::linked(near, far, "delay=100ms", 7);
    world.run(END);
    assert_eq!(seen.whole(10).len(), 48, "{:?}", world.far.video_sent().next());
    assert_eq!(world.far.video_sent().next().map(|sent| sent.left_out), Some(0));
}
