//! A participant around a bare endpoint, for tests of transports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use antiphon_core::{
    CloseMode, ConnectionId, Counters, Endpoint, Event, Input, Instant, Message, OneWire, Outcome, PathId,
    Received, SendError, Tag, Transmit, Wire, sooner,
};

use crate::talk::{Talk, message, number_of};

/// A message that came.
#[derive(Clone, PartialEq, Debug)]
pub struct Came {
    /// When it was fetched.
    pub at: Instant,
    /// What the endpoint says of it.
    pub received: Received,
    /// Its bytes, or the first of them ([`Party::keeping`]).
    pub bytes: Vec<u8>,
}

impl Came {
    /// The number of a message made by [`message`].
    pub fn number(&self) -> u64 {
        number_of(&self.bytes).into()
    }
}

/// When a message was handed over, and when it came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossing {
    /// Its number.
    pub number: u64,
    /// When the sender's endpoint accepted it.
    pub sent: Instant,
    /// When the receiver fetched it.
    pub came: Instant,
}

impl Crossing {
    /// From one to the other.
    pub fn age(&self) -> std::time::Duration {
        self.came.since(self.sent)
    }
}

/// An endpoint with what it is to send and all that came out of it. Of everything that comes out it asserts what holds for every
/// transport at any time: one outcome for each tag given, nothing after `Closed`, `Writable` after `Blocked` and only then,
/// time-outs that are spent, ids that end with the association.
///
/// Messages are numbered in the order of acceptance, from 0; those of a [`Talk`] by its own count.
pub struct Party<E: Endpoint + ?Sized = dyn Endpoint> {
    /// The endpoint.
    pub endpoint: Box<E>,
    /// Messages to send.
    pub talk: Option<Talk>,
    keep: usize,
    /// When each message was accepted.
    pub accepted: BTreeMap<u64, Instant>,
    /// Why messages of the talk were refused.
    pub refused: Vec<SendError>,
    /// Received messages.
    pub messages: Vec<Came>,
    /// Of each message.
    pub outcomes: BTreeMap<u64, Outcome>,
    /// When each outcome was reported.
    pub told_at: BTreeMap<u64, Instant>,
    /// Other events.
    pub events: Vec<(Instant, Event)>,
    /// How often `Connected` was reported.
    pub connected: u32,
    /// How often `Closed` was reported.
    pub closed: u32,
    /// How often `Writable` was reported.
    pub writable: u32,
    /// How often `Broken` was reported.
    pub broken: u32,
    /// How often `Congestion` was reported.
    pub congested: u32,
    /// Time-outs handled.
    pub timeouts: u32,
    /// The next message's number.
    next: u64,
    /// Numbers of the messages whose tags have not come back.
    open: BTreeMap<Tag, VecDeque<u64>>,
    /// The last message was refused for lack of room, and no room has been reported since.
    blocked: bool,
    /// Names by which the peer's packets name the association now.
    ids: BTreeSet<ConnectionId>,
    buf: Vec<u8>,
}

impl<E: Endpoint + ?Sized> Party<E> {
    /// Around `endpoint`.
    pub fn new(endpoint: Box<E>) -> Self {
        Party {
            buf: vec![0; endpoint.profile().max_receive],
            endpoint,
            talk: None,
            keep: usize::MAX,
            accepted: BTreeMap::new(),
            refused: Vec::new(),
            messages: Vec::new(),
            outcomes: BTreeMap::new(),
            told_at: BTreeMap::new(),
            events: Vec::new(),
            connected: 0,
            closed: 0,
            writable: 0,
            broken: 0,
            congested: 0,
            timeouts: 0,
            next: 0,
            open: BTreeMap::new(),
            blocked: false,
            ids: BTreeSet::new(),
        }
    }

    /// The same, which sends `talk`.
    pub fn talking(self, talk: Talk) -> Self {
        Party { talk: Some(talk), ..self }
    }

    /// The same, which keeps only so many bytes of each message that comes.
    pub fn keeping(self, keep: usize) -> Self {
        Party { keep, ..self }
    }

    /// The number of the next message.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Hands over a message on the first stream.
    pub fn send(&mut self, now: Instant, bytes: &[u8], deadline: Option<Instant>) -> Result<(), SendError> {
        self.send_message(now, Message::new(self.next_tag(), bytes, deadline))
    }

    /// The tag for the next message: different for each, and in no order.
    pub fn next_tag(&self) -> Tag {
        // An odd factor (2^64 divided by the golden ratio, as in Fibonacci hashing) makes a permutation of all numbers.
        Tag(self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Hands over `message`.
    pub fn send_message(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        let tag = message.tag;
        // A report of room may wait to be fetched.
        self.drain(now);
        let sent = self.endpoint.send(now, message);
        assert!(!self.blocked || sent.is_err(), "accepted after Blocked and before Writable");
        self.blocked |= matches!(sent, Err(SendError::Blocked { .. }));
        sent?;
        self.open.entry(tag).or_default().push_back(self.next);
        self.accepted.insert(self.next, now);
        self.next += 1;
        Ok(())
    }

    /// Every accepted message has exactly one outcome: each tag came back as often as it was given.
    pub fn assert_balanced(&self) {
        assert!(self.open.is_empty(), "tags did not come back: {:?}", self.open);
        assert_eq!(self.outcomes.len(), self.accepted.len(), "one outcome for each accepted message");
    }

    /// Whether it sends and receives a byte stream.
    pub fn is_byte_stream(&self) -> bool {
        self.endpoint.profile().wire == Wire::ByteStream
    }

    /// What the endpoint has counted.
    pub fn counters(&self) -> Counters {
        self.endpoint.stats().counters
    }

    /// Received messages, in order.
    pub fn contents(&self) -> Vec<&[u8]> {
        self.messages.iter().map(|came| &came.bytes[..]).collect()
    }

    /// The numbers of received messages, in order.
    pub fn numbers(&self) -> Vec<u64> {
        self.messages.iter().map(Came::number).collect()
    }

    /// How many messages have such an outcome.
    pub fn count_outcomes(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.values().filter(|outcome| wanted(outcome)).count()
    }

    /// The messages that came here of those that `sender` sent, in the order of arrival.
    pub fn crossings<F: Endpoint + ?Sized>(&self, sender: &Party<F>) -> Vec<Crossing> {
        let crossing = |came: &Came| {
            let number = came.number();
            Crossing { number, sent: sender.accepted[&number], came: came.at }
        };
        self.messages.iter().map(crossing).collect()
    }

    /// Handles a time-out that is due; if it were still due afterwards, a driver whose wire is full would spin.
    fn handle_due(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.timeouts += 1;
            self.endpoint.handle_timeout(now);
            let next = self.endpoint.poll_timeout();
            assert!(next.is_none_or(|next| next > now), "handled at {now:?}, and due again at {next:?}");
        }
    }

    /// Fetches all messages and events.
    pub fn drain(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            assert_eq!(self.closed, 0, "a message after Closed");
            let bytes = self.buf[..received.len.min(self.keep)].to_vec();
            self.messages.push(Came { at: now, received, bytes });
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert_eq!(self.closed, 0, "{event:?} after Closed");
            self.note(now, event);
        }
    }

    fn note(&mut self, now: Instant, event: Event) {
        match event {
            Event::Outcome { tag, outcome } => {
                let numbers = self.open.get_mut(&tag).expect("a tag that was given and has not come back");
                let number = numbers.pop_front().expect("a number for each");
                if numbers.is_empty() {
                    self.open.remove(&tag);
                }
                self.outcomes.insert(number, outcome);
                self.told_at.insert(number, now);
                return;
            }
            Event::Connected => self.connected += 1,
            Event::Writable => {
                assert!(std::mem::take(&mut self.blocked), "Writable, and nothing was blocked");
                self.writable += 1;
            }
            Event::Closed(_) => {
                assert!(self.ids.is_empty(), "ids of ended associations are left: {:?}", self.ids);
                self.closed += 1;
            }
            Event::Broken(_) => self.broken += 1,
            Event::Congestion(_) => self.congested += 1,
            Event::IdAdded(id) => assert!(self.ids.insert(id), "{id:?} is one of the names already"),
            Event::IdRetired(id) => assert!(self.ids.remove(&id), "{id:?} is none of the names"),
            Event::PathProved(_) | Event::MemberLeft { .. } => {}
        }
        self.events.push((now, event));
    }

    /// When the talk continues; one that sends what finds room is called by an event.
    fn next_due(&self) -> Option<Instant> {
        self.talk.as_ref().filter(|talk| !(talk.is_eager() && self.blocked))?.due(self.next)
    }

    fn go_on(&mut self, now: Instant) {
        while let Some(due) = self.next_due().filter(|due| *due <= now)
            && let Some(talk) = &self.talk
        {
            let shape = talk.shape(self.next, &self.endpoint.profile());
            let deadline = shape.budget.map(|budget| due + budget);
            let bytes = message(self.next as u32, shape.len);
            let message = Message::new(self.next_tag(), &bytes, deadline);
            let message = Message { stream: shape.stream, priority: shape.priority, ..message };
            let is_eager = talk.is_eager();
            match self.send_message(now, message) {
                Err(SendError::Blocked { .. }) if is_eager => {}
                Err(error) => {
                    self.refused.push(error);
                    self.next += 1;
                }
                Ok(()) => {}
            }
        }
    }
}

impl<E: Endpoint + ?Sized> OneWire for Party<E> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.handle_due(now);
        self.drain(now);
        self.go_on(now);
        self.drain(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let sent = self.endpoint.poll_transmit(now, buf)?;
        assert_eq!(self.closed, 0, "bytes after Closed");
        Some(sent)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.endpoint.poll_timeout(), self.next_due())
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint.close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.closed > 0
    }

    fn knows(&self, _path: PathId) -> bool {
        true
    }
}
