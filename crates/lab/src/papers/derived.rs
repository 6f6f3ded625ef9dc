//! Figures that a paper computes from several streams of one run: computed for each run, then treated like any other.

use super::MODULES;
use super::compare::{Place, Statistic, Value};
use crate::figures::{FIGURES, FigureDef, StreamFigures};
use crate::results::{Record, Results};

/// A figure computed from others of the same run.
#[derive(Clone, Copy, Debug)]
pub struct Derived {
    /// Its name, which no figure of a stream has, title, unit and definition.
    pub def: FigureDef,
    /// Which of several readings of the paper it is, in words for a heading; empty where there is only one.
    pub reading: &'static str,
    /// Computes it from the figures of the stream in question, and the records of all streams of the run.
    pub of: fn(&StreamFigures, &[Record]) -> Option<f64>,
}

/// The derived figure called `name`, of whatever paper.
pub(super) fn derived(name: &str) -> Option<&'static Derived> {
    MODULES.iter().flat_map(|module| module.derived).find(|derived| derived.def.name == name)
}

/// Name, unit and definition of a figure, a stream's own or a derived one.
pub fn definition(name: &str) -> Option<&'static FigureDef> {
    FIGURES.iter().find(|def| def.name == name).or_else(|| derived(name).map(|derived| &derived.def))
}

impl Place {
    /// The value of `figure` at this place, a stream's own or a derived one.
    pub fn value(&self, results: &Results, figure: &str, statistic: Statistic) -> Option<Value> {
        let values: Vec<f64> = self.runs(results, figure).into_iter().map(|(_, value)| value).collect();
        statistic.of_values(&values)
    }

    /// The value of `figure` in each run at this place that has one, with the run's number.
    pub(super) fn runs(&self, results: &Results, figure: &str) -> Vec<(u32, f64)> {
        let Some(derived) = derived(figure) else {
            let selection = self.select(results);
            let Some(column) = FIGURES.iter().position(|def| def.name == figure) else { return Vec::new() };
            let value = |record: &&Record| Some((record.run, record.figures.values()[column]?));
            return selection.records.iter().filter_map(value).collect();
        };
        // Records of a run are adjacent.
        let runs = results.records.chunk_by(|a, b| a.run == b.run);
        let here =
            runs.filter(|run| self.point.iter().all(|(key, value)| run[0].setting(key) == Some(value)));
        here.filter_map(|run| {
            let stream = run.iter().find(|record| record.stream == self.stream)?;
            Some((run[0].run, (derived.of)(&stream.figures, run)?))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_none_is_a_stream_s() {
        let mut names: Vec<&str> =
            MODULES.iter().flat_map(|module| module.derived).map(|derived| derived.def.name).collect();
        assert!(names.iter().all(|name| FIGURES.iter().all(|def| def.name != *name)));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), all > 0), (all, true));
    }

    /// The mean of a distance is not the distance of the means: each run has its own.
    #[test]
    fn a_derived_figure_is_made_of_each_run_before_the_runs_are_put_together() {
        let record = |run: u32, stream: &str, figures| Record {
            run,
            point: vec![("transport".into(), "rtp".into())],
            repetition: run,
            seed: 0,
            stream: stream.into(),
            figures,
        };
        let audio = |run, lost, mad| {
            let figures = StreamFigures {
                missing_percent: Some(lost),
                jitter_mad_ms: Some(mad),
                ..StreamFigures::default()
            };
            record(run, "audio", figures)
        };
        let ping = |run, rtt| {
            record(run, "ping", StreamFigures { rtt_mean_ms: Some(rtt), ..StreamFigures::default() })
        };
        // Distances 5 (ratios 3 and 4) and 1 (0 and 1), and a run that lost its ping.
        let records = vec![
            audio(0, 30.0, 900.0),
            ping(0, 200.0),
            audio(1, 0.0, 0.0),
            ping(1, 500.0),
            audio(2, 5.0, 1.0),
        ];
        let results = Results { records, planned_runs: 3 };
        let place =
            |transport: &str| Place { stream: "audio".into(), point: vec![("transport", transport.into())] };
        let value = place("rtp").value(&results, "distance_by_ages", Statistic::Mean).unwrap();
        assert_eq!((value.value, value.runs), (3.0, 2));
        assert_eq!(place("rtp").value(&results, "distance_by_ages", Statistic::Max).unwrap().value, 5.0);
        assert!(place("tcp").value(&results, "distance_by_ages", Statistic::Mean).is_none());
        assert_eq!(place("rtp").value(&results, "missing_percent", Statistic::Max).unwrap().runs, 3);
    }
}
