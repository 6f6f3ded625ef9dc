//! Packets per second of processor time through a link that has every element: `cargo run --release --example
//! throughput`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of the models reads the clock; the models themselves do not"
)]

use antiphon_core::Instant;
use antiphon_link::{Link, LinkSpec, Packet, SpecError};

/// A packet without content, like the laboratory's: it needs no allocation.
struct Bare(usize);

impl Packet for Bare {
    fn wire_len(&self) -> usize {
        self.0
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        Bare(self.0)
    }

    fn flip_bit(&mut self, _: u64) {}
}

fn main() -> Result<(), SpecError> {
    for text in [
        "ideal",
        "wifi-home",
        "rate=60Mbit/s,delay=20ms,jitter=1ms/pareto,stall=30ms/5s,loss=1%/3,reorder=1%/5ms,duplicate=1%,corrupt=1%",
    ] {
        let spec: LinkSpec = text.parse()?;
        let mut link = Link::new(&spec, 1)?;
        let packets = 3_000_000u64;
        let began = std::time::Instant::now();
        let mut out = 0u64;
        for n in 0..packets {
            let now = Instant::from_micros(n * 200);
            link.offer(now, Bare(1064));
            while link.poll(now).is_some() {
                out += 1;
            }
        }
        let took = began.elapsed().as_secs_f64();
        let simulated = packets as f64 * 200e-6;
        println!(
            "{:.2} Mpackets/s, {:.0} times real time at 5000 packets/s, {out} delivered: {text}",
            packets as f64 / took / 1e6,
            simulated / took
        );
    }
    Ok(())
}
