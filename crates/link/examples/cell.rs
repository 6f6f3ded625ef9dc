//! Measures how many times faster than real time an 802.11g cell with a stream and two disturbing stations runs: `cargo
//! run --release --example cell`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of the models reads the clock; the models themselves do not"
)]

#[path = "../tests/common/disturbed.rs"]
mod disturbed;

use disturbed::{Setting, run};

fn main() {
    for (disturbance_mbit_s, senders) in [(0.0, 0), (10.0, 2), (20.0, 2)] {
        let setting = Setting { disturbance_mbit_s, senders, seconds: 4000, ..Setting::default() };
        let began = std::time::Instant::now();
        let outcome = run(&setting);
        let took = began.elapsed().as_secs_f64();
        println!(
            "{:.0} times real time, {:.2} Mframes/s: 135.69 packets/s beside {disturbance_mbit_s} Mbit/s of {senders} \
             stations, {:.2} % lost, {:.2} ms on average, {} dropped by the access point",
            setting.seconds as f64 / took,
            outcome.totals.attempts as f64 / took / 1e6,
            outcome.loss_percent(),
            outcome.mean_delay * 1e3,
            outcome.access_point.overflowed
        );
    }
}
