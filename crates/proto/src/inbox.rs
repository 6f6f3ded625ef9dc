//! Received messages that wait for the application.

use std::collections::VecDeque;

use antiphon_core::{Instant, PathId, Received, StreamId};

use crate::pool::Pool;
use crate::queue::{MAX_BYTES, MAX_FRAMES, Room};

/// Received messages that wait for the application.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: VecDeque<Waiting>,
    spare: Pool,
    bytes: usize,
    delivered: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Waiting {
    received: Received,
    bytes: Vec<u8>,
    /// 0: as urgent as can be.
    sort: u16,
}

impl Inbox {
    /// An inbox with `room` for messages of `typical` bytes.
    pub fn new(room: Room, typical: usize) -> Self {
        let mut inbox = Inbox::empty();
        inbox.make_room(room, typical);
        inbox
    }

    /// The same bounds, but without reserved memory, like [`SendQueue::empty`](crate::queue::SendQueue::empty).
    pub fn empty() -> Self {
        Inbox { messages: VecDeque::new(), spare: Pool::new(MAX_FRAMES), bytes: 0, delivered: 0, dropped: 0 }
    }

    /// Reserves at least `room`.
    pub fn make_room(&mut self, room: Room, typical: usize) {
        self.messages.reserve_exact(room.places.saturating_sub(self.messages.len()));
        self.spare.fill(room.places, room.buffers, typical);
    }

    /// Keeps a message, made of up to two parts, until it is fetched; when full, drops and counts it.
    pub fn push(&mut self, head: &[u8], tail: &[u8], path: PathId, received_at: Instant) {
        let (len, stream, repaired) = (head.len() + tail.len(), StreamId(0), false);
        self.keep([head, tail], Received { len, path, stream, received_at, repaired });
    }

    /// As [`Self::push`], for a message in one part; `repaired`: it had to be sent more than once.
    pub fn push_repaired(&mut self, bytes: &[u8], path: PathId, received_at: Instant, repaired: bool) {
        let (len, stream) = (bytes.len(), StreamId(0));
        self.keep([bytes, &[]], Received { len, path, stream, received_at, repaired });
    }

    /// As [`Self::push`], for a message in one part with all its properties.
    pub fn push_received(&mut self, bytes: &[u8], received: Received) {
        self.keep([bytes, &[]], received);
    }

    fn keep(&mut self, parts: [&[u8]; 2], received: Received) {
        self.push_joined(parts.into_iter(), received, 0);
    }

    /// As [`Self::push`], for a message in any number of parts, before waiting ones that are less urgent: those with a
    /// greater `sort`.
    pub fn push_joined<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>, received: Received, sort: u16) {
        if !self.has_room(received.len) {
            self.dropped += 1;
            return;
        }
        let mut bytes = self.spare.take();
        parts.for_each(|part| bytes.extend_from_slice(part));
        self.bytes += bytes.len();
        let mut at = self.messages.len();
        while at > 0 && self.messages[at - 1].sort > sort {
            at -= 1;
        }
        self.messages.insert(at, Waiting { received, bytes, sort });
    }

    /// Drops and counts a message that is not to be kept whatever room there is.
    pub fn refuse(&mut self) {
        self.dropped += 1;
    }

    /// Whether a message of `len` bytes would be kept.
    pub fn has_room(&self, len: usize) -> bool {
        self.messages.len() < MAX_FRAMES && len <= MAX_BYTES - self.bytes
    }

    /// The longest message that would be kept; 0 for none.
    pub fn room(&self) -> usize {
        if self.messages.len() < MAX_FRAMES { MAX_BYTES - self.bytes } else { 0 }
    }

    /// Copies the oldest message into `buf`, which must be large enough.
    pub fn pop(&mut self, buf: &mut [u8]) -> Option<Received> {
        let Waiting { received, bytes, .. } = self.messages.pop_front()?;
        assert!(buf.len() >= bytes.len(), "poll_message was lent less than Profile::max_receive");
        buf[..bytes.len()].copy_from_slice(&bytes);
        self.bytes -= bytes.len();
        self.delivered += 1;
        self.spare.give(bytes);
        Some(received)
    }

    /// Whether no message waits to be fetched.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Fill level in bytes of [`MAX_BYTES`], by the bytes or by the number of its messages, whichever is larger.
    pub fn fill(&self) -> usize {
        self.bytes.max(self.messages.len() * (MAX_BYTES / MAX_FRAMES))
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
    }

    /// Messages fetched so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Messages dropped so far because it was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
