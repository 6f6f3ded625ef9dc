//! Print, model and reality side by side.

use antiphon_lab::figures::FIGURES;
use antiphon_lab::papers::{Experiment, Paper};
use antiphon_lab::results::{Record, Results, Selection};
use antiphon_lab::setup::Setup;
use antiphon_measure::MeanInterval;
use antiphon_report::{Cell, Column, Part, Row, Table};

use super::compared::csv_line;
use super::{Job, RealOptions, describe};

/// The figures that are compared, where anybody measured them; printed ones come first whatever they are.
const COMPARED: [&str; 10] = [
    "lost_percent",
    "delay_mean_ms",
    "delay_p99_ms",
    "rtt_mean_ms",
    "rtt_p99_ms",
    "jitter_sd_ms",
    "gap_max_s",
    "retransmissions",
    "expired",
    "concealed_percent",
];

/// One figure of one stream at one point, from everybody who has it.
#[derive(Clone, PartialEq, Debug)]
pub struct SideRow {
    /// What the sweep set.
    pub point: Vec<(String, String)>,
    /// The stream's name.
    pub stream: String,
    /// A name of [`FIGURES`].
    pub figure: &'static str,
    /// The figure is told for each 100 frames sent.
    pub per_100: bool,
    /// In the figure's unit; `None`: not printed.
    pub printed: Option<f64>,
    /// Mean over the model's runs.
    pub model: Option<MeanInterval>,
    /// Mean over the runs on sockets.
    pub real: Option<MeanInterval>,
}

impl SideRow {
    /// The real mean divided by the model's; `None` where either is missing or the model's is nothing.
    pub fn ratio(&self) -> Option<f64> {
        let (model, real) = (self.model?.mean, self.real?.mean);
        (model != 0.0).then(|| real / model)
    }
}

/// Counts, which mean nothing beside those of longer runs: they are told for each 100 frames sent.
const COUNTS: [&str; 2] = ["retransmissions", "expired"];

/// What there is of an experiment on sockets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RealResults {
    /// Its records.
    pub results: Results,
    /// What the runs are, as their journal says: `real, 60s`.
    pub ground: String,
}

/// Every figure that runs on sockets have, beside print and model.
pub fn side_rows(
    paper: &Paper,
    experiment: &Experiment,
    model: Option<&Results>,
    real: &Results,
) -> Vec<SideRow> {
    let mut rows = Vec::new();
    for (point, stream) in places(real) {
        let settings: Vec<(&str, &str)> = point.iter().map(|(key, value)| (&**key, &**value)).collect();
        let reality = real.at(&settings).stream(stream);
        let modelled = model.map(|model| model.at(&settings).stream(stream));
        let printed = printed(paper, experiment, point, stream);
        let others = COMPARED.into_iter().filter(|name| printed.iter().all(|(figure, _)| figure != name));
        let names = printed.iter().map(|(figure, value)| (*figure, Some(*value)));
        for (figure, printed) in names.chain(others.map(|name| (name, None))) {
            let per_100 = COUNTS.contains(&figure);
            let mean = |of: &Selection<'_>| if per_100 { mean_per_100(of, figure) } else { of.mean(figure) };
            let (model, real) = (modelled.as_ref().and_then(mean), mean(&reality));
            let told = [model, real].into_iter().flatten().any(|mean| mean.mean != 0.0);
            // What is nothing everywhere is told only where print says something.
            if real.is_some() && (told || printed.is_some() || figure == "lost_percent") {
                let (point, stream) = (point.to_vec(), stream.to_string());
                rows.push(SideRow { point, stream, figure, per_100, printed, model, real });
            }
        }
    }
    rows
}

/// The mean over the runs of a count for each 100 frames sent.
fn mean_per_100(of: &Selection<'_>, figure: &str) -> Option<MeanInterval> {
    let (counts, sent) = (of.values(figure), of.values("sent"));
    // Both are there for each run, or the figure was not measured.
    let shares =
        counts.iter().zip(&sent).filter(|(_, sent)| **sent > 0.0).map(|(count, sent)| 100.0 * count / sent);
    (counts.len() == sent.len()).then(|| MeanInterval::of(&shares.collect::<Vec<_>>())).flatten()
}

/// The points and streams of results, in their order.
fn places(results: &Results) -> Vec<(&[(String, String)], &str)> {
    let mut places: Vec<(&[(String, String)], &str)> = Vec::new();
    for Record { point, stream, .. } in &results.records {
        if !places.contains(&(point, stream)) {
            places.push((point, stream));
        }
    }
    places
}

/// What the paper prints of a stream at a point, in the figures' units.
fn printed(
    paper: &Paper,
    experiment: &Experiment,
    point: &[(String, String)],
    stream: &str,
) -> Vec<(&'static str, f64)> {
    let mut found = Vec::new();
    for map in experiment.tables {
        let Some(table) = paper.table(map.file) else { continue };
        for row in 0..table.rows.len() {
            let here = (map.place)(table, row).is_some_and(|place| {
                let set = |(key, value): &(&str, String)| point.iter().any(|(k, v)| k == key && v == value);
                place.stream == stream && place.point.iter().all(set)
            });
            let columns = map.columns.iter().filter(|_| here);
            found.extend(columns.filter_map(|column| {
                Some((column.figure, table.number(row, column.printed)? / column.scale))
            }));
        }
    }
    found
}

/// The parts of a report: the table, and what differs beneath.
pub(super) fn parts(job: &Job, rows: &[SideRow], model: Option<&Results>, real: &RealResults) -> Vec<Part> {
    if rows.is_empty() {
        return Vec::new();
    }
    let column = |title: &str, note: String| Column { title: title.into(), note, colour: None };
    let runs = |results: &Results| format!("{} of {} runs", results.runs(), results.planned_runs);
    let modelled = model.map_or("not run".into(), runs);
    let mut last = None;
    let lines = rows.iter().map(|row| {
        let place = (&row.point, &row.stream);
        let group = if last == Some(place) { String::new() } else { heading(row) };
        last = Some(place);
        line(row, group)
    });
    let table = Table {
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
    vec![Part::Heading("Model and reality".into()), Part::Table(table), Part::Notes(differences(job))]
}

/// The columns of [`csv`].
pub(super) const SIDES_HEAD: &str = "paper,experiment,point,stream,figure,unit,printed,model,model_half_width_95,model_runs,\
                                     real,real_half_width_95,real_runs,real_to_model\n";

/// A row for spreadsheets.
pub(super) fn csv(paper: &str, experiment: &str, row: &SideRow, out: &mut String) {
    let point: Vec<String> = row.point.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let mean = |mean: Option<MeanInterval>| {
        let runs = mean.map_or(String::new(), |mean| mean.count.to_string());
        [number(mean.map(|mean| mean.mean)), number(mean.and_then(|mean| mean.half_width)), runs]
    };
    let head = [paper, experiment, &point.join(" "), &row.stream, row.figure, unit(row)].map(String::from);
    let values = [number(row.printed)].into_iter().chain(mean(row.model)).chain(mean(row.real));
    let fields: Vec<String> = head.into_iter().chain(values).chain([number(row.ratio())]).collect();
    csv_line(&fields, out);
}

fn unit(row: &SideRow) -> &'static str {
    match FIGURES.iter().find(|def| def.name == row.figure) {
        _ if row.per_100 => "per 100 frames",
        Some(def) => def.unit,
        None => "",
    }
}

fn heading(row: &SideRow) -> String {
    let settings: Vec<&str> = row.point.iter().map(|(_, value)| value.as_str()).collect();
    if settings.is_empty() { row.stream.clone() } else { format!("{}, {}", row.stream, settings.join(", ")) }
}

/// "3 runs of 60s": what the journal says after its first word.
fn real_runs(real: &RealResults) -> String {
    let length = real.ground.split_once(", ").map(|(_, length)| format!(" of {length}"));
    format!("{} runs{}", real.results.runs(), length.unwrap_or_default())
}

fn line(row: &SideRow, group: String) -> Row {
    let def = FIGURES.iter().find(|def| def.name == row.figure);
    let places = decimals([row.printed, row.model.map(|m| m.mean), row.real.map(|r| r.mean)]);
    let mean = |mean: Option<MeanInterval>| match mean {
        None => Cell::MISSING,
        Some(MeanInterval { mean, half_width: Some(half), .. }) => {
            Cell::Text(format!("{mean:.places$} ± {half:.places$}"))
        }
        Some(MeanInterval { mean, .. }) => Cell::Text(format!("{mean:.places$}")),
    };
    let ratio = row.ratio().map_or(Cell::MISSING, |ratio| Cell::Text(format!("{ratio:.2}")));
    Row {
        group,
        label: def.map_or(row.figure, |def| def.title).into(),
        unit: unit(row).into(),
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
        _ => 4,
    }
}

/// What is otherwise in reality, in sentences.
fn differences(job: &Job) -> Vec<String> {
    let setup = first_setup(job);
    let notes = setup.and_then(|setup| describe(&setup, &RealOptions::default()).ok()).unwrap_or_default();
    let mut notes: Vec<String> = notes.iter().map(|note| format!("On sockets: {note}.")).collect();
    notes.push(
        "Runs on sockets are fewer and shorter, so their intervals are wide: where they hold the model's mean, nothing \
         is shown to differ."
            .into(),
    );
    notes
}

fn first_setup(job: &Job) -> Option<Setup> {
    let plan = job.scenario.plan();
    job.scenario.setup(&plan.first()?.point).ok()
}
