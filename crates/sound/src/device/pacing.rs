//! When a sink hands over sound, and when the cycles begin that take it.

/// When a sink hands over sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pacing {
    /// Evenly, as cycles differ in length and come when the server likes: beyond what the next one takes, a block and a
    /// margin wait.
    Even,
    /// So that all the sound of a cycle is there a margin before the cycle begins, and none of the next one's: cycles are a
    /// period long and come evenly. Each cycle takes its place in the device's time whether its sound is there or not, and
    /// what comes after its cycle is dropped.
    Cycles,
}

/// When cycles begin by the server's clock, though the scheduler lets some begin late.
#[derive(Default)]
pub(super) struct Starts {
    /// When the next cycle should begin, in microseconds.
    next: Option<f64>,
}

impl Starts {
    /// A cycle of `lasts` microseconds was begun at `start`, in microseconds. Returns when it should have been: never later.
    pub fn on_cycle(&mut self, start: u64, lasts: f64) -> u64 {
        let seen = start as f64;
        let late = self.next.map_or(0.0, |next| seen - next);
        let begun = if (0.0..LONGEST_LATE).contains(&late) {
            seen - late + late * (lasts / FOLLOWS).min(1.0)
        } else {
            seen
        };
        self.next = Some(begun + lasts);
        begun as u64
    }

    /// Cycles begin anew.
    pub fn restart(&mut self) {
        self.next = None;
    }
}

/// How long before a cycle its last sound is handed over: what the media thread has been late by lately, and a little more. Hold-ups for which fewer
/// cycles than one in a thousand lack their sound cost less than the delay that would be needed for them.
pub(super) struct Margin {
    rate: u32,
    /// How many blocks of this stretch of time and of the one before were late by up to so many [`STEP`]s.
    late: [[u16; STEPS]; 2],
    /// When this stretch began, in microseconds.
    began: Option<u64>,
    /// Underruns that have been seen, and how many times there were new ones in this stretch.
    underruns: u64,
    times: u32,
}

/// A block that is handed over.
pub(super) struct Handed {
    /// When, in microseconds.
    pub now: u64,
    /// How many sample frames after it was due by the margin so far.
    pub late: u32,
    /// Cycles so far that came before their sound.
    pub underruns: u64,
    /// Sample frames of a cycle.
    pub period: u32,
}

impl Margin {
    /// For a sink of `rate` Hz.
    pub fn new(rate: u32) -> Self {
        Margin { rate, late: [[0; STEPS]; 2], began: None, underruns: 0, times: 0 }
    }

    /// The margin at first and at least, in sample frames.
    pub fn least(rate: u32) -> u32 {
        rate / LEAST
    }

    /// A block is handed over. Returns the `margin` from now on.
    pub fn on_block(&mut self, margin: u32, block: Handed) -> u32 {
        let Handed { now, late, underruns, period } = block;
        let began = *self.began.get_or_insert(now);
        let step = (self.rate / STEP).max(1);
        // A longer hold-up counts as much as the margin can grow.
        let steps = late.min(margin + step).div_ceil(step) as usize;
        let count = &mut self.late[0][steps.min(STEPS - 1)];
        *count = count.saturating_add(1);
        let allowed = self.rate / RARE * STRETCH_S / period.max(1);
        if std::mem::replace(&mut self.underruns, underruns) != underruns {
            self.times += 1;
            let longer = (margin + step).min((self.rate / MOST).max(margin));
            return if self.times > allowed { longer } else { margin };
        }
        if now.saturating_sub(began) < u64::from(STRETCH_S) * 1_000_000 {
            return margin;
        }
        let needed = self.needed(2 * allowed) as u32 * step + self.rate / SPARE;
        self.late = [[0; STEPS], self.late[0]];
        (self.began, self.times) = (Some(now), 0);
        margin.min(needed.max(Self::least(self.rate)))
    }

    /// The steps that no more than `allowed` blocks were later than.
    fn needed(&self, allowed: u32) -> usize {
        let mut later = 0;
        for steps in (0..STEPS).rev() {
            later += self.late.iter().map(|late| u32::from(late[steps])).sum::<u32>();
            if later > allowed {
                return steps;
            }
        }
        0
    }
}

/// The least margin is this part of a second: 0.25 ms, what a real-time thread needs on a machine that is not busy.
const LEAST: u32 = 4_000;
/// The longest margin is this part of a second.
const MOST: u32 = 10;
/// The margin grows by this part of a second with an underrun.
const STEP: u32 = 4_000;
/// It is by this part of a second longer than what was late.
const SPARE: u32 = 10_000;
/// Steps up to the longest margin, and one beyond.
const STEPS: usize = (STEP / MOST) as usize + 2;
/// What was late is forgotten at the end of the second such stretch after it, in seconds.
const STRETCH_S: u32 = 10;
/// One cycle in so many may lack its sound: a fourth of the packets that a delay which adapts lets come late.
const RARE: u32 = 1_000;
/// Time constant, in microseconds, with which a server's clock that is slower is followed: of one that is 500 ppm slower, cycles are
/// expected 0.5 ms early, which costs as much of the time in which packets may come.
const FOLLOWS: f64 = 1e6;
/// A cycle that comes later than this, in microseconds, shows that the server has lost time.
const LONGEST_LATE: f64 = 2_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_begin_late_are_told_from_a_slower_clock() {
        let mut starts = Starts::default();
        // A period of 2667 µs, up to 0.4 ms late.
        for n in 0..2_000u64 {
            let due = 5_000 + n * 2_667;
            let begun = starts.on_cycle(due + n * 37 % 400, 2_667.0);
            assert!(begun.abs_diff(due) <= if n < 500 { 400 } else { 220 }, "{n}: {begun} for {due}");
        }
        let mut starts = Starts::default();
        for n in 0..4_000u64 {
            let due = 5_000 + n * 2_668 + n / 3;
            let begun = starts.on_cycle(due, 2_667.0);
            assert!(begun <= due && due - begun < 600, "500 ppm slower, {n}: {begun} for {due}");
        }
        // Earlier ones are followed at once, as are those after lost time.
        let mut starts = Starts::default();
        assert_eq!([1_000, 3_900, 6_000].map(|start| starts.on_cycle(start, 2_500.0)), [1_000, 3_501, 6_000]);
        assert_eq!(starts.on_cycle(15_000, 2_500.0), 15_000);
    }

    /// Blocks of cycles of 128, each 2.7 ms, of which those for which `late` says so are late by 0.6 ms and more; the margin after each second.
    fn margins(seconds: u64, late: impl Fn(u64) -> u32) -> Vec<u32> {
        let (mut margin, mut follows, mut underruns) = (Margin::least(48_000), Margin::new(48_000), 0);
        let mut seen = Vec::new();
        for n in 0..seconds * 375 {
            let late = late(n);
            underruns += u64::from(late > margin);
            let block = Handed { now: n * 2_667, late, underruns, period: 128 };
            margin = follows.on_block(margin, block);
            if n % 375 == 374 {
                seen.push(margin);
            }
        }
        seen
    }

    #[test]
    fn rare_hold_ups_make_no_longer_margin_and_frequent_ones_do() {
        // Every four seconds by 3 ms: one cycle in 1500.
        assert!(margins(120, |n| if n % 1_500 == 0 { 144 } else { 2 }).iter().all(|margin| *margin == 12));
        // Five times a second by 0.6 ms, for half a minute.
        let seen = margins(120, |n| if n % 75 == 0 && n < 30 * 375 { 29 } else { 2 });
        assert_eq!((seen[0], seen[29]), (36, 36));
        assert!(seen[51..].iter().all(|margin| *margin == 12 + 4), "{seen:?}");
    }
}
