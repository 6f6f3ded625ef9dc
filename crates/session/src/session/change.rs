//! What becomes of further associations with a peer, and where a track's messages go.

use antiphon_core::WireId;

use super::further::MOST_ASSOCIATIONS;
use crate::associations::AssociationId;
use crate::peer::Peer;

/// What became of a further association of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The receiver has taken it; everything is sent over both.
    Joined(WireId),
    /// The stream goes on over this wire alone.
    Moved(WireId),
    /// It has ended or could not be used; the stream continues without it.
    Failed(WireId, ChangeFailure),
}

/// Why a further association of a sender is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeFailure {
    /// It never connected.
    #[error("there was no connection")]
    NoConnection,
    /// It connected, but nobody took it.
    #[error("the receiver did not accept it: start it with --also for this address")]
    NotTaken,
    /// Nobody is there, or no way leads there.
    #[error("it cannot be reached")]
    Unreachable,
    /// It has ended.
    #[error("it has ended")]
    Ended,
    /// Its messages are smaller than the stream's packets.
    #[error(
        "it carries messages of {most} bytes and the stream's packets have {needed}: choose a smaller --block"
    )]
    TooSmall {
        /// What it carries.
        most: usize,
        /// What is sent.
        needed: usize,
    },
    /// The stream has as many associations as it can.
    #[error("the stream is sent over {most} transports, which is the most that is possible")]
    TooMany {
        /// How many a stream may have.
        most: usize,
    },
    /// Another association is about to take the place of the first one.
    #[error("the stream is moving to another transport at the moment: try again when it has moved")]
    Moving,
    /// The session sends to no peer that was called.
    #[error("there is no stream to which an association could be added")]
    NoStream,
}

/// The associations of one peer that is sent a track.
pub(super) struct Destinations {
    ids: [AssociationId; MOST_ASSOCIATIONS],
    count: usize,
}

impl Destinations {
    pub fn of(peer: &Peer) -> Self {
        let mut all = Destinations { ids: [AssociationId(0); MOST_ASSOCIATIONS], count: 0 };
        for id in peer.associations().take(MOST_ASSOCIATIONS) {
            all.ids[all.count] = id;
            all.count += 1;
        }
        all
    }

    pub fn ids(&self) -> &[AssociationId] {
        &self.ids[..self.count]
    }
}
