//! Values of the charts, computed directly from each packet's latency and fate.

use crate::fate::Fate;

/// The share of packets that have not arrived `x` ms after they were sent, as steps `(x_ms, share)`.
///
/// A packet that never arrived counts at every `x`, so the curve ends at the loss, and a transport can't look faster by
/// losing slow packets. The share holds from its `x` to the next. At most `limit` steps are returned, including all of
/// the slowest packets; none for an empty run.
pub fn not_there_after(latency_ms: &[Option<f32>], limit: usize) -> Vec<(f64, f64)> {
    let total = latency_ms.len() as f64;
    let mut there: Vec<f32> = latency_ms.iter().flatten().copied().filter(|l| l.is_finite()).collect();
    there.sort_by(f32::total_cmp);
    // The chart is read at its tail: half the points are its packets, one by one.
    let tail = there.len().saturating_sub(limit / 2);
    let stride = tail.div_ceil((limit / 2).max(1)).max(1);
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (i, latency) in there.iter().enumerate() {
        if i != 0 && i < tail && i % stride != 0 {
            continue;
        }
        let x = f64::from(*latency);
        if steps.last().is_none_or(|last| last.0 < x) {
            let arrived = there.partition_point(|l| l <= latency);
            steps.push((x, (total - arrived as f64) / total));
        }
    }
    steps
}

/// The smallest playout delay, in ms, at which at most `share` of all packets are missing, late and lost together.
///
/// `None` if no playout delay suffices (more than that are lost), or if fewer than `1 / share` packets were sent, so
/// that one packet would decide.
pub fn target_for(latency_ms: &[Option<f32>], share: f64) -> Option<f64> {
    let mut there: Vec<f32> = latency_ms.iter().flatten().copied().filter(|l| l.is_finite()).collect();
    there.sort_by(f32::total_cmp);
    let total = latency_ms.len();
    // A share such as 0.001 is not exact in binary; 3000 · 0.001 must allow three packets.
    let allowed = (total as f64 * share + 1e-9).floor() as usize;
    let needed = total.checked_sub(allowed)?;
    if allowed == 0 || needed == 0 {
        return None;
    }
    there.get(needed - 1).map(|l| f64::from(*l))
}

/// How many bursts of each length occurred, by length: a burst is a run of packets the listener did not hear.
pub fn burst_lengths(fates: &[Fate]) -> Vec<(usize, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for run in fates.chunk_by(|a, b| a.is_heard() == b.is_heard()) {
        if !run[0].is_heard() {
            *counts.entry(run.len()).or_insert(0) += 1;
        }
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn curve_ends_at_the_loss() {
        let steps = not_there_after(&[Some(3.0), None, Some(1.0), Some(1.0)], 100);
        assert_eq!(steps, [(1.0, 0.5), (3.0, 0.25)]);
        assert!(not_there_after(&[], 100).is_empty());
        assert!(not_there_after(&[None], 100).is_empty());
    }

    #[test]
    fn long_runs_keep_their_tail() {
        let run: Vec<_> = (0..100_000).map(|i| Some(i as f32)).collect();
        let steps = not_there_after(&run, 400);
        assert!(steps.len() <= 402, "{}", steps.len());
        let tail: Vec<f64> = steps[steps.len() - 200..].iter().map(|s| s.0).collect();
        assert_eq!(tail, (99_800..100_000).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn targets_by_hand() {
        let mut run: Vec<_> = (1..=998).map(|i| Some(i as f32)).collect();
        run.extend([None, None]);
        assert_eq!(target_for(&run, 0.01), Some(990.0));
        assert_eq!(target_for(&run, 0.002), Some(998.0));
        assert_eq!(target_for(&run, 0.001), None, "two of a thousand are lost");
        assert_eq!(target_for(&run, 0.0001), None, "too few packets to tell");
        assert_eq!(target_for(&[], 0.1), None);
        let all: Vec<_> = (1..=3000).map(|i| Some(i as f32)).collect();
        assert_eq!(target_for(&all, 0.001), Some(2997.0));
    }

    #[test]
    fn bursts_mix_causes_and_end_with_a_frame_heard() {
        use Fate::*;
        let fates = [Lost, Late, Received, Expired, Recovered, Lost, Concealed];
        assert_eq!(burst_lengths(&fates), [(1, 1), (2, 2)]);
        assert!(burst_lengths(&[Received; 3]).is_empty());
    }

    proptest! {
        #[test]
        fn a_target_misses_what_it_says(run in prop::collection::vec(prop::option::of(0f32..100.0), 1..300),
                                        share in 0.001f64..1.0) {
            if let Some(target) = target_for(&run, share) {
                let missed = run.iter().filter(|l| l.is_none_or(|l| f64::from(l) > target)).count();
                prop_assert!(missed as f64 <= run.len() as f64 * share + 1e-6);
            }
        }

        #[test]
        fn curves_fall(run in prop::collection::vec(prop::option::of(0f32..100.0), 0..300)) {
            let steps = not_there_after(&run, 50);
            prop_assert!(steps.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 > w[1].1));
        }
    }
}
