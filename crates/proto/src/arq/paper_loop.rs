//! The loop of the report's sender, for experiments that repeat its figures.
//!
//! One turn: retransmit what is due; if at least `pace` has passed since the last new packet, send the next and
//! *discard the excess time*, so that the stream runs slow; then wait at most `tick` for **one** acknowledgement. With
//! `turn` and `repetition`, the work of a turn and of each repetition takes time, in which acknowledgements accumulate:
//! the report's was an interpreted program.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use crate::queue::{LEAN_PLACES, MAX_FRAMES};

/// Settings of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LoopSettings {
    /// Longest wait for an acknowledgement: 1 ms as published.
    pub tick: Duration,
    /// Minimum time between new packets: 7.4 ms as published; `None`: one packet each turn, so that the caller sets the
    /// pace.
    pub pace: Option<Duration>,
    /// Time that the work of a turn takes: not published; zero by default.
    pub turn: Duration,
    /// Time that the work of each repetition takes beside that: not published; zero by default.
    pub repetition: Duration,
}

/// State of the loop.
#[derive(Debug)]
pub(super) struct PaperLoop {
    settings: LoopSettings,
    phase: Phase,
    /// In the socket, not yet read.
    unread: VecDeque<u64>,
    last_new: Option<Instant>,
    may_send: bool,
    /// Until then it works on a repetition.
    busy_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing to send and nothing in flight. The published program ends there; here it sleeps.
    Resting,
    /// Working until `from`, then waiting for an acknowledgement until `until`.
    Reading { from: Instant, until: Instant },
}

impl PaperLoop {
    pub fn new(settings: LoopSettings) -> Self {
        let unread = VecDeque::with_capacity(LEAN_PLACES);
        PaperLoop {
            settings,
            phase: Phase::Resting,
            unread,
            last_new: None,
            may_send: false,
            busy_until: None,
        }
    }

    /// Makes room for so many acknowledgements in the socket.
    pub fn reserve(&mut self, acks: usize) {
        self.unread.reserve_exact(acks.min(MAX_FRAMES).saturating_sub(self.unread.len()));
    }

    /// An acknowledgement is in the socket. Beyond the socket's limit it is lost, as in a kernel.
    pub fn handle_ack(&mut self, number: u64) {
        if self.unread.len() < MAX_FRAMES {
            self.unread.push_back(number);
        }
    }

    /// There is something to send: an idle loop takes a turn at once.
    pub fn wake(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Resting) {
            self.phase = Phase::Reading { from: now, until: now };
        }
    }

    /// Nothing is left to do.
    pub fn rest(&mut self) {
        self.phase = Phase::Resting;
        self.unread.clear();
        self.may_send = false;
        self.busy_until = None;
    }

    /// Until when the work of a repetition keeps it from sending anything else.
    pub fn busy_until(&self) -> Option<Instant> {
        self.busy_until
    }

    /// Forgets work that is done by `now`.
    pub fn end_work(&mut self, now: Instant) {
        self.busy_until = self.busy_until.filter(|until| *until > now);
    }

    /// A repetition goes out.
    pub fn on_repeated(&mut self, now: Instant) {
        let work = self.settings.repetition;
        self.busy_until = (!work.is_zero()).then(|| now + work);
    }

    /// Whether the next turn has begun by `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// When the next turn begins.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Resting => None,
            Phase::Reading { from, .. } if !self.unread.is_empty() => Some(from),
            Phase::Reading { until, .. } => Some(until),
        }
    }

    /// Step 4 of the turn before: the one acknowledgement that it reads.
    pub fn read_ack(&mut self, now: Instant) -> Option<u64> {
        match self.phase {
            Phase::Reading { from, .. } if from <= now => self.unread.pop_front(),
            _ => None,
        }
    }

    /// Steps 1 and 3 of a turn that begins at `now` and repeats so many packets.
    pub fn turn(&mut self, now: Instant, something_waits: bool, repeated: u32) {
        let elapsed =
            self.settings.pace.zip(self.last_new).is_none_or(|(pace, last)| now.since(last) >= pace);
        if elapsed && something_waits && !self.may_send {
            self.may_send = true;
            self.last_new = Some(now);
        }
        let from = now + self.settings.turn + self.settings.repetition * repeated;
        self.phase = Phase::Reading { from, until: from + self.settings.tick };
    }

    /// Whether this turn sends a new packet.
    pub fn may_send(&self) -> bool {
        self.may_send
    }

    /// It has sent one.
    pub fn on_sent(&mut self) {
        self.may_send = false;
    }
}
