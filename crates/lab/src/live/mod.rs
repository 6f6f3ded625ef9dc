//! A setup outside the virtual world: the same participants, for a driver that has sockets and a clock.
//!
//! [`RealMedium`] says what of a setup a machine can have for real: its own loopback, or one link between two groups of
//! nodes for a live emulator; what is only modelled (an 802.11 cell, an FDDI ring, two links in a row) is an error that
//! says so. [`NearEnd`] and [`FarEnd`] are the two ends of a stream, to be made on the thread that drives them. What they
//! leave is plain data, of which [`figures`] makes what the world makes of the same participants. [`Departures`] says when
//! traffic sends, at the same instants as in the world.

mod departures;
mod ends;
mod real_medium;

pub use crate::world::counters::link_figures;
pub use crate::world::traffic::echo_figures;
pub use departures::Departures;
pub use ends::{End, FarEnd, FarRecord, NearEnd, NearRecord, Receiving, Sending, StreamPlacement, figures};
pub use real_medium::{RealMedium, Wire};

use crate::world::WorldError;

/// Why a setup can't be had for real.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LiveError {
    /// There is no such world at all.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A machine has no such medium, and nothing here emulates it in real time.
    #[error("'{who}' is {what}: that is only modelled; run it without --real")]
    OnlyModelled {
        /// The medium or stream.
        who: String,
        /// What it is.
        what: &'static str,
    },
}
