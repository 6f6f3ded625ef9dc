//! Starts the media of several near ends at the same instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::OsClock;

/// The part of one near end in a common start. Transports need different times for their handshakes; each end says when
/// it has connected, and the media of all starts when the last of them has. An end that fails is not waited for.
pub(crate) struct Starter {
    common: CommonStart,
    clock: OsClock,
    is_ready: bool,
}

struct Shared {
    /// Ends that have not connected.
    missing: AtomicUsize,
    /// In nanoseconds of the run's clock; [`UNKNOWN`] until all have connected.
    start: AtomicU64,
    /// It is at a multiple of this.
    whole: Duration,
}

impl Shared {
    fn new(missing: usize, whole: Duration) -> Arc<Self> {
        Arc::new(Shared { missing: AtomicUsize::new(missing), start: AtomicU64::new(UNKNOWN), whole })
    }
}

/// The common start as those see it who only wait for it.
pub(crate) struct CommonStart(Arc<Shared>);

impl CommonStart {
    /// When the media starts, once that is known.
    pub fn start(&self) -> Option<Instant> {
        let start = self.0.start.load(Ordering::Acquire);
        (start != UNKNOWN).then(|| Instant::from_nanos(start))
    }
}

impl Starter {
    /// One for each of `count` ends, and what they share.
    pub fn for_each(count: usize, clock: OsClock) -> (CommonStart, impl Iterator<Item = Starter>) {
        let shared = Shared::new(count, WHOLE);
        let common = CommonStart(Arc::clone(&shared));
        let starter = move |_| Starter { common: CommonStart(Arc::clone(&shared)), clock, is_ready: false };
        (common, (0..count).map(starter))
    }

    /// For one end that no other waits for, and that may begin at any time.
    pub fn alone(clock: OsClock) -> Starter {
        Starter { common: CommonStart(Shared::new(1, Duration::from_millis(1))), clock, is_ready: false }
    }

    /// Says that this end has connected. May be called again.
    pub fn set_ready(&mut self) {
        if std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        if self.common.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let soonest = (self.clock.now() + NOTICE).as_nanos();
            let whole = self.common.0.whole.as_nanos() as u64;
            self.common.0.start.store(soonest.next_multiple_of(whole), Ordering::Release);
        }
    }

    /// When the media starts, once that is known.
    pub fn start(&self) -> Option<Instant> {
        self.common.start()
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.set_ready();
    }
}

const UNKNOWN: u64 = u64::MAX;

/// From the last connection to the start: waiting media threads ask at least every 50 ms (`net::drive`), and machines
/// stand still at times.
const NOTICE: Duration = Duration::from_millis(200);
/// Starts are at multiples of this on the run's clock. What an embedded link does depends on its seed and this clock, so
/// runs with the same seed mostly meet the same losses, although no two take the same time to set up.
const WHOLE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_known_once_each_end_has_connected_or_failed() {
        let (common, ends) = Starter::for_each(3, OsClock::new());
        let mut ends: Vec<Starter> = ends.collect();
        ends[0].set_ready();
        ends[0].set_ready();
        drop(ends.pop());
        assert_eq!(common.start(), None);
        ends[1].set_ready();
        let start = ends[1].start().expect("all are ready");
        assert_eq!(ends[0].start(), Some(start));
        assert!(start > ends[0].clock.now() && start.as_nanos().is_multiple_of(1_000_000_000));
        drop(ends);
        assert_eq!(common.start(), Some(start), "an end that is over changes nothing");
    }
}
