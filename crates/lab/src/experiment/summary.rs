//! Summarises the repetitions of each point.

use antiphon_measure::MeanInterval;

use super::Finished;
use crate::figures::FIGURES;
use crate::scenario::Point;

/// One stream at one point.
#[derive(Clone, PartialEq, Debug)]
pub struct PointSummary {
    /// What the sweep set.
    pub point: Point,
    /// The stream's name.
    pub stream: String,
    /// Runs that exist.
    pub runs: u32,
    /// In the order of [`FIGURES`]: mean over the runs with its 95 % confidence interval; `None` if never measured.
    pub figures: Vec<Option<MeanInterval>>,
}

impl PointSummary {
    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<MeanInterval> {
        let column = FIGURES.iter().position(|figure| figure.name == name)?;
        self.figures[column]
    }
}

/// All points that have runs, in the order of the plan. The runs must be in their order.
pub fn summary(finished: &[Finished]) -> Vec<PointSummary> {
    let mut points = Vec::new();
    for runs in finished.chunk_by(|a, b| a.run.point == b.run.point) {
        let mut streams: Vec<&str> = Vec::new();
        for (name, _) in runs.iter().flat_map(|run| &run.streams) {
            if !streams.contains(&name.as_str()) {
                streams.push(name);
            }
        }
        points.extend(streams.into_iter().map(|stream| one(runs, stream)));
    }
    points
}

fn one(runs: &[Finished], stream: &str) -> PointSummary {
    let rows: Vec<Vec<Option<f64>>> = runs
        .iter()
        .filter_map(|run| run.streams.iter().find(|(name, _)| name == stream))
        .map(|(_, figures)| figures.values())
        .collect();
    let mean = |column: usize| {
        let values: Vec<f64> = rows.iter().filter_map(|row| row[column]).collect();
        MeanInterval::of(&values)
    };
    PointSummary {
        point: runs[0].run.point.clone(),
        stream: stream.into(),
        runs: rows.len() as u32,
        figures: (0..FIGURES.len()).map(mean).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::finished;
    use super::*;

    #[test]
    fn repetitions_of_a_point_are_taken_together() {
        let mut runs = vec![finished(0, 1.0), finished(1, 3.0), finished(2, 10.0)];
        runs[2].run.point[1].1 = "4Mbit/s".into();
        let points = summary(&runs);
        let shown: Vec<(&str, &str, u32, f64)> = points
            .iter()
            .map(|p| (&*p.point[1].1, &*p.stream, p.runs, p.figure("delay_mean_ms").unwrap().mean))
            .collect();
        assert_eq!(
            shown,
            [
                ("2Mbit/s", "audio", 2, 2.0),
                ("2Mbit/s", "z\"x", 2, 2.0),
                ("4Mbit/s", "audio", 1, 10.0),
                ("4Mbit/s", "z\"x", 1, 10.0)
            ]
        );
        assert!(points[0].figure("lost_percent").is_none());
        assert!(points[2].figure("delay_mean_ms").unwrap().half_width.is_none());
    }
}
