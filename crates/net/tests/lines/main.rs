//! Lines on real sockets: loopback, or private namespaces where the test needs a network of its own.
//!
//! Ports are the kernel's choice, and waiting is always for an event with a bound, never for a time to pass.

mod conformance;
mod group;
#[path = "../common/party.rs"]
mod party;
mod raw;
mod several;
mod stop;
mod tcp;
mod tcp_break;
mod udp;
mod udp_hostile;
mod world;
