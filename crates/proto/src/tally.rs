//! Input handling and counters common to all datagram endpoints.

use antiphon_core::{Counters, Event, Input, Instant, PathId, Transmit};

use crate::inbox::Inbox;
use crate::queue::SendQueue;

/// The counters of an endpoint whose associations have one path.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counters: Counters,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub path: PathId,
    pub bytes: &'a [u8],
    pub received_at: Instant,
}

impl Tally {
    /// The datagram in `input`, counted. Other inputs are reported to the application, counted, or ignored.
    pub fn take<'a>(&mut self, input: Input<'a>, queue: &mut SendQueue) -> Option<Datagram<'a>> {
        match input {
            Input::Datagram { path, bytes, received_at } => {
                return Some(self.on_datagram(Datagram { path, bytes, received_at }));
            }
            Input::Broken(reason) => queue.report(Event::Broken(reason)),
            Input::Stream { .. } => self.on_malformed(),
            // Of the transports with one path, those that look for the path's size themselves need no help.
            Input::Accepted { .. } | Input::Connected | Input::MaxDatagram(_) | Input::Report(_) => {}
        }
        None
    }

    /// Counts a received datagram.
    pub fn on_datagram<'a>(&mut self, datagram: Datagram<'a>) -> Datagram<'a> {
        self.on_received(datagram.bytes.len());
        datagram
    }

    /// Counts a received datagram, or part of a stream, of `len` bytes.
    pub fn on_received(&mut self, len: usize) {
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += len as u64;
    }

    /// Counts a packet that violates the protocol.
    pub fn on_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// Counts a duplicate.
    pub fn on_duplicate(&mut self) {
        self.counters.duplicates += 1;
    }

    /// Counts a retransmission.
    pub fn on_repeat(&mut self) {
        self.counters.retransmitted += 1;
    }

    /// Counts a datagram of `len` bytes to send.
    pub fn transmit(&mut self, len: usize) -> Transmit {
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += len as u64;
        Transmit { path: PathId::default(), len }
    }

    /// All counters, including those of the queues.
    pub fn counters(&self, queue: &SendQueue, inbox: &Inbox) -> Counters {
        Counters {
            messages_accepted: queue.accepted(),
            messages_expired: queue.expired(),
            messages_delivered: inbox.delivered(),
            messages_dropped: inbox.dropped(),
            ..self.counters
        }
    }
}
