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
        let labels = self.map.labels.iter().filter_map(|column| {
            let (text, unit) = (self.table.text(row, column)?, heading(column).1);
            Some(if unit.is_empty() { text.to_string() } else { format!("{text} {unit}") })
        });
        labels.collect::<Vec<_>>().join(", ")
    }

    /// A chart with both, if the paper has one.
    pub fn chart(&self) -> Option<Chart> {
        let drawing = self.map.drawing?;
        let (x_label, x_unit) = heading(drawing.x);
        let (name, unit) = match self.map.columns {
            [column] => heading(column.printed),
            columns => ("value", columns.first().map_or("", |column| heading(column.printed).1)),
        };
        let scale = if drawing.log { Scale::Log } else { Scale::Linear };
        let series = self.map.columns.iter().enumerate().flat_map(|(n, column)| {
            let name = if self.map.columns.len() > 1 { heading(column.printed).0 } else { "" };
            [self.series(n, name, "ours", drawing.x), self.series(n, name, "printed", drawing.x)]
        });
        Some(Chart {
            title: drawing.title.into(),
            note: "Dashed: as printed. Bars: 95 % confidence intervals over the runs. A logarithmic scale leaves out \
                   what is 0."
                .into(),
            x: Axis::new(x_label, x_unit),
            y: Axis { label: name.into(), unit: unit.into(), scale },
            series: series.collect(),
            log_toggle: true,
            ..Chart::default()
        })
    }

    fn series(&self, column: usize, name: &str, whose: &str, x: &str) -> Series {
        let ours = whose == "ours";
        let values: Vec<Option<Value>> =
            self.cells.iter().map(|row| if ours { row[column].ours } else { row[column].printed }).collect();
        Series {
            name: if name.is_empty() { whose.into() } else { format!("{name}, {whose}") },
            // Our first column and its printed counterpart must be distinguishable without the dashes, too.
            colour: 2 * column + usize::from(!ours),
            style: if ours { Style::Line } else { Style::Dashed },
            x: (0..values.len()).filter_map(|row| self.table.number(row, x)).collect(),
            y: values.iter().map(|value| value.map(|value| value.value)).collect(),
            half_widths: values.iter().map(|value| value.and_then(|value| value.half_width)).collect(),
            ..Series::default()
        }
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
