//! Time-outs: what is repeated, and when the peer counts as gone.

use std::time::Duration;

use antiphon_core::{BrokenReason, CloseReason, Event, Instant};

use super::endpoint::{RTO, Stage, Xtp};
use super::settings::Acks;
use crate::patience::{GONE, LONGEST_PAUSE, UNANSWERED};
use crate::rack::probe_timeout;
use crate::rtt::backed_off;

impl Xtp {
    /// Starts the timer for what has been asked.
    pub(super) fn arm(&mut self, now: Instant) {
        let wait = match self.stage {
            Stage::Calling | Stage::Proving => self.rtt.base_rto(),
            _ => probe_timeout(self.rtt.smoothed(), false, Duration::ZERO)
                .unwrap_or(RTO.initial)
                .max(self.settings.wtimer),
        };
        let wait = backed_off(wait, self.timers.times, LONGEST_PAUSE);
        // Requests at equal distances would meet the same moment of regular traffic each time, and be lost each time.
        let again = self.timers.times > 0 && self.settings.wtimer > Duration::ZERO;
        let longer = if again { wait.mul_f64(self.draws.unit() * MOST_LONGER) } else { Duration::ZERO };
        self.timers.repeat = Some(now + wait + longer);
    }

    pub(super) fn run_timers(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Ending { .. } | Stage::Closed | Stage::Waiting) {
            return;
        }
        if self.timers.asked.is_some_and(|asked| now.since(asked) >= GONE) {
            self.due.end = self.peer_key.map(|_| false);
            return self
                .end(now, if self.closing.is_some() { CloseReason::Local } else { CloseReason::TimedOut });
        }
        if self.timers.repeat.is_some_and(|at| at <= now) {
            self.repeat(now);
        }
        if self.timers.hole.is_some_and(|at| at <= now) {
            self.pass_over_hole(now);
        }
        if self.stage == Stage::Open && now.since(self.timers.heard) >= IDLE && self.timers.repeat.is_none() {
            self.due.probe = self.settings.acks != Acks::Never || self.timers.asked.is_none();
            self.arm(now);
        }
        self.pace.on_timeout(now);
        self.out.on_timeout();
        self.out.find_losses(now, &self.rtt);
        self.due.probe |= self.out.expire(now, &self.rtt, &mut self.queue);
        self.note_gap(now);
    }

    /// Nothing has answered for a while.
    pub(super) fn repeat(&mut self, now: Instant) {
        self.timers.times = self.timers.times.saturating_add(1);
        self.timers.repeat = None;
        match self.stage {
            Stage::Calling | Stage::Proving => {
                let asked = self.timers.asked.unwrap_or(now);
                self.due.step = true;
                if now.since(asked) >= UNANSWERED
                    && !std::mem::replace(&mut self.timers.told_unanswered, true)
                {
                    self.queue.report(Event::Broken(BrokenReason::Unreachable));
                }
                self.arm(now);
            }
            _ if self.is_leaving() && self.has_drained() => {
                self.due.close = true;
                self.arm(now);
            }
            _ if !self.out.is_empty() || self.timers.asked.is_some() => {
                self.due.probe = true;
                let sent_at = self.last_request.unwrap_or(now);
                if self.out.limit.is_silent_since(sent_at) {
                    self.out.limit.on_silence(now, sent_at, self.out.rack.sent() + 1);
                }
                self.arm(now);
            }
            _ => {}
        }
    }
}

/// By how much of itself a wait with a `wtimer` is longer at most, but the first, which repairs wait for.
const MOST_LONGER: f64 = 0.25;
/// Silence after which the peer is asked whether it is there.
pub(super) const IDLE: Duration = Duration::from_secs(15);
