//! A run cut into blocks of media time: what errors are estimated from.
//!
//! Losses and stalls come in clusters, so packets are no independent samples; blocks longer than the clusters nearly are.
//! Each block is reduced to counts from which every figure of the run can be drawn again, for the whole run or for blocks
//! drawn with replacement (block bootstrap: Künsch 1989, "The jackknife and the bootstrap for general stationary
//! observations"; [`resample`]). The blocks of all transports of a comparison begin at the same media times, so that what all of them met
//! does not count as a difference between them.

use std::time::Duration;

use antiphon_core::Rng;

use crate::fate::Fate;
use crate::packet_log::{LoggedPacket, PacketLog};
use crate::statistics::{BlockMean, correlation};

/// What happened in one block, or in several together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Packets sent.
    pub sent: u64,
    /// Of them, those that came, whenever.
    pub came: u64,
    /// Packets that the network lost, on the way there or back.
    pub lost: u64,
    /// Of those that never came, the ones that the sender gave up at their deadline.
    pub expired: u64,
    /// Runs of packets that never came, and the packets in them: a run is of the block in which it begins.
    pub runs: u64,
    /// See [`Self::runs`].
    pub in_runs: u64,
    /// Packets that came within each delay of the grid, but not within the one before; up to the longest delay of the run.
    by_delay: Vec<u32>,
}

impl Sums {
    fn empty(places: usize) -> Self {
        let by_delay = vec![0; places];
        Sums { sent: 0, came: 0, lost: 0, expired: 0, runs: 0, in_runs: 0, by_delay }
    }

    fn clear(&mut self) {
        let by_delay = std::mem::take(&mut self.by_delay);
        *self = Sums { by_delay, sent: 0, came: 0, lost: 0, expired: 0, runs: 0, in_runs: 0 };
        self.by_delay.fill(0);
    }

    fn add(&mut self, other: &Sums) {
        self.sent += other.sent;
        self.came += other.came;
        self.lost += other.lost;
        self.expired += other.expired;
        self.runs += other.runs;
        self.in_runs += other.in_runs;
        self.by_delay.iter_mut().zip(&other.by_delay).for_each(|(sum, count)| *sum += count);
    }

    /// Packets that were not there `delay_ms` after they were sent; the delay is rounded up to the grid (a quarter of a millisecond at its beginning).
    pub fn missing_at(&self, delay_ms: f64) -> u64 {
        let within = place(delay_ms).map_or(GRID, |last| last + 1).min(self.by_delay.len());
        self.sent - self.by_delay[..within].iter().map(|count| u64::from(*count)).sum::<u64>()
    }

    /// Packets that never came.
    pub fn never_came(&self) -> u64 {
        self.sent - self.came
    }

    /// The least delay of the grid, in milliseconds, after which at most the share `missing` was not there; `None` if there
    /// is none up to 10 s, or nothing was sent.
    pub fn delay_for(&self, missing: f64) -> Option<f64> {
        // A hair of tolerance for a share that is whole but for the last bits.
        let allowed = missing * self.sent as f64 + 1e-6;
        let mut absent = self.sent;
        for (place, count) in self.by_delay.iter().enumerate() {
            absent -= u64::from(*count);
            if absent as f64 <= allowed && absent < self.sent {
                return Some(grid_ms(place));
            }
        }
        None
    }
}

/// The blocks of one transport's run.
#[derive(Clone, Debug)]
pub struct Blocks {
    blocks: Vec<Sums>,
    /// Whether delays and losses are of the way there alone.
    pub one_way: bool,
}

impl Blocks {
    /// Cuts the runs of a comparison into blocks that begin at the same media times: of a second, or of twice the longest run
    /// of packets that did not come or came 100 ms later than the median, or longer where that would make more than 100 blocks.
    pub fn of(logs: &[&PacketLog]) -> Vec<Blocks> {
        let last = |log: &&PacketLog| log.config().packet.saturating_mul(settled(log).count() as u32);
        let stall = |log: &&PacketLog| log.config().packet.saturating_mul(longest_stall(log));
        let width = logs.iter().map(stall).max().unwrap_or_default().saturating_mul(2).max(LEAST_WIDTH);
        let width = width.max(logs.iter().map(last).max().unwrap_or_default() / MOST_BLOCKS);
        let cut = |log: &&PacketLog| {
            let each = (width.as_nanos() / log.config().packet.as_nanos().max(1)).max(1) as usize;
            Blocks { blocks: blocks(log, each), one_way: log.has_one_clock() }
        };
        logs.iter().map(cut).collect()
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none: nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The whole run.
    pub fn total(&self) -> Sums {
        let mut total = Sums::empty(self.places());
        self.blocks.iter().for_each(|block| total.add(block));
        total
    }

    /// Delays of the grid up to the longest of the run.
    fn places(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.by_delay.len())
    }

    /// In how many blocks `count` is not zero.
    pub fn holding(&self, count: impl Fn(&Sums) -> u64) -> usize {
        self.blocks.iter().filter(|block| count(block) > 0).count()
    }

    /// The share of packets for which `count` counts, block by block.
    pub fn share(&self, count: impl Fn(&Sums) -> u64) -> BlockMean {
        BlockMean::of(&self.shares(count))
    }

    /// Correlation of that share in one block with that in the next; 0 where it is the same in all of them.
    pub fn correlation(&self, count: impl Fn(&Sums) -> u64) -> f64 {
        correlation(&self.shares(count))
    }

    fn shares(&self, count: impl Fn(&Sums) -> u64) -> Vec<f64> {
        let sent = self.blocks.iter().filter(|block| block.sent > 0);
        sent.map(|block| count(block) as f64 / block.sent as f64).collect()
    }

    /// 95 % interval of the least delay after which at most the share `missing` is not there: the delays at which the interval
    /// of the share that is missing holds it. `None` where too few blocks tell.
    pub fn delay_interval(&self, missing: f64) -> (Option<f64>, Option<f64>) {
        let sent: Vec<&Sums> = self.blocks.iter().filter(|block| block.sent > 0).collect();
        let mut absent: Vec<u64> = sent.iter().map(|block| block.sent).collect();
        let mut shares = vec![0.0; sent.len()];
        let mut low = None;
        for place in 0..self.places() {
            for ((absent, share), block) in absent.iter_mut().zip(&mut shares).zip(&sent) {
                *absent -= u64::from(block.by_delay[place]);
                *share = *absent as f64 / block.sent as f64;
            }
            let at = grid_ms(place);
            let Some((least, most)) = BlockMean::of(&shares).interval() else { break };
            if least <= missing && low.is_none() {
                low = Some(at);
            }
            if most <= missing {
                return (low, Some(at));
            }
        }
        (low, None)
    }
}

/// Draws the blocks of all runs of a comparison again, `times` times, each time as many as there are, with replacement, and
/// of each run the same ones; `each` sees what every run then comes to.
///
/// Some that follow each other are drawn together, since what happens in a block tells something of the next; the last is followed
/// by the first, so that all are drawn alike often (circular block bootstrap: Politis and Romano 1992).
pub fn resample(runs: &[Blocks], times: usize, seed: u64, mut each: impl FnMut(&[Sums])) {
    let count = runs.iter().map(Blocks::len).max().unwrap_or(0);
    if count == 0 {
        return;
    }
    // The cube root is best for a variance (Hall, Horowitz and Jing 1995, "On blocking rules for the bootstrap with dependent
    // data", Biometrika 82).
    let together = (count as f64).cbrt() as usize;
    let mut rng = Rng::fork(seed, "blocks");
    let mut sums: Vec<Sums> = runs.iter().map(|run| Sums::empty(run.places())).collect();
    for _ in 0..times {
        sums.iter_mut().for_each(Sums::clear);
        let mut drawn = 0;
        for n in 0..count {
            drawn = if n % together == 0 { rng.below(count as u32) as usize } else { (drawn + 1) % count };
            for (sums, run) in sums.iter_mut().zip(runs) {
                // A run that ended early has fewer.
                if let Some(block) = run.blocks.get(drawn) {
                    sums.add(block);
                }
            }
        }
        each(&sums);
    }
}

/// The packets whose fate is known. Those on their way are neither there nor missing yet.
fn settled(log: &PacketLog) -> impl Iterator<Item = LoggedPacket> + '_ {
    log.rows().filter(|row| row.fate != Fate::Pending)
}

/// The time that a packet took from the sender to the receiver.
fn delay(row: &LoggedPacket, one_way: bool) -> Option<Duration> {
    if one_way { row.one_way } else { row.rtt().map(|rtt| rtt / 2) }
}

/// The longest run of packets that did not come or came much later than the median.
fn longest_stall(log: &PacketLog) -> u32 {
    let one_way = log.has_one_clock();
    let median =
        if one_way { log.reached().quantile(0.5) } else { log.rtt().quantile(0.5).map(|rtt| rtt / 2) };
    let latest = median.unwrap_or_default() + STALLED;
    let runs = settled(log).scan(0, |run, row| {
        *run = if delay(&row, one_way).is_none_or(|delay| delay > latest) { *run + 1 } else { 0 };
        Some(*run)
    });
    runs.max().unwrap_or(0)
}

/// Blocks of `each` packets. A last part of less than half that goes to the block before.
fn blocks(log: &PacketLog, each: usize) -> Vec<Sums> {
    let (one_way, packets) = (log.has_one_clock(), settled(log).count());
    let count = ((packets + each / 2) / each).max(usize::from(packets > 0));
    let mut blocks = vec![Sums::empty(GRID); count];
    // The block in which the run of packets that never came began.
    let mut begun = None;
    for (at, row) in settled(log).enumerate() {
        let number = (at / each).min(count - 1);
        blocks[number].sent += 1;
        blocks[number].lost += u64::from(row.fate == Fate::Lost);
        if let Some(delay) = delay(&row, one_way) {
            begun = None;
            blocks[number].came += 1;
            if let Some(place) = place(delay.as_secs_f64() * 1e3) {
                blocks[number].by_delay[place] += 1;
            }
        } else {
            blocks[number].expired += u64::from(row.fate == Fate::Expired);
            let run = begun.unwrap_or(number);
            blocks[run].runs += u64::from(begun.is_none());
            blocks[run].in_runs += 1;
            begun = Some(run);
        }
    }
    let used = |block: &Sums| block.by_delay.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let places = blocks.iter().map(used).max().unwrap_or(0);
    blocks.iter_mut().for_each(|block| block.by_delay.truncate(places));
    blocks
}

/// The first delay of the grid that is not below this one; `None` beyond its end.
fn place(ms: f64) -> Option<usize> {
    let (mut from, mut places) = (0.0, 1);
    for (end, step) in GRID_MS {
        if ms <= end {
            return Some(places - 1 + ((ms - from) / step - 1e-9).ceil().max(0.0) as usize);
        }
        (from, places) = (end, places + ((end - from) / step) as usize);
    }
    None
}

fn grid_ms(place: usize) -> f64 {
    let (mut from, mut before) = (0.0, 0);
    for (end, step) in GRID_MS {
        let places = ((end - from) / step) as usize;
        if place <= before + places {
            return from + (place - before) as f64 * step;
        }
        (from, before) = (end, before + places);
    }
    unreachable!("place {place} is not in the grid")
}

/// Where each part of the grid ends, and its steps, in milliseconds: as fine as what matters to musicians at its beginning.
const GRID_MS: [(f64, f64); 4] = [(50.0, 0.25), (250.0, 1.0), (1_000.0, 10.0), (10_000.0, 100.0)];
/// Delays in the grid, 0 included.
const GRID: usize = 1 + 200 + 200 + 75 + 90;

/// The shortest block.
const LEAST_WIDTH: Duration = Duration::from_secs(1);
/// More blocks tell no more and take longer.
const MOST_BLOCKS: u32 = 100;
/// A packet that is so much later than others belongs to a stall.
const STALLED: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
