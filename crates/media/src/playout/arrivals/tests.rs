use antiphon_core::Rng;
use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// One packet each 5 ms, with delays drawn by `draw`, in milliseconds.
fn filled(packets: u64, mut draw: impl FnMut() -> f64) -> ArrivalDelays {
    let mut delays = ArrivalDelays::new();
    for n in 0..packets {
        delays.on_arrival(at(n * 5_000_000), 0, (draw() * 1e6) as i64, false);
    }
    delays
}

fn ms(delay: Option<Duration>) -> f64 {
    delay.expect("there are packets").as_secs_f64() * 1e3
}

#[test]
fn bins_and_their_edges_agree() {
    for n in 0..BINS {
        assert_eq!(bin(edge(n)), n, "{n}");
        assert_eq!(bin(edge(n) + 1), (n + 1).min(BINS - 1), "{n}");
    }
    assert_eq!([bin(i64::MIN), bin(i64::MAX)], [0, BINS - 1]);
    assert_eq!((edge(FINE_BINS), edge(FINE_BINS + MIDDLE_BINS)), (FINE_TO, MIDDLE_TO));
}

/// P(X > x) = exp(-x/3 ms) has its 99 % at 13.8 ms, and 99.9 % at 20.7 ms; a uniform one up to 20 ms at 19.8 ms.
#[test]
fn quantiles_of_known_distributions() {
    let mut rng = Rng::fork(1, "delays");
    // 4000 packets fit the window. The 99 % rank of so many varies by 0.16 % (binomial), which is 0.5 ms.
    let delays = filled(4000, || rng.exponential() * 3.0);
    let (p99, p999) = (ms(delays.quantile(0, 0.01)), ms(delays.quantile(0, 0.001)));
    assert!((p99 - 13.8).abs() < 1.5 && (p999 - 20.7).abs() < 5.0, "{p99} {p999}");
    let delays = filled(4000, || rng.unit() * 20.0);
    let p99 = ms(delays.quantile(0, 0.01));
    assert!((p99 - 19.8).abs() < 0.25 + 0.1, "{p99}");
    assert!((ms(delays.quantile(0, 0.5)) - 10.0).abs() < 0.25 + 0.5);
}

/// A packet in 1000 is 90 ms late, for 4 s; then never again.
#[test]
fn a_spike_is_forgotten_when_it_leaves_the_window() {
    let mut delays = ArrivalDelays::new();
    let mut forgotten = None;
    for n in 0..8000u64 {
        let delay = if n < 800 && n % 100 == 50 { 90 } else { 2 };
        delays.on_arrival(at(n * 5_000_000), 0, delay * MS, false);
        let now = ms(delays.quantile(0, 0.001));
        if n > 60 && now < 90.0 && forgotten.is_none() {
            forgotten = Some(n * 5);
        }
    }
    // The last of them came at 3.75 s; the block that it is in goes between 18 and 20 s later.
    let forgotten = forgotten.expect("it is forgotten");
    assert!((21_000..24_000).contains(&forgotten), "{forgotten}");
}

#[test]
fn lost_packets_are_not_late_ones() {
    let mut delays = filled(1000, || 2.0);
    delays.on_lost(500);
    delays.on_arrival(at(5_000_000_000), 0, 40 * MS, true);
    let counts = ArrivalCounts { first: 1000, repaired: 1, lost: 500 };
    assert_eq!(delays.counts(), counts);
    assert!((counts.loss_share() - 501.0 / 1501.0).abs() < 1e-9);
    assert_eq!(ms(delays.quantile(0, 0.001)), 2.0);
    assert_eq!(ms(delays.quantile(0, 0.0)), 40.0);
    assert_eq!(ArrivalDelays::new().quantile(0, 0.1), None);
}

/// A route 30 ms longer, which the schedule follows by 1 ms per second: what was counted against the old schedule is counted
/// against the new one.
#[test]
fn a_schedule_that_moves_moves_what_was_counted() {
    let mut delays = ArrivalDelays::new();
    let mut schedule = 0;
    for n in 0..4000u64 {
        schedule += 5_000;
        delays.on_arrival(at(n * 5_000_000), schedule, 31 * MS - schedule, false);
    }
    assert_eq!(schedule, 20 * MS);
    assert_eq!(ms(delays.quantile(schedule, 0.0)), 11.0);
    assert_eq!(ms(delays.quantile(schedule, 0.9)), 11.0);
    // A route that is shorter again: what is left of the delays.
    assert_eq!(ms(delays.quantile(schedule + 30 * MS, 0.0)), 0.0);
}

#[test]
fn the_curve_of_the_whole_stream_forgets_nothing_and_says_no_more_than_it_knows() {
    let mut n = 0;
    let delays = filled(20_000, || {
        n += 1;
        if n <= 3 { 300.0 } else { 4.0 }
    });
    assert_eq!(ms(delays.quantile(0, 0.0)), 4.0);
    assert_eq!(ms(delays.quantile_of_all(1e-4)), 300.0);
    assert_eq!(ms(delays.quantile_of_all(1e-3)), 4.0);
    assert_eq!(delays.quantile_of_all(1e-5), None);
}

#[test]
fn a_long_silence_empties_the_window() {
    let mut delays = filled(1000, || 80.0);
    delays.on_arrival(at(3_600_000_000_000), 0, MS, false);
    assert_eq!((delays.counts().first, ms(delays.quantile(0, 0.0))), (1, 1.0));
    delays.restart();
    assert_eq!(delays.counts(), ArrivalCounts::default());
}

proptest! {
    /// The edge above the exact rank, for any delays within the window.
    #[test]
    fn quantiles_agree_with_a_sorted_list(
        delays in prop::collection::vec(-20_000_000i64..400_000_000, 1..300), late in 0.0f64..1.0,
    ) {
        let mut window = ArrivalDelays::new();
        for (n, delay) in delays.iter().enumerate() {
            window.on_arrival(at(n as u64 * 1_000_000), 0, *delay, n % 3 == 0);
        }
        let mut sorted = delays.clone();
        sorted.sort_unstable();
        let most = (late * sorted.len() as f64) as usize;
        let exact = sorted[(sorted.len() - 1 - most.min(sorted.len() - 1)).min(sorted.len() - 1)].max(0);
        let got = window.quantile(0, late).unwrap().as_nanos() as i64;
        prop_assert_eq!(got, edge(bin(exact)));
    }

    /// Hostile values neither panic nor break the sums.
    #[test]
    fn any_values_are_taken(values in prop::collection::vec((any::<u64>(), any::<i64>(), any::<i64>()), 1..50)) {
        let mut window = ArrivalDelays::new();
        let mut now = 0;
        for (passed, schedule, delay) in values {
            now = passed.max(now);
            window.on_arrival(at(now), schedule, delay, false);
            window.on_lost(passed);
            // Every value is later than the undelayed packet by no more than can be expressed.
            let late = window.quantile(schedule, 0.01);
            prop_assert!(late.is_none_or(|late| late <= Duration::from_nanos(u64::MAX)));
            prop_assert!(late >= window.quantile(schedule, 0.5));
        }
    }
}

/// Ten seconds of which one packet in a hundred is 30 ms late, then 200 ms of packets that are 800 ms late, and a schedule that stands
/// so much later: the 30 ms are known still, and the 800 ms are no jitter. A shorter path changes nothing of the 30 ms either.
#[test]
fn a_new_schedule_keeps_what_is_known_of_jitter() {
    let ms = 1_000_000;
    let at = |n: u64| Instant::from_millis(n * 5);
    // Also where the last packets lie in two blocks.
    for packets in [2_000, 2_020] {
        let mut delays = ArrivalDelays::new();
        for n in 0..packets {
            delays.on_arrival(at(n), 7 * ms, if n % 100 == 0 { 30 * ms } else { 0 }, false);
        }
        for n in packets..packets + 40 {
            delays.on_arrival(at(n), 7 * ms, 800 * ms, false);
        }
        delays.on_new_schedule(at(packets + 40), 60_000 * ms);
        let known = |delays: &ArrivalDelays, schedule: i64| delays.quantile(schedule, 4e-3).unwrap();
        assert_eq!(known(&delays, 60_007 * ms), Duration::from_millis(30), "{packets}");
        delays.on_step(700 * ms);
        assert_eq!(known(&delays, 59_307 * ms), Duration::from_millis(30), "{packets}");
    }
}
