//! In steady state no segment causes an allocation: buffers are reused between the two ends.
//!
//! This holds without losses: a lost segment takes its buffer with it, and another is made.

#[path = "common/pair.rs"]
mod pair;

use antiphon_core::Instant;
use antiphon_lab::tcp::Profile;
use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use pair::Pair;

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

#[test]
fn a_greedy_flow_runs_without_allocating() {
    let profile = Profile { send_buffer: 128 * 1024, ..Profile::linux() };
    let link = "delay=20ms,rate=100Mbit/s".parse().expect("a link");
    let mut pair = Pair::new(profile, profile, &link, 1).expect("a link");
    let (bytes, mut buf) = (vec![1; 1 << 16], vec![0; 1 << 16]);
    let mut run = |pair: &mut Pair, until: u64| {
        pair.transmit();
        while let Some(at) = pair.poll_timeout().filter(|at| *at < Instant::from_millis(until)) {
            pair.step(at);
            while pair.near.write(at, &bytes) > 0 {}
            while pair.far.read(at, &mut buf) > 0 {}
            pair.transmit();
        }
    };
    run(&mut pair, 5_000);
    let before = pair.near.stats().segments_sent;
    assert_no_alloc(|| run(&mut pair, 20_000));
    assert!(pair.near.stats().segments_sent > before + 10_000, "it ran");
}
