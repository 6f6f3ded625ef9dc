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
        let interval = self.schedule.interval()?;
        let most = match interval >= TIMER_FROM {
            true => MAX_SUSPECTED,
            false if interval >= FAST_FROM && self.is_lossy(last.received_at) => MAX_SUSPECTED_FAST,
            false => 0,
        };
        if stream.suspected >= most {
            return None;
        }
        Some(self.schedule.due_after(stream.suspected + 1)? + patience)
    }

    /// Whether packets have been lost lately, and requested. A recording has time.
    fn is_lossy(&self, now: Instant) -> bool {
        let requests = !self.config.full && self.requests.asked > 0;
        requests && self.last_loss.is_some_and(|last| now.since(last) < REMEMBERS_LOSS)
    }

    /// Whether the stream is so fast that a suspected packet is requested again before its answer is overdue: a burst of losses takes several packets, and their
    /// answers.
    pub(super) fn hurries(&self) -> bool {
        self.schedule.interval().is_some_and(|interval| interval < TIMER_FROM)
    }

    /// Suspected packets with an older id than one that has arrived are indeed missing.
    pub(super) fn confirm_suspects(&mut self, now: Instant, id: u64) {
        let (latency, hurries) = (self.config.desired_latency, self.hurries());
        for missing in self.missing.iter_mut().filter(|missing| missing.suspected && missing.id < id) {
            missing.suspected = false;
            missing.found_at = now;
            self.counts.lost += 1;
            self.last_loss = Some(now);
            missing.state = match missing.state {
                Awaiting::Proof => Awaiting::Decision(now),
                // An answer that was to come before this packet was lost in the same burst, and others may have been: a request that is the last to be of use is
                // not waited for.
                Awaiting::Answer { sent, until } if hurries => {
                    let expected = self.requests.expected_at(sent).unwrap_or(until);
                    let last = self.requests.last_request(missing.due + latency).max(now);
                    Awaiting::Answer { sent, until: until.min(expected).min(last) }
                }
                other => other,
            };
        }
    }
}

/// Above this interval between messages, overdue ones are requested by the clock.
pub const TIMER_FROM: Duration = Duration::from_millis(10);
/// Above this one they are where packets have been lost lately ([`REMEMBERS_LOSS`]): a burst of losses would have to be over before any of it is requested. With
/// still shorter intervals each message would cost a request of its own while a path stands still.
const FAST_FROM: Duration = Duration::from_millis(2);
/// Elsewhere what is only late would be requested: of exponential jitter one packet in 55 is later than four mean deviations.
const REMEMBERS_LOSS: Duration = Duration::from_secs(60);
/// Messages in a row requested by the clock: after these the stream has paused or the path has failed, and further
/// requests would be wasted.
const MAX_SUSPECTED: u32 = 3;
/// The same in a fast stream: 64 ms of packets of 5.3 ms.
const MAX_SUSPECTED_FAST: u32 = 12;
/// So often a message of a fast stream is requested that may not have been sent or is only late: a path that stood still is to carry few answers when it goes on.
pub(super) const MAX_ASKED_UNPROVEN: u32 = 3;
/// Wait for the rest of a message after its first parts: as long as a busy sender or a shaped link delays packets.
const TAIL_WAIT: Duration = Duration::from_millis(5);
