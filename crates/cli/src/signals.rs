//! Ctrl-C, SIGTERM and `--time-limit`: the first asks for a clean end, the second signal ends at once.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use antiphon::net::OsClock;
use antiphon::{Error, Stop};

use crate::exit;

/// Waits for reasons to stop.
pub struct Watch {
    /// Set as soon as there is a reason to stop; passed to everything that runs long.
    pub stop: Stop,
    reason: Arc<AtomicU8>,
    wake: Receiver<()>,
    /// Keeps the channel of `wake` open if signals cannot be watched.
    _hold: Sender<()>,
}

/// Does what Ctrl-C does.
#[cfg(unix)]
pub fn interrupt() {
    use rustix::process::{Signal, getpid, kill_process};
    let _own_process = kill_process(getpid(), Signal::INT);
}

/// Does what Ctrl-C does, also to other programs on the console.
#[cfg(windows)]
#[allow(unsafe_code, reason = "an event of the console has no safe interface")]
pub fn interrupt() {
    use windows_sys::Win32::System::Console::{CTRL_C_EVENT, GenerateConsoleCtrlEvent};
    // SAFETY: takes two numbers. Without a console nobody has pressed a key.
    unsafe { GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0) };
}

/// What is printed after a signal.
pub const STOPPING: &str = "stopping; Ctrl-C again to quit now";
/// A second signal within this time counts as part of the first: no person is that fast.
const SAME_WISH: Duration = Duration::from_millis(50);
const NONE: u8 = 0;
const SIGNAL: u8 = 1;
const TIME_LIMIT: u8 = 2;

impl Watch {
    /// Begins to watch. Starts threads, so anything that needs a single-threaded process comes before. `says`: report a
    /// signal on standard error; not while progress is drawn there, which it would break.
    pub fn start(time_limit: Option<Duration>, says: bool) -> Result<Self, Error> {
        let (hold, wake) = channel();
        let (stop, reason) = (Stop::new(), Arc::new(AtomicU8::new(NONE)));
        let watch = Watch { stop: stop.clone(), reason: reason.clone(), wake, _hold: hold.clone() };
        let give = |why, stop: &Stop, reason: &AtomicU8, sender: &Sender<()>| {
            let first = reason.compare_exchange(NONE, why, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            stop.ask();
            // The receiver is gone once the run has ended by itself.
            let _it_has_ended = sender.send(());
            first
        };
        let (signal_stop, signal_reason, signal_hold) = (stop.clone(), reason.clone(), hold.clone());
        let (clock, mut first) = (OsClock::new(), None);
        ctrlc::set_handler(move || {
            let now = clock.now();
            match first {
                None => first = Some(now),
                // timeout(1) and shells signal a process and then its group: this counts as one signal.
                Some(first) if now.since(first) < SAME_WISH => return,
                Some(_) => {
                    crate::screen::terminal::restore();
                    std::process::exit(exit::INTERRUPTED.into())
                }
            }
            give(SIGNAL, &signal_stop, &signal_reason, &signal_hold);
            if says {
                // If standard error is closed, nothing can be printed.
                let _closed = writeln!(std::io::stderr(), "{STOPPING}");
            }
        })
        .map_err(|error| Error::failed(format!("cannot watch for Ctrl-C: {error}")))?;
        if let Some(limit) = time_limit {
            let (never, expired) = channel::<()>();
            let wait = move || {
                // Held here, so that only time ends the wait.
                let _never = never;
                let _ = expired.recv_timeout(limit);
                give(TIME_LIMIT, &stop, &reason, &hold);
            };
            let started = std::thread::Builder::new().name("time-limit".into()).spawn(wait);
            started.map_err(|error| Error::failed(format!("cannot start a thread: {error}; raise the limit on processes (ulimit -u) or memory (ulimit -v)")))?;
        }
        Ok(watch)
    }

    /// Waits for `time`, or until there is a reason to stop; returns whether there is one.
    pub fn wait(&self, time: Duration) -> bool {
        match self.wake.recv_timeout(time) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => self.stop.is_asked(),
        }
    }

    /// The exit code of the reason to stop, if there was one.
    pub fn exit_code(&self) -> Option<u8> {
        match self.reason.load(Ordering::Relaxed) {
            SIGNAL => Some(exit::INTERRUPTED),
            TIME_LIMIT => Some(exit::TIME_LIMIT),
            _ => None,
        }
    }
}
