//! Messages put together again from what a transport's packets held, for captures.
//!
//! An observer sees what crossed one point: parts may be missing, come in any order or come again, and a peer may send
//! parts that no end ever follows. Memory is bounded therefore, and what could not be shown is counted.

mod cutter;
mod joiner;

pub use cutter::Cutter;
pub use joiner::{Joiner, MAX_HELD, MAX_HELD_BYTES, MAX_PIECES};
