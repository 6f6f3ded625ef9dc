//! A timer of some resolution, as programs of older machines measured with.

use std::time::Duration;

use antiphon_core::Rng;

/// A timer that counts ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// A tick.
    pub resolution: Duration,
    /// Of the parts of a tick at which it is started.
    pub seed: u64,
    /// It reads the ticks that have passed, not those that have begun.
    pub rounds_down: bool,
}

impl Timer {
    /// What it reads: each time begins at a random part of a tick, and its end is rounded to one.
    pub fn readings(&self, nanos: &[u64]) -> Vec<u64> {
        let (tick, mut rng) = (self.resolution.as_nanos().max(1) as u64, Rng::fork(self.seed, "ticks"));
        let read = |nanos: &u64| {
            let end = nanos + (rng.unit() * tick as f64) as u64;
            if self.rounds_down { end / tick * tick } else { end.div_ceil(tick) * tick }
        };
        nanos.iter().map(read).collect()
    }
}
