//! Shares of a bottleneck beside the laboratory's TCP, by the scenario that users run.

use antiphon_core::Instant;
use antiphon_lab::figures::StreamFigures;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::world::World;

const TEXT: &str = include_str!("../scenarios/fair-shares.toml");

/// Frames of each stream that were delivered in a part of a run, after its beginning.
fn frames(world: &mut World, from: Instant, until: Instant) -> Vec<f64> {
    let received = |world: &World| -> Vec<f64> {
        world.figures().streams.iter().map(|(_, figures)| figures.received.unwrap_or_default()).collect()
    };
    world.run_until(from);
    let before = received(world);
    world.run_until(until);
    received(world).iter().zip(before).map(|(after, before)| after - before).collect()
}

/// Jain's index: 1 where all get the same, 1/n where one of n gets all (RFC 5166 §2.3.1).
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

/// A queue as the scenario writes it, and the seconds of a run that are evaluated.
type Queue = (&'static str, std::ops::Range<u64>);

const DROP_TAIL: Queue = ("50packets", 10..60);
const RED: Queue = ("red/12/35/10%/gentle", 10..40);

/// Runs the points of the scenario with this transport and queue; each shares fairly.
fn assert_fair(transport: &str, (queue, seconds): Queue) {
    let text = |name: &str| vec![name.to_string()];
    let scenario = Scenario::parse("fair-shares.toml", TEXT)
        .and_then(|scenario| scenario.with_values("transport", &text(transport)))
        .and_then(|scenario| scenario.with_values("queue", &text(queue)))
        .and_then(|scenario| scenario.with_repetitions(1))
        .expect("the scenario has these");
    let plan = scenario.plan();
    assert_eq!(plan.len(), 2, "Reno and CUBIC");
    for run in plan {
        let mut world = World::new(&scenario.setup_of(&run).expect("a setup"), run.seed).expect("a world");
        let at = |seconds: u64| Instant::from_millis(1_000 * seconds);
        let frames = frames(&mut world, at(seconds.start), at(seconds.end));
        let length = (seconds.end - seconds.start) as f64;
        let rates: Vec<f64> = frames.iter().map(|frames| frames * 1400.0 * 8.0 / length / 1e6).collect();
        let (index, used) = (jain(&rates), rates.iter().sum::<f64>());
        println!("{:?}: {rates:.2?} Mbit/s, Jain's index {index:.3}", run.point);
        // Two to one is 0.9, the required minimum.
        assert!(index > 0.9, "{:?}: {rates:?} Mbit/s", run.point);
        // Of 10 Mbit/s, without headers: 9.3 to 9.6. Two flows that both slowed down would share fairly, too.
        assert!(used > 8.0, "the bottleneck is used: {rates:?} Mbit/s");
        let dropped = |figures: &StreamFigures| figures.queue_dropped.unwrap_or_default();
        let figures = world.figures();
        assert!(figures.streams.iter().all(|(_, figures)| dropped(figures) > 10.0), "there was congestion");
        assert!(world.balances());
    }
}

#[test]
fn ccid_2_and_tcp_share_a_drop_tail_queue() {
    assert_fair("dccp?ccid=2", DROP_TAIL);
}

#[test]
fn ccid_2_and_tcp_share_a_red_queue() {
    assert_fair("dccp?ccid=2", RED);
}

#[test]
fn sctp_and_tcp_share_a_drop_tail_queue() {
    assert_fair("sctp", DROP_TAIL);
}

#[test]
fn sctp_and_tcp_share_a_red_queue() {
    assert_fair("sctp", RED);
}
