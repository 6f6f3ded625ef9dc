//! From results to verdicts: a check reads figures, and each figure that it reads is recorded with its verdict.

use std::collections::BTreeSet;

use serde::Serialize;

use super::compare::{Place, Statistic};
use super::derived::definition;
use super::draws::Draws;
use super::fits::Fit;
use super::trial::Trial;
use super::{Claim, Paper};
use crate::results::Results;

/// The results of a paper's experiments, by their names.
pub type Evidence<'a> = [(&'a str, &'a Results)];

/// What the results say on a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Our runs confirm it.
    Holds,
    /// Our runs confirm it, but it reads a figure from which a number of the model was set.
    HoldsByFit,
    /// Other runs of the same model could say something else, or those of other seeds do.
    Undecided,
    /// Our runs show something else.
    DoesNotHold,
    /// Our runs show something else, and there is a proof that no run under the stated conditions can confirm it.
    NotReproducible,
    /// It follows from what the figure is, or from an input: nothing is tested.
    ByDefinition,
    /// Results are missing.
    NotRun,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Verdict; 7] = [
        Verdict::Holds,
        Verdict::HoldsByFit,
        Verdict::Undecided,
        Verdict::DoesNotHold,
        Verdict::NotReproducible,
        Verdict::ByDefinition,
        Verdict::NotRun,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsByFit => "holds-by-fit",
            Verdict::Undecided => "undecided",
            Verdict::DoesNotHold => "does-not-hold",
            Verdict::NotReproducible => "not-reproducible",
            Verdict::ByDefinition => "by-definition",
            Verdict::NotRun => "not-run",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsByFit => "holds by fit",
            Verdict::Undecided => "undecided",
            Verdict::DoesNotHold => "does not hold",
            Verdict::NotReproducible => "not reproducible",
            Verdict::ByDefinition => "by definition",
            Verdict::NotRun => "not run",
        }
    }
}

/// A claim with its verdict: a line of `antiphon lab claims`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judgement {
    /// The paper's name.
    pub paper: &'static str,
    /// The claim's.
    pub id: String,
    /// Whether a re-run must confirm it; not where the paper's own figures contradict it.
    pub required: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The figures that the check read, in its order.
    pub figures: Vec<Reading>,
    /// What is missing if it was not run, or how often other seeds say what if that makes it undecided; otherwise empty.
    pub because: String,
    /// Why ours departs from the paper.
    pub departure: Vec<&'static str>,
    /// Our own claims that show it by a run in which that cause alone is changed.
    pub explained_by: Vec<&'static str>,
    /// What the paper says.
    pub claim: String,
    /// Place in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// How it is tested, and whether the paper's own figures pass.
    pub check: String,
    /// Whether it is our own claim, about something that the paper does not have.
    pub own: bool,
    /// What the check says over all our runs; `None` if it was not run.
    pub confirmed: Option<bool>,
    /// The share of the draws of our runs in which the check says the same as over all of them (see [`DRAWS`]); `None` if it was not run.
    pub agreeing: Option<f64>,
    /// How often each verdict came in the trial of other seeds, in words; empty if there was none.
    pub seeds: String,
    /// The fitted numbers on which it rests: place in the scenario, value, and the printed figure.
    pub fits: Vec<String>,
    /// Bounds of its check that the paper does not state.
    pub bounds: Vec<&'static str>,
    /// Why it is no test, or why no run can confirm it, if one of them is the verdict; otherwise empty.
    pub proof: &'static str,
}

impl Judgement {
    /// After a trial of other seeds: what it doesn't confirm is undecided. A trial of other experiments than today's (not
    /// `is_current`) says nothing.
    pub(super) fn tried(mut self, trial: &Trial, is_current: bool) -> Self {
        if !is_current {
            self.seeds =
                format!("the trial of {} seeds was of another state of its scenarios", trial.seeds());
            return self;
        }
        self.seeds = trial.words();
        let untested = matches!(self.verdict, Verdict::ByDefinition | Verdict::NotRun);
        if !untested && !trial.confirms(self.verdict) {
            self.verdict = Verdict::Undecided;
            self.because = trial.words();
            self.proof = "";
        }
        self
    }
}

/// A figure that a check read.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Reading {
    /// The experiment.
    pub experiment: String,
    /// The stream.
    pub stream: String,
    /// The settings, such as `disturbance=12Mbit/s`.
    pub at: String,
    /// The figure's name: one of [`FIGURES`](crate::figures::FIGURES), or a derived one.
    pub figure: &'static str,
    /// Over the runs: `mean` or `max`.
    pub statistic: &'static str,
    /// The figure, in its own unit.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: &'static str,
    /// Half width of the 95 % confidence interval of a mean.
    pub half_width: Option<f64>,
    /// Runs behind it.
    pub runs: u64,
}

/// Whether the results confirm a claim, or what is missing.
pub(super) type Check = fn(&mut Case<'_>) -> Result<bool, NotRun>;

/// Why a claim cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotRun(pub String);

/// A claim before its check.
pub(super) struct Case<'a> {
    paper: &'a Paper,
    evidence: &'a Evidence<'a>,
    /// What chance could have made of the figures: the draws, and which of them.
    draw: Option<(&'a Draws<'a>, usize)>,
    fits: &'a [Fit],
    /// Indices of the fits on which it rests.
    rests_on: BTreeSet<usize>,
    readings: Vec<Reading>,
}

impl Case<'_> {
    /// Whether `holds` is true for each of `all`. Each is evaluated, so that all figures are recorded with the verdict.
    pub fn every<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        mut holds: impl FnMut(&mut Self, T) -> Result<bool, NotRun>,
    ) -> Result<bool, NotRun> {
        let mut every = true;
        for one in all {
            every &= holds(self, one)?;
        }
        Ok(every)
    }

    /// A figure at one place of an experiment's results.
    pub fn read(
        &mut self,
        experiment: &str,
        place: Place,
        figure: &'static str,
        statistic: Statistic,
    ) -> Result<Reading, NotRun> {
        let def = definition(figure);
        debug_assert!(def.is_some(), "no figure {figure}");
        let results = self.results(experiment)?;
        let Some(value) = place.value(results, figure, statistic) else {
            let settings: Vec<&str> = place.point.iter().map(|(_, value)| value.as_str()).collect();
            return Err(NotRun(format!(
                "{experiment} has no {figure} of '{}' at {} yet",
                place.stream,
                settings.join(", ")
            )));
        };
        if let Some((draws, draw)) = self.draw {
            let drawn = draws.value(draw, experiment, &place, figure, statistic, value.value);
            return Ok(Reading {
                value: drawn.unwrap_or(value.value),
                half_width: value.half_width,
                ..Reading::default()
            });
        }
        let fits = self.fits.iter().enumerate();
        let read = fits.filter(|(_, fit)| fit.covers(experiment, &place, figure)).map(|(at, _)| at);
        self.rests_on.extend(read);
        let settings = place.point.iter().map(|(key, value)| format!("{key}={value}"));
        let reading = Reading {
            experiment: experiment.into(),
            at: settings.collect::<Vec<_>>().join(","),
            stream: place.stream,
            figure,
            statistic: statistic.name(),
            value: value.value,
            unit: def.map_or("", |def| def.unit.symbol()),
            half_width: value.half_width,
            runs: value.runs,
        };
        self.readings.push(reading.clone());
        Ok(reading)
    }

    fn results(&self, experiment: &str) -> Result<&Results, NotRun> {
        if let Some((_, results)) = self.evidence.iter().find(|(key, _)| *key == experiment) {
            return Ok(results);
        }
        let known = self.paper.experiment(experiment).expect("a check reads experiments of its paper");
        Err(NotRun(match known.lacks() {
            Some(needs) => format!("{experiment} needs {needs}"),
            None => format!("no results yet: antiphon lab run {}/{experiment}", self.paper.key),
        }))
    }
}

/// What a paper's claims are judged with.
pub(super) struct Judging<'a> {
    pub paper: &'static Paper,
    pub evidence: &'a Evidence<'a>,
    pub draws: &'a Draws<'a>,
    pub fits: &'a [Fit],
}

impl Judging<'_> {
    fn case(&self, draw: Option<usize>) -> Case<'_> {
        let Judging { paper, evidence, draws, fits } = *self;
        let draw = draw.map(|draw| (draws, draw));
        Case { paper, evidence, draw, fits, rests_on: BTreeSet::new(), readings: Vec::new() }
    }

    /// Applies a claim's check.
    pub fn judge(&self, claim: &Claim, check: Option<Check>) -> Judgement {
        let paper = self.paper;
        let mut case = self.case(None);
        let outcome = check.map_or_else(|| Err(unchecked(paper)), |check| check(&mut case));
        let named = self.fits.iter().enumerate().filter(|(_, fit)| fit.names(&claim.id)).map(|(at, _)| at);
        case.rests_on.extend(named);
        let agreeing = check.zip(outcome.as_ref().ok()).map(|(check, all)| self.agreeing(check, *all));
        let is_decided = agreeing.is_none_or(|share| share >= DECIDED);
        let (definition, proof) = (paper.definition(&claim.id), paper.proof(&claim.id));
        let (verdict, because) = match &outcome {
            Err(NotRun(because)) => (Verdict::NotRun, because.clone()),
            Ok(true) if definition.is_some() => (Verdict::ByDefinition, String::new()),
            Ok(_) if !is_decided => (Verdict::Undecided, String::new()),
            Ok(true) if !case.rests_on.is_empty() => (Verdict::HoldsByFit, String::new()),
            Ok(true) => (Verdict::Holds, String::new()),
            Ok(false) if proof.is_some() => (Verdict::NotReproducible, String::new()),
            Ok(false) => (Verdict::DoesNotHold, String::new()),
        };
        let proof = match verdict {
            Verdict::ByDefinition => definition,
            Verdict::NotReproducible => proof,
            _ => None,
        };
        let fits = in_words(case.rests_on.iter().map(|at| &self.fits[*at]));
        let figures = case.readings;
        let departure = paper.reasons(&claim.id).collect();
        let explained_by = paper.explanations(&claim.id).collect();
        let bounds = paper.bounds(&claim.id).collect();
        let Claim { id, claim, place, check, required, own } = claim.clone();
        Judgement {
            paper: paper.key,
            id,
            required,
            verdict,
            figures,
            because,
            departure,
            explained_by,
            claim,
            place,
            check,
            own,
            confirmed: outcome.ok(),
            agreeing,
            seeds: String::new(),
            fits,
            bounds,
            proof: proof.unwrap_or_default(),
        }
    }

    /// The share of the draws in which the check says `all`, as over all runs.
    fn agreeing(&self, check: Check, all: bool) -> f64 {
        let agrees = |draw: &usize| check(&mut self.case(Some(*draw))).is_ok_and(|drawn| drawn == all);
        let draws = self.draws.count();
        (0..draws).filter(agrees).count() as f64 / draws.max(1) as f64
    }
}

/// Each fitted number once, with the experiments that have it.
fn in_words<'a>(fits: impl Iterator<Item = &'a Fit>) -> Vec<String> {
    let mut numbers: Vec<(String, Vec<&str>)> = Vec::new();
    for fit in fits {
        let number = format!("{} = {}, set from {}", fit.place, fit.short_value(), fit.fitted);
        match numbers.iter_mut().find(|(known, _)| *known == number) {
            Some((_, experiments)) => experiments.push(fit.experiment),
            None => numbers.push((number, vec![fit.experiment])),
        }
    }
    let said = |(number, experiments): (String, Vec<&str>)| match experiments.len().checked_sub(MOST_NAMED) {
        None | Some(0) => format!("{}: {number}", experiments.join(", ")),
        Some(more) => format!("{} and {more} more: {number}", experiments[..MOST_NAMED].join(", ")),
    };
    numbers.into_iter().map(said).collect()
}

/// Experiments that are named with a number; the report's table of fitted numbers has all.
const MOST_NAMED: usize = 3;
/// Draws of the runs of each experiment. The share that agrees is then known to half a percentage point where it decides.
pub const DRAWS: usize = 1_000;
/// The share of the draws that must agree: what a one-sided comparison has at the end of a 95 % interval.
pub const DECIDED: f64 = 0.975;

/// A claim without a check needs what its paper's experiments need.
fn unchecked(paper: &Paper) -> NotRun {
    let mut needs: Vec<&str> = Vec::new();
    for need in paper.experiments.iter().flat_map(|experiment| experiment.needs()) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    NotRun(match needs.as_slice() {
        [] => "there is no check for it yet".into(),
        needs => format!("needs {}", needs.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn papers_whose_transports_are_missing_say_so() {
        for paper in super::super::all().iter().filter(|paper| paper.checks.is_empty()) {
            for judgement in paper.judge(&[]) {
                assert_eq!(judgement.verdict, Verdict::NotRun);
                assert!(judgement.because.starts_with("needs "), "{}: {}", judgement.id, judgement.because);
                assert!(judgement.figures.is_empty());
            }
        }
    }

    #[test]
    fn every_claim_of_the_first_paper_has_its_own_check() {
        let tv = find("tv-audio-wlan").unwrap();
        let ids: Vec<&str> = tv.checks.iter().map(|(id, _)| *id).collect();
        let claims: Vec<&str> = tv.claims.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids, claims);
        for judgement in tv.judge(&[]) {
            assert_eq!(judgement.verdict, Verdict::NotRun, "{}", judgement.id);
            assert!(!judgement.because.is_empty());
        }
    }
}
