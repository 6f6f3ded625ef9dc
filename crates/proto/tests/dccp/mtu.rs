//! Paths that take less than the driver says, from the start or from some time on, and say nothing of it.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Message, SendError, Tag};
use antiphon_link::Direction;

use crate::world::{SYNC, SYNC_ACK, Sent, World, fitting};

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

/// Messages as large as they may be, one every 5 ms from half a second on.
fn stream(query: &str, link: &str, seed: u64) -> World {
    World::new(link, query, fitting(at(500), 1400, EVERY, Duration::from_millis(200)), seed)
}

const GOOD: &str = "delay=20ms";

/// Padded Syncs and other packets without data that set out from the near end in this time.
fn probes(world: &World, when: Range<Instant>) -> usize {
    let is_probe = |sent: &&Sent| sent.from == Direction::Up && sent.kind == SYNC && sent.len > BASE;
    world.log().iter().filter(|sent| when.contains(&sent.at)).filter(is_probe).count()
}

fn syncs(world: &World) -> Vec<(Direction, usize, u8)> {
    let log = world.log();
    let kinds = log.iter().filter(|sent| matches!(sent.kind, SYNC | SYNC_ACK));
    kinds.map(|sent| (sent.from, sent.len, sent.kind)).collect()
}

/// The longest packet with a message that set out in this time.
fn longest(world: &World, when: Range<Instant>) -> usize {
    let is_data = |sent: &&Sent| sent.from == Direction::Up && matches!(sent.kind, 2 | 4);
    let log = world.log();
    let data = log.iter().filter(|sent| when.contains(&sent.at)).filter(is_data);
    data.map(|sent| sent.len).max().expect("messages")
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
        assert_eq!((world.max_message(), world.near[0].congested), (LINE - BESIDE, 0), "{query}");
        // All except those that the start delays.
        assert!(world.arrivals().len() > 139_800, "{query}: {}", world.arrivals().len());
    }
}

/// How long after `begins` messages come again, and how many of a second's 200 come from `settled` on.
fn outcome(world: &World, begins: Instant, settled: Instant) -> (Duration, usize) {
    let first =
        world.arrivals().into_iter().map(|crossing| crossing.came).find(|came| *came > begins + MOMENT);
    let count = world.arrived(0, settled, settled + Duration::from_secs(10));
    (first.expect("goes on").since(begins), count)
}

/// Messages that were on their way before a change come after it.
const MOMENT: Duration = Duration::from_millis(45);

#[test]
fn messages_that_fit_go_on_soon_after_a_path_becomes_smaller() {
    for query in MODES {
        for change in [0, 3000] {
            let mut world = stream(query, GOOD, 1);
            world.narrow(at(change)..EVER, TUNNEL);
            world.run_until(at(30_000));
            let (silence, count) = outcome(&world, at(change.max(500)), at(20_000));
            let size = longest(&world, at(19_000)..EVER);
            println!("{query} from {change} ms: silence of {silence:?}, then {count} of 2000, {size} bytes");
            assert!(silence <= Duration::from_millis(2_000), "{query} from {change} ms: {silence:?}");
            assert_eq!(count, 2000, "{query} from {change} ms");
            let max_message = world.max_message();
            assert!(NEAR.contains(&(max_message + BESIDE)), "{query}: {max_message}");
            assert!(size <= TUNNEL && probes(&world, at(20_000)..EVER) == 0, "{query}: {size}");
        }
    }
}

#[test]
fn a_path_that_is_whole_again_is_used_as_far_as_it_takes() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        world.narrow(at(3_000)..at(20_000), TUNNEL);
        world.run_until(at(640_000));
        assert!(longest(&world, at(20_000)..at(600_000)) <= TUNNEL, "{query}");
        // The raise timer is ten minutes.
        assert_eq!(world.max_message(), LINE - BESIDE, "{query}");
        assert!(longest(&world, at(630_000)..EVER) >= 1400, "{query}");
        assert_eq!(probes(&world, at(630_000)..EVER), 0, "{query}");
    }
}

#[test]
fn probes_lost_by_chance_change_no_rate_and_no_size() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        // The first probe of each end, and what else is longer than a message's packet: nothing.
        world.narrow(at(900)..at(1_060), 1430);
        world.run_until(at(30_000));
        assert_eq!(probes(&world, at(0)..EVER), 2, "{query}: the first was lost");
        assert_eq!((world.max_message(), world.near[0].congested), (LINE - BESIDE, 0), "{query}");
        assert!(world.arrivals().len() > 5_880, "{query}: {}", world.arrivals().len());
    }
    // Losses at random make a probe now and then, and no smaller packets for long.
    for (query, most) in [("ccid=2", 40), ("ccid=3", 60)] {
        for seed in 1..6 {
            let mut world = stream(query, "delay=20ms,loss=5%", seed);
            world.run_until(at(60_000));
            let (count, max_message) = (probes(&world, at(0)..EVER), world.max_message());
            println!("{query}, 5 % lost: {count} probes, {max_message} bytes");
            assert!(count <= most && max_message >= 1400, "{query}: {count} probes, {max_message} bytes");
        }
    }
}

#[test]
fn ndp_count_follows_packets_without_data_and_syncs() {
    let mut world = stream("ccid=3", GOOD, 1);
    world.narrow(at(3_000)..EVER, TUNNEL);
    world.run_until(at(10_000));
    let is_data = |kind: u8| matches!(kind, 2 | 4);
    let mut after = [None; 2];
    let mut seen = Vec::new();
    for sent in world.log().iter() {
        let before = after[usize::from(sent.from == Direction::Down)].replace(sent.kind);
        // Both have agreed to count them by then.
        if sent.at > at(900) && before.is_some_and(|before| !is_data(before)) {
            assert!(sent.counts, "{:?}: type {} after {before:?}", sent.at, sent.kind);
            seen.push(sent.kind);
        }
    }
    assert!([SYNC, SYNC_ACK, 2].iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

#[test]
fn outages_and_unanswered_syncs_do_not_shrink_packets() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        world.outage(at(5_000)..at(12_000));
        world.run_until(at(20_000));
        let count = probes(&world, at(0)..EVER);
        assert_eq!(world.max_message(), LINE - BESIDE, "{query}");
        assert!(count < 20, "{query}: {count} in an outage");
        let mut world = stream(query, GOOD, 1);
        world.mute();
        world.run_until(at(30_000));
        assert_eq!(probes(&world, at(0)..EVER), 3, "{query}: three tries");
        assert_eq!((world.max_message(), world.near[0].congested), (LINE - BESIDE, 0), "{query}");
        assert!(world.arrivals().len() > 5_880, "{query}: {}", world.arrivals().len());
    }
}

#[test]
fn no_probe_before_the_connection_is_open() {
    for query in MODES {
        let mut world = stream(query, GOOD, 1);
        // The Response arrives, and then nothing more: the client never learns that the server has heard it.
        world.outage(at(30)..at(10_000));
        world.run_until(at(9_000));
        let kinds = |wanted: u8| world.log().iter().filter(|sent| sent.kind == wanted).count();
        assert!(kinds(1) == 1 && kinds(3) >= 4, "a Response, and Acks again and again");
        assert_eq!((kinds(SYNC), kinds(SYNC_ACK)), (0, 0), "{query}");
        world.run_until(at(40_000));
        assert_eq!(probes(&world, at(0)..EVER), 1, "{query}: once it is open");
    }
}

#[test]
fn messages_now_too_large_are_refused_or_aborted() {
    let mut world = stream("ccid=2", GOOD, 1);
    world.run_until(at(2_000));
    let near = &mut world.near[0].endpoint;
    let refused = near.send(at(2_000), Message::new(Tag::NONE, &[7; LINE - BESIDE + 1], None));
    let len = LINE - BESIDE + 1;
    assert_eq!(refused, Err(SendError::TooLarge { len, max: len - 1 }));
    world.narrow(at(2_000)..EVER, TUNNEL);
    world.run_until(at(20_000));
    assert!(world.aborted() > 0, "messages waited for a window while none was acknowledged");
    let near = &mut world.near[0].endpoint;
    let max = near.profile().max_message;
    let refused = near.send(at(20_000), Message::new(Tag::NONE, &[7; TUNNEL], None));
    assert_eq!(refused, Err(SendError::TooLarge { len: TUNNEL, max }));
}
