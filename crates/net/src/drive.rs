//! The media thread's loop: one station on one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_session::Station;

use crate::clock::{OsClock, thread_cpu_time};
use crate::line::{Line, LineError};

/// Asks a running [`drive`] to end in order; may be shared with a signal handler.
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

/// Runs `station` on `line` until it finishes, or, once `stop` asks, until it has ended in order.
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
    let mut stopping: Option<Instant> = None;
    loop {
        line.receive(clock, station)?;
        let now = clock.now();
        if stop.is_asked() && stopping.is_none() {
            stopping = Some(now);
            station.stop(now);
        }
        station.advance(now);
        line.transmit(clock.now(), station)?;
        report.rounds += 1;
        if station.is_finished() || stopping.is_some_and(|at| now.since(at) > STOP_PATIENCE) {
            break;
        }
        let due = [station.poll_timeout(), line.poll_timeout()].into_iter().flatten().min();
        wait(line, clock, due, options.wait);
        if let Some(due) = due {
            report.worst_oversleep = report.worst_oversleep.max(clock.now().since(due.max(now)));
        }
    }
    report.elapsed = clock.now().since(start);
    report.cpu = thread_cpu_time().saturating_sub(cpu);
    Ok(report)
}

fn wait(line: &mut dyn Line, clock: &OsClock, due: Option<Instant>, style: WaitStyle) {
    let now = clock.now();
    let patience = due.map_or(LONGEST_WAIT, |due| due.since(now)).min(LONGEST_WAIT);
    match style {
        WaitStyle::BusyPoll => line.wait(Duration::ZERO),
        WaitStyle::Block if patience.is_zero() => {}
        WaitStyle::Block => line.wait(patience),
    }
}

/// How long a station may take to end in order: several round trips of the slowest path (satellite).
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// The loop looks up at least this often, for the stop flag.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
