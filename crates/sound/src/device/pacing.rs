//! When a sink hands over sound, and when the cycles begin that take it.

use super::timeline::Begun;

/// When a sink hands over sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pacing {
    /// Evenly, as cycles differ in length and come when the server likes: beyond what the next one takes, a block and a
    /// margin wait.
    #[cfg_attr(
        not(any(unix, feature = "cpal")),
        allow(dead_code, reason = "for PulseAudio and the system's devices")
    )]
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
    steps: Steps,
}

/// Finds when a server's clock loses time at once: then the earliest cycle of a window begins later than that of the window before, by more than clocks differ.
#[derive(Default)]
struct Steps {
    /// When the next cycle would begin had the first been on time and no time been lost, in microseconds.
    even: Option<f64>,
    /// By how much the earliest cycle of this window began later than that, the number of cycles, and the same of the window before.
    least: f64,
    cycles: u32,
    before: Option<f64>,
    /// What was lost, less what was made up for and what has been told.
    lost: f64,
}

impl Steps {
    /// A cycle began. Returns the time that was lost, in microseconds, once it is certain.
    fn on_cycle(&mut self, Begun { start, lasts, passed_by, ends_window, .. }: Begun) -> f64 {
        let even = self.even.map_or(start, |even| even + passed_by);
        self.even = Some(even + lasts);
        let late = start - even;
        self.least = if self.cycles == 0 { late } else { self.least.min(late) };
        self.cycles += 1;
        if !ends_window {
            return 0.0;
        }
        let cycles = f64::from(std::mem::take(&mut self.cycles));
        let moved = self.before.replace(self.least).map_or(0.0, |before| self.least - before);
        let differ = cycles * lasts * CLOCKS_DIFFER;
        let step = if moved.abs() > LEAST_STEP + differ { moved } else { 0.0 };
        self.lost += step;
        step
    }
}

impl Starts {
    /// A cycle was begun. Returns when it should have been, in microseconds: never later.
    pub fn on_cycle(&mut self, begun: Begun) -> u64 {
        let Begun { start: seen, lasts, .. } = begun;
        // Cycles that are earlier again have been followed at once.
        let step = self.steps.on_cycle(begun).max(0.0);
        let late = self.next.map_or(0.0, |next| seen - next - begun.passed_by - step);
        let begun = if (0.0..LONGEST_LATE).contains(&late) {
            seen - late + late * (lasts / FOLLOWS).min(1.0)
        } else {
            seen
        };
        self.next = Some(begun + lasts);
        begun.max(0.0) as u64
    }

    /// Cycles begin anew.
    pub fn restart(&mut self) {
        (self.next, self.steps.even, self.steps.cycles, self.steps.before) = (None, None, 0, None);
    }

    /// What the server's clock has lost at once since this was last called, in microseconds: less what was gained, and what [`Self::on_made_up`] tells.
    pub fn take_lost(&mut self) -> i64 {
        let lost = self.steps.lost.trunc();
        self.steps.lost -= lost;
        lost as i64
    }

    /// So much lost time, in microseconds, has been made up for by leaving out sound.
    pub fn on_made_up(&mut self, micros: f64) {
        self.steps.lost -= micros;
    }
}

/// How long before a cycle its last sound is handed over: what the media thread has been late by lately, and a little more. One hold-up that
/// is rarer than that costs a cycle's sound and little delay; those that come again and again make the margin as long as they are.
pub(super) struct Margin {
    rate: u32,
    /// The latest block of this stretch of time and of the one before, in sample frames.
    late: [u32; 2],
    /// When this stretch began, in microseconds.
    began: Option<u64>,
    /// Underruns that have been seen.
    underruns: u64,
}

impl Margin {
    /// For a sink of `rate` Hz.
    pub fn new(rate: u32) -> Self {
        Margin { rate, late: [0; 2], began: None, underruns: 0 }
    }

    /// The margin at first and at least, in sample frames.
    pub fn least(rate: u32) -> u32 {
        rate / LEAST
    }

    /// A block is handed over at `now`, in microseconds, `late` sample frames after it was due by the `margin` so far; `underruns`:
    /// cycles that came before their sound. Returns the margin from now on.
    pub fn on_block(&mut self, now: u64, margin: u32, late: u32, underruns: u64) -> u32 {
        let began = *self.began.get_or_insert(now);
        let longer = margin + self.rate / STEP;
        // A longer hold-up counts as much as the margin can grow.
        self.late[0] = self.late[0].max(late.min(longer));
        if std::mem::replace(&mut self.underruns, underruns) != underruns {
            return longer.min((self.rate / MOST).max(margin));
        }
        if now.saturating_sub(began) < STRETCH {
            return margin;
        }
        let needed = self.late[0].max(self.late[1]) + self.rate / SPARE;
        self.late = [0, self.late[0]];
        self.began = Some(now);
        margin.min(needed.max(Self::least(self.rate)))
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
/// What was late is forgotten at the end of the second such stretch after it, in microseconds.
const STRETCH: u64 = 10_000_000;
/// Time constant, in microseconds, with which a server's clock that is slower is followed: of one that is 500 ppm slower, cycles are
/// expected 0.5 ms early, which costs as much of the time in which packets may come.
const FOLLOWS: f64 = 1e6;
/// A cycle that comes later than this, in microseconds, shows that the server has lost time.
const LONGEST_LATE: f64 = 2_000.0;
/// A server that loses less at once than this, in microseconds, may be followed as one whose clock is slower: it is what a machine that has nothing else to do
/// wakes its threads late by.
const LEAST_STEP: f64 = 250.0;
/// Beyond that, clocks may differ by this part of a window: twice what sound cards do.
const CLOCKS_DIFFER: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    /// The `n`th cycle of `lasts` microseconds, which begins at `start`.
    fn begun(n: u64, start: u64, lasts: f64) -> Begun {
        let start = start as f64;
        Begun { now: start as u64, start, frames: 128, lasts, passed_by: 0.0, ends_window: n % 6 == 5 }
    }

    #[test]
    fn cycles_that_begin_late_are_told_from_a_slower_clock() {
        let mut starts = Starts::default();
        // A period of 2667 µs, up to 0.4 ms late.
        for n in 0..2_000u64 {
            let due = 5_000 + n * 2_667;
            let begun = starts.on_cycle(begun(n, due + n * 37 % 400, 2_667.0));
            assert!(begun.abs_diff(due) <= if n < 500 { 400 } else { 220 }, "{n}: {begun} for {due}");
        }
        let mut starts = Starts::default();
        for n in 0..4_000u64 {
            let due = 5_000 + n * 2_668 + n / 3;
            let begun = starts.on_cycle(begun(n, due, 2_667.0));
            assert!(begun <= due && due - begun < 600, "500 ppm slower, {n}: {begun} for {due}");
        }
        // Earlier ones are followed at once, as are those after lost time.
        let mut starts = Starts::default();
        assert_eq!(
            [1_000, 3_900, 6_000].map(|start| starts.on_cycle(begun(0, start, 2_500.0))),
            [1_000, 3_501, 6_000]
        );
        assert_eq!(starts.on_cycle(begun(0, 15_000, 2_500.0)), 15_000);
    }

    #[test]
    fn what_a_server_loses_at_once_is_told_from_late_cycles_and_from_its_clock() {
        let lasts = 64e6 / 48_000.0;
        // Three minutes, 500 ppm slower, cycles up to 0.2 ms late and ten in a row by a millisecond more; 0.9 ms are lost after the first minute, 5 ms after the
        // second, for which four cycles are left out.
        let (mut starts, mut lost, mut off) = (Starts::default(), 0, 0);
        for n in 0..135_000u64 {
            let slips = if n < 45_000 {
                0
            } else if n < 90_000 {
                900
            } else {
                5_900
            };
            let busy = if (15_000..15_010).contains(&(n % 30_000)) { 1_000 } else { 0 };
            let due = (n as f64 * lasts * 1.0005) as u64 + slips;
            let begins = starts.on_cycle(begun(n, due + n * 37 % 200 + busy, lasts));
            // An estimate that lags behind what the server lost hands over sound too soon.
            off += u32::from(begins.abs_diff(due) > 1_100);
            if n == 90_020 {
                starts.on_made_up(4.0 * lasts);
            }
            lost += starts.take_lost();
        }
        let expected = 5_900 - (4.0 * lasts) as i64;
        assert!(lost.abs_diff(expected) < 200, "{lost} of {expected}");
        assert!(off < 12, "{off}");
    }

    #[test]
    fn cycles_that_are_late_for_a_window_make_none_begin_too_early() {
        let (mut starts, lasts) = (Starts::default(), 64e6 / 48_000.0);
        for n in 0..6_000u64 {
            let busy = if (3_000..3_006).contains(&n) { 1_500 } else { 0 };
            let due = 1_000 + (n as f64 * lasts) as u64;
            let begins = starts.on_cycle(begun(n, due + busy, lasts));
            assert!(begins + 50 > due, "{n}: {begins} for {due}");
        }
    }
}
