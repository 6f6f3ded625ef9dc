//! Two associations on one bottleneck, and recovery from outages.

use std::time::Duration;

use antiphon_core::Instant;

use crate::world::{Plan, run};

#[test]
fn two_associations_share_a_bottleneck() {
    let plan = Plan {
        query: "reliability=full",
        link: "rate=10Mbit/s,queue=64packets,delay=20ms",
        flows: 2,
        messages: u64::MAX,
        interval: None,
        len: 1400,
        ends: Instant::from_millis(20_000),
        ..Plan::PLAIN
    };
    let flows = run(&plan);
    let rates: Vec<f64> = flows.iter().map(|flow| flow.bytes as f64 * 8.0 / 19.5e6).collect();
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    let jain = sum * sum / (2.0 * squares);
    println!("{rates:.2?} Mbit/s, Jain's index {jain:.3}");
    assert!(jain > 0.9, "{rates:?}");
    // 1400 of 1472 bytes are payload; a drop-tail queue of 1.6 bandwidth-delay products keeps the link busy.
    assert!(sum > 0.8 * 10.0 * 1400.0 / 1472.0, "the link is used: {rates:?}");
}

#[test]
fn outages_are_outlived_and_not_for_long_after() {
    for seconds in [1, 5, 30] {
        let (begins, ends) = (Instant::from_millis(3000), Instant::from_millis(3000 + 1000 * seconds));
        let plan = Plan {
            messages: 200 * (seconds + 8),
            budget: Some(Duration::from_millis(80)),
            ends: ends + Duration::from_secs(8),
            outage: begins..ends,
            ..Plan::PLAIN
        };
        let flow = run(&plan).pop().unwrap();
        assert!(!flow.closed, "{seconds} s");
        let first =
            flow.arrivals.iter().map(|crossing| crossing.came).find(|came| *came >= ends).expect("goes on");
        println!("outage of {seconds} s: the first message {:?} after its end", first.since(ends));
        // The next try is at most a second away (settings: the cap on backed-off time-outs), then it takes half a round
        // trip, its answer a round trip, and the first fresh message half a round trip.
        assert!(first.since(ends) <= Duration::from_millis(1100), "{seconds} s: {:?}", first.since(ends));
        let after = flow.arrivals.iter().filter(|crossing| crossing.sent >= first).count();
        let handed_in = (plan.ends.since(first).as_millis() / 5) as usize;
        assert!(after + 60 > handed_in.min(200 * 5), "all of it flows again: {after} of {handed_in}");
    }
}

#[test]
fn two_hundred_associations_run_side_by_side() {
    let plan = Plan {
        flows: 200,
        messages: 100,
        interval: Some(Duration::from_millis(10)),
        ends: Instant::from_millis(2000),
        ..Plan::PLAIN
    };
    let flows = run(&plan);
    assert!(flows.iter().all(|flow| flow.arrivals.len() == 100));
}
