//! Print, model and reality side by side.

use antiphon_lab::figures::FIGURES;
use antiphon_lab::papers::{ColumnMap, Experiment, Paper, Table as PrintedTable, TableMap, Value, heading};
use antiphon_lab::results::{Record, Results, Selection};
use antiphon_lab::setup::Setup;
use antiphon_lab::spreadsheet::{Spreadsheet, number};
use antiphon_measure::MeanInterval;
use antiphon_report::{Cell, Column, Part, Row, Table};

use super::compared::mean_fields;
use super::{Job, RealOptions, describe};

/// The figures that are compared, where they were measured; all printed ones come first.
const COMPARED: [&str; 12] = [
    "missing_percent",
    "lost_percent",
    "delay_mean_ms",
    "delay_p99_ms",
    "rtt_mean_ms",
    "rtt_p99_ms",
    "jitter_sd_ms",
    "gap_max_ms",
    "retransmissions",
    "expired",
    "refused",
    "concealed_percent",
];

/// One figure of one stream at one point, from each source that has it.
#[derive(Clone, PartialEq, Debug)]
pub struct SideRow {
    /// What the sweep set.
    pub point: Vec<(String, String)>,
    /// The stream's name.
    pub stream: String,
    /// A figure's name.
    pub figure: &'static str,
    /// In words: the figure's title, or the paper's own column.
    pub label: String,
    /// Of all values.
    pub unit: String,
    /// `None`: not printed.
    pub printed: Option<f64>,
    /// Mean over the model's runs.
    pub model: Option<Value>,
    /// Mean over the runs on sockets.
    pub real: Option<Value>,
}

impl SideRow {
    /// The real mean divided by the model's; `None` where either is missing or the model's is zero.
    pub fn ratio(&self) -> Option<f64> {
        let (model, real) = (self.model?.value, self.real?.value);
        (model != 0.0).then(|| real / model)
    }
}

/// Counts, which cannot be compared with those of longer runs: given for each 100 frames sent.
const COUNTS: [&str; 3] = ["retransmissions", "expired", "refused"];

/// The results of an experiment on sockets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RealResults {
    /// Its records.
    pub results: Results,
    /// The setting of the runs, from their journal: `real, 60s`.
    pub setting: String,
    /// The machine, and the date, if they were recorded.
    pub machine: Option<String>,
}

/// Every figure that runs on sockets have, beside print and model: printed ones first.
pub fn side_rows(
    paper: &Paper,
    experiment: &Experiment,
    model: Option<&Results>,
    real: &Results,
) -> Vec<SideRow> {
    let mut rows = Vec::new();
    for (point, stream) in places(real) {
        let first = rows.len();
        rows.extend(printed(paper, experiment, (point, stream), model, real));
        let told = |figure: &str| rows[first..].iter().any(|row: &SideRow| row.figure == figure);
        let others: Vec<_> = COMPARED.into_iter().filter(|figure| !told(figure)).collect();
        rows.extend(others.into_iter().filter_map(|figure| unprinted(figure, (point, stream), model, real)));
    }
    rows
}

/// The settings of a point, and a stream's name.
type Spot<'a> = (&'a [(String, String)], &'a str);

/// A figure that the paper does not print; `None` if it was not measured on sockets, or is zero everywhere.
fn unprinted(
    figure: &'static str,
    (point, stream): Spot<'_>,
    model: Option<&Results>,
    real: &Results,
) -> Option<SideRow> {
    let def = FIGURES.iter().find(|def| def.name == figure)?;
    let settings: Vec<(&str, &str)> = point.iter().map(|(key, value)| (&**key, &**value)).collect();
    let per_100 = COUNTS.contains(&figure);
    let mean = |results: &Results| {
        let here = results.at(&settings).stream(stream);
        let mean = if per_100 { mean_per_100(&here, figure) } else { here.mean(figure) };
        mean.map(|mean| Value { value: mean.mean, half_width: mean.half_width, runs: mean.count })
    };
    let (model, real) = (model.and_then(mean), mean(real));
    let told = [model, real].into_iter().flatten().any(|value| value.value != 0.0);
    real.filter(|_| told || figure == "missing_percent")?;
    Some(SideRow {
        point: point.to_vec(),
        stream: stream.into(),
        figure,
        label: def.title.into(),
        unit: if per_100 { "per 100 packets" } else { def.unit.symbol() }.into(),
        printed: None,
        model,
        real,
    })
}

/// What the paper prints for a stream at a point, in its own units.
fn printed(
    paper: &Paper,
    experiment: &Experiment,
    (point, stream): Spot<'_>,
    model: Option<&Results>,
    real: &Results,
) -> Vec<SideRow> {
    let mut found: Vec<SideRow> = Vec::new();
    for map in experiment.tables {
        let Some(table) = paper.table(map.file) else { continue };
        let here = |row: &usize| {
            (map.place)(table, *row).is_some_and(|place| {
                let set = |(key, value): &(&str, String)| point.iter().any(|(k, v)| k == key && v == value);
                place.stream == stream && place.point.iter().all(set)
            })
        };
        let rows: Vec<usize> = (0..table.rows.len()).filter(here).collect();
        for row in rows.iter().copied() {
            let whose = apart(map, table, row, &rows);
            for column in map.columns {
                let modelled = column.compare(map, table, row, model);
                let (name, unit) = heading(column.printed);
                let label = format!("{name}{}{whose}", reading(experiment, map, column));
                // Two readings of a table share the columns that are read in one way.
                if found.iter().any(|row| row.label == label) {
                    continue;
                }
                found.push(SideRow {
                    point: point.to_vec(),
                    stream: stream.into(),
                    figure: column.figure,
                    label,
                    unit: unit.into(),
                    printed: modelled.printed.map(|value| value.value),
                    model: modelled.ours,
                    real: column.compare(map, table, row, Some(real)).ours,
                });
            }
        }
    }
    found.retain(|row| row.real.is_some());
    found
}

/// The figure as which a printed column is read, where it is read as several: " (jitter_sd_ms)".
fn reading(experiment: &Experiment, map: &TableMap, column: &ColumnMap) -> String {
    let same_table = experiment.tables.iter().filter(|other| other.file == map.file);
    let mut same_column =
        same_table.flat_map(|other| other.columns).filter(|other| other.printed == column.printed);
    match same_column.any(|other| other.figure != column.figure) {
        true => format!(" ({})", column.figure),
        false => String::new(),
    }
}

/// Distinguishes a printed row from the `others` for the same runs: ", computer A".
fn apart(map: &TableMap, table: &PrintedTable, row: usize, others: &[usize]) -> String {
    let differs =
        |column: &&&str| others.iter().any(|other| table.text(*other, column) != table.text(row, column));
    let told = map.labels.iter().filter(differs);
    told.filter_map(|column| Some(format!(", {column} {}", table.text(row, column)?))).collect()
}

/// The mean over the runs of a count for each 100 frames sent.
fn mean_per_100(of: &Selection<'_>, figure: &str) -> Option<MeanInterval> {
    let (counts, sent) = (of.values(figure), of.values("sent"));
    // Both exist for each run, or the figure was not measured.
    let shares =
        counts.iter().zip(&sent).filter(|(_, sent)| **sent > 0.0).map(|(count, sent)| 100.0 * count / sent);
    (counts.len() == sent.len()).then(|| MeanInterval::of(&shares.collect::<Vec<_>>())).flatten()
}

/// The points and streams of results, in their order.
fn places(results: &Results) -> Vec<Spot<'_>> {
    let mut places: Vec<Spot<'_>> = Vec::new();
    for Record { point, stream, .. } in &results.records {
        if !places.contains(&(point, stream)) {
            places.push((point, stream));
        }
    }
    places
}

/// The parts of a report: the table, and what differs beneath.
pub(super) fn parts(
    paper: &Paper,
    job: &Job,
    rows: &[SideRow],
    model: Option<&Results>,
    real: &RealResults,
) -> Vec<Part> {
    if rows.is_empty() {
        return Vec::new();
    }
    let column = |title: &str, note: String| Column { title: title.into(), note, colour: None };
    let runs = |results: &Results| format!("{} of {} runs", results.runs(), results.planned_runs);
    let modelled = model.map_or("not run".into(), runs);
    let mut last = None;
    let lines = rows.iter().map(|row| {
        let place = (&row.point, &row.stream);
        let group = if last == Some(place) { String::new() } else { group_of(paper, row) };
        last = Some(place);
        line(row, group)
    });
    let mut table = Table {
        caption: "The same experiment in the model and on this machine's sockets; means over the runs with 95 % confidence \
                  intervals."
            .into(),
        columns: vec![
            column("Printed", "in the paper".into()),
            column("Model", modelled),
            column("Real", real_runs(real)),
            column("Real : model", "ratio of the means".into()),
        ],
        rows: lines.collect(),
    };
    if !job.scenario.measured {
        return vec![
            Part::Heading("Model and reality".into()),
            Part::Table(table),
            Part::Notes(differences(job)),
        ];
    }
    // There is no model of it.
    table.caption =
        "Measured and published values; means over the runs with 95 % confidence intervals.".into();
    table.columns = [table.columns.remove(0), table.columns.remove(1)].into();
    for row in &mut table.rows {
        row.values = [row.values.remove(0), row.values.remove(1)].into();
    }
    vec![Part::Heading("Published and measured".into()), Part::Table(table), Part::Notes(differences(job))]
}

/// The columns of [`csv`].
pub(super) const SIDES_HEAD: &str = "paper,experiment,point,stream,figure,unit,printed,model,model_half_width_95,model_runs,\
                                     real,real_half_width_95,real_runs,real_to_model";

/// A row for spreadsheets.
pub(super) fn csv(paper: &str, experiment: &str, row: &SideRow, sheet: &mut Spreadsheet) {
    let point: Vec<String> = row.point.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let head = [paper, experiment, &point.join(" "), &row.stream, row.figure, &row.unit].map(String::from);
    let means = mean_fields(row.model).into_iter().chain(mean_fields(row.real));
    sheet.line(head.into_iter().chain([number(row.printed)]).chain(means).chain([number(row.ratio())]));
}

fn group_of(paper: &Paper, row: &SideRow) -> String {
    let settings = row.point.iter().map(|(key, value)| {
        let both = format!("{key}={value}");
        match paper.short(&both) {
            same if same == both => paper.short(value).to_string(),
            short => short.into(),
        }
    });
    std::iter::once(row.stream.clone()).chain(settings).collect::<Vec<_>>().join(", ")
}

/// "3 runs of 60s": the journal's text after its first word.
fn real_runs(real: &RealResults) -> String {
    let length = real.setting.split_once(", ").map(|(_, length)| format!(" of {length}"));
    format!("{} runs{}", real.results.runs(), length.unwrap_or_default())
}

fn line(row: &SideRow, group: String) -> Row {
    let places = decimals([row.printed, row.model.map(|m| m.value), row.real.map(|r| r.value)]);
    let mean = |mean: Option<Value>| match mean {
        None => Cell::MISSING,
        Some(Value { value, half_width: Some(half), .. }) => {
            Cell::Text(format!("{value:.places$} ± {half:.places$}"))
        }
        Some(Value { value, .. }) => Cell::Text(format!("{value:.places$}")),
    };
    let ratio = row.ratio().map_or(Cell::MISSING, |ratio| Cell::Text(format!("{ratio:.2}")));
    Row {
        group,
        label: row.label.clone(),
        unit: row.unit.clone(),
        values: vec![
            row.printed.map_or(Cell::MISSING, |value| Cell::Text(format!("{value:.places$}"))),
            mean(row.model),
            mean(row.real),
            ratio,
        ],
        ..Row::default()
    }
}

/// Three digits of the largest value.
fn decimals(values: [Option<f64>; 3]) -> usize {
    let largest = values.into_iter().flatten().fold(0.0, |most: f64, value| most.max(value.abs()));
    match largest {
        size if size >= 100.0 => 1,
        size if size >= 0.1 => 2,
        0.0 => 0,
        _ => 4,
    }
}

/// Differences between model and reality, in sentences.
fn differences(job: &Job) -> Vec<String> {
    // A setup that cannot be built, or not on sockets, has no results to explain: a run reports why.
    let setup = first_setup(job);
    let notes = setup.and_then(|setup| describe(&setup, &RealOptions::default()).ok()).unwrap_or_default();
    let mut notes: Vec<String> = notes.iter().map(|note| format!("On sockets: {note}.")).collect();
    notes.push(
        "Runs on sockets are fewer and shorter, so their intervals are wide: if they contain the model's mean, no \
         difference is shown. Maxima of a run grow with its length."
            .into(),
    );
    notes
}

fn first_setup(job: &Job) -> Option<Setup> {
    let plan = job.scenario.plan();
    job.scenario.setup(&plan.first()?.point).ok()
}
