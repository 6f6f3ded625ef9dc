//! What is written down about packets: [captures](capture) of whole packets as pcapng, for analysers, also of what is
//! [inside] them, and [passports](passport) of times and losses, for replay.
//!
//! Nothing here knows a socket, a clock or a thread: times are handed in, bytes go to an [`io::Write`](std::io::Write).
//! `net` writes what real sockets carried, the laboratory what virtual links did.

pub mod capture;
pub mod headers;
pub mod inside;
pub mod passport;
pub mod pcapng;

pub use capture::{CaptureWriter, Interface};
pub use passport::{Passport, PassportError, PassportReader, PassportWriter, PathSample, Paths};
