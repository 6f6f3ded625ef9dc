//! Address validation: who may begin an association with a listener.

use crate::connection_id::ConnectionId;
use crate::input::PathId;
use crate::time::Instant;

/// Validates the addresses of unknown sources at a listening wire, and keeps nothing of them: a caller must first show that
/// it receives what is sent to its address (the state cookie of SCTP, the init cookie of DCCP; RFC 9000 §8).
///
/// A transport without such a proof accepts a datagram by its looks: its validator answers [`Verdict::Accept`] or
/// [`Verdict::Ignore`] at once. A [`Stack`](crate::Stack) makes validators; endpoints of the same stack serve the callers that they
/// accept. A validator reads a datagram and leaves it as it is, since an accepted one passes the endpoint's layers next.
pub trait Validator {
    /// Judges `datagram` from an unknown source on `path`. What goes out or in instead is written into `out`, which holds at
    /// least a path's datagram; over a while, replies to paths that have proved nothing are bounded in number and in size.
    fn validate(&mut self, now: Instant, path: PathId, datagram: &[u8], out: &mut [u8]) -> Verdict;

    /// Takes back what [`Self::validate`] last made of a datagram, [`Verdict::Accept`] or [`Verdict::AcceptWith`]: there was no
    /// room, and the unknown source may come again with the same.
    fn release(&mut self);

    /// Which of the peers behind one address sent `datagram`, where packets have ports of their own to tell it: a
    /// kernel may put all its associations behind one UDP port. The same for all packets of a peer; 0 where the address
    /// alone identifies the peer.
    fn flow_label(&self, datagram: &[u8]) -> u16;

    /// The id by which `datagram` names its association, so that a known peer is found on a path that is
    /// new; `None` where it names none, or may not. Endpoints tell theirs by
    /// [`Event::IdAdded`](crate::Event::IdAdded).
    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId>;
}

/// Verdict of a [`Validator`] on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing.
    Ignore,
    /// A reply of so many bytes is to go back on the same path.
    Reply {
        /// Bytes written.
        len: usize,
    },
    /// This datagram begins an association.
    Accept,
    /// As [`Verdict::Accept`], but what begins the association is not the datagram: it stands in `out`, with what the unknown
    /// source could not bring itself, and goes to the endpoint as [`Input::Accepted`](crate::Input::Accepted).
    AcceptWith {
        /// Bytes written.
        len: usize,
    },
}
