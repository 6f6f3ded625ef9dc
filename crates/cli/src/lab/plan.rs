//! A scenario's plan, its numbers and their reasons.

use std::time::Duration;

use antiphon::core::units::format_duration;
use antiphon_experiments::Job;
use antiphon_experiments::scenario::{Note, Scenario};
use serde_json::{Value, json};

use crate::grid::{Align, Cell, Grid, Palette, Tone, paragraph};
use crate::output::Output;

/// Prints the plan.
pub fn show(job: &Job, output: &mut Output) {
    if output.json {
        return records(job, output);
    }
    let text = text(job, output.width, output.palette);
    output.result(&text);
}

fn records(job: &Job, output: &mut Output) {
    for note in job.scenario.notes() {
        output.record(
            "number",
            json!({ "experiment": job.name, "place": note.place, "value": note.value, "why": note.why }),
        );
    }
    for run in job.scenario.plan() {
        let point: serde_json::Map<String, Value> =
            run.point.into_iter().map(|(name, value)| (name, value.into())).collect();
        let record = json!({
            "experiment": job.name,
            "run": run.index,
            "point": point,
            "repetition": run.repetition,
            "seed": run.seed,
        });
        output.record("run", record);
    }
}

fn text(job: &Job, width: usize, palette: Palette) -> String {
    let scenario = &job.scenario;
    let prose = width.min(96);
    let mut text = format!("{}\n", palette.paint(Tone::Head, &scenario.title));
    if !scenario.source.is_empty() {
        text += &paragraph("Source:", &scenario.source, 2, prose);
    }
    text += &paragraph("Plan:", &plan(scenario), 2, prose);
    let notes = scenario.notes();
    let mut grid = Grid::new([Align::Left, Align::Left, Align::Prose]);
    grid.row(["number", "value", "why"].map(|title| Cell::new(title, Tone::Head)));
    for Note { place, value, why, fitted } in &notes {
        let why = match why {
            Some(why) => Cell::from(match fitted {
                Some(fitted) => format!("{why} (fitted: set from {fitted})"),
                None => why.clone(),
            }),
            None => Cell::new("no reason given", Tone::Dim),
        };
        grid.row([place.as_str().into(), value.as_str().into(), why]);
    }
    text += "\n";
    text += &grid.render(width, palette);
    let bare = notes.iter().filter(|note| note.why.is_none()).count();
    if bare > 0 {
        let of = notes.len();
        text += &paragraph(
            "\n",
            &format!("{bare} of {of} numbers have no reason; add one with {{ value = …, why = \"…\" }}."),
            0,
            prose,
        );
    }
    text
}

fn plan(scenario: &Scenario) -> String {
    let plan = scenario.plan();
    let points = plan.len() / scenario.repetitions as usize;
    // Checked when the scenario was read.
    let length = |run: &antiphon_experiments::scenario::Run| {
        scenario.setup(&run.point).map_or(Duration::ZERO, |setup| setup.duration)
    };
    let firsts = plan.iter().step_by(scenario.repetitions as usize).map(length);
    let total = firsts.sum::<Duration>() * scenario.repetitions;
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let setup = plan.first().and_then(|run| scenario.setup(&run.point).ok());
    let made = setup.map(|setup| {
        let names: Vec<&str> = setup.streams.iter().map(|stream| stream.name.as_str()).collect();
        format!(
            "; {}, {}, {} of traffic, {}{}",
            of(setup.nodes.len(), "node"),
            match setup.media.len() {
                1 => "1 medium".into(),
                count => format!("{count} media"),
            },
            of(setup.traffic.len(), "source"),
            of(names.len(), "stream"),
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) },
        )
    });
    format!(
        "{} ({}, {} each), seed {}, {} of virtual time{}",
        of(plan.len(), "run"),
        of(points, "point"),
        of(scenario.repetitions as usize, "repetition"),
        scenario.seed,
        if total >= Duration::from_secs(3600) {
            format!("{:.1} h", total.as_secs_f64() / 3600.0)
        } else {
            format_duration(total)
        },
        // A plan without a first run, or an invalid point (reported by the check itself), adds nothing.
        made.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_fits_the_terminal_and_has_every_number() {
        let text = include_str!("../../../lab/scenarios/example-two-streams-on-dsl.toml");
        let job = Job::new("example", "example.toml", text).unwrap();
        for width in [60, 80, 120] {
            let shown = super::text(&job, width, Palette { coloured: false });
            let plan = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                plan.contains("20 runs (4 points, 5 repetitions each), seed 1, 1200s of virtual time"),
                "{shown}"
            );
            assert!(shown.contains("link.line.up.rate") && !shown.contains("no reason"), "{shown}");
        }
    }
}
