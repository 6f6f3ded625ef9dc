//! What this side sends: messages cut into chunks, each followed until the peer has it or it is given up.
//!
//! A message becomes a message when its first byte is about to go out (late binding), and gets its numbers then. It is
//! never cut to fit a small window: what fits a packet of the path goes as one chunk. Messages and chunks live in places that are
//! used again, so that a stream in order allocates nothing.

mod acks;
mod departures;
mod give_up;

use std::collections::VecDeque;

use antiphon_core::{Instant, Seq32, Tag};

use super::settings::Reliability;
use crate::queue::MAX_FRAMES;

pub(super) use acks::{Acked, Violation};
pub(super) use departures::Departure;
pub(super) use give_up::MOST_SKIPPED;

/// How messages of an association go out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub ordered: bool,
    pub reliability: Reliability,
    pub streams: u16,
    /// Both sides agreed on I-DATA (RFC 8260).
    pub interleaved: bool,
    /// The peer understands that something is given up (RFC 3758).
    pub may_give_up: bool,
}

/// Messages on their way.
#[derive(Debug)]
pub(super) struct Outgoing {
    rules: Rules,
    messages: Vec<Message>,
    free: Vec<u32>,
    kept_bytes: usize,
    /// Begun, and not all of it cut.
    cutting: Vec<u32>,
    turn: usize,
    /// The next SSN or MID of each stream, ordered and unordered.
    numbers: Vec<[u32; 2]>,
    /// From the first TSN that is not acknowledged cumulatively to the last sent.
    sent: VecDeque<Sent>,
    next_tsn: Seq32,
    /// Payload bytes on their way, by any path.
    flight: usize,
    /// Chunks that are to be sent again.
    lost: usize,
    /// Chunks acknowledged by gap blocks.
    ahead: usize,
    /// What the peer still takes.
    peer_window: usize,
    /// When something may have to be given up.
    check_at: Option<Instant>,
    retransmitted: u64,
    /// Something was given up that the peer is to be told of.
    gave_up: bool,
}

#[derive(Debug)]
struct Message {
    tag: Tag,
    bytes: Vec<u8>,
    deadline: Option<Instant>,
    stream: u16,
    number: u32,
    /// Its first chunk.
    first: Seq32,
    /// Bytes that are in chunks.
    cut: usize,
    /// Chunks it was cut into so far.
    fragments: u32,
    /// Those of them that are in `sent`.
    chunks: u32,
    /// Those of them that the peer has not.
    unacked: u32,
    given_up: bool,
    told: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    message: u32,
    offset: u32,
    /// How many chunks of its message stand before it.
    fragment: u32,
    len: u16,
    tries: u16,
    /// SACKs that told of later chunks and not of this one (RFC 9260 §7.2.4).
    misses: u8,
    path: u8,
    /// Bytes of the packet that it last went in, to its own end: of the last chunk, the packet's.
    packet: u16,
    state: ChunkState,
    at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChunkState {
    Flying,
    /// To be sent again.
    Lost,
    /// The peer has it, beyond a gap.
    Acked,
    GivenUp,
}

impl Sent {
    /// What is left of a message from `offset` on.
    fn rest(offset: usize, now: Instant) -> Sent {
        let (message, fragment, len, tries, misses, path, packet) = (0, 0, 0, 1, 0, 0, 0);
        let (offset, state) = (offset as u32, ChunkState::Flying);
        Sent { message, offset, fragment, len, tries, misses, path, packet, state, at: now }
    }
}

impl Outgoing {
    pub fn new(rules: Rules, first: Seq32, peer_window: u32) -> Self {
        Outgoing {
            rules,
            messages: Vec::with_capacity(READY),
            free: Vec::with_capacity(READY),
            kept_bytes: 0,
            cutting: Vec::with_capacity(4),
            turn: 0,
            numbers: Vec::with_capacity(4),
            sent: VecDeque::with_capacity(2 * READY),
            next_tsn: first,
            flight: 0,
            lost: 0,
            ahead: 0,
            peer_window: peer_window as usize,
            check_at: None,
            retransmitted: 0,
            gave_up: false,
        }
    }

    /// Makes room for `messages` on their way, each with its chunk and a number that ends it.
    pub fn reserve(&mut self, messages: usize) {
        let messages = messages.min(MAX_FRAMES);
        self.messages.reserve_exact(messages.saturating_sub(self.messages.len()));
        self.free.reserve_exact(messages.saturating_sub(self.free.len()));
        self.sent.reserve_exact((2 * messages).saturating_sub(self.sent.len()));
    }

    /// Payload bytes on their way.
    pub fn flight(&self) -> usize {
        self.flight
    }

    /// The peer's window as far as is known, less what is on its way.
    pub fn peer_window(&self) -> usize {
        self.peer_window
    }

    /// Chunks sent again so far.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// The last TSN that is acknowledged cumulatively.
    pub fn cumulative(&self) -> Seq32 {
        Seq32(self.first_tsn().0.wrapping_sub(1))
    }

    /// Whether every message is told of, and the peer knows of all that was given up.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.cutting.is_empty()
    }

    /// Whether something waits to be sent again.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether a message is begun and not all of it sent.
    pub fn is_cutting(&self) -> bool {
        !self.cutting.is_empty()
    }

    /// Whether something was given up since this was last asked.
    pub fn takes_news_of_giving_up(&mut self) -> bool {
        std::mem::take(&mut self.gave_up)
    }

    /// When [`Self::expire`] has something to look at.
    pub fn next_check(&self) -> Option<Instant> {
        self.check_at
    }

    fn first_tsn(&self) -> Seq32 {
        Seq32(self.next_tsn.0.wrapping_sub(self.sent.len() as u32))
    }
}

/// Places made at the start: what a stream of messages every 5 ms has on its way over the longest path, in some 10 kB.
const READY: usize = 64;
/// More misses than are counted: a chunk that was sent again is found lost by its time-out only.
const NEVER_AGAIN: u8 = u8::MAX;

#[cfg(test)]
mod tests;
