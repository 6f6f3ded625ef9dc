//! Messages to send: cut into chunks, each tracked until the peer acknowledges it or it is given up.
//!
//! A message is cut and numbered only when its first byte is about to be sent (late binding). It is never cut to fit a
//! small window: a message that fits a packet of the path is sent as one chunk. Places of messages and chunks are
//! reused, so that an undisturbed stream allocates nothing.

mod acks;
mod departures;
mod give_up;
mod losses;

use std::collections::VecDeque;

use antiphon_core::{Instant, Seq32, Tag};

use super::path::Path;
use super::settings::Reliability;
use crate::queue::MAX_FRAMES;

pub(super) use acks::{Acked, Violation};
pub(super) use departures::Departure;
pub(super) use give_up::MOST_SKIPPED;
pub(super) use losses::Losses;

/// Delivery rules for the messages of an association.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub ordered: bool,
    pub reliability: Reliability,
    pub streams: u16,
    /// Both sides agreed on I-DATA (RFC 8260).
    pub interleaved: bool,
    /// The peer supports giving up messages (RFC 3758).
    pub may_give_up: bool,
}

/// Messages that are being sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub rules: Rules,
    messages: Vec<Message>,
    free: Vec<u32>,
    kept_bytes: usize,
    /// Messages that are only partly cut into chunks.
    pub cutting: Vec<u32>,
    turn: usize,
    /// The next SSN or MID of each stream, for ordered and unordered messages.
    numbers: Vec<[u32; 2]>,
    /// From the first TSN that is not cumulatively acknowledged to the last one sent.
    sent: VecDeque<Sent>,
    next_tsn: Seq32,
    /// Payload bytes in flight, on all paths.
    pub flight: usize,
    /// Chunks that await retransmission.
    pub lost: usize,
    /// Chunks acknowledged by gap blocks.
    pub ahead: usize,
    /// The peer's window as last reported, less the bytes in flight.
    pub peer_window: usize,
    /// When messages may have to be given up, by [`Self::expire`].
    pub check_at: Option<Instant>,
    /// Chunks retransmitted so far.
    pub retransmitted: u64,
    /// Something was given up that the peer must be told about, with a FORWARD TSN.
    pub forward_due: bool,
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
    /// Bytes already cut into chunks.
    cut: usize,
    /// Chunks cut so far.
    fragments: u32,
    /// Of these chunks, those still in `sent`.
    chunks: u32,
    /// Of these chunks, those not acknowledged.
    unacked: u32,
    given_up: bool,
    told: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    message: u32,
    offset: u32,
    /// Index of the fragment within its message.
    fragment: u32,
    len: u16,
    tries: u16,
    /// SACKs that acknowledged later chunks and not this one (RFC 9260 §7.2.4).
    misses: u8,
    /// Whether its acknowledgement gives a round trip: not after it was reneged on.
    timed: bool,
    path: u8,
    /// Length of the packet that it was last sent in, up to the end of this chunk; for the last chunk, the whole
    /// packet.
    packet: u16,
    state: ChunkState,
    at: Instant,
    /// Its last transmission, among those of its path.
    sending: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ChunkState {
    #[default]
    Flying,
    /// Awaits retransmission.
    Lost,
    /// Acknowledged beyond a gap.
    Acked,
    GivenUp,
}

impl Outgoing {
    pub fn new(rules: Rules, first: Seq32, peer_window: u32) -> Self {
        Outgoing {
            rules,
            messages: Vec::with_capacity(READY),
            free: Vec::with_capacity(READY),
            cutting: Vec::with_capacity(4),
            numbers: Vec::with_capacity(4),
            sent: VecDeque::with_capacity(2 * READY),
            next_tsn: first,
            peer_window: peer_window as usize,
            ..Outgoing::default()
        }
    }

    /// Reserves memory for `messages` in flight, each with its chunk and a number that ends it.
    pub fn reserve(&mut self, messages: usize) {
        let messages = messages.min(MAX_FRAMES);
        self.messages.reserve_exact(messages.saturating_sub(self.messages.len()));
        self.free.reserve_exact(messages.saturating_sub(self.free.len()));
        self.sent.reserve_exact((2 * messages).saturating_sub(self.sent.len()));
    }

    /// The last TSN that is cumulatively acknowledged.
    pub fn cumulative(&self) -> Seq32 {
        Seq32(self.first_tsn().0.wrapping_sub(1))
    }

    /// Whether every message has its outcome, and the peer knows of all that were given up.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.cutting.is_empty()
    }

    /// Changes the state of a chunk, and with it what is in flight, lost, or acknowledged beyond a gap.
    fn set_state(&mut self, at: usize, state: ChunkState, paths: &mut [Path]) {
        let sent = &mut self.sent[at];
        let (len, path) = (usize::from(sent.len), &mut paths[usize::from(sent.path)]);
        match std::mem::replace(&mut sent.state, state) {
            ChunkState::Flying => {
                path.flight -= len;
                self.flight -= len;
            }
            ChunkState::Lost => self.lost -= 1,
            ChunkState::Acked => self.ahead -= 1,
            ChunkState::GivenUp => {}
        }
        match state {
            ChunkState::Flying => {
                path.flight += len;
                self.flight += len;
            }
            ChunkState::Lost => self.lost += 1,
            ChunkState::Acked => self.ahead += 1,
            ChunkState::GivenUp => {}
        }
    }

    fn first_tsn(&self) -> Seq32 {
        Seq32(self.next_tsn.0.wrapping_sub(self.sent.len() as u32))
    }
}

/// Places reserved at the start: in flight on the longest path with a message every 5 ms, in some 10 kB.
const READY: usize = 64;
/// Disables miss counting (RFC 9260 §7.2.4): only time finds a retransmitted chunk lost again.
const NEVER_AGAIN: u8 = u8::MAX;

#[cfg(test)]
mod tests;
