//! How the verdicts on a paper's claims come out with other seeds: `seeds.csv`, which the example `seeds` makes.
//!
//! The draws of one seed's runs say how far chance moves the means. They can't say what runs of another seed would: where the
//! runs are few, or a figure is the greatest of them, they say too little. So each seed's runs are judged alone, and a verdict
//! that other seeds don't repeat is *undecided*.

use std::collections::BTreeMap;

use super::judge::{Evidence, Judgement, Verdict};
use super::table::{Table, TableError};
use super::{Claim, Experiment, Paper};
use crate::experiment::digest;
use crate::scenario::Scenario;

/// The share of a trial's seeds, in percent, that must give a verdict.
pub const SAME_PERCENT: u32 = 95;
/// Fewer seeds are no trial.
pub const LEAST_SEEDS: u32 = 8;

/// The verdicts on a claim, each from the runs of one seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The first seed; the others follow it.
    pub first: u64,
    /// The experiments that the claim's check read.
    pub experiments: Vec<String>,
    /// [`Paper::trial_digest`](super::Paper::trial_digest) of them when they were run.
    pub digest: String,
    /// How many seeds gave which verdict.
    pub verdicts: BTreeMap<Verdict, u32>,
}

/// Trials by claim: a paper's `seeds.csv`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trials(BTreeMap<String, Trial>);

/// Why a text is no `seeds.csv`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrialError {
    /// It is no table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Other columns.
    #[error("{file}: line 2 must be '{}', not '{found}'", columns().join(","))]
    Columns {
        /// The file.
        file: String,
        /// The columns found.
        found: String,
    },
    /// A row that says nothing of a claim, or nothing that can be true.
    #[error(
        "{file}: line {line}: {what}; correct it, or delete the line and try that claim again with the example 'seeds'"
    )]
    Row {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// Verdicts that a run can have: columns of the file.
fn verdicts() -> impl Iterator<Item = Verdict> {
    Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::NotRun)
}

fn columns() -> Vec<&'static str> {
    ["claim", "experiments", "digest", "seeds"].into_iter().chain(verdicts().map(Verdict::name)).collect()
}

impl Trial {
    /// How many seeds were tried.
    pub fn seeds(&self) -> u32 {
        self.verdicts.values().fold(0, |all, seeds| all.saturating_add(*seeds))
    }

    /// This trial and that of the seeds behind it as one; `None` if `next` has other seeds, or is of other runs.
    pub fn followed_by(&self, next: &Trial) -> Option<Trial> {
        let same = self.digest == next.digest && self.experiments == next.experiments;
        if !same || self.first.checked_add(u64::from(self.seeds())) != Some(next.first) {
            return None;
        }
        let mut both = self.clone();
        for (verdict, seeds) in &next.verdicts {
            let all = both.verdicts.entry(*verdict).or_insert(0);
            *all = all.saturating_add(*seeds);
        }
        Some(both)
    }

    /// How many of them gave this verdict; it is kept for those that any gave.
    fn count(&self, verdict: Verdict) -> u32 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Whether so many of the seeds gave this verdict that it counts: at least [`SAME_PERCENT`].
    pub fn confirms(&self, verdict: Verdict) -> bool {
        u64::from(self.count(verdict)) * 100 >= u64::from(self.seeds()) * u64::from(SAME_PERCENT)
    }

    /// In words, the most frequent verdict first: "holds with 24 of 32 seeds, undecided with 8".
    pub fn words(&self) -> String {
        let mut counts: Vec<(Verdict, u32)> =
            self.verdicts.iter().map(|(verdict, n)| (*verdict, *n)).collect();
        counts.retain(|(_, n)| *n > 0);
        counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let all = self.seeds();
        let said = counts.iter().enumerate().map(|(at, (verdict, n))| match at {
            0 => format!("{} with {n} of {all} seeds", verdict.words()),
            _ => format!("{} with {n}", verdict.words()),
        });
        said.collect::<Vec<_>>().join(", ")
    }
}

impl Trials {
    /// Reads the text of `file`, whose name appears in errors: trials of some of a paper's claims.
    pub fn parse(
        file: &str,
        text: &str,
        claims: &[Claim],
        experiments: &[Experiment],
    ) -> Result<Trials, TrialError> {
        let table = Table::parse(file, text)?;
        if table.columns != columns() {
            let found = table.columns.join(",").chars().take(80).collect();
            return Err(TrialError::Columns { file: file.into(), found });
        }
        let mut trials = Trials::default();
        for (at, row) in table.rows.iter().enumerate() {
            let wrong = |what| TrialError::Row { file: file.into(), line: at + 3, what };
            let (claim, trial) = trial(row).map_err(wrong)?;
            if !claims.iter().any(|known| known.id == claim) {
                return Err(wrong(format!("the paper has no claim '{}'", shown(claim))));
            }
            let unknown =
                trial.experiments.iter().find(|key| experiments.iter().all(|known| known.key != **key));
            if let Some(unknown) = unknown {
                return Err(wrong(format!("the paper has no experiment '{}'", shown(unknown))));
            }
            if trials.0.insert(claim.into(), trial).is_some() {
                return Err(wrong(format!("{claim} is there twice")));
            }
        }
        Ok(trials)
    }

    /// The text of a file that [`parse`](Trials::parse) reads.
    pub fn to_csv(&self) -> String {
        let mut csv = format!("# {TITLE}\n{}\n", columns().join(","));
        for (claim, trial) in &self.0 {
            let Trial { first, experiments, digest, .. } = trial;
            let last = first.saturating_add(u64::from(trial.seeds().saturating_sub(1)));
            csv += &format!("{claim},{},{digest},{first}-{last}", experiments.join(" "));
            for verdict in verdicts() {
                csv += &format!(",{}", trial.count(verdict));
            }
            csv.push('\n');
        }
        csv
    }

    /// The trial of a claim.
    pub fn of(&self, claim: &str) -> Option<&Trial> {
        self.0.get(claim)
    }

    /// Each claim that was tried.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Trial)> {
        self.0.iter().map(|(claim, trial)| (claim.as_str(), trial))
    }

    /// Takes the place of an earlier trial of the claim.
    pub fn set(&mut self, claim: &str, trial: Trial) {
        self.0.insert(claim.into(), trial);
    }
}

impl Paper {
    /// A digest of what decides the runs of these experiments: a trial of others tells nothing of them.
    pub fn trial_digest<'a>(&self, experiments: impl IntoIterator<Item = &'a str>) -> String {
        let content = |key: &str| match self.experiment(key).and_then(|experiment| experiment.scenario) {
            Some(text) => match Scenario::parse(key, text) {
                Ok(scenario) => format!("{key} {}\n", scenario.run_digest()),
                // Shipped scenarios are read by a test; the words of the error are those of no trial.
                Err(error) => format!("{key} {error}\n"),
            },
            // Runs of other programs, or of this machine's sockets, have no seed: the name stands for them.
            None => format!("{key}\n"),
        };
        digest(&experiments.into_iter().map(content).collect::<String>())
    }

    /// The verdict on each claim, in the paper's order: what other seeds don't confirm is undecided.
    pub fn judge(&'static self, evidence: &Evidence<'_>) -> Vec<Judgement> {
        // Many claims read the same experiments.
        let mut digests: BTreeMap<&[String], String> = BTreeMap::new();
        let mut tried = |judgement: Judgement| {
            let Some(trial) = self.trials.of(&judgement.id) else { return judgement };
            let today = || self.trial_digest(trial.experiments.iter().map(String::as_str));
            let is_current = *digests.entry(&trial.experiments).or_insert_with(today) == trial.digest;
            judgement.tried(trial, is_current)
        };
        self.judge_alone(evidence).into_iter().map(&mut tried).collect()
    }
}

/// The first line of the file.
const TITLE: &str =
    "Verdicts by seed, the runs of each seed judged alone (docs/laboratory.md says how to repeat it)";

/// What a row says. It has as many fields as there are columns.
fn trial(row: &[String]) -> Result<(&str, Trial), String> {
    let [claim, experiments, digest, seeds, counts @ ..] = row else { return Err("it is too short".into()) };
    let experiments: Vec<String> = experiments.split_whitespace().map(String::from).collect();
    if digest.len() != 16 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("'{}' is no digest of 16 hexadecimal digits", shown(digest)));
    }
    let range =
        seeds.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last): (u64, u64) =
        range.ok_or_else(|| format!("the seeds are not like 1-32: '{}'", shown(seeds)))?;
    let mut by_verdict = BTreeMap::new();
    for (verdict, count) in verdicts().zip(counts) {
        let count: u32 = count.parse().map_err(|_| format!("'{}' is no number of seeds", shown(count)))?;
        if count > 0 {
            by_verdict.insert(verdict, count);
        }
    }
    let trial = Trial { first, experiments, digest: digest.clone(), verdicts: by_verdict };
    let (seeds, verdicts) = (last.checked_sub(first).and_then(|more| more.checked_add(1)), trial.seeds());
    if seeds != Some(u64::from(verdicts)) {
        return Err(format!("seeds {first} to {last} can't give {verdicts} verdicts"));
    }
    if verdicts < LEAST_SEEDS {
        return Err(format!("{verdicts} seeds are too few, a trial has {LEAST_SEEDS} at least"));
    }
    Ok((claim, trial))
}

/// A field in an error.
fn shown(field: &str) -> String {
    field.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
