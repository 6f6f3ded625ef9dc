//! The gaps of a stream that is received, each with what tells its cause.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_session::{Cause, GapBegun, GapsBegun};

use super::delay::millis;

/// A gap that has begun.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Gap {
    /// Counts the gaps of the stream from 1: one that is told again has the same number.
    pub number: u64,
    /// When its sound was taken to be played, in seconds since the run began, as the times of a passport are.
    pub at_s: f64,
    /// The packet that was not there, by the number that a passport gives it; `None` at a new beginning of the stream.
    pub packet: Option<u64>,
    /// Why sound was made up.
    pub cause: GapCause,
    /// Playout delay in force, in milliseconds.
    pub latency_ms: f64,
}

/// Why sound was made up. Whether the packet is late or lost is known only afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapCause {
    /// A packet was missing between others.
    Missing,
    /// No packet had come.
    Starved,
    /// The stream was taken up again, and its sound was not due yet.
    Resync,
}

impl Gap {
    /// Those of the last two seconds before `now`, the oldest first.
    pub(super) fn list(gaps: &GapsBegun, now: Instant) -> Vec<Self> {
        gaps.iter().filter(|gap| now.since(gap.at) < TOLD_FOR).map(Self::from).collect()
    }
}

/// So long a gap is told: states are shown once a second.
const TOLD_FOR: Duration = Duration::from_secs(2);

impl From<&GapBegun> for Gap {
    fn from(gap: &GapBegun) -> Self {
        Gap {
            number: gap.number,
            at_s: gap.at.as_nanos() as f64 / 1e9,
            packet: gap.sequence,
            cause: match gap.cause {
                Cause::Missing => GapCause::Missing,
                Cause::Starved => GapCause::Starved,
                Cause::Resync => GapCause::Resync,
            },
            latency_ms: millis(gap.delay),
        }
    }
}
