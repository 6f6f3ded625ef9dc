//! Random numbers by the time at which a packet comes.

use antiphon_core::{Instant, Rng};

/// Gives each packet a generator of its own, which depends on the seed, on the millisecond in which the packet comes, and
/// on how many came before it in that millisecond.
///
/// Two senders over links of equal seed therefore meet the same fate at the same time, whatever else each has sent:
/// handshakes, acknowledgements or repetitions shift nothing. Packets of one link draw independently of each other.
pub(crate) struct Draws {
    seed: u64,
    slot: u64,
    /// Packets in the present slot.
    count: u64,
}

/// Longer than the usual difference between the instants at which two threads send what is due at the same time (some
/// 0.1 ms), shorter than the time between two packets of most streams (2.7 to 20 ms).
const SLOT_NANOS: u64 = 1_000_000;
/// More packets than fit into a slot: 65 536 of 20 bytes in 1 ms would be 10 Gbit/s.
const COUNT_BITS: u32 = 16;

impl Draws {
    /// For the element called `label` of a link with that seed.
    pub fn new(seed: u64, label: &str) -> Self {
        Draws { seed: Rng::fork(seed, label).next_u64(), slot: 0, count: 0 }
    }

    /// The generator of the packet that comes at `now`, which never goes back.
    pub fn at(&mut self, now: Instant) -> Rng {
        let slot = now.as_nanos() / SLOT_NANOS;
        self.count = if slot == self.slot { self.count + 1 } else { 0 };
        self.slot = slot;
        Rng::new(self.seed ^ (slot << COUNT_BITS).wrapping_add(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draws: &mut Draws, micros: u64) -> f64 {
        draws.at(Instant::from_micros(micros)).unit()
    }

    #[test]
    fn what_is_drawn_depends_on_the_time_and_not_on_what_came_before() {
        let (mut talkative, mut quiet) = (Draws::new(7, "loss"), Draws::new(7, "loss"));
        for n in 0..50_030 {
            drawn(&mut talkative, n * 100);
        }
        assert_eq!(drawn(&mut talkative, 5_003_020), drawn(&mut quiet, 5_003_730));
        assert_ne!(
            drawn(&mut talkative, 5_003_950),
            drawn(&mut Draws::new(7, "loss"), 5_003_950),
            "the second one"
        );
        assert_ne!(
            drawn(&mut quiet, 5_004_000),
            drawn(&mut Draws::new(7, "jitter"), 5_004_000),
            "another element"
        );
        assert_ne!(
            drawn(&mut quiet, 5_005_000),
            drawn(&mut Draws::new(8, "loss"), 5_005_000),
            "another seed"
        );
    }

    #[test]
    fn draws_of_neighbours_are_independent() {
        // Between the packets of a slot, and between the first ones of slots that follow each other: the correlation of
        // n pairs of uniform numbers has a standard error of 1/√n.
        let n = 200_000u64;
        for spacing in [20, 1_000, 5_333] {
            let mut draws = Draws::new(3, "loss");
            let values: Vec<f64> = (0..n).map(|k| drawn(&mut draws, k * spacing) - 0.5).collect();
            let covariance: f64 = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / n as f64;
            let mean = values.iter().sum::<f64>() / n as f64;
            let error = 1.0 / (n as f64).sqrt();
            assert!(
                (covariance * 12.0).abs() < 4.0 * error,
                "{spacing} us: correlation {}",
                covariance * 12.0
            );
            assert!(mean.abs() < 4.0 * error * 0.289, "{spacing} us: mean {mean}");
        }
    }
}
