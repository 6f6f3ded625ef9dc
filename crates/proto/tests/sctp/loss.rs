//! Five percent packet loss in both directions: 2000 messages of 160 bytes, one every 5 ms, round trip 40 ms.
//!
//! The bounds are from measurements of another implementation (`dcsctp` 0.1.16) on such a link; other seeds of the same
//! loss change the means by less than a millisecond and the counts by about 10.

use std::time::Duration;

use antiphon_core::Outcome;
use antiphon_testkit::Crossing;

use crate::world::{Flow, Plan, is_large, run};

const LOSSY: Plan<'_> = Plan { link: "delay=20ms,loss=5%", seed: 7, ..Plan::PLAIN };

fn figures(query: &str) -> (Flow, f64, f64, f64) {
    figures_of(query, LOSSY.seed)
}

fn figures_of(query: &str, seed: u64) -> (Flow, f64, f64, f64) {
    let flow = run(&Plan { query, seed, ..LOSSY }).pop().unwrap();
    let ages = flow.ages();
    let mean = ages.iter().sum::<f64>() / ages.len() as f64;
    let at = |share: f64| ages[((ages.len() as f64 * share).ceil() as usize).clamp(1, ages.len()) - 1];
    println!(
        "{query}: received {}, mean {mean:.1}, p95 {:.0}, p99 {:.0}, max {:.0} ms",
        ages.len(),
        at(0.95),
        at(0.99),
        at(1.0)
    );
    assert_eq!(flow.outcomes.len(), 2000, "one outcome each");
    let (p99, max) = (at(0.99), at(1.0));
    (flow, mean, p99, max)
}

fn count(flow: &Flow, wanted: impl Fn(&Outcome) -> bool) -> usize {
    flow.outcomes.values().filter(|outcome| wanted(outcome)).count()
}

#[test]
fn reliable_messages_all_arrive_and_are_acked() {
    let (flow, mean, p99, max) = figures("reliability=full");
    assert_eq!((flow.arrivals.len(), count(&flow, |o| *o == Outcome::Acked)), (2000, 2000));
    assert!((22.0..25.0).contains(&mean) && p99 <= 85.0 && max <= 170.0, "{mean} {p99} {max}");
    for seed in 1..=6 {
        let unordered = figures_of("reliability=full", seed).1;
        let ordered = figures_of("reliability=full&order=ordered", seed).1;
        assert!(
            ordered > unordered + 1.0 && ordered < 35.0,
            "seed {seed}, the order is waited for: {ordered}"
        );
    }
    // Of 2000, about five are lost again when retransmitted. Later messages reveal it: the time-out of RFC 9260, a
    // second and more, is not waited for.
    // With this seed no packet of the handshake is lost, which only the first time-out repairs.
    let (slow, _, _, max) = figures_of("reliability=full&rto-initial=3s&rto-min=1s&rto-max=60s", 1);
    assert_eq!(slow.arrivals.len(), 2000);
    assert!(max <= 170.0, "as with short time-outs: {max}");
}

#[test]
fn retransmissions_are_limited_and_their_end_is_reported() {
    let (flow, mean, _, max) = figures("retransmissions=0");
    // 5 % of 2000, with a standard deviation of 10.
    assert!((1850..1950).contains(&flow.arrivals.len()), "{}", flow.arrivals.len());
    assert!(mean < 22.0 && max <= 60.0, "{mean} {max}");
    let exhausted = count(&flow, |o| *o == Outcome::RetriesExhausted);
    // Some of those arrived, but their acknowledgements were lost.
    assert!(exhausted >= 2000 - flow.arrivals.len() && exhausted < 200, "{exhausted}");
    let (once, ..) = figures("retransmissions=1");
    assert!(once.arrivals.len() >= 1985, "5 % of 5 % are lost: {}", once.arrivals.len());
}

#[test]
fn no_message_comes_after_its_deadline_by_more_than_the_path() {
    // A deadline below 80 ms leaves no time for a retransmission on this path: a loss is detected after 55 ms (a round
    // trip, three later packets), and the retransmission takes 20.
    let budget = Some(Duration::from_millis(100));
    let flow = run(&Plan { link: "delay=20ms,loss=20%", budget, ..LOSSY }).pop().unwrap();
    let ages = flow.ages();
    println!("20 % loss, 100 ms: received {}, max {:.0} ms", ages.len(), ages.last().unwrap());
    // First sent at 100 ms at the latest, as the contract allows (a window may have delayed it), plus one delay of 20
    // ms.
    assert!(*ages.last().unwrap() <= 120.0, "{ages:?}");
    assert!(flow.arrivals.len() > 1850, "of the 20 % lost, three in four come back: {}", flow.arrivals.len());
    assert_eq!(flow.outcomes.len(), 2000);
    let given_up = count(&flow, |o| matches!(o, Outcome::Expired { .. }));
    assert_eq!(given_up + count(&flow, |o| *o == Outcome::Acked), 2000);
    // Some arrived, but their acknowledgements were lost.
    assert!(given_up >= 2000 - flow.arrivals.len() && given_up < 200, "{given_up}");
    for (number, outcome) in &flow.outcomes {
        let came = flow.arrivals.iter().any(|crossing| crossing.number == *number);
        match outcome {
            Outcome::Acked => assert!(came, "message {number} acknowledged and never arrived"),
            Outcome::Expired { maybe_received } => assert!(*maybe_received || !came, "message {number}"),
            other => panic!("message {number}: {other:?}"),
        }
    }
}

#[test]
fn large_messages_cross_a_lossy_link() {
    let plan = Plan { query: "reliability=full&streams=2", large: Some(200_000), len: 1000, ..LOSSY };
    let flow = run(&Plan { link: "delay=20ms,loss=2%", messages: 600, ..plan }).pop().unwrap();
    assert_eq!(flow.arrivals.len(), 600);
    assert_eq!(flow.arrivals.iter().filter(|crossing| is_large(crossing.number)).count(), 3);
    assert!(flow.outcomes.values().all(|o| *o == Outcome::Acked));
}

#[test]
fn interleaving_keeps_sound_from_waiting_behind_large_messages() {
    let worst = |query| {
        let link = "rate=20Mbit/s,delay=20ms";
        let flow = run(&Plan { query, link, large: Some(200_000), ..LOSSY }).pop().unwrap();
        assert_eq!(flow.arrivals.len(), 2000);
        let small = flow.arrivals.iter().filter(|crossing| !is_large(crossing.number));
        small.map(Crossing::age).max().unwrap()
    };
    let on = worst("reliability=full&streams=2&interleaving=on");
    let off = worst("reliability=full&streams=2");
    println!("worst age of sound beside 200 kB a second: {on:?} interleaved, {off:?} not");
    // 200 kB take 80 ms at this rate, and several round trips of slow start.
    assert!(on * 2 < off, "{on:?} {off:?}");
}

#[test]
fn a_run_repeats_from_its_seed() {
    let once = |seed| {
        let flow = run(&Plan { seed, budget: Some(Duration::from_millis(80)), ..LOSSY }).pop().unwrap();
        (flow.arrivals, flow.outcomes, flow.counters)
    };
    assert_eq!(once(3), once(3));
    assert_ne!(once(3).0, once(4).0);
}
