//! After start-up, pulling and pushing neither allocate nor free: counted per thread by the allocator itself.

// The allocator is the one place where this crate's tests speak to memory directly.
#![allow(unsafe_code, reason = "a counting allocator can only be written with the unsafe GlobalAlloc trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use antiphon_media::{Pull, SampleFormat, Sink, SinkError, Source, StreamFormat};
use antiphon_sound::{MemorySink, open_sink, open_source};

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

fn pull_all(source: &mut dyn Source, most_blocks: usize) -> usize {
    let mut block = [0.0; 2 * 256];
    let mut blocks = 0;
    while blocks < most_blocks {
        match source.pull(&mut block) {
            Pull::Frames(_) => blocks += 1,
            Pull::Starved => std::thread::yield_now(),
            Pull::End => break,
        }
    }
    blocks
}

#[test]
fn the_counter_counts() {
    assert_eq!(calls(|| drop(std::hint::black_box(Box::new(7)))), 2);
    assert_eq!(calls(|| ()), 0);
}

#[test]
fn pulling_does_not_allocate() {
    // The clip is longer than its ring, so its thread decodes while this one pulls.
    for uri in ["clip:demo", "clip:tabla?loop=yes", "tone:440Hz", "tone:noise", "tone:sweep", "tone:click"] {
        let mut opened = open_source(uri).unwrap();
        let mut blocks = 0;
        assert_eq!(calls(|| blocks = pull_all(&mut *opened.source, 2_500)), 0, "{uri}");
        assert!(blocks > 1_800, "{uri} ended after {blocks} blocks");
    }
}

#[test]
fn pushing_does_not_allocate_even_when_the_sink_overruns_or_fails() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    let stream = StreamFormat::new(48_000, 2).unwrap();
    let mut file = open_sink(path.to_str().unwrap(), stream, SampleFormat::L24).unwrap();
    let mut null = open_sink("null:", stream, SampleFormat::L24).unwrap();
    let (mut memory, _kept) = MemorySink::new(stream, 256 * 100);
    let block = [0.25; 2 * 256];
    let mut overruns = 0;
    for sink in [&mut *file.sink, &mut *null.sink, &mut memory as &mut dyn Sink] {
        let allocated = calls(|| {
            // As fast as the loop runs: far above real time, so that rings do overrun.
            for _ in 0..20_000 {
                overruns += usize::from(matches!(sink.push(&block), Err(SinkError::Overrun { .. })));
            }
        });
        assert_eq!(allocated, 0);
    }
    assert!(overruns > 0, "no overrun was provoked");
    file.sink.finish().unwrap();
}
