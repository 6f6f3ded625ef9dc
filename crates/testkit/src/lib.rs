//! What the tests of several crates share: a world of two participants in virtual time, over links and pipes that tests
//! impair; a world of the members of a group; a participant around a bare endpoint; sources and sinks whose samples tell their
//! position; a counting allocator; ports that no two tests have; another attempt where the machine stood still.
//!
//! For tests alone: nothing that ships depends on it.

mod allocations;
mod group;
mod held_up;
mod parties;
mod party;
mod ports;
mod served;
mod sine;
mod skewed;
mod skip;
mod sound;
mod steps;
mod talk;
mod threads;
mod wires;
mod world;

pub use allocations::Counting;
pub use group::{GroupMember, GroupWorld, ToMember};
pub use held_up::{longest_hold_up, unless_held_up, wait_for_even_time};
pub use parties::Parties;
pub use party::{Came, Crossing, Party};
pub use ports::free_ports;
pub use served::Served;
pub use sine::Sine;
pub use skewed::{Skew, Skewed};
pub use skip::{skip_for_want_of, skip_without_namespace};
pub use sound::{Kept, Noise, expected, sample, stereo};
pub use steps::Steps;
pub use talk::{Shape, Talk, message, number_of, numbers_in};
pub use threads::CountingThreads;
pub use wires::{Datagram, Leaves, Leaving, Pipe, Sent, Shown, Taken, Trouble, Wire, sent_on};
pub use world::{NEAR, World, datagram, ms};
