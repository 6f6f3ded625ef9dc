//! The units of a video track whose messages have no outcome yet.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use super::ASK_AGAIN;
use crate::send_track::NUMBER_MASK;

/// They, the oldest first.
#[derive(Debug)]
pub(super) struct Open {
    units: VecDeque<OpenUnit>,
    /// How long the transport took for a byte of the last ones, in seconds; nothing for those that it took at once.
    pace: f64,
}

#[derive(Clone, Copy, Debug)]
struct OpenUnit {
    number: u64,
    due: Instant,
    /// Its messages that have no outcome.
    open: u64,
    /// When the first of its messages was handed over, and the last one.
    first: Instant,
    last: Instant,
    /// All of its messages, those that expired, and their bytes.
    messages: u64,
    expired: u64,
    bytes: u64,
}

impl Open {
    pub fn new() -> Self {
        Open { units: VecDeque::with_capacity(MOST), pace: 0.0 }
    }

    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// How fast the transport takes pictures, in bytes a second; `None`: at once.
    pub fn rate(&self) -> Option<f64> {
        (self.pace > FAST).then(|| 1.0 / self.pace)
    }

    /// So many messages of a unit were handed over.
    pub fn add(&mut self, now: Instant, (number, due): (u64, Instant), messages: u64, bytes: u64) {
        match self.units.back_mut().filter(|unit| unit.number == number) {
            Some(unit) => {
                unit.open += messages;
                unit.messages += messages;
                (unit.bytes, unit.last) = (unit.bytes + bytes, now);
            }
            None if messages > 0 => {
                if self.units.len() == MOST {
                    self.units.pop_front();
                }
                let (open, first, last, expired) = (messages, now, now, 0);
                self.units.push_back(OpenUnit { number, due, open, first, last, messages, expired, bytes });
            }
            None => {}
        }
    }

    /// A message of the unit that [`super::video_of`] names has its outcome.
    pub fn settle(&mut self, now: Instant, number: u64, expired: bool) {
        if let Some(unit) = self.units.iter_mut().find(|unit| unit.number & NUMBER_MASK == number) {
            unit.open = unit.open.saturating_sub(1);
            unit.expired += u64::from(expired);
            if unit.open == 0 {
                self.pace += (unit.pace(now) - self.pace) / 4.0;
            }
        }
        while self.units.front().is_some_and(|unit| unit.open == 0) {
            self.units.pop_front();
        }
    }

    /// For how long the oldest one has been waiting.
    pub fn age(&self, now: Instant) -> Duration {
        self.units.front().map_or(Duration::ZERO, |unit| now.since(unit.due))
    }

    /// For how long the transport has had it.
    pub fn handed_for(&self, now: Instant) -> Duration {
        self.units.front().map_or(Duration::ZERO, |unit| now.since(unit.first))
    }
}

impl OpenUnit {
    /// How long its transport took for a byte, in seconds, now that the last one has gone.
    fn pace(&self, now: Instant) -> f64 {
        if now.since(self.last) < ASK_AGAIN {
            return 0.0;
        }
        let carried = self.messages.saturating_sub(self.expired).max(1);
        let share = carried as f64 / self.messages.max(1) as f64;
        now.since(self.first).as_secs_f64() / (self.bytes.max(1) as f64 * share)
    }
}

/// What takes a byte in less time, in seconds, is not slow: 100 Mbit/s.
const FAST: f64 = 8e-8;
/// Units whose outcome may be open: more than a second of any usual stream.
const MOST: usize = 128;
