//! Missing packets, and the fate of every recent packet.

use antiphon_core::Instant;

use super::sender::MAX_KEPT;

/// A packet that is expected and has not arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub id: u64,
    /// When it was expected to arrive.
    pub due: Instant,
    /// When it was found missing.
    pub found_at: Instant,
    pub asked: u32,
    pub priority: u8,
    pub state: Awaiting,
    /// No later packet has arrived: it may not have been sent yet.
    pub suspected: bool,
}

/// What a missing packet waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaiting {
    /// Proof that it was sent at all: only the clock suggests it, so it is not worth a request.
    Proof,
    /// A decision at this instant.
    Decision(Instant),
    /// The next request, which will contain it.
    Request,
    /// The answer to the request of this time (sent, microseconds), until this instant.
    Answer { sent: Instant, until: Instant },
}

/// The fate of each of the last [`WINDOW`] ids.
pub(super) struct Window {
    fates: Vec<Fate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Before the first id received.
    Unknown,
    Missing,
    Received,
    GivenUp,
}

impl Window {
    pub fn new() -> Self {
        Window { fates: vec![Fate::Unknown; WINDOW as usize] }
    }

    pub fn fate(&self, id: u64) -> Fate {
        self.fates[(id % WINDOW) as usize]
    }

    pub fn set(&mut self, id: u64, fate: Fate) {
        self.fates[(id % WINDOW) as usize] = fate;
    }

    pub fn clear(&mut self) {
        self.fates.fill(Fate::Unknown);
    }
}

/// Ids whose fate is kept: the longest gap, plus four times that before the gap, so that no copy of a packet is
/// delivered twice.
pub(super) const WINDOW: u64 = 2048;
/// The longest gap that is repaired: over a second of 5 ms blocks. A longer one is an outage, after which the stream
/// restarts.
pub(super) const MAX_GAP: u64 = 256;
/// The longest gap where nothing is given up: all that a sender keeps.
pub(super) const MAX_FULL_GAP: u64 = MAX_KEPT as u64;
/// Packets that may be missing at once.
pub(super) const MAX_MISSING: usize = 512;
