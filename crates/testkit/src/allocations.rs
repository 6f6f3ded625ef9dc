//! An allocator that counts, for tests of what allocates where.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Initialised by constants and without destructors, so that an allocator may use them at any time.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread. A test makes it its `#[global_allocator]`.
pub struct Counting;

impl Counting {
    /// How often `work` asked for memory or gave it back on this thread. What moves a block (`realloc`) counts once.
    pub fn calls(work: impl FnOnce()) -> u64 {
        let before = Self::so_far();
        work();
        Self::so_far() - before
    }

    /// How often this thread has asked for memory or given it back so far.
    pub fn so_far() -> u64 {
        CALLS.get()
    }

    /// Bytes that this thread holds after `work` beyond those before it, and what it made.
    pub fn held<T>(work: impl FnOnce() -> T) -> (i64, T) {
        let before = BYTES.get();
        let made = work();
        (BYTES.get() - before, made)
    }
}

fn count(bytes: i64) {
    CALLS.set(CALLS.get() + 1);
    BYTES.set(BYTES.get() + bytes);
}

#[allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: every call is passed on to the system's allocator as it came; the counters don't allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::Counting;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn the_counter_counts() {
        assert_eq!(Counting::calls(|| drop(std::hint::black_box(Box::new(7)))), 2);
        assert_eq!(Counting::calls(|| ()), 0);
        let (held, block) = Counting::held(|| vec![0_u8; 1000]);
        assert_eq!((held, block.len()), (1000, 1000));
    }
}
