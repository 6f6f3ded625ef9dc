//! Which gaps began last, so that their cause can be found.

use std::time::Duration;

use antiphon_core::Instant;

use super::{Cause, Playout};

/// A gap that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapBegun {
    /// Counts the gaps of the buffer, of all channel groups together, from 1; those that began at once have one record.
    pub number: u64,
    /// The channel group it is in.
    pub group: usize,
    /// When its sound was taken from the buffer to be played.
    pub at: Instant,
    /// Unwrapped sequence number of the packet that was not there; `None` at a new beginning of the stream.
    pub sequence: Option<u64>,
    /// Why sound was concealed.
    pub cause: Cause,
    /// The playout delay in force.
    pub delay: Duration,
}

/// The last gaps, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GapsBegun([Option<GapBegun>; MOST]);

impl GapsBegun {
    /// The last gaps, the oldest first, of all that began.
    pub fn iter(&self) -> impl Iterator<Item = &GapBegun> {
        self.0.iter().flatten()
    }

    fn push(&mut self, gap: GapBegun) {
        self.0.rotate_left(1);
        self.0[MOST - 1] = Some(gap);
    }
}

/// As many begin in a second on a path that loses every tenth packet or so, by bursts.
const MOST: usize = 16;

impl Playout {
    /// The last gaps that began, at most 16.
    pub fn gaps_begun(&self) -> GapsBegun {
        self.begun
    }

    /// Notes the gaps that began with sound taken at `now`.
    pub(super) fn note_gaps(&mut self, now: Instant) {
        for (group, lane) in self.lanes.iter_mut().enumerate() {
            let Some((sequence, cause)) = lane.opened.take() else { continue };
            self.begun_count += 1;
            let (number, delay) = (self.begun_count, self.config.playout_delay);
            self.begun.push(GapBegun { number, group, at: now, sequence, cause, delay });
        }
    }
}
