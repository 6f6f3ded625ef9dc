//! Records of packets: [captures](capture) of whole packets as pcapng, for analysers, with the messages [inside] them,
//! and [passports](passport) of times and losses, for replay.
//!
//! Nothing here uses a socket, a clock or a thread: times are passed in, bytes go to an [`io::Write`](std::io::Write).
//! `net` records what real sockets carried, the laboratory what virtual links carried.

pub mod capture;
pub mod headers;
pub mod inside;
pub mod passport;
pub mod pcapng;

pub use capture::{CaptureWriter, Interface};
pub use passport::{Passport, PassportError, PassportReader, PassportWriter, PathSample, Paths};
