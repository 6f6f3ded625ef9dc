//! Propagation and its variation. Packets leave in the order in which they came.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use crate::draws::Draws;
use crate::packet::{Counters, Packet};
use crate::queue::{MAX_PACKETS, ROOM};
use crate::spec::{Jitter, Shape};

/// Draws the delay of each packet beyond the propagation time.
pub struct Variation {
    jitter: Option<Jitter>,
    draws: Draws,
}

impl Variation {
    /// Extra delays of the given mean and shape; always zero for `None`.
    pub fn new(jitter: Option<Jitter>, seed: u64) -> Self {
        Variation { jitter, draws: Draws::new(seed, "jitter") }
    }

    /// The extra delay of the packet that comes at `now`, before order is restored.
    pub fn extra(&mut self, now: Instant) -> Duration {
        let Some(Jitter { mean, shape }) = self.jitter else {
            return Duration::ZERO;
        };
        let mut rng = self.draws.at(now);
        mean.mul_f64(match shape {
            Shape::Uniform => 2.0 * rng.unit(),
            Shape::Exponential => rng.exponential(),
            Shape::Normal => (1.0 + rng.normal() / 3.0).clamp(0.0, 2.0),
            Shape::Pareto => (1.0 / (1.0 - rng.unit()).sqrt() - 1.0).min(PARETO_CAP),
        })
    }
}

/// The heavy tail is cut at this many means, so that no draw stops the link permanently. This reduces the mean by 1 %
/// (E\[min(X, c)\] = 1 - 1/(1+c) for a Lomax variable of shape 2 and mean 1).
pub const PARETO_CAP: f64 = 100.0;

/// A line of fixed propagation time. The extra delay comes from the caller; a packet never overtakes the one before it.
pub struct Delay<P> {
    propagation: Duration,
    line: VecDeque<(Instant, P)>,
    /// When the last packet leaves.
    last: Instant,
    counters: Counters,
}

impl<P: Packet> Delay<P> {
    /// A line with that propagation time.
    pub fn new(propagation: Duration) -> Self {
        Delay {
            propagation,
            line: VecDeque::with_capacity(ROOM),
            last: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    /// Sends a packet at `at`, with `extra` delay; returns it if the line holds too many.
    ///
    /// It leaves at the later of its own time and the time of the packet before it.
    pub fn offer(&mut self, at: Instant, packet: P, extra: Duration) -> Option<P> {
        self.counters.count_offered(packet.wire_len());
        if self.line.len() >= MAX_PACKETS {
            self.counters.overflowed += 1;
            return Some(packet);
        }
        self.last = (at + self.propagation + extra).max(self.last);
        self.line.push_back((self.last, packet));
        self.counters.in_flight += 1;
        None
    }

    /// The next packet that has arrived by `now`, with the instant at which it did.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.line.front().filter(|(due, _)| *due <= now)?;
        let (due, packet) = self.line.pop_front()?;
        self.counters.in_flight -= 1;
        self.counters.count_delivered(packet.wire_len());
        Some((due, packet))
    }

    /// When the first packet arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.line.front().map(|(due, _)| *due)
    }

    /// Counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of packets whose extra delay is above `threshold` means, packets being far apart; and the mean.
    fn tail(shape: Shape, thresholds: [f64; 3]) -> ([f64; 3], f64) {
        let mean = Duration::from_millis(2);
        let mut variation = Variation::new(Some(Jitter { mean, shape }), 8);
        let mut line = Delay::new(Duration::from_millis(10));
        let (mut above, mut sum) = ([0.0; 3], 0.0);
        for n in 0..DRAWS as u64 {
            // A second apart: beyond the longest of these delays (210 ms), so order is kept without a correction.
            let at = Instant::from_millis(n * 1000);
            assert!(line.offer(at, vec![0u8], variation.extra(at)).is_none());
            let due = line.poll_timeout().expect("one on the way");
            let x = (due.since(at).as_secs_f64() - 0.010) / mean.as_secs_f64();
            assert!(line.poll(due).is_some());
            sum += x / DRAWS;
            for (share, threshold) in above.iter_mut().zip(thresholds) {
                *share += f64::from(x > threshold) / DRAWS;
            }
        }
        (above, sum)
    }

    const DRAWS: f64 = 100_000.0;

    #[test]
    fn delays_are_distributed_as_named() {
        let normal = |z: f64| [0.5, 0.158_655, 0.022_75][z as usize];
        let cases: [(Shape, [f64; 3], [f64; 3]); 4] = [
            (Shape::Uniform, [0.5, 1.0, 1.9], [0.75, 0.5, 0.05]),
            (Shape::Exponential, [0.5, 1.0, 3.0], [0.5, 1.0, 3.0].map(|x: f64| (-x).exp())),
            (Shape::Normal, [1.0, 1.0 + 1.0 / 3.0, 1.0 + 2.0 / 3.0], [0.0, 1.0, 2.0].map(normal)),
            (Shape::Pareto, [1.0, 9.0, 30.0], [1.0, 9.0, 30.0].map(|x: f64| (1.0 + x).powi(-2))),
        ];
        for (shape, thresholds, expected) in cases {
            let (above, _) = tail(shape, thresholds);
            for (got, want) in above.iter().zip(expected) {
                // Four standard errors of a share, there being twelve of them; the shapes differ by far more.
                let sigma = (want * (1.0 - want) / DRAWS).sqrt();
                assert!((got - want).abs() < 4.0 * sigma, "{shape:?}: {above:?}, not {expected:?}");
            }
        }
    }

    #[test]
    fn the_mean_is_the_setting() {
        // Standard deviations in means: 1/√3, 1, 1/3; the capped Pareto has √(2 ln 101 - 2 + 2/101 - .98) = 2.50. Four errors each.
        for (shape, sigma, mean) in [
            (Shape::Uniform, 0.578, 1.0),
            (Shape::Exponential, 1.0, 1.0),
            (Shape::Normal, 0.334, 1.0),
            (Shape::Pareto, 2.51, 0.99),
        ] {
            let (_, got) = tail(shape, [0.0; 3]);
            assert!((got - mean).abs() < 4.0 * sigma / DRAWS.sqrt(), "{shape:?}: {got}");
        }
    }

    #[test]
    fn a_late_packet_holds_up_those_behind_it() {
        let mut line = Delay::new(Duration::from_millis(10));
        for (ms, extra) in [(0, 50), (5, 0), (10, 1), (70, 0)] {
            line.offer(Instant::from_millis(ms), vec![ms as u8], Duration::from_millis(extra));
        }
        let mut out = Vec::new();
        while let Some((at, packet)) = line.poll(Instant::from_millis(1000)) {
            out.push((at, packet[0]));
        }
        let expected =
            [(60, 0), (60, 5), (60, 10), (80, 70)].map(|(ms, name)| (Instant::from_millis(ms), name));
        assert_eq!(out, expected);
    }

    #[test]
    fn the_line_is_bounded() {
        let mut line = Delay::new(Duration::from_secs(1));
        let refused =
            (0..MAX_PACKETS + 5).filter(|_| line.offer(Instant::ZERO, vec![], Duration::ZERO).is_some());
        assert_eq!(refused.count(), 5);
        assert!(line.counters().balances());
    }
}
