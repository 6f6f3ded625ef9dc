//! The tables of an experiment.

use super::summary::PointSummary;
use super::{Finished, Setting};
use crate::figures::FIGURES;
use crate::scenario::Run;
use crate::spreadsheet::{Spreadsheet, number};

/// One line for each stream of each run: the run, the values of the sweep, whether it ran in the model or on real
/// sockets, and all figures.
///
/// `variables`: names of the sweep's variables. The runs must be in their order. The column of the setting is called
/// `ground`.
pub fn results_csv(variables: &[String], setting: Setting, finished: &[Finished]) -> String {
    let figures = FIGURES.iter().map(|figure| figure.name);
    let mut sheet = Spreadsheet::new(head(variables).chain(["ground", "stream"]).chain(figures));
    for finished in finished {
        for (stream, figures) in &finished.streams {
            let whose = [setting.name().into(), stream.clone()];
            sheet.line(run_cells(&finished.run).chain(whose).chain(figures.values().into_iter().map(number)));
        }
    }
    sheet.into_text()
}

/// One line for each counter of each medium of each run.
pub fn media_csv(variables: &[String], finished: &[Finished]) -> String {
    let mut sheet = Spreadsheet::new(head(variables).chain(["medium", "counter", "value"]));
    for finished in finished {
        for medium in &finished.media {
            for (counter, value) in &medium.counters {
                let cells = [medium.name.clone(), counter.clone(), number(Some(*value))];
                sheet.line(run_cells(&finished.run).chain(cells));
            }
        }
    }
    sheet.into_text()
}

/// One line for each figure of each stream at each point: mean over the runs, and half the width of its 95 % interval.
pub fn summary_csv(variables: &[String], points: &[PointSummary]) -> String {
    let columns = ["stream", "figure", "unit", "runs", "mean", "half_width_95"];
    let mut sheet = Spreadsheet::new(variables.iter().map(String::as_str).chain(columns));
    for point in points {
        for (figure, mean) in FIGURES.iter().zip(&point.figures) {
            let Some(mean) = mean else { continue };
            let cells = [
                point.stream.clone(),
                figure.name.into(),
                figure.unit.symbol().into(),
                mean.count.to_string(),
                number(Some(mean.mean)),
                number(mean.half_width),
            ];
            sheet.line(point.point.iter().map(|(_, value)| value.clone()).chain(cells));
        }
    }
    sheet.into_text()
}

fn head(variables: &[String]) -> impl Iterator<Item = &str> {
    let variables = variables.iter().map(String::as_str);
    std::iter::once("run").chain(variables).chain(["repetition", "seed"])
}

fn run_cells(run: &Run) -> impl Iterator<Item = String> {
    let settings = run.point.iter().map(|(_, value)| value.clone());
    std::iter::once(run.index.to_string())
        .chain(settings)
        .chain([run.repetition.to_string(), run.seed.to_string()])
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
        let csv = results_csv(&variables(), Setting::Real, &[finished(3, 0.1 + 0.2)]);
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
