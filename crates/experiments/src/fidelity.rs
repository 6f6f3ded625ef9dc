//! How near our figures come to the printed ones: over all cells that both have, those apart from which a number of the model was set,
//! those that others of the paper rule out, and those that are this machine's and not the model's.

use antiphon_lab::papers::{
    ColumnMap, Compared, Contradiction, Fit, Table as PrintedTable, TableMap, Value, Variant,
};
use antiphon_lab::results::Results;
use antiphon_report::{Cell, Column, Part, Row, Section, Table};
use serde::Serialize;

use super::PaperResults;
use super::compared::Beside;

/// How near a set of cells comes to print.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Fidelity {
    /// Cells that are printed and that we have.
    pub comparable: usize,
    /// Those of them whose printed value is not zero.
    pub non_zero: usize,
    /// Median of the relative errors of those, |ours − printed| / |printed|, as a share.
    pub median_error: Option<f64>,
    /// How many of those are within 10, 25 and 50 %.
    pub within: [usize; 3],
    /// Cells for which print and we have a 95 % confidence interval, the printed one not of zero width.
    pub intervals: usize,
    /// Median of the widths of our intervals there, as a share of the printed ones'.
    pub median_width: Option<f64>,
    /// How many of our intervals there overlap with the printed ones.
    pub overlapping: usize,
}

/// The fidelity of a paper's results.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct PaperFidelity {
    /// Of the model's cells from which nothing was set, and that nothing rules out.
    pub free: Fidelity,
    /// Of those from which a number of the model was set.
    pub fitted: Fidelity,
    /// Of those that other printed cells rule out.
    pub ruled_out: Fidelity,
    /// Of those that were measured on this machine, which is another than the paper's.
    pub measured: Fidelity,
    /// Of the free cells once more, with those of each experiment of ours that changes one cause in their place, and last with those of all of
    /// these: what is changed, and how near they come then. Cells from which a number of the change was set are left out.
    pub changed: Vec<(&'static str, Fidelity)>,
    /// Of each table's free cells, the farthest first.
    pub tables: Vec<(String, Fidelity)>,
}

/// The shares of [`Fidelity::within`].
const NEAR: [f64; 3] = [0.10, 0.25, 0.50];

impl Fidelity {
    fn of(cells: &[Compared]) -> Self {
        let comparable: Vec<&Compared> =
            cells.iter().filter(|cell| cell.printed.is_some() && cell.ours.is_some()).collect();
        let mut errors: Vec<f64> =
            comparable.iter().filter_map(|cell| cell.relative()).map(f64::abs).collect();
        let median_error = median(&mut errors);
        let within = NEAR.map(|near| errors.iter().filter(|error| **error <= near).count());
        let intervals: Vec<[(f64, f64); 2]> = comparable.iter().filter_map(|cell| intervals(cell)).collect();
        let mut widths: Vec<f64> = intervals.iter().map(|[(_, printed), (_, ours)]| ours / printed).collect();
        let overlap =
            |[(printed, wide), (ours, narrow)]: &&[(f64, f64); 2]| (printed - ours).abs() <= wide + narrow;
        Fidelity {
            comparable: comparable.len(),
            non_zero: errors.len(),
            median_error,
            within,
            intervals: intervals.len(),
            median_width: median(&mut widths),
            overlapping: intervals.iter().filter(overlap).count(),
        }
    }

    fn values(&self) -> Vec<Cell> {
        let share = |count: usize| match self.non_zero {
            0 => Cell::MISSING,
            all => Cell::Text(format!("{:.0} %", 100.0 * count as f64 / all as f64)),
        };
        let median =
            self.median_error.map_or(Cell::MISSING, |error| Cell::Text(format!("{:.0} %", 100.0 * error)));
        let width = self.median_width.map_or(Cell::MISSING, |width| Cell::Text(percent(width)));
        let overlapping = match self.intervals {
            0 => Cell::MISSING,
            all => Cell::Text(format!("{} of {all}", self.overlapping)),
        };
        let counts = format!("{} of {}", self.non_zero, self.comparable);
        [Cell::Text(counts), median]
            .into_iter()
            .chain(self.within.map(share))
            .chain([width, overlapping])
            .collect()
    }
}

/// `share` in percent, with a decimal place where it is less than ten.
fn percent(share: f64) -> String {
    let decimals = usize::from(share < 0.1);
    format!("{:.decimals$} %", 100.0 * share)
}

/// The middle of the values, which are put in order; `None` if there are none.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The printed value and ours, each with half the width of its interval; `None` where one has none, or a printed one without width.
fn intervals(cell: &Compared) -> Option<[(f64, f64); 2]> {
    let (printed, ours) = (cell.printed?, cell.ours?);
    let wide = printed.half_width.filter(|wide| *wide > 0.0)?;
    Some([(printed.value, wide), (ours.value, ours.half_width?)])
}

/// Cells of a paper with some causes changed.
struct Change<'a> {
    what: &'static str,
    variants: Vec<(&'static Variant, &'a Results)>,
    cells: Vec<Compared>,
}

impl<'a> Change<'a> {
    fn new(what: &'static str, variants: Vec<(&'static Variant, &'a Results)>) -> Self {
        Change { what, variants, cells: Vec::new() }
    }

    /// Whether a number of the changed experiments was set from this cell.
    fn is_fitted(&self, fits: &[Fit], experiment: &str, file: &str, row: usize, printed: &str) -> bool {
        let is_here =
            |fit: &Fit| self.variants.iter().any(|(variant, _)| variant.experiment == fit.experiment);
        fits.iter().any(|fit| is_here(fit) && fit.has_cell(experiment, file, row, printed))
    }

    /// What a cell of `experiment` is with the causes changed; `None` where none of the changed experiments has it.
    fn ours(
        &self,
        experiment: &str,
        map: &TableMap,
        column: &ColumnMap,
        table: &PrintedTable,
        row: usize,
    ) -> Option<Value> {
        let mut here = self.variants.iter().filter(|(variant, _)| variant.of == experiment);
        here.find_map(|(variant, results)| variant.ours(map, column, table, row, results))
    }
}

impl PaperFidelity {
    /// The classes of cells, then the tables; `rules_out`: some cells of the paper rule out others. Intervals are left out where print has none.
    fn table(&self, rules_out: bool) -> Table {
        let column =
            |title: &str, note: &str| Column { title: title.into(), note: note.into(), colour: None };
        let mut columns = vec![
            column("Cells", "not zero, of all"),
            column("Median error", ""),
            column("Within 10 %", ""),
            column("25 %", ""),
            column("50 %", ""),
        ];
        if self.free.intervals > 0 {
            columns.extend([column("Interval", "of print's"), column("Overlap", "")]);
        }
        let row = |label: &str, of: &Fidelity| {
            let values = of.values().into_iter().take(columns.len()).collect();
            Row { label: label.into(), values, ..Row::default() }
        };
        let free =
            if rules_out { "Modelled, neither fitted nor ruled out" } else { "Modelled and not fitted" };
        let ruled_out = rules_out.then_some(("Ruled out by others of the paper", &self.ruled_out));
        let measured = ("Measured on this machine", &self.measured);
        let measured = Some(measured).filter(|(_, of)| of.comparable > 0);
        let changed: Vec<(String, &Fidelity)> =
            self.changed.iter().map(|(changed, of)| (format!("{free}, with {changed}"), of)).collect();
        let changed = changed.iter().map(|(label, of)| (label.as_str(), *of));
        let classes = [(free, &self.free), ("Fitted", &self.fitted)].into_iter();
        let classes = classes.chain(ruled_out).chain(measured).chain(changed);
        let tables = self.tables.iter().map(|(name, table)| (name.as_str(), table));
        Table {
            caption: "The farthest table first.".into(),
            rows: classes.chain(tables).map(|(label, of)| row(label, of)).collect(),
            columns,
        }
    }
}

impl PaperResults {
    /// How near its results come to print.
    pub fn fidelity(&self) -> PaperFidelity {
        let (fits, contradictions) = (self.paper.fits(), self.paper.contradictions());
        let (mut free, mut fitted, mut ruled_out) = (Vec::new(), Vec::new(), Vec::new());
        let (mut measured, mut tables) = (Vec::new(), Vec::new());
        let mut changes = self.changes();
        for experiment in self.paper.experiments {
            let is_measured = self.is_measured(experiment.key);
            for map in experiment.tables {
                let Some(beside) = Beside::of(self.paper, map, self.of(experiment.key)) else { continue };
                // An experiment of ours has numbers of the paper's room, and of its own, which the paper's runs don't know.
                let is_fitted = |row: usize, printed: &str| {
                    let has = |fit: &Fit| fit.has_cell(experiment.key, map.file, row, printed);
                    fits.iter().any(|fit| self.is_of_paper(fit.experiment) && has(fit))
                };
                let is_ruled_out = |row: usize, printed: &str| {
                    let has = |one: &Contradiction| one.has_cell(experiment.key, map.file, row, printed);
                    contradictions.iter().any(has)
                };
                let mut here = Vec::new();
                for (row, cells) in beside.cells.iter().enumerate() {
                    for (cell, column) in cells.iter().zip(map.columns) {
                        let class = match () {
                            () if is_measured => &mut measured,
                            () if is_ruled_out(row, column.printed) => &mut ruled_out,
                            () if is_fitted(row, column.printed) => &mut fitted,
                            () => {
                                for change in &mut changes {
                                    if !change.is_fitted(&fits, experiment.key, map.file, row, column.printed)
                                    {
                                        let ours =
                                            change.ours(experiment.key, map, column, beside.table, row);
                                        change.cells.push(Compared { ours: ours.or(cell.ours), ..*cell });
                                    }
                                }
                                &mut here
                            }
                        };
                        class.push(*cell);
                    }
                }
                tables.push((beside.heading(), Fidelity::of(&here)));
                free.extend(here);
            }
        }
        tables.retain(|(_, table)| table.comparable > 0);
        let error = |table: &Fidelity| table.median_error.unwrap_or(-1.0);
        tables.sort_by(|(_, a), (_, b)| error(b).total_cmp(&error(a)));
        let [free, fitted, ruled_out, measured] =
            [&free, &fitted, &ruled_out, &measured].map(|cells| Fidelity::of(cells));
        let changed = changes.into_iter().map(|change| (change.what, Fidelity::of(&change.cells))).collect();
        PaperFidelity { free, fitted, ruled_out, measured, changed, tables }
    }

    /// The experiments of ours that change one cause and have run, each alone, and if there are several, all of them.
    fn changes(&self) -> Vec<Change<'_>> {
        let variants = self.paper.variants().iter();
        let run = variants.filter_map(|variant| Some((variant, self.of(&variant.experiment)?)));
        let all: Vec<(&Variant, &Results)> = run.collect();
        let alone = all.iter().map(|one| Change::new(&one.0.changed, vec![*one]));
        let mut changes: Vec<Change<'_>> = alone.collect();
        if all.len() > 1 {
            changes.push(Change::new("all of these", all));
        }
        changes
    }

    /// Whether an experiment is the paper's and not one of ours.
    fn is_of_paper(&self, experiment: &str) -> bool {
        self.paper.experiment(experiment).is_some_and(|experiment| !experiment.is_own())
    }

    /// The fidelity as a section, and the numbers that were fitted; nothing before anything has run.
    pub(super) fn fidelity_section(&self) -> Option<Section> {
        let fidelity = self.fidelity();
        if fidelity.free.comparable + fidelity.fitted.comparable == 0 {
            return None;
        }
        let contradictions = self.paper.contradictions();
        let section = Section::new(
            "Fidelity",
            "How near our figures come to the printed ones, over all cells that are printed and that we have. A relative error is \
             our distance from the printed value, as a share of that value; cells that are printed as zero have none. A cell is \
             fitted if a number of the model was set so that this cell comes out: such cells say nothing for the model. Nor do cells that \
             other printed cells rule out, and what sockets of this machine measured says nothing of the model either. Where both \
             have a 95 % confidence interval: how wide ours is beside the printed one, in the median, and how many of them overlap. Ours says how far chance moves the model, which has the same hosts and the same day in each run.",
        )
        .with(Part::Table(fidelity.table(!contradictions.is_empty())));
        let section = contradictions.iter().fold(section, |section, one| {
            section.with(Part::Prose(format!("Ruled out are {}. {}", one.stated, one.proof)))
        });
        Some(match self.fitted_numbers() {
            Some(numbers) => section.with(Part::Heading("Fitted numbers".into())).with(Part::Table(numbers)),
            None => section,
        })
    }

    fn fitted_numbers(&self) -> Option<Table> {
        let column = |title: &str| Column { title: title.into(), ..Column::default() };
        // One that several experiments share is one.
        let mut numbers: Vec<(Fit, Vec<&str>)> = Vec::new();
        for fit in self.paper.fits() {
            let same = |known: &Fit| {
                (&known.place, &known.value, &known.fitted) == (&fit.place, &fit.value, &fit.fitted)
            };
            match numbers.iter_mut().find(|(known, _)| same(known)) {
                Some((_, experiments)) => experiments.push(self.paper.short(fit.experiment)),
                None => {
                    let experiment = self.paper.short(fit.experiment);
                    numbers.push((fit, vec![experiment]));
                }
            }
        }
        let row = |(fit, experiments): &(Fit, Vec<&str>)| Row {
            label: fit.place.clone(),
            values: vec![
                Cell::Text(fit.short_value()),
                fit.fitted.as_str().into(),
                Cell::Text(experiments.join(", ").replace('_', " ")),
            ],
            ..Row::default()
        };
        (!numbers.is_empty()).then(|| Table {
            caption: "Numbers of the model that were set so that a printed figure comes out; the reasons stand with each experiment."
                .into(),
            columns: vec![column("Value"), column("Set from"), column("In")],
            rows: numbers.iter().map(row).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_compared_where_both_have_one() {
        let value = |(value, half_width): (f64, Option<f64>)| Value { value, half_width, runs: 3 };
        let cell =
            |printed, ours| Compared { printed: Some(value(printed)), decimals: 1, ours: Some(value(ours)) };
        let cells = [
            cell((10.0, Some(2.0)), (11.0, Some(0.1))),
            cell((10.0, Some(2.0)), (12.3, Some(0.4))),
            cell((10.0, Some(1.0)), (11.5, Some(0.4))),
            cell((10.0, Some(0.0)), (10.0, Some(0.4))),
            cell((10.0, None), (10.0, Some(0.4))),
            cell((10.0, Some(1.0)), (10.0, None)),
        ];
        let fidelity = Fidelity::of(&cells);
        assert_eq!((fidelity.intervals, fidelity.overlapping), (3, 2));
        // 5, 20 and 40 %.
        assert!((fidelity.median_width.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(Fidelity::of(&cells[3..]).median_width, None);
        assert_eq!([0.006, 0.25].map(percent), ["0.6 %", "25 %"]);
    }

    #[test]
    fn errors_are_of_what_is_printed_and_not_zero() {
        let cell = |printed: Option<f64>, ours: Option<f64>| {
            let value = |value: f64| Value { value, ..Value::default() };
            Compared { printed: printed.map(value), decimals: 1, ours: ours.map(value) }
        };
        let cells = [
            cell(Some(10.0), Some(10.5)),
            cell(Some(-10.0), Some(-12.0)),
            cell(Some(2.0), Some(8.0)),
            cell(Some(4.0), Some(2.0)),
            cell(Some(0.0), Some(1.0)),
            cell(None, Some(1.0)),
            cell(Some(1.0), None),
        ];
        let fidelity = Fidelity::of(&cells);
        // 5, 20, 300 and 50 %.
        assert_eq!((fidelity.comparable, fidelity.non_zero, fidelity.within), (5, 4, [1, 2, 3]));
        assert!((fidelity.median_error.unwrap() - 0.35).abs() < 1e-9);
        assert_eq!(Fidelity::of(&cells[4..]).median_error, None);
    }
}
