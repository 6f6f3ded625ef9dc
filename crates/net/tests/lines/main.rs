//! Lines on real sockets: loopback, or private namespaces where a test needs a network of its own.
//!
//! The kernel chooses ports, and tests wait for events with a bound, never for a fixed time.

mod conformance;
mod group;
mod network_changes;
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
