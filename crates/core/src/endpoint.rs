//! The transport trait: one association as a state machine that never touches a socket, a clock or a thread.
//!
//! A driver (`net` in the real world, `lab` in the virtual one) tells an [`Endpoint`] what arrived and the time, and
//! drains what it sends, delivers and reports. The contract, which `proto`'s conformance suite checks for every
//! transport:
//!
//! * every message that [`Endpoint::send`] accepts gets **exactly one** [`Event::Outcome`], at the latest before
//!   [`Event::Closed`];
//! * nothing follows `Closed`: no bytes, no messages, no events, no time-out;
//! * there is no output without an input, a call or a due time-out;
//! * a time-out is spent by handling it: afterwards the next one is later;
//! * no byte of a message is sent, or sent again, after its [`Message::deadline`], except that a message begun on a
//!   byte stream is completed;
//! * hostile input is counted, never causes a panic, and never costs unbounded memory.

use crate::event::{CloseMode, Event};
use crate::input::{Input, PathId, Transmit, Wire};
use crate::message::{Message, Received, SendError, StreamId};
use crate::stats::PathStats;
use crate::time::Instant;

/// One association with one peer or one multicast group.
///
/// No method has a default: an endpoint around another one would forget to forward it. Such endpoints are built with a
/// [`Layer`](crate::Layer), which forwards what it does not change.
///
/// Not `Send`: an endpoint stays on the thread that opened it, since some libraries that endpoints use cannot move.
pub trait Endpoint {
    /// Properties of this transport. Fixed for the life of the endpoint, except `max_message`, which path MTU discovery
    /// may change.
    fn profile(&self) -> Profile;

    /// Reserves memory for `messages` waiting messages in every queue, present or future: to be sent, unconfirmed, to
    /// be sent again, or to be fetched. Then a machine that stalls for the duration of that many messages causes no
    /// allocation. Called for the endpoint of a single stream, before it begins; an endpoint among many is not asked,
    /// holds little, and allocates when more wait than before.
    fn reserve(&mut self, messages: usize);

    /// Takes a message for sending. Its bytes are copied; [`Self::poll_transmit`] puts them on the wire, so that a
    /// message past its deadline is never sent (late binding).
    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError>;

    /// Ends the association, sending or dropping accepted messages. [`Event::Closed`] follows, at once or later.
    fn close(&mut self, now: Instant, mode: CloseMode);

    /// Handles an event on the wire.
    fn handle_input(&mut self, now: Instant, input: Input<'_>);

    /// Handles a due time-out of [`Self::poll_timeout`]. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next datagram, or the next bytes of the stream, into `buf`.
    ///
    /// On a datagram wire `buf` holds at least the path's datagram size and one call makes one datagram. On a byte
    /// stream it may be of any length; the driver sends all that was written, or reports [`Input::Broken`].
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit>;

    /// Copies the next received message into `buf`, which must hold [`Profile::max_receive`] bytes.
    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received>;

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<Event>;

    /// When to call [`Self::handle_timeout`]; `None` for never. After a call at an instant, this is later than that
    /// instant: what was due has been done, or has become something to transmit.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Statistics and counters of the whole association.
    fn stats(&self) -> PathStats;

    /// Statistics of one path of the association; the counters are zero if the transport counts only for the whole
    /// association. `None` for a path of another association, or if the transport does not distinguish paths.
    fn path_stats(&self, path: PathId) -> Option<PathStats>;
}

/// Calls [`Endpoint::handle_timeout`] if it is due: for drivers that check after any event.
pub fn handle_due(endpoint: &mut dyn Endpoint, now: Instant) {
    if endpoint.poll_timeout().is_some_and(|due| due <= now) {
        endpoint.handle_timeout(now);
    }
}

/// Properties of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// What carries it: datagrams or a byte stream.
    pub wire: Wire,
    /// The largest message [`Endpoint::send`] takes, in bytes.
    pub max_message: usize,
    /// The largest message [`Endpoint::poll_message`] returns, in bytes: peers may send larger ones than we do.
    pub max_receive: usize,
    /// Bytes the transport itself adds to a message of one packet, below RTP and above UDP, TCP or IP.
    pub message_overhead: usize,
    /// Whether the transport adds nothing to a datagram: it contains only a message, or what a layer makes of messages.
    pub bare: bool,
    /// Whether outcomes show that the peer has a message.
    pub acknowledged: bool,
    /// Whether messages arrive in the order sent.
    pub ordered: bool,
    /// Whether lost messages are sent again, as often as the settings and deadlines allow.
    pub retransmits: bool,
    /// Whether it heeds a message's priority: an urgent one leaves before others, or is sent again more often.
    pub priorities: bool,
    /// Whether every accepted message without a deadline arrives, as long as the association exists and, over a byte
    /// stream, that stream does not break.
    pub reliable: bool,
    /// Streams over which a sender may spread messages, at least 1: a loss on one delays none of the others. Also 1 if
    /// the peer chooses the streams that it receives, as messages on other streams might not reach it.
    pub streams: u16,
    /// Whether the caller's first message sets up the association, not its opening: a driver must not wait for
    /// [`Event::Connected`] before it sends (RFC 6458 §3.1).
    pub calls_with_first_message: bool,
    /// Whether the endpoint itself decides when each new message leaves, like a program that reads its input only after
    /// sending the last message: a message is due when it first leaves, not when it is handed over.
    pub paces_itself: bool,
    /// What else it offers.
    pub capabilities: Capabilities,
}

/// What a transport offers to those who choose one: with [`Profile::ordered`] and [`Profile::reliable`] the rows of the table
/// of features (Schiavoni, Queiroz and Wanderley 2013, table 1) that depend on settings. Where a layer below does it for the
/// transport, as UDP's checksum or a kernel's TCP, that counts. Each is tested in `crates/lab/tests/features`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// Messages come out as they were put in, not as a stream of bytes.
    pub message_oriented: bool,
    /// Nothing of a message is sent before the other end has answered.
    pub connection_oriented: bool,
    /// Both ends can send messages at once.
    pub full_duplex: bool,
    /// A message need not wait for an earlier one that was lost.
    pub unordered: bool,
    /// The sender waits while the receiver's program reads nothing.
    pub flow_control: bool,
    /// The sender sends little more than the path carries.
    pub congestion_control: bool,
    /// Finds the largest packet that the path carries.
    pub path_mtu_discovery: bool,
    /// Messages longer than a packet are cut and put together again.
    pub fragmentation: bool,
    /// No damaged message is delivered.
    pub checksum: bool,
}

impl Capabilities {
    /// Of a transport that adds nothing to UDP, whose checksum it has.
    pub const OF_UDP: Capabilities = Capabilities {
        message_oriented: true,
        connection_oriented: false,
        full_duplex: true,
        unordered: true,
        flow_control: false,
        congestion_control: false,
        path_mtu_discovery: false,
        fragmentation: false,
        checksum: true,
    };

    /// Those that both have.
    pub fn and(self, other: Capabilities) -> Capabilities {
        Capabilities {
            message_oriented: self.message_oriented && other.message_oriented,
            connection_oriented: self.connection_oriented && other.connection_oriented,
            full_duplex: self.full_duplex && other.full_duplex,
            unordered: self.unordered && other.unordered,
            flow_control: self.flow_control && other.flow_control,
            congestion_control: self.congestion_control && other.congestion_control,
            path_mtu_discovery: self.path_mtu_discovery && other.path_mtu_discovery,
            fragmentation: self.fragmentation && other.fragmentation,
            checksum: self.checksum && other.checksum,
        }
    }
}

impl Profile {
    /// Of a transport that sends each message once in a datagram, as UDP does. The arguments are the fields of these names.
    pub fn of_datagrams(max_message: usize, max_receive: usize, message_overhead: usize) -> Self {
        Profile {
            wire: Wire::Datagram,
            max_message,
            max_receive,
            message_overhead,
            bare: false,
            acknowledged: false,
            ordered: false,
            retransmits: false,
            priorities: false,
            reliable: false,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities::OF_UDP,
        }
    }

    /// The stream for what accompanies the sound, above all RTCP; sound uses stream 0 and, divided into groups, those
    /// from 2 on. Stream 0 if there is only one.
    pub fn control_stream(&self) -> StreamId {
        StreamId(u16::from(self.streams > 1))
    }

    /// The stream for the `index`-th media stream, counted from 0: channel groups of sound, then other media. Each has
    /// its own while there are enough besides [`Self::control_stream`]; beyond that they share them in turn.
    pub fn media_stream(&self, index: usize) -> StreamId {
        let media = usize::from(self.streams).saturating_sub(1).max(1);
        let turn = (index % media) as u16;
        StreamId(if turn == 0 { 0 } else { turn + 1 })
    }
}
