use antiphon_core::Rng;

use super::*;

const PACKET: u64 = 5_333_333;

/// A path whose packets come one each 5.33 ms, in their order.
struct Path {
    rng: Rng,
    target: DelayTarget,
    packets: u64,
}

impl Path {
    fn new(config: AdaptiveDelay) -> Self {
        Path { rng: Rng::fork(3, "path"), target: DelayTarget::new(config), packets: 0 }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.packets * PACKET)
    }

    /// For so long, with delays of that exponential mean beyond `base`, in milliseconds; returns the mean target.
    fn run(&mut self, time: Duration, base: f64, mean: f64) -> f64 {
        let packets = (time.as_nanos() as u64).div_ceil(PACKET);
        let mut sum = 0.0;
        for _ in 0..packets {
            let delay = base + self.rng.exponential() * mean;
            self.arrives(delay);
            sum += ms(&self.target);
        }
        sum / packets as f64
    }

    fn arrives(&mut self, delay: f64) {
        self.packets += 1;
        let now = self.now() + Duration::from_secs_f64(delay / 1e3);
        self.target.on_arrival(now, 0, (delay * 1e6) as i64, false);
        self.target.advance(now, 0, 0);
    }
}

fn ms(target: &DelayTarget) -> f64 {
    target.target().as_secs_f64() * 1e3
}

const MINUTE: Duration = Duration::from_secs(60);

/// The quantile for four in 1000 of an exponential distribution of mean m is 5.5 m. Hysteresis keeps what is up to 2.5 ms longer.
#[test]
fn the_target_is_the_quantile_for_the_permitted_lateness() {
    for mean in [1.0, 2.0, 4.0] {
        let mut path = Path::new(AdaptiveDelay::default());
        path.run(MINUTE, 0.0, mean);
        let settled = path.run(5 * MINUTE, 0.0, mean);
        let quantile = 5.5 * mean;
        assert!(
            (quantile - 0.5..quantile * 1.15 + 1.0 + 2.5).contains(&settled),
            "{mean}: {settled} for {quantile}"
        );
    }
}

#[test]
fn nothing_is_known_at_first() {
    let mut path = Path::new(AdaptiveDelay::default());
    assert_eq!(path.run(Duration::from_millis(2900), 0.0, 0.1), 80.0);
    path.run(Duration::from_millis(300), 0.0, 0.1);
    // Not shorter than the shortest.
    assert_eq!(ms(&path.target), 5.0);
}

/// Up with the packet that shows it, down again within 30 s, which leaves 8 s to shorten the sound.
#[test]
fn a_spike_lifts_it_at_once_and_not_for_long() {
    let mut path = Path::new(AdaptiveDelay::default());
    path.run(MINUTE, 0.0, 1.0);
    let before = ms(&path.target);
    (0..30).for_each(|n| path.arrives(100.0 - f64::from(n) * 2.0));
    // Fifteen of 3750 packets are permitted to be later.
    assert!((69.0..74.0).contains(&ms(&path.target)), "{}", ms(&path.target));
    path.run(Duration::from_secs(17), 0.0, 1.0);
    assert!(ms(&path.target) > 60.0);
    path.run(Duration::from_secs(5), 0.0, 1.0);
    assert!(ms(&path.target) < before + 6.0, "{} {before}", ms(&path.target));
}

/// A steady path changes it a few times a minute at most.
#[test]
fn it_does_not_move_for_nothing() {
    let mut path = Path::new(AdaptiveDelay::default());
    path.run(MINUTE, 0.0, 2.0);
    let (rises, falls) = path.target.changes();
    path.run(10 * MINUTE, 0.0, 2.0);
    let now = path.target.changes();
    assert!(now.1 - falls <= 60, "{} falls in ten minutes", now.1 - falls);
    assert!(now.0 - rises <= 200, "{} rises in ten minutes", now.0 - rises);
}

#[test]
fn bounds_and_freezing_hold() {
    let ms_of = Duration::from_millis;
    let config = AdaptiveDelay { min: ms_of(20), max: ms_of(60), freeze: Some(Duration::from_secs(70)) };
    let mut path = Path::new(config);
    assert_eq!(config.start(), ms_of(60));
    path.run(MINUTE, 0.0, 0.1);
    assert_eq!(ms(&path.target), 20.0);
    (0..40).for_each(|_| path.arrives(300.0));
    assert_eq!(ms(&path.target), 60.0);
    path.run(Duration::from_secs(9), 0.0, 0.1);
    assert!(!path.target.is_frozen(path.now()));
    path.run(3 * MINUTE, 0.0, 0.1);
    assert!(path.target.is_frozen(path.now()));
    assert_eq!(ms(&path.target), 60.0, "frozen where it was");
}

/// One packet in 100 is lost, with a transport that needs 30 ms to repair it. Of the repaired ones four in ten may be late, so the
/// target is the delay that as many exceed (0.9 m) and 30 ms.
#[test]
fn losses_add_the_time_of_a_repair() {
    let mut path = Path::new(AdaptiveDelay::default());
    path.target.set_repair(Some(Duration::from_millis(30)));
    path.run(MINUTE, 0.0, 2.0);
    let without = ms(&path.target);
    assert!(without < 25.0, "{without}");
    let mut lost = 0;
    for n in 0..6000 {
        path.packets += 1;
        if n % 100 == 0 {
            lost += 1;
        } else {
            let delay = path.rng.exponential() * 2.0;
            path.target.on_arrival(path.now(), 0, (delay * 1e6) as i64, false);
        }
        path.target.advance(path.now(), 0, lost);
    }
    let with = ms(&path.target);
    assert!((32.0..33.5 + 2.5).contains(&with), "{with}");
    // A transport that repairs nothing needs no time for it.
    path.target.set_repair(None);
    path.run(MINUTE, 0.0, 2.0);
    assert!(ms(&path.target) < 25.0);
}

#[test]
fn repairs_that_come_show_how_long_they_take() {
    let mut path = Path::new(AdaptiveDelay::default());
    path.target.set_repair(Some(Duration::from_millis(60)));
    for n in 0..11_000u64 {
        path.packets += 1;
        let (delay, again) = if n % 100 == 99 { (22 * 1_000_000, true) } else { (2_000_000, false) };
        path.target.on_arrival(path.now(), 0, delay, again);
        path.target.advance(path.now(), 0, 0);
    }
    assert_eq!(ms(&path.target), 23.0);
}
