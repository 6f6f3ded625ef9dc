//! Printed tables beside ours: as tables for readers, as CSV lines, as charts.

use antiphon_lab::papers::{ColumnMap, Compared, Paper, Table, TableMap, Value, heading};
use antiphon_lab::results::Results;
use antiphon_lab::spreadsheet::{Spreadsheet, number};
use antiphon_report::{Axis, Cell, Chart, Column, Row, Scale, Series, Style};

/// A printed table with ours beside it.
pub(super) struct Beside<'a> {
    pub map: &'a TableMap,
    pub table: &'a Table,
    /// By row, then by column of the map.
    pub cells: Vec<Vec<Compared>>,
}

impl<'a> Beside<'a> {
    /// `None` if the paper has no such table.
    pub fn of(paper: &'a Paper, map: &'a TableMap, results: Option<&Results>) -> Option<Self> {
        let table = paper.table(map.file)?;
        let row = |row| map.columns.iter().map(|column| column.compare(map, table, row, results)).collect();
        Some(Beside { map, table, cells: (0..table.rows.len()).map(row).collect() })
    }

    /// For readers: printed, ours, deviation, for each column.
    pub fn table(&self) -> antiphon_report::Table {
        let heads = self.map.columns.iter().enumerate().flat_map(|(n, column)| {
            let head = |title: String, note: String| Column { title, note, colour: None };
            // Two readings of one printed column are distinguished by the figure's name.
            let twice = self.map.columns.iter().filter(|other| other.printed == column.printed).count() > 1;
            let which = if twice { column.figure } else { column.statistic.name() };
            let heads = [
                head(name_of(column.printed), "printed".into()),
                head(String::new(), format!("ours, {which}")),
                head(String::new(), "deviation".into()),
            ];
            heads.into_iter().skip(self.told(n))
        });
        let row = |(row, cells): (usize, &Vec<Compared>)| Row {
            label: self.label(row),
            values: (0..)
                .zip(cells)
                .flat_map(|(n, cell)| cells_of(cell).into_iter().skip(self.told(n)))
                .collect(),
            samples: Vec::new(),
            ..Row::default()
        };
        antiphon_report::Table {
            caption: self.table.title.split_once(": ").map_or(&*self.table.title, |(_, title)| title).into(),
            columns: heads.collect(),
            rows: self.cells.iter().enumerate().map(row).collect(),
        }
    }

    /// Number of cells that need not be repeated: the printed one, if the column before has it.
    fn told(&self, column: usize) -> usize {
        let columns = self.map.columns;
        usize::from(column > 0 && columns[column - 1].printed == columns[column].printed)
    }

    /// "Table 6.3".
    pub fn heading(&self) -> String {
        let number = match self.table.title.split_once(": ") {
            Some((number, _)) if number.starts_with("Table") => number,
            _ => "Figures in the text",
        };
        match self.map.columns.iter().map(ColumnMap::reading).find(|reading| !reading.is_empty()) {
            Some(reading) => format!("{number}, {reading}"),
            None => number.into(),
        }
    }

    /// Label of a row: "12 Mbit/s".
    fn label(&self, row: usize) -> String {
        self.labels(row, self.map.labels).collect::<Vec<_>>().join(", ")
    }

    /// What these printed columns say of a row, with their units.
    fn labels(&self, row: usize, columns: &[&str]) -> impl Iterator<Item = String> {
        columns.iter().filter_map(move |column| {
            let (text, unit) = (self.table.text(row, column)?, heading(column).1);
            Some(if unit.is_empty() { text.to_string() } else { format!("{text} {unit}") })
        })
    }

    /// A chart with both, if the paper has one.
    pub fn chart(&self) -> Option<Chart> {
        let drawing = self.map.drawing?;
        let (x_label, x_unit) = heading(drawing.x);
        let (name, unit) = match self.map.columns {
            [column] => heading(column.printed),
            columns => ("value", columns.first().map_or("", |column| heading(column.printed).1)),
        };
        let scale = |log| if log { Scale::Log } else { Scale::Linear };
        let lines = self.lines(drawing.x);
        let series = lines.iter().enumerate().flat_map(|(colour, line)| {
            // Where there are many lines, ours and its printed counterpart share a colour; a pair alone is told apart without the dashes, too.
            let colours =
                if lines.len() > LINES_APART { [colour, colour] } else { [2 * colour, 2 * colour + 1] };
            [line.series("ours", colours[0]), line.series("printed", colours[1])]
        });
        Some(Chart {
            title: drawing.title.into(),
            note: "Dashed: as printed. Bars: 95 % confidence intervals over the runs. A logarithmic scale leaves out \
                   what is 0."
                .into(),
            x: Axis { scale: scale(drawing.log_x), ..Axis::new(x_label, x_unit) },
            y: Axis { scale: scale(drawing.log), ..Axis::new(name, unit) },
            series: series.collect(),
            log_toggle: true,
            ..Chart::default()
        })
    }

    /// What is drawn over the printed column `x`: each column, at each of the other labels.
    fn lines(&self, x: &str) -> Vec<Line> {
        let others: Vec<&str> = self.map.labels.iter().copied().filter(|label| *label != x).collect();
        let mut lines: Vec<Line> = Vec::new();
        for (n, column) in self.map.columns.iter().enumerate() {
            let first = lines.len();
            for (row, cells) in self.cells.iter().enumerate() {
                let Some(at) = self.table.number(row, x) else { continue };
                let column = (self.map.columns.len() > 1).then(|| heading(column.printed).0.to_string());
                let name = column.into_iter().chain(self.labels(row, &others)).collect::<Vec<_>>().join(", ");
                let point = (at, cells[n]);
                match lines[first..].iter_mut().find(|line| line.name == name) {
                    Some(line) => line.points.push(point),
                    None => lines.push(Line { name, points: vec![point] }),
                }
            }
        }
        lines
    }

    /// CSV lines.
    pub fn csv(&self, paper: &str, experiment: &str, sheet: &mut Spreadsheet) {
        for (row, cells) in self.cells.iter().enumerate() {
            let label = self.label(row);
            for (column, compared) in self.map.columns.iter().zip(cells) {
                let (printed, statistic) = (compared.printed, column.statistic.name());
                let whose = [paper, experiment, &self.table.file, &label];
                let what = [column.printed, column.figure, statistic];
                let printed = [printed.map(|value| value.value), printed.and_then(|value| value.half_width)];
                let deviation = [compared.deviation(), compared.relative()];
                sheet.line(
                    (whose.into_iter().chain(what).map(String::from))
                        .chain(printed.map(number))
                        .chain(mean_fields(compared.ours))
                        .chain(deviation.map(number)),
                );
            }
        }
    }
}

/// A line of a chart, of ours and as printed.
struct Line {
    /// Empty if there is no other.
    name: String,
    points: Vec<(f64, Compared)>,
}

impl Line {
    fn series(&self, whose: &str, colour: usize) -> Series {
        let ours = whose == "ours";
        let values = |(_, cell): &(f64, Compared)| if ours { cell.ours } else { cell.printed };
        let values: Vec<Option<Value>> = self.points.iter().map(values).collect();
        Series {
            name: if self.name.is_empty() { whose.into() } else { format!("{}, {whose}", self.name) },
            colour,
            style: if ours { Style::Line } else { Style::Dashed },
            x: self.points.iter().map(|(x, _)| *x).collect(),
            y: values.iter().map(|value| value.map(|value| value.value)).collect(),
            half_widths: values.iter().map(|value| value.and_then(|value| value.half_width)).collect(),
            ..Series::default()
        }
    }
}

/// Lines of which each has two colours of its own.
const LINES_APART: usize = 2;

/// The columns of [`Beside::csv`].
pub(super) const TABLES_HEAD: &str = "paper,experiment,table,row,column,figure,statistic,printed,printed_half_width_95,\
                                      ours,ours_half_width_95,ours_runs,deviation,deviation_share";

/// A value of ours, half the width of its interval, and its number of runs.
pub(super) fn mean_fields(value: Option<Value>) -> [String; 3] {
    let runs = value.map_or(String::new(), |value| value.runs.to_string());
    [number(value.map(|value| value.value)), number(value.and_then(|value| value.half_width)), runs]
}

fn cells_of(compared: &Compared) -> [Cell; 3] {
    let decimals = compared.ours.map_or(compared.decimals, |ours| places(ours, compared.decimals));
    let printed = |Value { value, half_width, .. }| {
        let decimals = compared.decimals;
        match half_width {
            Some(half_width) => format!("{value:.decimals$} ± {half_width:.decimals$}"),
            None => format!("{value:.decimals$}"),
        }
    };
    let deviation = compared.deviation().map(|deviation| {
        let shown = format!("{deviation:+.decimals$}");
        match compared.relative() {
            // A value that rounds to zero has no sign and no share.
            _ if shown.chars().all(|c| "+-0.".contains(c)) => "0".into(),
            Some(share) if share.abs() < 10.0 => format!("{shown} ({:+.0} %)", 100.0 * share),
            _ => shown,
        }
    });
    [
        compared.printed.map_or(Cell::MISSING, |value| Cell::Text(printed(value))),
        compared.ours.map_or(Cell::MISSING, |value| Cell::Text(shown(value, compared.decimals))),
        deviation.as_deref().map_or(Cell::MISSING, Cell::from),
    ]
}

/// A value of ours with its interval, with at most so many decimal places.
pub(super) fn shown(value: Value, most: usize) -> String {
    let decimals = places(value, most);
    match value.half_width {
        // The same in every run; sums of equal numbers differ in their last digit, depending on how many there are.
        Some(0.0) if value.value == 0.0 => "0".into(),
        Some(half_width) if half_width <= SAME * value.value.abs() => {
            let digits = format!("{:.decimals$}", value.value);
            let digits =
                if decimals > 0 { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
            format!("{digits} ± 0")
        }
        Some(half_width) => format!("{:.decimals$} ± {half_width:.decimals$}", value.value),
        None => format!("{:.decimals$}", value.value),
    }
}

/// At most as many places as leave two figures of the interval: further ones carry no information.
fn places(value: Value, most: usize) -> usize {
    match value.half_width {
        Some(half_width) if half_width > SAME * value.value.abs() => {
            most.min((1.0 - half_width.log10().floor()).clamp(0.0, MOST_PLACES) as usize)
        }
        _ => most,
    }
}

/// A share of a mean that is only rounding error.
const SAME: f64 = 1e-9;
/// The most places that any paper prints.
const MOST_PLACES: f64 = 6.0;

/// A column's name with its unit, as a heading.
fn name_of(column: &str) -> String {
    match heading(column) {
        (name, "") => name.into(),
        (name, unit) => format!("{name}, {unit}"),
    }
}

/// Definitions of the figures of a table, from the list of figures.
pub(super) fn definitions(map: &TableMap) -> Vec<(String, String)> {
    let of = |column: &ColumnMap| {
        let factor = if column.scale == 1.0 { String::new() } else { format!(" Times {}.", column.scale) };
        (name_of(column.printed), format!("`{}`: {}{factor}", column.figure, column.definition()))
    };
    map.columns.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_lab::papers;

    #[test]
    fn a_chart_has_a_line_for_each_load() {
        let paper = papers::find("digitized-voice").unwrap();
        let chart = |experiment: &str| {
            let map = &paper.experiment(experiment).unwrap().tables[0];
            Beside::of(paper, map, None).unwrap().chart().unwrap()
        };
        let multicast = chart("multicast");
        let names: Vec<&str> = multicast.series.iter().map(|series| &*series.name).collect();
        let pairs = ["0", "25", "50", "75"]
            .map(|load| [format!("{load} Mbit/s, ours"), format!("{load} Mbit/s, printed")]);
        assert_eq!(names, pairs.concat());
        for pair in multicast.series.chunks(2) {
            assert_eq!(pair[0].colour, pair[1].colour);
            let sizes = &pair[1].x;
            assert!(sizes.len() == 10 && sizes.windows(2).all(|two| two[0] < two[1]), "{sizes:?}");
        }
        let basic = chart("basic");
        let names: Vec<(&str, usize)> = basic.series.iter().map(|one| (&*one.name, one.colour)).collect();
        assert_eq!(names[..2], [("average latency, ours", 0), ("average latency, printed", 1)]);
    }

    #[test]
    fn deviations_are_absolute_and_relative() {
        let value = |value| Some(Value { value, half_width: None, runs: 1 });
        let texts = |printed, ours| {
            cells_of(&Compared { printed, decimals: 2, ours }).map(|cell| match cell {
                Cell::Text(text) => text,
                _ => "-".into(),
            })
        };
        assert_eq!(texts(value(2.0), value(1.5)), ["2.00", "1.50", "-0.50 (-25 %)"]);
        assert_eq!(texts(value(0.0), value(1.5)), ["0.00", "1.50", "+1.50"]);
        assert_eq!(texts(value(0.01), value(1.5)), ["0.01", "1.50", "+1.49"]);
        assert_eq!(texts(value(1.5), value(1.499)), ["1.50", "1.50", "0"]);
        assert_eq!(texts(None, value(1.5)), ["-", "1.50", "-"]);
        let sure = |half_width| Some(Value { value: 1.2345, half_width: Some(half_width), runs: 9 });
        let six = |ours| cells_of(&Compared { printed: value(1.0), decimals: 6, ours });
        let text = |ours| match &six(ours)[1] {
            Cell::Text(text) => text.clone(),
            _ => "-".into(),
        };
        assert_eq!(text(sure(0.0123)), "1.234 ± 0.012");
        assert_eq!(text(sure(12.0)), "1 ± 12");
        assert_eq!((text(sure(0.0)), text(sure(1e-16))), ("1.2345 ± 0".into(), "1.2345 ± 0".into()));
        assert_eq!(text(Some(Value { value: 0.0, half_width: Some(0.0), runs: 9 })), "0");
    }
}
