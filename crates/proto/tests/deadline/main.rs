//! `Message::deadline` means the same to every transport: the latest instant at which a transmission or retransmission may
//! leave.

#[path = "../common/mod.rs"]
mod common;
mod world;

use std::time::Duration;

use world::{INTERVAL, Plan, Run, run};

/// Lost messages, and those of them that came by their playout.
fn repaired(run: &Run, plan: &Plan<'_>) -> (usize, usize) {
    let playout = plan.one_way + plan.playout_delay;
    let in_time =
        run.lost.iter().filter(|number| run.arrived.get(number).is_some_and(|(age, _)| *age <= playout));
    (run.lost.len(), in_time.count())
}

/// Ten minutes in ten runs, in which a hundredth of the datagrams gets lost each way: a loss shows after 65 ms of the 80
/// that a message has, and there is no time to find that its repair got lost as well.
fn share_repaired(scheme: &str, message_bytes: usize) -> f64 {
    let (mut lost, mut in_time) = (0, 0);
    for seed in 1..=10 {
        let plan = Plan { scheme, message_bytes, seed, ..STEREO };
        let run = run(&plan);
        let (run_lost, run_in_time) = repaired(&run, &plan);
        // The receiver distinguishes repaired messages from others.
        assert!(run.arrived.iter().all(|(number, (_, repaired))| *repaired == run.lost.contains(number)));
        lost += run_lost;
        in_time += run_in_time;
    }
    let share = in_time as f64 / lost as f64;
    println!("{scheme}, {message_bytes} bytes: {in_time} of {lost} repaired, {share}");
    assert!(lost > 900, "{lost} of 112 500 messages lost");
    share
}

#[test]
fn srp_repairs_losses_while_playable() {
    assert!(share_repaired("srp", SIXTEEN_BITS) >= 0.99);
}

#[test]
fn arq_repairs_losses_while_playable() {
    assert!(share_repaired("arq", SIXTEEN_BITS) >= 0.99);
}

/// 4.5 kB are on their way at once, within the least congestion window after a loss: 5.7 kB (RFC 9260 §7.2.3).
#[test]
fn sctp_repairs_losses_while_playable() {
    assert!(share_repaired("sctp", EIGHT_BITS) >= 0.99);
}

/// These 12 kB on their way are more than the least window after a loss, and what waits has no time left for a repair.
/// Losses that come close together leave no more than that, and the rest nearly all that is used.
#[test]
fn sctp_repairs_what_its_window_permits() {
    assert!(share_repaired("sctp", SIXTEEN_BITS) >= 0.9);
}

/// A stream on a path that loses one datagram in twenty each way. Where congestion control keeps messages back, they wait
/// in the queue until their deadlines and no longer.
fn nothing_is_stale(scheme: &str, query: &str, after_deadline: Duration) {
    let plan = Plan { scheme, query, one_way: ONE_WAY, loss: 0.05, ..STEREO };
    let run = run(&plan);
    let oldest = run.arrived.values().map(|(age, _)| *age).max().expect("messages arrive");
    println!("{scheme} {query}: {} arrived, the oldest after {oldest:?}", run.arrived.len());
    assert_eq!(run.sent_late.len(), 0, "{scheme} {query}");
    assert!(oldest <= plan.playout_delay + after_deadline, "{scheme} {query}: {oldest:?}");
    // A deadline itself is in time.
    let at_once = Duration::from_nanos(1);
    assert!(
        run.expired_unsent.iter().all(|late| *late <= at_once),
        "{scheme} {query}: {:?}",
        run.expired_unsent
    );
    assert!(run.lost.len() > 200, "{} lost", run.lost.len());
}

#[test]
fn nothing_is_sent_after_its_deadline() {
    for (scheme, query) in [
        ("sctp", ""),
        ("dccp", "ccid=2"),
        ("dccp", "ccid=3"),
        ("srp", ""),
        ("arq", ""),
        ("arq", "congestion=aimd"),
        ("rtp", ""),
    ] {
        nothing_is_stale(scheme, query, ONE_WAY);
    }
}

/// Messages in order wait for one that is lost, until FORWARD TSN tells that it is given up: a round trip after it was sent,
/// just before its deadline, and one more where FORWARD TSN gets lost; with each, a SACK may be put off by 10 ms.
#[test]
fn sctp_in_order_forwards_past_what_is_given_up() {
    let round_trip = 2 * ONE_WAY + Duration::from_millis(10);
    nothing_is_stale("sctp", "order=ordered", ONE_WAY + 2 * round_trip);
}

const ONE_WAY: Duration = Duration::from_millis(20);
const STEREO: Plan<'_> = Plan {
    scheme: "",
    query: "",
    one_way: Duration::from_millis(30),
    loss: 0.01,
    playout_delay: Duration::from_millis(80),
    messages: 60_000_000_000 / INTERVAL.as_nanos() as u64,
    message_bytes: SIXTEEN_BITS,
    seed: 0,
};
/// An RTP header and the extension that holds a clock.
const HEADERS: usize = 28;
/// 256 sample frames of two channels, linear at 48 kHz.
const SIXTEEN_BITS: usize = 256 * 4 + HEADERS;
/// 171 sample frames of two channels, G.711 at 32 kHz.
const EIGHT_BITS: usize = 171 * 2 + HEADERS;
