//! The atomic words that the device's thread and the media thread share: `loom`'s where it tries every order in which the two may
//! run and see each other's stores (feature `loom`).

#[cfg(feature = "loom")]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(not(feature = "loom"))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
