//! The report's three network conditions in virtual time: loss, latency and distance from the origin with each decision
//! algorithm.
//!
//! As in the report: 2000 messages of 1280 bytes, one every 160 ms; desired loss 10 %, desired latency 250 ms; the same
//! loss in both directions, so requests and probes are lost as well. Quality is `antiphon_measure`'s `DesiredQuality`,
//! as in the laboratory, and latency in both its readings: by the intervals between deliveries, and by the ages of
//! delivered messages.

mod world;

use antiphon_proto::srp::{Decision, Mode};

use crate::world::{CONDITIONS, Condition, Contestant, Outcome, RESTLESS, run};

const SEEDS: u64 = 30;

/// Means over the seeds.
fn mean(condition: &Condition, contestant: Contestant, seeds: u64) -> Outcome {
    let outcomes: Vec<Outcome> = (0..seeds).map(|seed| run(condition, contestant, seed)).collect();
    let of = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / seeds as f64;
    let mean = Outcome {
        loss_ratio: of(|o| o.loss_ratio),
        latency_ratio: of(|o| o.latency_ratio),
        distance: of(|o| o.distance),
        age_ms: of(|o| o.age_ms),
        distance_by_age: of(|o| o.distance_by_age),
        distance_by_spread: of(|o| o.distance_by_spread),
        wire_bytes_per_message: of(|o| o.wire_bytes_per_message),
    };
    println!(
        "{:10} {:10} loss {:.3} latency {:.3} distance {:.4}, age {:.1} ms distance {:.4}, by spread {:.4}, {:.0} bytes a message",
        condition.name,
        contestant.name,
        mean.loss_ratio,
        mean.latency_ratio,
        mean.distance,
        mean.age_ms,
        mean.distance_by_age,
        mean.distance_by_spread,
        mean.wire_bytes_per_message
    );
    mean
}

const ELL: Contestant =
    Contestant { name: "ell", mode: Mode::AsPublished, decide: Decision::EqualLossLatency };
const OQ: Contestant = Contestant { name: "oq", mode: Mode::AsPublished, decide: Decision::OptimumQuality };
/// Delivers each message on arrival: plain UDP.
const NEVER: Contestant = Contestant { name: "never", mode: Mode::Improved, decide: Decision::Never };
const NEAREST: Contestant = Contestant { name: "nearest", mode: Mode::Improved, decide: Decision::Nearest };
const DEADLINE: Contestant =
    Contestant { name: "deadline", mode: Mode::Improved, decide: Decision::Deadline };

#[test]
fn nearest_meets_the_quality_best_in_all_three_conditions() {
    for condition in &CONDITIONS {
        let others = [ELL, OQ, NEVER].map(|contestant| mean(condition, contestant, SEEDS));
        let ours = mean(condition, NEAREST, SEEDS);
        let name = condition.name;
        assert!(ours.distance < 1.0 && ours.loss_ratio < 1.0 && ours.latency_ratio < 1.0, "{name}: {ours:?}");
        // At 3 % and 50 ms the best of the others (OQ, 0.1218) repairs everything as well, and is 0.0008 further only
        // because it waits longer before a request: four standard errors of the mean of 30 seeds, though not in every
        // one of them. At 3 % and 400 ms it is 2.3 % nearer than UDP (2.6 % in 400 seeds), which is eight standard
        // errors.
        let best_by = |of: fn(&Outcome) -> f64| others.iter().map(of).fold(f64::MAX, f64::min);
        let margin = if name == "low/high" { 0.98 } else { 1.0 };
        assert!(ours.distance < margin * best_by(|o| o.distance), "{name}: {ours:?}");
        // Nor is it due to the intervals, which do not show that a repair is late as long as other messages arrive in
        // between. By the spread of ages a repair at 400 ms costs nearly as much as a loss, and little can be gained:
        // 0.3 % here, 0.4 % in 400 seeds. With averages of 50 messages that started at zero it was 0.2 % further than
        // UDP.
        assert!(ours.distance_by_age < best_by(|o| o.distance_by_age), "{name}: {ours:?}");
        assert!(ours.distance_by_spread < best_by(|o| o.distance_by_spread), "{name}: {ours:?}");
        assert!(ours.distance_by_age < 1.0 && ours.distance_by_spread < 1.0, "{name}: {ours:?}");
        assert!(ours.age_ms < 250.0, "{name}: {ours:?}");
    }
}

/// Nor is it due to constant queues.
#[test]
fn nearest_stays_nearest_where_delays_vary() {
    for condition in &RESTLESS {
        let others = [ELL, OQ, NEVER].map(|contestant| mean(condition, contestant, 8));
        let ours = mean(condition, NEAREST, 8);
        let name = condition.name;
        let best = others.iter().map(|o| o.distance).fold(f64::MAX, f64::min);
        // 3.5 %, 2.1 % and 20 % nearer; eight seeds vary by half a percent.
        assert!(ours.distance < 0.985 * best, "{name}: {ours:?}, best of the others {best}");
        assert!(ours.distance < 1.0, "{name}: {ours:?}");
    }
}

/// Findings of the report that do not depend on its testbed.
#[test]
fn the_published_algorithms_behave_as_the_report_says() {
    let [low, high, lossy] = &CONDITIONS;
    let of = |condition, contestant| run(condition, contestant, 77);
    // Claims 3 and 5: OQ recovers every loss, ELL prefers losses.
    assert_eq!(of(low, OQ).loss_ratio, 0.0);
    assert!(of(low, ELL).loss_ratio > 0.03);
    // Claim 6: at low loss and high latency a request costs more than it gains.
    assert!(of(high, OQ).distance > of(high, NEVER).distance);
    assert!(of(high, ELL).distance > 1.0);
    // Claims 9 and 10: at high loss OQ is inside the desired quality, UDP and ELL are not.
    assert!(of(lossy, OQ).distance < 1.0);
    assert!(of(lossy, ELL).distance > 1.0 && of(lossy, NEVER).distance > of(lossy, ELL).distance);
}

/// Requests nothing that would be too late to be played: with a round trip of 275 and 400 ms that is plain UDP, with 50
/// ms everything is repaired.
#[test]
fn deadline_asks_only_for_what_can_be_played() {
    let [low, high, lossy] = &CONDITIONS;
    assert_eq!(run(low, DEADLINE, 5).loss_ratio, 0.0);
    for condition in [high, lossy] {
        let (deadline, never) = (run(condition, DEADLINE, 5), run(condition, NEVER, 5));
        // Before the first round trip is measured, only one or two requests are sent.
        assert!((deadline.loss_ratio - never.loss_ratio).abs() < 0.03, "{deadline:?} {never:?}");
    }
}
