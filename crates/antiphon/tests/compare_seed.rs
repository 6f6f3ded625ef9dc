//! The seed of `compare` reaches the link that real packets cross.

use std::time::Duration;

use antiphon::{CompareOptions, LinkMethod, Stop, compare};
use antiphon_core::{Instant, Rng};
use antiphon_link::{Direction, Duplex};

/// A fade, or the time between two, lasts longer than any test: the seed alone decides whether packets are lost. In a fade
/// half of them are, so that a comparison has something to measure.
const FOR_GOOD: &str = "down.loss=1000s/1000s/50%/0%";
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];

/// Whether a proxy's link of that seed loses packets on the way back: its first flow has a fork of the seed.
fn modelled(seed: u64) -> bool {
    let flow = Rng::fork(seed, "flow 0").next_u64();
    let mut link = Duplex::new(&FOR_GOOD.parse().expect("a link"), flow).expect("a possible link");
    let mut loses = |second: u64| {
        let crosses = |ms| {
            let now = Instant::from_millis(second * 1000 + ms);
            link.offer(now, Direction::Down, vec![0u8; 500]);
            link.poll(now).is_some()
        };
        !(0..50).all(crosses)
    };
    let during = [0, 20].map(&mut loses);
    assert_eq!(during[0], during[1], "seed {seed}: the weather changes during the test");
    during[0]
}

fn measured(seed: u64) -> bool {
    let options = CompareOptions {
        link: (FOR_GOOD.into(), FOR_GOOD.parse().expect("a link")),
        link_method: Some(LinkMethod::Proxy),
        length: Some(Duration::from_millis(300)),
        transports: vec!["rtp".into()],
        out: None,
        seed,
        ..CompareOptions::default()
    };
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("loopback");
    assert_eq!(result.failures, []);
    let (figures, crossed) = (&result.figures[0], &result.crossed[0]);
    assert_eq!(figures.lost > 0, crossed.down.lost > 0, "seed {seed}: {figures:?} {crossed:?}");
    figures.lost > 0
}

#[test]
fn a_seed_decides_the_losses_of_real_packets_as_in_the_model() {
    let expected = SEEDS.map(modelled);
    assert!(expected.contains(&true) && expected.contains(&false), "both occur: {expected:?}");
    for pass in 1..=2 {
        let measured = std::thread::scope(|scope| {
            let runs = SEEDS.map(|seed| scope.spawn(move || measured(seed)));
            runs.map(|run| run.join().expect("it measures"))
        });
        assert_eq!(measured, expected, "pass {pass}");
    }
}
