//! The runs of an experiment: doing one, storing it as a line of text, and the tables of all of them.
//!
//! Nothing here starts a thread, reads a clock or opens a file: the caller does, and passes in open files. The output
//! depends only on the runs, not on the order in which they ended.

mod journal;
mod summary;
mod tables;

pub use journal::{Header, Journal, JournalError, Kept, Storage, digest};
pub use summary::{PointSummary, summary};
pub use tables::{media_csv, results_csv, summary_csv};

use serde::{Deserialize, Serialize};

use crate::figures::{MediumFigures, RunFigures, StreamFigures};
use crate::results::{Record, Results};
use crate::scenario::{Run, Scenario, ScenarioError};
use crate::setup::Setup;

/// A run that has ended, as it is stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// Streams and pings with their figures, in the order of the setup.
    pub streams: Vec<(String, StreamFigures)>,
    /// Media with their counters, in the order of the setup.
    pub media: Vec<MediumFigures>,
    /// Events that the world processed.
    pub events: u64,
}

/// The setting of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Setting {
    /// In virtual time, over models.
    #[default]
    Model,
    /// On this machine's sockets, in real time.
    Real,
}

impl Setting {
    /// Its name in files: `model` or `real`.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Model => "model",
            Setting::Real => "real",
        }
    }
}

/// Why a run has no figures.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunError {
    /// Its setup can't be built.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The world refused it or failed.
    #[error("run {run}: {why}")]
    World {
        /// The run's number.
        run: u32,
        /// The world's message.
        why: String,
    },
}

/// Runs one run in `world`.
pub fn perform<E: std::fmt::Display>(
    scenario: &Scenario,
    run: &Run,
    world: impl FnOnce(&Setup, u64) -> Result<RunFigures, E>,
) -> Result<Finished, RunError> {
    let setup = scenario.setup_of(run)?;
    let figures =
        world(&setup, run.seed).map_err(|why| RunError::World { run: run.index, why: why.to_string() })?;
    Ok(Finished::new(run, figures))
}

impl Finished {
    /// A run with its figures.
    pub fn new(run: &Run, figures: RunFigures) -> Self {
        // A value that is not a number cannot be written and was not measured.
        let measured = |figures: StreamFigures| {
            let values: Vec<Option<f64>> =
                figures.values().into_iter().map(|value| value.filter(|value| value.is_finite())).collect();
            StreamFigures::from_values(&values)
        };
        Finished {
            run: run.clone(),
            streams: figures.streams.into_iter().map(|(name, figures)| (name, measured(figures))).collect(),
            media: figures.media,
            events: figures.events,
        }
    }

    /// One record for each stream.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.streams.iter().map(|(stream, figures)| Record {
            run: self.run.index,
            point: self.run.point.clone(),
            repetition: self.run.repetition,
            seed: self.run.seed,
            stream: stream.clone(),
            figures: *figures,
        })
    }
}

/// The results of the existing runs, which must be ordered by their numbers.
pub fn results(finished: &[Finished], planned_runs: u32) -> Results {
    Results { records: finished.iter().flat_map(Finished::records).collect(), planned_runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with figures that depend on it.
    pub(super) fn finished(index: u32, value: f64) -> Finished {
        let point =
            vec![("transport".to_string(), "arq?a=1,2".to_string()), ("rate".into(), "2Mbit/s".into())];
        let run = Run { index, point, repetition: index % 2, seed: 281_474_976_710_655 };
        let figures =
            StreamFigures { sent: Some(100.0), delay_mean_ms: Some(value), ..StreamFigures::default() };
        let media = vec![MediumFigures {
            name: "wlan".into(),
            counters: vec![("sent".into(), 7.0), ("ap.collisions".into(), value)],
        }];
        Finished::new(
            &run,
            RunFigures {
                streams: vec![("audio".into(), figures), ("z\"x".into(), figures)],
                media,
                events: 12,
            },
        )
    }

    #[test]
    fn what_is_no_number_was_not_measured() {
        let finished = finished(0, f64::NAN);
        assert_eq!(finished.streams[0].1.delay_mean_ms, None);
        let results = results(&[finished], 2);
        assert_eq!((results.records.len(), results.runs(), results.is_complete()), (2, 1, false));
    }

    #[test]
    fn a_world_that_breaks_says_in_which_run() {
        let text = "title='x'\nduration='1s'\nnode.a={}\nnode.b={}\nlink.l={between=['a','b'],delay='1ms'}\n\
                    traffic.p={kind='ping',from='a',to='b',interval='1s',count=1}";
        let scenario = Scenario::parse("x", text).unwrap();
        let plan = scenario.plan();
        let error = perform(&scenario, &plan[0], |_, _| Err("it rained")).unwrap_err();
        assert_eq!(error.to_string(), "run 0: it rained");
        let seen = perform(&scenario, &plan[0], |setup, seed| {
            Ok::<_, String>(RunFigures { events: seed + setup.nodes.len() as u64, ..RunFigures::default() })
        });
        assert_eq!(seen.unwrap().events, plan[0].seed + 2);
    }
}
