//! Maps our figures to the columns of a printed table, side by side.

use antiphon_measure::MeanInterval;

use super::derived;
use super::table::Table;
use crate::results::{Results, Selection};

/// How an experiment's figures make a printed table.
#[derive(Clone, Copy, Debug)]
pub struct TableMap {
    /// The table's file.
    pub file: &'static str,
    /// Printed columns that say what a row is about.
    pub labels: &'static [&'static str],
    /// Where the results hold the figures of a printed row; `None` if the row is not re-run.
    pub place: fn(&Table, usize) -> Option<Place>,
    /// The columns that are compared.
    pub columns: &'static [ColumnMap],
    /// How it is drawn.
    pub drawing: Option<Drawing>,
}

/// A place in an experiment's results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The stream's name.
    pub stream: String,
    /// Settings of the sweep, as the scenario writes them.
    pub point: Vec<(&'static str, String)>,
}

/// A printed column and the figure that stands for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ColumnMap {
    /// The printed column.
    pub printed: &'static str,
    /// The printed column with the half width of its confidence interval.
    pub confidence: Option<&'static str>,
    /// One of [`FIGURES`](crate::figures::FIGURES), or a derived one.
    pub figure: &'static str,
    /// Statistic over the runs.
    pub statistic: Statistic,
    /// Factor from the figure to the printed unit.
    pub scale: f64,
}

/// A statistic of many runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// Their mean, with its 95 % confidence interval.
    Mean,
    /// The greatest.
    Max,
}

/// How a table is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Drawing {
    /// The figure's number and title in the paper.
    pub title: &'static str,
    /// The printed column along the horizontal axis: numbers.
    pub x: &'static str,
    /// Whether the axis of values is logarithmic.
    pub log: bool,
    /// Whether that of `x` is.
    pub log_x: bool,
}

/// A value with its precision, as far as known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Value {
    /// In the printed unit.
    pub value: f64,
    /// Half width of its 95 % confidence interval.
    pub half_width: Option<f64>,
    /// Number of runs; 0 where the paper does not say.
    pub runs: u64,
}

/// A printed value beside ours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// As printed; `None`: not printed or not readable.
    pub printed: Option<Value>,
    /// Decimal places in print; the column's most where nothing is printed.
    pub decimals: usize,
    /// From our runs; `None`: not run.
    pub ours: Option<Value>,
}

impl Compared {
    /// Ours less the printed value.
    pub fn deviation(&self) -> Option<f64> {
        Some(self.ours?.value - self.printed?.value)
    }

    /// The deviation as a share of the printed value; `None` where that is zero.
    pub fn relative(&self) -> Option<f64> {
        let printed = self.printed?.value;
        (printed != 0.0).then(|| self.deviation().map(|deviation| deviation / printed.abs())).flatten()
    }
}

impl Statistic {
    /// The statistic of `figure` over the runs of a selection.
    pub fn of(self, selection: &Selection<'_>, figure: &str) -> Option<Value> {
        self.of_values(&selection.values(figure))
    }

    /// The statistic of one value for each run; `None` if there are none.
    pub fn of_values(self, values: &[f64]) -> Option<Value> {
        match self {
            Statistic::Mean => {
                let mean = MeanInterval::of(values)?;
                Some(Value { value: mean.mean, half_width: mean.half_width, runs: mean.count })
            }
            Statistic::Max => {
                let runs = values.len() as u64;
                let greatest = values.iter().copied().reduce(f64::max);
                greatest.map(|value| Value { value, half_width: None, runs })
            }
        }
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::Max => "max",
        }
    }
}

impl Place {
    /// The records at this place.
    pub fn select<'a>(&self, results: &'a Results) -> Selection<'a> {
        let point: Vec<(&str, &str)> = self.point.iter().map(|(key, value)| (*key, value.as_str())).collect();
        results.at(&point).stream(&self.stream)
    }
}

impl ColumnMap {
    /// A printed column without confidence intervals, beside the mean of `figure` over the runs, in the same unit.
    pub const fn mean(printed: &'static str, figure: &'static str) -> Self {
        ColumnMap { printed, confidence: None, figure, statistic: Statistic::Mean, scale: 1.0 }
    }

    /// A column of `table` in `row` beside ours.
    pub fn compare(&self, map: &TableMap, table: &Table, row: usize, results: Option<&Results>) -> Compared {
        let half_width = self.confidence.and_then(|column| table.number(row, column));
        let printed = table.number(row, self.printed).map(|value| Value { value, half_width, runs: 0 });
        let place = (map.place)(table, row);
        let ours = results.zip(place).and_then(|(results, place)| self.ours(&place, results));
        let most = || (0..table.rows.len()).filter_map(|row| table.decimals(row, self.printed)).max();
        let decimals = table.decimals(row, self.printed).or_else(most).unwrap_or(0);
        Compared { printed, decimals, ours }
    }

    /// Ours at a place, in the printed unit.
    pub(super) fn ours(&self, place: &Place, results: &Results) -> Option<Value> {
        let value = place.value(results, self.figure, self.statistic)?;
        let half_width = value.half_width.map(|half_width| half_width * self.scale);
        Some(Value { value: value.value * self.scale, half_width, ..value })
    }

    /// The definition of its figure.
    pub fn definition(&self) -> &'static str {
        derived::definition(self.figure).map_or("", |def| def.definition)
    }

    /// Which reading of the paper its figure is, in words; empty where there is one only.
    pub fn reading(&self) -> &'static str {
        derived::derived(self.figure).map_or("", |derived| derived.reading)
    }
}

#[cfg(test)]
impl TableMap {
    /// Checks that every name in the map is one of the table's or of the figures', and that some row has a place.
    pub(super) fn assert_fits(&self, table: &Table) {
        let here =
            |column: &str| assert!(table.column(column).is_some(), "{}: no column {column}", self.file);
        self.labels.iter().copied().for_each(here);
        for column in self.columns {
            here(column.printed);
            column.confidence.into_iter().for_each(here);
            assert!(derived::definition(column.figure).is_some(), "no figure {}", column.figure);
            assert!(column.scale > 0.0);
        }
        if let Some(drawing) = self.drawing {
            here(drawing.x);
            assert!((0..table.rows.len()).all(|row| table.number(row, drawing.x).is_some()));
        }
        assert!((0..table.rows.len()).any(|row| (self.place)(table, row).is_some()), "{}", self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::StreamFigures;
    use crate::results::Record;

    const MAP: TableMap = TableMap {
        file: "t.csv",
        labels: &["rate_mbit_s"],
        place: |table, row| {
            let rate = table.text(row, "rate_mbit_s")?;
            Some(Place { stream: "audio".into(), point: vec![("rate", format!("{rate}Mbit/s"))] })
        },
        columns: &[GAP],
        drawing: None,
    };
    const GAP: ColumnMap = ColumnMap {
        printed: "gap_us",
        confidence: Some("confidence_us"),
        figure: "gap_mean_ms",
        statistic: Statistic::Mean,
        scale: 1000.0,
    };

    fn record(run: u32, rate: &str, gap: f64) -> Record {
        let figures = StreamFigures { gap_mean_ms: Some(gap), ..StreamFigures::default() };
        let point = vec![("rate".into(), rate.into())];
        Record { run, point, repetition: run, seed: 0, stream: "audio".into(), figures }
    }

    #[test]
    fn ours_comes_in_the_printed_unit() {
        let text = "# t\nrate_mbit_s,gap_us,confidence_us\n2,7.40,0.1\n4,,0.2\n6,0.0,\n";
        let table = Table::parse("t.csv", text).unwrap();
        let records =
            vec![record(0, "2Mbit/s", 0.008), record(1, "2Mbit/s", 0.010), record(2, "6Mbit/s", 0.5)];
        let results = Results { records, planned_runs: 3 };
        let compared = GAP.compare(&MAP, &table, 0, Some(&results));
        let (printed, ours) = (compared.printed.unwrap(), compared.ours.unwrap());
        assert_eq!((printed.value, printed.half_width, compared.decimals), (7.4, Some(0.1), 2));
        assert!((ours.value - 9.0).abs() < 1e-12 && ours.runs == 2);
        // s = √2 µs, t(1) = 12.7062, n = 2.
        assert!((ours.half_width.unwrap() - 12.7062).abs() < 1e-3);
        assert!((compared.deviation().unwrap() - 1.6).abs() < 1e-12);
        assert!((compared.relative().unwrap() - 1.6 / 7.4).abs() < 1e-12);
        let not_printed = GAP.compare(&MAP, &table, 1, Some(&results));
        assert_eq!((not_printed.printed, not_printed.ours, not_printed.deviation()), (None, None, None));
        let of_zero = GAP.compare(&MAP, &table, 2, Some(&results));
        assert_eq!((of_zero.deviation(), of_zero.relative()), (Some(500.0), None));
        assert_eq!(GAP.compare(&MAP, &table, 0, None).ours, None);
        let greatest = ColumnMap { statistic: Statistic::Max, ..GAP };
        assert_eq!(greatest.compare(&MAP, &table, 0, Some(&results)).ours.unwrap().value, 10.0);
    }
}
