//! Messages that wait to be sent, their outcomes, and the memory reserved for them and for received messages
//! ([`Inbox`](crate::inbox::Inbox)).
//!
//! Both queues are bounded in messages and bytes, count what they drop, and reuse their buffers: nothing is allocated
//! while the number of waiting messages stays within the [`Room`] or its earlier maximum.

use std::collections::VecDeque;

use antiphon_core::{Event, Instant, Message, Outcome, SendError, StreamId, Tag};

use crate::events::Events;
use crate::pool::Pool;

/// Accepted messages to send, with their outcomes.
#[derive(Debug)]
pub(crate) struct SendQueue {
    waiting: VecDeque<Queued>,
    spare: Pool,
    events: Events,
    accepted: u64,
    queued_bytes: usize,
    /// Messages that may wait.
    most: usize,
    /// Bytes and priority of the message that found no room.
    blocked: Option<(usize, u8)>,
    expired: u64,
}

/// A message in the send queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub tag: Tag,
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
    /// A queue with `room` for messages of `typical` bytes.
    pub fn new(room: Room, typical: usize) -> Self {
        let mut queue = SendQueue::empty();
        queue.make_room(room, typical);
        queue
    }

    /// The same bounds, but without reserved memory: for servers of many peers, most of which never fill a queue.
    /// Allocates while it grows to a stream's needs.
    pub fn empty() -> Self {
        SendQueue {
            waiting: VecDeque::new(),
            spare: Pool::new(MAX_FRAMES),
            events: Events::default(),
            accepted: 0,
            queued_bytes: 0,
            most: MAX_FRAMES,
            blocked: None,
            expired: 0,
        }
    }

    /// The same, in which no more than `most` messages wait; a further one is refused.
    pub fn shorter(self, most: usize) -> Self {
        SendQueue { most: most.min(self.most), ..self }
    }

    /// Reserves at least `room`.
    pub fn make_room(&mut self, room: Room, typical: usize) {
        self.waiting.reserve_exact(room.places.saturating_sub(self.waiting.len()));
        self.events.reserve(2 * room.places);
        self.spare.fill(room.places, room.buffers, typical);
    }

    /// Accepts `message` unless it is empty, larger than `max`, or the queue is full. It waits before those that are less
    /// urgent.
    pub fn push(&mut self, message: Message<'_>, max: usize) -> Result<(), SendError> {
        let len = message.bytes.len();
        if len == 0 {
            return Err(SendError::Empty);
        }
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        if !self.has_room(len, message.priority) {
            self.blocked = Some((len, message.priority));
            return Err(SendError::Blocked { queued: self.waiting.len() });
        }
        self.accepted += 1;
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(message.bytes);
        self.queued_bytes += len;
        let Message { tag, deadline, priority, stream, .. } = message;
        let behind = self.waiting.iter().rposition(|waiting| waiting.priority <= priority);
        let at = behind.map_or(0, |behind| behind + 1);
        self.waiting.insert(at, Queued { tag, bytes, deadline, priority, stream });
        Ok(())
    }

    fn has_room(&self, len: usize, priority: u8) -> bool {
        // What is less urgent leaves half of the room to what is more urgent, and the least urgent half of the rest.
        let share = match priority {
            0 => 1,
            1 => 2,
            _ => 4,
        };
        // A caller that never drains events is blocked as well: otherwise sending alone would make them grow without
        // bound.
        self.waiting.len() < self.most / share
            && self.queued_bytes + len <= MAX_BYTES / share
            && self.events.len() + self.waiting.len() < 2 * MAX_FRAMES
    }

    /// The next message whose deadline has not passed; those before it expire.
    pub fn pop(&mut self, now: Instant) -> Option<Queued> {
        let at = self.find_in_time(now, first)?;
        self.remove(at)
    }

    /// As [`Self::pop`], for the message accepted last; earlier ones stay until their deadlines.
    pub fn pop_newest(&mut self, now: Instant) -> Option<Queued> {
        let at = self.find_in_time(now, last)?;
        self.remove(at)
    }

    /// As [`Self::pop`], for the first message whose stream is `ready`; those of other streams keep their places.
    pub fn pop_ready(&mut self, now: Instant, ready: impl Fn(StreamId) -> bool) -> Option<Queued> {
        let at = self.find_in_time(now, |waiting| first_ready(waiting, &ready))?;
        self.remove(at)
    }

    /// Length of the message that [`Self::pop_ready`] would return; those past their deadline expire.
    pub fn peek_ready(&mut self, now: Instant, ready: impl Fn(StreamId) -> bool) -> Option<usize> {
        let at = self.find_in_time(now, |waiting| first_ready(waiting, &ready))?;
        Some(self.waiting[at].bytes.len())
    }

    /// The message that [`Self::pop`] would return; those before it expire.
    pub fn peek(&mut self, now: Instant) -> Option<&Queued> {
        let at = self.find_in_time(now, first)?;
        self.waiting.get(at)
    }

    /// Length of the message that [`Self::pop`] or [`Self::pop_newest`] would return; those past their deadline expire.
    pub fn peek_len(&mut self, now: Instant, newest: bool) -> Option<usize> {
        let at = self.find_in_time(now, if newest { last } else { first })?;
        Some(self.waiting[at].bytes.len())
    }

    /// The most urgent message, the first of several; those past their deadline expire.
    pub fn pop_urgent(&mut self, now: Instant) -> Option<Queued> {
        let at = self.find_in_time(now, most_urgent)?;
        self.remove(at)
    }

    /// Length of the message that [`Self::pop_urgent`] would return.
    pub fn peek_urgent(&mut self, now: Instant) -> Option<usize> {
        let at = self.find_in_time(now, most_urgent)?;
        Some(self.waiting[at].bytes.len())
    }

    /// Drops every waiting message whose deadline has passed.
    pub fn expire(&mut self, now: Instant) {
        // Deadlines are nearly always in order, so only the front is checked; a message behind a later one expires in
        // `pop`.
        let _the_first_in_time_stays = self.find_in_time(now, first);
    }

    /// Position of the message that `find` selects; those whose deadlines have passed expire first.
    fn find_in_time(
        &mut self,
        now: Instant,
        find: impl Fn(&VecDeque<Queued>) -> Option<usize>,
    ) -> Option<usize> {
        loop {
            let at = find(&self.waiting)?;
            if !self.waiting[at].is_expired(now) {
                return Some(at);
            }
            let expired = self.remove(at)?;
            self.finish(expired, Outcome::Expired { maybe_received: false });
        }
    }

    fn remove(&mut self, at: usize) -> Option<Queued> {
        let message = self.waiting.remove(at)?;
        self.queued_bytes -= message.bytes.len();
        Some(message)
    }

    /// The latest deadline of a waiting message; `None`: nothing waits.
    pub fn last_deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.deadline.unwrap_or(Instant::from_nanos(u64::MAX))).max()
    }

    /// When [`Self::expire`] must be called: just after the first message's deadline.
    pub fn next_expiry(&self) -> Option<Instant> {
        let deadline = self.waiting.front()?.deadline?;
        Some(Instant::from_nanos(deadline.as_nanos().saturating_add(1)))
    }

    /// Reports the outcome of a message and takes its buffer back.
    pub fn finish(&mut self, message: Queued, outcome: Outcome) {
        self.recycle(message.bytes);
        self.settle(message.tag, outcome);
    }

    /// Takes the buffer of a popped message back before its outcome is known.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.give(bytes);
    }

    /// Reports the outcome of a message whose buffer was taken back before.
    pub fn settle(&mut self, tag: Tag, outcome: Outcome) {
        self.expired += u64::from(matches!(outcome, Outcome::Expired { .. }));
        self.events.settle(tag, outcome);
        self.tell_of_room();
    }

    /// Ends every waiting message with `outcome`.
    pub fn finish_all(&mut self, outcome: Outcome) {
        self.blocked = None;
        self.queued_bytes = 0;
        while let Some(message) = self.waiting.pop_front() {
            self.finish(message, outcome);
        }
    }

    /// Ends every waiting message longer than `most` bytes with `outcome`.
    pub fn finish_larger(&mut self, most: usize, outcome: Outcome) {
        let mut at = 0;
        while let Some(message) = self.waiting.get(at) {
            if message.bytes.len() <= most {
                at += 1;
            } else if let Some(message) = self.remove(at) {
                self.finish(message, outcome);
            }
        }
    }

    /// Whether no message waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds an event of the endpoint after the outcomes so far.
    pub fn report(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop();
        self.tell_of_room();
        event
    }

    fn tell_of_room(&mut self) {
        // Room for less than that would be told again and again.
        if self.blocked.is_some_and(|(len, priority)| self.has_room(len, priority)) {
            self.blocked = None;
            self.events.push(Event::Writable);
        }
    }

    /// Messages accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Messages expired so far.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

fn first(waiting: &VecDeque<Queued>) -> Option<usize> {
    (!waiting.is_empty()).then_some(0)
}

fn last(waiting: &VecDeque<Queued>) -> Option<usize> {
    waiting.len().checked_sub(1)
}

fn most_urgent(waiting: &VecDeque<Queued>) -> Option<usize> {
    let (at, _) = waiting.iter().enumerate().min_by_key(|(_, message)| message.priority)?;
    Some(at)
}

fn first_ready(waiting: &VecDeque<Queued>, ready: impl Fn(StreamId) -> bool) -> Option<usize> {
    waiting.iter().position(|message| ready(message.stream))
}

/// Memory reserved for waiting messages; beyond it, memory is allocated once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Messages with a reserved place.
    pub places: usize,
    /// Messages with a reserved buffer.
    pub buffers: usize,
}

impl Room {
    /// For one endpoint among many, most of which never fill a queue.
    pub const LEAN: Room = Room { places: LEAN_PLACES, buffers: FEW };
    /// The same where messages keep their buffers until acknowledged: buffers for those in flight as well.
    pub const LEAN_UNTIL_ACKED: Room = Room { buffers: FEW + UNACKED, ..Room::LEAN };
    /// For an endpoint whose peer is proved: enough for a stream with losses.
    pub const PROVED: Room = Room { buffers: FEW + READY, ..Room::LEAN };
    /// All places.
    pub const FULL: Room = Room { places: MAX_FRAMES, buffers: READY };

    /// For `messages` that wait at the same time.
    pub fn of(messages: usize) -> Self {
        let messages = messages.min(MAX_FRAMES);
        Room { places: messages, buffers: messages }
    }
}

/// Messages a queue holds at most: over a second of 64-message blocks at 48 kHz.
pub(crate) const MAX_FRAMES: usize = 1024;
/// Bytes a queue holds at most: somewhat more than two seconds of 48 kHz stereo in 32-bit float.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Buffers made at the start, so that an undisturbed stream never allocates: the most messages of one moment.
const READY: usize = 32;
/// Buffers of a lean queue at the start: for a burst of retransmissions, or 40 ms of 256-frame blocks at 48 kHz.
const FEW: usize = 8;
/// Further buffers for messages in flight: a round trip of 25 ms in blocks of 5 ms, and as many lost ones again.
const UNACKED: usize = 8;
/// Places of a lean queue: a sixth of a second of such blocks. A server of one stream reserves more.
pub(crate) const LEAN_PLACES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_messages_overtake_others_and_find_room() {
        let mut queue = SendQueue::empty().shorter(6);
        let (now, message) =
            (Instant::ZERO, |tag, priority| Message { priority, ..Message::new(Tag(tag), &[1], None) });
        for tag in 0..3 {
            queue.push(message(tag, 1), 1).expect("room");
        }
        assert!(matches!(queue.push(message(3, 1), 1), Err(SendError::Blocked { .. })));
        for tag in 10..13 {
            queue.push(message(tag, 0), 1).expect("room for what is urgent");
        }
        assert!(matches!(queue.push(message(13, 0), 1), Err(SendError::Blocked { .. })));
        let left = std::iter::from_fn(|| queue.pop(now)).map(|message| message.tag.0);
        assert_eq!(left.collect::<Vec<_>>(), [10, 11, 12, 0, 1, 2]);
        queue.push(message(20, 2), 1).expect("a quarter of the room");
        assert!(matches!(queue.push(message(21, 2), 1), Err(SendError::Blocked { .. })));
        queue.push(message(22, 1), 1).expect("more for what is more urgent");
    }

    #[test]
    fn too_large_messages_leave_the_queue_and_others_keep_order() {
        let mut queue = SendQueue::empty();
        let now = Instant::ZERO;
        for (tag, len) in [30, 10, 31, 20, 40].into_iter().enumerate() {
            queue.push(Message::new(Tag(tag as u64), &[7; 40][..len], None), 40).expect("room");
        }
        queue.finish_larger(30, Outcome::Aborted);
        let left = std::iter::from_fn(|| queue.pop(now)).map(|message| (message.tag.0, message.bytes.len()));
        assert_eq!(left.collect::<Vec<_>>(), [(0, 30), (1, 10), (3, 20)]);
        let told: Vec<Event> = std::iter::from_fn(|| queue.poll_event()).collect();
        let aborted = |tag| Event::Outcome { tag: Tag(tag), outcome: Outcome::Aborted };
        assert_eq!(told, [aborted(2), aborted(4)]);
    }
}
