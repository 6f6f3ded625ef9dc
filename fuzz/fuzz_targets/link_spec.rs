//! Link specifications of users; one that is accepted makes a link whose counters balance.
#![no_main]

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_link::{DuplexSpec, Link};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(spec) = text.parse::<DuplexSpec>() else { return };
    let written = spec.to_string();
    let again: DuplexSpec =
        written.parse().unwrap_or_else(|error| panic!("{text:?} became {written:?}: {error}"));
    assert_eq!(again.to_string(), written);
    let mut link = Link::new(&spec.up, 1).expect("what was parsed is possible");
    let mut now = Instant::ZERO;
    let mut seen = 0;
    for n in 0..40u8 {
        let _dropped = link.offer(now, vec![n; 100]);
        now += Duration::from_millis(3);
        while link.poll(now).is_some() {
            seen += 1;
        }
        assert!(link.poll_timeout().is_none_or(|at| at > now), "a time-out that is due gives something");
    }
    let counters = link.counters();
    assert!(counters.balances() && counters.offered == 40 && counters.delivered == seen, "{counters:?}");
});
