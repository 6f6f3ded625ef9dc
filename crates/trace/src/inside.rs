//! Reassembles messages from the contents of a transport's packets, for captures.
//!
//! A capture sees the traffic at one point: parts may be missing, reordered or repeated, and a peer may send parts of
//! messages that never end. Therefore memory is bounded, and parts that could not be shown are counted.

mod cutter;
mod joiner;

pub use cutter::Cutter;
pub use joiner::{Joiner, MAX_HELD, MAX_HELD_BYTES, MAX_PIECES};
