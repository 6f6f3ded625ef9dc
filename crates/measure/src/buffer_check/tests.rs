use super::*;
use antiphon_core::Rng;
use proptest::prelude::*;

/// (empty, not_full) of both variants over packets of (delay before it in tenths of a millisecond, number).
fn both(packets: &[(u64, u64)]) -> [(u64, u64); 2] {
    let rule = BufferRule::PUBLISHED;
    [BufferCheck::by_bytes(rule), BufferCheck::by_sequence(rule, Some(1))].map(|mut check| {
        for (delay, seq) in packets {
            check.on_packet(Duration::from_micros(delay * 100), *seq, 1300);
        }
        (check.result().empty, check.result().not_full)
    })
}

fn steady(n: u64, spacing: u64) -> Vec<(u64, u64)> {
    (1..=n).map(|seq| (if seq == 1 { 0 } else { spacing }, seq)).collect()
}

/// A steady stream without the packets for which `lost` is true: their spacing is added to the next packet.
fn without(n: u64, mut lost: impl FnMut(u64) -> bool) -> Vec<(u64, u64)> {
    let mut waited = 0;
    let mut packets = Vec::new();
    for (delay, seq) in steady(n, 74) {
        waited += delay;
        if !lost(seq) {
            packets.push((waited, seq));
            waited = 0;
        }
    }
    packets
}

#[test]
fn vectors_of_the_sheet() {
    assert_eq!(both(&steady(1000, 74)), [(0, 0), (0, 0)]);
    let mut pause = steady(100, 74);
    pause[50].0 = 700;
    assert_eq!(both(&pause), [(0, 0), (0, 0)]);
    pause[50].0 = 740;
    assert_eq!(both(&pause), [(1, 0), (1, 0)]);
    assert_eq!(both(&without(200, |n| (51..59).contains(&n))), [(0, 0), (0, 0)]);
    assert_eq!(both(&without(200, |n| (51..60).contains(&n))), [(1, 0), (0, 0)]);
    assert_eq!(both(&steady(4055, 76)), [(11, 0), (11, 0)]);
}

#[test]
fn a_deadline_is_due_at_its_instant() {
    // Nine packets at once, then only duplicates: the buffer is empty after 59.2 ms, and one packet short at the next
    // deadline at 66.6 ms.
    let mut packets = steady(9, 0);
    packets.extend([(592, 9), (73, 9)]);
    assert_eq!(both(&packets)[1], (0, 0));
    packets[10].0 = 74;
    assert_eq!(both(&packets)[1], (1, 0));
}

#[test]
fn spacing_of_7_55_ms() {
    let rule = BufferRule::PUBLISHED;
    for mut check in [BufferCheck::by_bytes(rule), BufferCheck::by_sequence(rule, None)] {
        for seq in 1..=4055 {
            check.on_arrival(Instant::from_micros(7_550 * seq), seq, 1300);
        }
        assert_eq!((check.result().empty, check.result().not_full), (8, 0));
    }
}

#[test]
fn two_percent_of_independent_loss() {
    // Sheet: about 70 empty and 15 not full by bytes, none by number. Twenty seeds reduce the standard error of the
    // means to 2 and 1; five of them are well under the effect of a misread restart rule.
    let (mut empty, mut not_full) = (0, 0);
    for seed in 0..20 {
        let mut rng = Rng::fork(seed, "buffer check");
        let [bytes, sequence] = both(&without(31_000, |_| rng.chance(0.02)));
        assert_eq!(sequence, (0, 0));
        empty += bytes.0;
        not_full += bytes.1;
    }
    let (empty, not_full) = (empty as f64 / 20.0, not_full as f64 / 20.0);
    assert!((empty - 70.0).abs() < 10.0, "{empty}");
    assert!((not_full - 15.0).abs() < 5.0, "{not_full}");
}

#[test]
fn tcp_segments_behind_a_hole_wait_for_it() {
    let mut check = BufferCheck::by_sequence(BufferRule::PUBLISHED, Some(1));
    // Numbers 2 and 3 arrived before 1: they become usable with it and add no delay.
    for (ms, seq) in [(60, 1), (10, 2), (20, 3), (61, 4)] {
        check.on_arrival(Instant::from_millis(ms), seq, 1300);
    }
    assert_eq!(check.time, 1_000_000);
}

#[test]
fn other_packet_lengths_keep_the_budget() {
    // 256 sample frames at 48 kHz: 13 packets make 69.3 ms.
    let rule = BufferRule::for_packets(Duration::from_nanos(5_333_333), 1024);
    assert_eq!(rule.prefill_bytes, 13 * 1024);
    assert!(rule.prefill() <= Duration::from_millis(70));
    assert_eq!(BufferRule::PUBLISHED.prefill(), Duration::from_micros(66_600));
}

#[test]
fn lip_sync_needs_both() {
    let mut check = BufferCheck::by_sequence(BufferRule::PUBLISHED, Some(1));
    assert!(!LipSync::judge(Some(0.0), &check).pass, "nothing was received");
    steady(100, 74)
        .iter()
        .for_each(|(delay, seq)| check.on_packet(Duration::from_micros(delay * 100), *seq, 1300));
    assert!(LipSync::judge(Some(1.8), &check).pass);
    assert!(!LipSync::judge(Some(1.81), &check).pass);
    check.on_packet(Duration::from_millis(500), 101, 1300);
    let judged = LipSync::judge(Some(0.0), &check);
    assert!(!judged.pass && judged.empty_per_1000 == Some(1000.0 / 101.0));
    assert!((judged.skew_ms - 76.6).abs() < 1e-9);
}

/// The sheet's pseudo-code literally, deadline by deadline.
fn plain(packets: &[(u64, u64)], by_number: bool) -> (u64, u64) {
    let (mut t, mut b, mut playing, mut d, mut last) = (0i64, 0i64, false, 0i64, 0u64);
    let (mut empty, mut not_full) = (0, 0);
    for (delay, n) in packets {
        t += *delay as i64;
        if !by_number {
            b += 1300;
        } else if *n > last {
            b += 1300 * (*n - last) as i64;
            last = *n;
        }
        let restart = if !playing {
            if t > 700 {
                not_full += 1;
                true
            } else {
                if b >= 11_700 {
                    playing = true;
                    b -= 1300;
                    d = t + 74;
                }
                false
            }
        } else {
            while d <= t {
                b -= 1300;
                d += 74;
            }
            empty += u64::from(b < 0);
            b < 0
        };
        if restart {
            (t, b, playing) = (0, 0, false);
        }
    }
    (empty, not_full)
}

proptest! {
    #[test]
    fn agrees_with_the_pseudo_code(
        // Multiples of 3.7 ms coincide with deadlines to the tenth of a millisecond.
        packets in prop::collection::vec((prop_oneof![0u64..200, (0u64..6).prop_map(|n| n * 37)], 1u64..600), 0..500),
    ) {
        let [bytes, sequence] = both(&packets);
        prop_assert_eq!(bytes, plain(&packets, false));
        prop_assert_eq!(sequence, plain(&packets, true));
    }

    #[test]
    fn hostile_numbers_and_times_end(packets in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..100)) {
        let mut check = BufferCheck::by_sequence(BufferRule::for_packets(Duration::ZERO, 0), None);
        for (delay, seq, len) in packets {
            check.on_packet(Duration::from_nanos(delay), seq, len);
        }
    }
}
