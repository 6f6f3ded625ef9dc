//! What is left of a stream of sound around an outage.

use std::time::Duration;

use antiphon_core::Instant;

use crate::world::{Load, Pair, World};

/// How long after the end of an outage the first frame arrives, and how long until nine in ten do.
fn recovery(query: &str, outage: Duration) -> (Duration, Duration) {
    // Sound in frames of 5 ms, useless after 100 ms, over a path of 40 ms that now and then loses one.
    let load = Load::Paced { len: 400, every: Duration::from_millis(5), budget: Duration::from_millis(100) };
    let pair = Pair::new(query, load, Instant::from_millis(500), 5);
    let mut world = World::new(("delay=20ms,loss=0.1%", "delay=20ms"), 5, vec![pair]);
    let begins = Instant::from_millis(20_000);
    let ends = begins + outage;
    world.outage = Some((begins, ends));
    world.run_until(ends + Duration::from_secs(20));
    let pair = &world.pairs[0];
    let before = pair.arrived(begins - Duration::from_secs(5), begins);
    assert!(before > 980, "{query}: {before} of 1000 frames arrive before the outage");
    assert_eq!(pair.arrived(begins + Duration::from_millis(20), ends), 0, "the outage happened");
    let first = pair.arrivals.iter().map(|(at, _)| *at).find(|at| *at >= ends).expect("it comes back");
    let whole = (0..200u32).map(|n| ends + Duration::from_millis(100) * n);
    let mut whole = whole.filter(|from| pair.arrived(*from, *from + Duration::from_secs(1)) >= 180);
    let whole = whole.next().expect("it comes back whole");
    let worst = pair.arrivals.iter().map(|(_, age)| *age).max().unwrap_or_default();
    // The budget, and the path.
    assert!(worst <= Duration::from_millis(121), "nothing is delivered that is older: {worst:?}");
    (first.since(ends), whole.since(ends))
}

#[test]
fn sound_is_back_soon_after_an_outage_of_any_length() {
    for query in ["ccid=2", "ccid=3"] {
        for seconds in [1, 5, 30] {
            let (first, whole) = recovery(query, Duration::from_secs(seconds));
            println!("{query} {seconds} s: first frame after {first:?}, whole after {whole:?}");
            // A packet a second goes out meanwhile, and its answer lets frames go again.
            assert!(first <= Duration::from_millis(1_100), "{query}, {seconds} s: {first:?}");
            // A second more at most: the start anew.
            assert!(whole <= Duration::from_millis(2_100), "{query}, {seconds} s: {whole:?}");
        }
    }
}

#[test]
fn sound_in_frames_of_5_ms_bears_a_loss_in_a_hundred() {
    for (query, most_expired) in [("ccid=2", 0.03), ("ccid=3", 0.01), ("ccid=3&order=newest", 0.01)] {
        let (every, budget) = (Duration::from_micros(5_333), Duration::from_millis(80));
        let load = Load::Paced { len: 1044, every, budget };
        let starts = Instant::from_millis(500);
        let pair = Pair::new(query, load, starts, 5);
        let mut world = World::new(("delay=20ms,loss=1%", "delay=20ms,loss=1%"), 5, vec![pair]);
        world.run_until(starts + Duration::from_secs(30));
        let pair = &world.pairs[0];
        let counters = pair.near.path_stats().counters;
        let expired = counters.frames_expired as f64 / counters.frames_accepted as f64;
        println!("{query}: {:.2} % expired, {} arrived", expired * 100.0, pair.arrivals.len());
        assert!(expired <= most_expired, "{query}: {expired}");
        // The first second has 187: a start from reports on nothing would let ten of them go.
        let first = pair.arrived(starts, starts + Duration::from_secs(1));
        assert!(first >= 175, "{query}: {first} in the first second");
    }
}

#[test]
fn newest_first_leaves_the_old_ones_to_expire() {
    // Twice as much sound as the link carries: in the order sent, whatever arrives has waited nearly as long as it may.
    let (every, budget) = (Duration::from_millis(5), Duration::from_millis(200));
    let age = |query: &str| {
        let pair = Pair::new(query, Load::Paced { len: 1000, every, budget }, Instant::ZERO, 5);
        let mut world = World::new(("rate=0.8Mbit/s,queue=5packets,delay=5ms", "delay=5ms"), 5, vec![pair]);
        world.run_until(Instant::from_millis(20_000));
        let mut ages: Vec<Duration> = world.pairs[0].arrivals.iter().map(|(_, age)| *age).collect();
        assert!(ages.len() > 1_000, "{query}: {} frames", ages.len());
        ages.sort_unstable();
        ages[ages.len() / 2]
    };
    for ccid in [2, 3] {
        let (sent, newest) =
            (age(format!("ccid={ccid}").as_str()), age(format!("ccid={ccid}&order=newest").as_str()));
        println!(
            "CCID {ccid}: half of the frames are {sent:?} old or more in the order sent, {newest:?} newest first"
        );
        assert!(
            sent > Duration::from_millis(150) && newest < Duration::from_millis(90),
            "{sent:?} {newest:?}"
        );
    }
}
