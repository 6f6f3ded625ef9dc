//! The share of a stream of sound that survives an outage.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_testkit::Crossing;

use crate::world::{World, paced};

/// How long after the end of an outage the first message arrives, and how long until nine in ten do.
fn recovery(query: &str, outage: Duration) -> (Duration, Duration) {
    // Sound in messages of 5 ms, useless after 100 ms, over a path of 40 ms that now and then loses one.
    let (every, budget) = (Duration::from_millis(5), Duration::from_millis(100));
    let talk = paced(Instant::from_millis(500), 400, every, budget);
    let mut world = World::new("delay=20ms,up.loss=0.1%", query, talk, 5);
    let begins = Instant::from_millis(20_000);
    let ends = begins + outage;
    world.outage(begins..ends);
    world.run_until(ends + Duration::from_secs(20));
    let arrivals = world.arrivals();
    let before = world.arrived(0, begins - Duration::from_secs(5), begins);
    assert!(before > 980, "{query}: {before} of 1000 messages arrive before the outage");
    assert_eq!(world.arrived(0, begins + Duration::from_millis(20), ends), 0, "the outage happened");
    let first = arrivals.iter().map(|crossing| crossing.came).find(|at| *at >= ends).expect("it comes back");
    let whole = (0..200u32).map(|n| ends + Duration::from_millis(100) * n);
    let mut whole = whole.filter(|from| world.arrived(0, *from, *from + Duration::from_secs(1)) >= 180);
    let whole = whole.next().expect("it comes back whole");
    let worst = arrivals.iter().map(Crossing::age).max().unwrap_or_default();
    // The budget, and the path.
    assert!(worst <= Duration::from_millis(121), "nothing is delivered that is older: {worst:?}");
    (first.since(ends), whole.since(ends))
}

#[test]
fn sound_is_back_soon_after_an_outage_of_any_length() {
    for query in ["ccid=2", "ccid=3"] {
        for seconds in [1, 5, 30] {
            let (first, whole) = recovery(query, Duration::from_secs(seconds));
            println!("{query} {seconds} s: first message after {first:?}, whole after {whole:?}");
            // A packet a second goes out meanwhile, and its answer lets messages go again.
            assert!(first <= Duration::from_millis(1_100), "{query}, {seconds} s: {first:?}");
            // A second more at most: the restart.
            assert!(whole <= Duration::from_millis(2_100), "{query}, {seconds} s: {whole:?}");
        }
    }
}

#[test]
fn sound_in_messages_of_5_ms_bears_a_loss_in_a_hundred() {
    for (query, most_expired) in [("ccid=2", 0.03), ("ccid=3", 0.01), ("ccid=3&order=newest", 0.01)] {
        let (every, budget) = (Duration::from_micros(5_333), Duration::from_millis(80));
        let starts = Instant::from_millis(500);
        let mut world = World::new("delay=20ms,loss=1%", query, paced(starts, 1044, every, budget), 5);
        world.run_until(starts + Duration::from_secs(30));
        let counters = world.near[0].counters();
        let expired = counters.messages_expired as f64 / counters.messages_accepted as f64;
        println!("{query}: {:.2} % expired, {} arrived", expired * 100.0, world.arrivals().len());
        assert!(expired <= most_expired, "{query}: {expired}");
        // The first second has 187: a start from reports on nothing would let ten of them go.
        let first = world.arrived(0, starts, starts + Duration::from_secs(1));
        assert!(first >= 175, "{query}: {first} in the first second");
    }
}

#[test]
fn newest_first_leaves_the_old_ones_to_expire() {
    // Twice as much sound as the link carries: in the order sent, whatever arrives has waited nearly as long as it may.
    let (every, budget) = (Duration::from_millis(5), Duration::from_millis(200));
    let age = |query: &str| {
        let link = "up.rate=0.8Mbit/s,up.queue=5packets,delay=5ms";
        let mut world = World::new(link, query, paced(Instant::ZERO, 1000, every, budget), 5);
        world.run_until(Instant::from_millis(20_000));
        let mut ages: Vec<Duration> = world.arrivals().iter().map(Crossing::age).collect();
        assert!(ages.len() > 1_000, "{query}: {} messages", ages.len());
        ages.sort_unstable();
        ages[ages.len() / 2]
    };
    for ccid in [2, 3] {
        let (sent, newest) =
            (age(format!("ccid={ccid}").as_str()), age(format!("ccid={ccid}&order=newest").as_str()));
        println!(
            "CCID {ccid}: half of the messages are {sent:?} old or more in the order sent, {newest:?} newest first"
        );
        assert!(
            sent > Duration::from_millis(150) && newest < Duration::from_millis(90),
            "{sent:?} {newest:?}"
        );
    }
}
