//! The transport trait: one association as a state machine that never touches a socket, a clock or a thread.
//!
//! A driver (`net` in the real world, `lab` in the virtual one) tells an [`Endpoint`] what arrived and what time it
//! is, and drains what it wants sent, delivered and reported. The contract, which `proto`'s conformance suite checks
//! for every transport:
//!
//! * every message that [`Endpoint::send`] accepts gets **exactly one** [`Event::Outcome`], at the latest before
//!   [`Event::Closed`];
//! * nothing comes out after `Closed`: no bytes, no messages, no events, no time-out;
//! * nothing comes out without an input, a call or a due time-out;
//! * a time-out is spent by handling it: afterwards the next one is later;
//! * no byte of a message is sent, or sent again, after its [`Message::deadline`]; a message once begun on a byte stream is
//!   completed;
//! * hostile input is counted, never a panic, and never costs unbounded memory.

use crate::event::{CloseMode, Event};
use crate::input::{Input, PathId, Transmit, Wire};
use crate::message::{Message, Received, SendError, StreamId};
use crate::stats::PathStats;
use crate::time::Instant;

/// One association with one peer or one multicast group.
///
/// No method has a default: an endpoint around another one would forget to forward it. Such endpoints are made of a
/// [`Layer`](crate::Layer), which forwards what it does not change.
///
/// Not `Send`: an endpoint stays on the thread that opened it, since not every library that one uses can move.
pub trait Endpoint {
    /// What kind of transport this is. Fixed for the life of the endpoint, but for `max_message`, which path MTU
    /// discovery may change.
    fn profile(&self) -> Profile;

    /// Holds memory ready for `messages` that wait at once, in whatever queues there are or will be: on their way out,
    /// unconfirmed, to be sent again, or to be fetched. Nothing is allocated then while a machine stands still for as long
    /// as so many messages take. For the endpoint of a single stream, before it begins; one of many is not asked, holds
    /// little, and allocates when more wait than ever before.
    fn reserve(&mut self, messages: usize);

    /// Takes a message for sending. Its bytes are copied; they are put on the wire by [`Self::poll_transmit`], so that
    /// a message past its deadline is never sent (late binding).
    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError>;

    /// Ends the association, sending or dropping accepted messages. [`Event::Closed`] follows, at once or later.
    fn close(&mut self, now: Instant, mode: CloseMode);

    /// Something happened on the wire.
    fn handle_input(&mut self, now: Instant, input: Input<'_>);

    /// The instant that [`Self::poll_timeout`] named has come. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next datagram, or the next bytes of the stream, into `buf`.
    ///
    /// On a datagram wire `buf` holds at least the path's datagram size and one call makes one datagram. On a byte
    /// stream it may be of any length; the driver sends all that was written, or reports [`Input::Broken`].
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit>;

    /// Copies the next received message into `buf`, which must hold [`Profile::max_receive`] bytes.
    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`Self::handle_timeout`] wants to be called; `None` for never. After it was called at an instant, this is
    /// later than that instant: what was due has been done, or has become something to transmit.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What the endpoint knows of the whole association, and its counters.
    fn stats(&self) -> PathStats;

    /// What the endpoint knows of one path of the association; its counters are zero where the transport counts for the
    /// whole association only. `None` for a path that is none of its own, or where the transport does not tell paths
    /// apart.
    fn path_stats(&self, path: PathId) -> Option<PathStats>;
}

/// Calls [`Endpoint::handle_timeout`] if its time has come: for drivers that look in whenever anything happens.
pub fn handle_due(endpoint: &mut dyn Endpoint, now: Instant) {
    if endpoint.poll_timeout().is_some_and(|due| due <= now) {
        endpoint.handle_timeout(now);
    }
}

/// What a transport is and promises.
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
    /// Whether the transport adds nothing to a datagram: it holds a message, or what a layer makes of messages, and nothing
    /// else.
    pub bare: bool,
    /// Whether outcomes show that the peer has a message.
    pub acknowledged: bool,
    /// Whether messages arrive in the order sent.
    pub ordered: bool,
    /// Whether lost messages are sent again, as often as the settings and deadlines allow.
    pub retransmits: bool,
    /// Whether every accepted message without a deadline arrives, as long as the association lives and, over a byte
    /// stream, that stream does not break.
    pub reliable: bool,
    /// Streams that a sender may spread messages over, at least 1: what is lost on one holds up none of the others. 1
    /// also where the peer chooses which streams it wants, as messages on another than the first might not reach it.
    pub streams: u16,
    /// Whether the caller's association is set up by the first message it sends, not when it is opened: a driver must not wait
    /// for [`Event::Connected`] before it sends (RFC 6458 §3.1).
    pub calls_with_first_message: bool,
    /// Whether the endpoint itself decides when each new message leaves, as a program does that reads its input only when it
    /// has sent the last: a message is due when it first leaves, not when it is handed over.
    pub paces_itself: bool,
}

impl Profile {
    /// The stream for what goes beside the sound, RTCP above all; sound itself goes on stream 0 and, divided into groups, on
    /// those from 2 on. The same stream where there is but one.
    pub fn control_stream(&self) -> StreamId {
        StreamId(u16::from(self.streams > 1))
    }

    /// The stream for the `index`-th stream of media, counted from 0: channel groups of sound, and further kinds of media after
    /// them. Each has one to itself while there are enough beside [`Self::control_stream`]; then they take turns.
    pub fn media_stream(&self, index: usize) -> StreamId {
        let media = usize::from(self.streams).saturating_sub(1).max(1);
        let turn = (index % media) as u16;
        StreamId(if turn == 0 { 0 } else { turn + 1 })
    }
}
