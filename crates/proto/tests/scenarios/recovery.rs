//! How soon sound is back after a path lost everything for a while: one association of each transport that has
//! connections, on a path of 40 ms.

use std::time::Duration;

use antiphon_core::Instant;

use crate::stream::{BEGINS, EVERY, Stream};

/// Results of a stream around an outage.
#[derive(Debug)]
struct Recovery {
    /// From the end of the outage to the first message that arrived.
    first: Duration,
    /// From the end of the outage to the hand-over of the first message from which on 100 in a row arrived.
    whole: Duration,
    /// Messages that never arrived.
    missing: u64,
}

fn recovery(scheme: &str, query: &str, outage: Duration) -> Recovery {
    let begins = Instant::from_millis(10_003);
    let ends = begins + outage;
    let count = (ends + Duration::from_secs(10)).since(BEGINS).as_nanos() / EVERY.as_nanos();
    let mut stream = Stream::new(&format!("{scheme}?{query}"), "delay=20ms", 400, count as u64);
    stream.set_budget(BUDGET);
    stream.world.outage(begins..ends);
    stream.run();
    stream.assert_lived();
    assert!(stream.world.up.lost > 0, "the outage happened");
    let came = stream.world.far.get().messages.iter().map(|came| came.at);
    let first = came.into_iter().find(|at| *at >= ends + ONE_WAY).expect("it comes back");
    let lost = stream.missing();
    let after = (0..).find(|number| stream.due(*number) >= ends).expect("messages go on");
    let is_whole = |from: &u64| !lost.iter().any(|number| (*from..*from + 100).contains(number));
    let run = (after..count as u64 - 100).find(is_whole).expect("it comes back whole");
    // The path is clean: missing messages waited when the outage began, were sent during it, or before recovery was
    // complete.
    let strays = lost.iter().filter(|number| stream.due(**number) + BUDGET < begins || **number >= run);
    assert_eq!(strays.count(), 0, "{scheme} {query}, {outage:?}: of {lost:?}");
    Recovery { first: first.since(ends), whole: stream.due(run).since(ends), missing: lost.len() as u64 }
}

#[test]
fn every_association_outlives_bursts_and_outages() {
    // By transport, bounds for a loss of 25 ms, of 100 ms, and of a second or more.
    //
    // A loss that a later packet reveals costs nothing: sound is back with the first message that passes. After a lost
    // window, CCID 2 and SCTP wait for a time-out. In an outage SCTP and both CCIDs try again after a second at the
    // latest, and need one and a half round trips from the try to the first message; ARQ, which never waits, is back
    // within a message and the delay. SRP receives nothing and reduces to a sixteenth of its messages, two of which
    // prove that numbers have advanced far.
    let at_once = EVERY + ONE_WAY;
    let second = Duration::from_secs(1) + 3 * ONE_WAY;
    let time_out = Duration::from_millis(250);
    for (scheme, query, bounds) in [
        ("sctp", "", [at_once, time_out, second]),
        ("dccp", "ccid=2", [at_once, time_out, second]),
        ("dccp", "ccid=3", [at_once, at_once, second]),
        ("srp", "", [at_once + EVERY, at_once + EVERY, 2 * 16 * EVERY + at_once]),
        ("arq", "", [at_once; 3]),
    ] {
        let lengths = [(25, 0), (100, 1), (1_000, 2), (5_000, 2), (30_000, 2)];
        for (length, bound) in lengths.map(|(ms, n)| (Duration::from_millis(ms), bounds[n])) {
            // The last try before the outage's end is up to a second old: tests eight ages of it.
            let phases = (0..if length < Duration::from_secs(1) { 1 } else { 8u32 })
                .map(|n| Duration::from_millis(125) * n);
            let found: Vec<_> = phases.map(|phase| recovery(scheme, query, length + phase)).collect();
            let worst = |of: fn(&Recovery) -> Duration| found.iter().map(of).max().expect("eight");
            let (first, whole) = (worst(|found| found.first), worst(|found| found.whole));
            let missing = found.iter().map(|found| found.missing).max().expect("eight");
            println!(
                "{scheme} {query}, {length:?}: first message {first:?}, whole {whole:?}, {missing} missing"
            );
            assert!(first <= bound, "{scheme} {query}, {length:?}: {first:?}");
            // The restart takes longest for a rate limit: a packet a second, doubled with each report.
            let whole_bound = bound + Duration::from_secs(1);
            assert!(whole <= whole_bound, "{scheme} {query}, {length:?}: {whole:?}");
        }
    }
}

const BUDGET: Duration = Duration::from_millis(100);
const ONE_WAY: Duration = Duration::from_millis(20);
