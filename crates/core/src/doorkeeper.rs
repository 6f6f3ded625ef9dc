//! Who meets strangers at a listener's door, before there is an association.

use crate::endpoint::PathId;
use crate::time::Instant;

/// Meets datagrams from paths that have no association, and keeps nothing of who sent them: a caller must first show
/// that it receives what is sent to its address (the state cookie of SCTP, the init cookie of DCCP).
///
/// An endpoint opened as a listener makes one by [`crate::Endpoint::doorkeeper`]; whom it admits, endpoints opened with
/// the same seed take in.
pub trait Doorkeeper {
    /// Meets `datagram` from a stranger on `path`. An answer is written into `answer`, which holds at least a path's
    /// datagram; over a while, answers to paths that have proved nothing are bounded in number and in size.
    fn meet(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Meeting;

    /// Takes back what [`Self::meet`] last made of a datagram, [`Meeting::Admitted`] or [`Meeting::Vouched`]: there was no
    /// room, and the stranger may come again with the same.
    fn turn_away(&mut self) {}

    /// Which of the parties behind one address `datagram` is of, where packets have ports of their own to tell it: a
    /// kernel may put all its associations behind one UDP port. The same for all packets of a party; 0 where the address
    /// alone says whose they are.
    fn party_of(&self, _datagram: &[u8]) -> u16 {
        0
    }

    /// The association that `datagram` names (`Endpoint::association`), so that a peer can be known on a path of which it
    /// has not been heard before; `None` where it names none, or may not.
    fn association_of(&self, _datagram: &[u8]) -> Option<u64> {
        None
    }
}

/// What a [`Doorkeeper`] made of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// Nothing.
    Ignored,
    /// An answer of so many bytes is to go back on the same path.
    Answered {
        /// Bytes written.
        len: usize,
    },
    /// The stranger is who it says: this datagram begins an association.
    Admitted,
    /// As [`Meeting::Admitted`], but what begins the association is not the datagram: it stands in `answer`, with what
    /// the stranger could not bring itself.
    Vouched {
        /// Bytes written.
        len: usize,
    },
}
