//! A paper's contestants and ours, side by side: a table, and for each experiment its plane and the course of a run each.

use antiphon_lab::figures::Course;
use antiphon_lab::papers::{Contest, ContestColumn, Contestant, Experiment, Plane, Value, definition};
use antiphon_lab::results::Results;
use antiphon_report::{Axis, Cell, Chart, Column, Part, Row, Scale, Section, Series, Style, Table};

use super::compared::{csv_line, shown, split_unit};
use super::papers::PaperResults;

/// One run of a contestant, frame by frame.
struct Ran {
    name: &'static str,
    colour: usize,
    course: Course,
}

impl PaperResults {
    fn contest(&self) -> Option<&'static Contest> {
        self.paper.own()?.contest.as_ref()
    }

    /// All contestants in one table, if the paper has any.
    pub(super) fn contest_section(&self) -> Option<Section> {
        let contest = self.contest()?;
        let mut group = "";
        let row = |contestant: &'static Contestant| {
            let experiment = self.paper.short(contestant.experiment);
            let begins = std::mem::replace(&mut group, experiment) != experiment;
            let cells =
                contest.columns.iter().map(|column| match (column, self.standing(contestant, *column)) {
                    (_, None) => Cell::MISSING,
                    (ContestColumn::Printed(_), Some(value)) => Cell::Text(value.value.to_string()),
                    (ContestColumn::Ours(_), Some(value)) => Cell::Text(shown(value, PLACES)),
                });
            Row {
                group: if begins { experiment.into() } else { String::new() },
                label: contestant.name.into(),
                values: cells.collect(),
                ..Row::default()
            }
        };
        let rows = contest.contestants.iter().map(row).collect();
        let columns = contest.columns.iter().map(|column| head(*column)).collect();
        let facts = contest.columns.iter().filter_map(|column| match column {
            ContestColumn::Ours(figure) => {
                definition(figure).map(|def| (def.title.into(), def.definition.into()))
            }
            ContestColumn::Printed(_) => None,
        });
        let table = Table { caption: String::new(), columns, rows };
        Some(
            Section::new(contest.title, contest.intro)
                .with(Part::Table(table))
                .with(Part::Facts(facts.collect())),
        )
    }

    fn standing(&self, contestant: &Contestant, column: ContestColumn) -> Option<Value> {
        contestant.value(column, self.paper, self.of(contestant.experiment))
    }

    /// The plots of an experiment's contestants; none before it has run.
    pub(super) fn contest_plots(&self, experiment: &Experiment) -> Vec<Part> {
        let (Some(contest), Some(results)) = (self.contest(), self.of(experiment.key)) else {
            return Vec::new();
        };
        let contestants: Vec<_> =
            contest.contestants.iter().filter(|one| one.experiment == experiment.key).collect();
        if contestants.is_empty() {
            return Vec::new();
        }
        let (printed, ours): (Vec<&Plane>, Vec<&Plane>) =
            contest.plane.iter().partition(|plane| matches!(plane.x, ContestColumn::Printed(_)));
        let mut parts = vec![Part::Heading("Quality".into())];
        for plane in ours {
            parts.push(Part::Chart(self.quality(plane, printed.first().copied(), &contestants)));
        }
        let (ran, notes) = self.again(experiment, results, &contestants);
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

    /// Where contestants stand, printed and in one reading of ours, and the circle of what is desired.
    fn quality(&self, plane: &Plane, printed: Option<&Plane>, contestants: &[&'static Contestant]) -> Chart {
        let mut series = vec![circle()];
        let mut beyond = Vec::new();
        for (colour, contestant) in contestants.iter().enumerate() {
            let both = [(Some(plane), Style::Line, ""), (printed, Style::Dashed, ", printed")];
            for (plane, style, whose) in both {
                let Some(plane) = plane else { continue };
                let at = |column| self.standing(contestant, column);
                let (Some(x), Some(y)) = (at(plane.x), at(plane.y)) else { continue };
                let name = format!("{}{whose}", contestant.name);
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
            title: format!("Quality, latency {}", plane.name),
            note: format!(
                "Full: means of our runs, with the 95 % confidence interval of the loss. Hollow: as printed. Within the circle \
                 lies the desired quality.{left_out}"
            ),
            x: axis(plane.x),
            y: axis(plane.y),
            series,
            ..Chart::default()
        }
    }

    /// The first run of each contestant, done again to see every message; and what could not be done.
    fn again(
        &self,
        experiment: &Experiment,
        results: &Results,
        contestants: &[&'static Contestant],
    ) -> (Vec<Ran>, Vec<String>) {
        let (mut ran, mut notes) = (Vec::new(), Vec::new());
        for (colour, contestant) in contestants.iter().enumerate() {
            let place = contestant.place();
            let Some(first) = place.select(results).records.first().copied() else { continue };
            match super::papers::course(self.paper, experiment, first) {
                Ok(course) => ran.push(Ran { name: contestant.name, colour, course }),
                Err(why) => notes.push(format!("{} is not drawn message by message: {why}", contestant.name)),
            }
        }
        (ran, notes)
    }

    /// For spreadsheets: a line for each figure of ours, in the columns of the printed tables.
    pub(super) fn contest_csv(&self, out: &mut String) {
        let Some(contest) = self.contest() else { return };
        for contestant in contest.contestants {
            for column in contest.columns {
                let ContestColumn::Ours(figure) = column else { continue };
                let value = self.standing(contestant, *column);
                let mut fields = [
                    self.paper.key,
                    contestant.experiment,
                    contest.title,
                    contestant.name,
                    definition(figure).map_or(*figure, |def| def.title),
                    figure,
                    "mean",
                ]
                .map(String::from)
                .to_vec();
                fields.extend([String::new(), String::new()]);
                fields.push(value.map_or(String::new(), |value| value.value.to_string()));
                let half_width = value.and_then(|value| value.half_width);
                fields.push(half_width.map_or(String::new(), |half_width| half_width.to_string()));
                fields.push(value.map_or(String::new(), |value| value.runs.to_string()));
                fields.extend([String::new(), String::new()]);
                csv_line(&fields, out);
            }
        }
    }
}

fn head(column: ContestColumn) -> Column {
    let (title, note) = match column {
        ContestColumn::Printed(name) => (split_unit(name).0, "printed"),
        ContestColumn::Ours(figure) => {
            (definition(figure).map_or(figure, |def| def.title).into(), "ours, mean")
        }
    };
    Column { title, note: note.into(), colour: None }
}

fn axis(column: ContestColumn) -> Axis {
    match column {
        ContestColumn::Printed(name) => Axis::new(&split_unit(name).0, ""),
        ContestColumn::Ours(figure) => {
            definition(figure).map_or(Axis::new(figure, ""), |def| Axis::new(def.title, def.unit))
        }
    }
}

/// A quarter of the circle around the origin that the desired quality fills.
fn circle() -> Series {
    // More points than get dots of their own.
    let angles = (0..=90u32).map(|degrees| f64::from(degrees).to_radians());
    Series {
        name: "desired quality".into(),
        colour: CIRCLE_COLOUR,
        x: angles.clone().map(f64::cos).collect(),
        y: angles.map(|angle| Some(angle.sin())).collect(),
        ..Series::default()
    }
}

/// What each message took; above, those that never came.
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
            ticks: lost(&ran.course).map(number).collect(),
            ..Series::default()
        }
    });
    Chart {
        title: "Latency of each message".into(),
        note: "Age at arrival, in the first run of each. Above: messages that never came.".into(),
        x: Axis::new("message", ""),
        y: Axis { label: "age".into(), unit: "ms".into(), scale: Scale::Log },
        series: series.collect(),
        log_toggle: true,
        panels: true,
        ticks_label: "lost".into(),
        ..Chart::default()
    }
}

fn losses(ran: &[Ran]) -> Chart {
    let series = ran.iter().map(|ran| {
        let end = ran.course.sent.len().saturating_sub(1);
        let steps = lost(&ran.course).enumerate().map(|(n, index)| (number(index), n as f64 + 1.0));
        let last = (number(end), lost(&ran.course).count() as f64);
        // A run that lost its last message ends with its step.
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
        y: Axis::new("lost so far", ""),
        series: series.collect(),
        ..Chart::default()
    }
}

/// Messages are numbered from 1.
fn number(index: usize) -> f64 {
    index as f64 + 1.0
}

/// The indices of what never came, rising.
fn lost(course: &Course) -> impl Iterator<Item = usize> + use<> {
    let mut came = vec![false; course.sent.len()];
    course.came.iter().for_each(|(index, _)| came[*index] = true);
    came.into_iter().enumerate().filter(|(_, came)| !came).map(|(index, _)| index)
}

/// Beyond so many times what is desired nothing is drawn, or the circle would be a dot.
const BEYOND: f64 = 2.5;
/// The last of the page's colours: contestants have the first.
const CIRCLE_COLOUR: usize = 7;
/// More than any interval leaves.
const PLACES: usize = 6;

#[cfg(test)]
mod tests;
