use super::estimator::ESTIMATE_SLEW_PPM_PER_S;
use super::*;
use antiphon_core::Rng;
use std::time::Duration;

/// A sender that runs `ppm` fast, packets of 256 sample frames at 48 kHz, exponential queueing of 2 ms mean and
/// `delay` by time; returns the clock after each second.
fn run(ppm: f64, seconds: u64, seed: u64, delay: impl Fn(f64) -> f64) -> (MediaClock, Vec<f64>) {
    let mut clock = MediaClock::new(48_000);
    let mut rng = Rng::new(seed);
    let mut seen = Vec::new();
    let period = 256.0 / 48_000.0 / (1.0 + ppm / 1e6);
    for n in 0..(seconds as f64 / period) as u64 {
        let sent = n as f64 * period;
        let arrival = sent + delay(sent) + 0.002 * rng.exponential();
        clock.on_arrival(Instant::from_nanos((arrival * 1e9) as u64), n * 256);
        if sent as u64 >= seen.len() as u64 {
            seen.push(clock.drift().0);
        }
    }
    (clock, seen)
}

/// Within 3 ppm after 70 s: the smallest difference worth correcting (1 ms in five minutes).
#[test]
fn drift_is_found() {
    for (seed, ppm) in [0.0, 100.0, -100.0, 500.0, -500.0].into_iter().enumerate() {
        let (clock, seen) = run(ppm, 120, seed as u64, |_| 0.02);
        assert!((clock.drift().0 - ppm).abs() < 3.0, "{} for {ppm}", clock.drift().0);
        assert!(seen[70..].iter().all(|d| (d - ppm).abs() < 5.0), "{ppm}: {:?}", &seen[70..]);
    }
}

#[test]
fn estimates_are_bounded() {
    let (clock, seen) = run(3000.0, 100, 1, |_| 0.02);
    assert_eq!(clock.drift().0, MAX_DRIFT_PPM);
    assert!(seen.windows(2).all(|w| (w[1] - w[0]).abs() <= ESTIMATE_SLEW_PPM_PER_S * 1.05));
}

/// 20 ms within a minute would pass for 333 ppm.
#[test]
fn a_change_of_route_is_no_drift() {
    for jump in [0.02, -0.015] {
        let (_, seen) = run(50.0, 200, 3, |t| if t < 100.3 { 0.03 } else { 0.03 + jump });
        assert!(seen[80..].iter().all(|d| (d - 50.0).abs() < 6.0), "{jump}: {:?}", &seen[80..]);
    }
}

#[test]
fn the_schedule_follows_without_running_away() {
    let (clock, _) = run(-400.0, 300, 9, |_| 0.02);
    let now = Instant::from_millis(300_000);
    // Slow by 400 ppm: the smallest of the last five seconds is up to 2 ms behind, the first one is 120 ms.
    let expected = 300.0 * (1.0 - 400e-6) - 0.02;
    let error = clock.media_at(now).unwrap() / 48_000.0 - expected;
    assert!(error.abs() < 0.0025, "{error}");
}

#[test]
fn hostile_time_stamps_do_not_overflow() {
    let mut clock = MediaClock::new(8_000);
    for media in [0, u64::MAX, 1 << 40, 5, u64::MAX / 2] {
        clock.on_arrival(Instant::from_millis(20), media);
        clock.on_arrival(Instant::from_nanos(u64::MAX / 2) + Duration::from_secs(1), media);
        assert!(clock.instant(u64::MAX).is_some());
    }
}

/// A queue of 50 ms for 2.5 s leaves the schedule where it was: its smallest transit time is kept for four seconds. A
/// memory of one second would let it move by more than a millisecond.
#[test]
fn a_passing_queue_does_not_move_the_schedule() {
    let queue = |t: f64| if (20.0..22.5).contains(&t) { 0.07 } else { 0.02 };
    let before = run(0.0, 20, 4, queue).0.instant(0).unwrap();
    for seconds in [21, 22, 23, 30] {
        let after = run(0.0, seconds, 4, queue).0.instant(0).unwrap();
        assert!(after.signed_nanos_since(before).abs() < 100_000, "{seconds} s");
    }
}

#[test]
fn spans_are_exact_however_far_media_times_are_apart() {
    let clock = MediaClock::new(48_000);
    let most = (i64::MAX / 1_000_000_000) as u64;
    for apart in [0, 1, 255, most - 1, most, most + 1, 1 << 40] {
        let exact = i128::from(apart) * 1_000_000_000 / 48_000;
        let cut = exact.min(MAX_SPAN) as i64;
        assert_eq!((clock.span(7, 7 + apart), clock.span(7 + apart, 7)), (cut, -cut), "{apart}");
    }
    assert_eq!(clock.span(0, u64::MAX), MAX_SPAN as i64);
}

/// What comes before the schedule for 200 ms moves it at once, and is no drift, be it one step or many; a single packet moves
/// nothing.
#[test]
fn a_stream_that_comes_early_moves_the_schedule_at_once() {
    let expected = |t: f64| 0.02 + if t < 60.0 { 0.8 } else { 0.0 };
    let (clock, seen) = run(50.0, 100, 5, expected);
    assert!((clock.offset().unwrap() as f64 / 1e6 - 20.0).abs() < 6.0, "{:?}", clock.offset());
    assert!(seen[70..].iter().all(|d| (d - 50.0).abs() < 6.0), "{:?}", &seen[60..]);
    // A sender that catches up with 0.8 s at 1.02 times its pace.
    let (clock, seen) = run(50.0, 200, 5, |t| 0.02 + 0.8 - ((t - 60.0) * 0.02).clamp(0.0, 0.8));
    assert!((clock.offset().unwrap() as f64 / 1e6 - 20.0).abs() < 11.0, "{:?}", clock.offset());
    assert!(seen[60..].iter().all(|d| (d - 50.0).abs() < 20.0), "{:?}", &seen[60..]);

    let mut clock = MediaClock::new(48_000);
    let at = |n: u64| Instant::from_micros(100_000 + n * 16_000 / 3);
    for n in 0..2_000 {
        assert_eq!(clock.on_arrival(at(n), n * 256), None);
    }
    let before = clock.offset().unwrap();
    assert_eq!(clock.on_arrival(at(2_000), 2_000 * 256 + 24_000), None);
    for n in 2_001..2_038 {
        assert_eq!(clock.on_arrival(at(n), n * 256), None);
    }
    assert!((before - clock.offset().unwrap()) < 1_100_000, "a millisecond at most in 200 ms");
    assert!((2_038..9_000).all(|n| clock.on_arrival(at(n), n * 256).is_none()));
    // 9 ms are followed as drift is, 11 ms at once.
    for (from, early, step) in [(9_000, 432, None), (9_100, 960, Some(())), (9_200, 0, None)] {
        let steps: Vec<Duration> =
            (from..from + 100).filter_map(|n| clock.on_arrival(at(n), n * 256 + early)).collect();
        assert_eq!(steps.first().map(|_| ()), step, "{early}: {steps:?}");
        assert!(steps.len() <= 1, "{steps:?}");
    }
}

/// A server at both ends loses time at once: 0.3 to 3 ms, each minute. The schedule moves with it, and the sender's clock runs as before. Where packets come as
/// they did, it stays.
#[test]
fn a_server_at_both_ends_that_loses_time_is_no_path_and_no_drift() {
    for (shared, ppm) in [(true, 0.0), (true, 50.0), (false, 50.0)] {
        let mut clock = MediaClock::new(48_000);
        let (mut rng, period) = (Rng::new(7), 64.0 / 48_000.0 / (1.0 + ppm / 1e6));
        let (mut slipped, mut worst) = (0.0, 0.0f64);
        for n in 0..(400.0 / period) as u64 {
            let sent = n as f64 * period;
            if n > 0 && (sent / 60.0) as u64 > ((sent - period) / 60.0) as u64 {
                let by = [0.3e-3, 0.9e-3, 1.9e-3, 3e-3, 0.5e-3, 1.3e-3][(sent / 60.0) as usize % 6];
                slipped += by;
                clock
                    .on_slip(Instant::from_nanos(((sent + slipped + 0.001) * 1e9) as u64), (by * 1e9) as i64);
            }
            let later = if shared { slipped } else { 0.0 };
            let arrival = sent + later + 0.001 + 0.0001 * rng.exponential();
            clock.on_arrival(Instant::from_nanos((arrival * 1e9) as u64), n * 64);
            let off = clock.offset().unwrap() as f64 / 1e9 - (later - sent * ppm / 1e6) - 0.001;
            // It is observed for a quarter of a second; and a clock that is fast is followed down.
            if sent > 90.0 && sent % 60.0 > 0.4 {
                worst = worst.max(off.abs());
                assert!((clock.drift().0 - ppm).abs() < 4.0, "{ppm} ppm, {sent} s: {:?}", clock.drift());
            }
        }
        assert!(worst < 0.35e-3, "{shared}, {ppm} ppm: {worst} s");
    }
}
