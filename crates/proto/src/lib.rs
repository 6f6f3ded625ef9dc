//! The transports, each a module with an [`antiphon_core::Endpoint`] and the [`antiphon_core::Stack`] that opens it, and the list
//! that names them all.
//!
//! A transport provides a [`Transport`] description: its scheme, its purpose, its substrate, its query keys and how to
//! make its stack. `compare`, the laboratory, the reports and the help texts read only [`TRANSPORTS`], so that a new
//! transport is one module and one line here.

mod adapt;
mod arq;
mod association;
mod capability;
mod cookie;
pub mod dccp;
mod deadline;
mod dissect;
mod events;
mod gf256;
mod inbox;
mod internet_checksum;
mod limit;
mod looks;
mod mtu;
mod patience;
mod pool;
mod probation;
mod query;
mod queue;
mod rack;
mod registry;
pub mod rtt;
mod sctp;
mod seeds;
pub mod srp;
mod tally;
mod tcp;
mod udp;
mod xtp;

pub use antiphon_core::cc;
pub use capability::Capability;
pub use registry::{DEFAULT_PORT, Key, OpenError, StackArgs, Substrate, Transport, find, stack};
pub use xtp::MOST_MEMBERS;

/// Every transport there is, in the order that tables and help texts list them.
pub static TRANSPORTS: &[&Transport] = &[
    &udp::TRANSPORT, //
    &tcp::TRANSPORT,
    &sctp::TRANSPORT,
    &dccp::TRANSPORT,
    &srp::TRANSPORT,
    &arq::TRANSPORT,
    &xtp::TRANSPORT,
];
