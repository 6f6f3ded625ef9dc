//! The media thread's loop: one station on one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_session::Station;

use crate::clock::{OsClock, thread_cpu_time};
use crate::line::{IDLE, Line, LineError, Wait};

/// Asks a running [`drive`] to end in order; noticed within [`IDLE`]. May be asked by a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not yet asked.
    pub fn new() -> Self {
        Stop::default()
    }

    /// Ask.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How to wait between events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitStyle {
    /// Sleep in the kernel until input or time-out.
    #[default]
    Block,
    /// Ask the socket again and again: microseconds less delay for a whole processor core.
    BusyPoll,
}

/// How to drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveOptions {
    /// How to wait.
    pub wait: WaitStyle,
}

/// What the loop itself has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveReport {
    /// Rounds of the loop.
    pub rounds: u64,
    /// Processor time of this thread inside the loop.
    pub cpu: Duration,
    /// Time inside the loop.
    pub elapsed: Duration,
    /// The longest that a due time-out was overslept.
    pub worst_oversleep: Duration,
}

/// Runs `station` on `line` until it finishes, or, once `stop` asks, until it has ended in order; in both cases until
/// the peer's machine has what was sent, but not much longer than two seconds.
///
/// Runs on the calling thread; see [`crate::become_media_thread`]. Errors end the run only where the line can't go
/// on; what comes and goes (a refused datagram, a broken connection) is told to the station.
pub fn drive(
    line: &mut dyn Line,
    station: &mut dyn Station,
    clock: &OsClock,
    stop: &Stop,
    options: DriveOptions,
) -> Result<DriveReport, LineError> {
    let mut report = DriveReport::default();
    let (start, cpu) = (clock.now(), thread_cpu_time());
    let (mut stopping, mut ending) = (false, None);
    let (mut wait, mut due) = (Wait::No, None);
    loop {
        line.receive(clock, station, wait)?;
        let now = clock.now();
        if let Some(due) = due {
            report.worst_oversleep = report.worst_oversleep.max(now.since(due));
        }
        if stop.is_asked() && !stopping {
            stopping = true;
            ending.get_or_insert(now);
            station.stop(now);
        }
        station.advance(now);
        line.transmit(clock.now(), station)?;
        report.rounds += 1;
        let finished = station.is_finished();
        if finished && line.is_flushed() {
            break;
        }
        if finished {
            ending.get_or_insert(now);
        }
        if ending.is_some_and(|at| now.since(at) > STOP_PATIENCE) {
            break;
        }
        due = [station.poll_timeout(), line.poll_timeout()].into_iter().flatten().min();
        let patience = due.map(|due| due.since(clock.now()));
        // The peer's confirmation wakes nobody.
        let patience =
            if finished { Some(patience.map_or(FLUSH_LOOK, |p| p.min(FLUSH_LOOK))) } else { patience };
        wait = how_to_wait(options.wait, patience);
    }
    report.elapsed = clock.now().since(start);
    report.cpu = thread_cpu_time().saturating_sub(cpu);
    Ok(report)
}

fn how_to_wait(style: WaitStyle, patience: Option<Duration>) -> Wait {
    match (style, patience) {
        (WaitStyle::BusyPoll, _) => Wait::No,
        (WaitStyle::Block, Some(Duration::ZERO)) => Wait::No,
        (WaitStyle::Block, Some(time)) if time < 2 * IDLE => Wait::For(time),
        (WaitStyle::Block, _) => Wait::Idle,
    }
}

/// How often a line is asked whether the peer has everything: half a round trip of a good network.
const FLUSH_LOOK: Duration = Duration::from_millis(2);
/// How long a station may take to end in order: several round trips of the slowest path (satellite).
const STOP_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
