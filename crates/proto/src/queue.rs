//! The two queues that every endpoint needs: frames waiting to be sent, and frames waiting to be fetched.
//!
//! Both are bounded in frames and bytes, count what they drop, and reuse their buffers, so that after the first
//! round nothing is allocated.

use std::collections::VecDeque;

use antiphon_core::{Event, Frame, FrameId, Instant, Outcome, PathId, Received, SendError, StreamId};

/// Accepted frames on their way out, with their outcomes.
#[derive(Debug)]
pub(crate) struct SendQueue {
    waiting: VecDeque<Queued>,
    spare: Vec<Vec<u8>>,
    events: VecDeque<Event>,
    next_id: u64,
    queued_bytes: usize,
    blocked: bool,
    expired: u64,
}

/// A frame in the send queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub id: FrameId,
    pub bytes: Vec<u8>,
    pub deadline: Option<Instant>,
    pub priority: u8,
    pub stream: StreamId,
}

impl Queued {
    fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }
}

impl SendQueue {
    /// A queue with room for the frames of a second at the smallest block sizes.
    ///
    /// `typical`: bytes to hold ready per frame.
    pub fn new(typical: usize) -> Self {
        SendQueue {
            waiting: VecDeque::with_capacity(MAX_FRAMES),
            spare: (0..READY).map(|_| Vec::with_capacity(typical)).collect(),
            events: VecDeque::with_capacity(2 * MAX_FRAMES + 8),
            next_id: 0,
            queued_bytes: 0,
            blocked: false,
            expired: 0,
        }
    }

    /// The same bounds, but memory for a few frames only: for servers of many, most of whom never fill a queue.
    /// Allocates while it grows to what a stream takes.
    pub fn lean(typical: usize) -> Self {
        SendQueue {
            waiting: VecDeque::with_capacity(2 * FEW),
            spare: ready(typical),
            events: VecDeque::with_capacity(2 * FEW),
            next_id: 0,
            queued_bytes: 0,
            blocked: false,
            expired: 0,
        }
    }

    /// The same bounds, but memory only as it is needed: for servers of many, most of whom never fill a queue. Allocates
    /// while it grows to what a stream takes.
    pub fn empty() -> Self {
        SendQueue {
            waiting: VecDeque::new(),
            spare: Vec::new(),
            events: VecDeque::new(),
            next_id: 0,
            queued_bytes: 0,
            blocked: false,
            expired: 0,
        }
    }

    /// Accepts `frame` unless it is empty, larger than `max`, or the queue is full.
    pub fn push(&mut self, frame: Frame<'_>, max: usize) -> Result<FrameId, SendError> {
        let len = frame.bytes.len();
        if len == 0 {
            return Err(SendError::Empty);
        }
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        if !self.has_room(len) {
            self.blocked = true;
            return Err(SendError::Blocked { queued: self.waiting.len() });
        }
        let id = FrameId(self.next_id);
        self.next_id += 1;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(frame.bytes);
        self.queued_bytes += len;
        let Frame { deadline, priority, stream, .. } = frame;
        self.waiting.push_back(Queued { id, bytes, deadline, priority, stream });
        Ok(id)
    }

    fn has_room(&self, len: usize) -> bool {
        // A caller who never drains events is blocked, too: they are the one thing here that send alone makes grow.
        self.waiting.len() < MAX_FRAMES
            && self.queued_bytes + len <= MAX_BYTES
            && self.events.len() + self.waiting.len() < 2 * MAX_FRAMES
    }

    /// The next frame whose deadline has not passed; those before it expire.
    pub fn pop(&mut self, now: Instant) -> Option<Queued> {
        while let Some(frame) = self.waiting.pop_front() {
            self.queued_bytes -= frame.bytes.len();
            if !frame.is_expired(now) {
                return Some(frame);
            }
            self.finish(frame, Outcome::Expired { maybe_received: false });
        }
        None
    }

    /// Makes a lean queue what [`Self::new`] gives: for when a stranger has become a peer.
    pub fn make_ready(&mut self, typical: usize) {
        self.waiting.reserve(MAX_FRAMES - self.waiting.len());
        self.events.reserve((2 * MAX_FRAMES + 8).saturating_sub(self.events.len()));
        self.spare.extend((0..READY).map(|_| Vec::with_capacity(typical)));
    }

    /// Makes a lean queue fit for a stream with losses, at a tenth of what [`Self::make_ready`] takes.
    pub fn make_partly_ready(&mut self, typical: usize) {
        self.waiting.reserve(READY);
        self.events.reserve(2 * READY);
        self.spare.extend((0..READY).map(|_| Vec::with_capacity(typical)));
    }

    /// Like [`Self::pop`], the frame that came last; those before it stay until their deadlines.
    pub fn pop_newest(&mut self, now: Instant) -> Option<Queued> {
        while let Some(frame) = self.waiting.pop_back() {
            self.queued_bytes -= frame.bytes.len();
            if !frame.is_expired(now) {
                return Some(frame);
            }
            self.finish(frame, Outcome::Expired { maybe_received: false });
        }
        None
    }

    /// As [`Self::pop`], of the first frame whose stream is `ready`; those of other streams keep their places.
    pub fn pop_ready(&mut self, now: Instant, ready: impl Fn(StreamId) -> bool) -> Option<Queued> {
        let mut at = 0;
        while let Some(frame) = self.waiting.get(at) {
            if !ready(frame.stream) {
                at += 1;
                continue;
            }
            let frame = self.waiting.remove(at)?;
            self.queued_bytes -= frame.bytes.len();
            if !frame.is_expired(now) {
                return Some(frame);
            }
            self.finish(frame, Outcome::Expired { maybe_received: false });
        }
        None
    }

    /// Bytes of the frame that [`Self::pop_ready`] would give; those past their deadline expire.
    pub fn peek_ready(&mut self, now: Instant, ready: impl Fn(StreamId) -> bool) -> Option<usize> {
        loop {
            let at = self.waiting.iter().position(|frame| ready(frame.stream))?;
            let frame = self.waiting.get(at)?;
            if !frame.is_expired(now) {
                return Some(frame.bytes.len());
            }
            let expired = self.waiting.remove(at)?;
            self.queued_bytes -= expired.bytes.len();
            self.finish(expired, Outcome::Expired { maybe_received: false });
        }
    }

    /// Bytes of the frame that [`Self::pop`] would give, or [`Self::pop_newest`]; those past their deadline expire.
    pub fn peek_len(&mut self, now: Instant, newest: bool) -> Option<usize> {
        loop {
            let frame = if newest { self.waiting.back() } else { self.waiting.front() }?;
            if !frame.is_expired(now) {
                return Some(frame.bytes.len());
            }
            let expired = if newest { self.waiting.pop_back() } else { self.waiting.pop_front() }?;
            self.queued_bytes -= expired.bytes.len();
            self.finish(expired, Outcome::Expired { maybe_received: false });
        }
    }

    /// Drops every waiting frame whose deadline has passed.
    pub fn expire(&mut self, now: Instant) {
        // Deadlines nearly always stand in order, so look at the front; a frame behind a later one goes in `pop`.
        while self.waiting.front().is_some_and(|frame| frame.is_expired(now)) {
            if let Some(frame) = self.waiting.pop_front() {
                self.queued_bytes -= frame.bytes.len();
                self.finish(frame, Outcome::Expired { maybe_received: false });
            }
        }
    }

    /// When [`Self::expire`] has something to do: just after the first frame's deadline.
    pub fn next_expiry(&self) -> Option<Instant> {
        let deadline = self.waiting.front()?.deadline?;
        Some(Instant::from_nanos(deadline.as_nanos().saturating_add(1)))
    }

    /// Reports the outcome of a frame and takes its buffer back.
    pub fn finish(&mut self, frame: Queued, outcome: Outcome) {
        self.recycle(frame.bytes);
        self.settle(frame.id, outcome);
    }

    /// Takes the buffer of a popped frame back before its outcome is known.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if self.spare.len() < MAX_FRAMES {
            self.spare.push(bytes);
        }
    }

    /// Reports the outcome of a frame whose buffer is back already.
    pub fn settle(&mut self, id: FrameId, outcome: Outcome) {
        self.expired += u64::from(matches!(outcome, Outcome::Expired { .. }));
        self.events.push_back(Event::Frame { id, outcome });
        if self.blocked && self.has_room(0) {
            self.blocked = false;
            self.events.push_back(Event::Writable);
        }
    }

    /// Ends every waiting frame with `outcome`.
    pub fn finish_all(&mut self, outcome: Outcome) {
        self.blocked = false;
        self.queued_bytes = 0;
        while let Some(frame) = self.waiting.pop_front() {
            self.finish(frame, outcome);
        }
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds an event of the endpoint's own behind the outcomes so far.
    pub fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.blocked && self.has_room(0) {
            self.blocked = false;
            self.events.push_back(Event::Writable);
        }
        event
    }

    /// Frames accepted so far.
    pub fn accepted(&self) -> u64 {
        self.next_id
    }

    /// Frames expired so far.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

/// Received frames that wait for the application.
#[derive(Debug)]
pub(crate) struct Inbox {
    frames: VecDeque<(Received, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    bytes: usize,
    delivered: u64,
    dropped: u64,
}

impl Inbox {
    /// An inbox with `typical` bytes held ready per frame.
    pub fn new(typical: usize) -> Self {
        Inbox {
            frames: VecDeque::with_capacity(MAX_FRAMES),
            spare: (0..READY).map(|_| Vec::with_capacity(typical)).collect(),
            bytes: 0,
            delivered: 0,
            dropped: 0,
        }
    }

    /// The same bounds, but memory for a few frames only, like [`SendQueue::lean`].
    pub fn lean(typical: usize) -> Self {
        let frames = VecDeque::with_capacity(2 * FEW);
        Inbox { frames, spare: ready(typical), bytes: 0, delivered: 0, dropped: 0 }
    }

    /// Keeps a frame of one part with all that is known of it; drops and counts it when there is no room.
    pub fn push_received(&mut self, bytes: &[u8], received: Received) {
        let before = self.frames.len();
        self.push(bytes, &[], received.path, received.received_at);
        if self.frames.len() > before
            && let Some((last, _)) = self.frames.back_mut()
        {
            *last = received;
        }
    }

    /// The same bounds, but memory only as it is needed, like [`SendQueue::empty`].
    pub fn empty() -> Self {
        Inbox { frames: VecDeque::new(), spare: Vec::new(), bytes: 0, delivered: 0, dropped: 0 }
    }

    /// Makes a lean inbox what [`Self::new`] gives.
    pub fn make_ready(&mut self, typical: usize) {
        self.frames.reserve(MAX_FRAMES.saturating_sub(self.frames.len()));
        self.spare.extend((0..READY).map(|_| Vec::with_capacity(typical)));
    }

    /// Makes a lean inbox fit for a stream with losses.
    pub fn make_partly_ready(&mut self, typical: usize) {
        self.frames.reserve(READY);
        self.spare.extend((0..READY).map(|_| Vec::with_capacity(typical)));
    }

    /// Keeps a frame, made of up to two parts, until it is fetched; drops and counts it when there is no room.
    pub fn push(&mut self, head: &[u8], tail: &[u8], path: PathId, received_at: Instant) {
        self.push_marked([head, tail], path, StreamId(0), received_at, false);
    }

    /// As [`Self::push`], of a frame in one part, with word of whether it had to be sent more than once.
    pub fn push_repaired(&mut self, bytes: &[u8], path: PathId, received_at: Instant, repaired: bool) {
        self.push_marked([bytes, &[]], path, StreamId(0), received_at, repaired);
    }

    fn push_marked(
        &mut self,
        [head, tail]: [&[u8]; 2],
        path: PathId,
        stream: StreamId,
        received_at: Instant,
        repaired: bool,
    ) {
        let len = head.len() + tail.len();
        if self.frames.len() >= MAX_FRAMES || self.bytes + len > MAX_BYTES {
            self.dropped += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(tail);
        self.bytes += len;
        let received = Received { len, path, stream, received_at, repaired };
        self.frames.push_back((received, bytes));
    }

    /// Copies the oldest frame into `buf`, which must be large enough.
    pub fn pop(&mut self, buf: &mut [u8]) -> Option<Received> {
        let (received, mut bytes) = self.frames.pop_front()?;
        assert!(buf.len() >= bytes.len(), "poll_frame was lent less than Profile::max_receive");
        buf[..bytes.len()].copy_from_slice(&bytes);
        self.bytes -= bytes.len();
        self.delivered += 1;
        bytes.clear();
        self.spare.push(bytes);
        Some(received)
    }

    /// Whether nothing waits to be fetched.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// How full it is, as bytes of [`MAX_BYTES`]: by its frames' bytes or by their number.
    pub fn fill(&self) -> usize {
        self.bytes.max(self.frames.len() * (MAX_BYTES / MAX_FRAMES))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    /// Frames fetched so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Frames dropped so far for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Frames a queue holds at most: over a second of 64-frame blocks at 48 kHz.
pub(crate) const MAX_FRAMES: usize = 1024;
/// Bytes a queue holds at most: two seconds of 48 kHz stereo in 32-bit float and some.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Buffers made at the start, so that a stream in order never allocates: the frames of one busy moment.
const READY: usize = 32;
/// Buffers that a lean queue begins with: what a burst of repairs brings at once.
const FEW: usize = 8;

fn ready(typical: usize) -> Vec<Vec<u8>> {
    let mut spare = Vec::with_capacity(2 * FEW);
    spare.extend((0..FEW).map(|_| Vec::with_capacity(typical)));
    spare
}
