//! From results to verdicts: a check reads figures, and each figure that it reads stands behind its verdict.

use super::compare::{Place, Statistic};
use super::derived::definition;
use super::{Claim, Paper};
use crate::results::Results;

/// What there is to judge by: the results of a paper's experiments.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    results: Vec<(&'a str, &'a Results)>,
}

impl<'a> Evidence<'a> {
    /// Of nothing yet.
    pub fn new() -> Self {
        Evidence::default()
    }

    /// With the results of one more experiment.
    pub fn with(mut self, experiment: &'a str, results: &'a Results) -> Self {
        self.results.push((experiment, results));
        self
    }

    /// The results of an experiment.
    pub fn of(&self, experiment: &str) -> Option<&'a Results> {
        self.results.iter().find(|(key, _)| *key == experiment).map(|(_, results)| *results)
    }
}

/// What the results say on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Our runs show it too.
    Holds,
    /// Our runs show something else.
    DoesNotHold,
    /// There are no results, or not all that it takes.
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

/// A claim and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The claim's id.
    pub id: String,
    /// Whether a re-run is held to it.
    pub required: bool,
    /// What the results say.
    pub verdict: Verdict,
    /// The figures that the check read, in its order.
    pub figures: Vec<Reading>,
    /// What is missing where it was not run; else empty.
    pub because: String,
}

/// A figure that a check read.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The experiment.
    pub experiment: String,
    /// Where in its results.
    pub place: Place,
    /// One of [`FIGURES`](crate::figures::FIGURES), or a derived one.
    pub figure: &'static str,
    /// Over the runs.
    pub statistic: Statistic,
    /// The figure, in its own unit.
    pub value: f64,
    /// Half width of the 95 % confidence interval of a mean.
    pub half_width: Option<f64>,
    /// Runs behind it.
    pub runs: u64,
}

/// Says whether the results fulfil a claim, or what is missing.
pub(super) type Check = fn(&mut Case<'_>) -> Result<bool, NotRun>;

/// Why a claim can't be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotRun(pub String);

/// A claim before its check.
pub(super) struct Case<'a> {
    paper: &'a Paper,
    evidence: &'a Evidence<'a>,
    readings: Vec<Reading>,
}

impl Case<'_> {
    /// A figure at one place of an experiment's results.
    pub fn read(
        &mut self,
        experiment: &str,
        place: Place,
        figure: &'static str,
        statistic: Statistic,
    ) -> Result<Reading, NotRun> {
        debug_assert!(definition(figure).is_some(), "no figure {figure}");
        let results = self.results(experiment)?;
        let Some(value) = place.value(results, figure, statistic) else {
            let settings: Vec<&str> = place.point.iter().map(|(_, value)| value.as_str()).collect();
            return Err(NotRun(format!(
                "{experiment} has no {figure} of '{}' at {} yet",
                place.stream,
                settings.join(", ")
            )));
        };
        let reading = Reading {
            experiment: experiment.into(),
            place,
            figure,
            statistic,
            value: value.value,
            half_width: value.half_width,
            runs: value.runs,
        };
        self.readings.push(reading.clone());
        Ok(reading)
    }

    fn results(&self, experiment: &str) -> Result<&Results, NotRun> {
        if let Some(results) = self.evidence.of(experiment) {
            return Ok(results);
        }
        let known = self.paper.experiment(experiment).expect("a check reads experiments of its paper");
        Err(NotRun(match known.lacks() {
            Some(needs) => format!("{experiment} needs {needs}"),
            None => format!("no results yet: antiphon lab run {}/{experiment}", self.paper.key),
        }))
    }
}

/// Puts a claim to its check.
pub(super) fn judge(
    paper: &Paper,
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
    let Claim { id, required, .. } = claim.clone();
    Judgement { id, required, verdict, figures: case.readings, because }
}

/// A claim without a check waits for what its paper's experiments wait for.
fn unchecked(paper: &Paper) -> NotRun {
    let mut needs: Vec<_> = paper.experiments.iter().flat_map(|experiment| experiment.needs()).collect();
    needs.sort_unstable();
    needs.dedup();
    let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
    NotRun(match needs.join(", ") {
        needs if needs.is_empty() => "there is no check for it yet".into(),
        needs => format!("needs {needs}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn papers_whose_transports_are_missing_say_so() {
        for paper in super::super::all().iter().filter(|paper| paper.checks.is_empty()) {
            for judgement in paper.judge(&Evidence::new()) {
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
        for judgement in tv.judge(&Evidence::new()) {
            assert_eq!(judgement.verdict, Verdict::NotRun, "{}", judgement.id);
            assert!(!judgement.because.is_empty());
        }
    }
}
