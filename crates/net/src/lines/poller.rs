//! One wait for many descriptors, until a precise time.

use std::io;
use std::os::fd::BorrowedFd;

use antiphon_core::Instant;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::slots::Key;
use crate::clock::OsClock;
use crate::poll::Readiness;
use crate::wake::Waker;

/// `epoll` with an absolute timer, which stays armed from wait to wait: due times change with every packet, mostly to
/// later ones, and an occasional early wake-up is cheaper than setting the timer for every wait.
pub(super) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Instant>,
}

/// Source of an event.
pub(super) enum Came {
    Held(Key),
    Waker(usize),
    Timer,
}

impl Poller {
    pub fn new(wakers: &[Waker]) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let poller = Poller { epoll, timer, armed: None };
        for (at, waker) in wakers.iter().enumerate() {
            poller.watch_waker(at, waker);
        }
        Ok(poller)
    }

    /// Watches `fd` as wanted from now on, under `key`.
    pub fn watch(&self, fd: BorrowedFd<'_>, key: Key, want: Readiness) -> io::Result<()> {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, want.readable);
        flags.set(EpollFlags::EPOLLOUT, want.writable);
        let data = u64::from(key.generation) << 32 | u64::from(key.slot);
        let mut event = EpollEvent::new(flags, data);
        // The kernel forgets a descriptor when it is closed, and its number may have been reused.
        match self.epoll.modify(fd, &mut event) {
            Err(Errno::ENOENT) => self.epoll.add(fd, event)?,
            other => other?,
        }
        Ok(())
    }

    /// Stops watching `fd`.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        // One that was never watched causes an error without consequence.
        let _not_watched = self.epoll.delete(fd);
    }

    pub fn watch_waker(&self, at: usize, waker: &Waker) {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, u64::from(SPECIAL) | (at as u64 + 1) << 32);
        // Without it the thread wakes at the next time-out, as without a waker.
        let _woken_later = self.epoll.add(waker.as_fd(), event);
    }

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

    /// The source of `event`. A timer that has fired is armed again in the next wait, which also clears it.
    pub fn read(&mut self, event: EpollEvent) -> Came {
        let data = event.data();
        let (high, low) = ((data >> 32) as u32, data as u32);
        match (low, high) {
            (SPECIAL, 0) => {
                self.armed = None;
                Came::Timer
            }
            (SPECIAL, waker) => Came::Waker(waker as usize - 1),
            (slot, generation) => Came::Held(Key { slot, generation }),
        }
    }
}

/// Marks keys that are not slot numbers.
const SPECIAL: u32 = u32::MAX;
const TIMER: u64 = SPECIAL as u64;
