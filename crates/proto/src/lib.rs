//! The transports, each a module that implements [`antiphon_core::Endpoint`], and the one place that names them all.
//!
//! A transport brings a [`Transport`] description: its scheme, what it is good for, what lies beneath it, its query
//! keys and how to open it. `compare`, the laboratory, the reports and the help texts read [`TRANSPORTS`] and nothing
//! else, so that a new transport is one module and one line here.

mod adapt;
mod arq;
mod cookie;
pub mod dccp;
mod events;
mod inbox;
mod mtu;
mod pool;
mod query;
mod queue;
mod registry;
mod sctp;
pub mod srp;
mod tally;
mod tcp;
mod udp;

pub use registry::{Beneath, HOUSE_PORT, Key, OpenArgs, OpenError, Role, Strengths, Transport, find, open};
pub use tcp::WITHOUT_LENGTHS;

/// Every transport there is, in the order that tables and help texts list them.
pub static TRANSPORTS: &[&Transport] = &[
    &udp::TRANSPORT, //
    &tcp::TRANSPORT,
    &sctp::TRANSPORT,
    &dccp::TRANSPORT,
    &srp::TRANSPORT,
    &arq::TRANSPORT,
];
