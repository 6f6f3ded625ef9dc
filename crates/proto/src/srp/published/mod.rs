//! SRP to the letter of the report, as two state machines: [`Client`] and [`Server`].

mod client;
mod early;
mod server;

use antiphon_core::Instant;

pub(super) use client::MARK;
pub use client::{Client, ClientConfig, MIN_WAIT};
pub use server::{MAX_ANSWERS, Server};

/// Totals of a client or a server; what does not concern a side stays zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages handed to the application.
    pub delivered: u64,
    /// Messages given up.
    pub given_up: u64,
    /// Messages that came after they were given up, or a second time after they were delivered.
    pub too_late: u64,
    /// Messages so far ahead that the buffer had no place for them.
    pub beyond_buffer: u64,
    /// Messages that came twice before they were due.
    pub duplicates: u64,
    /// NACKs sent.
    pub nacks: u64,
    /// Times out while waiting for a message or an answer.
    pub timeouts: u64,
    /// Messages sent again.
    pub retransmitted: u64,
    /// NACKs for messages that are not kept, or asked for too often.
    pub nacks_ignored: u64,
    /// Probes beyond the limit.
    pub probes_ignored: u64,
}

/// The sender's clock in milliseconds, as it stands in a packet.
fn clock_ms(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
