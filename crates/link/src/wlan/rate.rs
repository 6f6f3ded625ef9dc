//! Rate control: the rate of a frame, chosen by what became of the frames before it.

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::phy::{Phy, Rate};

/// How a station chooses the rates of its frames to one other station.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RateControl {
    /// Always the station's own rate.
    #[default]
    Fixed,
    /// Automatic rate fall-back (Kamerman, Monteban: "WaveLAN-II: a high-performance wireless LAN for the unlicensed
    /// band", 1997): a rate down after two failures in a row, or when the first frame at a new rate fails; a rate up
    /// after ten successes in a row. Its timer, which tries the next rate on a link with little traffic, is left out.
    ///
    /// It can't tell a collision from a weak signal: in a busy cell it slows down, which makes the cell busier.
    Arf,
    /// By measured shares of success, as Minstrel (the Linux kernel's `rc80211_minstrel.c`): every 100 ms the shares
    /// are averaged (a quarter of the new one) and the rates with the greatest throughput and the greatest share are
    /// chosen; of ten frames one tries another rate. A frame is repeated twice at the best rate, twice at the second, twice
    /// at the surest, then at the lowest. The kernel computes those numbers from the airtime.
    Minstrel,
}

/// The rates that a station may use, slowest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ladder {
    rates: [Rate; Rate::ALL.len()],
    len: usize,
}

/// What a station knows of its frames to another one.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Arf(Arf),
    Minstrel(Box<Minstrel>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arf {
    at: usize,
    successes: u8,
    failures: u8,
    /// Whether no frame at this rate, which is a new and higher one, was answered yet.
    probing: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Minstrel {
    shares: [Share; Rate::ALL.len()],
    best: usize,
    second: usize,
    surest: usize,
    /// The rate that the present frame tries, if it does.
    sample: Option<usize>,
    update_at: Instant,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    attempts: u32,
    successes: u32,
    /// Average share of success, once something was sent at this rate.
    mean: Option<f64>,
}

impl Ladder {
    /// From `lowest` to `highest`, by their bit rates.
    pub fn new(lowest: Rate, highest: Rate) -> Self {
        let mut all = Rate::ALL;
        all.sort_unstable_by_key(|rate| rate.bit_rate().0);
        let mut ladder = Ladder { rates: [highest; Rate::ALL.len()], len: 0 };
        let within = |rate: &Rate| (lowest.bit_rate().0..=highest.bit_rate().0).contains(&rate.bit_rate().0);
        for rate in all.into_iter().filter(within) {
            ladder.rates[ladder.len] = rate;
            ladder.len += 1;
        }
        ladder
    }

    fn top(&self) -> usize {
        self.len.saturating_sub(1)
    }
}

impl Control {
    /// `None`: the rate is fixed.
    pub fn new(kind: RateControl, ladder: &Ladder, rng: impl FnOnce() -> Rng) -> Option<Self> {
        match kind {
            RateControl::Fixed => None,
            RateControl::Arf => {
                Some(Control::Arf(Arf { at: ladder.top(), successes: 0, failures: 0, probing: false }))
            }
            RateControl::Minstrel => Some(Control::Minstrel(Box::new(Minstrel::new(ladder, rng())))),
        }
    }

    /// The rate of the attempt at `now`, after `failed` that failed. Called once for each attempt.
    pub fn rate(&mut self, now: Instant, failed: u8, ladder: &Ladder, phy: &Phy) -> Rate {
        let at = match self {
            Control::Arf(arf) => arf.at,
            Control::Minstrel(minstrel) => minstrel.choose(now, failed, ladder, phy),
        };
        ladder.rates[at]
    }

    /// The rate that most frames have at present.
    pub fn usual(&self, ladder: &Ladder) -> Rate {
        match self {
            Control::Arf(arf) => ladder.rates[arf.at],
            Control::Minstrel(minstrel) => ladder.rates[minstrel.best],
        }
    }

    /// The attempt at this rate was acknowledged, or not.
    pub fn on_result(&mut self, rate: Rate, acknowledged: bool, ladder: &Ladder) {
        match self {
            Control::Arf(arf) => arf.on_result(acknowledged, ladder),
            Control::Minstrel(minstrel) => minstrel.on_result(rate, acknowledged, ladder),
        }
    }
}

impl Arf {
    fn on_result(&mut self, acknowledged: bool, ladder: &Ladder) {
        let probing = std::mem::take(&mut self.probing);
        if acknowledged {
            self.failures = 0;
            self.successes += 1;
            if self.successes >= UP_AFTER {
                self.successes = 0;
                self.probing = self.at < ladder.top();
                self.at = (self.at + 1).min(ladder.top());
            }
        } else {
            self.successes = 0;
            self.failures += 1;
            if probing || self.failures >= DOWN_AFTER {
                self.failures = 0;
                self.at = self.at.saturating_sub(1);
            }
        }
    }
}

impl Minstrel {
    fn new(ladder: &Ladder, rng: Rng) -> Self {
        let top = ladder.top();
        Minstrel {
            shares: [Share::default(); Rate::ALL.len()],
            best: top,
            second: top.saturating_sub(1),
            surest: 0,
            sample: None,
            update_at: Instant::ZERO,
            rng,
        }
    }

    fn choose(&mut self, now: Instant, failed: u8, ladder: &Ladder, phy: &Phy) -> usize {
        if self.update_at <= now {
            self.update(ladder, phy);
            self.update_at = now + UPDATE;
        }
        if failed == 0 {
            self.sample = (self.rng.chance(SAMPLES)).then(|| self.rng.below(ladder.len as u32) as usize);
        }
        match (failed, self.sample) {
            (0, Some(sample)) => sample,
            (0..2, None) | (1..3, Some(_)) => self.best,
            (0..4, None) | (1..5, Some(_)) => self.second,
            (4..6, None) | (5..7, Some(_)) => self.surest,
            _ => 0,
        }
    }

    fn on_result(&mut self, rate: Rate, acknowledged: bool, ladder: &Ladder) {
        let Some(at) = ladder.rates[..ladder.len].iter().position(|one| *one == rate) else { return };
        let share = &mut self.shares[at];
        share.attempts += 1;
        share.successes += u32::from(acknowledged);
    }

    fn update(&mut self, ladder: &Ladder, phy: &Phy) {
        for share in self.shares[..ladder.len].iter_mut().filter(|share| share.attempts > 0) {
            let new = f64::from(share.successes) / f64::from(share.attempts);
            share.mean = Some(share.mean.map_or(new, |mean| (1.0 - NEW) * mean + NEW * new));
            (share.attempts, share.successes) = (0, 0);
        }
        if self.shares[..ladder.len].iter().all(|share| share.mean.is_none()) {
            return;
        }
        let mean = |at: usize| self.shares[at].mean.unwrap_or(0.0);
        // Successes per second of air.
        let throughput = |at: usize| mean(at) / phy.airtime(ladder.rates[at], TYPICAL).as_secs_f64();
        let greatest = |of: &dyn Fn(usize) -> f64, but: Option<usize>| {
            (0..ladder.len).filter(|at| Some(*at) != but).max_by(|a, b| of(*a).total_cmp(&of(*b)))
        };
        let best = greatest(&throughput, None).unwrap_or(0);
        let second = greatest(&throughput, Some(best)).unwrap_or(best);
        let surest = greatest(&mean, None).unwrap_or(0);
        (self.best, self.second, self.surest) = (best, second, surest);
    }
}

/// ARF's successes for a higher rate, and failures for a lower one.
const UP_AFTER: u8 = 10;
const DOWN_AFTER: u8 = 2;
/// Minstrel's interval, its share of frames that try another rate, and the weight of the newest interval.
const UPDATE: Duration = Duration::from_millis(100);
const SAMPLES: f64 = 0.1;
const NEW: f64 = 0.25;
/// Bytes of the frame by which it compares rates.
const TYPICAL: usize = 1200;

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder::new(Rate::Ofdm6, Rate::Ofdm54)
    }

    fn control(kind: RateControl) -> Control {
        Control::new(kind, &ladder(), || Rng::new(5)).expect("it controls")
    }

    /// So many attempts, all acknowledged or none; returns the rate of the next one.
    fn attempts(control: &mut Control, count: u32, acknowledged: bool) -> Rate {
        for _ in 0..count {
            let rate = control.rate(Instant::ZERO, 0, &ladder(), &Phy::COMPATIBLE);
            control.on_result(rate, acknowledged, &ladder());
        }
        control.rate(Instant::ZERO, 0, &ladder(), &Phy::COMPATIBLE)
    }

    #[test]
    fn ladders_are_ordered_by_their_bit_rates() {
        let all = Ladder::new(Rate::Dsss1, Rate::Ofdm54);
        assert_eq!(
            all.rates[..all.len].iter().map(|rate| rate.bit_rate().0 / 100_000).collect::<Vec<_>>(),
            [10, 20, 55, 60, 90, 110, 120, 180, 240, 360, 480, 540]
        );
        assert_eq!(
            (ladder().len, ladder().rates[0], ladder().rates[ladder().top()]),
            (8 + 1, Rate::Ofdm6, Rate::Ofdm54)
        );
        let one = Ladder::new(Rate::Dsss11, Rate::Dsss11);
        assert_eq!((one.len, one.top()), (1, 0));
    }

    #[test]
    fn arf_goes_down_after_two_failures_and_up_after_ten_successes() {
        let mut arf = control(RateControl::Arf);
        assert_eq!(attempts(&mut arf, 1, false), Rate::Ofdm54, "one failure is nothing");
        assert_eq!(attempts(&mut arf, 1, true), Rate::Ofdm54);
        assert_eq!(attempts(&mut arf, 1, false), Rate::Ofdm54, "not in a row");
        assert_eq!(attempts(&mut arf, 1, false), Rate::Ofdm48);
        assert_eq!(attempts(&mut arf, 9, true), Rate::Ofdm48);
        assert_eq!(attempts(&mut arf, 1, true), Rate::Ofdm54);
        assert_eq!(attempts(&mut arf, 1, false), Rate::Ofdm48, "the first at a new rate decides");
        assert_eq!(attempts(&mut arf, 10, true), Rate::Ofdm54);
        assert_eq!(attempts(&mut arf, 1, true), Rate::Ofdm54);
        assert_eq!(attempts(&mut arf, 1, false), Rate::Ofdm54, "not the first any more");
        assert_eq!(attempts(&mut arf, 100, false), Rate::Ofdm6, "no lower than the lowest");
    }

    #[test]
    fn arf_is_where_its_chain_of_states_says() {
        // Failures of probability p whatever the rate, two rates. Up: a cycle of 10 successes in a row. With p = 0.1 the
        // mean number of attempts until ten successes in a row is (q^-10 - 1)/p = 18.68 (Feller 1968, XIII.7; two failures
        // change nothing at the lowest rate). Then at the upper rate: the first attempt fails with p and ends it; else it
        // lasts until two failures in a row, (1 + p)/p^2 = 110 attempts from a state after a success.
        let p = 0.1_f64;
        let ladder = Ladder::new(Rate::Ofdm48, Rate::Ofdm54);
        let mut arf = Control::new(RateControl::Arf, &ladder, || Rng::new(1)).expect("it controls");
        let (mut rng, mut upper) = (Rng::new(2), 0u32);
        let attempts = 2_000_000;
        for _ in 0..attempts {
            let rate = arf.rate(Instant::ZERO, 0, &ladder, &Phy::COMPATIBLE);
            upper += u32::from(rate == Rate::Ofdm54);
            arf.on_result(rate, !rng.chance(p), &ladder);
        }
        let (below, above) = ((0.9_f64.powi(-10) - 1.0) / p, 1.0 + (1.0 - p) * (1.0 + p) / (p * p));
        let expected = above / (above + below);
        let share = f64::from(upper) / f64::from(attempts);
        // Some 17 000 cycles whose lengths vary by as much as their mean: 0.2 %, three of them.
        assert!((share / expected - 1.0).abs() < 0.006, "{share} {expected}");
    }

    #[test]
    fn minstrel_finds_the_rate_that_carries_most_and_goes_on_trying() {
        let mut minstrel = control(RateControl::Minstrel);
        let mut used = [0u32; 9];
        for frame in 0..10_000u64 {
            let now = Instant::from_millis(frame);
            for failed in 0..8 {
                let rate = minstrel.rate(now, failed, &ladder(), &Phy::COMPATIBLE);
                let acknowledged = rate.bit_rate().0 <= 24_000_000;
                minstrel.on_result(rate, acknowledged, &ladder());
                if failed == 0 && frame >= 2_000 {
                    used[ladder().rates.iter().position(|one| *one == rate).expect("of the ladder")] += 1;
                }
                if acknowledged {
                    break;
                }
            }
        }
        assert_eq!(minstrel.usual(&ladder()), Rate::Ofdm24);
        // 90 % and a ninth of 10 %: 7289 of 8000, with a deviation of 25; each of the others 89.
        let best = ladder().rates.iter().position(|rate| *rate == Rate::Ofdm24).expect("of the ladder");
        assert!(used[best].abs_diff(7289) < 100, "{used:?}");
        assert!(used.iter().all(|times| *times > 50), "{used:?}");
    }
}
