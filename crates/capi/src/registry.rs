//! Handles: numbers in the shape of pointers, looked up and never followed.
//!
//! A value is never given out twice, in any registry of the process, so that a handle that was closed, made up, or is of
//! another kind finds nothing, and never another caller's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open objects, by handle.
pub(crate) struct Registry<T> {
    open: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> Registry<T> {
    pub const fn new() -> Self {
        Registry { open: Mutex::new(BTreeMap::new()) }
    }

    /// Gives `value` a handle, with `mark` to be read back from it; `None` when all there are have been given out.
    pub fn insert<H>(&self, value: T, mark: bool) -> Option<*mut H> {
        let next = |n: usize| n.checked_add(1).filter(|n| *n <= usize::MAX >> SHIFT);
        let number = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let handle = number << SHIFT | usize::from(mark) << MARK_BIT;
        self.lock().insert(handle, Arc::new(value));
        Some(std::ptr::without_provenance_mut(handle))
    }

    /// The object of `handle`. It exists while a call uses it, even if it is removed meanwhile.
    pub fn find<H>(&self, handle: *mut H) -> Option<Arc<T>> {
        self.lock().get(&handle.addr()).cloned()
    }

    /// Takes `handle` out, so that it finds nothing any more.
    pub fn remove<H>(&self, handle: *mut H) -> Option<Arc<T>> {
        self.lock().remove(&handle.addr())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<T>>> {
        // Nothing in here panics half way.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mark in a handle; `false` for a value that cannot have been a handle.
pub(crate) fn mark<H>(handle: *mut H) -> bool {
    handle.addr() & (1 << MARK_BIT) != 0
}

/// Counts handles of all kinds; 0 is C's NULL.
static NEXT: AtomicUsize = AtomicUsize::new(1);
/// Handles look aligned as anything that C allocates is, for tools that check.
const SHIFT: u32 = 5;
const MARK_BIT: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    enum Kind {}
    static ONE: Registry<u32> = Registry::new();
    static OTHER: Registry<u32> = Registry::new();

    #[test]
    fn a_handle_is_valid_until_removed_and_never_reused() {
        let first: *mut Kind = ONE.insert(1, false).unwrap();
        let second: *mut Kind = ONE.insert(2, true).unwrap();
        assert_eq!((ONE.find(first).as_deref(), ONE.find(second).as_deref()), (Some(&1), Some(&2)));
        assert_eq!((mark(first), mark(second), mark(std::ptr::null_mut::<Kind>())), (false, true, false));
        assert!(OTHER.find(first).is_none(), "of another kind");
        assert!(ONE.find(second.wrapping_byte_add(1)).is_none(), "made up");
        assert_eq!(ONE.remove(first).as_deref(), Some(&1));
        assert!(ONE.remove(first).is_none() && ONE.find(first).is_none());
        for n in 0..1000 {
            assert_ne!(ONE.insert::<Kind>(n, false).unwrap(), first);
        }
    }
}
