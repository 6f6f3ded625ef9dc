//! An allocator that counts for threads that others look at.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// The system's allocator, with a count for each thread that any other can read while it runs. A test makes it its
/// `#[global_allocator]`.
///
/// A thread's place is never given back: a test has few threads.
pub struct CountingThreads;

impl CountingThreads {
    /// How often every living thread of that name has called the allocator so far, by the kernel's number of the thread.
    pub fn calls(name: &str) -> BTreeMap<i32, u64> {
        let mut found = BTreeMap::new();
        for place in 0..TAKEN.load(Ordering::Relaxed) {
            let thread = THREADS[place].load(Ordering::Relaxed);
            // A thread that has ended has no name any more.
            let comm = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
            if comm.trim_end() == name {
                found.insert(thread, COUNTS[place].load(Ordering::Relaxed));
            }
        }
        found
    }
}

fn count() {
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(TAKEN.fetch_add(1, Ordering::Relaxed));
            assert!(place.get() < PLACES, "more threads than places");
            #[allow(unsafe_code, reason = "the kernel's number of a thread is had by a system call only")]
            // SAFETY: asks for a number, touches no memory.
            let thread = unsafe { libc::gettid() };
            THREADS[place.get()].store(thread, Ordering::Relaxed);
        }
        COUNTS[place.get()].fetch_add(1, Ordering::Relaxed);
    });
}

#[allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for CountingThreads {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, new_size) }
    }
}

/// Threads of a test at most.
const PLACES: usize = 256;
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static THREADS: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];
static COUNTS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
}
