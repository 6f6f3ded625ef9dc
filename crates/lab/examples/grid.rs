//! How long the experiments of the papers take on one core, and digests of their results: a change that should only make
//! the laboratory faster leaves the digests as they are.
//!
//! `cargo run --release -p antiphon-lab --example grid -- [--repetitions N] [--into DIR] [PAPER[/EXPERIMENT]]...`
//!
//! Fewer repetitions than planned are scaled up. `DIR` gets `results.csv` and `media.csv` of each experiment. Experiments on
//! this machine's own sockets are left out.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures how long computing takes; nothing of the run depends on it"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use antiphon_lab::experiment::{Finished, Setting, digest, media_csv, perform, results_csv};
use antiphon_lab::papers::{self, Experiment, Paper};
use antiphon_lab::scenario::Scenario;
use antiphon_lab::world;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let (mut printed, mut own) = (0.0, 0.0);
    println!("{:<46} {:>5} {:>9} {:>10}  results media", "experiment", "runs", "seconds", "events/run");
    for paper in papers::all() {
        for experiment in paper.experiments {
            let seconds = measure(&options, paper, experiment)?;
            *if experiment.is_own() { &mut own } else { &mut printed } += seconds;
        }
    }
    println!("of the papers {printed:.1} s, our own {own:.1} s, together {:.1} s", printed + own);
    Ok(())
}

/// Runs an experiment that is asked for; returns the time of all its runs in seconds.
fn measure(options: &Options, paper: &Paper, experiment: &Experiment) -> Result<f64, Box<dyn Error>> {
    let name = format!("{}/{}", paper.key, experiment.key);
    let Some(text) = experiment.scenario.filter(|_| options.asks_for(paper.key, &name)) else {
        return Ok(0.0);
    };
    let whole = Scenario::parse(&name, text)?;
    if whole.measured {
        return Ok(0.0);
    }
    let planned = whole.plan().len();
    let scenario = match options.repetitions {
        Some(fewer) if fewer < whole.repetitions => whole.with_repetitions(fewer)?,
        _ => whole,
    };
    let plan = scenario.plan();
    let began = Stopwatch::start();
    let runs = plan.iter().map(|run| perform(&scenario, run, world::run));
    let finished = runs.collect::<Result<Vec<Finished>, _>>()?;
    let seconds = began.seconds() * planned as f64 / plan.len() as f64;
    let events = finished.iter().map(|run| run.events).sum::<u64>() / plan.len() as u64;
    let variables = scenario.variables();
    let results = results_csv(&variables, Setting::Model, &finished);
    let media = media_csv(&variables, &finished);
    println!("{name:<46} {planned:>5} {seconds:>9.1} {events:>10}  {} {}", digest(&results), digest(&media));
    if let Some(into) = &options.into {
        write(&into.join(&name), &results, &media)?;
    }
    Ok(seconds)
}

fn write(directory: &Path, results: &str, media: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("results.csv"), results)?;
    std::fs::write(directory.join("media.csv"), media)
}

#[derive(Default)]
struct Options {
    repetitions: Option<u32>,
    into: Option<PathBuf>,
    targets: Vec<String>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Options::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--repetitions" => {
                    options.repetitions = Some(args.next().ok_or("--repetitions needs a number")?.parse()?)
                }
                "--into" => options.into = Some(args.next().ok_or("--into needs a directory")?.into()),
                _ => options.targets.push(arg),
            }
        }
        Ok(options)
    }

    fn asks_for(&self, paper: &str, experiment: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|target| target == paper || target == experiment)
    }
}

/// Time that this thread has had a processor, where the system tells it; else the time that has passed.
struct Stopwatch {
    began: Clock,
    used: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { began: Clock::now(), used: on_processor() }
    }

    fn seconds(&self) -> f64 {
        match (self.used, on_processor()) {
            (Some(before), Some(now)) => (now - before) as f64 / 1e9,
            _ => self.began.elapsed().as_secs_f64(),
        }
    }
}

/// Nanoseconds (Linux: Documentation/scheduler/sched-stats.rst).
fn on_processor() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}
