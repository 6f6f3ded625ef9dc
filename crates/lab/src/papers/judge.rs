//! From results to verdicts: a check reads figures, and each figure that it reads is recorded with its verdict.

use serde::Serialize;

use super::compare::{Place, Statistic};
use super::derived::definition;
use super::{Claim, Paper};
use crate::results::Results;

/// The results of a paper's experiments, by their names.
pub type Evidence<'a> = [(&'a str, &'a Results)];

/// What the results say on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Our runs confirm it.
    Holds,
    /// Our runs show something else.
    DoesNotHold,
    /// Results are missing.
    NotRun,
}

impl Verdict {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does-not-hold",
            Verdict::NotRun => "not-run",
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
    /// What is missing if it was not run; otherwise empty.
    pub because: String,
    /// Why ours departs from the paper.
    pub departure: Vec<&'static str>,
    /// What the paper says.
    pub claim: String,
    /// Place in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// How it is tested, and whether the paper's own figures pass.
    pub check: String,
    /// Whether it is our own claim, about something that the paper does not have.
    pub own: bool,
}

/// A figure that a check read.
#[derive(Clone, PartialEq, Debug, Serialize)]
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

/// Applies a claim's check.
pub(super) fn judge(
    paper: &'static Paper,
    claim: &Claim,
    check: Option<Check>,
    evidence: &Evidence<'_>,
) -> Judgement {
    let mut case = Case { paper, evidence, readings: Vec::new() };
    let outcome = check.map_or_else(|| Err(unchecked(paper)), |check| check(&mut case));
    let (verdict, because) = match outcome {
        Ok(true) => (Verdict::Holds, String::new()),
        Ok(false) => (Verdict::DoesNotHold, String::new()),
        Err(NotRun(because)) => (Verdict::NotRun, because),
    };
    let figures = case.readings;
    let departure = paper.reasons(&claim.id).collect();
    let Claim { id, claim, place, check, required, own } = claim.clone();
    let paper = paper.key;
    Judgement { paper, id, required, verdict, figures, because, departure, claim, place, check, own }
}

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
