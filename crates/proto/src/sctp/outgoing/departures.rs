//! Fills packets: retransmissions first, then new chunks, as far as room and windows allow.

use antiphon_core::{Instant, Seq32};

use super::super::path::Path;
use super::super::wire::chunks::DataHeader;
use super::super::wire::writer::Writer;
use super::{ChunkState, Message, NEVER_AGAIN, Outgoing, Sent};
use crate::queue::{MAX_BYTES, MAX_FRAMES, Queued, SendQueue};

/// A packet being written: when and on which path it is sent, and the messages that wait.
pub struct Departure<'a, 'buf> {
    pub now: Instant,
    pub writer: &'a mut Writer<'buf>,
    /// Index of its path in `paths`.
    pub by: usize,
    pub paths: &'a mut [Path],
    pub queue: &'a mut SendQueue,
}

impl Departure<'_, '_> {
    fn path(&mut self) -> &mut Path {
        &mut self.paths[self.by]
    }

    fn has_window(&self) -> bool {
        let path = &self.paths[self.by];
        path.flight < path.window.cwnd
    }
}

impl Outgoing {
    /// Writes chunks that await retransmission, as far as there is room.
    ///
    /// `burst`: the first packet of a fast retransmission ignores the window (RFC 9260 §7.2.4, step 4).
    pub fn resend(&mut self, packet: &mut Departure<'_, '_>, burst: bool) {
        let now = packet.now;
        let full = packet.writer.room_when_empty();
        let (mut at, mut is_first) = (0, true);
        while self.lost > 0 && at < self.sent.len() {
            if self.sent[at].state != ChunkState::Lost {
                is_first &= self.sent[at].state != ChunkState::Flying;
                at += 1;
                continue;
            }
            if let Some(outcome) = self.is_to_be_given_up(at, now, full) {
                self.give_up(now, (self.sent[at].message, outcome), packet.paths, packet.queue);
                continue;
            }
            if (!packet.has_window() && !burst) || !self.write(at, packet.writer) {
                return;
            }
            self.note_repeated(at, packet);
            let len = usize::from(self.sent[at].len);
            self.lost -= 1;
            self.take_off(now, packet.path(), len);
            // The first chunk in flight: an answer is expected a round trip from now (RFC 9260 §7.2.4, step 4). After a
            // time-out, only an answer restarts the timer.
            if std::mem::take(&mut is_first) && packet.path().errors == 0 {
                packet.path().start_t3(now);
            }
        }
    }

    /// The chunk at `at` was written again.
    fn note_repeated(&mut self, at: usize, packet: &mut Departure<'_, '_>) {
        let sent = &mut self.sent[at];
        // A SACK's blocks don't tell which transmission they answer, so that only time finds it lost again.
        (sent.state, sent.misses, sent.at) = (ChunkState::Flying, NEVER_AGAIN, packet.now);
        (sent.path, sent.tries) = (packet.by as u8, sent.tries.saturating_add(1));
        sent.packet = packet.writer.len() as u16;
        sent.sending = packet.path().rack.on_send();
        self.retransmitted += 1;
        self.check_in_time(at, packet.paths);
    }

    /// Writes the last chunk in flight again, to provoke an answer; returns its TSN. It still counts once in flight.
    pub fn resend_last(&mut self, packet: &mut Departure<'_, '_>) -> Option<Seq32> {
        let is_last = |sent: &Sent| sent.state == ChunkState::Flying && usize::from(sent.path) == packet.by;
        let at = self.sent.iter().rposition(is_last)?;
        let (now, full) = (packet.now, packet.writer.room_when_empty());
        if self.is_to_be_given_up(at, now, full).is_some() || !self.write(at, packet.writer) {
            return None;
        }
        self.note_repeated(at, packet);
        Some(self.first_tsn().plus(at as u32))
    }

    /// Writes new chunks, from messages already begun and from waiting ones. `burst`: a packet that ignores the window.
    pub fn send_new(&mut self, packet: &mut Departure<'_, '_>, burst: bool) {
        self.drop_late(packet.now, packet.paths, packet.queue);
        while self.lost == 0 && (burst || packet.has_window()) && self.sent.len() < MOST_CHUNKS {
            let Some(message) = self.choose(packet) else { return };
            if !self.cut(message, packet) {
                return;
            }
        }
    }

    /// Chooses the message of the next chunk: messages begun take turns with waiting ones.
    fn choose(&mut self, packet: &mut Departure<'_, '_>) -> Option<u32> {
        if self.cutting.is_empty() || (self.rules.interleaved && self.turn >= self.cutting.len()) {
            self.turn = 0;
            if let Some(begun) = self.begin(packet) {
                return Some(begun);
            }
        }
        let at = self.turn % self.cutting.len().max(1);
        self.turn = at + 1;
        self.cutting.get(at).copied()
    }

    /// Takes the next queued message whose stream is free, if it may go into this packet.
    fn begin(&mut self, packet: &mut Departure<'_, '_>) -> Option<u32> {
        let Departure { now, writer, queue, .. } = packet;
        let live = self.messages.len() - self.free.len();
        if live >= MAX_FRAMES || self.kept_bytes >= MAX_BYTES {
            return None;
        }
        let (messages, cutting, streams) = (&self.messages, &self.cutting, self.rules.streams);
        let is_free = |stream: u16| !cutting.iter().any(|m| messages[*m as usize].stream == stream % streams);
        let len = queue.peek_ready(*now, |stream| is_free(stream.0))?;
        let full = writer.room_when_empty() - DataHeader::len(self.rules.interleaved);
        if !self.may_fly(len.min(full))
            || !fits(len, full, (writer.room() + full).saturating_sub(writer.room_when_empty()))
        {
            return None;
        }
        let message = queue.pop_ready(*now, |stream| is_free(stream.0))?;
        Some(self.enter(message))
    }

    fn enter(&mut self, message: Queued) -> u32 {
        self.kept_bytes += message.bytes.len();
        let message = Message {
            tag: message.tag,
            bytes: message.bytes,
            deadline: message.deadline,
            stream: message.stream.0 % self.rules.streams,
            number: 0,
            first: self.next_tsn,
            cut: 0,
            fragments: 0,
            chunks: 0,
            unacked: 0,
            given_up: false,
            told: false,
        };
        // Adds a place when all are taken.
        let place = self.free.pop().unwrap_or(self.messages.len() as u32);
        match self.messages.get_mut(place as usize) {
            Some(old) => *old = message,
            None => self.messages.push(message),
        }
        self.cutting.push(place);
        place
    }

    /// Whether the peer's window has room for `len` bytes; when it is full, one chunk probes it (RFC 9260 §6.1, rule
    /// A).
    fn may_fly(&self, len: usize) -> bool {
        self.peer_window >= len || self.flight == 0
    }

    /// Cuts the next chunk of a message into the packet; returns `false` when it must wait.
    fn cut(&mut self, place: u32, packet: &mut Departure<'_, '_>) -> bool {
        let (now, interleaved) = (packet.now, self.rules.interleaved);
        let writer = &mut *packet.writer;
        let message = &self.messages[place as usize];
        let left = message.bytes.len() - message.cut;
        let room = writer.room().saturating_sub(DataHeader::len(interleaved));
        // The last part of a message may be short; other parts fill the packet, if the rest is worth a chunk.
        let len = left.min(room);
        if len == 0 || (len < left && room < writer.room_when_empty() / 4) || !self.may_fly(len) {
            return false;
        }
        if message.cut == 0 {
            self.number(place);
        }
        let message = &mut self.messages[place as usize];
        let (fragment, path) = (message.fragments, packet.by as u8);
        let sending = packet.paths[packet.by].rack.on_send();
        let sent = Sent {
            message: place,
            offset: message.cut as u32,
            fragment,
            len: len as u16,
            tries: 1,
            timed: true,
            path,
            at: now,
            sending,
            ..Sent::default()
        };
        message.cut += len;
        message.fragments += 1;
        message.chunks += 1;
        message.unacked += 1;
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
        self.check_in_time(self.sent.len() - 1, packet.paths);
        self.take_off(now, packet.path(), len);
        true
    }

    /// Assigns a message its SSN or MID, with its first chunk.
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

    /// Writes the chunk at `at` of `sent`; returns `false` when there is no room.
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
            // RTP has no registered payload protocol identifier (RFC 9260 §15.6): 0 is "unspecified".
            ppid: 0,
            unordered: !self.rules.ordered,
            begin: offset == 0,
            end: offset + len == message.bytes.len(),
            immediate: false,
        };
        writer.data(&header, &message.bytes[offset..offset + len])
    }

    /// Accounts for a chunk that is sent.
    fn take_off(&mut self, now: Instant, path: &mut Path, len: usize) {
        path.window.on_send(now, path.rtt.base_rto());
        path.flight += len;
        self.flight += len;
        self.peer_window = self.peer_window.saturating_sub(len);
        if path.t3.is_none() {
            path.start_t3(now);
        }
    }
}

/// Whether a message of `len` bytes may begin in a packet with room for `room` of its bytes; an empty packet holds
/// `full`. A message that fits a packet is sent in one piece; longer ones begin where the piece is worth it.
fn fits(len: usize, full: usize, room: usize) -> bool {
    if len <= full { len <= room } else { room >= full / 2 }
}

/// Chunks kept at most, including those acknowledged beyond gaps; gap blocks count to 65535.
const MOST_CHUNKS: usize = 4096;
