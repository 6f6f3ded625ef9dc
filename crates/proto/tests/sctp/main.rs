//! SCTP in virtual time over modelled links, and against hostile peers.

mod acks;
#[path = "../common/mod.rs"]
mod common;
mod handshake;
mod heartbeats;
mod hostile;
mod loss;
mod mtu;
mod paths;
mod peers;
mod sharing;
mod stereo;
mod world;
