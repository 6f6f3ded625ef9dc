//! Checks this machine for live sound and says what to change: each transport over loopback, scheduling, limits, clocks,
//! devices.
//!
//! Each check measures first and judges what it measured in a function of its own, which tests call with other values.

mod check;
mod clocks;
mod loopback;
mod scheduling;
mod system;

use antiphon_net::{OsClock, Stop};

use crate::Error;
use crate::transport::chosen;

pub use check::{Check, Verdict};
pub(crate) use loopback::over_loopback;

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct DoctorOptions {
    /// The transports to try over loopback: schemes, or schemes with keys of their own; empty for all.
    pub transports: Vec<String>,
}

/// Checks of this machine.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl Diagnosis {
    /// How many checks have that verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }
}

/// What [`doctor`] tells while it works.
#[derive(Clone, Copy, Debug)]
pub enum DoctorProgress<'a> {
    /// It begins to check that.
    Begins(&'a str),
    /// It has checked that.
    Found(&'a Check),
}

/// Checks this machine. Takes some ten seconds, most of them for the transports.
///
/// # Errors
///
/// For transports that do not exist, before anything is checked. What fails is a finding.
pub fn doctor(
    options: &DoctorOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(DoctorProgress<'_>),
) -> Result<Diagnosis, Error> {
    let transports = chosen(&options.transports)?;
    let clock = OsClock::new();
    let mut round = Round { checks: Vec::new(), stop, tell };
    round.all("scheduling", |stop| scheduling::check(clock, stop));
    round.all("limits", |_| system::limits());
    round.all("processor", |_| vec![system::governor()]);
    round.all("network", |_| system::network());
    round.all("devices", |_| system::devices());
    for choice in &transports {
        let name = format!("loopback {}", choice.label);
        round.all(&name, |stop| loopback::check(choice, clock, stop).into_iter().collect());
    }
    // Last, so that a wall clock that was set meanwhile is noticed.
    round.all("clocks", |_| clocks::check(clock));
    let checks = round.checks;
    Ok(Diagnosis { checks, interrupted: stop.is_asked() })
}

/// One round of checks.
struct Round<'a> {
    checks: Vec<Check>,
    stop: &'a Stop,
    tell: &'a mut dyn FnMut(DoctorProgress<'_>),
}

impl Round<'_> {
    /// Makes checks unless it was stopped. What was stopped half-way has found nothing.
    fn all(&mut self, name: &str, make: impl FnOnce(&Stop) -> Vec<Check>) {
        if self.stop.is_asked() {
            return;
        }
        (self.tell)(DoctorProgress::Begins(name));
        for check in make(self.stop) {
            (self.tell)(DoctorProgress::Found(&check));
            self.checks.push(check);
        }
    }
}

#[cfg(test)]
mod tests;
