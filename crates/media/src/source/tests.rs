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
fn the_first_packet_counts_and_strangers_stay_out() {
    let mut t = tracker();
    assert_eq!(t.on_packet(at(0), 1, HERE, 65_535), Verdict::NewStream);
    for n in 0..50u64 {
        assert_eq!(t.on_packet(at(n * 10), 1, HERE, n as u16), Verdict::Accepted);
        let first = n == 0;
        assert_eq!(t.on_packet(at(n * 10), 2, HERE, n as u16), Verdict::Stranger { first });
    }
    // The same SSRC from elsewhere, and our own.
    assert!(matches!(t.on_packet(at(500), 1, PathId(1), 50), Verdict::Stranger { first: true }));
    assert_eq!(t.on_packet(at(500), 99, HERE, 50), Verdict::Own);
    let expected = SourceCounters { accepted: 51, streams: 1, jumps: 0, strangers: 51, own: 1 };
    assert_eq!(t.counters(), expected);
}

#[test]
fn a_stray_datagram_does_not_lock_the_sender_out() {
    let mut t = tracker();
    assert_eq!(t.on_packet(at(0), 7, HERE, 1234), Verdict::NewStream);
    assert_eq!(t.on_packet(at(1), 1, HERE, 10), Verdict::Stranger { first: true });
    assert_eq!(t.on_packet(at(2), 1, HERE, 11), Verdict::NewStream);
    assert_eq!(t.ssrc(), Some(1));
}

#[test]
fn a_silent_sender_gives_way_and_one_that_left_does_so_at_once() {
    let mut t = tracker();
    t.on_packet(at(0), 1, HERE, 1);
    t.on_packet(at(10), 1, HERE, 2);
    assert!(matches!(t.on_packet(at(100), 2, HERE, 1), Verdict::Stranger { .. }));
    assert!(matches!(t.on_packet(at(110), 2, HERE, 2), Verdict::Stranger { .. }));
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

proptest! {
    #[test]
    fn every_packet_ends_in_one_count(packets in prop::collection::vec((0u64..2000, 0u32..4, 0u32..2, any::<u16>()), 0..300)) {
        let (mut t, mut now) = (SourceTracker::new(Some(3), Duration::from_millis(500)), 0);
        for (step, ssrc, path, sequence) in &packets {
            now += step;
            t.on_packet(at(now), *ssrc, PathId(*path), *sequence);
        }
        let c = t.counters();
        prop_assert_eq!(c.accepted + c.jumps + c.strangers + c.own, packets.len() as u64);
    }
}
