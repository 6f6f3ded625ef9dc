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
/// `bound` is less than what the test can bear, such as its playout delay. Each failure is told on the terminal with how late a
/// thread was that only waits.
pub fn unless_held_up(bound: Duration, test: impl Fn()) {
    let mut attempts = 0;
    let failure = attempt(bound, &mut attempts, Control::watch, &test);
    if let Err(panic) = failure {
        resume_unwind(panic);
    }
}

/// `watch` runs the test and answers how long a thread was held up meanwhile.
fn attempt(
    bound: Duration,
    attempts: &mut u32,
    watch: impl Fn(&dyn Fn()) -> (Duration, Result<(), Box<dyn Any + Send>>),
    test: &dyn Fn(),
) -> Result<(), Box<dyn Any + Send>> {
    loop {
        *attempts += 1;
        let (late, result) = watch(test);
        if result.is_ok() {
            return Ok(());
        }
        let again = late >= bound && *attempts < MOST_ATTEMPTS;
        let name = std::thread::current().name().unwrap_or("a test").to_string();
        let then = if again { "; it is run again" } else { "" };
        // Nothing can be said where there is no terminal.
        let _nobody_reads = writeln!(
            io::stderr(),
            "{name} failed while a thread that only waits was up to {late:.1?} late (it bears {bound:?}){then}"
        );
        if !again {
            return result;
        }
    }
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
                let start = Instant::now();
                std::thread::park_timeout(TURN);
                latest = latest.max(start.elapsed().saturating_sub(TURN));
            }
            latest
        });
        Control { over, thread }
    }

    fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }

    fn watch(test: &dyn Fn()) -> (Duration, Result<(), Box<dyn Any + Send>>) {
        let control = Control::start();
        let result = catch_unwind(AssertUnwindSafe(test));
        (control.stop(), result)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const BOUND: Duration = Duration::from_millis(20);

    /// Attempts at a test that passes at the `passes`-th one, if ever, and whether it passed in the end.
    fn attempts(late: Duration, passes: u32) -> (u32, bool) {
        let (mut attempts, ran) = (0, Cell::new(0));
        let test = || ran.set(ran.get() + 1);
        let watch = |test: &dyn Fn()| {
            test();
            let result: Result<(), Box<dyn Any + Send>> =
                if ran.get() >= passes { Ok(()) } else { Err(Box::new("it failed")) };
            (late, result)
        };
        let result = attempt(BOUND, &mut attempts, watch, &test);
        assert_eq!(attempts, ran.get());
        (attempts, result.is_ok())
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
        let run = || unless_held_up(Duration::MAX, || panic!("what is wrong"));
        let panic = catch_unwind(run).expect_err("it fails");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"what is wrong"));
    }

    #[test]
    fn the_control_measures_and_ends() {
        let (late, result) = Control::watch(&|| std::thread::park_timeout(2 * BOUND));
        assert!(result.is_ok() && late < Duration::from_secs(60), "{late:?}");
    }
}
