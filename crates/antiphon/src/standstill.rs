//! Whether this program stood still: it was stopped (SIGSTOP, a debugger, a frozen group of processes), or the machine was suspended.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::OsClock;

/// Looks at the clocks, some times a second.
pub(crate) struct Standstill {
    last: Instant,
    suspended: Duration,
}

impl Standstill {
    /// From now on.
    pub fn new(clock: &OsClock) -> Self {
        Standstill { last: clock.now(), suspended: OsClock::suspended() }
    }

    /// For how long it stood still since the last look, if it did.
    pub fn look(&mut self, clock: &OsClock) -> Option<Duration> {
        self.judge(clock.now(), OsClock::suspended())
    }

    /// The same, `suspended`: for how long the machine has been suspended in all, in which time the clock of a run stands still.
    fn judge(&mut self, now: Instant, suspended: Duration) -> Option<Duration> {
        let passed = now.since(std::mem::replace(&mut self.last, now));
        let slept = suspended.saturating_sub(std::mem::replace(&mut self.suspended, suspended));
        let stood = passed + slept;
        (stood >= STOOD_STILL).then_some(stood)
    }
}

/// What the user is told.
pub(crate) fn sentence(stood: Duration) -> String {
    format!(
        "this program stood still for {:.0} s: it was stopped, or this machine was suspended; the stream goes on",
        stood.as_secs_f64()
    )
}

/// A thread that looks twenty times a second is held up for so long by no work of others, on a machine on which sound can be heard at all.
const STOOD_STILL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_and_a_suspend_are_told_once_and_a_busy_machine_is_not() {
        let mut standstill = Standstill { last: Instant::ZERO, suspended: Duration::from_secs(7_000) };
        let mut look = |now: u64, suspended| {
            let stood = standstill.judge(Instant::from_millis(now), Duration::from_secs(suspended));
            stood.map(|stood| stood.as_millis())
        };
        assert_eq!(look(50, 7_000), None, "the machine was suspended before");
        assert_eq!(look(1_900, 7_000), None);
        // Stopped: the clock goes on. Suspended: it stands still.
        assert_eq!([look(181_900, 7_000), look(181_950, 7_000)], [Some(180_000), None]);
        assert_eq!([look(182_000, 10_600), look(182_050, 10_600)], [Some(3_600_050), None]);
    }

    #[test]
    fn the_sentence_says_for_how_long_and_what_follows() {
        let text = sentence(Duration::from_secs(180));
        assert!(text.contains("180 s") && text.contains("stopped") && text.contains("goes on"), "{text}");
    }
}
