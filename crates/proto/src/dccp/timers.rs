//! Time-outs: repetitions, and states that have lasted too long.

use std::time::Duration;

use antiphon_core::{BrokenReason, CloseReason, Event, Instant, Outcome, Role, soonest};

use super::endpoint::{DccpEndpoint, State};
use super::settings::RFC_REQUEST_TIMEOUT;
use super::wire::ResetCode;
use crate::patience::{LEAVE, LONGEST_PAUSE, UNANSWERED, leave_by};

/// Timers of the connection itself; congestion control and feature negotiation have their own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    /// When Request, Ack (PARTOPEN), Close or CloseReq goes out again, and how long it waits then.
    pub again: Option<Instant>,
    pub wait: Duration,
    /// The longest such wait.
    longest: Duration,
    /// When the application is told that nobody answers the call.
    tell_at: Option<Instant>,
    /// When this state has lasted too long.
    pub give_up: Option<Instant>,
    /// Since when a graceful close waits for the queue to empty.
    pub flush_since: Option<Instant>,
    pub finish_at: Option<Instant>,
    /// When the latest Request went out.
    pub stepped_at: Option<Instant>,
    /// Whether a Close answers the peer's CloseReq.
    pub closed_by_peer: bool,
}

impl Timers {
    pub fn start_calling(&mut self, now: Instant, wait: Duration) {
        self.start(now, wait, CALLING);
        // One who asks for RFC 4340's first wait gets its others, too; a live sender is there soon after its receiver.
        self.tell_at = Some(now + UNANSWERED);
        self.longest = if wait < RFC_REQUEST_TIMEOUT { LONGEST_PAUSE } else { LONGEST_WAIT };
    }

    /// A state began whose packet is repeated after `wait`, then twice that, until `patience` has passed.
    pub fn start(&mut self, now: Instant, wait: Duration, patience: Duration) {
        (self.again, self.wait, self.give_up) = (None, wait, Some(now + patience));
        (self.longest, self.tell_at) = (LONGEST_WAIT, None);
    }

    /// The state's packet was sent.
    pub fn on_step(&mut self, now: Instant) {
        self.stepped_at = Some(now);
        self.again = Some(now + self.wait);
        self.wait = (2 * self.wait).min(self.longest);
    }

    pub fn stop(&mut self) {
        (self.again, self.give_up) = (None, None);
    }
}

impl DccpEndpoint {
    pub(super) fn run_timers(&mut self, now: Instant) {
        if !matches!(self.state, State::Finishing(_) | State::Closed) {
            self.run_timers_of_state(now);
        }
        // One that has just been given up, without telling the peer, ends at once.
        if let State::Finishing(_) = self.state
            && self.timers.finish_at.is_none_or(|at| at <= now)
        {
            self.finish();
        }
    }

    fn run_timers_of_state(&mut self, now: Instant) {
        self.queue.expire(now);
        if self.timers.again.is_some_and(|at| at <= now) {
            self.timers.again = None;
            if self.timers.tell_at.take_if(|tell_at| *tell_at <= now).is_some() {
                self.queue.report(Event::Broken(BrokenReason::Unreachable));
            }
            match self.state {
                State::PartOpen => self.due.ack = true,
                _ => self.due.step = true,
            }
        }
        if let Some(flow) = &mut self.flow {
            self.congestion_changed |= flow.sender.handle_timeout(now, &mut flow.sent);
        }
        self.run_sizes(now);
        self.run_alive(now);
        if self.timers.give_up.is_some_and(|at| at <= now) {
            self.give_up(now);
        } else if self.flush_is_over(now) {
            self.timers.flush_since = None;
            self.queue.finish_all(Outcome::Aborted);
            self.reset(now, ResetCode::ABORTED, [0; 3], CloseReason::Local);
        } else {
            self.close_when_flushed(now);
        }
    }

    fn flush_is_over(&self, now: Instant) -> bool {
        let flushing = matches!(self.state, State::Request | State::PartOpen | State::Open);
        flushing && self.flush_until().is_some_and(|until| until <= now)
    }

    fn flush_until(&self) -> Option<Instant> {
        let since = self.timers.flush_since?.max(self.alive.heard);
        Some(leave_by(since, self.queue.last_deadline(), FLUSH))
    }

    fn give_up(&mut self, now: Instant) {
        self.timers.give_up = None;
        match self.state {
            State::Closing | State::CloseReq => self.end(now, CloseReason::Local),
            State::PartOpen => self.reset(now, ResetCode::ABORTED, [0; 3], CloseReason::TimedOut),
            _ => self.end(now, CloseReason::TimedOut),
        }
    }

    /// A graceful close that has nothing left to send ends the connection: the server asks its client to, so that the
    /// client keeps the state that outlives a connection (RFC 4340 §8.3).
    pub(super) fn close_when_flushed(&mut self, now: Instant) {
        if self.timers.flush_since.is_none() || !self.queue.is_empty() || !self.is_open() {
            return;
        }
        let server = self.role == Role::Listener;
        self.state = if server { State::CloseReq } else { State::Closing };
        self.timers.start(now, self.close_wait(), self.closing_patience());
        self.due.step = true;
    }

    /// How long a Close is repeated: at least four times.
    pub(super) fn closing_patience(&self) -> Duration {
        LEAVE.max(8 * self.close_wait())
    }

    /// Two round trips (RFC 4340 §8.3).
    pub(super) fn close_wait(&self) -> Duration {
        (2 * self.rtt.estimate()).max(SHORTEST_CLOSE_WAIT)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Closed => return None,
            State::Finishing(_) => return self.timers.finish_at,
            _ => {}
        }
        let ahead = |at: &Instant| *at > self.clock;
        let flush = self.flush_until().filter(|_| !matches!(self.state, State::Closing | State::CloseReq));
        let own = soonest([self.queue.next_expiry(), self.timers.again, self.timers.give_up, flush]);
        let Some(flow) = &self.flow else { return own };
        let has_to_send = !self.queue.is_empty() && self.is_open();
        let departure = if has_to_send { flow.sender.next_departure() } else { None };
        // What is due already waits for `poll_transmit`, not for a time-out.
        let open = [flow.receiver.poll_timeout(), departure, self.features.poll_timeout()];
        let open = soonest(open.map(|timeout| timeout.filter(ahead)));
        soonest([own, open, flow.sender.poll_timeout(), self.next_size(), self.next_question()])
    }
}

/// RFC 4340 §8.1.1: doubled up to 64 s, given up after about three minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
const CALLING: Duration = Duration::from_secs(180);
/// RFC 4340 §8.1.5: the client's Ack goes out again after 200 ms, and so on for four maximum segment lifetimes, 8 min.
pub(super) const PARTOPEN_WAIT: Duration = Duration::from_millis(200);
pub(super) const PARTOPEN: Duration = Duration::from_secs(480);
/// A graceful close waits for messages without a deadline this long after the peer was last heard.
const FLUSH: Duration = Duration::from_secs(20);
/// On loopback two round trips are less than a thread's wake-up.
const SHORTEST_CLOSE_WAIT: Duration = Duration::from_millis(20);
