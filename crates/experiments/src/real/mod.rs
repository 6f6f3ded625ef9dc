//! Runs on this machine's sockets, in real time: the stations of the model, on threads and the kernel's own protocols.
//!
//! ```text
//!  near-STREAM thread                                                 far-STREAM thread
//!  lab::live::NearEnd ─ net::drive ─ socket ═╗                  ╔═ socket ─ net::drive ─ lab::live::FarEnd
//!                                            ╠═ loopback, or ═══╣
//!  load-NAME threads: blasters, pings, TCP ══╝ the live link    ╚══ sinks and echoes
//! ```
//!
//! Both ends read one clock, so one-way delays are what they seem. One run at a time: two would share the processors and
//! measure each other.

mod control;
mod load;
mod stream;
mod testbed;

#[cfg(test)]
mod tests;

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::units::format_duration;
use antiphon_lab::figures::RunFigures;
use antiphon_lab::live::{LiveError, RealMedium, Wire};
use antiphon_lab::setup::Setup;
use antiphon_link::LinkSpec;
use antiphon_net::OsClock;

use super::Job;
use antiphon::{Error, LinkMethod, Stop};
use control::Control;
use testbed::Testbed;

/// How runs on sockets differ from the model's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RealOptions {
    /// How long each run sends at most. `None`: [`USUAL`], or what the scenario says if it is `measured`.
    pub duration: Option<Duration>,
    /// How the link is had; `None`: the best that is permitted.
    pub link_method: Option<LinkMethod>,
}

/// What runs of a modelled scenario send for: an hour of its hundreds of runs would be a week.
pub const USUAL: Duration = Duration::from_secs(60);
/// Repetitions of a modelled scenario, if nobody asks for more: enough for an interval, however wide.
pub const USUAL_REPETITIONS: u32 = 3;
/// What is late may take so long at most; a TCP in back-off might take an hour.
const LONGEST_DRAIN: Duration = Duration::from_secs(60);
/// Opening sockets, namespaces and connections.
const SETTING_UP: Duration = Duration::from_millis(500);

impl RealOptions {
    /// How long runs of a job send at most.
    pub fn duration_of(&self, job: &Job) -> Duration {
        self.duration.unwrap_or(if job.scenario.measured { Duration::MAX } else { USUAL })
    }

    /// In words for a journal: runs of different lengths are not put together.
    pub(super) fn setting(&self, job: &Job) -> String {
        match self.duration_of(job) {
            Duration::MAX => "real".into(),
            duration => format!("real, {}", format_duration(duration)),
        }
    }

    /// What `setup` is on sockets.
    pub(super) fn shorten(&self, job: &Job, setup: &Setup) -> Setup {
        let duration = setup.duration.min(self.duration_of(job));
        Setup { duration, drain: setup.drain.min(LONGEST_DRAIN), ..setup.clone() }
    }
}

/// How long a run takes, unless its stragglers take longer; an error if there can be none.
pub(super) fn length(setup: &Setup) -> Result<Duration, Error> {
    let medium = RealMedium::of(setup, 0).map_err(usage)?;
    Ok(setup.duration + quiet(&medium, setup) + SETTING_UP)
}

/// What a run on sockets is, and how it departs from the model: in words for a reader.
pub fn describe(setup: &Setup, options: &RealOptions) -> Result<Vec<String>, Error> {
    let medium = RealMedium::of(setup, 0).map_err(usage)?;
    let mut notes = testbed::describe(&medium, options.link_method)?;
    notes.extend(medium.notes);
    Ok(notes)
}

/// Runs `setup` on sockets.
pub(super) fn run(setup: &Setup, seed: u64, options: &RealOptions, stop: &Stop) -> Result<RunFigures, Error> {
    let medium = RealMedium::of(setup, seed).map_err(usage)?;
    let quiet = quiet(&medium, setup);
    let clock = OsClock::new();
    let testbed = Testbed::start(medium, setup, options.link_method, clock)?;
    let control = Control { setup, seed, clock, testbed: &testbed, quiet, stop };
    let (streams, events) = control.run()?;
    Ok(RunFigures { streams, media: testbed.stop(), events })
}

fn usage(error: LiveError) -> Error {
    Error::usage(error.to_string())
}

/// After so long without any arrival nothing more is on its way: the round trip of the link with its queues full, what
/// transports may take to repair, and half a second for the machine.
fn quiet(medium: &RealMedium, setup: &Setup) -> Duration {
    let latency = setup.streams.iter().map(|stream| stream.latency).max().unwrap_or_default();
    let link: Duration = match &medium.wire {
        Wire::Loopback => return latency + Duration::from_millis(50),
        Wire::Link { spec, behind, .. } => {
            let links = std::iter::once(spec).chain(behind);
            links.map(|link| longest(&link.up) + longest(&link.down)).sum()
        }
    };
    (link + 2 * latency + Duration::from_millis(500)).min(LONGEST_DRAIN)
}

/// What a packet may take on a link, extremes of a heavy tail aside.
fn longest(link: &LinkSpec) -> Duration {
    let jitter = link.jitter.map_or(Duration::ZERO, |jitter| 10 * jitter.mean);
    let hold = link.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
    let stall = link.stall.map_or(Duration::ZERO, |stall| 5 * stall.length);
    let waiting = link.rate.map_or(0.0, |rate| testbed::queued_bits(&link.queue) / rate.0.max(1) as f64);
    let waiting = Duration::try_from_secs_f64(waiting).unwrap_or(LONGEST_DRAIN).min(LONGEST_DRAIN);
    link.delay + jitter + hold + stall + waiting
}

/// Waits on this thread until `at`, or until `give_up` says so.
fn wait_until(clock: &OsClock, at: Instant, give_up: impl Fn() -> bool) -> bool {
    loop {
        let left = at.since(clock.now());
        if left.is_zero() {
            return true;
        }
        if give_up() {
            return false;
        }
        // Nobody wakes it; stopping is noticed soon enough.
        std::thread::park_timeout(left.min(LOOK));
    }
}

/// How often a waiting thread looks whether to stop, and the control whether all is over.
const LOOK: Duration = Duration::from_millis(20);
