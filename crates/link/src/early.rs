//! Queues that drop before they are full: RED, and the DRD of NIST Net.

use std::time::Duration;

use antiphon_core::{Instant, Ratio, Rng};

use crate::spec::{DrdSpec, RedSpec};

/// Random early detection: drops by the average length of the queue (Floyd and Jacobson 1993).
///
/// Below `min` it drops nothing. Between `min` and `max`: p_b = p_max (avg - min)/(max - min), spread by the number of
/// packets since the last drop, p_a = p_b / (1 - count p_b), so that the distance between drops is uniform between 1
/// and 1/p_b (§4 of the paper, and Linux; its figure 2 counts one more, and drops everything from p_b = 1/2 on). From
/// `max` on it drops everything, or, if gentle, p_b rises from p_max to 1 between `max` and 2 `max`. The share dropped
/// is 2 p_b/(1 + p_b).
pub struct Red {
    spec: RedSpec,
    average: f64,
    /// Packets passed since the last drop, or since the average came above `min`.
    count: u32,
    /// When the last packet came.
    last: Instant,
    rng: Rng,
}

impl Red {
    /// An empty queue.
    pub fn new(spec: RedSpec, seed: u64) -> Self {
        Red { spec, average: 0.0, count: 0, last: Instant::ZERO, rng: Rng::fork(seed, "red") }
    }

    /// Returns whether the packet that comes at `now`, which never goes back, is dropped. One draw per packet.
    ///
    /// `waiting`: packets before it. `idle`: since when nothing waits and nothing is sent, if so. `packet`: how long a
    /// packet takes; the average of an idle queue falls as if that many packets had met an empty queue.
    pub fn strikes(&mut self, now: Instant, waiting: usize, idle: Option<Instant>, packet: Duration) -> bool {
        match idle {
            Some(since) => {
                let m = now.since(since.max(self.last)).as_nanos() as f64 / packet.as_nanos().max(1) as f64;
                self.average *= (1.0 - WEIGHT).powf(m);
            }
            None => self.average += WEIGHT * (waiting as f64 - self.average),
        }
        self.last = now;
        let draw = self.rng.unit();
        let base = self.base();
        // Near 1/p_b packets after the last drop the denominator reaches zero: the next one is always dropped.
        let left = 1.0 - f64::from(self.count) * base;
        let strikes = base > 0.0 && draw * left < base;
        self.count =
            if strikes || self.average < f64::from(self.spec.min) { 0 } else { self.count.saturating_add(1) };
        strikes
    }

    /// The average length of the queue, in packets.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// p_b of the current average.
    fn base(&self) -> f64 {
        let (min, max) = (f64::from(self.spec.min), f64::from(self.spec.max));
        let (p_max, average) = (self.spec.share.0, self.average);
        if average < min {
            0.0
        } else if average < max {
            p_max * (average - min) / (max - min)
        } else if self.spec.gentle {
            (p_max + (1.0 - p_max) * (average - max) / max).min(1.0)
        } else {
            1.0
        }
    }
}

/// Weight of one packet in the average: 0.002, so that it averages over some 500 packets (Floyd and Jacobson 1993 §5).
pub const WEIGHT: f64 = 0.002;

/// Derivative random drop, of the NIST Net emulator: drops by the current length of the queue.
///
/// None below `min` packets; 10 % at `min`, rising linearly to 95 % at `max`; 95 % beyond.
pub struct Drd {
    spec: DrdSpec,
    rng: Rng,
}

impl Drd {
    /// Drops with the probabilities of `spec`.
    pub fn new(spec: DrdSpec, seed: u64) -> Self {
        Drd { spec, rng: Rng::fork(seed, "drd") }
    }

    /// Returns whether a packet that meets `waiting` packets is dropped. One draw per packet.
    pub fn strikes(&mut self, waiting: usize) -> bool {
        self.rng.chance(self.spec.probability(waiting).0)
    }
}

impl DrdSpec {
    /// The probability of a drop behind `waiting` packets.
    pub fn probability(self, waiting: usize) -> Ratio {
        let (q, min, max) = (waiting as f64, f64::from(self.min), f64::from(self.max));
        Ratio(if q < min {
            0.0
        } else if q < max {
            DRD_AT_MIN + (DRD_AT_MAX - DRD_AT_MIN) * (q - min) / (max - min)
        } else {
            DRD_AT_MAX
        })
    }
}

/// From NIST Net's users and the paper on two-stream transport.
const DRD_AT_MIN: f64 = 0.10;
const DRD_AT_MAX: f64 = 0.95;

/// RED or DRD, in a queue.
pub(crate) enum Early {
    Red(Red),
    Drd(Drd),
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RedSpec = RedSpec { min: 5, max: 15, share: Ratio(0.1), gentle: false };
    const PACKET: Duration = Duration::from_millis(1);

    /// A RED whose average stays at `level`, since the queue does.
    fn settled(spec: RedSpec, level: usize) -> Red {
        Red { average: level as f64, ..Red::new(spec, 7) }
    }

    /// Distances from drop to drop over `n` packets at a constant queue.
    fn distances(red: &mut Red, level: usize, n: usize) -> Vec<usize> {
        let drops: Vec<usize> = (0..n).filter(|_| red.strikes(Instant::ZERO, level, None, PACKET)).collect();
        drops.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn the_average_follows_the_queue_with_its_weight() {
        // A step from 0 to 20: 20 (1 - (1-w)^n), so 12.6 after 500 packets. Half or twice the weight gives 7.9 or 17.3.
        let mut red = Red::new(RedSpec { min: 1000, max: 2000, ..PLAIN }, 1);
        for n in 1..=2000 {
            assert!(!red.strikes(Instant::from_millis(n), 20, None, PACKET));
            let expected = 20.0 * (1.0 - 0.998f64.powi(n as i32));
            assert!((red.average() - expected).abs() < 1e-9, "{n}: {}", red.average());
        }
    }

    #[test]
    fn an_idle_queue_forgets_by_packet_times() {
        let mut red = settled(PLAIN, 4);
        red.last = Instant::from_millis(100);
        // Idle since before the last packet, which was dropped: only the time since that counts. 500 packet times.
        red.strikes(Instant::from_millis(600), 0, Some(Instant::from_millis(50)), PACKET);
        assert!((red.average() - 4.0 * 0.998f64.powi(500)).abs() < 1e-9, "{}", red.average());
        // And then 250 more since it fell idle.
        red.strikes(Instant::from_millis(1000), 0, Some(Instant::from_millis(750)), PACKET);
        assert!((red.average() - 4.0 * 0.998f64.powi(750)).abs() < 1e-9, "{}", red.average());
    }

    #[test]
    fn drops_are_evenly_spread() {
        // At 10 packets p_b = 5 %: distances uniform on 1..=20, none beyond. χ² with 19 degrees of freedom exceeds 43.8
        // by chance once in a thousand; independent drops (geometric distances) give thousands.
        let gaps = distances(&mut settled(PLAIN, 10), 10, 400_000);
        let expected = gaps.len() as f64 / 20.0;
        let counts: Vec<f64> =
            (1..=20).map(|gap| gaps.iter().filter(|g| **g == gap).count() as f64).collect();
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
        let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi < 43.8, "{chi}: {counts:?}");
        // Mean distance (1/p_b + 1)/2 = 10.5, standard deviation √((20² - 1)/12) = 5.77; four errors of 38 000 are 0.12.
        // Counting one packet more or less moves it by a half.
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 10.5).abs() < 4.0 * 5.77 / (gaps.len() as f64).sqrt(), "{mean}");
    }

    #[test]
    fn the_share_follows_the_average() {
        let gentle = RedSpec { gentle: true, ..PLAIN };
        let n = 200_000;
        // p_b by hand; 2 p_b/(1 + p_b) where 1/p_b is whole. At p_b = .37 (gentle, 19.5 is not whole; 18: .28), distances
        // are 1, 2, .. with p_b each until the rest: mean 1 + (1-p_b) + (1-2 p_b) + ..
        for (spec, level, base) in [
            (PLAIN, 4, 0.0),
            (PLAIN, 5, 0.0),
            (PLAIN, 9, 0.04),
            (PLAIN, 14, 0.09),
            (PLAIN, 15, 1.0),
            (PLAIN, 40, 1.0),
            (gentle, 14, 0.09),
            (gentle, 18, 0.28),
            (gentle, 20, 0.4),
            (gentle, 25, 0.7),
            (gentle, 30, 1.0),
            (gentle, 40, 1.0),
        ] {
            let mean: f64 = (0..=1000).map(|k| f64::max(0.0, 1.0 - f64::from(k) * base)).sum();
            let expected = if base > 0.0 { 1.0 / mean } else { 0.0 };
            let mut red = settled(spec, level);
            let drops = (0..n).filter(|_| red.strikes(Instant::ZERO, level, None, PACKET)).count();
            let share = drops as f64 / f64::from(n);
            // Spread drops vary less than independent ones; this allows four errors of the latter: under 0.45 % of
            // share. Neighbouring levels differ by 1 % of p_b, 2 % of share.
            let sigma = (expected * (1.0 - expected) / f64::from(n)).sqrt();
            assert!((share - expected).abs() <= 4.0 * sigma, "{spec:?} at {level}: {share}, not {expected}");
        }
    }

    #[test]
    fn drd_drops_by_the_level_of_the_queue() {
        let spec = DrdSpec { min: 10, max: 50 };
        // The sheet's example; and just before and after the corners.
        for (level, expected) in [
            (0, 0.0),
            (9, 0.0),
            (10, 0.10),
            (20, 0.3125),
            (30, 0.525),
            (40, 0.7375),
            (49, 0.92875),
            (50, 0.95),
            (500, 0.95),
        ] {
            let mut drd = Drd::new(spec, 3);
            let n = 200_000;
            let share = (0..n).filter(|_| drd.strikes(level)).count() as f64 / f64::from(n);
            // Four errors: at most 0.45 %. One packet more or less in the queue is 2.1 %.
            let sigma = (expected * (1.0 - expected) / f64::from(n)).sqrt();
            assert!((share - expected).abs() <= 4.0 * sigma, "{level}: {share}, not {expected}");
        }
    }
}
