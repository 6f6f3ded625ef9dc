//! Papers with their results: which experiments can run, and the verdicts on the claims.

use std::path::Path;

use antiphon_lab::figures::Course;
use antiphon_lab::papers::{self, Experiment, Judgement, Paper, Verdict};
use antiphon_lab::results::{Record, Results};
use antiphon_lab::scenario::Run;
use serde::Serialize;

use super::{Job, RealResults, Setting, Which};
use antiphon::Error;

/// A paper and the results of its experiments.
#[derive(Clone, Debug)]
pub struct PaperResults {
    /// The paper.
    pub paper: &'static Paper,
    /// By experiment, for those that have results.
    pub results: Vec<(&'static str, Results)>,
    /// Results of runs on sockets, by experiment, for those that have any.
    pub real: Vec<(&'static str, RealResults)>,
}

/// Returns the results of an experiment, if there are any.
pub type Reader<'a> = dyn FnMut(&Paper, &Experiment) -> Result<Option<Results>, Error> + 'a;

impl PaperResults {
    /// The papers called `keys`, or all if there are none, with their results below `results`.
    ///
    /// Runs of every seed count. Results that belong to another scenario are left out, and the second list says so.
    pub fn kept(keys: &[String], results: &Path) -> Result<(Vec<PaperResults>, Vec<String>), Error> {
        let mut notes = Vec::new();
        let mut real = Vec::new();
        let mut found = PaperResults::read(keys, &mut |paper, experiment| {
            let Some(text) = experiment.scenario else { return Ok(None) };
            let job = job(paper, experiment, text)?;
            let mut on = |setting| match super::kept(&job, results, setting) {
                Ok((kept, setting)) => (kept.runs() > 0).then_some((kept, setting)),
                Err(error) => {
                    notes.push(error.to_string());
                    None
                }
            };
            let (modelled, sockets) = (on(Setting::Model), on(Setting::Real));
            let first = if job.scenario.measured { &sockets } else { &modelled };
            let first = first.as_ref().map(|(kept, _)| kept.clone());
            let machine = || super::store::machine(&job, results);
            let sockets =
                sockets.map(|(results, setting)| RealResults { results, setting, machine: machine() });
            real.extend(sockets.map(|sockets| (paper.key, experiment.key, sockets)));
            Ok(first)
        })?;
        for (paper, experiment, sockets) in real {
            let whose = found.iter_mut().find(|found| found.paper.key == paper);
            whose.into_iter().for_each(|found| found.real.push((experiment, sockets.clone())));
        }
        Ok((found, notes))
    }

    /// The papers called `keys`, or all if there are none; `read` returns the results of an experiment, if there are
    /// any.
    pub fn read(keys: &[String], read: &mut Reader<'_>) -> Result<Vec<PaperResults>, Error> {
        let mut found = Vec::new();
        for paper in chosen(keys)? {
            let mut results = Vec::new();
            for experiment in paper.experiments {
                results.extend(read(paper, experiment)?.map(|results| (experiment.key, results)));
            }
            found.push(PaperResults { paper, results, real: Vec::new() });
        }
        Ok(found)
    }

    /// The results of an experiment.
    pub fn of(&self, experiment: &str) -> Option<&Results> {
        self.results.iter().find(|(key, _)| *key == experiment).map(|(_, results)| results)
    }

    /// The results of an experiment's runs on sockets.
    pub fn real_of(&self, experiment: &str) -> Option<&RealResults> {
        self.real.iter().find(|(key, _)| *key == experiment).map(|(_, real)| real)
    }

    /// Every claim with its verdict and the figures behind it.
    pub fn claims(&self) -> Vec<Judgement> {
        let evidence: Vec<_> = self.results.iter().map(|(key, results)| (*key, results)).collect();
        self.paper.judge(&evidence)
    }

    /// A row for each experiment.
    pub fn experiments(&self) -> Vec<ExperimentRow> {
        let row = |experiment: &Experiment| {
            let results = self.of(experiment.key);
            ExperimentRow {
                paper: self.paper.key,
                experiment: experiment.key,
                title: experiment.title,
                section: experiment.section,
                can_run: experiment.lacks().is_none(),
                needs: experiment.needs(),
                planned_runs: planned(self.paper, experiment),
                finished_runs: results.map_or(0, Results::runs),
            }
        };
        self.paper.experiments.iter().map(row).collect()
    }
}

/// The experiments that `PAPER` or `PAPER/EXPERIMENT` names; of a whole paper, those of `which` that can run.
pub(super) fn jobs(target: &str, which: Which) -> Result<Vec<Job>, Error> {
    let (key, experiment) = target.split_once('/').map_or((target, None), |(key, rest)| (key, Some(rest)));
    let paper = paper_of(key, target)?;
    let Some(experiment) = experiment else {
        let meant = |experiment: &&Experiment| which == Which::All || !experiment.is_own();
        let able = paper.experiments.iter().filter(meant).filter(|experiment| experiment.lacks().is_none());
        let jobs = able.filter_map(|experiment| Some(job(paper, experiment, experiment.scenario?)));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        if jobs.is_empty() {
            return Err(Error::usage(format!("no experiment of {key} can run yet: see antiphon lab list")));
        }
        return Ok(jobs);
    };
    let names = || paper.experiments.iter().map(|experiment| experiment.key);
    let Some(found) = paper.experiment(experiment) else {
        let shown: String = experiment.chars().take(60).collect();
        let names: Vec<&str> = names().collect();
        return Err(Error::usage(format!("{key} has no experiment '{shown}'; it has {}", names.join(", "))));
    };
    if which == Which::Published && found.is_own() {
        return Err(Error::usage(format!(
            "{target} is an experiment of our own, which the paper does not describe: run it without --published"
        )));
    }
    match (found.lacks(), found.scenario) {
        (None, Some(text)) => Ok(vec![job(paper, found, text)?]),
        (needs, _) => Err(Error::usage(format!(
            "{target} can't run yet: it needs {}",
            needs.unwrap_or_else(|| "a scenario".into())
        ))),
    }
}

/// An experiment of a paper as a job, if it has a scenario.
pub(super) fn job_of(paper: &Paper, experiment: &Experiment) -> Option<Job> {
    job(paper, experiment, experiment.scenario?).ok()
}

fn job(paper: &Paper, experiment: &Experiment, text: &str) -> Result<Job, Error> {
    let name = format!("{}/{}", paper.key, experiment.key);
    Job::new(&name, &name, text)
}

/// The outcome of each frame in the run of `record`, which is repeated.
///
/// An error if that run then gives other figures than the kept ones: another build of the program made those.
pub(super) fn course(paper: &Paper, experiment: &Experiment, record: &Record) -> Result<Course, Error> {
    let text = experiment.scenario.ok_or_else(|| Error::failed("it has no scenario"))?;
    let run = Run {
        index: record.run,
        point: record.point.clone(),
        repetition: record.repetition,
        seed: record.seed,
    };
    let (finished, course) = super::course(&job(paper, experiment, text)?, &run, &record.stream)?;
    let same =
        finished.records().any(|again| again.stream == record.stream && again.figures == record.figures);
    if same {
        return Ok(course);
    }
    Err(Error::failed("the results are from another build of antiphon; run the experiment with --fresh"))
}

/// The papers of these names, or all if there are none.
fn chosen(keys: &[String]) -> Result<Vec<&'static Paper>, Error> {
    if keys.is_empty() {
        return Ok(papers::all().iter().collect());
    }
    keys.iter().map(|key| paper(key)).collect()
}

/// The paper called `key`.
pub fn paper(key: &str) -> Result<&'static Paper, Error> {
    paper_of(key, key)
}

/// The paper called `key`, where `text` was written.
fn paper_of(key: &str, text: &str) -> Result<&'static Paper, Error> {
    let names: Vec<&str> = papers::all().iter().map(|paper| paper.key).collect();
    papers::find(key).ok_or_else(|| {
        let near = antiphon_core::nearest(key, names.iter().copied());
        let near = near.map_or_else(|| ";".into(), |near| format!(", did you mean '{near}'?"));
        let (shown, names): (String, _) = (text.chars().take(60).collect(), names.join(", "));
        if let Some(what) = what_it_is(std::path::Path::new(text)) {
            return Error::usage(format!(
                "'{shown}' is {what}: name a scenario's file (it ends in .toml) or a paper: {names}"
            ));
        }
        Error::usage(format!(
            "unknown paper '{shown}'{near} papers: {names} (a scenario's file ends in .toml)"
        ))
    })
}

/// What stands at a path that is neither a paper's name nor a scenario's.
fn what_it_is(path: &std::path::Path) -> Option<&'static str> {
    let looks_like_a_path = path.components().count() > 1 || path.is_absolute();
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Some("a directory"),
        Ok(found) if !found.is_file() => Some("not a file"),
        Ok(_) => Some("a file of another kind"),
        Err(_) if looks_like_a_path => Some("not there"),
        Err(_) => None,
    }
}

/// Runs of an experiment's plan; `None` without a scenario.
fn planned(paper: &Paper, experiment: &Experiment) -> Option<u32> {
    let job = job(paper, experiment, experiment.scenario?).ok()?;
    u32::try_from(job.scenario.plan().len()).ok()
}

/// Status of an experiment: a line of `antiphon lab list`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentRow {
    /// The paper's name.
    pub paper: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// The question that it answers.
    pub title: &'static str,
    /// Section of the paper that describes it.
    pub section: Option<&'static str>,
    /// Whether nothing that it needs is missing.
    pub can_run: bool,
    /// What is missing: transports, or a scenario.
    pub needs: Vec<&'static str>,
    /// Runs of its plan; `None` without a scenario.
    pub planned_runs: Option<u32>,
    /// Runs whose results are there.
    pub finished_runs: u32,
}

/// How many of a paper's required claims have this verdict.
pub fn count(claims: &[Judgement], verdict: Verdict) -> usize {
    claims.iter().filter(|claim| claim.required && !claim.own && claim.verdict == verdict).count()
}

/// How many of a paper's required claims have which verdict, in words: "9 hold, 5 hold by fit, 2 undecided"; those that none has
/// are left out.
pub fn counted(claims: &[Judgement]) -> String {
    let word = |verdict: Verdict, count: usize| match (verdict, count) {
        (Verdict::Holds, 1) => "holds",
        (Verdict::Holds, _) => "hold",
        (Verdict::HoldsByFit, 1) => "holds by fit",
        (Verdict::HoldsByFit, _) => "hold by fit",
        (Verdict::DoesNotHold, 1) => "does not",
        (Verdict::DoesNotHold, _) => "do not",
        (other, _) => other.words(),
    };
    let counts = Verdict::ALL.map(|verdict| (verdict, count(claims, verdict)));
    // How many hold is always said.
    let said = counts.into_iter().filter(|(verdict, count)| *count > 0 || *verdict == Verdict::Holds);
    let words = said.map(|(verdict, count)| format!("{count} {}", word(verdict, count)));
    words.collect::<Vec<_>>().join(", ")
}

/// How many of our own claims hold, and how many there are.
pub fn count_own(claims: &[Judgement]) -> (usize, usize) {
    let own = || claims.iter().filter(|claim| claim.own);
    (own().filter(|claim| claim.verdict == Verdict::Holds).count(), own().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_paper_is_answered_with_the_known_ones() {
        let error = PaperResults::read(&["tv-audio-lan".into()], &mut |_, _| Ok(None)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.message.contains("did you mean 'tv-audio-wlan'?"), "{error}");
        assert!(error.message.contains("two-stream"), "{error}");
    }

    #[test]
    fn experiments_are_found_by_their_names() {
        let chosen = |target: &str, which| -> Vec<String> {
            jobs(target, which).unwrap().into_iter().map(|job| job.name).collect()
        };
        let names = |target: &str| chosen(target, Which::All);
        assert_eq!(names("tv-audio-wlan/udp"), ["tv-audio-wlan/udp"]);
        let whole = names("tv-audio-wlan");
        assert!(
            ["initial", "mac_retransmission", "udp", "tcp"]
                .iter()
                .all(|key| whole.contains(&format!("tv-audio-wlan/{key}")))
        );
        let published = |target: &str| chosen(target, Which::Published);
        assert_eq!(
            published("srp"),
            ["low_loss_low_latency", "low_loss_high_latency", "high_loss_high_latency"]
                .map(|key| format!("srp/{key}"))
        );
        assert_eq!(names("srp").len(), 4);
        assert_eq!(published("srp/low_loss_low_latency"), names("srp/low_loss_low_latency"));
        let own = jobs("srp/sudden_change", Which::Published).unwrap_err();
        assert_eq!(own.exit_code(), 2);
        assert!(own.message.contains("of our own") && own.message.contains("without --published"), "{own}");
        let complaint = |target: &str| jobs(target, Which::All).unwrap_err().message;
        assert!(complaint("tv-audio-wlan/upd").contains("it has initial, mac_retransmission, udp"));
        assert!(complaint("x").contains("unknown paper 'x'"));
        let waiting =
            papers::all().iter().find(|paper| paper.experiments.iter().all(|e| e.scenario.is_none()));
        if let Some(paper) = waiting {
            assert!(complaint(paper.key).contains("antiphon lab list"));
            let first = format!("{}/{}", paper.key, paper.experiments[0].key);
            assert!(complaint(&first).contains("it needs "), "{}", complaint(&first));
        }
    }

    #[test]
    fn a_claim_is_a_line_of_json_with_its_verdict_in_front() {
        let all = PaperResults::read(&[], &mut |_, _| Ok(None)).unwrap();
        let claims: Vec<Judgement> = all.iter().flat_map(PaperResults::claims).collect();
        let own = claims.iter().filter(|claim| claim.own).count();
        assert_eq!((claims.len() - own, count_own(&claims)), (20 + 23 + 22 + 23 + 26, (0, 62)));
        for claim in &claims {
            let line = serde_json::to_string(claim).unwrap();
            let head = format!(
                "{{\"paper\":\"{}\",\"id\":\"{}\",\"required\":{},\"verdict\":\"not-run\",\"figures\":[],\"because\":",
                claim.paper, claim.id, claim.required
            );
            assert!(line.starts_with(&head), "{line}");
            assert!(!claim.because.is_empty());
        }
    }

    #[test]
    fn every_experiment_says_whether_it_can_run() {
        let all = PaperResults::read(&[], &mut |_, _| Ok(None)).unwrap();
        let rows: Vec<ExperimentRow> = all.iter().flat_map(PaperResults::experiments).collect();
        assert_eq!(rows.len(), 8 + 16 + 10 + 4 + 15);
        for row in &rows {
            assert_eq!(row.can_run, row.needs.is_empty(), "{row:?}");
            assert!(!row.can_run || row.planned_runs.is_some_and(|runs| runs > 0), "{row:?}");
        }
        let udp = rows.iter().find(|row| row.experiment == "udp").unwrap();
        assert_eq!((udp.can_run, udp.planned_runs, udp.finished_runs), (true, Some(330), 0));
    }
}
