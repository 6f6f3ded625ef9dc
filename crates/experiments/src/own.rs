//! What an experiment of our own found: with no printed table beside it, a table and charts over its sweep.

use antiphon_lab::figures::figure;
use antiphon_lab::papers::{Experiment, Value};
use antiphon_lab::results::{Record, Results, Selection};
use antiphon_measure::MeanInterval;
use antiphon_report::{Axis, Cell, Chart, Column, Part, Row, Series, Style, Table};

use super::compared::shown;
use super::papers::PaperResults;

/// One setting of each of some variables of the sweep.
type Settings<'a> = Vec<(&'a str, &'a str)>;

impl PaperResults {
    /// A table for each figure that the experiment shows: a row for each combination of settings, a column for each value
    /// of the last one; and charts of the first figure.
    pub(super) fn own_results(&self, experiment: &'static Experiment) -> Vec<Part> {
        let Some(results) = self.of(experiment.key) else { return Vec::new() };
        let results = &by_free_variables(results);
        let mut parts = Vec::new();
        for (n, name) in experiment.shows.iter().enumerate() {
            parts.push(Part::Table(self.own_table(results, name, Of::All)));
            if has_several_streams(results, name) {
                parts.push(Part::Table(self.own_table(results, name, Of::Worst)));
            }
            if n == 0 {
                parts.extend(self.own_charts(results, name).into_iter().map(Part::Chart));
            }
        }
        parts
    }

    fn own_table(&self, results: &Results, name: &'static str, of: Of) -> Table {
        let columns = distinct(results, |point| &point[point.len() - 1..]);
        let row = |settings: Settings<'_>| {
            let cell = |column: &Settings<'_>| {
                mean(results, &[&settings[..], column].concat(), name, of)
                    .map_or(Cell::MISSING, |value| Cell::Text(shown(value, PLACES)))
            };
            Row {
                label: self.words(&settings),
                values: columns.iter().map(cell).collect(),
                samples: Vec::new(),
                ..Row::default()
            }
        };
        let whose = match of {
            Of::All => "",
            Of::Worst => ", worst stream of a run",
        };
        let title = |(_, value): &(&str, &str)| self.paper.short(value).to_string();
        Table {
            caption: match columns.first().and_then(|column| column.first()) {
                Some((variable, _)) => format!("{}{whose}, by {variable}{}", titled(name), rows_of(results)),
                None => titled(name) + whose,
            },
            columns: columns
                .iter()
                .map(|column| Column {
                    title: column.first().map_or(String::new(), title),
                    note: String::new(),
                    colour: None,
                })
                .collect(),
            rows: distinct(results, |point| &point[..point.len() - 1]).into_iter().map(row).collect(),
        }
    }

    /// A chart for each combination of all settings but the last two, with a line for each value of the last but one.
    fn own_charts(&self, results: &Results, name: &'static str) -> Vec<Chart> {
        let others = |point: &[(String, String)]| point.len().saturating_sub(2);
        let columns = distinct(results, |point| &point[point.len() - 1..]);
        let Some(x) = axis(&columns) else { return Vec::new() };
        let lines = distinct(results, |point| &point[others(point)..point.len() - 1]);
        let chart = |settings: Settings<'_>| {
            let series = |(colour, line): (usize, &Settings<'_>)| Series {
                name: self.words(line),
                colour,
                ..series(results, &[&settings[..], line].concat(), &columns, name)
            };
            let words = self.words(&settings);
            Chart {
                title: if words.is_empty() {
                    known_title(name).into()
                } else {
                    format!("{words}: {}", known_title(name))
                },
                note: "Bars: 95 % confidence intervals over the runs.".into(),
                x: x.clone(),
                y: Axis::new(known_title(name), known_unit(name)),
                series: lines.iter().enumerate().map(series).collect(),
                ..Chart::default()
            }
        };
        distinct(results, |point| &point[..others(point)]).into_iter().map(chart).collect()
    }

    /// "retries 7, arq as published".
    pub(super) fn words(&self, settings: &[(&str, &str)]) -> String {
        let word = |(key, value): &(&str, &str)| match self.paper.short(value) {
            // A bare number says nothing without its name.
            short if short.parse::<f64>().is_ok() => format!("{key} {short}"),
            short => short.to_string(),
        };
        settings.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

/// The same results without the variables of the sweep that follow from another one, such as a setting that each transport has.
fn by_free_variables(results: &Results) -> Results {
    let mut results = results.clone();
    let names: Vec<String> = results
        .records
        .first()
        .map_or(Vec::new(), |first| first.point.iter().map(|(name, _)| name.clone()).collect());
    for name in names.into_iter().rev() {
        let values = |of: &str| -> Vec<Option<String>> {
            results.records.iter().map(|record| record.setting(of).map(String::from)).collect()
        };
        let own = values(&name);
        let others = results.records.first().map_or(&[][..], |first| &first.point);
        let follows = others.iter().any(|(other, _)| {
            let mut known = std::collections::BTreeMap::new();
            let mut pairs = values(other).into_iter().zip(&own);
            *other != name && pairs.all(|(key, value)| *known.entry(key).or_insert(value) == value)
        });
        if follows && own.windows(2).any(|pair| pair[0] != pair[1]) {
            results.records.iter_mut().for_each(|record| record.point.retain(|(other, _)| *other != name));
        }
    }
    results
}

/// Each part of a point that occurs, in the order of the runs.
fn distinct<'a>(
    results: &'a Results,
    part: impl Fn(&[(String, String)]) -> &[(String, String)],
) -> Vec<Settings<'a>> {
    let mut found: Vec<Settings<'a>> = Vec::new();
    for Record { point, .. } in &results.records {
        if point.is_empty() {
            continue;
        }
        let settings = part(point).iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if !found.contains(&settings) {
            found.push(settings);
        }
    }
    found
}

/// The variables that the rows of a table stand for.
fn rows_of(results: &Results) -> String {
    let names: Vec<&str> = results
        .records
        .iter()
        .map(|record| &record.point)
        .find(|point| point.len() > 1)
        .map_or(Vec::new(), |point| point[..point.len() - 1].iter().map(|(name, _)| name.as_str()).collect());
    if names.is_empty() { String::new() } else { format!("; rows: {}", names.join(", ")) }
}

/// What stands for a run in which there are several streams.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The mean of all.
    All,
    /// The greatest value of any.
    Worst,
}

/// Whether a run has the figure of more than one stream.
fn has_several_streams(results: &Results, name: &str) -> bool {
    let has = |record: &Record| !Selection { records: vec![record] }.values(name).is_empty();
    let having: Vec<&Record> = results.records.iter().filter(|record| has(record)).collect();
    having.windows(2).any(|pair| pair[0].run == pair[1].run)
}

/// The mean over the runs.
pub(super) fn mean(results: &Results, settings: &[(&str, &str)], name: &str, of: Of) -> Option<Value> {
    let here = results.at(settings).records;
    let run = |streams: &[&Record]| {
        let values = Selection { records: streams.to_vec() }.values(name);
        match of {
            Of::All => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            Of::Worst => values.into_iter().reduce(f64::max),
        }
    };
    let values: Vec<f64> = here.chunk_by(|a, b| a.run == b.run).filter_map(run).collect();
    let interval = MeanInterval::of(&values)?;
    Some(Value { value: interval.mean, half_width: interval.half_width, runs: interval.count })
}

/// A line over the columns, with these settings.
fn series(results: &Results, settings: &[(&str, &str)], columns: &[Settings<'_>], name: &str) -> Series {
    let mut series = Series { style: Style::Line, ..Series::default() };
    for column in columns {
        let Some(x) = column.first().and_then(|(_, value)| leading(value)) else { continue };
        let value = mean(results, &[settings, column].concat(), name, Of::All);
        series.x.push(x);
        series.y.push(value.map(|value| value.value));
        series.half_widths.push(value.and_then(|value| value.half_width));
    }
    series
}

/// The axis along the columns' variable. A first setting of 0 has no unit.
fn axis(columns: &[Settings<'_>]) -> Option<Axis> {
    let settings = columns.iter().filter_map(|column| column.first());
    let name = settings.clone().next()?.0;
    if settings.clone().any(|(_, value)| leading(value).is_none()) {
        return None;
    }
    let units = settings.map(|(_, value)| value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'));
    Some(Axis::new(name, units.max_by_key(|unit| unit.len())?))
}

/// The number that a setting such as `12Mbit/s` begins with.
fn leading(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().ok()
}

/// "missing, %".
fn titled(name: &str) -> String {
    match known_unit(name) {
        "" => known_title(name).into(),
        unit => format!("{}, {unit}", known_title(name)),
    }
}

fn known_title(name: &str) -> &str {
    figure(name).map_or(name, |def| def.title)
}

fn known_unit(name: &str) -> &'static str {
    figure(name).map_or("", |def| def.unit.symbol())
}

/// The most decimal places of a mean.
pub(super) const PLACES: usize = 3;
