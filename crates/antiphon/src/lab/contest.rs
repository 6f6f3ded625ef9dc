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
        self.paper.own().map(|own| &own.contest)
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
mod tests {
    use super::*;
    use antiphon_core::Instant;
    use antiphon_lab::papers;
    use antiphon_lab::results::Record;

    /// The runs of two contestants in one condition, as they end; 30 runs of each are planned.
    fn run(change: impl Fn(&mut Record)) -> PaperResults {
        let paper = papers::find("srp").unwrap();
        let experiment = paper.experiment("low_loss_low_latency").unwrap();
        let job = super::super::Job::new("t", "t", experiment.scenario.unwrap()).unwrap();
        let records = [0, 60].into_iter().flat_map(|index| {
            let (finished, _) = super::super::course(&job, index, "audio").unwrap();
            finished.records().collect::<Vec<_>>()
        });
        let mut records: Vec<Record> = records.collect();
        records.iter_mut().for_each(change);
        PaperResults {
            paper,
            results: vec![(experiment.key, Results { records, planned_runs: 180 })],
            real: Vec::new(),
        }
    }

    #[test]
    fn contestants_stand_side_by_side_and_are_drawn() {
        let ran = run(|_| {});
        let section = ran.contest_section().unwrap();
        let Part::Table(table) = &section.parts[0] else { panic!("no table") };
        assert_eq!(table.rows.len(), 18);
        let udp = table.rows.iter().find(|row| row.label == "UDP").unwrap();
        assert_eq!(udp.values[0], Cell::from("0.359399"));
        let nearest = table.rows.iter().find(|row| row.label == "nearest").unwrap();
        assert!(nearest.values.iter().all(|cell| *cell == Cell::MISSING), "{nearest:?}");

        let parts = ran.contest_plots(ran.paper.experiment("low_loss_low_latency").unwrap());
        let charts: Vec<&Chart> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Chart(chart) => Some(chart),
                _ => None,
            })
            .collect();
        let names = |chart: &Chart| chart.series.iter().map(|series| series.name.clone()).collect::<Vec<_>>();
        let plane =
            ["desired quality", "ELL", "ELL, printed", "OQ, printed", "UDP", "UDP, printed", "TCP, printed"];
        assert_eq!(names(charts[0]), plane);
        assert_eq!(names(charts[2]), ["ELL", "UDP"]);
        // UDP loses 3 % of 2000: 60, with a standard deviation of 7.6.
        let lost = charts[2].series[1].ticks.len();
        assert!((38..=82).contains(&lost), "{lost}");
        // As a share of 10 %; one run has no interval.
        assert_eq!(udp.values[3], Cell::Text(format!("{:.6}", lost as f64 / 200.0)));
        assert_eq!(charts[3].series[1].y.last(), Some(&Some(lost as f64)));
        assert_eq!(charts[2].series[1].x.len() + lost, 2000);
        assert!(ran.contest_plots(ran.paper.experiment("low_loss_high_latency").unwrap()).is_empty());
    }

    #[test]
    fn what_another_build_ran_is_not_drawn() {
        let ran =
            run(|record| record.figures.received = record.figures.received.map(|received| received - 1.0));
        let parts = ran.contest_plots(ran.paper.experiment("low_loss_low_latency").unwrap());
        let Some(Part::Notes(notes)) = parts.last() else { panic!("no note") };
        assert!(notes.len() == 2 && notes.iter().all(|note| note.contains("--fresh")), "{notes:?}");
    }

    fn ran() -> Ran {
        let sent = (0..5).map(|n| Instant::from_millis(160 * n)).collect();
        let came = [(0, 30), (3, 530), (2, 900)].map(|(index, at)| (index, Instant::from_millis(at)));
        Ran { name: "UDP", colour: 2, course: Course { sent, came: came.to_vec() } }
    }

    #[test]
    fn every_message_has_its_age_or_a_tick() {
        let chart = latencies(&[ran()]);
        let series = &chart.series[0];
        assert_eq!(series.x, [1.0, 4.0, 3.0]);
        assert_eq!(series.y, [Some(30.0), Some(50.0), Some(580.0)]);
        assert_eq!(series.ticks, [2.0, 5.0]);
    }

    #[test]
    fn losses_add_up_to_the_end() {
        let chart = losses(&[ran()]);
        assert_eq!(chart.series[0].x, [0.0, 2.0, 5.0]);
        assert_eq!(chart.series[0].y, [Some(0.0), Some(1.0), Some(2.0)]);
        let mut whole = ran();
        whole.course.came = (0..5).map(|index| (index, Instant::from_millis(900))).collect();
        let chart = losses(&[whole]);
        assert_eq!(
            (chart.series[0].x.as_slice(), chart.series[0].y.last()),
            (&[0.0, 5.0][..], Some(&Some(0.0)))
        );
    }
}
