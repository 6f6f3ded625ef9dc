//! Repetition of a track's messages, over any transport.

use std::cell::Cell;
use std::rc::Rc;

use antiphon_core::{Instant, Participant};
use antiphon_proto::TRANSPORTS;
use antiphon_session::{PlayoutDelay, Repetition, Seen, SendTrackConfig, Session};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::sending;
use crate::world::{heard, linked, ms, receive_session, stack, track_config, world_of};

const END: Instant = Instant::from_millis(400_000);

fn protected(name: &str, frames: u64, protect: &str, delay: PlayoutDelay) -> Session {
    let protect: Repetition = protect.parse().expect("a protection");
    let config = SendTrackConfig { protect, ..track_config(stereo(), 5) };
    sending(&*stack(name), Noise::new(stereo(), frames), config, delay)
}

#[test]
fn three_copies_at_a_tenth_lost_miss_a_thousandth() {
    const PACKETS: u64 = 60_000;
    let delay = PlayoutDelay::Of(ms(80));
    let near = protected("rtp", PACKETS * 256, "repeat:3,spacing=10ms", delay);
    let (mut world, _kept) = linked("rtp", near, Some(ms(80)), "delay=20ms,up.loss=10%", 7);
    world.run(END);
    let (counters, playout) = (heard(&world.far).counters(), heard(&world.far).playout().unwrap());
    // A tenth cubed; three standard deviations of 60 messages are 23.
    let missing = PACKETS - counters.packets;
    assert!((37..=83).contains(&missing), "{missing} of {PACKETS} missing");
    assert!(playout.lost.abs_diff(missing) <= 1 && playout.late == 0, "{playout:?}");
    // All copies received, less the new ones: 2.7 copies of each, less one of each that came.
    let up = world.link().up.counters();
    assert!(up.lost > 17_000, "a tenth is lost: {up:?}");
    let extra = counters.duplicates as f64 / PACKETS as f64;
    assert!((1.68..1.72).contains(&extra), "{extra} copies too many of each");
    // Figures count each packet once, at both ends.
    let sent = world.near.sent();
    assert_eq!((sent.track.messages, sent.peers.accepted, sent.peers.refused), (PACKETS, PACKETS, 0));
    let report = world.near.last_report().unwrap().block;
    assert!(report.cumulative_lost as u64 <= missing, "{report:?}");
    assert_eq!(playout.duplicate, 0, "the buffer sees none of the copies");
}

/// To a recording, which accepts copies at any time: the shortest packets, with copies as far apart as allowed.
#[test]
fn copies_after_seconds_are_counted_once_too() {
    const PACKETS: u64 = 3_000;
    let mut config = track_config(stereo(), 5);
    config.packet.block_frames = 64;
    config.protect = "repeat:3,spacing=1s".parse().unwrap();
    let source = Noise::new(stereo(), PACKETS * 64);
    let near = sending(&*stack("rtp"), source, config, PlayoutDelay::Unbounded);
    let (mut world, kept) = linked("rtp", near, None, "delay=5ms", 1);
    world.run(END);
    let counters = heard(&world.far).counters();
    assert_eq!((counters.packets, counters.duplicates), (PACKETS, 2 * PACKETS));
    assert!(kept.samples() == expected(stereo(), 0, PACKETS * 64));
    let sources = heard(&world.far).sources();
    assert_eq!((sources.streams, sources.jumps), (1, 0), "no copy is taken for a new beginning");
}

/// An outage of 225 packets, which copies 0.4 s later, of 300 packets, fill.
#[test]
fn copies_that_come_hundreds_of_packets_later_fill_an_outage() {
    let mut config = track_config(stereo(), 5);
    config.packet.block_frames = 64;
    config.protect = "repeat:2,spacing=400ms".parse().unwrap();
    let source = Noise::new(stereo(), 240_000);
    let near = sending(&*stack("rtp"), source, config, PlayoutDelay::Unbounded);
    let (mut world, kept) = linked("rtp", near, Some(ms(600)), "delay=5ms", 1);
    let begin = Instant::from_millis(2_000);
    world.up.outages.push((begin..begin + ms(300), vec![0]));
    world.run(END);
    let playout = heard(&world.far).playout().unwrap();
    assert_eq!((playout.lost, playout.late), (0, 0), "{playout:?}");
    assert!(kept.samples() == expected(stereo(), 0, 240_000));
}

#[test]
fn copies_further_apart_than_an_outage_survive_it() {
    for (protect, survives) in [("repeat:2,spacing=60ms", true), ("repeat:2,spacing=20ms", false)] {
        let near = protected("rtp", 480_000, protect, PlayoutDelay::Of(ms(120)));
        let (mut world, kept) = linked("rtp", near, Some(ms(120)), "delay=10ms", 1);
        for second in 1..9 {
            let begin = Instant::from_millis(second * 1000);
            world.up.outages.push((begin..begin + ms(50), vec![0]));
        }
        world.run(END);
        let playout = heard(&world.far).playout().unwrap();
        assert_eq!(playout.lost == 0, survives, "{protect}: {playout:?}");
        assert_eq!(kept.samples() == expected(stereo(), 0, 480_000), survives, "{protect}");
    }
}

#[test]
fn repeated_messages_count_once_over_every_transport() {
    const PACKETS: u64 = 1_000;
    for transport in TRANSPORTS {
        let (name, kept) = (transport.scheme, Kept::default());
        let mut near = protected(name, PACKETS * 256, "repeat:3,spacing=15ms", PlayoutDelay::Unbounded);
        let outcomes = Rc::new(Cell::new(0));
        let counted = outcomes.clone();
        near.observe(Box::new(move |_, seen: &Seen| {
            counted.set(counted.get() + u64::from(matches!(seen, Seen::Outcome { .. })));
        }));
        let far = receive_session(name, None, &kept);
        let mut world = world_of(transport, near, far, ("delay=5ms", 3), (ms(5), 60_000));
        world.run(END);
        assert!(world.near.is_finished() && world.far.is_finished(), "{name}");
        assert!(kept.samples() == expected(stereo(), 0, PACKETS * 256), "{name}: {}", kept.len());
        let counters = heard(&world.far).counters();
        assert_eq!((counters.packets, counters.duplicates), (PACKETS, 2 * PACKETS), "{name}");
        let sent = world.near.sent();
        assert_eq!((sent.track.messages, sent.peers.accepted), (PACKETS, PACKETS), "{name}");
        assert_eq!(outcomes.get(), PACKETS, "{name}: one outcome for all copies of a message");
    }
}
