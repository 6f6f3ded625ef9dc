//! The measuring on the media thread allocates nothing once everything is constructed.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::{DelayVariation, Fate, Histogram, PacketArrival, PacketLog, PacketLogConfig};
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn recording_allocates_nothing() {
    let mut histogram = Histogram::new();
    let mut variation = DelayVariation::default();
    let mut log = PacketLog::new(PacketLogConfig {
        capacity: 5000,
        clock_rate: 48_000,
        packet: Duration::from_millis(5),
        packet_bytes: 960,
    });
    let counted = Counting::calls(|| {
        // Beyond the capacity and once around the ring, with losses, duplicates and jumps.
        for seq in 0..30_000u64 {
            let now = Instant::from_millis(5 * seq);
            log.on_sent(seq, now);
            let arrival = PacketArrival {
                seq: seq.saturating_sub(seq % 5),
                at: now + Duration::from_micros(seq % 777),
                timestamp: (seq * 240) as u32,
                len: 960,
                one_way: Some(Duration::from_micros(seq)),
                repaired: seq % 2 == 0,
            };
            log.on_received(arrival);
            log.on_fate(seq, Fate::Expired);
            log.expect_by(now - Duration::from_secs(1));
            histogram.record(Duration::from_nanos(seq.pow(3)));
            variation.on_delay(seq, Duration::from_micros(seq));
        }
    });
    assert_eq!(counted, 0);
    // Proof that the counter works: reading the jitter of a whole log collects its round trips.
    assert!(Counting::calls(|| drop(log.rows().collect::<Vec<_>>())) > 0);
}
