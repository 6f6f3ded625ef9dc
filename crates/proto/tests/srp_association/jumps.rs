//! Clocks that are set or sleep, and a server that restarts where the protocol has no message for that.

use std::time::Duration;

use antiphon_core::{Instant, Role};
use antiphon_proto::srp::Mode;

use crate::world::{Pair, open};

/// Sends a message every 20 ms, every fifth of which is lost; returns how many arrived.
fn lossy(pair: &mut Pair, count: u8) -> usize {
    let before = pair.got().len();
    for n in 0..count {
        pair.lose(usize::from(n % 5 == 2));
        pair.stream(1, false);
    }
    pair.run(Duration::from_millis(100));
    pair.got().len() - before
}

/// The improved receiver computes from the sender's clock when packets are due, and so whether a request is useful.
#[test]
fn a_sender_whose_clock_is_set_is_repaired_as_before() {
    let mut pair = Pair::new(Mode::Improved);
    assert_eq!(lossy(&mut pair, 100), 100);
    // An hour forward, some minutes back, and half the clock's range of 71 minutes, where the sign is ambiguous.
    for warp in [3_600_000_000u32, 0u32.wrapping_sub(400_000_000), 1 << 31] {
        pair.warp(warp);
        let came = lossy(&mut pair, 100);
        // The few before the first packet after the jump may count as too old.
        assert!(came >= 98, "{came} of 100 behind a jump of {warp} us");
    }
}

/// A machine that slept: an hour passes at once on both ends' clocks, with packets missing and requests in flight.
#[test]
fn an_hour_at_once_brings_no_storm_and_the_stream_goes_on() {
    for mode in [Mode::Improved, Mode::AsPublished] {
        let mut pair = Pair::new(mode);
        lossy(&mut pair, 50);
        pair.lose(1);
        pair.stream(2, false);
        pair.world.now += Duration::from_secs(3600);
        let before = pair.sent();
        let came = lossy(&mut pair, 50);
        // Fifty messages, ten retransmissions, and at most one request or probe for each of these.
        let sent = [pair.sent()[0] - before[0], pair.sent()[1] - before[1]];
        assert!(sent[0] <= 64 * 216 + 200 && sent[1] <= 30 * 28, "{mode:?}: {sent:?}");
        assert!(came >= 48, "{mode:?}: {came} of 50");
    }
}

/// As published, every message of a restarted server is too late: a defect of the report that is kept. It must cost no
/// more than the client's usual requests, and the improved mode does not have it.
#[test]
fn as_published_a_restarted_server_causes_no_storm() {
    let mut pair = Pair::new(Mode::AsPublished);
    pair.stream(100, false);
    pair.side(0).endpoint = open(Mode::AsPublished, Role::Caller, 2, pair.world.now);
    let (got, before) = (pair.got().len(), pair.sent());
    pair.stream(90, false);
    assert_eq!(pair.got().len(), got, "all of them are numbers from before");
    // 1.8 s: a request every two milliseconds would be 14 kB; none of them is answered.
    let sent = [pair.sent()[0] - before[0], pair.sent()[1] - before[1]];
    assert!(sent[0] <= 90 * 216 + 100 && sent[1] < 2_000, "{sent:?}");
    // It is received again as soon as its numbers reach the expected one.
    pair.stream(30, false);
    assert!(pair.got().len() > got + 15, "{}", pair.got().len() - got);
    assert!(pair.world.now < Instant::from_millis(6_000));
}
