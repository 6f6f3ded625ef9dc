//! Pictures over an association of their own beside the sound's: one session, one clock, one place for both.

use std::time::Duration;

use antiphon_core::{Instant, WireId};
use antiphon_session::{Change, ChangeFailure, SharedPath, VideoEnd};

use crate::video::{Pictures, Shared};
use crate::wired::Wired;
use crate::world::ms;

/// The wire of the pictures.
const VIDEO: WireId = WireId(1);

fn world(names: &[(&str, &str)], delay: Option<Duration>, pictures: Box<Pictures>) -> (Wired, Shared) {
    let seen = Shared::default();
    (Wired::with_pictures_apart(names, delay, pictures, Box::new(seen.clone())), seen)
}

/// The sound over plain RTP, the pictures over each transport of datagrams: all of both arrive, each picture at its place, and none goes
/// over the sound's wire.
#[test]
fn pictures_go_over_any_transport_beside_the_sound() {
    for name in ["rtp", "sctp", "arq", "srp", "dccp", "xtp"] {
        let link = "delay=10ms";
        let (mut world, seen) = world(&[("rtp", link), (name, link)], None, Pictures::new(ms(40), 4, 95));
        world.end_flawless();
        assert_eq!(world.changes, [Change::Joined(VIDEO)], "{name}");
        let whole = seen.whole(4);
        assert_eq!(whole.len(), 95, "{name}: {:?}", world.near.video_sent().next());
        for (n, place) in whole.iter().enumerate() {
            let place = place.unwrap_or_else(|| panic!("{name}: picture {n} has no place"));
            assert!((place - n as i64 * 40_000_000).abs() < 100_000, "{name}: {n} at {place}");
        }
        let sent = world.near.video_sent().next().expect("a track");
        assert_eq!((sent.units, sent.left_out, sent.packets, sent.refused), (95, 0, 380, 0), "{name}");
        // 12 s of sound; 380 000 bytes of pictures.
        assert!(
            world.sent[&WireId(0)] < 2_600_000 && world.sent[&VIDEO] > 380_000,
            "{name}: {:?}",
            world.sent
        );
        assert_eq!(world.far.video_end(), Some(VideoEnd::Whole), "{name}");
        assert!(!world.near.is_video_cut_short(), "{name}");
    }
}

/// A player hears nothing of what the pictures' path does.
#[test]
fn a_path_for_pictures_that_is_dead_touches_no_sound() {
    for name in ["rtp", "sctp", "xtp"] {
        let sound = if name == "sctp" { "sctp?reliability=full" } else { "rtp" };
        let names = [(sound, "delay=10ms"), (name, "loss=100%")];
        for delay in [Some(ms(80)), None] {
            let (mut world, seen) = world(&names, delay, Pictures::new(ms(40), 4, 95));
            world.end_flawless();
            assert_eq!(seen.whole(4).len(), 0, "{name}");
            assert_eq!(world.far.video_end(), Some(VideoEnd::NeverCame), "{name}");
            assert!(
                !world.near.is_unheard() && !world.near.is_silent_since_end(),
                "{name}: the sound was heard"
            );
            let sent = world.near.video_sent().next().expect("a track");
            assert_eq!(sent.packets, 0, "{name}");
            // A player's are left out as they get too late, a recording's are given up at the end.
            assert_eq!(
                (sent.left_out, world.near.is_video_cut_short()),
                if delay.is_some() { (95, false) } else { (0, true) }
            );
            // The sound ends at 12 s.
            assert!(world.now <= Instant::from_millis(40_000), "{name}");
        }
    }
}

/// Each association for pictures that breaks is called again; a recording has all but what was under way.
#[test]
fn pictures_go_on_after_a_break_of_their_path() {
    for name in ["rtp", "sctp?reliability=full", "srp", "xtp?reliability=full"] {
        let names = [("rtp", "delay=10ms"), (name, "delay=10ms")];
        let (mut world, seen) = world(&names, None, Pictures::new(ms(40), 4, 290));
        world.run_for(ms(2_000));
        let link = world.links.remove(&VIDEO).expect("it is there");
        world.run_for(ms(7_000));
        world.links.insert(VIDEO, link);
        world.end_flawless();
        let whole = seen.whole(4).len();
        // Some transports lose what is sent until the silence is noticed, after 3 s; the others what is in their queues when they end.
        let lost = if name.ends_with("full") { 40 } else { 80 };
        assert!(whole >= 290 - lost, "{name}: {whole}, {:?}", world.changes);
        assert_eq!(world.changes.first(), Some(&Change::Joined(VIDEO)), "{name}");
        assert_eq!(world.far.video_end(), Some(VideoEnd::Whole), "{name}");
        if name == "rtp" {
            let expected = [Change::Failed(VIDEO, ChangeFailure::Ended), Change::Joined(VIDEO)];
            assert_eq!(world.changes[1..], expected, "{name}");
        }
    }
}

/// The pictures' path is the sound's: what both take together is what the manager hears of, and the sound does not wait.
#[test]
fn what_the_sound_takes_of_the_path_counts() {
    let slow = "delay=10ms,rate=3Mbit/s,queue=60kB";
    let (mut world, _) =
        world(&[("rtp", "delay=10ms"), ("rtp", slow)], Some(ms(200)), Pictures::new(ms(40), 24, 290));
    world.near.set_congestion_manager(Box::new(SharedPath::new(2)));
    world.run_for(ms(10_000));
    let path = world.near.path_figures();
    // Pictures of 4.8 Mbit/s over 3: sound of 1.6 comes another way here, and is part of what arrives.
    let arrived = path.delivered.expect("it is told") * 8.0;
    assert!((3.9e6..4.8e6).contains(&arrived), "{path:?}");
    world.end_flawless();
}

/// A receiver that is started again knows nothing of the association for pictures: the sender shows its token again, or calls again where the
/// transport tells that nobody knows it.
#[test]
fn a_receiver_that_is_started_again_gets_the_pictures_again() {
    for name in ["rtp", "sctp", "arq", "srp", "dccp", "xtp"] {
        let names = [("rtp", "delay=10ms"), (name, "delay=10ms")];
        let delay = Some(ms(200));
        let (mut world, first) = world(&names, delay, Pictures::new(ms(40), 4, 290));
        world.run_for(ms(3_000));
        let second = Shared::default();
        world.start_receiver(&names, delay, Box::new(second.clone()));
        world.run_for(ms(20_000));
        assert!(first.whole(4).len() >= 65, "{name}: {}", first.whole(4).len());
        // Of the 215 that were left; silence is noticed after 3 s.
        let whole = second.whole(4).len();
        assert!(whole >= 215 - 5 * 25, "{name}: {whole}, {:?}", world.changes);
    }
}

/// The sound's goodbye overtakes the last pictures, which take longer.
#[test]
fn a_recording_waits_for_pictures_that_come_later_than_the_sound() {
    for name in ["rtp", "sctp?reliability=full"] {
        let names = [("rtp", "delay=10ms"), (name, "delay=300ms")];
        let (mut world, seen) = world(&names, None, Pictures::new(ms(40), 4, 300));
        world.end_flawless();
        assert_eq!(seen.whole(4).len(), 300, "{name}: {:?}", world.near.video_sent().next());
        assert_eq!(world.far.video_end(), Some(VideoEnd::Whole), "{name}");
    }
}

/// Nobody who lacks the token has pictures shown, nor keeps out the sender who has it.
#[test]
fn pictures_without_the_token_are_of_an_unknown_source() {
    for (link, expected) in [("loss=100%", 0), ("delay=10ms", 95)] {
        let names = [("rtp", "delay=10ms"), ("rtp", link)];
        let (mut world, seen) = world(&names, None, Pictures::new(ms(40), 4, 95));
        let mut forged = 0;
        // From before the first packet of the sender on, each from another address.
        while world.now < Instant::from_millis(4_000) {
            let n = (forged % 250) as u8;
            let mut rtp = vec![0x90, 100, 0, n, 0, 0, 0, 0, 1, 2, 3, 4, 0xbe, 0xde, 0, 0];
            rtp.extend([0x7f; 500]);
            world.forge(VIDEO.0, 1 + u32::from(n), rtp);
            world.run_for(ms(5));
            forged += 1;
        }
        assert!(world.far.unknown_sources() + 1 >= forged, "{} of {forged}", world.far.unknown_sources());
        world.end_flawless();
        assert_eq!(seen.whole(4).len(), expected, "{link}: {:?}", world.near.video_sent().next());
    }
}
