use super::*;
use proptest::prelude::*;

const STAMPS: [u32; 6] = [0, 160, 320, 480, 640, 800];
const ARRIVALS: [u32; 6] = [0, 165, 320, 500, 640, 830];

#[test]
fn medusa_example() {
    // medusa §3: latency 2.125, jitter 0.9375 ms; the standard deviation would be 1.139.
    assert_eq!(mean_absolute_deviation(&[1.0, 2.0, 1.5, 4.0]), Some(0.9375));
    assert_eq!(mean_absolute_deviation(&[]), None);
}

#[test]
fn interarrival_jitter_of_the_sheet() {
    // recovery-and-metrics §1; printed to four decimals, so half of the last is the tolerance.
    let expected = [0.3125, 0.6055, 1.8176, 2.9540, 4.6444];
    let mut jitter = InterarrivalJitter::new(8000);
    for (i, (arrival, stamp)) in ARRIVALS.into_iter().zip(STAMPS).enumerate() {
        jitter.on_packet(Instant::from_micros(u64::from(arrival) * 125), stamp);
        if i > 0 {
            let error = jitter.jitter - expected[i - 1];
            assert!(error.abs() < 0.00006, "{i}: {}", jitter.jitter);
        }
    }
    assert!((jitter.ms() - 4.6444 / 8.0).abs() < 1e-4);
    assert_eq!(jitter.max_ms(), jitter.ms());
}

#[test]
fn wraps_make_no_jitter() {
    let mut jitter = InterarrivalJitter::new(8000);
    jitter.on_packet(Instant::from_millis(0), u32::MAX - 79);
    jitter.on_packet(Instant::from_millis(20), 80);
    assert_eq!(jitter.ms(), 0.0);
}

#[test]
fn gaps_over_eighty_milliseconds() {
    let mut gaps = Gaps::default();
    for at in [0, 10, 90, 171, 160, 180] {
        gaps.on_arrival(Instant::from_millis(at));
    }
    // 10, 80 (not over), 81, 0 (an older stamp), 9 after the latest stamp.
    assert_eq!(gaps.over_limit(), 1);
    assert_eq!(gaps.max_ms(), Some(81.0));
    assert_eq!(gaps.mean_ms(), Some(36.0));
}

#[test]
fn ipdv_needs_neighbours() {
    let mut variation = DelayVariation::default();
    for (seq, ms) in [(1, 10), (2, 12), (4, 30), (5, 29)] {
        variation.on_delay(seq, Duration::from_millis(ms));
    }
    assert_eq!(variation.ipdv().count(), 2);
    assert_eq!(variation.ipdv().max(), Some(Duration::from_millis(2)));
    assert_eq!(pdv(variation.delays(), 1.0), Some(Duration::from_millis(20)));
}

proptest! {
    #[test]
    fn rolling_deviation_is_that_of_the_last_hundred(gaps in prop::collection::vec(0u64..200_000_000, 2..350)) {
        let mut rolling = RollingDeviation::default();
        gaps.iter().for_each(|g| rolling.on_gap(Duration::from_nanos(*g)));
        let last = &gaps[gaps.len().saturating_sub(ROLLING_GAPS)..];
        let n = last.len() as f64;
        let mean = last.iter().map(|g| *g as f64).sum::<f64>() / n;
        let plain = (last.iter().map(|g| (*g as f64 - mean).powi(2)).sum::<f64>() / n).sqrt() / 1e6;
        // A gap dropped too early or kept too long would change it by far more than a nanosecond.
        prop_assert!((rolling.ms().unwrap() - plain).abs() < 1e-6);
    }

    #[test]
    fn hostile_stamps_never_panic(packets in prop::collection::vec((any::<u64>(), any::<u32>()), 0..200)) {
        let mut float = InterarrivalJitter::new(48_000);
        let mut gaps = Gaps::default();
        let mut rolling = RollingDeviation::default();
        for (at, stamp) in packets {
            float.on_packet(Instant::from_nanos(at), stamp);
            if let Some(gap) = gaps.on_arrival(Instant::from_nanos(at)) {
                rolling.on_gap(gap);
            }
        }
        prop_assert!(float.ms().is_finite() && rolling.ms().unwrap_or(0.0).is_finite());
    }
}
