//! One stream over a modelled link, from the first message to the last retransmission, and its results.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{Instant, Role};
use antiphon_measure::{DesiredQuality, interval_deviation_ms, mean_absolute_deviation};
use antiphon_proto::srp::{Decision, Mode, Settings, SrpEndpoint};
use antiphon_testkit::{Crossing, Party, Shape, Talk, World};

pub const MESSAGES: u32 = 2000;
pub const MESSAGE_BYTES: usize = 1280;
pub const INTERVAL: Duration = Duration::from_millis(160);
const DESIRED: DesiredQuality = DesiredQuality::SRP_REPORT;

/// One of the report's network conditions.
pub struct Condition {
    pub name: &'static str,
    pub round_trip: Duration,
    /// Both directions, in the notation of `antiphon link`.
    pub link: &'static str,
}

/// Loss and round trip from the report's table of test parameters. Its UDP figures are 1.5 to 14 ms above half a round
/// trip, so its routers' queues varied little: 2 ms of the delay, on average, are jitter here.
pub const CONDITIONS: [Condition; 3] = [
    Condition {
        name: "low/low",
        round_trip: Duration::from_millis(50),
        link: "loss=3%,delay=23ms,jitter=2ms/exponential",
    },
    Condition {
        name: "low/high",
        round_trip: Duration::from_millis(400),
        link: "loss=3%,delay=198ms,jitter=2ms/exponential",
    },
    Condition {
        name: "high/high",
        round_trip: Duration::from_millis(275),
        link: "loss=15%,delay=135500us,jitter=2ms/exponential",
    },
];

/// The same round trips with ten times the jitter, from queues that fill and empty.
pub const RESTLESS: [Condition; 3] = [
    Condition {
        name: "low/low",
        round_trip: Duration::from_millis(50),
        link: "loss=3%,delay=5ms,jitter=20ms/exponential",
    },
    Condition {
        name: "low/high",
        round_trip: Duration::from_millis(400),
        link: "loss=3%,delay=180ms,jitter=20ms/exponential",
    },
    Condition {
        name: "high/high",
        round_trip: Duration::from_millis(275),
        link: "loss=15%,delay=117500us,jitter=20ms/exponential",
    },
];

#[derive(Clone, Copy)]
pub struct Contestant {
    pub name: &'static str,
    pub mode: Mode,
    pub decide: Decision,
}

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub loss_ratio: f64,
    pub latency_ratio: f64,
    pub distance: f64,
    /// Mean true age of delivered messages, which the report could not measure.
    pub age_ms: f64,
    /// Distance with that age in place of the report's latency.
    pub distance_by_age: f64,
    /// Distance with the mean deviation of ages in place of that of intervals: the other reading of the report's "mean
    /// distance of the arrivals from their mean".
    pub distance_by_spread: f64,
    pub wire_bytes_per_message: f64,
}

pub fn run(condition: &Condition, contestant: Contestant, seed: u64) -> Outcome {
    let settings = Settings {
        decide: contestant.decide,
        desired_loss: DESIRED.loss_percent / 100.0,
        ..Settings::new(contestant.mode, Duration::from_secs_f64(DESIRED.latency_ms / 1e3))
    };
    let end = |role| Party::new(Box::new(SrpEndpoint::new(&settings, role, 1472, seed, Instant::ZERO)));
    let start = Instant::from_millis(10);
    let talk = Talk::paced(start, INTERVAL, MESSAGES.into(), |_, _| Shape::new(MESSAGE_BYTES, None));
    let (near, far) = (end(Role::Caller).talking(talk), end(Role::Listener).keeping(8));
    let mut world = World::side_by_side([near], [far], &[condition.link], seed);
    (world.now, world.most) = (Instant::ZERO, 1472);
    world.run_until(start + INTERVAL * (MESSAGES - 1) + Duration::from_secs(10));
    assert_eq!(world.near[0].refused, [], "an idle queue accepts");
    let up = world.link().up.counters();
    assert!(up.lost > 0 && up.balances());
    assert!(world.far[0].messages.iter().all(|came| came.received.len == MESSAGE_BYTES));
    outcome(condition, &world.far[0].crossings(&world.near[0]), world.up.bytes + world.down.bytes)
}

fn outcome(condition: &Condition, delivered: &[Crossing], wire_bytes: u64) -> Outcome {
    let millis = |d: Duration| d.as_secs_f64() * 1e3;
    let numbers: BTreeSet<u64> = delivered.iter().map(|crossing| crossing.number).collect();
    assert_eq!(numbers.len(), delivered.len(), "nothing is delivered twice");
    let arrivals: Vec<Instant> = delivered.iter().map(|crossing| crossing.came).collect();
    let by_intervals = interval_deviation_ms(&arrivals).expect("two deliveries");
    let lost_percent = 100.0 * (1.0 - delivered.len() as f64 / f64::from(MESSAGES));
    let ages: Vec<f64> = delivered.iter().map(|crossing| millis(crossing.age())).collect();
    let age_ms = ages.iter().sum::<f64>() / ages.len() as f64;
    let by_ages = mean_absolute_deviation(&ages).expect("deliveries");
    let round_trip = millis(condition.round_trip);
    let reported = DESIRED.ratios(lost_percent, round_trip, by_intervals);
    Outcome {
        loss_ratio: reported.loss,
        latency_ratio: reported.latency,
        distance: reported.distance(),
        age_ms,
        distance_by_age: reported.loss.hypot(age_ms / DESIRED.latency_ms),
        distance_by_spread: DESIRED.ratios(lost_percent, round_trip, by_ages).distance(),
        wire_bytes_per_message: wire_bytes as f64 / f64::from(MESSAGES),
    }
}
