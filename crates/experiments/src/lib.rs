//! The laboratory on a machine: threads for its runs, a directory for its results, reports of papers, and runs on real
//! sockets. Programs that only stream need not link it.
//!
//! ```no_run
//! use antiphon::Stop;
//! use antiphon_experiments::{self as lab, Changes, RunOptions, Which};
//!
//! for job in lab::find(&["line.toml"], Which::All, &Changes::default(), None)? {
//!     let outcome = lab::run(&job, &RunOptions::default(), &Stop::new(), &mut |_| {})?;
//!     println!("{}: {} of {} runs", job.name, outcome.finished.len(), outcome.planned);
//! }
//! # Ok::<(), antiphon::Error>(())
//! ```
//!
//! Each experiment has a directory of its own. `runs.jsonl` there gets a line for every run as it ends; an interrupted
//! experiment continues from it. `results.csv`, `summary.csv` and `media.csv` are made from it at the end, whole or not
//! at all.

mod again;
mod build;
mod compared;
mod engine;
mod fidelity;
mod job;
mod machine;
mod own;
mod papers;
mod path;
mod real;
mod redrawn;
mod report;
mod sides;
mod srp_page;
mod store;
mod two_stream_page;
mod voice_page;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use antiphon::{Error, Stop};
use antiphon_core::Instant;
use antiphon_lab::experiment::{
    Finished, Header, RunError, Setting, digest, media_csv, perform, results_csv, summary, summary_csv,
};
use antiphon_lab::figures::RunFigures;
use antiphon_lab::results::Results;
use antiphon_lab::setup::Setup;
use antiphon_lab::world::World;

pub(crate) use again::course;
pub use again::{Capture, replay};
pub use antiphon_lab::papers::{DRAWS, Judgement, Reading, Verdict};
pub use antiphon_lab::{experiment, figures, replay, results, scenario, setup};
pub use fidelity::{Fidelity, PaperFidelity};
pub use job::{Changes, Job, Which, find, prepare};
pub use papers::{ExperimentRow, PaperResults, Reader, count, count_own, counted, paper};
pub use path::replay_path;
pub use real::{RealOptions, USUAL, USUAL_REPETITIONS, describe};
pub use report::write_report;
pub use sides::{RealResults, SideRow, side_rows};
use store::Store;

/// Options of a run of experiments.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Parent of the experiments' directories.
    pub results: PathBuf,
    /// Runs at once; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Do not continue with existing runs; they are set aside.
    pub fresh: bool,
    /// The command that repeats this, without `--run`; recorded with every run.
    pub command: String,
    /// On sockets in real time, one run after the other, instead of the model; results go to `real` in the experiment's
    /// directory. `None`: as the scenario says: the model, unless it is `measured`.
    pub real: Option<RealOptions>,
}

impl Default for RunOptions {
    /// All cores, into `antiphon-lab`.
    fn default() -> Self {
        RunOptions {
            results: "antiphon-lab".into(),
            threads: None,
            fresh: false,
            command: String::new(),
            real: None,
        }
    }
}

/// Progress of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Runs of the plan.
    pub planned: u32,
    /// Runs that exist.
    pub done: u32,
    /// Those of them that existed before.
    pub before: u32,
    /// Events of the others.
    pub events: u64,
    /// How long the missing runs take, where that is known beforehand: on sockets.
    pub expected: Option<Duration>,
}

/// Result of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Its directory.
    pub directory: PathBuf,
    /// The runs that exist, by their numbers.
    pub finished: Vec<Finished>,
    /// Runs of the plan.
    pub planned: u32,
    /// Runs that existed before.
    pub before: u32,
    /// Stopped before its end.
    pub interrupted: bool,
    /// Messages for the user.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The records of all runs that exist.
    pub fn results(&self) -> Results {
        experiment::results(&self.finished, self.planned)
    }
}

/// Does the missing runs of an experiment, and writes its tables.
///
/// When stopped, it keeps the runs that have ended; the same call continues from them. A write error says what to do,
/// and no run that has ended is lost by it.
pub fn run(
    job: &Job,
    options: &RunOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let options = &options.settled(job);
    let Some(real) = options.real else {
        let world = |setup: &Setup, seed: u64| in_world(setup, seed, stop).map(|world| world.figures());
        return run_in(job, options, stop, progress, &world);
    };
    // An impossible request is refused before anything is written.
    real_length(job, &real)?;
    let sockets = |setup: &Setup, seed: u64| on_sockets(job, setup, seed, &real, stop);
    run_in(job, options, stop, progress, &sockets)
}

impl RunOptions {
    /// With the job's own defaults for options that are not set.
    fn settled(&self, job: &Job) -> RunOptions {
        let real = self.real.or(job.scenario.measured.then(RealOptions::default));
        // Two runs at once would influence each other's measurement.
        let threads = if real.is_some() { Some(1) } else { self.threads };
        RunOptions { real, threads, ..self.clone() }
    }
}

/// The first run of each point.
fn firsts(job: &Job) -> impl Iterator<Item = scenario::Run> {
    job.scenario.plan().into_iter().step_by(job.scenario.repetitions.max(1) as usize)
}

/// How long the runs of a job take on sockets; an error if any of them can only be modelled.
pub fn real_length(job: &Job, real: &RealOptions) -> Result<Duration, Error> {
    let mut length = Duration::ZERO;
    for run in firsts(job) {
        let setup = real.shorten(job, &job.setup(&run.point)?);
        length += real::length(&setup)? * job.scenario.repetitions;
    }
    Ok(length)
}

fn on_sockets(
    job: &Job,
    setup: &Setup,
    seed: u64,
    real: &RealOptions,
    stop: &Stop,
) -> Result<RunFigures, String> {
    real::run(&real.shorten(job, setup), seed, real, stop).map_err(|error| error.message)
}

/// A world: returns figures, or why there are none.
pub(crate) type WorldFn<'a> = dyn Fn(&Setup, u64) -> Result<RunFigures, String> + Sync + 'a;

/// Like [`run`], in any world.
pub(crate) fn run_in(
    job: &Job,
    options: &RunOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
    world: &WorldFn<'_>,
) -> Result<Outcome, Error> {
    let plan = job.scenario.plan();
    let (mut store, mut finished) = Store::open(job, &header(job, options), options)?;
    adopt(&mut finished, &plan);
    let before = finished.len() as u32;
    let mut there = vec![false; plan.len()];
    finished.iter().for_each(|kept| there[kept.run.index as usize] = true);
    let missing: Vec<_> = plan.iter().filter(|run| !there[run.index as usize]).cloned().collect();
    let whole = options.real.map(|real| real_length(job, &real)).transpose()?;
    let expected = whole.map(|whole| whole * missing.len() as u32 / plan.len().max(1) as u32);
    let mut state = Progress { planned: plan.len() as u32, done: before, before, events: 0, expected };
    progress(&state);
    let work = |run: &scenario::Run| {
        guarded(|| perform(&job.scenario, run, |setup, seed| world(setup, seed))).map_err(|why| {
            let again = replay_command(&options.command, run.index);
            Error::failed(format!("{why}\nThis run alone: {again}"))
        })
    };
    let ended = engine::execute(&missing, threads(options.threads), stop, &work, &mut |event| {
        if let Some(run) = event {
            store.keep(&run, &replay_command(&options.command, run.run.index))?;
            state.done += 1;
            state.events += run.events;
            finished.push(run);
        }
        progress(&state);
        Ok(())
    });
    finished.sort_by_key(|kept| kept.run.index);
    // The tables of the existing runs are useful even after an error; that error is returned first.
    let written = write(&store, job, options.real.is_some(), &finished, before as usize);
    let interrupted = ended?;
    written?;
    Ok(Outcome {
        directory: store.directory().to_path_buf(),
        planned: plan.len() as u32,
        finished,
        before,
        interrupted,
        notes: store.close(),
    })
}

/// Writes the tables of `finished` runs, and on what machine those on sockets were measured if there are more than
/// `before`.
fn write(store: &Store, job: &Job, real: bool, finished: &[Finished], before: usize) -> Result<(), Error> {
    tables(store, job, if real { Setting::Real } else { Setting::Model }, finished)?;
    match real && finished.len() > before {
        true => store.write(store::MACHINE, &machine::describe()),
        false => Ok(()),
    }
}

/// The result of a run; a panic in a world does not affect other runs.
fn guarded(work: impl FnOnce() -> Result<Finished, RunError>) -> Result<Finished, String> {
    let ended = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        format!("a run failed: {why}; this is a bug in antiphon")
    });
    ended?.map_err(|error| error.to_string())
}

/// The results that an experiment has so far in a setting, of whatever seeds, and what their journal says of it. Empty if it
/// has never run; an error if they belong to another scenario.
fn kept(job: &Job, results: &std::path::Path, setting: Setting) -> Result<(Results, String), Error> {
    let plan = job.scenario.plan();
    let (finished, told) = store::read(job, results, setting)?;
    let finished = adopt_all(finished, &plan);
    Ok((experiment::results(&finished, plan.len() as u32), told))
}

/// Builds the world of an experiment's first point; returns the reason if that fails.
pub fn check(job: &Job) -> Result<(), Error> {
    let plan = job.scenario.plan();
    let Some(run) = plan.first() else { return Ok(()) };
    let setup = job.setup(&run.point)?;
    World::new(&setup, run.seed).map(|_| ()).map_err(|error| Error::usage(format!("{}: {error}", job.target)))
}

/// The command that repeats run number `index`.
pub fn replay_command(command: &str, index: u32) -> String {
    format!("{command} --run {index}")
}

/// Gives kept runs their numbers in the plan, in its order. Removes runs that are not in it, and duplicates.
fn adopt(kept: &mut Vec<Finished>, plan: &[scenario::Run]) {
    let key = |run: &scenario::Run| (run.seed, run.repetition);
    let by_seed: BTreeMap<(u64, u32), &scenario::Run> = plan.iter().map(|run| (key(run), run)).collect();
    kept.retain_mut(|kept| match by_seed.get(&key(&kept.run)) {
        Some(run) if run.point == kept.run.point => {
            kept.run.index = run.index;
            true
        }
        _ => false,
    });
    kept.sort_by_key(|kept| kept.run.index);
    kept.dedup_by_key(|kept| kept.run.index);
}

/// The kept runs at the points of the plan, of any seed, each once: those of the plan with their numbers, and behind them the
/// others in the order in which they were made.
fn adopt_all(kept: Vec<Finished>, plan: &[scenario::Run]) -> Vec<Finished> {
    let points: BTreeSet<_> = plan.iter().map(|run| &run.point).collect();
    let mut seen = BTreeSet::new();
    let mut ours = kept.clone();
    adopt(&mut ours, plan);
    seen.extend(ours.iter().map(|kept| (kept.run.seed, kept.run.repetition)));
    let others = kept
        .into_iter()
        .filter(|kept| points.contains(&kept.run.point) && seen.insert((kept.run.seed, kept.run.repetition)));
    let numbered = others.zip(plan.len() as u32..).map(|(mut kept, number)| {
        kept.run.index = number;
        kept
    });
    let others: Vec<Finished> = numbered.collect();
    ours.extend(others);
    ours
}

fn header(job: &Job, options: &RunOptions) -> Header {
    Header {
        version: env!("CARGO_PKG_VERSION").into(),
        build: build::id(),
        title: job.scenario.title.clone(),
        digest: digest(job.scenario.text()),
        command: options.command.clone(),
        setting: options.real.map_or(Setting::Model.name().into(), |real| real.setting(job)),
    }
}

fn tables(store: &Store, job: &Job, setting: Setting, finished: &[Finished]) -> Result<(), Error> {
    let variables = job.scenario.variables();
    store.write("results.csv", &results_csv(&variables, setting, finished))?;
    store.write("summary.csv", &summary_csv(&variables, &summary(finished)))?;
    store.write("media.csv", &media_csv(&variables, finished))?;
    store.write("scenario.toml", job.scenario.text())
}

fn threads(asked: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(cores).clamp(1, 256)
}

/// Virtual time between two checks of whether to stop.
const SLICE: Duration = Duration::from_secs(1);

/// The world of a setup at the end of its run.
fn in_world(setup: &Setup, seed: u64, stop: &Stop) -> Result<World, String> {
    to_end(World::new(setup, seed).map_err(|error| error.to_string())?, setup, stop)
}

fn to_end(mut world: World, setup: &Setup, stop: &Stop) -> Result<World, String> {
    let end = Instant::ZERO + setup.duration + setup.drain;
    while world.now() < end {
        if stop.is_asked() {
            return Err("stopped".into());
        }
        world.run_until(world.now() + SLICE);
    }
    Ok(world)
}
