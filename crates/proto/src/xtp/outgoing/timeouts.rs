//! When something becomes of what was sent. Work for a packet must not grow with the packets on their way, so the time-out is
//! remembered, and looked for among all of them only where a round trip decides, or when it has come.

use std::time::Duration;

use antiphon_core::{Instant, sooner, soonest};

use super::{Outgoing, Part, Reliability, State};
use crate::rack::{Rack, loss_delay};
use crate::rtt::RttEstimator;

/// The time-out that was found last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) at: Option<Instant>,
    /// Whether it follows from deadlines alone, which no round trip changes.
    pub(super) by_deadlines: bool,
}

impl Outgoing {
    /// The time-out has come: the next one is looked for.
    pub fn on_timeout(&mut self) {
        self.known.set(None);
    }

    /// When [`Self::find_losses`] or [`Self::expire`] may have something to do, or a copy is due; after [`Self::on_timeout`]
    /// when they have.
    pub fn next_timeout(&self, rtt: &RttEstimator) -> Option<Instant> {
        if self.messages.is_empty() {
            return None;
        }
        let known = self.known.get().unwrap_or_else(|| self.find_timeout(rtt));
        self.known.set(Some(known));
        known.at
    }

    fn find_timeout(&self, rtt: &RttEstimator) -> Known {
        let patience = rtt.base_rto();
        let mut by_deadlines = true;
        let mut of_part = |part: &Part| {
            let sent = &self.messages[(part.message - self.first_message) as usize];
            let deadline = self.expires_at(sent.deadline);
            match part.state {
                State::Settled => None,
                State::Lost => deadline,
                State::Flight => {
                    let lost = lost_at(part, &self.rack, rtt);
                    let answer_by = part.asked_at.map_or(Instant::ZERO, |asked| asked + patience);
                    let overdue = deadline.map(|deadline| deadline.max(answer_by));
                    by_deadlines &= lost.is_none() && part.copy_at.is_none() && overdue == deadline;
                    soonest([lost, overdue, part.copy_at])
                }
            }
        };
        let of_parts = self.parts.iter().filter_map(&mut of_part).min();
        let uncut = self.messages.back().filter(|sent| sent.cut < sent.bytes.len() && !sent.given_up);
        let uncut = uncut.and_then(|sent| self.expires_at(sent.deadline));
        Known { at: sooner(of_parts, uncut), by_deadlines }
    }

    /// The first instant at which a message with this deadline is given up, if deadlines decide that.
    pub(super) fn expires_at(&self, deadline: Option<Instant>) -> Option<Instant> {
        let deadline = deadline.filter(|_| self.reliability == Reliability::Deadline)?;
        Some(deadline + Duration::from_nanos(1))
    }
}

/// When a part that was overtaken counts as lost. `None`: it was not overtaken, or no round trip has been measured, without
/// which nothing tells how long a reordered packet may take. Then only later arrivals are counted.
pub(super) fn lost_at(part: &Part, rack: &Rack, rtt: &RttEstimator) -> Option<Instant> {
    let wait = loss_delay(rtt.smoothed()).filter(|_| rack.has_overtaken(part.sending))?;
    Some(part.sent_at + wait)
}
