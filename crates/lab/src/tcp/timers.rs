//! The sender's timers: retransmission (RFC 6298), tail loss probe (RFC 8985 §7), zero window (RFC 9293 §3.8.6.1).

use std::time::Duration;

use antiphon_core::Instant;

use super::recovery::Phase;
use super::sender::{Forced, Sender, TailProbe};

/// The sender's only timer, as in Linux: what is due and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    /// The instant.
    pub at: Instant,
    /// The action.
    pub due: Due,
}

/// What a timer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Everything outstanding counts as lost.
    Retransmission,
    /// The last segment is probed.
    TailProbe,
    /// The peer's closed window is probed.
    WindowProbe,
}

impl Sender {
    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timer.map(|timer| timer.at);
        timer.into_iter().chain(self.reorder_timer).min()
    }

    /// Does what is due. False: the peer has not answered for too long, and the connection must be given up.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.reorder_timer.is_some_and(|at| at <= now) {
            self.detect(now);
            self.enter_recovery_if_lost();
        }
        let Some(timer) = self.timer.filter(|timer| timer.at <= now) else { return true };
        self.timer = None;
        match timer.due {
            Due::TailProbe => self.on_tail_timeout(now),
            Due::Retransmission => return self.on_retransmission_timeout(now),
            Due::WindowProbe => return self.on_window_timeout(now),
        }
        true
    }

    /// Sets the timer after a transmission, or (`advanced`) after new data was acknowledged.
    pub(super) fn arm(&mut self, now: Instant, advanced: bool) {
        let Some(head) = self.scoreboard.head() else {
            self.timer = None;
            return;
        };
        let old = self.timer.filter(|timer| timer.due == Due::Retransmission && !advanced);
        let rto_at = match old {
            Some(timer) => timer.at,
            None if advanced => now + self.rto(),
            None => (head.sent_at + self.rto()).max(now),
        };
        self.timer = Some(match self.tail_probe_at(now) {
            Some(at) if self.may_probe_tail() => Timer { at: at.min(rto_at), due: Due::TailProbe },
            _ => Timer { at: rto_at, due: Due::Retransmission },
        });
    }

    /// Restarts the retransmission timer: the head was retransmitted.
    pub(super) fn arm_rto(&mut self, now: Instant) {
        self.timer = Some(Timer { at: now + self.rto(), due: Due::Retransmission });
    }

    fn may_probe_tail(&self) -> bool {
        let quiet = self.recovery.phase() == Phase::Open && !self.scoreboard.has_sacked();
        self.profile.tail_loss_probe && self.sack && quiet && self.tail_probe.is_none()
    }

    /// RFC 8985 §7.2: two round trips; a lone segment's acknowledgement may be delayed, for which Linux allows its
    /// least time-out (`tcp_schedule_loss_probe`), RFC 8985 the same 200 ms.
    fn tail_probe_at(&self, now: Instant) -> Option<Instant> {
        let lone = self.scoreboard.len() == 1;
        let extra = if lone { self.rtt.min_rto() } else { TIMER_MARGIN };
        Some(now + self.rtt.smoothed().srtt()? * 2 + extra)
    }

    fn on_tail_timeout(&mut self, now: Instant) {
        let new_data = self.unsent() > 0 && self.edge > self.next;
        self.forced = Some(Forced::Tail);
        self.counts.tail_probes += 1;
        self.tail_probe = Some(TailProbe { high: self.next, retransmission: !new_data });
        let head = self.scoreboard.head().map_or(now, |head| head.sent_at);
        let at = (head + self.rto()).max(now + TIMER_MARGIN);
        self.timer = Some(Timer { at, due: Due::Retransmission });
    }

    fn on_retransmission_timeout(&mut self, now: Instant) -> bool {
        if self.scoreboard.is_empty() {
            return true;
        }
        self.retries += 1;
        if self.is_given_up(now) {
            return false;
        }
        self.counts.timeouts += 1;
        self.tail_probe = None;
        self.mark_lost_at_timeout(now);
        let in_flight = self.in_flight();
        self.recovery.on_timeout(&mut *self.congestion, self.una, self.next, in_flight);
        self.timed_out = true;
        self.rtt.back_off();
        self.arm_rto(now);
        true
    }

    fn is_given_up(&self, now: Instant) -> bool {
        let waited = now.since(self.waits_since);
        self.retries > self.profile.retries || self.profile.user_timeout.is_some_and(|limit| waited >= limit)
    }

    /// Nothing is in flight and the next segment does not fit the peer's window.
    pub(super) fn arm_persist(&mut self, now: Instant) {
        if self.scoreboard.is_empty() && self.timer.is_none() {
            self.timer = Some(Timer { at: now + self.rto(), due: Due::WindowProbe });
        }
    }

    /// A closed window alone never ends a connection (RFC 9293 §3.8.6.1): answers reset `retries`.
    fn on_window_timeout(&mut self, now: Instant) -> bool {
        self.retries += 1;
        if self.is_given_up(now) {
            return false;
        }
        self.rtt.back_off();
        self.forced = Some(Forced::Window);
        self.counts.window_probes += 1;
        self.timer = Some(Timer { at: now + self.rto(), due: Due::WindowProbe });
        true
    }
}

/// Two ticks of Linux's usual 1000 Hz (`TCP_TIMEOUT_MIN`).
const TIMER_MARGIN: Duration = Duration::from_millis(2);
