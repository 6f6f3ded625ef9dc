//! Scatter plots of the voice on FDDI, whose originals are not in the report's text: the latency of each packet of one run.

use antiphon_lab::figures::Course;
use antiphon_lab::papers::Experiment;
use antiphon_report::{Axis, Chart, Mark, MarkAxis, Part, Series, Style};

use super::papers::PaperResults;

/// The size of the voice data that is drawn; the report does not say which it drew. Its latency without load is that of the lower of
/// the bands that it names.
const SIZE: &str = "1024";
/// The stream of round trips.
const VOICE: &str = "voice";

impl PaperResults {
    /// The latencies of the first run at each load, which is repeated for that.
    pub(super) fn scatter(&self, experiment: &Experiment) -> Vec<Part> {
        let title = match (self.paper.key, experiment.key) {
            ("digitized-voice", "basic") => "Jitter without load",
            ("digitized-voice", "sppt_background") => "Jitter with one packet per token",
            ("digitized-voice", "mppt_background") => "Jitter with several packets per token",
            _ => return Vec::new(),
        };
        let (mut series, mut notes) = (Vec::new(), Vec::new());
        for (place, name) in self.places(experiment) {
            let Some(first) = self.of(experiment.key).and_then(|results| {
                let point: Vec<(&str, &str)> =
                    place.iter().map(|(key, value)| (*key, value.as_str())).collect();
                results.at(&point).stream(VOICE).records.first().copied()
            }) else {
                continue;
            };
            match super::papers::course(self.paper, experiment, first) {
                Ok(course) => series.push(dots(&course, name, series.len())),
                Err(why) => notes.push(format!("{name} is not drawn packet by packet: {why}")),
            }
        }
        let mut parts = Vec::new();
        if !series.is_empty() {
            parts.push(Part::Chart(Chart {
                title: format!("{title}: {SIZE} bytes"),
                note: note(experiment.key),
                x: Axis::new("packet", ""),
                y: Axis { near: true, ..Axis::new("latency", "ms") },
                series,
                marks: bands(experiment.key),
                ..Chart::default()
            }));
        }
        if !notes.is_empty() {
            parts.push(Part::Notes(notes));
        }
        parts
    }

    /// The places of that size in the experiment's first table, with what tells them apart.
    fn places(&self, experiment: &Experiment) -> Vec<(Vec<(&'static str, String)>, String)> {
        let Some(map) = experiment.tables.first() else { return Vec::new() };
        let Some(table) = self.paper.table(map.file) else { return Vec::new() };
        let rows = (0..table.rows.len()).filter(|row| table.text(*row, map.labels[0]) == Some(SIZE));
        let name = |row: usize| match map.labels.get(1).and_then(|label| table.text(row, label)) {
            Some(load) => format!("{load} Mbit/s"),
            None => "no load".into(),
        };
        rows.filter_map(|row| Some(((map.place)(table, row)?.point, name(row)))).collect()
    }
}

fn dots(course: &Course, name: String, colour: usize) -> Series {
    let half = |&(index, at): &(usize, antiphon_core::Instant)| {
        Some(at.since(course.sent[index]).as_secs_f64() * 1e3 / 2.0)
    };
    Series {
        name,
        colour,
        style: Style::Points,
        x: course.came.iter().map(|(index, _)| *index as f64 + 1.0).collect(),
        y: course.came.iter().map(half).collect(),
        ..Series::default()
    }
}

fn note(experiment: &str) -> String {
    let bands = match experiment {
        "sppt_background" => " It names a band from 4.0 to 4.2 ms.",
        "mppt_background" => {
            " It names bands at 4 and 5.7 ms: those of 25 Mbit/s, where every other packet meets a burst (ours-dv-11)."
        }
        _ => "",
    };
    format!(
        "Half the round trip of each packet, in the first run of each load. The report's plots are not in its text, and it does not say of \
         which size they are.{bands}"
    )
}

/// Those that sections 6.2 and 7.2 name.
fn bands(experiment: &str) -> Vec<Mark> {
    let bands: &[f64] = match experiment {
        "sppt_background" => &[4.0, 4.2],
        "mppt_background" => &[4.0, 5.7],
        _ => &[],
    };
    let mark = |at: &f64| Mark { axis: MarkAxis::Y, at: *at, label: format!("{at} ms"), colour: None };
    bands.iter().map(mark).collect()
}

#[cfg(test)]
mod tests;
