//! Tables for spreadsheets and programs (RFC 4180, lines end in a line feed alone).
//!
//! Numbers are written as short as they can be read back exactly, so that equal results are equal files.

use std::fmt::Write;

use super::summary::PointSummary;
use super::{Finished, Ground};
use crate::figures::FIGURES;
use crate::scenario::Run;

/// One line for each stream of each run: the run, what the sweep set, whether it ran in the model or on real sockets, and
/// all figures.
///
/// `variables`: names of what the sweep sets. The runs must be in their order.
pub fn results_csv(variables: &[String], ground: Ground, finished: &[Finished]) -> String {
    let mut csv = String::new();
    let figures = FIGURES.iter().map(|figure| figure.name.to_string());
    line(&mut csv, head(variables).chain(["ground", "stream"].map(String::from)).chain(figures));
    for finished in finished {
        for (stream, figures) in &finished.streams {
            let values = figures.values().into_iter().map(number);
            let whose = [ground.name().into(), stream.clone()];
            line(&mut csv, run_cells(&finished.run).chain(whose).chain(values));
        }
    }
    csv
}

/// One line for each counter of each medium of each run.
pub fn media_csv(variables: &[String], finished: &[Finished]) -> String {
    let mut csv = String::new();
    let columns = ["medium", "counter", "value"].map(String::from);
    line(&mut csv, head(variables).chain(columns));
    for finished in finished {
        for medium in &finished.media {
            for (counter, value) in &medium.counters {
                let cells = [medium.name.clone(), counter.clone(), number(Some(*value))];
                line(&mut csv, run_cells(&finished.run).chain(cells));
            }
        }
    }
    csv
}

/// One line for each figure of each stream at each point: mean over the runs, and half the width of its 95 % interval.
pub fn summary_csv(variables: &[String], points: &[PointSummary]) -> String {
    let mut csv = String::new();
    let columns = ["stream", "figure", "unit", "runs", "mean", "half_width_95"].map(String::from);
    line(&mut csv, variables.iter().cloned().chain(columns));
    for point in points {
        let settings: Vec<String> = point.point.iter().map(|(_, value)| value.clone()).collect();
        for (figure, mean) in FIGURES.iter().zip(&point.figures) {
            let Some(mean) = mean else { continue };
            let cells = [
                point.stream.clone(),
                figure.name.into(),
                figure.unit.into(),
                mean.count.to_string(),
                number(Some(mean.mean)),
                number(mean.half_width),
            ];
            line(&mut csv, settings.iter().cloned().chain(cells));
        }
    }
    csv
}

fn head(variables: &[String]) -> impl Iterator<Item = String> {
    let variables: Vec<String> = variables.to_vec();
    std::iter::once("run".into()).chain(variables).chain(["repetition", "seed"].map(String::from))
}

fn run_cells(run: &Run) -> impl Iterator<Item = String> {
    let settings: Vec<String> = run.point.iter().map(|(_, value)| value.clone()).collect();
    std::iter::once(run.index.to_string())
        .chain(settings)
        .chain([run.repetition.to_string(), run.seed.to_string()])
}

/// Rust writes the shortest digits that are read back as the same number.
fn number(value: Option<f64>) -> String {
    // Minus nothing is nothing.
    value.map(|value| if value == 0.0 { "0".into() } else { format!("{value}") }).unwrap_or_default()
}

fn line(csv: &mut String, cells: impl Iterator<Item = String>) {
    for (n, cell) in cells.enumerate() {
        if n > 0 {
            csv.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            // Writing to a string can't fail.
            let _ = write!(csv, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            csv.push_str(&cell);
        }
    }
    csv.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::finished;
    use super::*;
    use crate::experiment::summary;

    fn variables() -> Vec<String> {
        vec!["transport".into(), "rate".into()]
    }

    #[test]
    fn results_are_written_exactly_and_quoted_where_needed() {
        let csv = results_csv(&variables(), Ground::Real, &[finished(3, 0.1 + 0.2)]);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[0].starts_with("run,transport,rate,repetition,seed,ground,stream,sent,received,"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].starts_with("3,\"arq?a=1,2\",2Mbit/s,1,281474976710655,real,audio,100,,"),
            "{}",
            lines[1]
        );
        assert!(lines[1].contains(",0.30000000000000004,"), "{}", lines[1]);
        assert!(lines[2].contains(",\"z\"\"x\",100,"), "{}", lines[2]);
        assert_eq!(lines[0].split(',').count(), 7 + FIGURES.len());
        let media = media_csv(&variables(), &[finished(0, -0.0)]);
        assert_eq!(media.lines().count(), 3);
        assert!(media.ends_with(",wlan,ap.collisions,0\n"), "{media}");
    }

    #[test]
    fn the_summary_has_a_line_for_each_figure_that_was_measured() {
        let points = summary(&[finished(0, 1.0), finished(1, 2.0)]);
        let csv = summary_csv(&variables(), &points);
        assert_eq!(csv.lines().count(), 1 + 2 * 2, "{csv}");
        // s = 1/√2, t = 12.7062: half width 6.3531.
        let delay = csv.lines().find(|line| line.contains("audio,delay_mean_ms,ms,2,1.5,6.353")).unwrap();
        assert!(delay.starts_with("\"arq?a=1,2\",2Mbit/s,"));
    }
}
