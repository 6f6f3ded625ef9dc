//! A look at a running station from another thread, without a lock on the media thread.

use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{Input, Instant, PathId, Transmit};
use antiphon_session::Station;

/// A station that hands out a snapshot of itself ten times a second.
pub(crate) struct Shown<S, T> {
    pub station: S,
    out: rtrb::Producer<T>,
    snapshot: fn(&mut S) -> T,
    next: Instant,
}

impl<S: Station, T> Shown<S, T> {
    /// `snapshot` runs on the media thread: it may not allocate.
    pub fn new(station: S, out: rtrb::Producer<T>, snapshot: fn(&mut S) -> T) -> Self {
        Shown { station, out, snapshot, next: Instant::ZERO }
    }
}

impl<S: Station, T> Station for Shown<S, T> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.station.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.station.advance(now);
        // The last look is the one that sums up.
        if (now >= self.next || self.station.is_finished()) && !self.out.is_full() {
            self.next = now + SHOW_EVERY;
            // There is room: this thread is the only one that fills it.
            let _nobody_looks = self.out.push((self.snapshot)(&mut self.station));
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.station.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.station.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.station.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.station.is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.station.knows(path)
    }
}

/// Hands every snapshot to `each` until `thread` ends; answers what it answered.
pub(crate) fn watch<T, R>(
    thread: JoinHandle<R>,
    snapshots: &mut rtrb::Consumer<T>,
    mut each: impl FnMut(T),
) -> std::thread::Result<R> {
    while !thread.is_finished() {
        std::thread::park_timeout(LOOK_EVERY);
        while let Ok(snapshot) = snapshots.pop() {
            each(snapshot);
        }
    }
    let result = thread.join();
    while let Ok(snapshot) = snapshots.pop() {
        each(snapshot);
    }
    result
}

/// Snapshots that may wait to be looked at.
pub(crate) const SNAPSHOTS: usize = 16;
const SHOW_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(50);
