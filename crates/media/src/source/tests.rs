use super::*;
use proptest::prelude::*;

const HERE: PathId = PathId(0);

fn tracker() -> SourceTracker {
    SourceTracker::new(Some(99), Duration::from_millis(500))
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

#[test]
fn the_first_packet_counts_and_other_senders_stay_out() {
    let mut t = tracker();
    assert_eq!(t.on_packet(at(0), 1, HERE, 65_535), Verdict::NewStream);
    for n in 0..50u64 {
        assert_eq!(t.on_packet(at(n * 10), 1, HERE, n as u16), Verdict::Accepted);
        let first = n == 0;
        assert_eq!(t.on_packet(at(n * 10), 2, HERE, n as u16), Verdict::UnknownSource { first });
    }
    // The same SSRC from elsewhere, and our own.
    assert!(matches!(t.on_packet(at(500), 1, PathId(1), 50), Verdict::UnknownSource { first: true }));
    assert_eq!(t.on_packet(at(500), 99, HERE, 50), Verdict::Own);
    let expected = SourceCounters { accepted: 51, streams: 1, jumps: 0, unknown_sources: 51, own: 1 };
    assert_eq!(t.counters(), expected);
}

#[test]
fn a_stray_datagram_does_not_lock_the_sender_out() {
    let mut t = tracker();
    assert_eq!(t.on_packet(at(0), 7, HERE, 1234), Verdict::NewStream);
    assert_eq!(t.on_packet(at(1), 1, HERE, 10), Verdict::UnknownSource { first: true });
    assert_eq!(t.on_packet(at(2), 1, HERE, 11), Verdict::NewStream);
    assert_eq!(t.ssrc(), Some(1));
}

#[test]
fn a_silent_sender_gives_way_and_one_that_left_does_so_at_once() {
    let mut t = tracker();
    t.on_packet(at(0), 1, HERE, 1);
    t.on_packet(at(10), 1, HERE, 2);
    assert!(matches!(t.on_packet(at(100), 2, HERE, 1), Verdict::UnknownSource { .. }));
    assert!(matches!(t.on_packet(at(110), 2, HERE, 2), Verdict::UnknownSource { .. }));
    assert_eq!(t.on_packet(at(600), 2, HERE, 3), Verdict::NewStream);
    t.on_packet(at(610), 2, HERE, 4);
    t.on_bye(2);
    assert_eq!(t.on_packet(at(620), 3, HERE, 77), Verdict::NewStream);
}

#[test]
fn a_restart_under_the_same_name_is_a_new_stream() {
    let mut t = tracker();
    t.on_packet(at(0), 1, HERE, 10);
    t.on_packet(at(1), 1, HERE, 11);
    assert_eq!(t.on_packet(at(2), 1, HERE, 30_000), Verdict::Jump);
    assert_eq!(t.on_packet(at(3), 1, HERE, 12), Verdict::Accepted, "a single jump does not disturb");
    assert_eq!(t.on_packet(at(4), 1, HERE, 30_001), Verdict::Jump);
    assert_eq!(t.on_packet(at(5), 1, HERE, 30_002), Verdict::NewStream);
    assert_eq!(t.on_packet(at(6), 1, HERE, 29_990), Verdict::Accepted, "a little reordering");
}

/// A sender with SSRC 1 and two groups: the second has SSRC `ssrc`.
fn of(group: usize, ssrc: u32) -> Origin {
    Origin { ssrc, sender: 1, group, groups: 2 }
}

#[test]
fn each_group_has_a_place_of_its_own() {
    let mut t = tracker();
    // The first packet heard is not of the first group.
    assert_eq!(t.on_packet_of(at(0), of(1, 20), HERE, 500), Verdict::NewStream);
    assert_eq!((t.ssrc(), t.group_of(20), t.heard_groups()), (Some(1), Some(1), 0b10));
    assert_eq!(t.on_packet_of(at(0), of(0, 1), HERE, 60_000), Verdict::Accepted);
    assert_eq!(t.heard_groups(), 0b11);
    for n in 1..20u16 {
        assert_eq!(t.on_packet_of(at(n.into()), of(1, 20), HERE, 500 + n), Verdict::Accepted);
        assert_eq!(t.on_packet_of(at(n.into()), of(0, 1), HERE, 60_000 + n), Verdict::Accepted);
        // Another source for the second group, with numbers in a row.
        let verdict = t.on_packet_of(at(n.into()), of(1, 30), HERE, n);
        assert_eq!(verdict, Verdict::UnknownSource { first: n == 1 });
    }
    // Beyond its groups, or with another number of them, it is another sender.
    assert!(matches!(t.on_packet_of(at(20), of(2, 40), HERE, 1), Verdict::UnknownSource { .. }));
    let three = Origin { groups: 3, ..of(0, 1) };
    assert!(matches!(t.on_packet_of(at(20), three, HERE, 60_020), Verdict::UnknownSource { .. }));
}

#[test]
fn one_group_goes_on_with_other_numbers_or_under_another_ssrc() {
    let mut t = tracker();
    for n in 0..10u16 {
        t.on_packet_of(at(n.into()), of(0, 1), HERE, n);
        t.on_packet_of(at(n.into()), of(1, 20), HERE, n);
    }
    assert_eq!(t.on_packet_of(at(10), of(1, 20), HERE, 30_000), Verdict::Jump);
    assert_eq!(t.on_packet_of(at(11), of(1, 20), HERE, 30_001), Verdict::Resumed);
    assert_eq!(t.on_packet_of(at(11), of(0, 1), HERE, 10), Verdict::Accepted, "the other goes on");
    // After its own BYE, two packets in a row of another SSRC take its place; the sender stays.
    t.on_bye(20);
    assert!(matches!(t.on_packet_of(at(12), of(1, 30), HERE, 7), Verdict::UnknownSource { .. }));
    assert_eq!(t.on_packet_of(at(13), of(1, 30), HERE, 8), Verdict::Resumed);
    assert_eq!((t.ssrc(), t.group_of(30), t.group_of(20)), (Some(1), Some(1), None));
    // The same after silence.
    for n in 0..100u16 {
        t.on_packet_of(at(20 + 10 * u64::from(n)), of(0, 1), HERE, 11 + n);
    }
    assert!(matches!(t.on_packet_of(at(1_020), of(1, 40), HERE, 1), Verdict::UnknownSource { .. }));
    assert_eq!(t.on_packet_of(at(1_021), of(1, 40), HERE, 2), Verdict::Resumed);
    assert_eq!(t.counters().streams, 1);
}

#[test]
fn another_divided_sender_takes_over() {
    let mut t = tracker();
    t.on_packet(at(0), 7, HERE, 1);
    t.on_packet(at(1), 7, HERE, 2);
    let mut took_over = None;
    for n in 0..10u16 {
        for group in 0..2 {
            let verdict = t.on_packet_of(at(600 + u64::from(n)), of(group, 1 + group as u32), HERE, n);
            if verdict == Verdict::NewStream {
                took_over.get_or_insert(n);
            }
        }
    }
    assert_eq!((took_over, t.ssrc(), t.heard_groups()), (Some(1), Some(1), 0b11));
}

proptest! {
    #[test]
    fn every_packet_ends_in_one_count(packets in prop::collection::vec((0u64..2000, 0u32..4, 0u32..2, any::<u16>()), 0..300)) {
        let (mut t, mut now) = (SourceTracker::new(Some(3), Duration::from_millis(500)), 0);
        for (step, ssrc, path, sequence) in &packets {
            now += step;
            t.on_packet(at(now), *ssrc, PathId(*path), *sequence);
        }
        let c = t.counters();
        prop_assert_eq!(c.accepted + c.jumps + c.unknown_sources + c.own, packets.len() as u64);
    }
}
