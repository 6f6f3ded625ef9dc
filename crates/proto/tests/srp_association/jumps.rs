//! Clocks that are set or sleep, and a server that restarts where the protocol has no message for it.

use std::time::Duration;

use antiphon_core::{Instant, Role};
use antiphon_proto::srp::Mode;

use crate::world::{Pair, open};

/// A message each 20 ms, every fifth of which is lost; how many of them came.
fn lossy(pair: &mut Pair, count: u8) -> usize {
    let before = pair.got().len();
    for n in 0..count {
        pair.lose(usize::from(n % 5 == 2));
        pair.stream(1, false);
    }
    pair.run(Duration::from_millis(100));
    pair.got().len() - before
}

/// The improved receiver draws from the sender's clock when packets are due, and so whether asking is of use.
#[test]
fn a_sender_whose_clock_is_set_is_repaired_as_before() {
    let mut pair = Pair::new(Mode::Improved);
    assert_eq!(lossy(&mut pair, 100), 100);
    // An hour ahead, some minutes back, and by what no clock of 71 minutes can tell the sign of.
    for warp in [3_600_000_000u32, 0u32.wrapping_sub(400_000_000), 1 << 31] {
        pair.warp(warp);
        let came = lossy(&mut pair, 100);
        // The few before the first packet behind the jump may be taken for too old.
        assert!(came >= 98, "{came} of 100 behind a jump of {warp} us");
    }
}

/// A machine that slept: for both ends' clocks an hour passes at once, with packets missing and requests under way.
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
        // Fifty messages, ten repairs, and a request or a probe for each of these at most.
        let sent = [pair.sent()[0] - before[0], pair.sent()[1] - before[1]];
        assert!(sent[0] <= 64 * 216 + 200 && sent[1] <= 30 * 28, "{mode:?}: {sent:?}");
        assert!(came >= 48, "{mode:?}: {came} of 50");
    }
}

/// As published, a server that restarts is too late with everything: a fault of the report's, kept. It must cost no more
/// than what the client asks for by itself, and the improved mode does not have it.
#[test]
fn as_published_a_restarted_server_causes_no_storm() {
    let mut pair = Pair::new(Mode::AsPublished);
    pair.stream(100, false);
    pair.side(0).endpoint = open(Mode::AsPublished, Role::Caller, 2, pair.world.now);
    let (got, before) = (pair.got().len(), pair.sent());
    pair.stream(90, false);
    assert_eq!(pair.got().len(), got, "all of them are numbers from before");
    // 1.8 s: a request each two milliseconds would be 14 kB; answered is none of them.
    let sent = [pair.sent()[0] - before[0], pair.sent()[1] - before[1]];
    assert!(sent[0] <= 90 * 216 + 100 && sent[1] < 2_000, "{sent:?}");
    // As soon as its numbers reach the awaited one, it is received again.
    pair.stream(30, false);
    assert!(pair.got().len() > got + 15, "{}", pair.got().len() - got);
    assert!(pair.world.now < Instant::from_millis(6_000));
}
