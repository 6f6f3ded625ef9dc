//! What chance could have made of the results: an experiment's repetitions drawn anew with replacement (the bootstrap of Efron
//! 1979), so that a verdict is known to hang on more than the runs that happened to be made.
//!
//! A repetition is drawn with the runs of all points, since their media have the same seed, and a run with all its figures: what
//! points, streams and figures have in common stays, as in a comparison of pairs. Means of few runs
//! spread too little when drawn (by (n − 1) / n, and with normal instead of Student's quantiles): their distance from the mean of all
//! is enlarged by √(n / (n − 1)) and by the ratio of the quantiles, so that for one mean the draws have the 95 % interval that the
//! report prints.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use antiphon_core::Rng;
use antiphon_measure::student_t;

use super::compare::{Place, Statistic};
use super::judge::Evidence;
use crate::results::Results;

/// The evidence of a paper's claims, drawn anew as often as wanted.
pub(super) struct Draws<'a> {
    evidence: &'a Evidence<'a>,
    /// For each draw, in the order of the evidence: how often each run is in it.
    counts: Vec<Vec<BTreeMap<u32, u32>>>,
    cells: RefCell<BTreeMap<CellKey, Rc<Cell>>>,
}

/// A figure at a place.
struct Cell {
    /// Its value in each run that has one.
    runs: Vec<(u32, f64)>,
    /// See [`spread`].
    spread: f64,
}

/// Experiment, stream, point and figure.
type CellKey = (usize, String, Vec<(&'static str, String)>, &'static str);

impl<'a> Draws<'a> {
    /// So many draws; the same `seed` gives the same, and an experiment's do not depend on what else there is.
    pub fn new(evidence: &'a Evidence<'a>, draws: usize, seed: u64) -> Self {
        let mut runs: Vec<_> = evidence
            .iter()
            .map(|(key, results)| (by_repetitions(results), Rng::fork(seed, &format!("draws {key}"))))
            .collect();
        let draw = |alike: &Alike, rng: &mut Rng| {
            let mut counts = BTreeMap::new();
            for (repetitions, points) in alike {
                for _ in repetitions {
                    let drawn = rng.below(repetitions.len() as u32) as usize;
                    points.iter().for_each(|runs| *counts.entry(runs[drawn]).or_default() += 1);
                }
            }
            counts
        };
        let counts =
            (0..draws).map(|_| runs.iter_mut().map(|(alike, rng)| draw(alike, rng)).collect()).collect();
        Draws { evidence, counts, cells: RefCell::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.counts.len()
    }

    /// What a figure is in draw number `draw`, if it is `value` over all runs; `None` if it has no value in any run.
    pub fn value(
        &self,
        draw: usize,
        experiment: &str,
        place: &Place,
        figure: &'static str,
        statistic: Statistic,
        value: f64,
    ) -> Option<f64> {
        let at = self.evidence.iter().position(|(key, _)| *key == experiment)?;
        let key = (at, place.stream.clone(), place.point.clone(), figure);
        let mut cells = self.cells.borrow_mut();
        let made = || {
            let runs = place.runs(self.evidence[at].1, figure);
            Rc::new(Cell { spread: spread(runs.len()), runs })
        };
        let cell = cells.entry(key).or_insert_with(made).clone();
        let runs = &cell.runs;
        let counts = &self.counts[draw][at];
        let drawn = || runs.iter().filter_map(|(run, value)| Some((f64::from(*counts.get(run)?), *value)));
        let times: f64 = drawn().map(|(times, _)| times).sum();
        if times == 0.0 {
            return (!runs.is_empty()).then_some(value);
        }
        Some(match statistic {
            Statistic::Max => drawn().map(|(_, value)| value).fold(f64::NEG_INFINITY, f64::max),
            Statistic::Mean => {
                let mean = drawn().map(|(times, value)| times * value).sum::<f64>() / times;
                let moved = value + (mean - value) * cell.spread;
                // Counts, shares and times are never negative.
                if runs.iter().all(|(_, value)| *value >= 0.0) { moved.max(0.0) } else { moved }
            }
        })
    }
}

/// A repetition: of which of the seeds that were run, in their order, and its number.
type Repetition = (u32, u32);

/// Points that have runs of the same repetitions, all but those of an interrupted experiment: the repetitions, and of each point
/// the runs in their order.
type Alike = BTreeMap<Vec<Repetition>, Vec<Vec<u32>>>;

fn by_repetitions(results: &Results) -> Alike {
    let mut points: BTreeMap<&[(String, String)], BTreeMap<u32, u32>> = BTreeMap::new();
    for record in &results.records {
        points.entry(&record.point).or_default().insert(record.run, record.repetition);
    }
    let mut alike = Alike::new();
    for runs in points.into_values() {
        // The runs of one seed come before those of the next, and each seed has each repetition once.
        let mut seeds: BTreeMap<u32, u32> = BTreeMap::new();
        let numbered = runs.into_iter().map(|(run, repetition)| {
            let seed = seeds.entry(repetition).and_modify(|seed| *seed += 1).or_default();
            ((*seed, repetition), run)
        });
        let (repetitions, runs) = numbered.collect::<BTreeMap<Repetition, u32>>().into_iter().unzip();
        alike.entry(repetitions).or_default().push(runs);
    }
    alike
}

/// By how much the distance of a drawn mean from the mean of `runs` runs is enlarged.
fn spread(runs: usize) -> f64 {
    let n = runs as f64;
    let quantile = student_t(runs.saturating_sub(1) as u64);
    quantile.map_or(1.0, |t| t / NORMAL_QUANTILE * (n / (n - 1.0)).sqrt())
}

/// Of the 95 % interval of a normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_964;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::StreamFigures;
    use crate::results::Record;

    fn results(values: &[f64]) -> Results {
        let record = |(run, value): (usize, &f64)| {
            let figures = StreamFigures {
                lost_percent: Some(*value),
                rtt_mean_ms: Some(2.0 * value),
                ..StreamFigures::default()
            };
            let (run, repetition) = (run as u32, run as u32);
            Record { run, point: vec![], repetition, seed: 1, stream: "audio".into(), figures }
        };
        let records = values.iter().enumerate().map(record).collect();
        Results { records, planned_runs: values.len() as u32 }
    }

    fn place() -> Place {
        Place { stream: "audio".into(), point: vec![] }
    }

    /// The share of draws in which a mean of normal samples, drawn so often, is above the truth, and the share of 95 %
    /// intervals of the draws that contain it.
    fn coverage(runs: usize) -> f64 {
        let mut rng = Rng::new(runs as u64);
        let (mut covered, experiments) = (0, 400);
        for seed in 0..experiments {
            let values: Vec<f64> = (0..runs).map(|_| 100.0 + 10.0 * rng.normal()).collect();
            let (results, mean) = (results(&values), values.iter().sum::<f64>() / runs as f64);
            let evidence = [("e", &results)];
            let draws = Draws::new(&evidence, 400, seed);
            let drawn =
                |draw| draws.value(draw, "e", &place(), "lost_percent", Statistic::Mean, mean).unwrap();
            let below = (0..draws.count()).filter(|draw| drawn(*draw) < 100.0).count() as f64 / 400.0;
            covered += u32::from((0.025..=0.975).contains(&below));
        }
        f64::from(covered) / experiments as f64
    }

    /// The instrument against theory: what is called decided at 95 % is wrong in a twentieth of the cases, with few runs and with
    /// many. Two runs have only three different draws.
    #[test]
    fn the_draws_of_a_mean_cover_the_truth_as_often_as_they_say() {
        for runs in [5, 6, 12, 30] {
            let share = coverage(runs);
            // 3.5 standard deviations of 400 experiments are 3.8 points.
            assert!((0.91..0.99).contains(&share), "{runs} runs: {share}");
        }
    }

    /// Two points whose runs have a fade in common that is ten times what they differ by: draws of pairs show which is larger.
    #[test]
    fn points_are_drawn_in_pairs() {
        let mut rng = Rng::new(5);
        let mut records = Vec::new();
        for repetition in 0..8 {
            let fade = 10.0 * rng.normal();
            for (point, more) in [("udp", 0.0), ("tcp", 1.0)] {
                let lost_percent = Some(100.0 + fade + more + 0.1 * rng.normal());
                let figures = StreamFigures { lost_percent, ..StreamFigures::default() };
                let (run, point) = (records.len() as u32, vec![("transport".into(), point.into())]);
                records.push(Record { run, point, repetition, seed: 1, stream: "audio".into(), figures });
            }
        }
        // A ninth run of one point is drawn apart.
        let mut interrupted = records[0].clone();
        (interrupted.run, interrupted.repetition, interrupted.point) = (16, 8, vec![]);
        records.push(interrupted);
        let results = Results { records, planned_runs: 17 };
        let evidence = [("e", &results)];
        let draws = Draws::new(&evidence, 200, 1);
        let mean = |draw, transport: &str| {
            let place = Place { stream: "audio".into(), point: vec![("transport", transport.to_string())] };
            draws.value(draw, "e", &place, "lost_percent", Statistic::Mean, 100.0).unwrap()
        };
        let differences: Vec<f64> = (0..200).map(|draw| mean(draw, "tcp") - mean(draw, "udp")).collect();
        assert!(differences.iter().all(|more| (0.5..2.5).contains(more)), "{differences:?}");
        let spread = (0..200)
            .map(|draw| mean(draw, "udp"))
            .fold((200.0, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        assert!(spread.1 - spread.0 > 10.0, "{spread:?}");
    }

    /// Runs of a second seed are further repetitions, and not the first one's.
    #[test]
    fn runs_of_every_seed_are_drawn() {
        let mut results = results(&[1.0, 1.0, 1.0, 3.0, 3.0, 3.0]);
        results.records.iter_mut().for_each(|record| record.repetition %= 3);
        let evidence = [("e", &results)];
        let draws = Draws::new(&evidence, 100, 1);
        let mean = |draw| draws.value(draw, "e", &place(), "lost_percent", Statistic::Mean, 2.0).unwrap();
        let means: Vec<f64> = (0..100).map(mean).collect();
        assert!(means.iter().any(|mean| *mean < 1.9) && means.iter().any(|mean| *mean > 2.1), "{means:?}");
    }

    #[test]
    fn figures_of_one_run_are_drawn_together() {
        let results = results(&[1.0, 2.0, 4.0, 8.0, 16.0]);
        let evidence = [("e", &results)];
        let draws = Draws::new(&evidence, 50, 3);
        let mut different = std::collections::BTreeSet::new();
        for draw in 0..50 {
            let of =
                |figure, statistic, all| draws.value(draw, "e", &place(), figure, statistic, all).unwrap();
            let lost = of("lost_percent", Statistic::Mean, 6.2);
            let rtt = of("rtt_mean_ms", Statistic::Mean, 12.4);
            assert!(lost >= 0.0 && (rtt - 2.0 * lost).abs() < 1e-9);
            assert!([1.0, 2.0, 4.0, 8.0, 16.0].contains(&of("lost_percent", Statistic::Max, 16.0)));
            different.insert(format!("{lost}"));
        }
        assert!(different.len() > 20);
        assert!(draws.value(0, "e", &place(), "jitter_mad_ms", Statistic::Mean, 1.0).is_none());
        let again = Draws::new(&evidence, 50, 3);
        let value = |draws: &Draws<'_>| draws.value(7, "e", &place(), "lost_percent", Statistic::Mean, 6.2);
        assert_eq!(value(&draws), value(&again));
        let others = [("d", &results), ("e", &results), ("f", &results)];
        let beside = Draws::new(&others, 50, 3);
        assert_eq!(value(&draws), value(&beside), "other experiments change nothing");
    }
}
