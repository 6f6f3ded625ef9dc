//! Whether the peer is still there: a Sync asks it, when nothing comes back.
//!
//! A peer answers with a SyncAck; one that has been started again, with a Reset that ends the connection within a round
//! trip. Congestion control does not hold Syncs back, so that a restart is noticed while it waits.

use std::time::Duration;

use antiphon_core::{CloseReason, Instant};

use super::endpoint::{DccpEndpoint, State};
use super::wire::ResetCode;
use crate::patience::GONE;

/// What is known of the peer's silence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alive {
    /// When the last valid packet was received.
    pub heard: Instant,
    /// The first data packet since then, which should cause an answer.
    expects_since: Option<Instant>,
    /// The last Sync since then that asked.
    asked: Option<Instant>,
    /// The first of them.
    silent_since: Option<Instant>,
}

impl Alive {
    /// A valid packet was received.
    pub fn on_heard(&mut self, now: Instant) {
        *self = Alive { heard: now, ..Alive::default() };
    }

    /// Data was sent.
    pub fn on_data(&mut self, now: Instant) {
        self.expects_since.get_or_insert(now);
    }

    fn asks_at(&self, patience: Duration) -> Instant {
        let (heard, expects) = (self.heard + KEEPALIVE, self.expects_since.map(|since| since + patience));
        let first = expects.map_or(heard, |at| at.min(heard));
        self.asked.map_or(first, |asked| asked + patience)
    }
}

impl DccpEndpoint {
    /// Asks the peer if it is time to, and ends the connection with one that has not answered for long.
    pub(super) fn run_alive(&mut self, now: Instant) {
        if self.next_question().is_none_or(|at| now < at) {
            return;
        }
        let alive = &mut self.alive;
        let since = *alive.silent_since.get_or_insert(now);
        if now.since(since) >= GONE {
            return self.reset(now, ResetCode::ABORTED, [0; 3], CloseReason::TimedOut);
        }
        alive.asked = Some(now);
        self.due.sync = Some(self.sequence.gsr);
    }

    /// When [`Self::run_alive`] has something to do.
    pub(super) fn next_question(&self) -> Option<Instant> {
        let patience = (2 * self.rtt.timeout()).clamp(SHORTEST, LONGEST);
        (self.state == State::Open).then(|| self.alive.asks_at(patience))
    }
}

/// Without data there is nothing to be answered: a question keeps a translator's entry alive (RFC 4787 REQ-5 asks for two
/// minutes at least, many keep 30 s), and is SCTP's usual heartbeat here.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// A restart is noticed after that: half of the second in which sound should be back.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(3);
