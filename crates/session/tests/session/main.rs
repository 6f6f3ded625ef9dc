//! Sessions over real endpoints and modelled links, in virtual time that jumps to the next event.

mod adaptive;
mod associations;
mod busy;
mod call;
mod clocked;
#[path = "../common/mod.rs"]
mod common;
mod conference;
mod conference_rules;
mod conference_video;
mod congestion;
mod convert;
mod data_beside;
mod dccp_flood;
mod deadlines;
mod delivery;
mod doors;
mod framing;
mod further;
mod further_rules;
mod group_streams;
mod groups;
mod hall;
mod held_up;
mod hostile;
mod in_step;
mod late_pictures;
mod live;
mod log;
mod manager;
mod many;
mod members;
mod messages;
mod mouth_to_ear;
mod opus;
mod outcomes;
mod participants;
mod parting;
mod path_size;
mod pipe;
mod programmes;
mod protect;
mod recording;
mod reflected;
mod reflectors;
mod restarts;
mod round_trips;
mod rtcp;
mod sctp_parties;
mod sender;
mod serving;
mod soak;
mod srp_server;
mod stream;
mod streams;
mod suspended;
mod two_way;
mod video;
mod video_apart;
mod video_session;
mod voice;
mod wired;
mod world;

/// For the tests that look at memory; the others do not notice it.
#[global_allocator]
static ALLOCATOR: antiphon_testkit::Counting = antiphon_testkit::Counting;
