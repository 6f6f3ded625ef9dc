//! What a device's end of a ring missed of its time: cycles that the server lost, and the time between two servers.

use std::sync::atomic::Ordering;

use super::Cycle;
use super::meter::Counters;
use crate::os::Clock;

/// When a cycle is handled and when it began, in microseconds of our clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Begun {
    pub now: u64,
    pub start: f64,
    /// Sample frames that it lasts, and the same in microseconds.
    pub frames: u32,
    pub lasts: f64,
    /// How long the server's cycles before it took in which this client was not called, in microseconds.
    pub passed_by: f64,
    /// Whether it is the last one of a window of cycles. The server's count decides, so that all its clients look at the same cycles and come to the same result.
    pub ends_window: bool,
}

impl Begun {
    /// Of a cycle of a stream of `rate` Hz.
    pub fn of(cycle: &dyn Cycle, clock: &Clock, rate: u32) -> Self {
        // Read in this order, a thread that is preempted in between takes the cycle for a later one, and the earliest of several counts.
        let late = f64::from(cycle.late()) * 1e6 / f64::from(rate);
        let (now, frames) = (clock.micros(), cycle.frames() as u32);
        Begun {
            now,
            start: now as f64 - late,
            frames,
            lasts: f64::from(frames) * 1e6 / f64::from(rate),
            passed_by: 0.0,
            ends_window: cycle.position() / frames.max(1) % WINDOW == WINDOW - 1,
        }
    }
}

/// Follows the cycles of one client or, without one, the clock.
#[derive(Default)]
pub(super) struct Timeline {
    /// Where on the server's clock the next cycle begins, if none is lost.
    next: Option<u32>,
    slip: Slip,
    idled: Option<Idled>,
}

/// Tells by the clock that a server lost time ([`Cycle::slips`]): after an xrun, JACK 2 goes on with its next cycle as if none had passed. A
/// cycle that only came late is followed by some that make up for it.
#[derive(Default)]
struct Slip {
    /// When the next cycle begins, in microseconds.
    expected: Option<f64>,
    /// Of the last cycles, how late the least late one began.
    least: f64,
    cycles: u32,
}

impl Slip {
    /// A cycle began. Returns the time that was lost, in microseconds.
    fn on_cycle(&mut self, Begun { start, lasts, passed_by, ends_window, .. }: Begun) -> f64 {
        let Some(expected) = self.expected else {
            *self = Slip { expected: Some(start + lasts), ..Slip::default() };
            return 0.0;
        };
        let expected = expected + passed_by;
        let late = start - expected;
        self.least = if self.cycles == 0 { late } else { self.least.min(late) };
        self.cycles += 1;
        // What may be a slip is not followed, so that all of it counts.
        let followed = if late < LEAST_SLIP { late * (lasts / FOLLOWS).min(1.0) } else { 0.0 };
        let mut next = expected + followed + lasts;
        let mut lost = 0.0;
        if ends_window {
            let is_whole = std::mem::take(&mut self.cycles) >= WINDOW;
            if is_whole && self.least > LEAST_SLIP {
                lost = whole_cycles(self.least, lasts);
                next += lost;
            }
        }
        self.expected = Some(next);
        lost
    }
}

/// A slip in whole cycles where these are short: packets go on to begin where cycles do, or each would wait for the next cycle to be full. What
/// is over adds up with the next slip.
fn whole_cycles(slip: f64, lasts: f64) -> f64 {
    if lasts <= LONGEST_WHOLE { (slip / lasts).round() * lasts } else { slip }
}

/// Time without a device: since when, in microseconds, and the sample frames that have passed.
#[derive(Clone, Copy)]
struct Idled {
    since: u64,
    frames: u64,
}

impl Timeline {
    /// A cycle has begun. Returns the sample frames that were lost before it, and notes in `begun` those that the server counted.
    pub fn lost(&mut self, cycle: &dyn Cycle, begun: &mut Begun, rate: u32, counters: &Counters) -> u32 {
        self.idled = None;
        let (position, Begun { now, frames, .. }) = (cycle.position(), *begun);
        let last = counters.last_cycle.swap(now, Ordering::Relaxed);
        let longest = rate * LONGEST_GAP_S;
        let lost = match self.next.replace(position.wrapping_add(frames)) {
            Some(next) => {
                let jump = position.wrapping_sub(next);
                if jump > longest {
                    self.slip = Slip::default();
                }
                begun.passed_by = f64::from(if jump > longest { 0 } else { jump }) * 1e6 / f64::from(rate);
                let slipped = self.slip.on_cycle(*begun);
                let slipped = if cycle.slips() { slipped * f64::from(rate) / 1e6 } else { 0.0 };
                u64::from(jump) + slipped.round() as u64
            }
            // The first cycle of a client: the time since the last one of another, but for the period.
            None if last > 0 => {
                let since = frames_in(now.saturating_sub(last), rate).saturating_sub(frames.into());
                if since > u64::from(rate / SHORTEST_GAP) { since } else { 0 }
            }
            None => 0,
        };
        // A position that goes back, or far ahead, is another clock's.
        if lost <= u64::from(longest) { lost as u32 } else { 0 }
    }

    /// Sample frames that are due at `now` without a device, and were not before.
    pub fn due(&mut self, now: u64, rate: u32, counters: &Counters) -> u32 {
        self.next = None;
        self.slip = Slip::default();
        let last = counters.last_cycle.swap(now, Ordering::Relaxed);
        let longest = u64::from(LONGEST_GAP_S) * 1_000_000;
        let since = if last > 0 && now.saturating_sub(last) < longest { last } else { now };
        let idled = self.idled.get_or_insert(Idled { since, frames: 0 });
        let frames = frames_in(now.saturating_sub(idled.since), rate);
        let due = frames.saturating_sub(idled.frames);
        idled.frames = frames;
        u32::try_from(due).unwrap_or(u32::MAX)
    }
}

fn frames_in(micros: u64, rate: u32) -> u64 {
    micros * u64::from(rate) / 1_000_000
}

/// Cycles of a window, after which one that came late has been made up for: sound cards hold two or three.
const WINDOW: u32 = 6;
/// A shorter slip, in microseconds, may be the scheduler's; it adds up with the next one.
const LEAST_SLIP: f64 = 2_000.0;
/// Slips of longer cycles than this, in microseconds, are made up for exactly: half of one is too much to be off by.
const LONGEST_WHOLE: f64 = 6_000.0;
/// Time constant, in microseconds, with which what is expected follows the server's clock, whatever the period: clocks that are 500 ppm apart are 0.5 ms
/// late, well below a slip. By a part of each cycle's lateness, those of a long period would be later than a slip.
const FOLLOWS: f64 = 1e6;
/// After a longer gap, in seconds, time begins anew.
const LONGEST_GAP_S: u32 = 2;
/// Between two clients, a shorter gap than this part of a second is how late a cycle was handled.
const SHORTEST_GAP: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    /// The `n`th cycle of `lasts` microseconds.
    fn begun(n: u32, start: f64, lasts: f64) -> Begun {
        Begun { now: start as u64, start, frames: 48, lasts, passed_by: 0.0, ends_window: n % WINDOW == 2 }
    }

    /// What was lost by the clock of `starts`, in microseconds.
    fn lost(starts: impl Iterator<Item = f64>) -> f64 {
        let mut slip = Slip::default();
        (0..).zip(starts).map(|(n, start)| slip.on_cycle(begun(n, start, 1_000.0))).sum()
    }

    #[test]
    fn a_slip_is_told_from_a_late_cycle_and_from_drift() {
        let cycles = || (0..20_000).map(f64::from);
        // 300 ppm, and each cycle up to 1 ms late.
        assert_eq!(lost(cycles().map(|n| n * 1_000.3 + n * 37.0 % 1_000.0)), 0.0);
        // One 20 ms late, and the next four at once.
        let late = |n: f64| if (500.0..505.0).contains(&n) { 520_000.0 } else { n * 1_000.0 };
        assert_eq!(lost(cycles().map(late)), 0.0);
        // 20 ms are lost, and then 1.5 ms twice.
        let slips = |n: f64| {
            [(500.0, 20e3), (900.0, 1.5e3), (1000.0, 1.5e3)].map(|(at, by)| if n >= at { by } else { 0.0 })
        };
        let all = lost(cycles().map(|n| n * 1_000.0 + slips(n).iter().sum::<f64>()));
        assert!((22_200.0..23_100.0).contains(&all), "{all} of 23 ms");
    }

    #[test]
    fn short_cycles_are_lost_whole() {
        let lasts = 128e6 / 48_000.0;
        let mut slip = Slip::default();
        // 3.5 ms, three times: an xrun each.
        let starts = (0..6_000)
            .map(|n| f64::from(n) * lasts + 3_500.0 * f64::from(n / 2_000) + f64::from(n * 37 % 300));
        let lost: Vec<f64> = (0..)
            .zip(starts)
            .map(|(n, at)| slip.on_cycle(begun(n, at, lasts)) / lasts)
            .filter(|lost| *lost > 0.0)
            .collect();
        assert!(lost.iter().all(|cycles| (cycles - cycles.round()).abs() < 1e-9), "{lost:?}");
        let all: f64 = lost.iter().sum::<f64>() * lasts;
        assert!((all - 7_000.0).abs() < lasts, "{all} of 7 ms: {lost:?}");
    }

    #[test]
    fn clocks_500_ppm_apart_slip_at_no_period() {
        for period in [16, 64, 256, 1024, 4096] {
            let lasts = f64::from(period) * 1e6 / 48_000.0;
            // Two minutes, in which each cycle comes up to half a millisecond late; from `slip` on 20 ms later.
            let lost = |ppm: f64, slip: f64| -> f64 {
                let mut expects = Slip::default();
                let cycles = (0..).map(f64::from).take_while(|n| n * lasts < 120e6);
                let start = |n: f64| n * lasts * (1.0 - ppm / 1e6) + n * 37.0 % 500.0;
                let by = |n: f64| if n * lasts >= slip { 20e3 } else { 0.0 };
                cycles.map(|n| expects.on_cycle(begun(n as u32, start(n) + by(n), lasts))).sum()
            };
            for ppm in [-500.0, 500.0] {
                assert_eq!(lost(ppm, f64::MAX), 0.0, "{period}, {ppm} ppm");
                let slipped = lost(ppm, 60e6);
                assert!((18e3..22e3).contains(&slipped), "{period}, {ppm} ppm: {slipped} of 20 ms");
            }
        }
    }
}
