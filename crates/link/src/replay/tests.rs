use antiphon_core::Rng;
use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Samples in milliseconds: sent at, delay or lost.
fn path(samples: &[(u64, Option<u64>)], end: ReplayEnd) -> ReplayPath {
    let sample = |(at, delay): &(u64, Option<u64>)| (ms(*at), delay.map(Duration::from_millis));
    ReplayPath::new(samples.iter().map(sample), end).unwrap()
}

/// When packets offered at these milliseconds arrive, in milliseconds.
fn arrivals(path: &ReplayPath, offers: &[u64]) -> Vec<Option<f64>> {
    let mut nth = 0;
    let mut last = None;
    let mut each = |at: &u64| {
        nth = if last.replace(*at) == Some(*at) { nth + 1 } else { 0 };
        path.fate(ms(*at), nth).map(|due| due.as_nanos() as f64 / 1e6)
    };
    offers.iter().map(&mut each).collect()
}

#[test]
fn between_samples_losses_hold_and_arrivals_lie_on_a_line() {
    let path = path(&[(10, Some(20)), (20, Some(30)), (30, None), (40, Some(10))], ReplayEnd::Hold);
    // Before the first: its delay. From 10 to 20 arrivals go from 30 to 50. The lost one at 30 has the delay half-way
    // between 30 ms and 10 ms, so that packets before it arrive at its 50, together with the previous sample. From 30
    // on all are lost until 40, after which the last state holds.
    let offers = [0, 10, 15, 19, 20, 25, 29, 30, 39, 40, 50];
    let expected = [20.0, 30.0, 40.0, 48.0, 50.0, 50.0, 50.0, -1.0, -1.0, 50.0, 60.0];
    let expected = expected.map(|ms: f64| (ms >= 0.0).then_some(ms));
    assert_eq!(arrivals(&path, &offers), expected);
}

#[test]
fn reordering_is_as_it_was_and_no_more() {
    // The second overtakes the first.
    let path = path(&[(0, Some(50)), (10, Some(5)), (20, Some(40))], ReplayEnd::Hold);
    let offers = [0, 2, 9, 10, 15];
    assert_eq!(arrivals(&path, &offers), [50.0, 50.0, 50.0, 15.0, 37.5].map(Some));
}

#[test]
fn packets_of_one_instant_meet_its_samples_in_turn() {
    let path = path(&[(0, Some(1)), (0, None), (0, Some(3)), (8, Some(3))], ReplayEnd::Hold);
    let expected = [Some(1.0), None, Some(3.0), Some(3.0), Some(7.0)];
    assert_eq!(arrivals(&path, &[0, 0, 0, 0, 4]), expected);
}

#[test]
fn the_end_holds_or_starts_again() {
    let samples = [(0, Some(2)), (10, None), (20, Some(6))];
    assert_eq!(arrivals(&path(&samples, ReplayEnd::Hold), &[25, 1000]), [Some(31.0), Some(1006.0)]);
    let lost = path(&samples[..2], ReplayEnd::Hold);
    assert_eq!(arrivals(&lost, &[9, 10, 1000]), [Some(11.0), None, None]);
    // From the last sample, 26, arrivals go on to the first one's next, 32.
    let again = path(&samples, ReplayEnd::Repeat(Duration::from_millis(30)));
    let expected = [Some(29.0), Some(32.0), None, Some(56.0), Some(302.0)];
    assert_eq!(arrivals(&again, &[25, 30, 45, 50, 300]), expected);
    assert_eq!(again.duration(), Duration::from_millis(30));
    // Samples after the period are neither used nor considered for interpolation.
    let cut = path(&[(0, Some(2)), (10, Some(2)), (20, None)], ReplayEnd::Repeat(Duration::from_millis(15)));
    assert_eq!(arrivals(&cut, &[12, 14, 15, 20]), [Some(14.0), Some(16.0), Some(17.0), Some(22.0)]);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let new = |samples: &[(Instant, Option<Duration>)], end| ReplayPath::new(samples.iter().copied(), end);
    assert_eq!(new(&[], ReplayEnd::Hold), Err(ReplayError::Empty));
    let back = [(ms(1), None), (ms(2), None), (ms(1), None)];
    assert_eq!(new(&back, ReplayEnd::Hold), Err(ReplayError::OutOfOrder { index: 2 }));
    assert_eq!(new(&back[..1], ReplayEnd::Repeat(Duration::ZERO)), Err(ReplayError::Period));
    assert_eq!(new(&back[..1], ReplayEnd::Hold).unwrap().duration(), Duration::from_nanos(1));
}

#[test]
fn the_line_is_bounded() {
    let mut link = Replay::new(path(&[(0, Some(1_000))], ReplayEnd::Hold));
    let refused = (0..MAX_PACKETS + 5).filter(|_| link.offer(Instant::ZERO, vec![0]).is_some());
    assert_eq!(refused.count(), 5);
    assert!(!link.has_room() && link.counters().balances());
}

/// Sends at `times`, and returns for each packet when it arrived.
fn sent_through(path: &ReplayPath, times: &[Instant]) -> (Vec<Option<Instant>>, Counters) {
    let mut link = Replay::new(path.clone());
    let mut arrived = vec![None; times.len()];
    for (n, at) in times.iter().enumerate() {
        assert!(link.offer(*at, (n as u64).to_le_bytes().to_vec()).is_none());
        assert!(link.counters().balances());
        // Late polling still returns the model's instants.
        if n % 3 == 0 {
            take(&mut link, *at, &mut arrived);
        }
    }
    take(&mut link, Instant::from_nanos(u64::MAX), &mut arrived);
    (arrived, link.counters())
}

fn take(link: &mut Replay<Vec<u8>>, now: Instant, arrived: &mut [Option<Instant>]) {
    while let Some((at, packet)) = link.poll_at(now) {
        let n = u64::from_le_bytes(packet.try_into().unwrap()) as usize;
        assert_eq!(arrived[n].replace(at), None, "each packet once");
    }
}

fn any_samples() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
    // Steps of zero: several packets of one block.
    let step = prop_oneof![Just(0), 1..10_000_000u64];
    proptest::collection::vec((step, proptest::option::weighted(0.8, 0..50_000_000u64)), 1..120).prop_map(
        |steps| {
            let mut at = 0;
            steps
                .into_iter()
                .map(|(step, delay)| {
                    at += step;
                    (at, delay)
                })
                .collect()
        },
    )
}

fn recorded(samples: &[(u64, Option<u64>)], end: ReplayEnd) -> ReplayPath {
    let sample =
        |(at, delay): &(u64, Option<u64>)| (Instant::from_nanos(*at), delay.map(Duration::from_nanos));
    ReplayPath::new(samples.iter().map(sample), end).unwrap()
}

proptest! {
    /// Offered at the times of the recording, every packet gets its recorded fate, to the nanosecond; and again in the
    /// second run of a repeating one.
    #[test]
    fn the_same_times_give_the_same_fates(samples in any_samples()) {
        let path = recorded(&samples, ReplayEnd::Hold);
        let period = path.duration();
        let times: Vec<Instant> = samples.iter().map(|(at, _)| Instant::from_nanos(*at)).collect();
        let expected: Vec<Option<Instant>> =
            samples.iter().map(|(at, delay)| delay.map(|delay| Instant::from_nanos(at + delay))).collect();
        let (arrived, counters) = sent_through(&path, &times);
        prop_assert_eq!(&arrived, &expected);
        prop_assert_eq!(counters.lost as usize, samples.iter().filter(|(_, delay)| delay.is_none()).count());
        prop_assert!(counters.balances() && counters.in_flight == 0);
        prop_assert_eq!(counters.delivered_bytes, 8 * counters.delivered);
        let again = recorded(&samples, ReplayEnd::Repeat(period + Duration::from_nanos(samples[0].0)));
        let later = |at: &Instant| *at + (period + Duration::from_nanos(samples[0].0)) * 7;
        let (arrived, _) = sent_through(&again, &times.iter().map(later).collect::<Vec<_>>());
        prop_assert_eq!(arrived, expected.iter().map(|at| at.as_ref().map(later)).collect::<Vec<_>>());
    }

    /// Where the path kept order, its replay does too, at any times of offers; and nothing arrives before it was sent.
    #[test]
    fn order_is_kept_where_it_was(samples in any_samples(), seed in any::<u64>(), repeat in any::<bool>()) {
        let mut last = 0;
        let in_order: Vec<(u64, Option<u64>)> = samples.iter().map(|(at, delay)| {
            let delay = delay.map(|delay| (at + delay).max(last) - at);
            last = delay.map_or(last, |delay| at + delay);
            (*at, delay)
        }).collect();
        // At the restart it could not keep order: the last packet may arrive after the next run's first.
        let tail = Duration::from_nanos(last + 1);
        let end = if repeat { ReplayEnd::Repeat(tail) } else { ReplayEnd::Hold };
        let path = recorded(&in_order, end);
        let mut rng = Rng::new(seed);
        let mut at = 0;
        let times: Vec<Instant> =
            (0..200).map(|_| { at += rng.next_u64() % 3_000_000; Instant::from_nanos(at) }).collect();
        let (arrived, _) = sent_through(&path, &times);
        let came: Vec<(Instant, Instant)> =
            times.iter().zip(&arrived).filter_map(|(sent, at)| at.map(|at| (*sent, at))).collect();
        prop_assert!(came.iter().all(|(sent, at)| at >= sent));
        prop_assert!(came.is_sorted_by_key(|(_, at)| *at));
    }
}
