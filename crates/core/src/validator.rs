//! Address validation: decides who may begin an association with a listener.

use crate::connection_id::ConnectionId;
use crate::input::PathId;
use crate::time::Instant;

/// Validates the addresses of unknown sources at a listening wire, and keeps no state for them: a caller must first
/// show that it receives what is sent to its address (the state cookie of SCTP, the init cookie of DCCP; RFC 9000 §8).
///
/// A transport without such a proof decides by the datagram alone: its validator returns [`Verdict::Accept`] or
/// [`Verdict::Ignore`] at once. A [`Stack`](crate::Stack) makes validators; endpoints of the same stack serve the
/// callers that they accept. A validator does not change the datagram, since an accepted one passes the endpoint's
/// layers next.
pub trait Validator {
    /// Judges `datagram` from an unknown source on `path`. Writes a reply, or a replacement for the datagram, into
    /// `out`, which holds at least a path's datagram; replies to unproved paths are bounded in number and size over
    /// time.
    fn validate(&mut self, now: Instant, path: PathId, datagram: &[u8], out: &mut [u8]) -> Verdict;

    /// Undoes the last [`Verdict::Accept`] or [`Verdict::AcceptWith`] of [`Self::validate`]: there was no room, and the
    /// unknown source may send the same again.
    fn release(&mut self);

    /// Which of the peers behind one address sent `datagram`, if packets have their own ports to show it: a kernel may
    /// put all its associations behind one UDP port. The same for all packets of a peer; 0 if the address alone
    /// identifies the peer.
    fn flow_label(&self, datagram: &[u8]) -> u16;

    /// The id by which `datagram` names its association, so that a known peer is found on a new path; `None` if it
    /// names none, or must not. Endpoints report theirs with [`Event::IdAdded`](crate::Event::IdAdded).
    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId>;

    /// Where `datagram` stands in its sender's stream, of a transport whose packets tell that and name no association: so
    /// a sender is known whose address a translator has changed.
    fn place_of(&self, datagram: &[u8]) -> Option<StreamPlace>;
}

/// The place of a datagram in a numbered stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// Names the stream; drawn at random by its sender.
    pub stream: u64,
    /// Its number, of `bits` bits, which begins anew after the largest.
    pub number: u64,
    /// Width of the number.
    pub bits: u8,
}

impl StreamPlace {
    /// Whether it comes after `earlier` in the same stream, not farther on than a short outage explains.
    pub fn follows(self, earlier: StreamPlace) -> bool {
        let unused = 64 - self.bits.clamp(1, 64);
        let ahead = self.number.wrapping_sub(earlier.number) << unused >> unused;
        (self.stream, self.bits) == (earlier.stream, earlier.bits) && (1..=MOST_MISSING).contains(&ahead)
    }
}

/// Missing packets up to which a stream counts as going on (RFC 3550 A.1, MAX_DROPOUT).
const MOST_MISSING: u64 = 3000;

/// Verdict of a [`Validator`] on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Do nothing.
    Ignore,
    /// Send a reply on the same path.
    Reply {
        /// Bytes written.
        len: usize,
    },
    /// Accept: this datagram begins an association.
    Accept,
    /// As [`Verdict::Accept`], but the association begins with the contents of `out`, not with the datagram: they
    /// include what the unknown source could not send, and go to the endpoint as
    /// [`Input::Accepted`](crate::Input::Accepted).
    AcceptWith {
        /// Bytes written.
        len: usize,
    },
}
