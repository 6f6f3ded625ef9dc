//! Medusa's framing over any transport: the packets are cut into blocks without regard to packet boundaries.
//!
//! [`Framed`] is an endpoint around an endpoint. Each frame becomes a packet of [`antiphon_media::medusa`] in a ring of
//! bytes; when the driver asks for something to send, the ring's content is cut into blocks, each of which is a message
//! of the transport beneath. The far end may have the same layer around its endpoint, or return the blocks unread, as
//! the paper's loopback program does.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    CloseMode, Endpoint, Event, Instant, Layer, Message, Outcome, PathStats, Profile, Received, SendError,
    StreamId, Tag, Transmit, Wire,
};
use antiphon_media::medusa::{BLOCK, Cutter, HEADER, Header, MAX_CHANNELS, MAX_DATA, Resynchroniser};

use crate::peer::rank;

/// How blocks go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Bytes of a full block; transports that carry less get smaller ones.
    pub block: usize,
    /// On a byte stream: hand over one block at a time, like a program whose write blocks, and give the block up when
    /// it could not be begun for this long (`SO_SNDTIMEO`). `None`: all at once, with the frames' deadlines.
    pub send_timeout: Option<Duration>,
    /// Give a block up that the transport refuses, like a program that does not look at what its write returns; otherwise
    /// it waits in the ring.
    pub gives_up_refused: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Framing { block: BLOCK, send_timeout: None, gives_up_refused: false }
    }
}

/// An endpoint that carries frames in Medusa's framing over another; a frame's stream number is its channel.
pub struct Framed {
    inner: Box<dyn Endpoint>,
    framing: Framing,
    cutter: Cutter,
    seqs: [u32; MAX_CHANNELS as usize],
    /// Frames without an outcome, in the order of their places in the stream of bytes.
    frames: VecDeque<Pending>,
    /// Blocks without an outcome, in the order of their numbers.
    blocks: VecDeque<Block>,
    next_block: u64,
    accepted: u64,
    events: VecDeque<Event>,
    resync: Resynchroniser,
    block: Vec<u8>,
    /// The last message from the transport beneath, of which `taken..len` is still to be searched.
    held: Vec<u8>,
    taken: usize,
    received: Option<Received>,
    /// Bytes skipped before that message came; and how many messages held no part of a packet.
    skipped: u64,
    foreign: u64,
    delivered: u64,
    /// A frame was refused, so that room must be reported.
    blocked: bool,
    /// Frames were taken since the last hand-over; they may make a block.
    taken_new: bool,
    /// No frame is taken any more; and whether the transport beneath has been told.
    closing: bool,
    told: bool,
    closed: bool,
}

/// A frame whose bytes are `start..end` of the stream.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: Tag,
    start: u64,
    end: u64,
    deadline: Option<Instant>,
    /// Bytes whose blocks have no outcome yet.
    open: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its tag beneath.
    number: u64,
    start: u64,
    end: u64,
    open: bool,
}

impl Framed {
    /// A framing around `inner`.
    pub fn new(inner: Box<dyn Endpoint>, framing: Framing) -> Self {
        let profile = inner.profile();
        let block = framing.block.clamp(1, profile.max_message.max(1));
        Framed {
            framing: Framing { block, ..framing },
            cutter: Cutter::new(RING),
            seqs: [1; MAX_CHANNELS as usize],
            frames: VecDeque::with_capacity(MOST_FRAMES),
            blocks: VecDeque::with_capacity(MOST_FRAMES),
            next_block: 0,
            accepted: 0,
            events: VecDeque::with_capacity(MOST_FRAMES),
            resync: Resynchroniser::new(),
            block: vec![0; block],
            held: vec![0; profile.max_receive],
            taken: 0,
            received: None,
            skipped: 0,
            foreign: 0,
            delivered: 0,
            blocked: false,
            taken_new: false,
            closing: false,
            told: false,
            closed: false,
            inner,
        }
    }

    /// The next packet: as [`Endpoint::poll_message`], with its header.
    pub fn poll_packet(&mut self, buf: &mut [u8]) -> Option<(Header, Received)> {
        while !self.closed {
            if let (Some(last), Some(header)) = (self.received, self.resync.poll(buf)) {
                self.delivered += 1;
                let stream = StreamId(header.channel.into());
                return Some((header, Received { len: header.size as usize, stream, ..last }));
            }
            let len = self.received.map_or(0, |last| last.len);
            if self.taken < len {
                self.taken += self.resync.push(&self.held[self.taken..len]);
                continue;
            }
            let came = self.inner.poll_message(&mut self.held)?;
            let skipped = self.resync.counters().skipped;
            self.foreign += u64::from(len > 0 && skipped - self.skipped >= len as u64);
            (self.received, self.taken, self.skipped) = (Some(came), 0, skipped);
        }
        None
    }

    /// The send time-out if blocks are handed over one at a time.
    fn waits(&self) -> Option<Duration> {
        self.framing.send_timeout.filter(|_| self.inner.profile().wire == Wire::ByteStream)
    }

    /// Whether the ring holds something that the transport beneath may take.
    fn can_hand_over(&self) -> bool {
        let turn =
            if self.waits().is_some() { self.blocks.is_empty() } else { self.blocks.len() < MOST_FRAMES };
        turn && !self.cutter.is_empty()
    }

    /// Hands over the ring's content, as far as the transport takes it.
    fn flush(&mut self, now: Instant) {
        self.taken_new = false;
        while self.can_hand_over() {
            let start = self.cutter.position();
            let end = start + self.cutter.len().min(self.framing.block) as u64;
            let deadline = match self.waits() {
                Some(wait) => Some(now + wait),
                None => self.overlapping(start, end).filter_map(|frame| frame.deadline).min(),
            };
            // Peeked before it is removed, since it stays in the ring when the transport has no room.
            let len = self.cutter.peek(&mut self.block);
            let number = self.next_block;
            match self.inner.send(now, Message::new(Tag(number), &self.block[..len], deadline)) {
                Ok(()) => {
                    self.cutter.skip(len);
                    self.next_block += 1;
                    self.blocks.push_back(Block { number, start, end, open: true });
                }
                Err(SendError::Blocked { .. }) if !self.framing.gives_up_refused => break,
                Err(refused) => {
                    let blocked = matches!(refused, SendError::Blocked { .. });
                    self.cutter.skip(len);
                    self.settle(start, end, if blocked { GIVEN_UP } else { Outcome::Aborted });
                }
            }
            self.collect();
        }
        if self.closing && !self.told && self.cutter.is_empty() {
            self.told = true;
            self.inner.close(now, CloseMode::Graceful);
            self.collect();
        }
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Pending> {
        let from = self.frames.partition_point(|frame| frame.end <= start);
        self.frames.range(from..).take_while(move |frame| frame.start < end)
    }

    /// Takes the transport's events: outcomes of blocks become outcomes of frames.
    fn collect(&mut self) {
        while self.events.len() < MOST_FRAMES {
            let Some(event) = self.inner.poll_event() else { return };
            match event {
                Event::Outcome { tag: Tag(number), outcome } => {
                    let at = self.blocks.partition_point(|block| block.number < number);
                    if let Some(block) = self.blocks.get_mut(at).filter(|block| block.number == number) {
                        block.open = false;
                        let (start, end) = (block.start, block.end);
                        self.settle(start, end, outcome);
                    }
                    while self.blocks.front().is_some_and(|block| !block.open) {
                        self.blocks.pop_front();
                    }
                }
                Event::Closed(_) => {
                    self.drop_all();
                    self.closed = true;
                    self.events.push_back(event);
                }
                // Frames are refused by this layer, so this layer also reports room for them.
                Event::Writable => {}
                other => self.events.push_back(other),
            }
        }
    }

    /// A part of the stream has an outcome; a frame in several parts has the worst of their outcomes.
    fn settle(&mut self, start: u64, end: u64, outcome: Outcome) {
        let from = self.frames.partition_point(|frame| frame.end <= start);
        for frame in self.frames.range_mut(from..).take_while(|frame| frame.start < end) {
            frame.open = frame.open.saturating_sub(end.min(frame.end) - start.max(frame.start));
            if rank(outcome) > rank(frame.outcome) {
                frame.outcome = outcome;
            }
        }
        // In order: a frame whose block is acknowledged early waits for those before it, a round trip at most.
        while let Some(frame) = self.frames.pop_front_if(|frame| frame.open == 0) {
            self.events.push_back(Event::Outcome { tag: frame.tag, outcome: frame.outcome });
        }
        if self.blocked && self.has_room(MAX_DATA) {
            self.blocked = false;
            self.events.push_back(Event::Writable);
        }
    }

    fn drop_all(&mut self) {
        self.cutter.clear();
        self.blocks.clear();
        while let Some(frame) = self.frames.pop_front() {
            self.events.push_back(Event::Outcome { tag: frame.tag, outcome: Outcome::Aborted });
        }
    }

    fn has_room(&self, len: usize) -> bool {
        self.cutter.len() + HEADER + len <= RING && self.frames.len() + self.events.len() < MOST_FRAMES / 2
    }
}

impl Layer for Framed {
    fn inner(&self) -> &dyn Endpoint {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.inner
    }

    fn on_profile(&self, inner: Profile) -> Profile {
        Profile {
            max_message: MAX_DATA,
            max_receive: MAX_DATA,
            message_overhead: inner.message_overhead + HEADER,
            // All channels share one sequence of bytes.
            streams: 1,
            ..inner
        }
    }

    fn on_send(&mut self, now: Instant, frame: Message<'_>) -> Result<(), SendError> {
        let len = frame.bytes.len();
        match len {
            _ if self.closing || self.closed => return Err(SendError::Closed),
            0 => return Err(SendError::Empty),
            len if len > MAX_DATA => return Err(SendError::TooLarge { len, max: MAX_DATA }),
            _ => {}
        }
        let channel = (frame.stream.0 % u16::from(MAX_CHANNELS)) as u8;
        let seq = &mut self.seqs[usize::from(channel)];
        let header = Header { channel, seq: *seq, timestamp: now.as_nanos() / 1000, size: len as u32 };
        // Numbers also count frames that find no room, so that the far end notices they are missing.
        *seq = seq.wrapping_add(1);
        let start = self.cutter.written();
        if !self.has_room(len) || self.cutter.push(header, frame.bytes).is_err() {
            self.blocked = true;
            return Err(SendError::Blocked { queued: self.frames.len() });
        }
        let end = self.cutter.written();
        self.accepted += 1;
        self.taken_new = true;
        let Message { tag, deadline, .. } = frame;
        let (open, outcome) = (end - start, Outcome::Acked);
        self.frames.push_back(Pending { tag, start, end, deadline, open, outcome });
        Ok(())
    }

    fn on_close(&mut self, now: Instant, mode: CloseMode) {
        if self.closed {
            return;
        }
        self.closing = true;
        match mode {
            CloseMode::Graceful => self.flush(now),
            CloseMode::Abort => {
                self.told = true;
                self.inner.close(now, mode);
                self.collect();
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.collect();
        // The next block's time begins when the last one's ends.
        self.flush(now);
    }

    fn on_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.collect();
        self.flush(now);
        let sent = self.inner.poll_transmit(now, buf);
        self.collect();
        sent
    }

    fn next_timeout(&self) -> Option<Instant> {
        // A full byte stream asks for nothing to send, yet the time that a block may wait begins.
        let stream = self.inner.profile().wire == Wire::ByteStream;
        if stream && self.taken_new && self.can_hand_over() {
            return Some(Instant::ZERO);
        }
        self.inner.poll_timeout()
    }

    fn on_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.poll_packet(buf).map(|(_, received)| received)
    }

    fn on_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.collect();
        }
        self.events.pop_front()
    }

    /// Frames are counted in this layer, everything else beneath; a message that held no part of a packet is malformed.
    fn on_stats(&self, mut stats: PathStats) -> PathStats {
        stats.counters.messages_accepted = self.accepted;
        stats.counters.messages_delivered = self.delivered;
        stats.counters.malformed += self.foreign;
        stats
    }
}

/// Bytes of the ring: 0.7 s of a channel of the paper.
const RING: usize = 64 * 1024;
/// The outcome of a block that the transport refused and that was not tried again.
const GIVEN_UP: Outcome = Outcome::Expired { maybe_received: false };
/// Frames, blocks and events that are kept.
const MOST_FRAMES: usize = 4096;

#[cfg(test)]
mod tests;
