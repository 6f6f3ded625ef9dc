//! Waking a thread that sleeps in a wait for a socket, from another thread.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::poll::{self, NOBODY, Readiness};

/// A bell: whoever waits for it, or for a line that has it, wakes when it is rung. Copies are the same bell.
///
/// Ringing costs one system call, and neither allocates nor locks. Rings that nobody heard count as one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Waker(Arc::new(EventFd::from_flags(flags)?)))
    }

    /// Rings.
    pub fn wake(&self) {
        // It fails only when the counter is full: then it is ringing already.
        let _rings_already = self.0.write(1);
    }

    /// Waits until it is rung, or the time-out is over; answers whether it was. A ring is heard once.
    pub fn wait(&self, timeout: Duration) -> bool {
        let want = Readiness { readable: true, writable: false };
        let rung = poll::wait_or_woken(NOBODY, want, self.fd(), timeout).unwrap_or_default().woken;
        rung && self.hear()
    }

    /// Takes what was rung so far; answers whether it was.
    pub(crate) fn hear(&self) -> bool {
        self.0.read().is_ok()
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_heard_once_and_by_sleepers_in_other_threads() {
        let bell = Waker::new().expect("an event descriptor");
        assert!(!bell.wait(Duration::ZERO));
        bell.wake();
        bell.wake();
        assert!(bell.wait(Duration::ZERO));
        assert!(!bell.wait(Duration::ZERO));
        let other = bell.clone();
        let sleeper = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        bell.wake();
        // A ring that does not wake costs a minute here, and the answer is false.
        assert!(sleeper.join().expect("no panic"));
    }
}
