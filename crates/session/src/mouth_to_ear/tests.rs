use antiphon_core::Epoch;

use super::*;

/// One end, whose clock is so many nanoseconds ahead.
struct End {
    meter: DelayMeter,
    epoch: Epoch,
}

fn end(ahead: u64) -> End {
    let ntp_at_zero = NtpTime::from_unix(Duration::from_secs(1_000)).plus(Duration::from_nanos(ahead));
    End { meter: DelayMeter::default(), epoch: Epoch { ntp_at_zero } }
}

/// Two ends talk for four seconds over ways that take so long for a packet of sound of 1056 bytes, and for a short one.
/// Both play each packet 40 ms after an undelayed one came.
fn talk(ahead: u64, ways: [(Duration, Duration); 2]) -> [DelayMeter; 2] {
    let mut ends = [end(0), end(ahead)];
    for block in 0..800_u64 {
        let sent = Instant::from_millis(1 + 5 * block);
        for (from, (long, short)) in ways.into_iter().enumerate() {
            let told = ends[from].meter.tells(sent, ends[from].epoch, from as u32, None);
            let stamp = ends[from].epoch.ntp(sent);
            let End { meter, epoch } = &mut ends[1 - from];
            // Each fourth packet waits.
            let waits = Duration::from_millis(if block % 4 == 0 { 3 } else { 0 });
            let ear = Some(sent + long + ms(40));
            meter.on_sound(*epoch, (sent + long + waits, stamp, 1056), false, ear);
            if block % 50 == 0 {
                meter.on_told(sent + short, *epoch, sent + short, false, told);
            }
        }
    }
    ends.map(|end| end.meter)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const NOW: Instant = Instant::from_millis(4_100);

#[test]
fn both_ends_find_both_ways_by_clocks_that_differ() {
    for ahead in [0, 123_456_789, 3_600_000_000_000, 1 << 60] {
        let ends = talk(ahead, [(ms(20), ms(20)); 2]);
        for meter in ends {
            let found = meter.estimate(NOW).unwrap();
            let off = |time: Duration| time.abs_diff(ms(60));
            assert!(off(found.from_peer).max(off(found.to_peer)) < Duration::from_micros(1), "{found:?}");
            // Stamps have 0.23 ns.
            assert!(found.round_trip.abs_diff(ms(40)) < Duration::from_nanos(10), "{found:?}");
            assert_eq!(found.basis, Basis::Symmetry, "clocks {ahead} ns apart");
            assert!(found.half_width <= found.round_trip / 4, "{found:?}");
        }
    }
}

#[test]
fn a_short_path_needs_no_assumption() {
    // One way takes all of it.
    for meter in talk(5_000_000_000, [(ms(2), ms(2)), (ms(0), ms(0))]) {
        let found = meter.estimate(NOW).unwrap();
        assert_eq!(found.basis, Basis::RoundTrip);
        assert!(found.half_width <= ms(2));
        // One end hears after 42 ms and is heard after 40 ms, the other the other way round.
        let off = |time: Duration, truth| time.abs_diff(ms(truth));
        let one = off(found.from_peer, 42).max(off(found.to_peer, 40));
        let other = off(found.from_peer, 40).max(off(found.to_peer, 42));
        assert!(one.max(other) <= found.half_width, "{found:?}");
        let sum = found.from_peer + found.to_peer;
        assert!(sum.abs_diff(ms(82)) < Duration::from_nanos(10), "the sum is exact: {sum:?}");
    }
}

#[test]
fn asymmetry_that_shows_is_told() {
    // By clocks that agree, and by a rate that differs, whatever the clocks.
    let cases = [
        (0, [(ms(5), ms(5)), (ms(45), ms(45))], Asymmetry::Clocks),
        (1 << 50, [(ms(30), ms(10)), (ms(10), ms(10))], Asymmetry::Rate),
    ];
    for (ahead, ways, expected) in cases {
        for meter in talk(ahead, ways) {
            let found = meter.estimate(NOW).unwrap();
            assert_eq!(found.basis, Basis::Asymmetry(expected), "{found:?}");
            assert!(found.half_width >= found.round_trip / 2);
        }
    }
}

#[test]
fn what_the_peer_tells_cannot_do_harm() {
    let [mut meter, _] = talk(0, [(ms(20), ms(20)); 2]);
    let before = meter.peer.unwrap().1;
    for (transit, ear) in [(i64::MIN + 1, 0), (i64::MAX, i64::MAX), (0, i64::MIN + 1), (-(1 << 62), 1 << 62)]
    {
        let heard = before.heard.map(|heard| HeardDelays { transit, ear, ..heard });
        let told = Delays { heard, ..before };
        meter.on_told(NOW, Epoch::default(), NOW, true, told);
        assert_eq!(meter.estimate(NOW), None, "{transit} {ear}");
    }
    let told = Delays { captured: Duration::from_secs(4_000), ..before };
    meter.on_told(NOW, Epoch::default(), NOW, true, told);
    assert_eq!(meter.estimate(NOW), None);
}

#[test]
fn a_clock_that_was_set_begins_anew() {
    let [mut meter, _] = talk(0, [(ms(20), ms(20)); 2]);
    let told = meter.peer.unwrap().1;
    assert!(meter.estimate(NOW).is_some());
    assert_eq!(meter.estimate(NOW + ms(4_000)), None, "the peer tells nothing any more");
    meter.on_told(NOW, Epoch::default(), NOW, true, Delays { steps: told.steps + 1, ..told });
    assert_eq!(meter.estimate(NOW), None, "the peer's clock was set");
}
