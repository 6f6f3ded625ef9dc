//! Runs on several threads; results are collected on one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use antiphon_lab::experiment::Finished;
use antiphon_lab::scenario::Run;

use antiphon::{Error, Stop};

/// How often the caller is told that time passes.
const TICK: Duration = Duration::from_millis(100);

/// Does `runs` on so many threads and calls `keep` with each as it ends, and with `None` now and then; returns whether
/// it was stopped.
///
/// After an error no run is begun; those in progress are still kept, and the first error is returned.
pub(super) fn execute(
    runs: &[Run],
    threads: usize,
    stop: &Stop,
    work: &(dyn Fn(&Run) -> Result<Finished, Error> + Sync),
    keep: &mut dyn FnMut(Option<Finished>) -> Result<(), Error>,
) -> Result<bool, Error> {
    let (next, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (mut failure, mut done) = (None, 0);
    std::thread::scope(|scope| {
        let threads = threads.min(runs.len());
        let (sender, results) = sync_channel(threads.max(1));
        for n in 0..threads {
            let sender = sender.clone();
            let (next, halt) = (&next, &halt);
            let name = format!("lab-{n}");
            let body = move || worker(runs, next, halt, stop, work, &sender);
            if let Err(error) = std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                if n == 0 {
                    failure = Some(no_thread(&error));
                }
                break;
            }
        }
        drop(sender);
        loop {
            let kept = match results.recv_timeout(TICK) {
                Ok(Ok(run)) => {
                    done += 1;
                    keep(Some(run))
                }
                // A run that was told to stop has no result, and has not failed.
                Ok(Err(_)) if stop.is_asked() => Ok(()),
                Ok(Err(error)) => Err(error),
                Err(RecvTimeoutError::Timeout) => keep(None),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = kept {
                halt.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
        }
    });
    failure.map_or(Ok(done < runs.len()), Err)
}

/// Why a thread did not start, and what to do.
pub(super) fn no_thread(error: &std::io::Error) -> Error {
    Error::failed(format!(
        "cannot start a thread: {error}; raise the limit on processes (ulimit -u) or memory (ulimit -v)"
    ))
}

fn worker(
    runs: &[Run],
    next: &AtomicUsize,
    halt: &AtomicBool,
    stop: &Stop,
    work: &(dyn Fn(&Run) -> Result<Finished, Error> + Sync),
    results: &SyncSender<Result<Finished, Error>>,
) {
    while !halt.load(Ordering::Relaxed) && !stop.is_asked() {
        let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
        let result = work(run);
        let failed = result.is_err();
        // The receiver is gone only if this program is ending.
        if results.send(result).is_err() || failed {
            return;
        }
    }
}
