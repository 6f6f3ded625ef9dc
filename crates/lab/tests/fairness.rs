//! Shares of a bottleneck beside the laboratory's TCP, by the scenario that users run.

use antiphon_core::Instant;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::world::World;

const TEXT: &str = include_str!("../scenarios/fair-shares.toml");

/// Frames that each stream got through in a while of a run, after its beginning.
fn shares(world: &mut World, from: Instant, until: Instant) -> Vec<f64> {
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

#[test]
fn windows_of_any_kind_share_a_bottleneck_with_tcp() {
    let scenario = Scenario::parse("fair-shares.toml", TEXT).expect("a scenario");
    let (from, until) = (Instant::from_millis(20_000), Instant::from_millis(80_000));
    for run in scenario.with_repetitions(1).expect("one is enough").plan() {
        let setup = scenario_setup(TEXT, &run.point);
        let mut world = World::new(&setup, run.seed).expect("a world");
        let shares = shares(&mut world, from, until);
        let seconds = until.since(from).as_secs_f64();
        let rates: Vec<f64> = shares.iter().map(|frames| frames * 1400.0 * 8.0 / seconds / 1e6).collect();
        let index = jain(&shares);
        println!("{:?}: {rates:.2?} Mbit/s, Jain's index {index:.3}", run.point);
    }
}

fn scenario_setup(text: &str, point: &[(String, String)]) -> antiphon_lab::setup::Setup {
    Scenario::parse("fair-shares.toml", text).expect("a scenario").setup(point).expect("a setup")
}
