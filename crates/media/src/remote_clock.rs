//! Another machine's clock, as far as questions and answers tell.
//!
//! Each exchange gives the difference of the clocks to half of what its round trip is longer than the shortest one (RFC
//! 5905 §8). Clocks that run at different speeds make the difference a line; it is fitted to the last exchanges by least
//! squares, those with short round trips weighing more.

use std::time::Duration;

use antiphon_core::Instant;

/// The estimate of another machine's clock.
#[derive(Clone, Debug)]
pub struct RemoteClock {
    points: Vec<Point>,
    next: usize,
    fit: Option<Fit>,
    last: Option<Instant>,
}

/// An exchange.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// When the answer came, by our clock, in seconds.
    at: f64,
    /// How much their clock is ahead of ours, in nanoseconds.
    ahead: i64,
    /// The round trip, without the time for which the question waited there, in nanoseconds.
    round_trip: i64,
}

/// The line: at our time `at`, in seconds, their clock is `ahead` nanoseconds ahead, and gains `speed` nanoseconds a second.
#[derive(Clone, Copy, Debug)]
struct Fit {
    at: f64,
    ahead: f64,
    speed: f64,
    /// Standard error of `ahead`, in nanoseconds.
    error: f64,
    least_round_trip: i64,
}

impl Default for RemoteClock {
    fn default() -> Self {
        RemoteClock::new()
    }
}

impl RemoteClock {
    /// Nothing is known.
    pub fn new() -> Self {
        RemoteClock { points: Vec::with_capacity(MOST_POINTS), next: 0, fit: None, last: None }
    }

    /// A question left at `asked` and its answer came at `answered`, by our clock; by theirs the question came at `came`
    /// and the answer left at `told`.
    pub fn on_exchange(&mut self, asked: Instant, came: Instant, told: Instant, answered: Instant) {
        let [asked, came, told, answered] = [asked, came, told, answered].map(|at| at.as_nanos() as i64);
        let round_trip = (answered - asked) - (told - came);
        if !(0..MOST_ROUND_TRIP).contains(&round_trip) || told < came {
            return;
        }
        let point =
            Point { at: answered as f64 / 1e9, ahead: ((came - asked) + (told - answered)) / 2, round_trip };
        if self.fit.is_some_and(|fit| fit.contradicts(&point)) {
            // Nothing but another clock does that: a program that was started again.
            self.points.clear();
            self.next = 0;
        }
        if self.points.len() < MOST_POINTS {
            self.points.push(point);
        } else {
            self.points[self.next] = point;
            self.next = (self.next + 1) % MOST_POINTS;
        }
        self.last = Some(Instant::from_nanos(answered as u64));
        self.fit = self.fitted();
    }

    fn fitted(&self) -> Option<Fit> {
        let least = self.points.iter().map(|point| point.round_trip).min()?;
        let base = self.points.first()?.ahead;
        let weight = |point: &Point| {
            let doubt = (point.round_trip - least) as f64 / 2.0;
            1.0 / (NOISE_NANOS * NOISE_NANOS + doubt * doubt)
        };
        let sum = |of: &dyn Fn(&Point) -> f64| {
            self.points.iter().map(|point| weight(point) * of(point)).sum::<f64>()
        };
        let total = sum(&|_| 1.0);
        let at = sum(&|point| point.at) / total;
        let ahead = sum(&|point| (point.ahead - base) as f64) / total;
        let spread = sum(&|point| (point.at - at).powi(2));
        let slope = sum(&|point| (point.at - at) * ((point.ahead - base) as f64 - ahead));
        // Until there is time enough to tell, clocks are taken to run as most do.
        let speed = slope / (spread + 1.0 / (USUAL_DRIFT * USUAL_DRIFT));
        Some(Fit {
            at,
            ahead: ahead + base as f64,
            speed,
            error: total.sqrt().recip(),
            least_round_trip: least,
        })
    }

    /// Their time at our time `at`; `None` before the first exchange.
    pub fn theirs(&self, at: Instant) -> Option<Instant> {
        let nanos =
            (at.as_nanos() as i64).saturating_add(self.fit?.ahead_at(at.as_nanos() as f64 / 1e9) as i64);
        Some(Instant::from_nanos(nanos.max(0) as u64))
    }

    /// By how much that may be wrong: what the shortest round trip leaves open, were all of it one way, and the error of the
    /// measuring. Paths that take alike both ways, as those of a local network, have the second alone.
    pub fn error(&self) -> Option<(Duration, Duration)> {
        let fit = self.fit?;
        let nanos = |nanos: f64| Duration::from_nanos(nanos.max(0.0) as u64);
        Some((nanos(fit.least_round_trip as f64 / 2.0), nanos(2.0 * fit.error)))
    }

    /// How much faster their clock runs than ours, in parts per million.
    pub fn drift(&self) -> Option<antiphon_core::Ppm> {
        Some(antiphon_core::Ppm(self.fit?.speed / 1e3))
    }

    /// When the last answer came.
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Exchanges that the estimate rests on.
    pub fn exchanges(&self) -> usize {
        self.points.len()
    }
}

impl Fit {
    fn ahead_at(&self, at: f64) -> f64 {
        self.ahead + self.speed * (at - self.at)
    }

    /// Whether an exchange cannot be of this clock: its difference is known to half its round trip, whatever the path did.
    fn contradicts(&self, point: &Point) -> bool {
        let off = (point.ahead as f64 - self.ahead_at(point.at)).abs();
        let open = (point.round_trip + self.least_round_trip) as f64 / 2.0;
        off > open + SLACK_NANOS + DRIFT_BOUND * (point.at - self.at).abs()
    }
}

/// Exchanges that are remembered: half a minute of one a second.
const MOST_POINTS: usize = 32;
/// What an exchange is worth at best: the kernel's time stamps and the wake-up of threads.
const NOISE_NANOS: f64 = 20_000.0;
/// Quartz clocks differ by up to 100 parts in a million each: in nanoseconds a second.
const USUAL_DRIFT: f64 = 100_000.0;
/// And certainly by less than this.
const DRIFT_BOUND: f64 = 1_000_000.0;
/// What wake-ups may add, in nanoseconds.
const SLACK_NANOS: f64 = 2_000_000.0;
/// An answer that takes longer says nothing: ten seconds.
const MOST_ROUND_TRIP: i64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use antiphon_core::Rng;

    use super::*;

    /// Their clock: ahead by an hour, and fast by so many ppm.
    fn theirs(ours: f64, ppm: f64) -> Instant {
        Instant::from_nanos((3.6e12 + ours * (1.0 + ppm / 1e6)) as u64)
    }

    fn exchange(clock: &mut RemoteClock, at: f64, there: f64, back: f64, ppm: f64) {
        let instant = |nanos: f64| Instant::from_nanos(nanos as u64);
        let (came, told) = (theirs(at + there, ppm), theirs(at + there + 50e3, ppm));
        clock.on_exchange(instant(at), came, told, instant(at + there + 50e3 + back));
    }

    #[test]
    fn a_clock_with_drift_is_found_through_jitter() {
        for ppm in [-200.0, -100.0, 0.0, 200.0] {
            let (mut clock, mut rng) = (RemoteClock::new(), Rng::new(7));
            let mut worst = 0.0_f64;
            let mut at = 1e9;
            for n in 0..60 {
                // As receivers ask: often at first.
                let pause = [15e6, 100e6, 1e9][usize::from(n >= 5) + usize::from(n >= 25)];
                // 0.1 ms each way, and exponential jitter of 0.05 ms.
                let mut way = || 1e5 - 5e4 * (1.0 - rng.unit()).ln();
                let (there, back) = (way(), way());
                exchange(&mut clock, at, there, back, ppm);
                at += pause;
                // Just before the next answer.
                let off = clock.theirs(Instant::from_nanos(at as u64)).unwrap();
                if n >= 25 {
                    worst = worst.max(off.signed_nanos_since(theirs(at, ppm)).abs() as f64);
                }
            }
            // A fourth of what receivers may differ by.
            assert!(worst < 50_000.0, "{ppm} ppm: {worst} ns");
            assert!((clock.drift().unwrap().0 - ppm).abs() < 5.0, "{:?}", clock.drift());
        }
    }

    #[test]
    fn another_clock_is_taken_up_at_once_and_impossible_times_are_left_out() {
        let mut clock = RemoteClock::new();
        (0..20).for_each(|n| exchange(&mut clock, 1e9 + f64::from(n) * 1e8, 1e5, 1e5, 0.0));
        let at = |nanos: u64| Instant::from_nanos(nanos);
        clock.on_exchange(at(5_000_000_000), at(9), at(3), at(5_000_100_000));
        clock.on_exchange(at(6_000_000_000), at(1), at(2_000_000_000_000), at(6_000_100_000));
        assert_eq!(
            clock.exchanges(),
            20,
            "an answer before its question, and one that took longer than it did"
        );
        clock.on_exchange(at(7_000_000_000), at(50_000), at(60_000), at(7_000_110_000));
        assert_eq!(clock.exchanges(), 1);
        let off = clock.theirs(at(7_000_110_000)).unwrap().signed_nanos_since(at(110_000));
        assert!(off.abs() <= 10_000, "{off}");
    }

    #[test]
    fn any_times_are_taken() {
        let mut rng = Rng::new(3);
        let mut clock = RemoteClock::new();
        for _ in 0..10_000 {
            let mut time = || Instant::from_nanos(rng.next_u64() >> (rng.next_u32() % 60 + 3));
            let (asked, came, told, answered) = (time(), time(), time(), time());
            clock.on_exchange(asked, came, told, answered);
            let _any = clock.theirs(answered);
        }
    }
}
