//! Consecutive losses: run lengths (RFC 3357: loss periods) and RFC 3611's bursts and gaps.

use serde::{Deserialize, Serialize};

/// RFC 3611 §4.7.2: a burst ends where at least this many packets in a row arrived.
pub const G_MIN: u64 = 16;

/// Run lengths up to this one are counted separately, longer ones together in the last element.
pub const LONGEST_COUNTED: usize = 64;

/// Run lengths of loss and the bursts they form, fed in the order of the sequence.
#[derive(Clone, Debug)]
pub struct LossRuns {
    runs: [u64; LONGEST_COUNTED],
    run: u64,
    longest: u64,
    lost: u64,
    cluster: Cluster,
    closed: BurstTotals,
}

/// Losses with fewer than [`G_MIN`] arrivals between them, and the arrivals since the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    lost: u64,
    packets: u64,
    good: u64,
}

/// Totals of RFC 3611's bursts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BurstTotals {
    /// How many bursts.
    pub bursts: u64,
    /// Packets lost in bursts.
    pub burst_lost: u64,
    /// Packets from the first to the last loss of each burst, added up.
    pub burst_packets: u64,
}

impl Default for LossRuns {
    fn default() -> Self {
        LossRuns {
            runs: [0; LONGEST_COUNTED],
            run: 0,
            longest: 0,
            lost: 0,
            cluster: Cluster::default(),
            closed: BurstTotals::default(),
        }
    }
}

impl LossRuns {
    /// The next `n` packets of the sequence arrived.
    pub fn on_received(&mut self, n: u64) {
        if n == 0 {
            return;
        }
        self.end_run();
        self.cluster.good = self.cluster.good.saturating_add(n);
        if self.cluster.good >= G_MIN {
            self.closed = self.bursts();
            self.cluster = Cluster::default();
        }
    }

    /// The next `n` packets of the sequence were lost.
    pub fn on_lost(&mut self, n: u64) {
        if n == 0 {
            return;
        }
        self.run += n;
        self.longest = self.longest.max(self.run);
        self.lost += n;
        let between = if self.cluster.lost > 0 { self.cluster.good } else { 0 };
        self.cluster.packets += between + n;
        self.cluster.lost += n;
        self.cluster.good = 0;
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            self.runs[place(self.run)] += 1;
            self.run = 0;
        }
    }

    /// How often each run length occurred: index 0 is a single loss, the last all of [`LONGEST_COUNTED`] and more.
    pub fn run_lengths(&self) -> [u64; LONGEST_COUNTED] {
        let mut runs = self.runs;
        if self.run > 0 {
            runs[place(self.run)] += 1;
        }
        runs
    }

    /// How many runs of loss there were.
    pub fn runs(&self) -> u64 {
        self.run_lengths().iter().sum()
    }

    /// Packets lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The longest run, in packets; 0 without loss.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Mean run length in packets; `None` without loss.
    pub fn mean_burst(&self) -> Option<f64> {
        let runs = self.runs();
        (runs > 0).then(|| self.lost as f64 / runs as f64)
    }

    /// RFC 3611's bursts. A single loss with [`G_MIN`] arrivals on both sides is not a burst: it belongs to the gap.
    pub fn bursts(&self) -> BurstTotals {
        let mut totals = self.closed;
        if self.cluster.lost > 1 {
            totals.bursts += 1;
            totals.burst_lost += self.cluster.lost;
            totals.burst_packets += self.cluster.packets;
        }
        totals
    }
}

fn place(run: u64) -> usize {
    usize::try_from(run - 1).map_or(LONGEST_COUNTED - 1, |i| i.min(LONGEST_COUNTED - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fed(pattern: &[bool]) -> LossRuns {
        let mut runs = LossRuns::default();
        for lost in pattern {
            if *lost {
                runs.on_lost(1);
            } else {
                runs.on_received(1);
            }
        }
        runs
    }

    /// RFC 3611's bursts from the positions of the losses.
    fn plain_bursts(pattern: &[bool]) -> BurstTotals {
        let at: Vec<usize> = (0..pattern.len()).filter(|i| pattern[*i]).collect();
        let mut totals = BurstTotals::default();
        for cluster in at.chunk_by(|a, b| ((b - a - 1) as u64) < G_MIN) {
            if cluster.len() > 1 {
                totals.bursts += 1;
                totals.burst_lost += cluster.len() as u64;
                totals.burst_packets += (cluster[cluster.len() - 1] - cluster[0] + 1) as u64;
            }
        }
        totals
    }

    #[test]
    fn a_lone_loss_is_no_burst() {
        let mut pattern = vec![false; 40];
        pattern[20] = true;
        let runs = fed(&pattern);
        assert_eq!(runs.bursts().bursts, 0);
        assert_eq!(runs.mean_burst(), Some(1.0));
    }

    #[test]
    fn huge_runs_are_arithmetic() {
        let mut runs = LossRuns::default();
        runs.on_received(5);
        runs.on_lost(1 << 40);
        runs.on_received(1 << 40);
        assert_eq!(runs.longest(), 1 << 40);
        assert_eq!(runs.run_lengths()[LONGEST_COUNTED - 1], 1);
    }

    proptest! {
        #[test]
        fn agrees_with_the_plain_count(pattern in prop::collection::vec(prop::bool::weighted(0.12), 0..600)) {
            let runs = fed(&pattern);
            let plain: Vec<usize> = pattern.split(|lost| !lost).map(<[bool]>::len).filter(|n| *n > 0).collect();
            prop_assert_eq!(runs.runs(), plain.len() as u64);
            prop_assert_eq!(runs.longest(), plain.iter().copied().max().unwrap_or(0) as u64);
            prop_assert_eq!(runs.lost(), plain.iter().sum::<usize>() as u64);
            for (i, count) in runs.run_lengths().into_iter().enumerate() {
                let expected = plain.iter().filter(|n| **n == i + 1 || i == 63 && **n > 64).count();
                prop_assert_eq!(count, expected as u64);
            }
            prop_assert_eq!(runs.bursts(), plain_bursts(&pattern));
        }
    }
}
