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
            // A packet a second goes out meanwhile; then slow start, or the rate's doubling.
            assert!(first <= Duration::from_millis(1_100), "{query}, {seconds} s: {first:?}");
            assert!(whole <= Duration::from_millis(4_000), "{query}, {seconds} s: {whole:?}");
        }
    }
}
