//! Sessions over real endpoints and modelled links, in virtual time that jumps to the next event.

mod associations;
mod call;
mod clocked;
#[path = "../common/mod.rs"]
mod common;
mod convert;
mod dccp_flood;
mod deadlines;
mod framing;
mod further;
mod further_rules;
mod group_streams;
mod groups;
mod hostile;
mod live;
mod log;
mod manager;
mod many;
mod members;
mod messages;
mod outcomes;
mod participants;
mod parting;
mod pipe;
mod protect;
mod recording;
mod reflected;
mod reflectors;
mod round_trips;
mod sctp_parties;
mod sender;
mod srp_server;
mod stream;
mod streams;
mod wired;
mod world;
