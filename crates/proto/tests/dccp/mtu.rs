//! Paths that take less than the driver says, from the start or from some time on, and say nothing of it.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Frame, Instant, SendError};
use antiphon_link::Direction;

use crate::world::{Load, Pair, SYNC, SYNC_ACK, World};

/// What the driver says.
const LINE: usize = 1452;
/// What passes: IPv6's least, as a tunnel may have it.
const TUNNEL: usize = 1280;
/// The search ends this near to what does not pass.
const NEAR: Range<usize> = TUNNEL - 8..TUNNEL + 1;
/// BASE_PLPMTU (RFC 8899 §5.1.2).
const BASE: usize = 1200;
/// Header and the longest NDP Count.
const BESIDE: usize = 24;
const EVER: Instant = Instant::from_millis(1_000_000_000);
const EVERY: Duration = Duration::from_millis(5);
const MODES: [&str; 2] = ["ccid=2", "ccid=3"];

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Frames as large as they may be, one every 5 ms from half a second on.
fn stream(query: &str, link: (&str, &str), seed: u64) -> World {
    let load = Load::Fitting { len: 1400, every: EVERY, budget: Duration::from_millis(200) };
    let pair = Pair::new(query, load, at(500), seed);
    World::new(link, seed, vec![pair])
}

const GOOD: (&str, &str) = ("delay=20ms", "delay=20ms");

/// Padded Syncs and other packets without data that set out from the near end in this time.
fn probes(world: &World, when: Range<Instant>) -> usize {
    let of_near = world.log.iter().filter(|(sent, from, ..)| when.contains(sent) && *from == Direction::Up);
    of_near.filter(|(_, _, len, kind)| *kind == SYNC && *len > BASE).count()
}

fn syncs(world: &World) -> Vec<(Direction, usize, u8)> {
    let kinds = world.log.iter().filter(|(.., kind)| matches!(*kind, SYNC | SYNC_ACK));
    kinds.map(|(_, from, len, kind)| (*from, *len, *kind)).collect()
}

/// The longest packet with a frame that set out in this time.
fn longest(world: &World, when: Range<Instant>) -> usize {
    let data = world.log.iter().filter(|(sent, from, _, kind)| {
        when.contains(sent) && *from == Direction::Up && matches!(*kind, 2 | 4)
    });
    data.map(|(_, _, len, _)| *len).max().expect("frames")
}

#[test]
fn a_path_that_takes_all_is_asked_once_by_each_end() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        world.run_until(at(700_000));
        let mut seen = syncs(&world);
        seen.sort_by_key(|(from, len, kind)| (*from == Direction::Down, *kind, *len));
        let lens: Vec<(usize, u8)> = seen.iter().map(|(_, len, kind)| (*len, *kind)).collect();
        assert_eq!(lens.len(), 4, "{query}: {seen:?}");
        assert_eq!((lens[0], lens[2]), ((LINE, SYNC), (LINE, SYNC)), "{query}");
        assert!(lens[1].1 == SYNC_ACK && lens[1].0 <= 32 && lens[3].0 <= 32, "{query}: {lens:?}");
        let pair = &world.pairs[0];
        assert_eq!((pair.near.profile().max_frame, pair.congestions.len()), (LINE - BESIDE, 0), "{query}");
        // All but those that the start holds up.
        assert!(pair.arrivals.len() > 139_800, "{query}: {}", pair.arrivals.len());
    }
}

/// How long after `begins` frames come again, and how many of a second's 200 come from `settled` on.
fn outcome(world: &World, begins: Instant, settled: Instant) -> (Duration, usize) {
    let arrivals = &world.pairs[0].arrivals;
    let first = arrivals.iter().map(|(came, _)| *came).find(|came| *came > begins + MOMENT);
    let count = world.pairs[0].arrived(settled, settled + Duration::from_secs(10));
    (first.expect("goes on").since(begins), count)
}

/// Frames that were on their way before a change come after it.
const MOMENT: Duration = Duration::from_millis(45);

#[test]
fn frames_that_fit_go_on_soon_after_a_path_becomes_smaller() {
    for query in MODES {
        for change in [0, 3000] {
            let mut world = stream(query, GOOD, 1);
            world.tunnel = Some((at(change)..EVER, TUNNEL));
            world.run_until(at(30_000));
            let (silence, count) = outcome(&world, at(change.max(500)), at(20_000));
            let size = longest(&world, at(19_000)..EVER);
            println!("{query} from {change} ms: silence of {silence:?}, then {count} of 2000, {size} bytes");
            assert!(silence <= Duration::from_millis(2_000), "{query} from {change} ms: {silence:?}");
            assert_eq!(count, 2000, "{query} from {change} ms");
            let max_frame = world.pairs[0].near.profile().max_frame;
            assert!(NEAR.contains(&(max_frame + BESIDE)), "{query}: {max_frame}");
            assert!(size <= TUNNEL && probes(&world, at(20_000)..EVER) == 0, "{query}: {size}");
        }
    }
}

#[test]
fn a_path_that_is_whole_again_is_used_as_far_as_it_takes() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        world.tunnel = Some((at(3_000)..at(20_000), TUNNEL));
        world.run_until(at(640_000));
        assert!(longest(&world, at(20_000)..at(600_000)) <= TUNNEL, "{query}");
        // The raise timer is ten minutes.
        assert_eq!(world.pairs[0].near.profile().max_frame, LINE - BESIDE, "{query}");
        assert!(longest(&world, at(630_000)..EVER) >= 1400, "{query}");
        assert_eq!(probes(&world, at(630_000)..EVER), 0, "{query}");
    }
}

#[test]
fn probes_lost_by_chance_are_no_congestion_and_no_matter_of_sizes() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        // The first probe of each end, and what else is longer than a frame's packet: nothing.
        world.tunnel = Some((at(900)..at(1_060), 1430));
        world.run_until(at(30_000));
        let pair = &world.pairs[0];
        assert_eq!(probes(&world, at(0)..EVER), 2, "{query}: the first was lost");
        assert_eq!((pair.near.profile().max_frame, pair.congestions.len()), (LINE - BESIDE, 0), "{query}");
        assert!(pair.arrivals.len() > 5_880, "{query}: {}", pair.arrivals.len());
    }
    // Losses at random make a probe now and then, and no smaller packets for long.
    for (query, most) in [("ccid=2", 40), ("ccid=3", 60)] {
        for seed in 1..6 {
            let mut world = stream(query, ("delay=20ms,loss=5%", "delay=20ms,loss=5%"), seed);
            world.run_until(at(60_000));
            let (count, max_frame) = (probes(&world, at(0)..EVER), world.pairs[0].near.profile().max_frame);
            println!("{query}, 5 % lost: {count} probes, {max_frame} bytes");
            assert!(count <= most && max_frame >= 1400, "{query}: {count} probes, {max_frame} bytes");
        }
    }
}

#[test]
fn what_follows_a_packet_without_data_says_so_be_it_a_sync() {
    let mut world = stream("ccid=3", GOOD, 1);
    world.tunnel = Some((at(3_000)..EVER, TUNNEL));
    world.run_until(at(10_000));
    let is_data = |kind: u8| matches!(kind, 2 | 4);
    let mut after = [None; 2];
    let mut seen = Vec::new();
    for (n, (sent, from, _, kind)) in world.log.iter().enumerate() {
        let before = after[usize::from(*from == Direction::Down)].replace(*kind);
        // Both have agreed to count them by then.
        if *sent > at(900) && before.is_some_and(|before| !is_data(before)) {
            assert!(world.counted.binary_search(&n).is_ok(), "{sent:?}: type {kind} after {before:?}");
            seen.push(*kind);
        }
    }
    assert!([SYNC, SYNC_ACK, 2].iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

#[test]
fn an_outage_and_a_peer_that_answers_no_sync_are_no_matter_of_sizes() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        world.outage = Some((at(5_000), at(12_000)));
        world.run_until(at(20_000));
        let count = probes(&world, at(0)..EVER);
        assert_eq!(world.pairs[0].near.profile().max_frame, LINE - BESIDE, "{query}");
        assert!(count < 20, "{query}: {count} in an outage");
        let mut world = stream(query, GOOD, 1);
        world.mute = true;
        world.run_until(at(30_000));
        assert_eq!(probes(&world, at(0)..EVER), 3, "{query}: three tries");
        let pair = &world.pairs[0];
        assert_eq!((pair.near.profile().max_frame, pair.congestions.len()), (LINE - BESIDE, 0), "{query}");
        assert!(pair.arrivals.len() > 5_880, "{query}: {}", pair.arrivals.len());
    }
}

#[test]
fn nobody_is_probed_before_the_connection_is_open() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        // The Response comes, and then nothing more: the client never hears that the server has heard of it.
        world.outage = Some((at(30), at(10_000)));
        world.run_until(at(9_000));
        let kinds = |wanted: u8| world.log.iter().filter(|(.., kind)| *kind == wanted).count();
        assert!(kinds(1) == 1 && kinds(3) >= 4, "a Response, and Acks again and again");
        assert_eq!((kinds(SYNC), kinds(SYNC_ACK)), (0, 0), "{query}");
        world.run_until(at(40_000));
        assert_eq!(probes(&world, at(0)..EVER), 1, "{query}: once it is open");
    }
}

#[test]
fn frames_that_are_too_large_now_are_refused_and_those_that_wait_aborted() {
    let mut world = stream("ccid=2", GOOD, 1);
    world.run_until(at(2_000));
    let near = &mut world.pairs[0].near;
    let refused = near.send(at(2_000), Frame::new(&[7; LINE - BESIDE + 1], None));
    let len = LINE - BESIDE + 1;
    assert_eq!(refused, Err(SendError::TooLarge { len, max: len - 1 }));
    world.tunnel = Some((at(2_000)..EVER, TUNNEL));
    world.run_until(at(20_000));
    assert!(world.pairs[0].aborted > 0, "frames waited for a window while none was acknowledged");
    let near = &mut world.pairs[0].near;
    let max = near.profile().max_frame;
    let refused = near.send(at(20_000), Frame::new(&[7; TUNNEL], None));
    assert_eq!(refused, Err(SendError::TooLarge { len: TUNNEL, max }));
}
