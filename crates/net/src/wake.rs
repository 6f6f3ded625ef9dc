//! Wakes a thread that waits for a socket, from another thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::poll::{self, NO_FD, Readiness};
use crate::system::Signal;
use crate::system::fd::{AsRawFd, BorrowedFd, RawFd};

/// Ends a wait early: wakes a thread that waits for it, or for a line that has it. Clones wake the same threads.
///
/// A call of [`Self::wake`] costs one system call, and neither allocates nor locks. Calls before the next wait count as
/// one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Signal>);

impl Waker {
    /// A waker that has not been used.
    pub fn new() -> io::Result<Self> {
        Ok(Waker(Arc::new(Signal::new()?)))
    }

    /// Wakes the waiting thread, or ends its next wait at once.
    pub fn wake(&self) {
        self.0.set();
    }

    /// Waits until it is used, or the time-out is over; returns whether it was. One use ends one wait.
    pub fn wait(&self, timeout: Duration) -> bool {
        let want = Readiness { readable: true, writable: false };
        let woken = poll::wait_or_woken(NO_FD, want, self.fd(), timeout).unwrap_or_default().woken;
        woken && self.clear()
    }

    /// Clears earlier uses; returns whether there were any.
    pub(crate) fn clear(&self) -> bool {
        self.0.clear()
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_counts_once_and_reaches_other_threads() {
        let waker = Waker::new().expect("an event descriptor");
        assert!(!waker.wait(Duration::ZERO));
        waker.wake();
        waker.wake();
        assert!(waker.wait(Duration::ZERO));
        assert!(!waker.wait(Duration::ZERO));
        let other = waker.clone();
        let sleeper = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        waker.wake();
        // Without the wake-up this would take a minute and return false.
        assert!(sleeper.join().expect("no panic"));
    }
}
