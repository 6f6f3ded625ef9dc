//! Results of an experiment, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use antiphon::Error;
use antiphon::measure::MeanInterval;
use antiphon_experiments::experiment::{Finished, PointSummary, summary};
use antiphon_experiments::figures::{FIGURES, FigureDef, StreamFigures, figure};
use antiphon_experiments::{Job, Outcome, RealOptions, describe, real_length, replay_command};
use serde_json::{Map, Value, json};

use super::progress::human;
use crate::grid::{Align, Cell, Grid, Palette, Tone};
use crate::output::Output;

/// The figures of the text table, the most informative first; those for which the line has no room are left out. All of
/// them are in summary.csv.
const SHOWN: [&str; 13] = [
    "missing_percent",
    "lost_percent",
    "delay_mean_ms",
    "rtt_mean_ms",
    "delay_p99_ms",
    "gap_max_ms",
    "gaps_above_80ms_per_1000",
    "jitter_sd_ms",
    "concealed_percent",
    "expired",
    "refused",
    "broken",
    "changes_failed",
];
/// Displayed only if they are not zero.
const QUIET: [&str; 4] = ["expired", "refused", "broken", "changes_failed"];

/// Announces a run.
pub fn begin(job: &Job, real: Option<RealOptions>, output: &mut Output) -> Result<(), Error> {
    let scenario = &job.scenario;
    let runs = scenario.plan().len();
    let real = real.or(scenario.measured.then(RealOptions::default));
    // A refusal comes before any announcement.
    let sockets = real.map_or(Ok(Vec::new()), |real| on_sockets(job, &real))?;
    let ground = if real.is_some() { "real" } else { "model" };
    if output.json {
        let record = json!({
            "command": "lab run",
            "experiment": job.name,
            "title": scenario.title,
            "version": env!("CARGO_PKG_VERSION"),
            "seed": scenario.seed,
            "runs": runs,
            "ground": ground,
        });
        output.timed("experiment", record);
    }
    output.talk(&format!("{}: {} ({runs} runs, seed {})", job.name, scenario.title, scenario.seed));
    sockets.iter().for_each(|line| output.talk(line));
    Ok(())
}

/// Notes on runs on sockets; an error if they are impossible.
fn on_sockets(job: &Job, real: &RealOptions) -> Result<Vec<String>, Error> {
    let length = human(real_length(job, real)?.as_secs_f64());
    let mut lines = vec![format!("on sockets, one run after the other: about {length}")];
    if let Some(first) = job.scenario.plan().first() {
        let notes = describe(&job.setup(&first.point)?, real)?;
        lines.extend(notes.iter().map(|note| format!("note: {note}")));
    }
    Ok(lines)
}

/// Prints the summary of an experiment.
pub fn outcome(job: &Job, outcome: &Outcome, command: &str, output: &mut Output) {
    for note in &outcome.notes {
        output.talk(&format!("note: {note}"));
    }
    let points = summary(&outcome.finished);
    if output.json {
        for point in &points {
            output.record("point", point_record(job, point));
        }
        let record = json!({
            "experiment": job.name,
            "directory": outcome.directory,
            "runs": outcome.finished.len(),
            "planned": outcome.planned,
            "before": outcome.before,
            "interrupted": outcome.interrupted,
        });
        return output.timed("summary", record);
    }
    let short = |setting: &str| job.short(setting).to_string();
    output.result(&table(&job.scenario.variables(), &points, &short, output.width, output.palette));
    if outcome.before > 0 {
        let (before, planned) = (outcome.before, outcome.planned);
        output.talk(&format!("{before} of {planned} runs existed already (--fresh repeats them)"));
    }
    output.talk(&format!(
        "results: {}; to repeat one run: {}",
        outcome.directory.display(),
        replay_command(command, 0)
    ));
}

fn point_record(job: &Job, point: &PointSummary) -> Value {
    let measured = FIGURES.iter().zip(&point.figures);
    let figures = measured.filter_map(|(figure, mean)| {
        let mean = (*mean)?;
        let value = json!({ "mean": mean.mean, "half_width_95": mean.half_width, "runs": mean.count });
        Some((figure.name.to_string(), value))
    });
    json!({
        "experiment": job.name,
        "point": settings(&point.point),
        "stream": point.stream,
        "runs": point.runs,
        "figures": figures.collect::<Map<String, Value>>(),
    })
}

fn settings(point: &[(String, String)]) -> Value {
    Value::Object(point.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect())
}

/// Means and their 95 % intervals, a line for each stream at each point. `short` gives a setting's short form, or the
/// setting.
fn table(
    variables: &[String],
    points: &[PointSummary],
    short: &Text<'_>,
    width: usize,
    palette: Palette,
) -> String {
    if points.is_empty() {
        return "no run has finished yet".into();
    }
    let mean = |def: &FigureDef| points.iter().filter_map(|point| point.figure(def.name));
    let telling = |def: &&FigureDef| match QUIET.contains(&def.name) {
        true => mean(def).any(|mean| mean.mean > 0.0),
        false => mean(def).next().is_some(),
    };
    let mut columns: Vec<&FigureDef> = SHOWN.into_iter().filter_map(figure).filter(telling).collect();
    let settings = deciding(variables.len(), points);
    let mut note = String::from("mean ± half of the 95 % confidence interval\n");
    let left_out: Vec<&str> =
        (0..variables.len()).filter(|at| !settings.contains(at)).map(|at| variables[at].as_str()).collect();
    if !left_out.is_empty() {
        note += &format!("{} follow from the columns shown: see results.csv\n", left_out.join(", "));
    }
    let whole = |value: &str| value.to_string();
    let in_few_words = |value: &str| cut(&short(value));
    let mut texts: &Text<'_> = &whole;
    if grid(variables, &settings, points, &columns, &whole).width() > width
        && stay_apart(&settings, points, &in_few_words)
    {
        texts = &in_few_words;
        note += &spelt_out(&settings, points, short);
    }
    loop {
        let grid = grid(variables, &settings, points, &columns, texts);
        if grid.width() <= width || columns.len() <= 1 {
            return grid.render(width, palette) + &note;
        }
        // What has failed is not left out for want of room, before anything else has been.
        let least = columns.iter().rposition(|def| !QUIET.contains(&def.name)).filter(|at| *at > 0);
        columns.remove(least.unwrap_or(columns.len() - 1));
    }
}

/// A long setting, such as a transport with its own settings, abbreviated.
fn cut(value: &str) -> String {
    match value.char_indices().nth(MOST_OF_A_SETTING) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.into(),
    }
}

/// How a setting is written.
type Text<'a> = dyn Fn(&str) -> String + 'a;

/// The meanings of short names, a line each in the order of the table.
fn spelt_out(settings: &[usize], points: &[PointSummary], short: &Text<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for at in settings {
        for (_, value) in points.iter().filter_map(|point| point.point.get(*at)) {
            let line = format!("{}: {value}\n", short(value));
            if short(value) != *value && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.concat()
}

/// Whether different settings are still different as `text` writes them.
fn stay_apart(settings: &[usize], points: &[PointSummary], text: &Text<'_>) -> bool {
    settings.iter().all(|at| {
        let values: BTreeSet<&str> =
            points.iter().filter_map(|point| point.point.get(*at)).map(|(_, value)| value.as_str()).collect();
        let shown: BTreeSet<String> = values.iter().map(|value| text(value)).collect();
        shown.len() == values.len()
    })
}

/// The settings that distinguish the points: the others follow from those before them.
fn deciding(count: usize, points: &[PointSummary]) -> Vec<usize> {
    let mut deciding: Vec<usize> = Vec::new();
    for at in 0..count {
        let value = |point: &PointSummary, at: usize| point.point.get(at).map(|(_, value)| value.clone());
        let known = |point: &PointSummary| deciding.iter().map(|at| value(point, *at)).collect::<Vec<_>>();
        let mut seen = BTreeMap::new();
        let follows = points.iter().all(|point| {
            let found = value(point, at);
            *seen.entry(known(point)).or_insert_with(|| found.clone()) == found
        });
        // A setting that does not vary is left out, unless it is the only one.
        if !follows || (at == 0 && count == 1) {
            deciding.push(at);
        }
    }
    deciding
}

fn grid(
    variables: &[String],
    settings: &[usize],
    points: &[PointSummary],
    columns: &[&FigureDef],
    text: &Text<'_>,
) -> Grid {
    let mut aligns = vec![Align::Left; settings.len() + 1];
    aligns.extend(vec![Align::Right; columns.len() + 1]);
    let mut grid = Grid::new(aligns);
    let titles = settings.iter().map(|at| variables[*at].clone()).chain(["stream", "runs"].map(String::from));
    let figures = columns.iter().map(|def| format!("{} {}", def.title, def.unit.symbol()).trim().to_string());
    grid.row(titles.chain(figures).map(|title| Cell::new(title, Tone::Head)));
    for point in points {
        let values = settings.iter().map(|at| point.point.get(*at).map_or(String::new(), |(_, v)| text(v)));
        let head = values.chain([point.stream.clone(), point.runs.to_string()]);
        let figures = columns.iter().map(|def| point.figure(def.name).map_or("-".into(), shown));
        grid.row(head.chain(figures).map(Cell::from));
    }
    grid
}

/// Characters of a setting if there is not enough room for all of it.
const MOST_OF_A_SETTING: usize = 20;

/// As many decimals as the interval justifies.
fn shown(mean: MeanInterval) -> String {
    // Sums of equal numbers differ in their last digit, depending on how many there are.
    let half = mean.half_width.filter(|half| *half > 1e-9 * mean.mean.abs()).unwrap_or(0.0);
    let scale = if half > 0.0 { half } else { mean.mean.abs() / 100.0 };
    let decimals = if scale > 0.0 { (1.0 - scale.log10().floor()).clamp(0.0, 4.0) as usize } else { 0 };
    match mean.half_width {
        Some(_) => format!("{:.decimals$} ± {half:.decimals$}", mean.mean),
        None => format!("{:.decimals$}", mean.mean),
    }
}

/// Every figure by its name; unmeasured ones are null.
pub(super) fn all(figures: &StreamFigures) -> Map<String, Value> {
    FIGURES.iter().zip(figures.values()).map(|(def, value)| (def.name.into(), value.into())).collect()
}

/// Prints one run.
pub fn run(job: &Job, finished: &Finished, command: &str, output: &mut Output) {
    let run = &finished.run;
    let replay = replay_command(command, run.index);
    if output.json {
        let streams = finished.streams.iter();
        let streams = streams.map(|(name, figures)| json!({ "stream": name, "figures": all(figures) }));
        let media = finished.media.iter().map(|medium| {
            let counters = medium.counters.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
            json!({ "medium": medium.name, "counters": counters.collect::<Map<String, Value>>() })
        });
        let record = json!({
            "experiment": job.name,
            "run": run.index,
            "point": settings(&run.point),
            "repetition": run.repetition,
            "seed": run.seed,
            "streams": streams.collect::<Vec<_>>(),
            "media": media.collect::<Vec<_>>(),
            "events": finished.events,
            "replay": replay,
        });
        return output.record("run", record);
    }
    let point: Vec<String> = run.point.iter().map(|(name, value)| format!("{name}={value}")).collect();
    output.talk(&format!("{}, run {}: {} seed={}", job.name, run.index, point.join(" "), run.seed));
    let mut grid = Grid::new([Align::Left, Align::Right, Align::Left, Align::Prose]);
    for (name, figures) in &finished.streams {
        grid.title(Cell::new(name.as_str(), Tone::Head));
        for (figure, value) in FIGURES.iter().zip(figures.values()) {
            let Some(value) = value else { continue };
            let cells = [figure.title.into(), format!("{value}").into(), figure.unit.symbol().into()];
            grid.row(cells.into_iter().chain([Cell::new(figure.definition, Tone::Dim)]));
        }
    }
    output.result(&grid.render(output.width, output.palette));
    for medium in &finished.media {
        let counters = medium.counters.iter().filter(|(_, value)| *value != 0.0);
        let counters: Vec<String> = counters.map(|(name, value)| format!("{name} {value}")).collect();
        output.detail(&format!("{}: {}", medium.name, counters.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(loss: &str, value: f64, half_width: Option<f64>) -> PointSummary {
        let mean = |name: &str| (name != "broken" && name != "rtt_mean_ms").then_some(value);
        let figures = FIGURES
            .iter()
            .map(|figure| mean(figure.name).map(|mean| MeanInterval { mean, half_width, count: 5 }))
            .collect();
        PointSummary { point: vec![("loss".into(), loss.into())], stream: "audio".into(), runs: 5, figures }
    }

    #[test]
    fn the_table_fits_and_drops_the_least_telling() {
        let points = [point("0%", 0.0, Some(0.0)), point("5%", 12.3456, Some(0.0712))];
        for width in [40, 60, 80, 120, 200] {
            let text = table(&["loss".into()], &points, &WHOLE, width, PLAIN);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width.max(43), "{width}: {widest}\n{text}");
            assert!(text.contains("missing %") && text.contains("12.346 ± 0.071"), "{text}");
            assert!(!text.contains("broken") && !text.contains("round trip"), "{text}");
        }
        assert!(table(&[], &[], &WHOLE, 80, PLAIN).contains("no run"));
    }

    #[test]
    fn what_has_failed_is_in_every_table() {
        let mut failed = point("0%", 12.3456, Some(0.0712));
        for (def, value) in FIGURES.iter().zip(&mut failed.figures) {
            let mean = f64::from(u8::from(def.name == "changes_failed"));
            if QUIET.contains(&def.name) {
                *value = Some(MeanInterval { mean, half_width: None, count: 1 });
            }
        }
        let text = table(&["loss".into()], &[failed], &WHOLE, 60, PLAIN);
        assert!(text.contains("missing %") && text.contains("changes that failed"), "{text}");
        assert!(!text.contains("expired") && !text.contains("longest gap"), "{text}");
    }

    const PLAIN: Palette = Palette { coloured: false };
    const WHOLE: fn(&str) -> String = |value| value.to_string();

    #[test]
    fn settings_that_follow_from_others_take_no_room() {
        let of = |values: [&str; 4]| {
            let point = ["transport", "patience", "channels", "seed"].map(String::from).into_iter();
            let mut of = super::tests::point("", 1.0, None);
            of.point = point.zip(values.map(String::from)).collect();
            of
        };
        let points = [
            of(["rtp", "40ms", "1", "7"]),
            of(["sctp", "600s", "1", "7"]),
            of(["rtp", "40ms", "2", "7"]),
            of(["sctp", "600s", "2", "7"]),
        ];
        assert_eq!(deciding(4, &points), [0, 2]);
        assert_eq!(deciding(1, &points[..1]), [0]);
        let variables = ["transport", "patience", "channels", "seed"].map(String::from);
        let text = table(&variables, &points, &WHOLE, 100, PLAIN);
        assert!(text.starts_with("transport  channels  stream"), "{text}");
        assert!(text.contains("patience, seed follow from"), "{text}");
        // Long settings are abbreviated in favour of figures, as long as they stay distinguishable.
        let long = |end: &str| of([&format!("sctp?order=ordered&{end}"), "1s", "1", "7"]);
        let apart = [of(["sctp?style=many&order=ordered&reliability=full", "1s", "1", "7"]), long("x")];
        let text = table(&variables, &apart, &WHOLE, 60, PLAIN);
        assert!(text.contains("sctp?style=many&orde… ") && text.contains("sctp?order=ordered&x "), "{text}");
        let alike = [long("reliability=full"), long("reliability=none")];
        let text = table(&variables, &alike, &WHOLE, 60, PLAIN);
        assert!(text.contains("sctp?order=ordered&reliability=none"), "{text}");
        // If a paper has short names for them, there is room for figures, and the names are explained below.
        let short = |value: &str| if value.ends_with("none") { "SCTP 2".into() } else { value.to_string() };
        let text = table(&variables, &alike, &short, 60, PLAIN);
        assert!(text.contains("\nSCTP 2 ") && text.contains("sctp?order=ordered&r… "), "{text}");
        assert!(text.contains("SCTP 2: sctp?order=ordered&reliability=none\n"), "{text}");
        assert!(!table(&variables, &alike, &short, 300, PLAIN).contains("SCTP 2"), "there is room");
        // The same transport with two values of patience: both are displayed.
        assert_eq!(deciding(4, &[points[0].clone(), of(["rtp", "80ms", "1", "7"])]), [1]);
    }

    #[test]
    fn digits_follow_the_interval() {
        let of = |mean, half_width| shown(MeanInterval { mean, half_width, count: 2 });
        assert_eq!(of(123.456, Some(12.3)), "123 ± 12");
        assert_eq!(of(1.23456, Some(0.0123)), "1.235 ± 0.012");
        assert_eq!(of(7.0, None), "7.000");
        assert_eq!(of(0.0, Some(0.0)), "0 ± 0");
        assert_eq!(of(15.163, Some(1e-14)), "15.16 ± 0.00");
    }
}
