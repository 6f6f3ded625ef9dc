//! A tap neither allocates nor frees on the media thread: counted per thread by the allocator itself.

// The allocator is the one place where this crate's tests speak to memory directly.
#![allow(unsafe_code, reason = "a counting allocator can only be written with the unsafe GlobalAlloc trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use antiphon_core::{Instant, PathId, Transmit};
use antiphon_net::capture::{Direction, Ending, Ends};
use antiphon_net::{Capture, Line, OsClock, SocketOptions, Tap, UdpLine, Wait};
use antiphon_session::Station;

struct Counting;

thread_local! {
    // Const-initialised and without a destructor, so that using it inside the allocator is sound and allocates nothing.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches a thread-local number only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above; `ptr` came from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocator calls of this thread during `work`.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    work();
    CALLS.with(Cell::get) - before
}

fn capture() -> (tempfile::TempDir, Capture, Tap) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let capture = Capture::create(dir.path().join("taken.pcapng"), OsClock::new()).expect("a file");
    let tap = capture.tap("one");
    (dir, capture, tap)
}

#[test]
fn the_counter_counts() {
    assert_eq!(calls(|| drop(std::hint::black_box(Box::new(7)))), 2);
    assert_eq!(calls(|| ()), 0);
}

#[test]
fn a_tap_does_not_allocate_even_when_it_overflows() {
    let (_dir, capture, mut tap) = capture();
    let address = |port: u16| ([127, 0, 0, 1], port).into();
    let ends = Ends { local: address(1), peer: address(2) };
    let bytes = [0; 1_400];
    let allocated = calls(|| {
        // As fast as the loop runs, and more than the ring holds between two looks of the writer.
        for n in 0..20_000 {
            let at = Instant::from_nanos(n);
            tap.datagram(Direction::Sent, at, ends, &bytes);
            if n % 100 == 0 {
                tap.opened(Direction::Received, at, ends);
            }
            tap.stream(Direction::Received, at, &bytes);
            if n % 100 == 99 {
                tap.closed(Ending::Finished(Direction::Sent), at);
            }
        }
    });
    assert_eq!(allocated, 0);
    drop(tap);
    assert!(capture.finish().expect("room on the disk").dropped > 0, "no overflow was provoked");
}

/// Sends so many datagrams of which nobody hears.
struct Talker(u32);

impl Station for Talker {
    fn handle_input(&mut self, _now: Instant, _input: antiphon_core::Input<'_>) {}
    fn advance(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.0 = self.0.checked_sub(1)?;
        buf[..100].fill(self.0 as u8);
        Some(Transmit { path: PathId::default(), len: 100, ecn: Default::default() })
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn stop(&mut self, _now: Instant) {}
    fn is_finished(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_tapped_line_does_not_allocate() {
    let (_dir, capture, tap) = capture();
    let clock = OsClock::new();
    let options = SocketOptions::default();
    let local = ([127, 0, 0, 1], 0).into();
    let mut far = UdpLine::listen(local, &options).expect("loopback");
    let mut near = UdpLine::call(far.local_address(), &options).expect("loopback");
    let far_tap = capture.tap("two");
    near.set_tap(tap);
    far.set_tap(far_tap);
    let mut talk = |near: &mut UdpLine, count| {
        near.transmit(clock.now(), &mut Talker(count)).expect("loopback");
        far.receive(&clock, &mut Talker(0), Wait::No).expect("loopback");
    };
    // The first datagram makes the far line remember an address.
    talk(&mut near, 1);
    assert_eq!(calls(|| talk(&mut near, 100)), 0);
    drop((near, far));
    let summary = capture.finish().expect("room on the disk");
    assert_eq!((summary.packets, summary.dropped), (2 * 101, 0));
}
