//! `antiphon lab`.

mod papers;
mod plan;
mod progress;
mod recorded;
mod show;

use antiphon::core::units::format_duration;
use antiphon::{Error, Stop};
use antiphon_experiments::{Job, Outcome, RunOptions, check, find, prepare, replay, run};

use crate::args::{CheckArgs, Global, LabArgs, LabCommand, RunArgs};
use crate::exit;
use crate::output::Output;
use antiphon::quoted;
use progress::RunProgress;

/// Runs the command; returns the exit code.
pub fn lab(args: &LabArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    match &args.command {
        LabCommand::Run(args) => run_jobs(args, global, output),
        LabCommand::Check(args) => check_jobs(args, output),
        LabCommand::List(args) => papers::list(args, output),
        LabCommand::Claims(args) => papers::claims(args, output),
        LabCommand::Report(args) => papers::report(args, output),
        LabCommand::Replay(args) => recorded::show(args, global, output),
    }
}

fn run_jobs(args: &RunArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let real = args.real();
    let jobs = find(&args.targets, args.which(), &args.changes.changes(), real)?;
    if let Some(why) = prepare(&jobs, real) {
        output.detail(&format!("note: {why}"));
    }
    let watch = output.watch(global.time_limit)?;
    if let Some(number) = args.run {
        return run_one(&jobs, number, args, &watch.stop, output);
    }
    for job in &jobs {
        let command = command(job, args);
        let options = RunOptions {
            results: args.results.clone(),
            threads: args.threads,
            fresh: args.fresh,
            command: command.clone(),
            real,
        };
        show::begin(job, real, output)?;
        let mut progress = RunProgress::new(output, &watch.stop);
        let outcome = run(job, &options, &watch.stop, &mut |now| progress.update(now, output));
        progress.clear();
        let outcome = outcome?;
        show::outcome(job, &outcome, &command, output);
        if outcome.interrupted {
            go_on(&outcome, &command, args, output);
            return Ok(watch.exit_code().unwrap_or(exit::INTERRUPTED));
        }
    }
    Ok(exit::DONE)
}

fn run_one(jobs: &[Job], number: u32, args: &RunArgs, stop: &Stop, output: &mut Output) -> Result<u8, Error> {
    let [job] = jobs else {
        let names: Vec<&str> = jobs.iter().map(|job| job.target.as_str()).collect();
        let message = format!("--run takes one experiment, not {}: {}", jobs.len(), names.join(", "));
        return Err(Error::usage(message));
    };
    let finished = replay(job, number, &args.capture, args.real(), stop)?;
    show::run(job, &finished, &command(job, args), output);
    Ok(exit::DONE)
}

fn check_jobs(args: &CheckArgs, output: &mut Output) -> Result<u8, Error> {
    for job in find(&args.targets, args.which(), &args.changes.changes(), None)? {
        check(&job)?;
        plan::show(&job, output);
    }
    Ok(exit::DONE)
}

/// The command that repeats this run, independent of the results' directory.
fn command(job: &Job, args: &RunArgs) -> String {
    let real = match args.real_duration {
        Some(duration) => format!(" --real-duration {}", format_duration(duration)),
        None if args.real => " --real".into(),
        None => String::new(),
    };
    format!("antiphon lab run {}{real}{}", quoted(&job.target), args.changes.words())
}

fn go_on(outcome: &Outcome, command: &str, args: &RunArgs, output: &Output) {
    let results = args.results.to_string_lossy();
    let results = match &*results {
        "antiphon-lab" => String::new(),
        other => format!(" --results {}", quoted(other)),
    };
    output.error(&format!(
        "stopped: {} of {} runs are saved in {}\nto continue: {command}{results}",
        outcome.finished.len(),
        outcome.planned,
        outcome.directory.display()
    ));
}
