//! What an endpoint reports to the application, and how an association ends.

use crate::connection_id::ConnectionId;
use crate::input::{BrokenReason, PathId};
use crate::message::Tag;
use crate::stats::PathStats;

/// What an endpoint reports. Small and `Copy`, so that C and Python get plain structures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// Messages flow: the peer answered, or the transport needs no answer. Comes again after a reconnection.
    Connected,
    /// The path is broken for now. Accepted messages wait for their deadlines; a driver may reconnect.
    Broken(BrokenReason),
    /// The outcome of an accepted message: exactly one each.
    Outcome {
        /// The message's tag.
        tag: Tag,
        /// The outcome.
        outcome: Outcome,
    },
    /// Packets of the peer's name the association by this id from now on, whatever path they come by
    /// ([`Validator::id_of`](crate::Validator::id_of)).
    IdAdded(ConnectionId),
    /// They do so no more.
    IdRetired(ConnectionId),
    /// A packet proved that the peer is at this further path. Before, the endpoint may hear it from there, and sends there no
    /// more than the question whether it is.
    PathProved(PathId),
    /// Congestion control changed phase.
    Congestion(PathStats),
    /// There is room again; only after [`Endpoint::send`](crate::Endpoint::send) answered
    /// [`SendError::Blocked`](crate::SendError::Blocked).
    Writable,
    /// The association ended. The last event.
    Closed(CloseReason),
}

/// The outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is on the wire and this transport will never know more.
    Released,
    /// The peer has it.
    Acked,
    /// Its deadline passed and the sender gave it up.
    Expired {
        /// Whether any of it had been sent, so that the peer may hold it all the same.
        maybe_received: bool,
    },
    /// The transport's own limit of tries was reached.
    RetriesExhausted,
    /// The association ended before its outcome was known.
    Aborted,
}

/// How to end an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseMode {
    /// Send accepted messages, as far as deadlines allow, then tell the peer.
    Graceful,
    /// Drop everything at once.
    Abort,
}

/// Why an association ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// This side asked.
    Local,
    /// The peer asked.
    Peer,
    /// The peer refused.
    Refused,
    /// No answer.
    TimedOut,
    /// The peer broke the protocol.
    Protocol,
}
