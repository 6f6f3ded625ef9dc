//! The media thread's share of the measuring allocates nothing once everything is constructed.
#![allow(unsafe_code, reason = "a counting allocator must implement GlobalAlloc")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::{
    DelayVariation, Fate, FrameArrival, FrameLog, FrameLogConfig, Histogram, StreamAccount,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread-local number that needs no
// memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn recording_allocates_nothing() {
    let (mut histogram, mut other) = (Histogram::new(), Histogram::new());
    let mut variation = DelayVariation::default();
    let mut account = StreamAccount::new();
    let mut log = FrameLog::new(FrameLogConfig {
        capacity: 5000,
        clock_rate: 48_000,
        packet: Duration::from_millis(5),
        packet_bytes: 960,
    });
    let counted = allocations_in(|| {
        // Past the capacity and round the ring, with losses, duplicates and jumps.
        for seq in 0..30_000u64 {
            let now = Instant::from_millis(5 * seq);
            log.on_sent(seq, now);
            let arrival = FrameArrival {
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
            account.on_received(seq + seq / 1000 * 100_000);
        }
        other.merge(&histogram);
    });
    assert_eq!(counted, 0);
    // The counter counts: reading the jitter of a whole log collects its round trips.
    assert!(allocations_in(|| drop(log.rows().collect::<Vec<_>>())) > 0);
}
