//! Finds packets that are overdue although no later one has arrived.

use std::time::Duration;

use antiphon_core::Instant;

use super::Receiver;
use crate::srp::improved::missing::Awaiting;
use crate::srp::improved::requests::MIN_WAIT;

impl Receiver {
    /// Records the next packet as missing: an overdue one, or the rest of a message.
    pub(super) fn suspect(&mut self, now: Instant) {
        let Some(mut stream) = self.numbering.stream else { return };
        let amid_message = stream.horizon < stream.message_end;
        let due = if amid_message { None } else { self.schedule.due_after(stream.suspected + 1) };
        let due = due.or(self.schedule.last().map(|last| last.received_at)).unwrap_or(now);
        let until = if amid_message { stream.message_end } else { stream.horizon + 1 };
        while stream.horizon < until {
            // The rest of a message was certainly sent.
            self.miss(now, stream.horizon, due.min(now), 0, !amid_message);
            stream.horizon += 1;
            stream.suspected += 1;
        }
        self.numbering.stream = Some(stream);
    }

    /// When the next packet is overdue; `None` in fast streams, and after a few of them without an answer.
    pub(super) fn next_suspicion(&self) -> Option<Instant> {
        let (stream, last) = (self.numbering.stream?, self.schedule.last()?);
        let patience = self.schedule.patience().max(MIN_WAIT);
        if stream.horizon < stream.message_end {
            return Some(last.received_at + patience.max(TAIL_WAIT));
        }
        let slow = self.schedule.interval().is_some_and(|interval| interval >= TIMER_FROM);
        if !slow || stream.suspected >= MAX_SUSPECTED {
            return None;
        }
        Some(self.schedule.due_after(stream.suspected + 1)? + patience)
    }

    /// Suspected packets with an older id than one that has arrived are indeed missing.
    pub(super) fn confirm_suspects(&mut self, now: Instant, id: u64) {
        for missing in self.missing.iter_mut().filter(|missing| missing.suspected && missing.id < id) {
            missing.suspected = false;
            missing.found_at = now;
            self.counts.lost += 1;
            if missing.state == Awaiting::Proof {
                missing.state = Awaiting::Decision(now);
            }
        }
    }
}

/// Above this interval between messages, overdue ones are requested by the clock.
pub const TIMER_FROM: Duration = Duration::from_millis(10);
/// Messages in a row requested by the clock: after these the stream has paused or the path has failed, and further
/// requests would be wasted.
const MAX_SUSPECTED: u32 = 3;
/// Wait for the rest of a message after its first parts: as long as a busy sender or a shaped link delays packets.
const TAIL_WAIT: Duration = Duration::from_millis(5);
