//! Experiments to run, found by the arguments of a command line.

use std::io::Read;
use std::path::Path;

use antiphon_lab::scenario::{
    MAX_PASSPORT, MAX_PASSPORTS, Scenario, ScenarioError, missing_include, missing_passports, with_include,
    with_passport,
};
use antiphon_lab::setup::Setup;

use super::{RealOptions, USUAL_REPETITIONS, papers};
use antiphon::Error;
use antiphon::run::prepare_link;

/// An experiment that can run.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its directory below that of the results: `example`, `tv-audio-wlan/udp`.
    pub name: String,
    /// Its name on a command line.
    pub target: String,
    /// Its content.
    pub scenario: Scenario,
}

/// Settings that replace those of a scenario.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Runs at each point.
    pub repetitions: Option<u32>,
    /// Seed of everything random.
    pub seed: Option<u64>,
    /// Values of variables of the sweep.
    pub set: Vec<(String, Vec<String>)>,
}

/// Which experiments of a paper are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// All that can run.
    #[default]
    All,
    /// Those that the paper describes. Experiments of our own about it are left out.
    Published,
}

/// An error that the user can correct.
fn usage(error: ScenarioError) -> Error {
    Error::usage(error.to_string())
}

impl Job {
    /// From a scenario's text; `target` is its name on a command line and in errors.
    pub fn new(name: &str, target: &str, text: &str) -> Result<Job, Error> {
        Ok(Job {
            name: name.into(),
            target: target.into(),
            scenario: Scenario::parse(target, text).map_err(usage)?,
        })
    }

    /// The setup of a point of its sweep.
    pub fn setup(&self, point: &[(String, String)]) -> Result<Setup, Error> {
        self.scenario.setup(point).map_err(usage)
    }

    /// A setting's short form, if the experiment's paper defines one.
    pub fn short<'a>(&self, setting: &'a str) -> &'a str {
        let paper = self.name.split_once('/').and_then(|(key, _)| antiphon_lab::papers::find(key));
        paper.map_or(setting, |paper| paper.short(setting))
    }

    /// With changes; results of what stays the same remain valid.
    pub fn with(mut self, changes: &Changes) -> Result<Job, Error> {
        if let Some(repetitions) = changes.repetitions {
            self.scenario = self.scenario.with_repetitions(repetitions).map_err(usage)?;
        }
        if let Some(seed) = changes.seed {
            self.scenario.seed = seed;
        }
        for (name, values) in &changes.set {
            self.scenario = self.scenario.with_values(name, values).map_err(usage)?;
        }
        Ok(self)
    }

    /// With no more repetitions than runs on sockets usually have; a `measured` scenario keeps its own.
    fn for_sockets(mut self) -> Result<Job, Error> {
        if !self.scenario.measured && self.scenario.repetitions > USUAL_REPETITIONS {
            self.scenario = self.scenario.with_repetitions(USUAL_REPETITIONS).map_err(usage)?;
        }
        Ok(self)
    }
}

/// The experiments named by all `targets`, each once, with `changes`: scenario files, and papers (`which` of their experiments) and
/// experiments of them. On sockets (`real`) each has no more repetitions than runs there usually have, unless `changes` set them.
///
/// [`Which::Published`] with a target that is no paper's is an error.
pub fn find(
    targets: &[impl AsRef<str>],
    which: Which,
    changes: &Changes,
    real: Option<RealOptions>,
) -> Result<Vec<Job>, Error> {
    let mut jobs: Vec<Job> = Vec::new();
    for job in
        targets.iter().map(|target| named(target.as_ref(), which)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        match jobs.iter().find(|other| other.name == job.name) {
            None => jobs.push(job),
            Some(other) if other.target == job.target => {}
            Some(other) => {
                return Err(Error::usage(format!(
                    "{} and {} would have the same directory, {}: run them with different --results",
                    other.target, job.target, job.name
                )));
            }
        }
    }
    let few = real.is_some() && changes.repetitions.is_none();
    let changed = jobs.into_iter().map(|job| job.with(changes));
    changed.map(|job| if few { job?.for_sockets() } else { job }).collect()
}

/// The experiments that a target names: a scenario file's, or a paper's.
fn named(target: &str, which: Which) -> Result<Vec<Job>, Error> {
    let path = Path::new(target);
    if target.ends_with(".toml") || path.is_file() {
        if which == Which::Published {
            return Err(Error::usage(format!("{target} is no paper: run it without --published")));
        }
        return Ok(vec![from_file(path)?]);
    }
    papers::jobs(target, which)
}

/// Gives this process, which must have no other thread yet, the rights that runs on sockets need. Returns the reason if
/// it cannot: the runs then use another way and report what that changes. Jobs of the model need nothing.
pub fn prepare(jobs: &[Job], real: Option<RealOptions>) -> Option<String> {
    let needed = real.is_some() || jobs.iter().any(|job| job.scenario.measured);
    needed.then(prepare_link).flatten()
}

/// More than a scenario may have, so that its own error message is shown.
const MOST: u64 = 2 << 20;

fn from_file(path: &Path) -> Result<Job, Error> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut text = read(path, MOST)?;
    if let Some(name) = missing_include(&text) {
        let included = read(&beside.join(&name), MOST)?;
        text = with_include(&text, &name, &included);
    }
    let passports = missing_passports(&text);
    if passports.len() > MAX_PASSPORTS {
        let why = format!("it names {} passports, at most {MAX_PASSPORTS}: split it", passports.len());
        return Err(Error::usage(format!("{}: {why}", path.display())));
    }
    for name in passports {
        // One byte more, so that a longer one is refused as such.
        let passport = read(&beside.join(&name), MAX_PASSPORT as u64 + 1)?;
        text = with_passport(&text, &name, &passport);
    }
    // `file_stem` returns a name that is only an extension whole.
    let stem = path.file_stem().ok_or_else(|| unreadable(path, "it has no file name"))?;
    Job::new(&stem.to_string_lossy(), &path.display().to_string(), &text)
}

/// The first `most` bytes of a file.
fn read(path: &Path, most: u64) -> Result<String, Error> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, error))?;
    file.take(most).read_to_end(&mut text).map_err(|error| unreadable(path, error))?;
    String::from_utf8(text).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        unreadable(path, format!("line {} is not UTF-8", line + 1))
    })
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::usage(format!("{}: {why}; name a file that can be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passport_is_found_beside_its_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let scenario = folder.path().join("recorded.toml");
        let text = "title='Test'\nduration='1s'\nnode.a={}\nnode.b={}\nlink.l={between=['a','b'],link='$path'}\n\
            traffic.p={kind='ping',from='a',to='b',interval='1s',count=1}\nsweep.path=['dsl','passport:hall.passport']";
        std::fs::write(&scenario, text).unwrap();
        let target = scenario.display().to_string();
        let found = || find(&[&target], Which::All, &Changes::default(), None);
        let error = found().unwrap_err();
        assert!(error.message.contains("hall.passport: ") && error.exit_code() == 2, "{error}");

        let head = r#"{"passport":{"version":1,"antiphon":"0","command":"a","seed":1,"units":"ns"}}"#;
        let section = r#"{"section":{"transport":"rtp","direction":"up","delays":"one-way","clock":"one","repairs":false,"header_bytes":40,"packet_bytes":140,"interval_ns":10}}"#;
        let passport = folder.path().join("hall.passport");
        std::fs::write(&passport, format!("{head}\n{section}\n[0,0,6000000,140,0]\n")).unwrap();
        let jobs = found().unwrap();
        assert_eq!(jobs[0].scenario.plan().len(), 2);
        crate::check(&jobs[0]).unwrap();
        // What is kept beside the results needs no other file.
        let kept = folder.path().join("kept.toml");
        std::fs::write(&kept, jobs[0].scenario.text()).unwrap();
        std::fs::remove_file(&passport).unwrap();
        assert!(find(&[kept.display().to_string()], Which::All, &Changes::default(), None).is_ok());

        std::fs::write(&passport, "no passport").unwrap();
        let error = found().unwrap_err();
        assert!(error.message.contains("'hall.passport': not a passport"), "{error}");
        let many: String =
            (0..17).map(|n| format!("link.l{n}={{between=['a','b'],link='passport:{n}'}}\n")).collect();
        std::fs::write(&scenario, format!("title='Test'\nduration='1s'\n{many}")).unwrap();
        assert!(found().unwrap_err().message.contains("17 passports, at most 16"));
    }
}
