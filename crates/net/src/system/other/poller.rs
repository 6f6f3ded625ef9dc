//! One wait for many descriptors, until a precise time: `kqueue`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use antiphon_core::Instant;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

use crate::clock::OsClock;
use crate::poll::Readiness;

pub(crate) type PollerEvent = KEvent;

/// No event yet.
pub(crate) fn no_event() -> PollerEvent {
    KEvent::new(0, EventFilter::EVFILT_READ, EvFlags::empty(), FilterFlag::empty(), 0, 0)
}

/// `kqueue`, whose waits take a time-out in nanoseconds.
pub(crate) struct Poller(Kqueue);

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Poller(Kqueue::new()?))
    }

    /// Watches `fd` as wanted from now on; its events bear `data`. The kernel forgets a descriptor when it is closed.
    pub fn watch(&self, fd: impl AsFd, data: u64, want: Readiness) -> io::Result<()> {
        for (filter, wanted) in filters(want) {
            if wanted {
                self.change(&fd, filter, EvFlags::EV_ADD, data)?;
            } else {
                let _not_watched = self.change(&fd, filter, EvFlags::EV_DELETE, data);
            }
        }
        Ok(())
    }

    /// Stops watching `fd`.
    pub fn forget(&self, fd: impl AsFd) {
        let _not_watched = self.watch(fd, 0, Readiness::default());
    }

    /// Stops watching what bears `data`, of which some may be closed already: the kernel has forgotten that, so nothing is to be done.
    #[inline]
    pub fn forget_closed(&self, _data: u64) {}

    /// Waits for events, at most until `until`, or not at all without it; returns how many there are. It may end early
    /// with none.
    pub fn wait(&mut self, clock: &OsClock, until: Option<Instant>, events: &mut [PollerEvent]) -> usize {
        let time = until.map_or(0, |until| until.since(clock.now()).as_nanos());
        let time = libc::timespec {
            tv_sec: (time / 1_000_000_000).min(3600) as libc::time_t,
            tv_nsec: (time % 1_000_000_000) as libc::c_long,
        };
        // A signal ends the wait early.
        self.0.kevent(&[], events, Some(time)).unwrap_or(0)
    }

    fn change(&self, fd: impl AsFd, filter: EventFilter, flags: EvFlags, data: u64) -> io::Result<()> {
        let number = fd.as_fd().as_raw_fd() as usize;
        let change = KEvent::new(number, filter, flags, FilterFlag::empty(), 0, data as isize as _);
        self.0.kevent(&[change], &mut [], None)?;
        Ok(())
    }

    /// The data of an event's descriptor.
    pub fn read(&mut self, event: PollerEvent) -> Option<u64> {
        Some(event.udata() as u64)
    }
}

fn filters(want: Readiness) -> [(EventFilter, bool); 2] {
    [(EventFilter::EVFILT_READ, want.readable), (EventFilter::EVFILT_WRITE, want.writable)]
}
