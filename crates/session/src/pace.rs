//! When a sink gets its next block.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};
use antiphon_media::{CyclePlace, Wants};

/// When a clocked sink gets its next block.
pub(crate) struct Pace {
    rate: u32,
    /// Sample frames in a block: no more than a packet or the device's period holds, since a longer block would wait
    /// for more.
    block: usize,
    /// When to ask the sink next.
    next: Instant,
    start: Instant,
    pulled: u64,
    /// What the sink has missed so far, in sample frames.
    missed: u64,
}

/// A block that goes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueBlock {
    /// Its time: that at which it is due, if it goes out before; at the run's pace that at which it was due, as a driver that is late makes several at
    /// once.
    pub at: Instant,
    /// Its sample frames.
    pub frames: usize,
    /// Sample frames before it that the sink has missed.
    pub missed: u64,
    /// Sample frames from its first to the end of the sink's cycle, of a sink that says it.
    pub cycle: Option<CyclePlace>,
}

impl Pace {
    /// Of a sink that takes `rate` sample frames a second, in blocks of `block`, from `now` on.
    pub fn new(rate: u32, block: usize, now: Instant) -> Self {
        Pace { rate, block, next: now, start: now, pulled: 0, missed: 0 }
    }

    /// When to ask the sink next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Sample frames in a block at most.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Of a sink that follows the run's clock: leaves out the blocks of a time in which the machine stood still for longer than
    /// `most`. Returns their sample frames.
    pub fn leave_out(&mut self, now: Instant, most: Duration) -> u64 {
        let behind = now.since(self.next);
        if behind <= most {
            return 0;
        }
        let frames = behind.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        let blocks = u64::try_from(frames).unwrap_or(u64::MAX) / self.block as u64;
        let frames = blocks * self.block as u64;
        self.pulled += frames;
        self.next = self.start + MediaTime::new(self.pulled, self.rate).duration();
        frames
    }

    /// The block that goes out now, if one does. A sink that says how much it wants sets the pace; otherwise the run's clock does.
    pub fn due(&mut self, now: Instant, wants: Option<Wants>) -> Option<DueBlock> {
        let after = |frames: u64| MediaTime::new(frames, self.rate).duration();
        let Some(wants) = wants else {
            if self.next > now {
                return None;
            }
            let at = self.next;
            self.pulled += self.block as u64;
            self.next = self.start + after(self.pulled);
            return Some(DueBlock { at, frames: self.block, missed: 0, cycle: None });
        };
        let block = self.block.min(wants.block).max(1);
        if wants.frames >= block {
            self.next = now;
            let missed = wants.missed.saturating_sub(std::mem::replace(&mut self.missed, wants.missed));
            return Some(DueBlock { at: now, frames: block, missed, cycle: wants.cycle() });
        }
        // Waits as long as the device needs to use up the missing part of a block; a slow clock is asked again soon after.
        self.next = now + after((block + wants.ahead - wants.frames) as u64).max(LOOK_AGAIN);
        None
    }

    /// The block that is due next, if the sink takes it before it is due. One that has as much as it takes is asked again when half of that is left, however long no
    /// packet comes: it is not to run down to what is due.
    pub fn early(&mut self, now: Instant, wants: Wants) -> Option<DueBlock> {
        let after = |frames: usize| MediaTime::new(frames as u64, self.rate).duration();
        let frames = self.block.min(wants.block).max(1);
        // What it has missed is left out first, once the next block is due.
        if wants.missed != self.missed {
            return None;
        }
        if wants.ahead + frames > wants.early {
            let more = wants.ahead.saturating_sub(wants.early / 2);
            if more > 0 {
                self.next = self.next.min(now + after(more));
            }
            return None;
        }
        let at = now + after((frames + wants.ahead).saturating_sub(wants.frames));
        Some(DueBlock { at, frames, missed: 0, cycle: wants.cycle() })
    }
}

/// How soon a clocked sink that is slightly slower than its nominal rate is asked again: a fraction of what the sound may be
/// handed over late, as a sink that takes whole cycles is asked shortly before.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_takes_sound_early_is_asked_before_that_has_run_out() {
        let mut pace = Pace::new(48_000, 240, Instant::ZERO);
        let (now, mut ahead) = (Instant::from_millis(100), 0);
        let wants = |ahead| Wants { ahead, early: 960, ..Wants::any(0) };
        assert!(pace.due(now, Some(wants(0))).is_none());
        // Each block has the time at which it is due.
        while let Some(block) = pace.early(now, wants(ahead)) {
            assert_eq!(block.at, now + MediaTime::new(ahead as u64 + 240, 48_000).duration());
            ahead += block.frames;
        }
        assert_eq!(ahead, 960);
        assert!(pace.due(now, Some(wants(ahead))).is_none());
        assert!(pace.early(now, wants(ahead)).is_none());
        assert_eq!(pace.next(), now + Duration::from_millis(10), "half of it is left then");
        // One that takes nothing early is asked when the next block is due.
        let wants = Wants::any(40);
        assert!(pace.due(now, Some(wants)).is_none() && pace.early(now, wants).is_none());
        assert_eq!(pace.next(), now + MediaTime::new(200, 48_000).duration());
    }
}
