//! How verdicts on the papers' claims change with the seed: runs the papers' experiments with each of several seeds, and
//! judges the runs of each seed alone.
//!
//! `cargo run --release -p antiphon-lab --example seeds -- FIRST LAST [--own] [--write DIR] [PAPER[/EXPERIMENT]]...`
//!
//! The claims are those of the papers, or with `--own` ours, for which our own experiments are run, too.
//! A line for each seed and claim, then the claims with more than one verdict. With `--write crates/lab/papers` the file
//! `PAPER/seeds.csv` there gets the trial of each claim that was judged, in place of an earlier one: after each seed, from the
//! eighth on, so that what is there when it is stopped counts. If the file has a trial of the seeds before FIRST, of the same
//! scenarios, the new ones are added to it. Claims that need other experiments are left out.
//! Experiments on this machine's own sockets have no seed and are left out, and so are the claims that read them. One core runs all;
//! a paper takes three seconds to four minutes a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use antiphon_lab::experiment::{Finished, perform, results};
use antiphon_lab::papers::{self, Experiment, LEAST_SEEDS, Paper, Trial, Trials, Verdict};
use antiphon_lab::results::Results;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::world;

fn main() -> ExitCode {
    match try_seeds() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_seeds() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let tried = |paper: &&Paper| options.targets.is_empty() || options.names(paper).next().is_some();
    let mut papers: Vec<Tried> = papers::all()
        .iter()
        .filter(tried)
        .map(|paper| Tried::new(paper, &options))
        .collect::<Result<_, _>>()?;
    for seed in options.first..=options.last {
        for tried in &mut papers {
            tried.judge(&options, seed)?;
            tried.write(&options)?;
        }
    }
    let claims: Vec<_> = papers.iter().flat_map(|tried| &tried.claims).collect();
    // A claim is listed with its first verdict, so none is without one.
    let usual = |of: &Judged| of.verdicts.values().copied().max().unwrap_or(0);
    let seeds = |of: &Judged| of.verdicts.values().sum::<u32>();
    let all: u32 = claims.iter().map(|(_, of)| seeds(of)).sum();
    let other: u32 = claims.iter().map(|(_, of)| seeds(of) - usual(of)).sum();
    println!("\n{} claims, {all} verdicts, {other} of them not the claim's most frequent one", claims.len());
    for (claim, of) in claims.iter().filter(|(_, of)| of.verdicts.len() > 1) {
        println!("{claim}: {}", of.trial(options.first, String::new()).words());
    }
    Ok(())
}

/// What is asked for.
struct Options {
    first: u64,
    last: u64,
    /// Our claims instead of the papers'.
    own: bool,
    write: Option<PathBuf>,
    targets: Vec<String>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let (mut write, mut own, mut rest) = (None, false, Vec::new());
        while let Some(arg) = args.next() {
            let mut directory = || args.next().map(PathBuf::from).ok_or(format!("{arg} takes a directory"));
            match arg.as_str() {
                "--write" => write = Some(directory()?),
                "--own" => own = true,
                _ => rest.push(arg),
            }
        }
        let [first, last, targets @ ..] = rest.as_slice() else {
            return Err("give the first and the last seed, then papers or experiments of them".into());
        };
        let (first, last) = (first.parse()?, last.parse()?);
        let options = Options { first, last, own, write, targets: targets.to_vec() };
        let known = |target: &&String| {
            papers::all().iter().any(|paper| options.names(paper).any(|name| name == **target))
        };
        match options.targets.iter().find(|target| !known(target)) {
            Some(unknown) => Err(format!("'{unknown}' is no paper and no experiment of one").into()),
            None => Ok(options),
        }
    }

    /// The targets that name a paper or an experiment of it.
    fn names<'a>(&'a self, paper: &'a Paper) -> impl Iterator<Item = &'a str> {
        let named = |target: &&str| match target.split_once('/') {
            Some((key, experiment)) => key == paper.key && paper.experiment(experiment).is_some(),
            None => *target == paper.key,
        };
        self.targets.iter().map(String::as_str).filter(named)
    }

    fn asks_for(&self, paper: &Paper, experiment: &Experiment) -> bool {
        let name = format!("{}/{}", paper.key, experiment.key);
        (self.own || !experiment.is_own())
            && (self.targets.is_empty()
                || self.targets.iter().any(|target| *target == name || target == paper.key))
    }
}

/// The verdicts on a claim so far, and the experiments that its check read.
#[derive(Default)]
struct Judged {
    verdicts: BTreeMap<Verdict, u32>,
    experiments: BTreeSet<String>,
}

impl Judged {
    fn trial(&self, first: u64, digest: String) -> Trial {
        let experiments = self.experiments.iter().cloned().collect();
        Trial { first, experiments, digest, verdicts: self.verdicts.clone() }
    }
}

/// A paper whose claims are tried.
struct Tried {
    paper: &'static Paper,
    claims: BTreeMap<String, Judged>,
    /// What its file has.
    trials: Trials,
    /// What it had.
    earlier: Trials,
}

impl Tried {
    /// Reads its file first, so that one that can't be read is noticed before hours have passed.
    fn new(paper: &'static Paper, options: &Options) -> Result<Tried, Box<dyn Error>> {
        let path = options.write.as_deref().map(|directory| file_of(directory, paper));
        let trials = match path.filter(|path| path.exists()) {
            Some(path) => {
                let text =
                    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                Trials::parse(&path.display().to_string(), &text, &paper.claims, paper.experiments)?
            }
            None => Trials::default(),
        };
        Ok(Tried { paper, claims: BTreeMap::new(), earlier: trials.clone(), trials })
    }

    /// Runs what is asked for with a seed, and adds its verdicts.
    fn judge(&mut self, options: &Options, seed: u64) -> Result<(), Box<dyn Error>> {
        let mut evidence: Vec<(&str, Results)> = Vec::new();
        for experiment in self.paper.experiments.iter().filter(|one| options.asks_for(self.paper, one)) {
            let name = format!("{}/{}", self.paper.key, experiment.key);
            evidence.extend(run(&name, experiment, seed)?.map(|results| (experiment.key, results)));
        }
        let evidence: Vec<_> = evidence.iter().map(|(key, results)| (*key, results)).collect();
        for claim in self.paper.judge_alone(&evidence) {
            let asked = if options.own { claim.own } else { claim.required && !claim.own };
            if claim.verdict != Verdict::NotRun && asked {
                let agreeing = claim.agreeing.map_or_else(|| "-".into(), |share| format!("{share:.3}"));
                println!("{seed} {} {} {agreeing}", claim.id, claim.verdict.name());
                let judged = self.claims.entry(claim.id).or_default();
                *judged.verdicts.entry(claim.verdict).or_default() += 1;
                judged.experiments.extend(claim.figures.into_iter().map(|figure| figure.experiment));
            }
        }
        Ok(())
    }

    /// Writes its file anew, if it is asked for and there are enough seeds.
    fn write(&mut self, options: &Options) -> Result<(), Box<dyn Error>> {
        let Some(directory) = &options.write else { return Ok(()) };
        for (claim, judged) in &self.claims {
            let digest = self.paper.trial_digest(judged.experiments.iter().map(String::as_str));
            let trial = judged.trial(options.first, digest);
            let earlier = self.earlier.of(claim).and_then(|earlier| earlier.followed_by(&trial));
            let trial = earlier.unwrap_or(trial);
            if trial.seeds() >= LEAST_SEEDS {
                self.trials.set(claim, trial);
            }
        }
        let path = file_of(directory, self.paper);
        std::fs::write(&path, self.trials.to_csv())
            .map_err(|error| format!("{}: {error}", path.display()).into())
    }
}

fn file_of(directory: &Path, paper: &Paper) -> PathBuf {
    directory.join(paper.key).join("seeds.csv")
}

/// All runs of an experiment with a seed; `None` if it has no scenario, or one for sockets.
fn run(name: &str, experiment: &Experiment, seed: u64) -> Result<Option<Results>, Box<dyn Error>> {
    let Some(text) = experiment.scenario else { return Ok(None) };
    let mut scenario = Scenario::parse(name, text)?;
    scenario.seed = seed;
    if scenario.measured {
        return Ok(None);
    }
    let plan = scenario.plan();
    let finished = plan.iter().map(|run| perform(&scenario, run, world::run));
    let finished = finished.collect::<Result<Vec<Finished>, _>>()?;
    Ok(Some(results(&finished, plan.len() as u32)))
}
