//! One thread that waits for file descriptors and an absolute timer, and is controlled by a handle.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use antiphon_core::Instant;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::OsClock;
use crate::realtime::{self, Scheduling};

/// Below the media threads (50 and more), above all ordinary threads.
const PRIORITY: i32 = 20;

/// What a reactor drives.
pub(crate) trait Worker {
    /// Its report.
    type Report: Send + 'static;

    /// The descriptor registered under `token` has something to read or room to write.
    fn ready(&mut self, clock: &OsClock, poller: &Poller, token: u64);

    /// A time-out has come: moves packets that are due.
    fn advance(&mut self, clock: &OsClock, poller: &Poller);

    /// When to advance next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What was counted so far.
    fn report(&self, scheduling: Scheduling) -> Self::Report;
}

/// epoll with one absolute timer and one wake-up from other threads.
pub(crate) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    wake: Arc<EventFd>,
    clock: OsClock,
}

/// What a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
}

const TIMER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

impl Poller {
    fn new(clock: OsClock, wake: Arc<EventFd>) -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        epoll.add(&*wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Poller { epoll, timer, wake, clock })
    }

    /// Reports `fd` as `token` when it can be read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))
    }

    /// Changes what `fd` is watched for under `token`.
    ///
    /// Without any interest it is removed from epoll, which otherwise reports a broken connection repeatedly even if
    /// nothing is asked for.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, from: Interest, to: Interest) -> nix::Result<()> {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, to.read);
        flags.set(EpollFlags::EPOLLOUT, to.write);
        let none = Interest::default();
        match (from == none, to == none) {
            _ if from == to => Ok(()),
            (true, _) => self.epoll.add(fd, EpollEvent::new(flags, token)),
            (_, true) => self.epoll.delete(fd),
            _ => self.epoll.modify(fd, &mut EpollEvent::new(flags, token)),
        }
    }

    /// Removes `fd`, which is about to be closed.
    pub fn remove(&self, fd: impl AsFd) {
        // Closing it does the same; a failure here has no consequence.
        let _ = self.epoll.delete(fd);
    }

    fn arm(&self, at: Option<Instant>) -> nix::Result<()> {
        match at {
            None => self.timer.unset(),
            Some(at) => {
                let at = TimeSpec::from_duration(self.clock.monotonic(at));
                self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
        }
    }

    fn wait(&self, events: &mut [EpollEvent]) -> nix::Result<usize> {
        match self.epoll.wait(events, EpollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => Ok(0),
            other => other,
        }
    }
}

enum Request<R> {
    Report(mpsc::SyncSender<R>),
    Stop,
}

/// The handle of a running reactor. Dropping it stops the thread.
pub(crate) struct Reactor<R> {
    requests: mpsc::Sender<Request<R>>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<Option<R>>>,
}

impl<R: Send + 'static> Reactor<R> {
    /// Starts a thread that makes its worker with `build` and runs it.
    pub fn start<W, B>(name: &str, clock: OsClock, real_time: bool, build: B) -> std::io::Result<Self>
    where
        W: Worker<Report = R>,
        B: FnOnce(&Poller) -> nix::Result<W> + Send + 'static,
    {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let poller = Poller::new(clock, wake.clone())?;
        let (requests, inbox) = mpsc::channel();
        let (started, outcome) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let scheduling = prepare_thread(real_time);
            let mut worker = match build(&poller) {
                Ok(worker) => worker,
                Err(error) => {
                    // `start` waits only for this.
                    let _ = started.send(Some(error));
                    return None;
                }
            };
            // As above.
            let _ = started.send(None);
            run(&mut worker, &poller, &inbox, &scheduling);
            Some(worker.report(scheduling))
        })?;
        match outcome.recv() {
            Ok(None) => {}
            Ok(Some(error)) => return Err(error.into()),
            Err(_) => return Err(std::io::Error::other("the emulator's thread ended unexpectedly")),
        }
        Ok(Reactor { requests, wake, thread: Some(thread) })
    }
}

impl<R> Reactor<R> {
    /// What was counted so far; `None` if the thread has ended.
    pub fn report(&self) -> Option<R> {
        let (answer, inbox) = mpsc::sync_channel(1);
        self.requests.send(Request::Report(answer)).ok()?;
        self.wake.write(1).ok()?;
        inbox.recv().ok()
    }

    /// Ends the thread and returns the final counts.
    pub fn stop(mut self) -> R {
        self.end().expect("the emulator's thread runs until it is stopped")
    }

    fn end(&mut self) -> Option<R> {
        let thread = self.thread.take()?;
        // Either fails only if the thread has ended already.
        let _ = self.requests.send(Request::Stop);
        let _ = self.wake.write(1);
        thread.join().ok().flatten()
    }
}

impl<R> Drop for Reactor<R> {
    fn drop(&mut self) {
        self.end();
    }
}

fn run<W: Worker>(
    worker: &mut W,
    poller: &Poller,
    inbox: &mpsc::Receiver<Request<W::Report>>,
    scheduling: &Scheduling,
) {
    let mut events = [EpollEvent::empty(); 64];
    let mut armed = None;
    loop {
        let wanted = worker.poll_timeout();
        if wanted != armed && poller.arm(wanted).is_ok() {
            armed = wanted;
        }
        let Ok(count) = poller.wait(&mut events) else {
            return;
        };
        for event in &events[..count] {
            match event.data() {
                TIMER => {
                    // It must be read, or it would stay readable; it is set again above.
                    let _ = poller.timer.wait();
                    armed = None;
                }
                WAKE => {
                    // It must be read, or it would stay readable; the request is in the inbox.
                    let _ = poller.wake.read();
                }
                token => worker.ready(&poller.clock, poller, token),
            }
        }
        worker.advance(&poller.clock, poller);
        loop {
            match inbox.try_recv() {
                Ok(Request::Report(answer)) => {
                    // The thread that asked may be gone.
                    let _ = answer.try_send(worker.report(scheduling.clone()));
                }
                Ok(Request::Stop) | Err(mpsc::TryRecvError::Disconnected) => return,
                Err(mpsc::TryRecvError::Empty) => break,
            }
        }
    }
}

/// Real-time scheduling for this thread, where wanted and permitted. (Timers need no preparation: those of timerfd have
/// no slack.)
fn prepare_thread(real_time: bool) -> Scheduling {
    if real_time { realtime::ask_for_fifo(PRIORITY) } else { Scheduling::Ordinary("not asked for".into()) }
}
