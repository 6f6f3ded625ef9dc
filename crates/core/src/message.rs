//! Messages handed to a transport, and received ones.

use crate::input::PathId;
use crate::time::Instant;

/// One media packet (RTP or RTCP) to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Identifies its outcome.
    pub tag: Tag,
    /// The packet.
    pub bytes: &'a [u8],
    /// The latest instant, on the sender's clock, at which a transmission or retransmission may leave and still be of
    /// use on an undelayed path: due + playout delay, where a message is due when its last sample is captured. The
    /// playout delay counts from the arrival of an undelayed packet, so that the one-way delay cancels, and half a
    /// round trip is neither added nor subtracted. `None` for a recording, which needs every packet.
    ///
    /// Published modes repeat by their papers' rules, whatever the deadline.
    pub deadline: Option<Instant>,
    /// 0 is most urgent. Transports without priorities ([`Profile::priorities`](crate::Profile::priorities)) ignore it.
    pub priority: u8,
    /// Which stream of the association carries it; transports with one stream ignore it.
    pub stream: StreamId,
}

impl<'a> Message<'a> {
    /// A message of the default stream and priority.
    pub fn new(tag: Tag, bytes: &'a [u8], deadline: Option<Instant>) -> Self {
        Message { tag, bytes, deadline, priority: 0, stream: StreamId(0) }
    }
}

/// Number that the sender of a message chooses; the message's one outcome carries it.
///
/// Endpoints don't interpret it: tags need be neither in order nor distinct.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u64);

impl Tag {
    /// The tag of all messages whose outcome is not needed, such as RTCP. Other messages use smaller numbers.
    pub const NONE: Tag = Tag(u64::MAX);
}

/// A stream within an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u16);

/// What [`Endpoint::poll_message`](crate::Endpoint::poll_message) wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes written into the lent buffer.
    pub len: usize,
    /// Path on which its last part arrived.
    pub path: PathId,
    /// Which stream carried it.
    pub stream: StreamId,
    /// When its last byte was received.
    pub received_at: Instant,
    /// Whether it was sent more than once, as far as this side knows.
    pub repaired: bool,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// Larger than [`Profile::max_message`](crate::Profile::max_message).
    #[error("a message of {len} bytes is larger than this transport carries ({max})")]
    TooLarge {
        /// Its size in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A message of no bytes.
    #[error("a message must have at least one byte")]
    Empty,
    /// The send queue is full; [`Event::Writable`](crate::Event::Writable) follows.
    #[error("{queued} messages are already queued")]
    Blocked {
        /// Messages waiting.
        queued: usize,
    },
    /// Closing or closed.
    #[error("the association is closed")]
    Closed,
}
