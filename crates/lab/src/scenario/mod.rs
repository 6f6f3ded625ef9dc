//! Experiments as data: a scenario in TOML becomes a plan of runs, and each run a [`Setup`].
//!
//! ```
//! use antiphon_lab::scenario::Scenario;
//!
//! let text = r#"
//! title = "A stream over a line that loses packets"
//! repetitions = 3
//! duration = { value = "10s", why = "long enough for 1000 packets" }
//!
//! [node.home]
//! [node.studio]
//!
//! [link.line]
//! between = ["home", "studio"]
//! rate = "10Mbit/s"
//! loss = "$loss"
//!
//! [stream.audio]
//! transport = "rtp"
//! from = "home"
//! to = "studio"
//! frame = "652B"
//! interval = "10ms"
//!
//! [sweep]
//! loss = ["0%", "1%", "5%"]
//! "#;
//! let scenario = Scenario::parse("line.toml", text)?;
//! let plan = scenario.plan();
//! assert_eq!(plan.len(), 9);
//! let setup = scenario.setup_of(&plan[0])?;
//! assert_eq!(setup.streams[0].name, "audio");
//! # Ok::<(), antiphon_lab::scenario::ScenarioError>(())
//! ```
//!
//! A text `"$name"` is replaced by a value of `[sweep]`. Every value may be written with its reason, `{ value = "20us",
//! why = "…" }`; one that was set so that a printed figure comes out says which: `{ value = "1%", why = "…", fitted = "table 6.3,
//! 12 Mbit/s" }`. [`Scenario::notes`] lists them. What several scenarios share is in a file that each includes: `include =
//! "room.toml"` ([`with_include`]). A link that repeats a recorded path names its passport: `link = "passport:FILE"`
//! ([`with_passport`]).

mod build;
mod cell;
mod error;
mod further;
mod include;
mod load;
mod media;
mod passport;
mod pictures;
mod read;
mod ring;
mod run_digest;
mod stream;
mod sweep;
mod tcp;
mod topology;
mod tree;

#[cfg(test)]
mod tests;

use antiphon_core::Rng;

use crate::setup::Setup;
pub use error::ScenarioError;
use error::{Fault, Read};
pub use include::{missing_include, with_include};
use passport::Recordings;
pub use passport::{MAX_PASSPORT, MAX_PASSPORTS, missing_passports, with_passport};
pub use sweep::Axis;
use tree::Table;

/// The settings of one point of the sweep: names and values in the order of the axes.
pub type Point = Vec<(String, String)>;

/// An experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its subject, in a line.
    pub title: String,
    /// Where its numbers come from, as a whole; may be empty.
    pub source: String,
    /// All seeds of its runs are derived from this.
    pub seed: u64,
    /// Runs at each point.
    pub repetitions: u32,
    /// Runs on real sockets: it measures this machine.
    pub measured: bool,
    /// The variables, the slowest first.
    pub sweep: Vec<Axis>,
    file: String,
    text: String,
    tree: Table,
    recordings: Recordings,
}

/// One run of a plan.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Run {
    /// From 0: points in the order of the sweep, repetitions within a point.
    #[serde(rename = "run")]
    pub index: u32,
    /// Values of the sweep's variables.
    pub point: Point,
    /// From 0.
    pub repetition: u32,
    /// Seed of everything random in it.
    ///
    /// Depends only on the scenario's seed, the point and the repetition: more points or repetitions do not change the
    /// others. 48 bits, so that spreadsheets keep every digit.
    pub seed: u64,
}

/// A number of a scenario and its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Its place in the scenario: `cell.hall.slot`.
    pub place: String,
    /// As it was written.
    pub value: String,
    /// Why this number, or where it is from; `None` where the scenario does not say.
    pub why: Option<String>,
    /// The printed figure from which it was set, such as `table 6.3, 12 Mbit/s`; `None` for a number that was not fitted.
    pub fitted: Option<String>,
}

/// The most runs of one scenario, times its streams: the results of all must fit into memory.
pub const MAX_RECORDS: u64 = 200_000;

impl Scenario {
    /// Reads a scenario and checks everything that can be checked without running it, at every point of its sweep.
    ///
    /// `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::read(file, text).map_err(|fault| fault.locate(file, text))
    }

    fn read(file: &str, text: &str) -> Read<Scenario> {
        let (own, recordings) = passport::read(text);
        let tree = include::parse(own)?;
        include::check(&tree, own)?;
        let sweep = sweep::read(&tree)?;
        let head = build::head(&tree)?;
        let scenario = Scenario {
            title: head.title,
            source: head.source,
            seed: head.seed,
            repetitions: head.repetitions,
            measured: head.measured,
            sweep,
            file: file.into(),
            text: text.into(),
            tree,
            recordings,
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Builds the setup of every point, or of enough of them to have used every value.
    fn check(&self) -> Read<()> {
        let points = sweep::points(&self.sweep);
        let (mut used, mut streams) = (std::collections::BTreeSet::new(), 1);
        for point in points.samples() {
            let built = build::setup(&self.tree, &points.at(point), &self.recordings)?;
            used.extend(built.used);
            let pictures = built.setup.streams.iter().filter(|stream| stream.pictures.is_some()).count();
            streams = streams.max((built.setup.streams.len() + pictures) as u64);
        }
        let records = points.count().saturating_mul(self.repetitions.into()).saturating_mul(streams);
        if records > MAX_RECORDS {
            let span = self.tree.entry("sweep").map_or(0..0, |entry| entry.key_span.clone());
            let (points, repetitions) = (points.count(), self.repetitions);
            let message = format!(
                "{points} points of {repetitions} repetitions make {records} results of a stream; at most \
                 {MAX_RECORDS} are kept: take fewer values or repetitions, or several scenarios"
            );
            return Err(Fault::new(&span, message));
        }
        sweep::all_used(&self.sweep, &used)
    }

    /// Every run, in order.
    pub fn plan(&self) -> Vec<Run> {
        let points = sweep::points(&self.sweep);
        let mut plan = Vec::new();
        for number in 0..points.count() {
            let point = points.at(number);
            for repetition in 0..self.repetitions {
                let seed = run_seed(self.seed, &point, repetition);
                plan.push(Run { index: plan.len() as u32, point: point.clone(), repetition, seed });
            }
        }
        plan
    }

    /// The setup of a point.
    pub fn setup(&self, point: &[(String, String)]) -> Result<Setup, ScenarioError> {
        match build::setup(&self.tree, point, &self.recordings) {
            Ok(built) => Ok(built.setup),
            Err(fault) => Err(fault.locate(&self.file, &self.text)),
        }
    }

    /// The setup of a run, with the seed of its media: runs of the same repetition share it, so that all transports and loads
    /// meet the same fades and stalls at the same times.
    pub fn setup_of(&self, run: &Run) -> Result<Setup, ScenarioError> {
        let setup = self.setup(&run.point)?;
        Ok(Setup { media_seed: Some(run_seed(self.seed, &[], run.repetition)), ..setup })
    }

    /// Every number of the scenario with its reason, in the order of the elements; numbers of the sweep are marked as
    /// such.
    pub fn notes(&self) -> Vec<Note> {
        let points = sweep::points(&self.sweep);
        // Checked when the text was read.
        let built = build::setup(&self.tree, &points.at(0), &self.recordings).map(|built| built.notes);
        let swept = self.sweep.iter().map(Axis::note);
        built.unwrap_or_default().into_iter().chain(swept).collect()
    }

    /// The scenario with other values of one axis, as `--set` asks for.
    pub fn with_values(mut self, name: &str, values: &[String]) -> Result<Scenario, ScenarioError> {
        let changed = sweep::replace(&mut self.sweep, name, values).and_then(|()| self.check());
        match changed {
            Ok(()) => Ok(self),
            Err(fault) => Err(fault.locate(&self.file, &self.text)),
        }
    }

    /// The scenario with another number of runs at each point.
    pub fn with_repetitions(mut self, repetitions: u32) -> Result<Scenario, ScenarioError> {
        self.repetitions = repetitions;
        match self.check() {
            Ok(()) => Ok(self),
            Err(fault) => Err(fault.locate(&self.file, &self.text)),
        }
    }

    /// Names of the sweep's variables, in the order of the columns of results.
    pub fn variables(&self) -> Vec<String> {
        self.sweep.iter().flat_map(|axis| axis.names.iter().cloned()).collect()
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The seed of a run: see [`Run::seed`].
fn run_seed(seed: u64, point: &[(String, String)], repetition: u32) -> u64 {
    let mut label = String::from("run");
    for (name, value) in point {
        label += &format!("\u{1f}{name}={value}");
    }
    label += &format!("\u{1f}{repetition}");
    Rng::fork(seed, &label).next_u64() >> 16
}
