//! What this side sends: messages cut into chunks, each followed until the peer has it or it is given up.
//!
//! A frame becomes a message when its first byte is about to go out (late binding), and gets its numbers then. It is
//! never cut to fit a small window: what fits a packet of the path goes as one chunk. Messages and chunks live in places that are
//! used again, so that a stream in order allocates nothing.

mod acks;
mod give_up;

use std::collections::VecDeque;

use antiphon_core::{FrameId, Instant, Outcome, Seq32};

use super::path::Path;
use super::settings::Reliability;
use super::wire::chunks::DataHeader;
use super::wire::writer::Writer;
use crate::queue::{MAX_BYTES, MAX_FRAMES, Queued, SendQueue};

pub(super) use acks::{Acked, Violation};
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
    id: FrameId,
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

    /// Writes chunks that are to be sent again into a packet for the path at `by`, as far as there is room.
    ///
    /// `burst`: the first packet of a fast retransmission asks no window (RFC 9260 §7.2.4, step 4).
    pub fn resend(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        (by, paths): (usize, &mut [Path]),
        queue: &mut SendQueue,
        burst: bool,
    ) {
        let half_way = paths[by].rtt.srtt().unwrap_or_default() / 2;
        let mut at = 0;
        while self.lost > 0 && at < self.sent.len() {
            if self.sent[at].state != ChunkState::Lost {
                at += 1;
                continue;
            }
            if let Some(outcome) = self.is_to_be_given_up(at, now, half_way) {
                self.give_up(now, (self.sent[at].message, outcome), paths, queue);
                continue;
            }
            let len = usize::from(self.sent[at].len);
            if self.rules.may_give_up
                && DataHeader::len(self.rules.interleaved) + len > writer.room_when_empty()
            {
                // The path takes less than when this was cut, and what has a TSN is not cut again (RFC 9260 §6.9).
                self.give_up(now, (self.sent[at].message, Outcome::RetriesExhausted), paths, queue);
                continue;
            }
            let path = &mut paths[by];
            if (path.flight >= path.window.cwnd && !burst) || !self.write(at, writer) {
                return;
            }
            let sent = &mut self.sent[at];
            // It has been fast retransmitted or timed out: only a time-out may find it lost again.
            (sent.state, sent.misses, sent.at) = (ChunkState::Flying, NEVER_AGAIN, now);
            (sent.path, sent.tries) = (by as u8, sent.tries.saturating_add(1));
            sent.packet = writer.len() as u16;
            self.lost -= 1;
            self.retransmitted += 1;
            self.take_off(now, path, len);
        }
    }

    /// Writes new chunks into a packet for the path at `by`: of messages begun, and of frames that wait.
    pub fn send_new(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        (by, paths): (usize, &mut [Path]),
        queue: &mut SendQueue,
    ) {
        self.drop_late(now, paths, queue);
        while self.lost == 0 && paths[by].flight < paths[by].window.cwnd && self.sent.len() < MOST_CHUNKS {
            let Some(message) = self.choose(now, writer, queue) else { return };
            if !self.cut(now, message, writer, (by, &mut *paths)) {
                return;
            }
        }
    }

    /// The message whose next chunk goes out: those begun take turns with those that wait.
    fn choose(&mut self, now: Instant, writer: &Writer<'_>, queue: &mut SendQueue) -> Option<u32> {
        if self.cutting.is_empty() || (self.rules.interleaved && self.turn >= self.cutting.len()) {
            self.turn = 0;
            if let Some(begun) = self.begin(now, writer, queue) {
                return Some(begun);
            }
        }
        let at = self.turn % self.cutting.len().max(1);
        self.turn = at + 1;
        self.cutting.get(at).copied()
    }

    /// Takes the next frame of the queue whose stream is free, if it may go into this packet.
    fn begin(&mut self, now: Instant, writer: &Writer<'_>, queue: &mut SendQueue) -> Option<u32> {
        let live = self.messages.len() - self.free.len();
        if live >= MAX_FRAMES || self.kept_bytes >= MAX_BYTES {
            return None;
        }
        let (messages, cutting, streams) = (&self.messages, &self.cutting, self.rules.streams);
        let is_free = |stream: u16| !cutting.iter().any(|m| messages[*m as usize].stream == stream % streams);
        let len = queue.peek_ready(now, |stream| is_free(stream.0))?;
        let full = writer.room_when_empty() - DataHeader::len(self.rules.interleaved);
        if !self.may_fly(len.min(full))
            || !fits(len, full, (writer.room() + full).saturating_sub(writer.room_when_empty()))
        {
            return None;
        }
        let frame = queue.pop_ready(now, |stream| is_free(stream.0))?;
        Some(self.enter(frame))
    }

    fn enter(&mut self, frame: Queued) -> u32 {
        self.kept_bytes += frame.bytes.len();
        let message = Message {
            id: frame.id,
            bytes: frame.bytes,
            deadline: frame.deadline,
            stream: frame.stream.0 % self.rules.streams,
            number: 0,
            first: self.next_tsn,
            cut: 0,
            fragments: 0,
            chunks: 0,
            unacked: 0,
            given_up: false,
            told: false,
        };
        let place = self.free.pop().unwrap_or(self.messages.len() as u32);
        match self.messages.get_mut(place as usize) {
            Some(old) => *old = message,
            None => self.messages.push(message),
        }
        self.cutting.push(place);
        place
    }

    /// Whether the peer has room for so much; when it has none, one chunk asks again (RFC 9260 §6.1, rule A).
    fn may_fly(&self, len: usize) -> bool {
        self.peer_window >= len || self.flight == 0
    }

    /// Cuts the next chunk of a message into the packet; `false` when it must wait.
    fn cut(
        &mut self,
        now: Instant,
        place: u32,
        writer: &mut Writer<'_>,
        (by, paths): (usize, &mut [Path]),
    ) -> bool {
        let interleaved = self.rules.interleaved;
        let message = &self.messages[place as usize];
        let left = message.bytes.len() - message.cut;
        let room = writer.room().saturating_sub(DataHeader::len(interleaved));
        // The last part of a message may be short, others fill what is left of a packet, if that is worth a chunk.
        let len = if left <= room { left } else { room };
        if len == 0 || (len < left && room < writer.room_when_empty() / 4) || !self.may_fly(len) {
            return false;
        }
        if message.cut == 0 {
            self.number(place);
        }
        let message = &mut self.messages[place as usize];
        let (fragment, path) = (message.fragments, by as u8);
        let sent = Sent { message: place, fragment, len: len as u16, path, ..Sent::rest(message.cut, now) };
        message.cut += len;
        message.fragments += 1;
        message.chunks += 1;
        message.unacked += 1;
        let due = message.deadline.map(|deadline| deadline.max(now + paths[by].rtt.patience()));
        if message.cut == message.bytes.len() {
            self.cutting.retain(|other| *other != place);
        }
        self.sent.push_back(sent);
        self.next_tsn = self.next_tsn.next();
        let written = self.write(self.sent.len() - 1, writer);
        assert!(written, "a chunk is cut to the room there is");
        if let Some(sent) = self.sent.back_mut() {
            sent.packet = writer.len() as u16;
        }
        if let Some(due) = due.filter(|_| self.rules.reliability == Reliability::Deadline) {
            self.check_at = Some(self.check_at.map_or(due, |at| at.min(due)));
        }
        self.take_off(now, &mut paths[by], len);
        true
    }

    /// Gives a message its SSN or MID, with its first chunk.
    fn number(&mut self, place: u32) {
        let message = &mut self.messages[place as usize];
        let stream = usize::from(message.stream);
        if self.numbers.len() <= stream {
            self.numbers.resize(stream + 1, [0; 2]);
        }
        message.first = self.next_tsn;
        let unordered = !self.rules.ordered;
        if self.rules.ordered || self.rules.interleaved {
            let next = &mut self.numbers[stream][usize::from(unordered)];
            message.number = *next;
            *next = next.wrapping_add(1);
        }
    }

    /// Writes the chunk at `at` of `sent`; `false` when there is no room.
    fn write(&self, at: usize, writer: &mut Writer<'_>) -> bool {
        let sent = &self.sent[at];
        let message = &self.messages[sent.message as usize];
        let (offset, len) = (sent.offset as usize, usize::from(sent.len));
        let tsn = self.first_tsn().plus(at as u32);
        let header = DataHeader {
            interleaved: self.rules.interleaved,
            tsn,
            stream: message.stream,
            number: message.number,
            fragment: sent.fragment,
            // No registered payload protocol is RTP (RFC 9260 §15.6): 0 is "unspecified".
            ppid: 0,
            unordered: !self.rules.ordered,
            begin: offset == 0,
            end: offset + len == message.bytes.len(),
            immediate: false,
        };
        writer.data(&header, &message.bytes[offset..offset + len])
    }

    /// Accounts for a chunk that goes out.
    fn take_off(&mut self, now: Instant, path: &mut Path, len: usize) {
        path.window.on_send(now, path.rtt.patience());
        path.flight += len;
        self.flight += len;
        self.peer_window = self.peer_window.saturating_sub(len);
        if path.t3.is_none() {
            path.start_t3(now);
        }
    }
}

/// Whether a message of `len` bytes may begin where there is room for `room` of its bytes, in a packet that takes `full`
/// when it is empty: one that fits a packet goes in one piece, others where the piece is worth it.
fn fits(len: usize, full: usize, room: usize) -> bool {
    if len <= full { len <= room } else { room >= full / 2 }
}

/// Places made at the start: what a stream of frames every 5 ms has on its way over the longest path, in some 10 kB.
const READY: usize = 64;
/// More misses than are counted: a chunk that was sent again is found lost by its time-out only.
const NEVER_AGAIN: u8 = u8::MAX;
/// Chunks kept at most, acknowledged beyond gaps or not; gap blocks count to 65535.
const MOST_CHUNKS: usize = 4096;

#[cfg(test)]
mod tests;
