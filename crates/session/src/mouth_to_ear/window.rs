//! Extremes and the mean of what was measured lately.

use std::time::Duration;

use antiphon_core::Instant;

/// Numbers of the last `N` quarters of a second. Allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<const N: usize> {
    parts: [Part; N],
}

/// Of one quarter of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Which one since the run began.
    number: u64,
    figures: Option<Figures>,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub least: i64,
    pub most: i64,
    pub count: u32,
    /// Of what each is above `least`.
    above: f64,
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Window { parts: [Part::default(); N] }
    }
}

impl<const N: usize> Window<N> {
    /// Measured at `at`.
    pub fn add(&mut self, at: Instant, value: i64) {
        let number = number(at);
        let part = &mut self.parts[(number % N as u64) as usize];
        if part.number != number {
            *part = Part { number, figures: None };
        }
        let one = Figures { least: value, most: value, count: 1, above: 0.0 };
        part.figures = Some(part.figures.map_or(one, |before| before.with(one)));
    }

    /// All of the window; `None` if there is nothing.
    pub fn figures(&self, now: Instant) -> Option<Figures> {
        let oldest = number(now).saturating_sub(N as u64 - 1);
        let parts = self.parts.iter().filter(|part| part.number >= oldest);
        parts.filter_map(|part| part.figures).reduce(Figures::with)
    }
}

impl Figures {
    fn with(self, other: Figures) -> Figures {
        let least = self.least.min(other.least);
        let above = |one: Figures| one.above + one.least.saturating_sub(least) as f64 * f64::from(one.count);
        Figures {
            least,
            most: self.most.max(other.most),
            count: self.count.saturating_add(other.count),
            above: above(self) + above(other),
        }
    }

    /// The mean less the least.
    pub fn mean_above_least(&self) -> Duration {
        Duration::from_nanos((self.above / f64::from(self.count.max(1))) as u64)
    }
}

fn number(at: Instant) -> u64 {
    at.as_nanos() / PART.as_nanos() as u64
}

const PART: Duration = Duration::from_millis(250);
