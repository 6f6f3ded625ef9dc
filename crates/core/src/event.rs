//! What an endpoint reports to the application, and how an association ends.

use crate::connection_id::ConnectionId;
use crate::input::{BrokenReason, PathId};
use crate::message::Tag;
use crate::stats::PathStats;

/// What an endpoint reports. Small and `Copy`, so that C and Python get plain structures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// Messages flow: the peer answered, or the transport needs no answer. Reported again after a reconnection.
    Connected,
    /// The path is broken for now. Accepted messages wait until their deadlines; a driver may reconnect.
    Broken(BrokenReason),
    /// The outcome of an accepted message: exactly one for each.
    Outcome {
        /// The message's tag.
        tag: Tag,
        /// The outcome.
        outcome: Outcome,
    },
    /// From now on, the peer's packets name the association by this id, on whatever path they arrive
    /// ([`Validator::id_of`](crate::Validator::id_of)).
    IdAdded(ConnectionId),
    /// The peer's packets no longer use this id.
    IdRetired(ConnectionId),
    /// A packet proved that the peer is at this additional path. Before, the endpoint may receive from there, but sends
    /// there only probes of the path.
    PathProved(PathId),
    /// A member of a group is none any more, and its path is no longer used. A member that joins is reported by
    /// [`Event::PathProved`].
    MemberLeft {
        /// Its path.
        member: PathId,
        /// It has said so (`Peer`), was silent for too long (`TimedOut`), was told so because it lacked too much or took nothing
        /// more (`Refused`), or was started again (`Restarted`).
        why: CloseReason,
    },
    /// Congestion control changed phase.
    Congestion(PathStats),
    /// There is room again; reported only after [`Endpoint::send`](crate::Endpoint::send) returned
    /// [`SendError::Blocked`](crate::SendError::Blocked).
    Writable,
    /// The association ended. The last event.
    Closed(CloseReason),
}

/// The outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is on the wire; this transport will not learn more.
    Released,
    /// The peer has it.
    Acked,
    /// Its deadline passed and the sender dropped it.
    Expired {
        /// Whether any of it had been sent, so that the peer may still have received it.
        maybe_received: bool,
    },
    /// The transport's own limit of attempts was reached.
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
    /// This side requested it.
    Local,
    /// The peer requested it.
    Peer,
    /// The peer refused the association.
    Refused,
    /// The peer did not answer.
    TimedOut,
    /// The peer answers, but knows no such association: it has been started again.
    Restarted,
    /// The peer violated the protocol.
    Protocol,
}
