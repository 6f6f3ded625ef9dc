//! Queues between the application's threads and the media thread, which takes no lock, and figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_core::{Event, Instant, Message, Outcome, PathStats, Received, SendError, Tag};
use antiphon_net::Waker;
use antiphon_session::{LinkState, MessagePort};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{ArrivedMessage, QUEUED_MESSAGES};

/// Figures of an association. Each is exact; they need not all be of the same instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageStats {
    /// The association's state.
    pub state: LinkState,
    /// Messages that the transport took.
    pub messages_accepted: u64,
    /// Messages that it refused although they were in the queue.
    pub messages_refused: u64,
    /// Messages sent whose outcome stays unknown.
    pub messages_released: u64,
    /// Messages that the peer has confirmed.
    pub messages_acked: u64,
    /// Messages given up because their time was over.
    pub messages_expired: u64,
    /// Messages given up after the transport's last try.
    pub messages_exhausted: u64,
    /// Messages whose outcome was unknown when the association ended.
    pub messages_aborted: u64,
    /// Messages received and queued for the application.
    pub messages_received: u64,
    /// Messages received and dropped because the application did not fetch them in time.
    pub messages_dropped: u64,
    /// Datagrams sent, or the kernel's segments where known. This and the next six start from zero with another peer.
    pub datagrams_sent: u64,
    /// Bytes in them, below UDP or TCP.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets or messages received twice.
    pub duplicates: u64,
    /// Datagrams or parts of the stream that broke the protocol.
    pub malformed: u64,
    /// Datagrams from sources other than the peer.
    pub unknown_sources: u64,
    /// Smoothed round trip, where the transport measures it.
    pub srtt: Option<Duration>,
    /// Its mean deviation.
    pub rttvar: Option<Duration>,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
}

impl MessageStats {
    fn counts_mut(&mut self) -> [&mut u64; COUNTS] {
        [
            &mut self.messages_accepted,
            &mut self.messages_received,
            &mut self.messages_refused,
            &mut self.messages_released,
            &mut self.messages_acked,
            &mut self.messages_expired,
            &mut self.messages_exhausted,
            &mut self.messages_aborted,
            &mut self.messages_dropped,
            &mut self.datagrams_sent,
            &mut self.bytes_sent,
            &mut self.datagrams_received,
            &mut self.bytes_received,
            &mut self.retransmitted,
            &mut self.duplicates,
            &mut self.malformed,
            &mut self.unknown_sources,
        ]
    }

    fn times_mut(&mut self) -> [&mut Option<Duration>; TIMES] {
        [&mut self.srtt, &mut self.rttvar, &mut self.min_rtt]
    }
}

/// State and figures that the media thread writes and other threads read.
#[derive(Debug)]
pub(super) struct SharedState {
    state: AtomicU8,
    /// How often the association was lost.
    breaks: AtomicU64,
    counts: [AtomicU64; COUNTS],
    /// In nanoseconds, or [`UNKNOWN`].
    times: [AtomicU64; TIMES],
    /// Number of threads that wait for a signal.
    pub waiting: AtomicUsize,
    /// The media thread had no room for a received message.
    full: AtomicBool,
}

/// Counters of [`MessageStats`], and its durations.
const COUNTS: usize = 17;
const TIMES: usize = 3;
const UNKNOWN: u64 = u64::MAX;

impl SharedState {
    fn new() -> Self {
        SharedState {
            state: AtomicU8::new(0),
            breaks: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            times: std::array::from_fn(|_| AtomicU64::new(UNKNOWN)),
            waiting: AtomicUsize::new(0),
            full: AtomicBool::new(false),
        }
    }

    pub fn state(&self) -> LinkState {
        const STATES: [LinkState; 4] =
            [LinkState::Waiting, LinkState::Connected, LinkState::Broken, LinkState::Closed];
        STATES[usize::from(self.state.load(Ordering::SeqCst) & 3)]
    }

    /// Sets the state; returns whether it has changed.
    fn set_state(&self, state: LinkState) -> bool {
        let number = match state {
            LinkState::Waiting => 0,
            LinkState::Connected => 1,
            LinkState::Broken => 2,
            LinkState::Closed => 3,
        };
        if state == LinkState::Broken && self.state() != LinkState::Broken {
            self.breaks.fetch_add(1, Ordering::SeqCst);
        }
        self.state.swap(number, Ordering::SeqCst) != number
    }

    /// How often the association was lost.
    pub fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::SeqCst)
    }

    fn show(&self, mut stats: MessageStats) {
        for (place, count) in self.counts.iter().zip(stats.counts_mut()) {
            place.store(*count, Ordering::Relaxed);
        }
        for (place, time) in self.times.iter().zip(stats.times_mut()) {
            place.store(time.map_or(UNKNOWN, |time| time.as_nanos() as u64), Ordering::Relaxed);
        }
    }

    /// Publishes the numbers of accepted and received messages. Called before a received message is queued, so that an application that has fetched
    /// it finds it counted.
    fn show_messages(&self, stats: &MessageStats) {
        let [accepted, received, ..] = &self.counts;
        accepted.store(stats.messages_accepted, Ordering::Relaxed);
        received.store(stats.messages_received, Ordering::Relaxed);
    }

    pub fn stats(&self) -> MessageStats {
        let mut stats = MessageStats { state: self.state(), ..MessageStats::default() };
        for (count, place) in stats.counts_mut().into_iter().zip(&self.counts) {
            *count = place.load(Ordering::Relaxed);
        }
        for (time, place) in stats.times_mut().into_iter().zip(&self.times) {
            let nanos = place.load(Ordering::Relaxed);
            *time = (nanos != UNKNOWN).then(|| Duration::from_nanos(nanos));
        }
        stats
    }
}

/// A message for the media thread.
struct Outgoing {
    bytes: Vec<u8>,
    deadline: Option<Instant>,
}

/// A message for the application.
struct Incoming {
    bytes: Vec<u8>,
    received: Received,
}

/// The application's side of the queues.
pub(super) struct AppSide {
    pub outbox: Outbox,
    pub arrivals: Arrivals,
}

pub(super) struct Outbox {
    messages: Producer<Outgoing>,
    spare: Consumer<Vec<u8>>,
}

impl Outbox {
    /// Queues a copy of a message; returns whether there was room.
    pub fn push(&mut self, bytes: &[u8], deadline: Option<Instant>) -> bool {
        if self.messages.is_full() {
            return false;
        }
        // Runs on the program's thread. More messages wait than ever before, so one more buffer is made; there is at
        // most one more buffer than places for messages.
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.messages.push(Outgoing { bytes: copy, deadline }).is_ok()
    }
}

pub(super) struct Arrivals {
    messages: Consumer<Incoming>,
    spare: Producer<Vec<u8>>,
    shared: Arc<SharedState>,
}

impl Arrivals {
    /// Takes the next message, copies as much of it as fits into `buf`.
    pub fn pop(&mut self, buf: &mut [u8]) -> Option<ArrivedMessage> {
        let Incoming { bytes, received } = self.messages.pop().ok()?;
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        let arrived = ArrivedMessage {
            len,
            full_len: bytes.len(),
            received_at: received.received_at,
            repaired: received.repaired,
        };
        // The queue has room for all buffers that exist; one too many would only be freed here.
        let _freed = self.spare.push(bytes);
        Some(arrived)
    }

    /// Whether the media thread held messages back because of a full queue that now has room.
    pub fn frees_a_full_queue(&self) -> bool {
        self.shared.full.swap(false, Ordering::SeqCst)
    }
}

/// The media thread's side of the queues.
pub(super) struct MediaSide {
    outgoing: Consumer<Outgoing>,
    sent: Producer<Vec<u8>>,
    incoming: Producer<Incoming>,
    spare: Consumer<Vec<u8>>,
    stats: MessageStats,
    /// Messages for which there was no buffer or no place.
    dropped: u64,
    pub shared: Arc<SharedState>,
    news: Waker,
}

/// Both sides of the queues. `news` signals the application.
pub(super) fn queues(news: &Waker) -> (AppSide, MediaSide) {
    let (messages, outgoing) = RingBuffer::new(QUEUED_MESSAGES);
    let (sent, sent_back) = RingBuffer::new(QUEUED_MESSAGES + 1);
    let (incoming, arrived) = RingBuffer::new(QUEUED_MESSAGES);
    let (mut fetched, spare) = RingBuffer::new(QUEUED_MESSAGES + 1);
    while fetched.push(Vec::with_capacity(TYPICAL_FRAME)).is_ok() {}
    let shared = Arc::new(SharedState::new());
    let app = AppSide {
        outbox: Outbox { messages, spare: sent_back },
        arrivals: Arrivals { messages: arrived, spare: fetched, shared: Arc::clone(&shared) },
    };
    let (stats, news) = (MessageStats::default(), news.clone());
    (app, MediaSide { outgoing, sent, incoming, spare, stats, dropped: 0, shared, news })
}

impl MediaSide {
    /// Whether there is a place and a buffer for a message from the peer.
    fn takes_one(&self) -> bool {
        !self.incoming.is_full() && !self.spare.is_empty()
    }

    /// Signals the application, if any of its threads waits.
    fn ring(&self) {
        if self.shared.waiting.load(Ordering::SeqCst) > 0 {
            self.news.wake();
        }
    }

    /// The association has ended, in order or not.
    pub fn close(shared: &SharedState, news: &Waker) {
        shared.set_state(LinkState::Closed);
        news.wake();
    }
}

impl MessagePort for MediaSide {
    fn room(&self) -> usize {
        QUEUED_MESSAGES
    }

    fn next(&mut self) -> Option<Message<'_>> {
        self.outgoing.peek().ok().map(|message| Message::new(Tag::NONE, &message.bytes, message.deadline))
    }

    fn taken(&mut self, result: Result<(), SendError>) {
        match result {
            Ok(()) => self.stats.messages_accepted += 1,
            Err(_) => self.stats.messages_refused += 1,
        }
        if let Ok(message) = self.outgoing.pop() {
            // The queue has room for all buffers that exist.
            let _freed = self.sent.push(message.bytes);
        }
    }

    fn has_room(&mut self) -> bool {
        if self.takes_one() {
            return true;
        }
        self.shared.full.store(true, Ordering::SeqCst);
        // Checked again, since the application may have emptied the queue before the flag was visible.
        self.takes_one()
    }

    fn deliver(&mut self, bytes: &[u8], received: Received) {
        // `has_room` was true, and only this thread takes buffers and places. Without a buffer the message would be
        // dropped and counted: this thread makes no buffers.
        if !self.takes_one() {
            self.dropped += 1;
            return;
        }
        self.stats.messages_received += 1;
        self.shared.show_messages(&self.stats);
        if let Ok(mut copy) = self.spare.pop() {
            copy.clear();
            // A message that is longer than any before makes its buffer grow once.
            copy.extend_from_slice(bytes);
            let _there_is_a_place = self.incoming.push(Incoming { bytes: copy, received });
        }
        self.ring();
    }

    fn on_event(&mut self, event: &Event) {
        let Event::Outcome { outcome, .. } = event else { return };
        let count = match outcome {
            Outcome::Released => &mut self.stats.messages_released,
            Outcome::Acked => &mut self.stats.messages_acked,
            Outcome::Expired { .. } => &mut self.stats.messages_expired,
            Outcome::RetriesExhausted => &mut self.stats.messages_exhausted,
            Outcome::Aborted => &mut self.stats.messages_aborted,
        };
        *count += 1;
    }

    fn on_round(&mut self, path: &PathStats, state: LinkState, unknown_sources: u64) {
        let counters = path.counters;
        self.stats = MessageStats {
            messages_dropped: counters.messages_dropped + self.dropped,
            datagrams_sent: counters.datagrams_sent,
            bytes_sent: counters.bytes_sent,
            datagrams_received: counters.datagrams_received,
            bytes_received: counters.bytes_received,
            retransmitted: counters.retransmitted,
            duplicates: counters.duplicates,
            malformed: counters.malformed,
            unknown_sources,
            srtt: path.srtt,
            rttvar: path.rttvar,
            min_rtt: path.min_rtt,
            ..self.stats
        };
        self.shared.show(self.stats);
        // The end is reported when the thread ends, after the line was closed.
        if state != LinkState::Closed && self.shared.set_state(state) {
            self.ring();
        }
    }
}

/// Bytes reserved for a message: one that fills an Ethernet packet.
const TYPICAL_FRAME: usize = 1500;

#[cfg(test)]
mod tests {
    use antiphon_core::{PathId, StreamId};

    use super::*;

    const RECEIVED: Received = Received {
        len: 1,
        path: PathId(0),
        stream: StreamId(0),
        received_at: Instant::ZERO,
        repaired: false,
    };

    #[test]
    fn the_media_thread_makes_no_buffer_and_counts_what_finds_none() {
        let (mut app, mut media) = queues(&Waker::new().unwrap());
        // The application holds one buffer, and all places are taken: one is still left.
        let mut messages = 0u64;
        while media.has_room() {
            media.deliver(&[7], RECEIVED);
            messages += 1;
            // Counted before the round ends, as the application may have it by then.
            assert_eq!(app.arrivals.shared.stats().messages_received, messages);
        }
        assert_eq!(messages, QUEUED_MESSAGES as u64);
        let in_hand = app.arrivals.messages.pop().unwrap();
        assert!(app.arrivals.frees_a_full_queue() && media.has_room());
        media.deliver(&[8], RECEIVED);
        assert!(!media.has_room(), "the place is taken again");
        app.arrivals.messages.pop().unwrap();
        assert!(!media.has_room(), "a place, and no buffer");
        // Called without room, it delivers nothing.
        media.deliver(&[9], RECEIVED);
        media.on_round(&PathStats::default(), LinkState::Connected, 0);
        let stats = app.arrivals.shared.stats();
        assert_eq!((stats.messages_received, stats.messages_dropped), (QUEUED_MESSAGES as u64 + 1, 1));
        // Returned buffers are reused.
        app.arrivals.spare.push(in_hand.bytes).unwrap();
        assert!(app.arrivals.frees_a_full_queue() && media.has_room());
    }
}
