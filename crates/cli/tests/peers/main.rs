//! Other people's programs at the other end: ffmpeg and GStreamer as players and senders, tshark as the judge of what
//! crosses the wire, kernel namespaces and unprivileged users around the emulated link.
//!
//! `scripts/install-peers` brings them; run with `cargo test -p antiphon-cli --test peers -- --ignored`. Everything is on
//! loopback or in namespaces of the tests' own, under ports that nobody else gets. What a test waits for is an event (a
//! line that a program prints, its end), with a deadline against waiting for ever.

mod analysed;
mod child;
#[path = "../cli/common.rs"]
#[allow(dead_code, reason = "each test uses what it needs")]
mod common;
mod comparison;
mod dissect;
mod inside;
mod jack;
mod kernel_tcp;
mod links;
mod modules;
mod opus;
mod pictures;
mod played;
mod pulse;
mod sound;
mod taken;
mod tone;
mod wall_clock;
