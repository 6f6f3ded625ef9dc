//! The least of what was lately seen: of delays it is the part that does not vary.

use std::time::Duration;

use antiphon_core::Instant;

/// The least value of this second and of the one before, in which there was one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Least {
    least: [Option<i64>; 2],
    began: Instant,
}

impl Least {
    /// A value was seen.
    pub fn note(&mut self, now: Instant, value: i64) {
        if now.since(self.began) >= WINDOW {
            (self.least, self.began) = ([None, self.least[0]], now);
        }
        self.least[0] = Some(self.least[0].map_or(value, |least| least.min(value)));
    }

    /// The least one.
    pub fn get(&self) -> Option<i64> {
        self.least.iter().flatten().min().copied()
    }
}

/// Half of the memory: clocks that differ by 500 ppm part by 1 ms in all of it.
const WINDOW: Duration = Duration::from_secs(1);
