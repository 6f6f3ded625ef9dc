//! Speed of the user-space TCP: segments per second of one core, greedy and with small frames.
//!
//! `cargo run --release -p antiphon-lab --example tcp_speed`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures how long computing takes; nothing of the run depends on it"
)]

#[path = "../tests/common/pair.rs"]
mod pair;

use std::time::{Duration, Instant as Clock};

use antiphon_core::Instant;
use antiphon_lab::tcp::Profile;
use pair::Pair;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for link in ["delay=20ms,rate=100Mbit/s", "delay=20ms,up.loss=1%"] {
        greedy(link)?;
    }
    small_frames("delay=20ms,up.loss=1%")
}

fn report(name: &str, link: &str, pair: &Pair, began: Clock) {
    let (took, near, far) = (began.elapsed().as_secs_f64(), pair.near.stats(), pair.far.stats());
    let segments = near.segments_sent + far.segments_sent;
    let ran = pair.now().as_nanos() as f64 / 1e9;
    println!(
        "{name} over {link}: {segments} segments in {took:.3} s, {:.2} million/s, {:.0} times real time",
        segments as f64 / took / 1e6,
        ran / took
    );
}

fn greedy(link: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut pair = Pair::new(Profile::linux(), Profile::linux(), &link.parse()?, 1)?;
    let (bytes, mut buf) = (vec![1; 1 << 16], vec![0; 1 << 16]);
    let began = Clock::now();
    pair.transmit();
    while let Some(at) = pair.poll_timeout().filter(|at| *at < Instant::from_millis(60_000)) {
        pair.step(at);
        while pair.near.write(at, &bytes) > 0 {}
        while pair.far.read(at, &mut buf) > 0 {}
        pair.transmit();
    }
    report("greedy", link, &pair, began);
    Ok(())
}

fn small_frames(link: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut pair = Pair::new(Profile::linux(), Profile::linux(), &link.parse()?, 1)?;
    let (frame, mut buf) = ([1; 160], [0; 4096]);
    let began = Clock::now();
    let mut at = Instant::from_millis(100);
    while at < Instant::from_millis(1_000_000) {
        pair.run_until(at);
        pair.near.write(at, &frame);
        while pair.far.read(at, &mut buf) > 0 {}
        pair.transmit();
        at += Duration::from_millis(5);
    }
    report("160 bytes each 5 ms", link, &pair, began);
    Ok(())
}
