//! The additional parts of the SRP report's page: its transports and two decisions of ours, side by side: a table, and
//! for each experiment a plot of their quality and the course of one run each.

use antiphon_lab::figures::{Course, FigureDef};
use antiphon_lab::papers::{Experiment, Statistic, Value, definition, srp};
use antiphon_lab::results::Results;
use antiphon_lab::spreadsheet::Spreadsheet;
use antiphon_report::{Axis, Cell, Chart, Column, Part, Row, Scale, Section, Series, Style, Table};

use super::compared::{mean_fields, shown};
use super::papers::PaperResults;

/// One run of a transport, message by message.
struct Ran {
    name: &'static str,
    colour: usize,
    course: Course,
}

/// Source of a value: a column of the printed table, or a figure of ours.
#[derive(Clone, Copy)]
enum Whose {
    Printed(&'static str),
    Ours(&'static str),
}

const TITLE: &str = "Decisions side by side";
const INTRO: &str = "The report's two algorithms, UDP and TCP, compared with decisions in our receiver, in which nothing waits behind what is missing: the \
     report's two, and two of ours: `nearest` requests a packet if the mean quality then comes closer to the origin, `deadline` (the \
     default of `srp://`) if it can still be played. Ratios to 10 % and \
     250 ms; a distance below 1 is inside the desired quality. Latency is half a round trip, of a slow ping beside the \
     stream, and the mean distance of the arrivals from their mean: of the ages of what arrived, by which the claims are judged, and of \
     the intervals between arrivals. Means of the runs with their 95 % confidence \
     intervals; each run has its own distance.";

/// Our figures.
const FIGURES: [&str; 7] = [
    srp::DISTANCE_BY_INTERVALS,
    srp::DISTANCE_BY_AGES,
    srp::LOSS,
    srp::LATENCY_BY_INTERVALS,
    srp::LATENCY_BY_AGES,
    srp::DISTANCE_AFTER_CHANGES,
    srp::MESSAGES,
];

/// Columns of the printed tables.
const DISTANCE: &str = "distance";
const LATENCY_RATIO: &str = "latency ratio";
const LOSS_RATIO: &str = "loss ratio";

/// Two readings of latency: the horizontal axis of a plot whose vertical axis is the loss ratio.
const READINGS: [(&str, &str); 2] =
    [("by intervals", srp::LATENCY_BY_INTERVALS), ("by ages", srp::LATENCY_BY_AGES)];

impl PaperResults {
    fn is_srp(&self) -> bool {
        self.paper.key == srp::KEY
    }

    /// All transports in one table, on the page of this paper.
    pub(super) fn srp_section(&self) -> Option<Section> {
        self.is_srp().then_some(())?;
        let mut rows = Vec::new();
        for experiment in self.paper.experiments {
            for (n, transport) in srp::COMPARED.into_iter().enumerate() {
                let standing = |from| self.standing(experiment, transport, from);
                let printed = standing(Whose::Printed(DISTANCE));
                let printed = printed.map_or(Cell::MISSING, |value| Cell::Text(value.value.to_string()));
                let ours = FIGURES.map(|figure| {
                    let value = standing(Whose::Ours(figure));
                    value.map_or(Cell::MISSING, |value| Cell::Text(shown(value, PLACES)))
                });
                rows.push(Row {
                    group: if n == 0 { self.paper.short(experiment.key).into() } else { String::new() },
                    label: self.paper.short(transport).into(),
                    values: std::iter::once(printed).chain(ours).collect(),
                    ..Row::default()
                });
            }
        }
        let head = |title: &str, note: &str| Column { title: title.into(), note: note.into(), colour: None };
        let ours = defined().map(|def| head(def.title, "ours, mean"));
        let columns = std::iter::once(head("distance", "printed")).chain(ours).collect();
        let facts = defined().map(|def| (def.title.into(), def.definition.into())).collect();
        let table = Part::Table(Table { caption: String::new(), columns, rows });
        Some(Section::new(TITLE, INTRO).with(table).with(Part::Facts(facts)))
    }

    fn standing(&self, experiment: &Experiment, transport: &str, from: Whose) -> Option<Value> {
        match from {
            Whose::Printed(column) => {
                let table = self.paper.table(experiment.tables.first()?.file)?;
                let row = table.row(&[("protocol", self.paper.short(transport))])?;
                Some(Value { value: table.number(row, column)?, half_width: None, runs: 0 })
            }
            Whose::Ours(figure) => {
                let results = self.of(experiment.key)?;
                srp::at(srp::AUDIO, transport).value(results, figure, Statistic::Mean)
            }
        }
    }

    /// The plots of an experiment's transports; none on other pages and before it has run.
    pub(super) fn srp_plots(&self, experiment: &Experiment) -> Vec<Part> {
        let Some(results) = self.of(experiment.key).filter(|_| self.is_srp()) else { return Vec::new() };
        let mut parts = vec![Part::Heading("Quality".into())];
        parts.extend(READINGS.map(|reading| Part::Chart(self.quality(experiment, reading))));
        let (ran, notes) = self.again(experiment, results);
        if !ran.is_empty() {
            parts.push(Part::Heading("Message by message".into()));
            parts.push(Part::Chart(latencies(&ran)));
            parts.push(Part::Chart(losses(&ran)));
        }
        if !notes.is_empty() {
            parts.push(Part::Notes(notes));
        }
        parts
    }

    /// Positions of the transports, printed and in one reading of ours, and the circle of the desired quality.
    fn quality(&self, experiment: &Experiment, (reading, latency): (&str, &'static str)) -> Chart {
        let mut series = vec![circle()];
        let mut beyond = Vec::new();
        let ours = (Whose::Ours(latency), Whose::Ours(srp::LOSS), Style::Line, "");
        let printed = (Whose::Printed(LATENCY_RATIO), Whose::Printed(LOSS_RATIO), Style::Dashed, ", printed");
        for (colour, transport) in srp::COMPARED.into_iter().enumerate() {
            for (x, y, style, whose) in [ours, printed] {
                let at = |from| self.standing(experiment, transport, from);
                let (Some(x), Some(y)) = (at(x), at(y)) else { continue };
                let name = format!("{}{whose}", self.paper.short(transport));
                if x.value.max(y.value) > BEYOND {
                    beyond.push(format!("{name} ({:.2}, {:.2})", x.value, y.value));
                    continue;
                }
                series.push(Series {
                    name,
                    colour,
                    style,
                    x: vec![x.value],
                    y: vec![Some(y.value)],
                    half_widths: vec![y.half_width],
                    ..Series::default()
                });
            }
        }
        let left_out = match beyond.as_slice() {
            [] => String::new(),
            some => format!(" Too far out to be drawn: {}.", some.join(", ")),
        };
        Chart {
            title: format!("Quality, latency {reading}"),
            note: format!(
                "Full: means of our runs, with the 95 % confidence interval of the loss. Hollow: as printed. Within the circle \
                 lies the desired quality.{left_out}"
            ),
            x: Axis::new(known(latency).title, ""),
            y: Axis::new(known(srp::LOSS).title, ""),
            series,
            ..Chart::default()
        }
    }

    /// The first run of each transport, repeated to see every message; and the errors of that.
    fn again(&self, experiment: &Experiment, results: &Results) -> (Vec<Ran>, Vec<String>) {
        let (mut ran, mut notes) = (Vec::new(), Vec::new());
        for (colour, transport) in srp::COMPARED.into_iter().enumerate() {
            let name = self.paper.short(transport);
            let place = srp::at(srp::AUDIO, transport);
            let Some(first) = place.select(results).records.first().copied() else { continue };
            match super::papers::course(self.paper, experiment, first) {
                Ok(course) => ran.push(Ran { name, colour, course }),
                Err(why) => notes.push(format!("{name} is not drawn message by message: {why}")),
            }
        }
        (ran, notes)
    }

    /// For spreadsheets: a line for each figure of ours, in the columns of the printed tables.
    pub(super) fn srp_csv(&self, sheet: &mut Spreadsheet) {
        for experiment in self.paper.experiments.iter().filter(|_| self.is_srp()) {
            for transport in srp::COMPARED {
                for def in defined() {
                    let value = self.standing(experiment, transport, Whose::Ours(def.name));
                    let whose = [self.paper.key, experiment.key, TITLE, self.paper.short(transport)];
                    let what = [def.title, def.name, "mean", "", ""];
                    let names = whose.into_iter().chain(what).map(String::from);
                    sheet.line(names.chain(mean_fields(value)).chain([String::new(), String::new()]));
                }
            }
        }
    }
}

/// The definitions of [`FIGURES`].
fn defined() -> impl Iterator<Item = &'static FigureDef> {
    FIGURES.into_iter().map(known)
}

/// The definition of one of the paper's figures.
fn known(figure: &str) -> &'static FigureDef {
    definition(figure).unwrap_or_else(|| panic!("no figure is called {figure}"))
}

/// A quarter circle around the origin: the desired quality.
fn circle() -> Series {
    // More points than are drawn as dots.
    let angles = (0..=90u32).map(|degrees| f64::from(degrees).to_radians());
    Series {
        name: "desired quality".into(),
        colour: CIRCLE_COLOUR,
        x: angles.clone().map(f64::cos).collect(),
        y: angles.map(|angle| Some(angle.sin())).collect(),
        ..Series::default()
    }
}

/// The latency of each message; above, those that never came.
fn latencies(ran: &[Ran]) -> Chart {
    let series = ran.iter().map(|ran| {
        let age = |&(index, at): &(usize, antiphon_core::Instant)| {
            Some(at.since(ran.course.sent[index]).as_secs_f64() * 1e3)
        };
        Series {
            name: ran.name.into(),
            colour: ran.colour,
            style: Style::Points,
            x: ran.course.came.iter().map(|(index, _)| number(*index)).collect(),
            y: ran.course.came.iter().map(age).collect(),
            ticks: missing(&ran.course).map(number).collect(),
            ..Series::default()
        }
    });
    Chart {
        title: "Latency of each message".into(),
        note: "Age at arrival, in the first run of each. Above: messages that never came.".into(),
        x: Axis::new("message", ""),
        y: Axis { scale: Scale::Log, ..Axis::new("age", "ms") },
        series: series.collect(),
        log_toggle: true,
        panels: true,
        ticks_label: "missing".into(),
        ..Chart::default()
    }
}

fn losses(ran: &[Ran]) -> Chart {
    let series = ran.iter().map(|ran| {
        let end = ran.course.sent.len().saturating_sub(1);
        let steps = missing(&ran.course).enumerate().map(|(n, index)| (number(index), n as f64 + 1.0));
        let last = (number(end), missing(&ran.course).count() as f64);
        // The curve of a run that lost its last message ends with its step.
        let steps: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(steps).collect();
        let tail = (steps.last().is_none_or(|step| step.0 < last.0)).then_some(last);
        let points = steps.into_iter().chain(tail);
        let (x, y): (Vec<f64>, Vec<Option<f64>>) = points.map(|(x, y)| (x, Some(y))).unzip();
        Series { name: ran.name.into(), colour: ran.colour, style: Style::Steps, x, y, ..Series::default() }
    });
    Chart {
        title: "Cumulated loss".into(),
        note: "Messages that never came, up to each message, in the same runs.".into(),
        x: Axis::new("message", ""),
        y: Axis::new("missing so far", ""),
        series: series.collect(),
        ..Chart::default()
    }
}

/// Messages are numbered from 1.
fn number(index: usize) -> f64 {
    index as f64 + 1.0
}

/// The indices of missing messages, rising.
fn missing(course: &Course) -> impl Iterator<Item = usize> + use<> {
    let mut came = vec![false; course.sent.len()];
    course.came.iter().for_each(|(index, _)| came[*index] = true);
    came.into_iter().enumerate().filter(|(_, came)| !came).map(|(index, _)| index)
}

/// Nothing beyond this multiple of the desired quality is drawn, or the circle would be a dot.
const BEYOND: f64 = 2.5;
/// The last of the page's colours: transports use the first.
const CIRCLE_COLOUR: usize = 7;
/// More places than any interval leaves.
const PLACES: usize = 6;

#[cfg(test)]
mod tests;
