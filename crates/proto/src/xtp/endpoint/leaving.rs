//! How an association ends.

use antiphon_core::{CloseReason, Event, Instant, Outcome};

use super::{Due, Stage, Timers, Xtp};
use crate::patience::{GONE, LONGEST_LEAVE, leave_by};
use crate::xtp::settings::Reliability;
use crate::xtp::validator::id;

impl Xtp {
    /// Whether this side, or the peer, has said that it ends the association.
    pub(in crate::xtp) fn is_leaving(&self) -> bool {
        self.closing.is_some() || self.peer_closed
    }

    pub(in crate::xtp) fn has_drained(&self) -> bool {
        self.queue.is_empty() && self.out.is_empty()
    }

    pub(super) fn move_on(&mut self, now: Instant) {
        if let Stage::Ending { reason, until } = self.stage {
            let fetched = self.inbox.is_empty() || reason == CloseReason::Local;
            if now >= until || (fetched && self.has_said_all()) {
                self.finish(reason);
            }
            return;
        }
        let Some(until) = self.leave_by().filter(|_| self.stage != Stage::Closed) else { return };
        match self.stage {
            _ if now >= until => self.leave(now),
            Stage::Open if self.has_drained() && self.timers.repeat.is_none() => {
                self.due.close = true;
                self.timers.times = 0;
                self.arm(now);
            }
            // No peer waits for an end.
            Stage::Waiting | Stage::Calling if self.has_drained() => self.leave(now),
            _ => {}
        }
    }

    /// Until when closing waits: for a peer that says something for [`GONE`], as it may have to say what it has accepted.
    pub(in crate::xtp) fn leave_by(&self) -> Option<Instant> {
        let closing = self.closing?;
        let since = closing.max(self.timers.heard);
        let until = if self.settings.reliability == Reliability::Full {
            since + LONGEST_LEAVE
        } else {
            leave_by(since, self.out.last_deadline().max(self.queue.last_deadline()), LONGEST_LEAVE)
        };
        Some(until.min(closing + GONE))
    }

    /// Ends it without the peer's consent.
    pub(in crate::xtp) fn leave(&mut self, now: Instant) {
        self.due.end = self.peer_key.map(|_| false);
        self.end(now, CloseReason::Local);
    }

    pub(in crate::xtp) fn end(&mut self, now: Instant, reason: CloseReason) {
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed) {
            return;
        }
        self.out.abort(&mut self.queue);
        self.queue.finish_all(Outcome::Aborted);
        self.due = Due { end: self.due.end, ..Due::default() };
        self.timers = Timers { heard: self.timers.heard, ..Timers::default() };
        self.stage = Stage::Ending { reason, until: now + LONGEST_LEAVE };
    }

    pub(super) fn has_said_all(&self) -> bool {
        self.due.end.is_none() && self.answers.is_empty()
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        self.stage = Stage::Closed;
        self.due = Due::default();
        self.candidate = None;
        self.answers.clear();
        self.inbox.clear();
        if std::mem::take(&mut self.told_id) {
            id(self.own_key).map(Event::IdRetired).into_iter().for_each(|event| self.queue.report(event));
        }
        self.queue.report(Event::Closed(reason));
    }
}
