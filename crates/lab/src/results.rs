//! Results of an experiment: one record for each stream of each run, and statistics over them.

use antiphon_measure::MeanInterval;

use crate::figures::{FIGURES, StreamFigures};

/// The figures of one stream in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The run's number in its experiment: points in the order of the sweep, repetitions within a point.
    pub run: u32,
    /// The settings that the sweep changed, in its order, as the scenario writes them.
    pub point: Vec<(String, String)>,
    /// From 0.
    pub repetition: u32,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// The stream's name.
    pub stream: String,
    /// What was measured.
    pub figures: StreamFigures,
}

impl Record {
    /// The sweep's setting `key` in this run.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.point.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// The records of one experiment, ordered by run, then by stream.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// The records.
    pub records: Vec<Record>,
    /// Runs that the plan has; fewer records mean that it is not finished.
    pub planned_runs: u32,
}

impl Results {
    /// Whether all runs exist: those of the plan, or as many of other seeds.
    pub fn is_complete(&self) -> bool {
        self.runs() >= self.planned_runs
    }

    /// Number of runs that exist.
    pub fn runs(&self) -> u32 {
        let mut runs: Vec<u32> = self.records.iter().map(|record| record.run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs.len() as u32
    }

    /// The records whose settings are as asked for.
    pub fn at(&self, settings: &[(&str, &str)]) -> Selection<'_> {
        let fits = |record: &&Record| settings.iter().all(|(key, value)| record.setting(key) == Some(value));
        Selection { records: self.records.iter().filter(fits).collect() }
    }
}

/// Records of one point, or of several.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection<'a> {
    /// The records.
    pub records: Vec<&'a Record>,
}

impl Selection<'_> {
    /// Those of one stream.
    pub fn stream(mut self, name: &str) -> Self {
        self.records.retain(|record| record.stream == name);
        self
    }

    /// The values of a figure (a name of [`FIGURES`]) in all runs that have one.
    pub fn values(&self, figure: &str) -> Vec<f64> {
        let Some(column) = FIGURES.iter().position(|def| def.name == figure) else { return Vec::new() };
        self.records.iter().filter_map(|record| record.figures.values()[column]).collect()
    }

    /// Mean over the runs with its 95 % confidence interval.
    pub fn mean(&self, figure: &str) -> Option<MeanInterval> {
        MeanInterval::of(&self.values(figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: u32, rate: &str, lost: Option<f64>) -> Record {
        let figures = StreamFigures { lost_percent: lost, ..StreamFigures::default() };
        let point = vec![("rate".into(), rate.into())];
        Record { run, point, repetition: run % 2, seed: 1, stream: "audio".into(), figures }
    }

    #[test]
    fn a_selection_sees_its_point_only() {
        let records = vec![
            record(0, "0Mbit/s", Some(1.0)),
            record(1, "0Mbit/s", Some(3.0)),
            record(2, "2Mbit/s", Some(50.0)),
            record(3, "2Mbit/s", None),
        ];
        let mut results = Results { records, planned_runs: 5 };
        assert!(!results.is_complete());
        results.planned_runs = 4;
        assert!(results.is_complete());
        let quiet = results.at(&[("rate", "0Mbit/s")]).stream("audio");
        let mean = quiet.mean("lost_percent").unwrap();
        // s = √2, t(1) = 12.7062, n = 2: half width 12.7062.
        assert_eq!((mean.mean, mean.count), (2.0, 2));
        assert!((mean.half_width.unwrap() - 12.7062).abs() < 1e-3);
        assert_eq!(results.at(&[("rate", "2Mbit/s")]).values("lost_percent"), [50.0]);
        assert!(results.at(&[("rate", "1Mbit/s")]).mean("lost_percent").is_none());
        assert!(quiet.stream("video").records.is_empty());
    }
}
