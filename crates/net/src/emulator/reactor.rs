//! One thread that waits for file descriptors and an absolute timer, and is controlled by a handle.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use antiphon_core::Instant;

use super::EmulatorError;
use crate::clock::OsClock;
use crate::poll::Readiness;
use crate::realtime::{self, Scheduling};
use crate::system::{Poller, no_event};
use crate::wake::Waker;

/// With nothing due: longer than any process runs.
const NEVER: Instant = Instant::from_nanos(u64::MAX / 4);

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

    /// What was counted so far, and what was longest since the last report.
    fn report(&mut self, scheduling: Scheduling) -> Self::Report;
}

/// Data of the waker's events.
const WAKE: u64 = u64::MAX - 1;

enum Request<R> {
    Report(mpsc::SyncSender<R>),
    Stop,
}

/// The handle of a running reactor. Dropping it stops the thread.
pub(crate) struct Reactor<R> {
    requests: mpsc::Sender<Request<R>>,
    waker: Waker,
    thread: Option<JoinHandle<Option<R>>>,
}

impl<R: Send + 'static> Reactor<R> {
    /// Starts a thread that makes its worker with `build` and runs it.
    pub fn start<W, B>(name: &str, clock: OsClock, real_time: bool, build: B) -> io::Result<Self>
    where
        W: Worker<Report = R>,
        B: FnOnce(&Poller) -> io::Result<W> + Send + 'static,
    {
        let waker = Waker::new()?;
        let woken = waker.clone();
        let poller = Poller::new()?;
        poller.watch(waker.as_fd(), WAKE, Readiness::READABLE)?;
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
            run(&mut worker, poller, clock, &woken, &inbox, &scheduling);
            Some(worker.report(scheduling))
        })?;
        match outcome.recv() {
            Ok(None) => {}
            Ok(Some(error)) => return Err(error),
            Err(_) => return Err(io::Error::other("the emulator's thread ended unexpectedly")),
        }
        Ok(Reactor { requests, waker, thread: Some(thread) })
    }
}

impl<R> Reactor<R> {
    /// What was counted so far; `None` if the thread has ended.
    pub fn report(&self) -> Option<R> {
        let (answer, inbox) = mpsc::sync_channel(1);
        self.requests.send(Request::Report(answer)).ok()?;
        self.waker.wake();
        inbox.recv().ok()
    }

    /// Ends the thread and returns the final counts.
    pub fn stop(mut self) -> R {
        self.end().expect("the emulator's thread runs until it is stopped")
    }

    fn end(&mut self) -> Option<R> {
        let thread = self.thread.take()?;
        // It fails only if the thread has ended already.
        let _ = self.requests.send(Request::Stop);
        self.waker.wake();
        thread.join().ok().flatten()
    }
}

impl<R> Drop for Reactor<R> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running proxy. Dropping it stops it.
pub struct Proxy<R> {
    local: SocketAddr,
    reactor: Reactor<R>,
}

impl<R: Send + 'static> Proxy<R> {
    /// Starts one that is reached at `local`.
    pub(super) fn run<W, B>(
        name: &str,
        local: io::Result<SocketAddr>,
        clock: OsClock,
        real_time: bool,
        build: B,
    ) -> Result<Self, EmulatorError>
    where
        W: Worker<Report = R>,
        B: FnOnce(&Poller) -> io::Result<W> + Send + 'static,
    {
        let local = local.map_err(|error| EmulatorError::system("address of the listening socket", error))?;
        let reactor = Reactor::start(name, clock, real_time, build)
            .map_err(|error| EmulatorError::system("cannot start the proxy", error))?;
        Ok(Proxy { local, reactor })
    }

    /// Where clients connect or send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What was counted so far; `None` if the proxy failed.
    pub fn report(&self) -> Option<R> {
        self.reactor.report()
    }

    /// Ends it and its connections. Packets in flight in the links stay there, as the counters show.
    pub fn stop(self) -> R {
        self.reactor.stop()
    }
}

/// Reports of what has ended, of the last [`MAX_ENDED`] alone.
pub(super) struct Ended<T>(VecDeque<T>);

const MAX_ENDED: usize = 1024;

impl<T: Copy> Ended<T> {
    pub fn new() -> Self {
        Ended(VecDeque::new())
    }

    pub fn push(&mut self, report: T) {
        if self.0.len() == MAX_ENDED {
            self.0.pop_front();
        }
        self.0.push_back(report);
    }

    /// These and those of what is `running`, by number.
    pub fn with(&self, running: impl Iterator<Item = T>, number: impl Fn(&T) -> u64) -> Vec<T> {
        let mut all: Vec<T> = self.0.iter().copied().chain(running).collect();
        all.sort_by_key(number);
        all
    }
}

/// The token of a listening socket.
pub(super) const LISTEN: u64 = WAKE - 1;

fn run<W: Worker>(
    worker: &mut W,
    mut poller: Poller,
    clock: OsClock,
    woken: &Waker,
    inbox: &mpsc::Receiver<Request<W::Report>>,
    scheduling: &Scheduling,
) {
    let mut events = [no_event(); 64];
    loop {
        let until = worker.poll_timeout().unwrap_or(NEVER);
        let count = poller.wait(&clock, Some(until), &mut events);
        for event in &events[..count] {
            match poller.read(*event) {
                // The request is in the inbox.
                Some(WAKE) => drop(woken.clear()),
                Some(token) => worker.ready(&clock, &poller, token),
                None => {}
            }
        }
        worker.advance(&clock, &poller);
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
    if real_time {
        realtime::ask_for_real_time(PRIORITY)
    } else {
        Scheduling::Ordinary("not asked for".into())
    }
}
