//! The media thread's loop: one participant on its wires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_core::{Instant, MOST_BUSY, Participant, Pumped, pump, sooner};

use crate::clock::{OsClock, thread_cpu_time};
use crate::line::{IDLE, LineError, Wait};
use crate::lines::Lines;

/// Asks a running [`drive`] to end in order; noticed within [`IDLE`]. Signal handlers may use it.
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
    /// Poll the socket continuously: microseconds less delay, at the cost of a whole processor core.
    BusyPoll,
}

/// How to drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveOptions {
    /// How to wait.
    pub wait: WaitStyle,
}

/// Measurements of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveReport {
    /// Rounds of the loop.
    pub rounds: u64,
    /// Processor time of this thread inside the loop.
    pub cpu: Duration,
    /// Time inside the loop.
    pub elapsed: Duration,
    /// The latest that a time-out was handled after it was due.
    pub worst_oversleep: Duration,
    /// The peer's machine had not received everything when the time to end was over.
    pub unflushed: bool,
}

/// Runs `participant` on `lines` until it finishes, or, once `stop` asks, until it has ended in order; in both cases
/// until the peer's machine has received everything, but not much longer than two seconds.
///
/// Runs on the calling thread; see [`crate::become_media_thread`]. Errors end the run only if the only line cannot
/// continue; temporary ones (a refused datagram, a broken connection, one line of several) are reported to the
/// participant. A participant that is never quiet is given up after [`MOST_BUSY`] rounds, with an error that names the
/// thread.
pub fn drive<P: Participant>(
    lines: &mut Lines<'_>,
    participant: &mut P,
    clock: &OsClock,
    stop: &Stop,
    options: DriveOptions,
) -> Result<DriveReport, LineError> {
    drive_each(lines, participant, clock, stop, options, &mut |_, _, _| {})
}

/// Like [`drive`]; calls `each` with the participant and its lines after every round, on this thread. Lines that were opened
/// on another thread, where opening may wait, can be added then.
pub fn drive_each<'a, P: Participant>(
    lines: &mut Lines<'a>,
    participant: &mut P,
    clock: &OsClock,
    stop: &Stop,
    options: DriveOptions,
    each: &mut dyn FnMut(Instant, &mut P, &mut Lines<'a>),
) -> Result<DriveReport, LineError> {
    let mut run = Run::default();
    let (start, cpu) = (clock.now(), thread_cpu_time());
    let mut wait = Wait::No;
    loop {
        let before = lines.received();
        let now = lines.receive(participant, clock, wait)?;
        run.begin_round(now);
        if stop.is_asked() {
            run.stop(now, participant);
        }
        let pumped = drain(lines, participant, now)?;
        run.judge(pumped, lines.received() != before)?;
        if participant.is_finished() && run.finish(now) {
            // The kernel's last figures complete its own.
            lines.report(now, participant, true);
        }
        each(now, participant, lines);
        if run.is_over(now, lines) {
            break;
        }
        wait = run.next_wait(sooner(participant.poll_timeout(), lines.poll_timeout()), now, clock, options);
    }
    run.report.unflushed = !lines.is_flushed();
    run.report.elapsed = clock.now().since(start);
    run.report.cpu = thread_cpu_time().saturating_sub(cpu);
    Ok(run.report)
}

/// State of a run.
#[derive(Default)]
struct Run {
    report: DriveReport,
    /// The time-out that the last wait was for.
    due: Option<Instant>,
    stopping: bool,
    finished: bool,
    /// When it began to end.
    ending: Option<Instant>,
    /// Consecutive rounds that ended with work left and had no input.
    busy: u32,
}

impl Run {
    fn begin_round(&mut self, now: Instant) {
        self.report.rounds += 1;
        if let Some(due) = self.due {
            self.report.worst_oversleep = self.report.worst_oversleep.max(now.since(due));
        }
    }

    /// Asks the participant to end, once.
    fn stop(&mut self, now: Instant, participant: &mut dyn Participant) {
        if !self.stopping {
            self.stopping = true;
            self.ending.get_or_insert(now);
            participant.stop(now);
        }
    }

    /// An error if the participant has been busy for too long; `heard`: there was input in this round.
    fn judge(&mut self, pumped: Pumped, heard: bool) -> Result<(), LineError> {
        self.busy = if pumped == Pumped::Busy && !heard { self.busy + 1 } else { 0 };
        if self.busy >= MOST_BUSY { Err(never_quiet()) } else { Ok(()) }
    }

    /// The participant has finished; returns whether that is new.
    fn finish(&mut self, now: Instant) -> bool {
        self.ending.get_or_insert(now);
        !std::mem::replace(&mut self.finished, true)
    }

    fn is_over(&self, now: Instant, lines: &Lines<'_>) -> bool {
        self.finished && lines.is_flushed() || self.ending.is_some_and(|at| now.since(at) > STOP_PATIENCE)
    }

    /// How to wait for what is `due`.
    fn next_wait(
        &mut self,
        due: Option<Instant>,
        now: Instant,
        clock: &OsClock,
        options: DriveOptions,
    ) -> Wait {
        self.due = due;
        // `now` is as old as the round: accurate enough for distant times, and saves reading the clock.
        let near = due.filter(|due| due.since(now) < FAR);
        let time = match (options.wait, near) {
            (WaitStyle::BusyPoll, _) => return Wait::No,
            (WaitStyle::Block, None) if !self.finished => return Wait::Idle,
            (WaitStyle::Block, near) => near.map_or(FAR, |due| due.since(clock.now())),
        };
        // The peer's confirmation does not end a wait.
        match if self.finished { time.min(FLUSH_LOOK) } else { time } {
            Duration::ZERO => Wait::No,
            time => Wait::For(time),
        }
    }
}

/// One round of [`drive`], for callers with a loop of their own: waits as told, hands in what came, and drains.
pub fn round(
    lines: &mut Lines<'_>,
    participant: &mut dyn Participant,
    clock: &OsClock,
    wait: Wait,
) -> Result<Pumped, LineError> {
    let now = lines.receive(participant, clock, wait)?;
    drain(lines, participant, now)
}

fn drain(
    lines: &mut Lines<'_>,
    participant: &mut dyn Participant,
    now: Instant,
) -> Result<Pumped, LineError> {
    let pumped = pump(participant, now, lines);
    lines.take_error().map_or(Ok(pumped), Err)
}

fn never_quiet() -> LineError {
    let thread = std::thread::current();
    LineError::NeverQuiet { participant: thread.name().unwrap_or("without a name").to_string() }
}

/// A time-out later than this is not waited for precisely yet, but for [`IDLE`].
const FAR: Duration = Duration::from_millis(2 * IDLE.as_millis() as u64);
/// How often a line is asked whether the peer has everything: half a round trip of a good network.
const FLUSH_LOOK: Duration = Duration::from_millis(2);
/// How long a participant may take to end in order: several round trips of the slowest path (satellite).
const STOP_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
