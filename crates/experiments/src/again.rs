//! Repeats one run of an experiment: for its figures, a capture of a medium, or the outcome of each frame.

use std::path::PathBuf;

use antiphon_lab::experiment::{Finished, perform};
use antiphon_lab::figures::Course;
use antiphon_lab::scenario::Run;
use antiphon_lab::setup::Setup;
use antiphon_lab::world::World;

use super::{Job, RealOptions, describe, guarded, in_world, on_sockets, to_end};
use antiphon::{Error, Stop};

/// What to capture in a run that is replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    /// A medium's name.
    pub medium: String,
    /// Only at this node.
    pub node: Option<String>,
    /// The pcapng file to write.
    pub file: PathBuf,
}

/// Repeats one run of an experiment; nothing is kept but captures.
///
/// On sockets it is another run with the same seed, and captures are refused.
pub fn replay(
    job: &Job,
    index: u32,
    captures: &[Capture],
    real: Option<RealOptions>,
    stop: &Stop,
) -> Result<Finished, Error> {
    let plan = job.scenario.plan();
    let run = plan.get(index as usize).ok_or_else(|| {
        Error::usage(format!("--run {index}: {} has runs 0 to {}", job.name, plan.len().saturating_sub(1)))
    })?;
    if let Some(real) = real.or(job.scenario.measured.then(RealOptions::default)) {
        if !captures.is_empty() {
            return Err(Error::usage(
                "--capture works with the model only: omit --real, or capture with compare",
            ));
        }
        describe(&job.setup(&run.point)?, &real)?;
        let sockets = |setup: &Setup, seed: u64| on_sockets(job, setup, seed, &real, stop);
        return guarded(|| perform(&job.scenario, run, sockets)).map_err(Error::failed);
    }
    let world = |setup: &Setup, seed: u64| {
        let mut world = World::new(setup, seed).map_err(|error| error.to_string())?;
        for capture in captures {
            tap(&mut world, capture)?;
        }
        let mut world = to_end(world, setup, stop)?;
        let finished = world.finish_captures();
        finished.map_err(|error| format!("a capture is incomplete: {error}: free some space"))?;
        Ok::<_, String>(world.figures())
    };
    guarded(|| perform(&job.scenario, run, world)).map_err(Error::failed)
}

/// The outcome of each frame of `stream` in one run, which is repeated; and the run's figures from that.
pub(crate) fn course(job: &Job, run: &Run, stream: &str) -> Result<(Finished, Course), Error> {
    let mut course = None;
    let world = |setup: &Setup, seed: u64| {
        let world = in_world(setup, seed, &Stop::new())?;
        course = world.course(stream);
        Ok::<_, String>(world.figures())
    };
    let finished = guarded(|| perform(&job.scenario, run, world)).map_err(Error::failed)?;
    course
        .map(|course| (finished, course))
        .ok_or_else(|| Error::failed(format!("'{stream}' records no arrivals")))
}

fn tap(world: &mut World, capture: &Capture) -> Result<(), String> {
    let shown = capture.file.display();
    let file = std::fs::File::create(&capture.file)
        .map_err(|error| format!("{shown}: {error}; choose a writable file"))?;
    let out = Box::new(std::io::BufWriter::new(file));
    world.capture(&capture.medium, capture.node.as_deref(), out).map_err(|error| {
        // The capture failed, and an empty file would look like one.
        match std::fs::remove_file(&capture.file) {
            Ok(()) => format!("{shown}: {error}"),
            Err(kept) => format!("{shown}: {error}; the file is no capture, but can't be removed: {kept}"),
        }
    })
}
