//! The library's socket in our time and words.

use std::time::Duration;

use antiphon_core::Instant;
use dcsctp::api::{
    DcSctpSocket, LifecycleId, Message, Metrics, PpId, SendOptions, SocketEvent, SocketState, SocketTime,
    StreamId,
};

/// One association of the library's.
pub(super) struct Association {
    socket: Box<dyn DcSctpSocket>,
    /// The library's time begins with the socket.
    born: Instant,
    /// The peer's SCTP port.
    pub remote_port: u16,
}

/// How a message is handed over.
pub(super) struct Order {
    pub stream: u16,
    pub unordered: bool,
    pub lifetime: Option<Duration>,
    pub max_retransmissions: Option<u16>,
    /// The number under which the library reports on it.
    pub number: u64,
}

impl Association {
    pub fn new(socket: Box<dyn DcSctpSocket>, born: Instant, remote_port: u16) -> Self {
        Association { socket, born, remote_port }
    }

    /// Sends the INIT.
    pub fn connect(&mut self, now: Instant) {
        self.advance(now);
        self.socket.connect();
    }

    /// Tells the library the time; due timers fire.
    pub fn advance(&mut self, now: Instant) {
        self.socket.advance_time(SocketTime::zero() + now.since(self.born));
    }

    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        self.advance(now);
        self.socket.handle_input(packet);
    }

    /// Hands a message over; `false` when the library takes no more.
    pub fn send(&mut self, now: Instant, payload: Vec<u8>, order: &Order) -> bool {
        self.advance(now);
        let options = SendOptions {
            unordered: order.unordered,
            lifetime: order.lifetime,
            max_retransmissions: order.max_retransmissions,
            lifecycle_id: LifecycleId::new(order.number),
        };
        // No registered payload protocol is RTP (RFC 9260 §15.6): 0 is "unspecified".
        let message = Message::new(StreamId(order.stream), PpId(0), payload);
        self.socket.send(message, &options).is_ok()
    }

    /// Whether what was handed over on `stream` has left the library's own queue.
    pub fn is_drained(&self, stream: u16) -> bool {
        self.socket.buffered_amount(StreamId(stream)) == 0
    }

    pub fn next_message(&mut self) -> Option<Message> {
        self.socket.get_next_message()
    }

    pub fn poll_event(&mut self) -> Option<SocketEvent> {
        self.socket.poll_event()
    }

    /// Takes leave in order. Only with nothing in the library's hands: it takes leave before data in its queue.
    pub fn shut_down(&mut self, now: Instant) {
        self.advance(now);
        self.socket.shutdown();
    }

    /// Ends it with an ABORT.
    pub fn abort(&mut self) {
        self.socket.close();
    }

    pub fn state(&self) -> SocketState {
        self.socket.state()
    }

    pub fn metrics(&self) -> Option<Metrics> {
        self.socket.get_metrics()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let at = self.socket.poll_timeout();
        if at == SocketTime::infinite_future() {
            return None;
        }
        Some(self.born + (at - SocketTime::zero()))
    }
}
