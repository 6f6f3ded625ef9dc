//! A setup on real sockets: the same participants, for a driver that has sockets and a clock.
//!
//! [`RealMedium`] says which part of a setup a machine can provide: its own loopback, or one link between two groups of
//! nodes for a live emulator; what is only modelled (an 802.11 cell, an FDDI ring, two links in a row) is an error.
//! [`NearEnd`] and [`FarEnd`] are the two ends of a stream, to be made on the thread that drives them. Their results
//! are plain data, from which [`figures`] computes those of all streams as the world does. [`Departures`] tells when traffic
//! sends, at the same instants as in the world.

mod departures;
mod ends;
mod real_medium;

pub use crate::world::counters::link_figures;
pub use crate::world::traffic::echo_figures;
pub use departures::Departures;
pub use ends::{
    End, FarEnd, FarRecord, NearEnd, NearRecord, Receiving, Sending, StreamPlacement, StreamRecord, figures,
};
pub use real_medium::{RealMedium, Wire};

use crate::world::WorldError;

/// Why a setup cannot run on real sockets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LiveError {
    /// The setup is invalid.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A machine has no such medium, and nothing here emulates it in real time.
    #[error("'{who}' is {what}: that exists as a model only; run it without --real")]
    OnlyModelled {
        /// The medium or stream.
        who: String,
        /// What it is.
        what: &'static str,
    },
}
