//! How long after the undelayed packet packets arrive: counted in a sliding window, and over the whole stream.
//!
//! The window is made of blocks, so that an old spike is forgotten at once and completely when it leaves, and not by and by. Each
//! block counts delays against the schedule as it stood when the block began, so that drift and a new route, which move the
//! schedule, do not smear what was counted before.

use std::time::Duration;

use antiphon_core::Instant;

/// The delays of the packets that arrived in the last 20 s (`WINDOW`), and of all.
#[derive(Clone, Debug)]
pub struct ArrivalDelays {
    blocks: Vec<Block>,
    /// The block that is filled.
    at: usize,
    began: Option<Instant>,
    /// Of the whole stream, against the schedule of their time.
    total: Block,
}

#[derive(Clone, Debug)]
struct Block {
    bins: Vec<u32>,
    /// Behind the last bin that holds a packet: most delays lie in the first few of them.
    end: usize,
    /// Expected arrival of media time 0 when the block began, in nanoseconds.
    schedule: i64,
    /// Packets that arrived as they were first sent.
    first: u32,
    /// Packets that arrived because they were sent again.
    repaired: u32,
    /// Packets that did not arrive.
    lost: u32,
}

/// What a window holds, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrivalCounts {
    /// Arrived as they were first sent.
    pub first: u64,
    /// Arrived because they were sent again.
    pub repaired: u64,
    /// Did not arrive.
    pub lost: u64,
}

impl ArrivalCounts {
    /// Packets that arrived.
    pub fn arrived(&self) -> u64 {
        self.first + self.repaired
    }

    /// Share of the packets that the path lost, whether or not they were repaired; 0 where there are none.
    pub fn loss_share(&self) -> f64 {
        let gone = (self.repaired + self.lost) as f64;
        gone / (gone + self.first as f64).max(1.0)
    }
}

impl ArrivalDelays {
    /// Without any packet. Allocates all the memory that it will ever need, 32 kB.
    pub fn new() -> Self {
        ArrivalDelays { blocks: vec![Block::new(); BLOCKS], at: 0, began: None, total: Block::new() }
    }

    /// A packet arrived at `now`, `delay` nanoseconds after it was expected by the schedule, which expects media time 0 at
    /// `schedule` nanoseconds.
    pub fn on_arrival(&mut self, now: Instant, schedule: i64, delay: i64, repaired: bool) {
        self.turn(now, schedule);
        let block = &mut self.blocks[self.at];
        let since = delay.saturating_add(schedule.saturating_sub(block.schedule));
        block.count(since, repaired);
        self.total.count(delay, repaired);
    }

    /// The schedule came down by so many nanoseconds at once, since the path is shorter now: what was counted before tells how late packets
    /// were on the path of then, not on this one.
    pub fn on_step(&mut self, down: i64) {
        for block in &mut self.blocks {
            block.schedule = block.schedule.saturating_sub(down);
        }
    }

    /// The stream begins anew at `now`, on a schedule that stands so many nanoseconds later: what came last was late since the path is longer
    /// now, and is no longer counted. What was counted before that stays.
    pub fn on_new_schedule(&mut self, now: Instant, later: i64) {
        self.on_step(later.saturating_neg());
        let is_full = self.began.is_none_or(|began| now.since(began) >= LATE);
        let before = (self.at + BLOCKS - 1) % BLOCKS;
        for at in [Some(self.at), (!is_full).then_some(before)].into_iter().flatten() {
            let schedule = self.blocks[at].schedule;
            self.blocks[at].clear(schedule);
        }
    }

    /// So many more packets turned out not to arrive.
    pub fn on_lost(&mut self, packets: u64) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        for block in [&mut self.blocks[self.at], &mut self.total] {
            block.lost = block.lost.saturating_add(packets);
        }
    }

    /// The smallest delay that at most the share `late` of the packets in the window exceed, against the schedule
    /// `schedule`; `None` where there are no packets.
    pub fn quantile(&self, schedule: i64, late: f64) -> Option<Duration> {
        quantile(|above| self.beyond(schedule, above), self.counts().arrived(), late)
    }

    /// The same of the whole stream; `None` also where too few packets have come to tell.
    pub fn quantile_of_all(&self, late: f64) -> Option<Duration> {
        let arrived = u64::from(self.total.first) + u64::from(self.total.repaired);
        if (arrived as f64) * late < 1.0 {
            return None;
        }
        quantile(|above| self.total.beyond(above), arrived, late)
    }

    /// What the window holds.
    pub fn counts(&self) -> ArrivalCounts {
        self.blocks.iter().fold(ArrivalCounts::default(), |sum, block| ArrivalCounts {
            first: sum.first + u64::from(block.first),
            repaired: sum.repaired + u64::from(block.repaired),
            lost: sum.lost + u64::from(block.lost),
        })
    }

    /// Another stream begins.
    pub fn restart(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.clear(0));
        (self.at, self.began) = (0, None);
    }

    /// Packets in the window that came more than `above` nanoseconds after `schedule` expected them.
    fn beyond(&self, schedule: i64, above: i64) -> u64 {
        let of = |block: &Block| block.beyond(above.saturating_add(schedule.saturating_sub(block.schedule)));
        self.blocks.iter().map(of).sum()
    }

    /// Takes the oldest block for what comes from now on, if the current one is full.
    fn turn(&mut self, now: Instant, schedule: i64) {
        let Some(began) = self.began else {
            self.began = Some(now);
            return self.blocks[self.at].clear(schedule);
        };
        let passed = (now.since(began).as_nanos() / BLOCK.as_nanos()) as u64;
        if passed == 0 {
            return;
        }
        for _ in 0..passed.min(BLOCKS as u64) {
            self.at = (self.at + 1) % BLOCKS;
            self.blocks[self.at].clear(schedule);
        }
        self.began = Some(if passed < BLOCKS as u64 { began + BLOCK * passed as u32 } else { now });
    }
}

impl Default for ArrivalDelays {
    fn default() -> Self {
        Self::new()
    }
}

/// The upper edge of the smallest bin beyond which at most the share `late` of `arrived` packets lie.
fn quantile(beyond: impl Fn(i64) -> u64, arrived: u64, late: f64) -> Option<Duration> {
    if arrived == 0 {
        return None;
    }
    let most = (late.clamp(0.0, 1.0) * arrived as f64 * (1.0 + 1e-12)) as u64;
    // Delays below the schedule, where it has just come down, count as none.
    let bins: [usize; 2] = [bin(0), BINS - 1];
    let (mut low, mut high) = (bins[0], bins[1]);
    while low < high {
        let middle = low.midpoint(high);
        match beyond(edge(middle)) <= most {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(Duration::from_nanos(edge(low).max(0) as u64))
}

impl Block {
    fn new() -> Self {
        Block { bins: vec![0; BINS], end: 0, schedule: 0, first: 0, repaired: 0, lost: 0 }
    }

    fn clear(&mut self, schedule: i64) {
        self.bins[..self.end].fill(0);
        self.end = 0;
        (self.schedule, self.first, self.repaired, self.lost) = (schedule, 0, 0, 0);
    }

    fn count(&mut self, delay: i64, repaired: bool) {
        let at = bin(delay);
        self.bins[at] = self.bins[at].saturating_add(1);
        self.end = self.end.max(at + 1);
        let kind = if repaired { &mut self.repaired } else { &mut self.first };
        *kind = kind.saturating_add(1);
    }

    /// Packets in the bins above the one that `above` lies in.
    fn beyond(&self, above: i64) -> u64 {
        let first = (bin(above) + 1).min(self.end);
        self.bins[first..self.end].iter().map(|count| u64::from(*count)).sum()
    }
}

/// The bin of a delay: those that end at [`edge`].
fn bin(nanos: i64) -> usize {
    let (fine, middle) = (FINE_BINS as i64, MIDDLE_BINS as i64);
    // A delay on an edge belongs below it.
    let steps = |from: i64, step: i64| nanos.saturating_sub(from).saturating_add(step - 1).div_euclid(step);
    let bin = match nanos {
        _ if nanos <= FINE_TO => steps(LOWEST, FINE).max(0),
        _ if nanos <= MIDDLE_TO => fine + steps(FINE_TO, MIDDLE),
        _ => fine + middle + steps(MIDDLE_TO, COARSE),
    };
    (bin as usize).min(BINS - 1)
}

/// The largest delay of a bin.
fn edge(bin: usize) -> i64 {
    let bin = bin as i64;
    let (fine, middle) = (FINE_BINS as i64, MIDDLE_BINS as i64);
    match bin {
        _ if bin <= fine => LOWEST + bin * FINE,
        _ if bin <= fine + middle => FINE_TO + (bin - fine) * MIDDLE,
        _ => MIDDLE_TO + (bin - fine - middle) * COARSE,
    }
}

/// What is remembered. A delay that is not to be met again is to be given up within 30 s, the time to come down included.
pub const WINDOW: Duration = Duration::from_secs(20);
const BLOCKS: usize = 10;
const BLOCK: Duration = Duration::from_secs(WINDOW.as_secs() / BLOCKS as u64);

/// For longer than packets are late before the stream begins anew.
const LATE: Duration = Duration::from_millis(500);

const MS: i64 = 1_000_000;
/// The schedule may come down by so much within the window before delays are taken for longer than they were.
const LOWEST: i64 = -50 * MS;
/// The steps of the playout curve of crate `measure`: a quarter of a millisecond up to 50 ms, a
/// millisecond up to 250 ms, and 10 ms.
const FINE: i64 = MS / 4;
const FINE_TO: i64 = 50 * MS;
const MIDDLE: i64 = MS;
const MIDDLE_TO: i64 = 250 * MS;
const COARSE: i64 = 10 * MS;
const FINE_BINS: usize = ((FINE_TO - LOWEST) / FINE) as usize;
const MIDDLE_BINS: usize = ((MIDDLE_TO - FINE_TO) / MIDDLE) as usize;
/// Up to 2.25 s; the last one has all that is longer.
const COARSE_BINS: usize = 200;
const BINS: usize = FINE_BINS + MIDDLE_BINS + COARSE_BINS + 1;

#[cfg(test)]
mod tests;
