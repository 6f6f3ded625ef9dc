//! Tests of what is heard in real time, on a machine that stands still now and then.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real time is what is measured, on a thread of its own"
)]

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs a test, and once or twice more if it fails while the machine holds up a thread for `bound` or longer: what comes in time
/// then is not in the program's hand. A test that fails on a machine that has time fails at once.
///
/// What the test makes, such as directories, it makes anew each time. `bound` is less than what the test can bear, such as its playout delay. Each failure is told on the terminal with how late a
/// thread was that only waits.
pub fn unless_held_up(bound: Duration, test: impl Fn()) {
    let tell = |told: &str| {
        // Nothing can be said where there is no terminal.
        let _nobody_reads = writeln!(io::stderr(), "{told}");
    };
    if let Err(panic) = attempt(bound, || Control::watch(&test), tell) {
        resume_unwind(panic);
    }
}

/// What `work` answers, and how late a thread was meanwhile that only waits: so long the machine held up its threads.
pub fn longest_hold_up<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    match Control::watch(work) {
        (late, Ok(answer)) => (answer, late),
        (_, Err(panic)) => resume_unwind(panic),
    }
}

/// Waits until this machine has kept a thread that only waits less than `bears` late for all of `lasts`, or `patience` is over.
pub fn wait_for_even_time(bears: Duration, lasts: Duration, patience: Duration) {
    let (begun, turns) = (Instant::now(), lasts.as_nanos() / TURN.as_nanos());
    let mut even = 0;
    while even < turns && begun.elapsed() < patience {
        even = if late_by(TURN) < bears { even + 1 } else { 0 };
    }
}

/// How late a thread wakes that waits for `time`.
fn late_by(time: Duration) -> Duration {
    let start = Instant::now();
    std::thread::park_timeout(time);
    start.elapsed().saturating_sub(time)
}

/// How a test ended.
type Ended<T = ()> = Result<T, Box<dyn Any + Send>>;

/// `watched` runs the test and answers how long a thread was held up meanwhile; `tell` gets a sentence for each failure.
fn attempt(bound: Duration, watched: impl Fn() -> (Duration, Ended), tell: impl Fn(&str)) -> Ended {
    for left in (0..MOST_ATTEMPTS).rev() {
        let (late, ended) = watched();
        if ended.is_ok() {
            return ended;
        }
        let again = late >= bound && left > 0;
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        let then = if again { "; it is run again" } else { "" };
        tell(&format!(
            "{name} failed while a thread that only waits was up to {late:.1?} late (it bears {bound:?}){then}"
        ));
        if !again {
            return ended;
        }
    }
    unreachable!("the last attempt is not followed by another")
}

/// Runs of a test at most.
const MOST_ATTEMPTS: u32 = 3;
/// How long the thread of the control waits each time: shorter than what any test bears.
const TURN: Duration = Duration::from_millis(2);

/// A thread that only waits, and notes how late it wakes.
struct Control {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Control {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = std::thread::spawn(move || {
            let mut latest = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                latest = latest.max(late_by(TURN));
            }
            latest
        });
        Control { over, thread }
    }

    fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }

    fn watch<T>(test: impl FnOnce() -> T) -> (Duration, Ended<T>) {
        let control = Control::start();
        let ended = catch_unwind(AssertUnwindSafe(test));
        (control.stop(), ended)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const BOUND: Duration = Duration::from_millis(20);

    /// Attempts at a test that passes at the `passes`-th one, if ever, and whether it passed in the end.
    fn attempts(late: Duration, passes: u32) -> (u32, bool) {
        let (ran, told) = (Cell::new(0), Cell::new(0));
        let watched = || {
            ran.set(ran.get() + 1);
            let ended: Ended = if ran.get() >= passes { Ok(()) } else { Err(Box::new("it failed")) };
            (late, ended)
        };
        let ended = attempt(BOUND, watched, |_| told.set(told.get() + 1));
        assert_eq!(told.get() + u32::from(ended.is_ok()), ran.get(), "each failure is told");
        (ran.get(), ended.is_ok())
    }

    #[test]
    fn only_a_test_that_was_held_up_is_run_again() {
        assert_eq!(attempts(Duration::ZERO, 1), (1, true));
        assert_eq!(attempts(BOUND, 2), (2, true));
        assert_eq!(attempts(BOUND / 2, 2), (1, false));
        assert_eq!(attempts(BOUND, u32::MAX), (MOST_ATTEMPTS, false));
    }

    #[test]
    fn the_failure_of_a_test_is_its_own() {
        let watched = || Control::watch(|| panic!("what is wrong"));
        let panic = attempt(Duration::MAX, watched, |_| {}).expect_err("it fails");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"what is wrong"));
    }

    #[test]
    fn even_time_is_waited_for_and_no_longer_than_one_has_patience() {
        let begun = Instant::now();
        wait_for_even_time(Duration::MAX, BOUND, Duration::MAX);
        assert!(begun.elapsed() >= BOUND, "every turn is even");
        let begun = Instant::now();
        wait_for_even_time(Duration::ZERO, BOUND, 2 * BOUND);
        assert!(begun.elapsed() >= 2 * BOUND, "no turn is even");
    }

    #[test]
    fn the_control_measures_and_ends() {
        let (late, ended) = Control::watch(|| std::thread::park_timeout(2 * BOUND));
        assert!(ended.is_ok() && late < Duration::from_secs(60), "{late:?}");
    }
}
