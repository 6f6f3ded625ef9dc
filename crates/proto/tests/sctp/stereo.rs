//! Live stereo, 16 bits at 48 kHz in packets of 256 sample frames: 1.6 Mbit/s, which no congestion window is to hold back
//! where few packets are lost.

use std::time::Duration;

use antiphon_core::{Instant, Role};
use antiphon_testkit::{Party, Shape, Talk, World};

use crate::world::{Plan, endpoint, run};

/// The time between packets.
const INTERVAL: Duration = Duration::from_nanos(5_333_333);
/// Sample frames, an RTP header and the extension that holds a clock.
const LEN: usize = 256 * 4 + 28;
/// One minute of packets.
const PACKETS: u64 = 60_000_000_000 / 5_333_333;

/// Share of the messages that arrive after their playout or never, of a minute.
fn missing(link: &str, one_way: Duration, playout_delay: Duration, seed: u64) -> f64 {
    let plan = Plan {
        link,
        messages: PACKETS,
        interval: Some(INTERVAL),
        budget: Some(playout_delay),
        len: LEN,
        ends: Instant::from_millis(62_000),
        seed,
        ..Plan::PLAIN
    };
    let flow = run(&plan).pop().expect("one flow");
    let in_time = flow.arrivals.iter().filter(|crossing| crossing.age() <= one_way + playout_delay).count();
    let [sent, _] = flow.counters;
    let missing = 1.0 - in_time as f64 / PACKETS as f64;
    println!("{link}, seed {seed}: {:.2} % missing, {} retransmitted", 100.0 * missing, sent.retransmitted);
    missing
}

fn mean(shares: impl Iterator<Item = f64>) -> f64 {
    let shares: Vec<f64> = shares.collect();
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[test]
fn bursts_of_losses_leave_stereo_whole() {
    let (one_way, playout_delay) = (Duration::from_millis(20), Duration::from_millis(150));
    let shares = (1..=24).map(|seed| missing("delay=20ms,loss=5%/3", one_way, playout_delay, seed));
    let share = mean(shares);
    assert!(share <= 0.02, "{share}");
}

#[test]
fn single_losses_leave_stereo_whole_at_60_ms() {
    let (one_way, playout_delay) = (Duration::from_millis(30), Duration::from_millis(80));
    let shares = (1..=5).map(|seed| missing("delay=30ms,loss=1%", one_way, playout_delay, seed));
    let share = mean(shares);
    assert!(share <= 0.01, "{share}");
}

/// A stream of 1.6 Mbit/s and a transfer on a link of 2 Mbit/s, of which each may have half.
#[test]
fn stereo_above_its_share_yields() {
    let start = Instant::from_millis(500);
    let live =
        Talk::paced(start, INTERVAL, PACKETS, |_, _| Shape::new(LEN, Some(Duration::from_millis(150))));
    let near = [live, Talk::eager(start, 1400)]
        .into_iter()
        .zip([1, 11])
        .map(|(talk, seed)| Party::new(endpoint("", Role::Caller, seed)).keeping(8).talking(talk));
    let far = [2, 12].map(|seed| Party::new(endpoint("", Role::Listener, seed)).keeping(8));
    let mut world = World::side_by_side(near, far, &["rate=2Mbit/s,queue=20packets,delay=20ms"], 1);
    world.headers = 28;
    world.run_until(Instant::from_millis(60_500));
    let rates = [0, 1].map(|at| {
        let bytes: usize = world.far[at].messages.iter().map(|came| came.received.len).sum();
        bytes as f64 * 8.0 / 60e6
    });
    println!("stereo and transfer: {rates:.2?} Mbit/s");
    assert!(rates[0] <= rates[1], "it takes no more than half: {rates:?}");
    assert!(rates[0] > 0.5, "and gets along with a good part of it: {rates:?}");
}
