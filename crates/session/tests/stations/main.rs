//! Stations over real endpoints and modelled links, in virtual time that jumps to the next event.

mod call;
mod clocked;
#[path = "../common/mod.rs"]
mod common;
mod convert;
mod dccp_flood;
mod frames;
mod framing;
mod groups;
mod hostile;
mod hub;
mod many;
mod pipe;
mod recording;
mod sctp_parties;
mod sender;
mod sound;
mod srp_server;
mod stream;
mod streams;
mod world;
