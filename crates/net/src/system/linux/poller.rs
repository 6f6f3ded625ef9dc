//! One wait for many descriptors, until a precise time.

use std::io;
use std::os::fd::AsFd;

use antiphon_core::Instant;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::OsClock;
use crate::poll::Readiness;

/// `epoll` with an absolute timer, which stays armed from wait to wait: due times change with every packet, mostly to
/// later ones, and an occasional early wake-up is cheaper than setting the timer for every wait.
pub(crate) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Instant>,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Poller { epoll, timer, armed: None })
    }

    /// Watches `fd` as wanted from now on; its events bear `data`, which is not [`u64::MAX`].
    pub fn watch(&self, fd: impl AsFd, data: u64, want: Readiness) -> io::Result<()> {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, want.readable);
        flags.set(EpollFlags::EPOLLOUT, want.writable);
        let mut event = EpollEvent::new(flags, data);
        // The kernel forgets a descriptor when it is closed, and its number may have been reused.
        match self.epoll.modify(&fd, &mut event) {
            Err(Errno::ENOENT) => self.epoll.add(fd, event)?,
            other => other?,
        }
        Ok(())
    }

    /// Stops watching `fd`.
    pub fn forget(&self, fd: impl AsFd) {
        // One that was never watched causes an error without consequence.
        let _not_watched = self.epoll.delete(fd);
    }

    /// Stops watching what bears `data`, of which some may be closed already: the kernel has forgotten that, so nothing is to be done.
    #[inline]
    pub fn forget_closed(&self, _data: u64) {}

    /// Waits for events, at most until `until`, or not at all without it; returns how many there are. It may end early
    /// with none.
    pub fn wait(&mut self, clock: &OsClock, until: Option<Instant>, events: &mut [EpollEvent]) -> usize {
        let mut timeout = EpollTimeout::ZERO;
        if let Some(until) = until {
            timeout = EpollTimeout::NONE;
            if self.armed.is_none_or(|armed| armed > until) && self.arm(clock, until).is_err() {
                timeout = EpollTimeout::from(1u8);
            }
        }
        // A signal ends the wait early.
        self.epoll.wait(events, timeout).unwrap_or(0)
    }

    fn arm(&mut self, clock: &OsClock, at: Instant) -> nix::Result<()> {
        // Zero would disarm it.
        let time = TimeSpec::from_duration(clock.monotonic(at)).max(TimeSpec::nanoseconds(1));
        self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        self.armed = Some(at);
        Ok(())
    }

    /// The data of an event's descriptor; `None` for the timer. A timer that has fired is armed again in the next wait,
    /// which also clears it.
    pub fn read(&mut self, event: EpollEvent) -> Option<u64> {
        if event.data() != TIMER {
            return Some(event.data());
        }
        self.armed = None;
        None
    }
}

const TIMER: u64 = u64::MAX;
