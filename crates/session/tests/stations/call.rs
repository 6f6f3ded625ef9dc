//! The caller's log against the link's own counters.

use antiphon_core::{Instant, Rng};
use antiphon_link::Duplex;
use antiphon_measure::Fate;
use antiphon_proto::Role;
use antiphon_session::{
    ArrivalBoard, CallConfig, CallStation, Hub, HubConfig, Reflector, ReflectorConfig, Station,
};

use crate::sound::{Kept, Noise, expected, stereo};
use crate::world::{World, call_config, endpoint, ms};

type CallWorld = World<CallStation, Hub<Reflector>>;

const END: Instant = Instant::from_millis(60_000);

fn reflecting_hub(board: Option<ArrivalBoard>) -> Hub<Reflector> {
    let admits = antiphon_proto::find("rtp").unwrap().admits;
    let config = HubConfig { max_peers: 4, idle: ms(10_000), admits };
    let make = move |now, _path| {
        let config = ReflectorConfig { board: board.clone(), ..ReflectorConfig::default() };
        Reflector::new(endpoint("rtp", Role::Listener, now), config)
    };
    Hub::new(config, Box::new(make))
}

fn call(frames: u64, config: CallConfig, link: &str, seed: u64) -> (CallWorld, Kept) {
    let kept = Kept::default();
    let board = config.board.clone();
    let near = CallStation::new(
        endpoint("rtp", Role::Caller, Instant::ZERO),
        Noise::new(stereo(), frames),
        kept.sink(stereo()),
        config,
    );
    (World::linked(near.unwrap(), reflecting_hub(board), link, seed), kept)
}

fn run(world: &mut CallWorld) {
    world.run_while(END, |world| !world.near.is_finished());
    assert!(world.near.is_finished(), "the call ends by itself");
    let counts = world.near.log().counts();
    counts.balance(world.near.log().frames_sent()).unwrap();
    let Duplex { up, down } = world.link();
    assert!(up.counters().balances() && down.counters().balances());
    assert_eq!(world.near.foreign(), 0);
}

#[test]
fn counted_losses_are_the_links_to_the_frame() {
    for (seed, loss) in [(1, "loss=5%"), (2, "loss=5%"), (3, "loss=10%/4"), (4, "up.loss=5%")] {
        let (mut world, kept) =
            call(480_000, call_config(stereo(), ms(80)), &format!("delay=10ms,{loss}"), seed);
        run(&mut world);
        let (up, down) = (world.link().up.counters(), world.link().down.counters());
        let (counts, log) = (world.near.log().counts(), world.near.log());
        assert!(up.lost > 20, "the weather happened: {up:?}");
        assert_eq!(log.frames_sent(), 1875);
        assert_eq!((up.offered, down.offered), (1875, up.delivered));
        assert_eq!(counts.of(Fate::Lost), up.lost + down.lost, "seed {seed}");
        assert_eq!(counts.of(Fate::Played), down.delivered);
        assert_eq!(counts.total(), counts.of(Fate::Lost) + counts.of(Fate::Played));
        assert_eq!(log.loss_runs().lost(), counts.of(Fate::Lost));
        let tallies = log.tallies();
        assert_eq!((tallies.duplicate, tallies.reordered, tallies.unknown), (0, 0, 0));
        // Every hole is filled, and nothing else. Holes before the first arrival are not heard of.
        let missing_first = log.rows().take_while(|row| row.received.is_none()).count() as u64;
        assert_eq!(tallies.concealed, counts.of(Fate::Lost) - missing_first);
        assert_eq!(kept.len() as u64, 2 * (480_000 - missing_first * 256));
    }
}

#[test]
fn late_is_counted_apart_from_lost() {
    let link = "delay=10ms,up.jitter=15ms,loss=1%";
    let (mut world, kept) = call(240_000, call_config(stereo(), ms(20)), link, 4);
    run(&mut world);
    let (up, down) = (world.link().up.counters(), world.link().down.counters());
    let counts = world.near.log().counts();
    assert_eq!(counts.of(Fate::Lost), up.lost + down.lost);
    assert!(counts.of(Fate::Late) > 10, "{counts:?}");
    assert_eq!(counts.of(Fate::Late), world.near.heard().playout.late);
    // A frame is late whose trip took longer than the shortest one and the target. The schedule begins at the first
    // frame's trip, up to 30 ms longer, and takes that back at 1 ms a second.
    let least = world.near.log().rows().filter_map(|row| row.rtt()).min().unwrap();
    for row in world.near.log().rows().filter(|row| row.fate == Fate::Played) {
        assert!(row.rtt().unwrap() <= least + ms(20 + 30), "{row:?}");
    }
    for row in world.near.log().rows().filter(|row| row.fate == Fate::Late) {
        assert!(row.rtt().unwrap() > least + ms(20), "{row:?}");
    }
    assert_eq!(kept.len(), 2 * 240_000);
}

#[test]
fn duplicates_and_reordering_are_counted_right() {
    let link = "delay=10ms,duplicate=2%,up.reorder=2%/12ms";
    let (mut world, kept) = call(480_000, call_config(stereo(), ms(80)), link, 9);
    run(&mut world);
    let (up, down) = (world.link().up.counters(), world.link().down.counters());
    let (counts, tallies) = (world.near.log().counts(), world.near.log().tallies());
    assert!(up.duplicated > 10 && down.duplicated > 10 && up.held_back > 10);
    assert_eq!(counts.of(Fate::Played), 1875);
    assert_eq!(tallies.duplicate, up.duplicated + down.duplicated);
    assert_eq!(world.near.heard().playout.duplicate, tallies.duplicate);
    // Each is overtaken by the two frames that follow within 12 ms. A copy inherits its packet's fate, so that held
    // copies of held frames count as duplicates, not as reordered.
    let held_copies = up.held_back - tallies.reordered;
    assert!(held_copies <= 2, "{up:?} {tallies:?}");
    assert_eq!(tallies.reordered, world.near.heard().playout.reordered);
    assert_eq!((tallies.concealed, kept.samples()), (0, expected(stereo(), 0, 480_000)));
}

#[test]
fn one_way_figures_are_the_links_delay() {
    let mut config = CallConfig { board: Some(ArrivalBoard::new()), ..call_config(stereo(), ms(40)) };
    // More frames than a sequence number has values, so that the board's places are used again.
    config.sender.packet.block_frames = 16;
    config.log_frames = 70_000;
    let (mut world, _) = call(16 * 66_000, config, "up.delay=7ms,down.delay=11ms,loss=1%", 5);
    run(&mut world);
    let came: Vec<_> = world.near.log().rows().filter(|row| row.received.is_some()).collect();
    assert!(came.len() > 64_000 && came.len() < 66_000);
    assert!(came.iter().all(|row| row.one_way == Some(ms(7)) && row.rtt() == Some(ms(18))));
}

#[test]
fn what_came_there_is_known_even_of_frames_that_did_not_come_back() {
    let config = CallConfig { board: Some(ArrivalBoard::new()), ..call_config(stereo(), ms(80)) };
    // More frames than are asked for at the end, so that some are asked for on the way.
    let (mut world, _) =
        call(5_000 * 256, config, "up.loss=3%,down.loss=5%,up.delay=7ms,down.delay=20ms", 12);
    run(&mut world);
    let (up, down) = (world.link().up.counters(), world.link().down.counters());
    let log = world.near.log();
    let reached = || log.rows().filter(|row| row.one_way.is_some());
    assert_eq!(reached().count() as u64, up.delivered);
    assert_eq!(reached().filter(|row| row.received.is_none()).count() as u64, down.lost);
    assert!(down.lost > 100, "the weather happened: {down:?}");
    assert!(reached().all(|row| row.one_way == Some(ms(7))));
    assert_eq!(log.one_way().count(), down.delivered, "figures are of what came back");
    // A datagram on this link is a frame.
    assert_eq!(log.rows().map(|row| u64::from(row.bytes)).sum::<u64>(), up.offered_bytes);
}

#[test]
fn what_is_heard_has_the_length_that_was_sent() {
    // Half a second and no whole number of blocks; then the very last, and the last five packets are lost.
    for lost_from in [u64::MAX, 93, 89] {
        for link in ["ideal", "delay=20ms", "delay=20ms,jitter=5ms"] {
            let (mut world, kept) = call(24_001, call_config(stereo(), ms(30)), link, 3);
            world.drop_up = Some(Box::new(move |n, _| n >= lost_from));
            run(&mut world);
            assert_eq!(kept.len(), 2 * 24_001, "over {link}, lost from {lost_from}");
            let good = (lost_from.min(94) * 256).min(24_001);
            assert!(kept.samples()[..2 * good as usize] == expected(stereo(), 0, good));
            let made_up = world.near.heard().playout.concealed_frames;
            assert_eq!(made_up, 24_001 - good);
            assert_eq!(world.near.log().tallies().concealed, 94 - good.div_ceil(256));
        }
    }
}

/// A driver that is woken late must not make sound up beyond the end, nor lose any.
#[test]
fn a_sleepy_driver_changes_nothing_of_what_is_heard() {
    for seed in 0..4 {
        let (mut world, kept) = call(24_001, call_config(stereo(), ms(60)), "delay=5ms", seed);
        world.sleepy = Some((Rng::fork(seed, "sleep"), ms(20)));
        run(&mut world);
        assert!(kept.samples() == expected(stereo(), 0, 24_001), "seed {seed}: {} samples", kept.len());
        assert_eq!(world.near.log().tallies().concealed, 0);
    }
}

#[test]
fn frames_that_expired_here_are_not_lost_there() {
    let mut config = call_config(stereo(), ms(80));
    config.sender.patience = Some(ms(3));
    let (mut world, kept) = call(24_000, config, "delay=5ms", 1);
    // The socket takes nothing for a while: every wake-up is later than the frames are patient.
    world.near.advance(world.now);
    let begun = world.now;
    world.run_until(begun + ms(100));
    let before = world.sent_up;
    for _ in 0..3 {
        // Blocks are made here and first offered to the wire 10 ms later.
        world.now += ms(11);
        world.near.advance(world.now);
        world.now += ms(10);
    }
    run(&mut world);
    let counts = world.near.log().counts();
    assert!(before > 10 && counts.of(Fate::Expired) >= 6, "{counts:?}");
    assert_eq!(counts.of(Fate::Expired), world.near.sent().expired);
    assert_eq!((counts.of(Fate::Lost), counts.of(Fate::Refused)), (0, 0));
    assert_eq!(kept.len(), 2 * 24_000);
}

#[test]
fn an_interrupted_call_tells_the_truth_about_what_was_on_its_way() {
    let (mut world, kept) = call(480_000, call_config(stereo(), ms(40)), "delay=30ms", 1);
    let at = world.now + ms(1000);
    world.run_until(at);
    world.near.stop(world.now);
    run(&mut world);
    let counts = world.near.log().counts();
    assert_eq!((counts.of(Fate::Played), counts.of(Fate::Lost)), (counts.total(), 0));
    assert_eq!(kept.len() as u64, counts.total() * 512);
}

#[test]
fn a_reflector_that_is_not_there_ends_the_call_with_everything_lost() {
    let (mut world, kept) = call(24_000, call_config(stereo(), ms(40)), "loss=100%", 1);
    run(&mut world);
    let counts = world.near.log().counts();
    assert_eq!((counts.of(Fate::Lost), counts.total(), kept.len()), (94, 94, 0));
    // A longer call is given up before its end.
    let config = CallConfig { answer_patience: ms(400), ..call_config(stereo(), ms(40)) };
    let (mut world, _) = call(48_000, config, "loss=100%", 1);
    run(&mut world);
    let counts = world.near.log().counts();
    assert!(world.near.is_unanswered() && world.near.duration() < ms(410));
    assert_eq!((counts.of(Fate::Lost), counts.total()), (75, 75));
}
