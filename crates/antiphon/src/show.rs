//! Snapshots from a media thread for another thread, without a lock on the media thread.

use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;

/// The media thread's side: sends a snapshot ten times a second.
pub(crate) struct Looks<T> {
    out: rtrb::Producer<T>,
    next: Instant,
}

/// The reading side.
pub(crate) type Looked<T> = rtrb::Consumer<T>;

/// Both sides.
pub(crate) fn looks<T>() -> (Looks<T>, Looked<T>) {
    let (out, looked) = rtrb::RingBuffer::new(SNAPSHOTS);
    (Looks { out, next: Instant::ZERO }, looked)
}

impl<T> Looks<T> {
    /// Takes a snapshot if one is due. `take` runs on the media thread: it may not allocate.
    pub fn look(&mut self, now: Instant, take: impl FnOnce() -> T) {
        if now >= self.next && !self.out.is_full() {
            self.next = now + SHOW_EVERY;
            // There is room: this thread is the only one that fills it.
            let _if_full = self.out.push(take());
        }
    }

    /// Sends the final snapshot.
    pub fn last(&mut self, snapshot: T) {
        // If the queue is full, its newest snapshot is nearly as new.
        let _if_full = self.out.push(snapshot);
    }
}

/// Hands every snapshot to `each` until `thread` ends, and nothing each time that it has looked; returns the thread's result.
pub(crate) fn watch<T, R>(
    thread: JoinHandle<R>,
    looked: &mut Looked<T>,
    mut each: impl FnMut(Option<T>),
) -> std::thread::Result<R> {
    while !thread.is_finished() {
        std::thread::park_timeout(LOOK_EVERY);
        while let Ok(snapshot) = looked.pop() {
            each(Some(snapshot));
        }
        each(None);
    }
    let result = thread.join();
    while let Ok(snapshot) = looked.pop() {
        each(Some(snapshot));
    }
    result
}

/// The newest snapshot, if there is one since the last call.
pub(crate) fn newest<T>(looked: &mut Looked<T>) -> Option<T> {
    std::iter::from_fn(|| looked.pop().ok()).last()
}

/// Snapshots that may wait to be read.
const SNAPSHOTS: usize = 16;
const SHOW_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(50);
