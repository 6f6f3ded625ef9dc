//! Runs on this machine's sockets, in real time: the participants of the model, on threads and the kernel's own
//! protocols.
//!
//! ```text
//!  near-STREAM thread                                                 far-STREAM thread
//!  lab::live::NearEnd ─ net::drive ─ socket ═╗                  ╔═ socket ─ net::drive ─ lab::live::FarEnd
//!                                            ╠═ loopback, or ═══╣
//!  load-NAME threads: blasters, pings, TCP ══╝ the live link    ╚══ sinks and echoes
//! ```
//!
//! Both ends read one clock, so one-way delays are exact. One run at a time: two would share the processors and
//! influence each other's measurement.

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
    /// The longest time that each run sends. `None`: [`USUAL`], or the scenario's duration if it is `measured`.
    pub duration: Option<Duration>,
    /// How the link is made; `None`: the best way permitted.
    pub link_method: Option<LinkMethod>,
}

/// How long runs of a modelled scenario send: hundreds of runs of an hour each would take weeks.
pub const USUAL: Duration = Duration::from_secs(60);
/// Repetitions of a modelled scenario by default: enough for a confidence interval, however wide.
pub const USUAL_REPETITIONS: u32 = 3;
/// The longest silence in which late packets are waited for; a TCP in back-off might take an hour.
const LONGEST_DRAIN: Duration = Duration::from_secs(60);
/// Time to open sockets, namespaces and connections.
const SETTING_UP: Duration = Duration::from_millis(500);

impl RealOptions {
    /// The longest time that runs of a job send.
    pub fn duration_of(&self, job: &Job) -> Duration {
        self.duration.unwrap_or(if job.scenario.measured { Duration::MAX } else { USUAL })
    }

    /// As text for a journal: runs of different lengths are kept apart.
    pub(super) fn setting(&self, job: &Job) -> String {
        match self.duration_of(job) {
            Duration::MAX => "real".into(),
            duration => format!("real, {}", format_duration(duration)),
        }
    }

    /// `setup` as it runs on sockets.
    pub(super) fn shorten(&self, job: &Job, setup: &Setup) -> Setup {
        let duration = setup.duration.min(self.duration_of(job));
        Setup { duration, ..setup.clone() }
    }
}

/// How long a run takes, unless late packets take longer; an error if it cannot run.
pub(super) fn length(setup: &Setup) -> Result<Duration, Error> {
    let medium = RealMedium::of(setup, 0).map_err(usage)?;
    begin_in_time(setup)?;
    Ok(setup.duration + quiet(&medium, setup) + SETTING_UP)
}

/// Refuses a run that ends before one of its streams, or the pictures beside one, begin: their figures would say nothing.
fn begin_in_time(setup: &Setup) -> Result<(), Error> {
    let sound = setup.streams.iter().map(|stream| (&stream.name, stream.start));
    let with_pictures = setup.streams.iter().filter_map(|stream| {
        let pictures = stream.pictures.as_ref()?;
        Some((&pictures.name, stream.start + pictures.start))
    });
    let Some((name, start)) = sound.chain(with_pictures).max_by_key(|(_, start)| *start) else {
        return Ok(());
    };
    if start < setup.duration {
        return Ok(());
    }
    let [begins, ends, enough] = [start, setup.duration, start + USUAL].map(format_duration);
    Err(Error::usage(format!(
        "'{name}' begins after {begins}, when a run of {ends} is over: use a longer --real-duration, such as {enough}"
    )))
}

/// Describes a run on sockets, and how it departs from the model.
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

/// When nothing has arrived for this long, nothing more is in flight: the round trip of the link with full queues, the
/// time that transports may take to repair, and half a second for the machine.
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

/// The longest delay of a packet on a link, extremes of a heavy tail aside.
fn longest(link: &LinkSpec) -> Duration {
    let jitter = link.jitter.map_or(Duration::ZERO, |jitter| 10 * jitter.mean);
    let hold = link.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
    let stall = link.stall.map_or(Duration::ZERO, |stall| 5 * stall.length);
    let waiting = link.rate.map_or(0.0, |rate| testbed::queued_bits(&link.queue) / rate.0.max(1) as f64);
    let waiting = Duration::try_from_secs_f64(waiting).unwrap_or(LONGEST_DRAIN).min(LONGEST_DRAIN);
    link.delay + jitter + hold + stall + waiting
}

/// Waits on this thread until `at`, or until `give_up` returns true.
fn wait_until(clock: &OsClock, at: Instant, give_up: impl Fn() -> bool) -> bool {
    loop {
        let left = at.since(clock.now());
        if left.is_zero() {
            return true;
        }
        if give_up() {
            return false;
        }
        // This thread is not woken; a request to stop is noticed soon enough.
        std::thread::park_timeout(left.min(LOOK));
    }
}

/// How often a waiting thread checks whether to stop, and the control whether the run is over.
const LOOK: Duration = Duration::from_millis(20);
