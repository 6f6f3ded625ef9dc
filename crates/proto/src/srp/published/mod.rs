//! SRP exactly as in the report, as two state machines: [`Client`] and [`Server`].

mod client;
mod early;
mod server;

use antiphon_core::Instant;

pub(super) use client::MARK;
pub use client::{Client, ClientConfig, MIN_WAIT};
pub use server::{MAX_ANSWERS, Server};

/// Totals of a client or a server; those of the other side stay zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages delivered to the application.
    pub delivered: u64,
    /// Messages given up.
    pub given_up: u64,
    /// Messages that arrived after they were given up, or again after they were delivered.
    pub too_late: u64,
    /// Messages too far ahead for the buffer.
    pub beyond_buffer: u64,
    /// Messages that arrived twice before they were due.
    pub duplicates: u64,
    /// NACKs sent.
    pub nacks: u64,
    /// Time-outs while waiting for a message or an answer.
    pub timeouts: u64,
    /// Messages retransmitted.
    pub retransmitted: u64,
    /// NACKs for messages that are not kept, or were requested too often.
    pub nacks_ignored: u64,
    /// Probes beyond the limit.
    pub probes_ignored: u64,
}

/// The sender's clock in milliseconds, as in a packet.
fn clock_ms(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
