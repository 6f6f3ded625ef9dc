//! `antiphon compare`.

use std::time::Duration;

use antiphon::measure::Advice;
use antiphon::{
    CompareOptions, Comparison, Error, Judgement, cell_advice, cell_sentences, compare, figure_rows,
};
use serde_json::{Value, json};

use crate::args::{CompareArgs, Global};
use crate::exit;
use crate::grid::{Palette, Tone, paragraph};
use crate::output::{Output, command_line};
use crate::progress::CompareProgress;
use crate::table;
use antiphon::quoted;

/// Runs the command; returns the exit code.
pub fn run(args: &CompareArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let options = args.options(command_line())?;
    if let Some(why) = options.prepare() {
        output.detail(&format!("note: {why}"));
    }
    let watch = output.watch(global.time_limit)?;
    if output.json {
        output.timed("run", run_record(&options));
    }
    let mut progress = CompareProgress::new(output, &watch.stop);
    let mut reached = Reached::default();
    let result = compare(&options, &watch.stop, &mut |now| {
        // What comes after a request to stop is no part of the measurement.
        if !watch.stop.is_asked() {
            reached = Reached { elapsed: now.elapsed, total: now.total };
        }
        progress.update(now, output);
    });
    progress.clear();
    let comparison = result?;
    let judgements: Vec<Judgement> =
        args.require.iter().flat_map(|requirement| requirement.judge(&comparison.figures)).collect();
    if output.json {
        print_records(&comparison, &judgements, output)?;
    } else {
        print_text(&comparison, &reached, output);
    }
    if let Some(receivers) = args.receivers {
        tell_cell(receivers, output);
    }
    tell_missed(&judgements, output);
    if comparison.interrupted && !output.json {
        // The same line is above the table, which may have scrolled away.
        output.talk(&reached.sentence());
    }
    let code = watch.exit_code().unwrap_or_else(|| verdict(&comparison, &judgements));
    if output.json {
        output.timed(
            "end",
            json!({
                "interrupted": comparison.interrupted,
                "report": comparison.report,
                "passport": comparison.passport,
                "exit_code": code,
            }),
        );
    }
    Ok(code)
}

/// How far a comparison came.
#[derive(Clone, Copy, Default)]
struct Reached {
    elapsed: Duration,
    total: Option<Duration>,
}

impl Reached {
    fn sentence(&self) -> String {
        let total = self.total.map_or(String::new(), |total| format!(" of {:.0}", total.as_secs_f64()));
        format!(
            "Interrupted after {:.1}{total} s; the results cover what was measured until then.",
            self.elapsed.as_secs_f64()
        )
    }
}

fn verdict(comparison: &Comparison, judgements: &[Judgement]) -> u8 {
    if judgements.iter().any(|judgement| judgement.missed.is_some()) {
        exit::GATE
    } else if comparison.failures.is_empty() {
        exit::DONE
    } else {
        exit::FAILED
    }
}

/// Whether so many receivers fit on a cell.
fn tell_cell(receivers: usize, output: &mut Output) {
    let receivers = u32::try_from(receivers).unwrap_or(u32::MAX);
    if output.json {
        for cell in cell_advice(receivers) {
            output.record("cell", json!(cell));
        }
        return;
    }
    let width = output.width.min(PROSE);
    let mut text = format!("\n{}\n", output.palette.paint(Tone::Head, "Receivers on a Wi-Fi cell"));
    for sentence in cell_sentences(receivers) {
        text += &paragraph("", &sentence, 2, width);
    }
    output.result(text.trim_end_matches('\n'));
}

fn tell_missed(judgements: &[Judgement], output: &Output) {
    for judgement in judgements {
        if let Some(missed) = &judgement.missed {
            output.error(&format!("not met: {}: {missed}", judgement.transport));
        }
    }
}

fn run_record(options: &CompareOptions) -> Value {
    let link = match &options.peer {
        Some(peer) => json!({ "peer": peer }),
        None => json!({
            "name": options.link.0,
            "up": options.link.1.up.to_string(),
            "down": options.link.1.down.to_string(),
        }),
    };
    json!({
        "command": "compare",
        "command_line": options.command,
        "version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "link": link,
        "source": options.source,
        "video": options.video,
        "seconds": options.length.map(|length| length.as_secs_f64()),
        "block_frames": options.block_frames,
        "latency_ms": options.latency.as_secs_f64() * 1e3,
    })
}

fn print_records(
    comparison: &Comparison,
    judgements: &[Judgement],
    output: &mut Output,
) -> Result<(), Error> {
    let unwritable = |error: serde_json::Error| Error::failed(format!("cannot write JSON: {error}"));
    output.record("link", serde_json::to_value(&comparison.link).map_err(unwritable)?);
    for crossed in &comparison.crossed {
        output.record("link_counts", serde_json::to_value(crossed).map_err(unwritable)?);
    }
    for figures in &comparison.figures {
        // In the order of the struct's fields, as its definition explains.
        output.result(&serde_json::to_string(figures).map_err(unwritable)?);
    }
    for advice in &comparison.advice {
        output.result(&serde_json::to_string(advice).map_err(unwritable)?);
    }
    for (transport, why) in &comparison.failures {
        output.record("failure", json!({ "transport": transport, "why": why }));
    }
    for note in &comparison.notes {
        output.record("note", json!({ "text": note }));
    }
    for judgement in judgements {
        let met = judgement.missed.is_none();
        output.record(
            "gate",
            json!({ "transport": judgement.transport, "met": met, "missed": judgement.missed }),
        );
    }
    Ok(())
}

fn print_text(comparison: &Comparison, reached: &Reached, output: &mut Output) {
    let text = text(comparison, reached, output.width, output.palette);
    output.result(&text);
    for note in &comparison.notes {
        output.detail(&paragraph("note:", note, 6, output.width.min(PROSE)));
    }
}

/// Lines of prose longer than this are hard to read.
const PROSE: usize = 96;

/// The text displayed for a comparison.
fn text(comparison: &Comparison, reached: &Reached, width: usize, palette: Palette) -> String {
    let prose = width.min(PROSE);
    let mut text = paragraph(&format!("Link {}:", comparison.link.name), &comparison.link.method, 2, prose);
    for limit in &comparison.link.limits {
        text += &paragraph("Not modelled:", limit, 2, prose);
    }
    if comparison.interrupted {
        text += &paragraph("", &reached.sentence(), 2, prose);
    }
    if !comparison.figures.is_empty() {
        let names: Vec<&str> = comparison.figures.iter().map(|f| f.transport.as_str()).collect();
        let rows = figure_rows(&comparison.figures);
        text += &format!("\n{}", table::render(&rows, &names, width, palette));
    }
    for figures in &comparison.figures {
        for note in &figures.notes {
            text += &paragraph(&format!("{}:", figures.transport), note, 2, prose);
        }
    }
    for (transport, why) in &comparison.failures {
        text += &palette.paint(Tone::Bad, &paragraph(&format!("{transport} failed:"), why, 2, prose));
    }
    if !comparison.advice.is_empty() {
        text += &format!("\n{}\n", palette.paint(Tone::Head, "Recommended transports"));
        for advice in &comparison.advice {
            text += &advised(advice, prose, palette);
        }
    }
    if let Some(report) = &comparison.report {
        let page = report.join("report.html").display().to_string();
        text +=
            &format!("\nReport and recordings: {}\nOpen it: xdg-open {}\n", report.display(), quoted(&page));
    }
    if let Some(passport) = &comparison.passport {
        text += &format!("Recording of the path: {}\n", passport.display());
    }
    text
}

fn advised(advice: &Advice, width: usize, palette: Palette) -> String {
    let tone = if advice.met { Tone::Best } else { Tone::Bad };
    let transport = if advice.met { advice.transport.as_str() } else { "none" };
    let head = format!(
        "  {:<21} {} ({})\n",
        advice.purpose.title(),
        palette.paint(tone, transport),
        advice.sureness(),
    );
    let why = crate::grid::wrap(&advice.reason(), width.saturating_sub(4));
    let why = why.iter().map(|line| format!("    {line}\n")).collect::<String>();
    // Not wrapped: lines to be copied.
    head + &why + &advice.commands.iter().map(|line| format!("      {line}\n")).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon::LinkSummary;
    use antiphon::measure::Purpose;

    const REACHED: Reached =
        Reached { elapsed: Duration::from_millis(4700), total: Some(Duration::from_secs(12)) };

    fn comparison(transports: usize) -> Comparison {
        let advice = |purpose| Advice {
            record: "advice".into(),
            schema: Advice::SCHEMA,
            purpose,
            transport: "adaptive".into(),
            met: purpose != Purpose::Talk,
            because:
                "0.00 % of 112500 packets lost or later than 70 ms, buffer empty 0 times, within 80 ms of \
                      the picture and 1.8 %; rtp: 1.95 % of 112500 packets lost or later than 70 ms"
                    .into(),
            ties: vec!["srp".into()],
            promised: false,
            confidence: Some(0.987),
            playout_delay_ms: Some(12.0),
            commands: vec!["antiphon receive adaptive://:7710".into()],
            pictures: Some("beside the pictures 0.25 % of the sound was missing".into()),
        };
        Comparison {
            figures: table::tests::synthetic(transports),
            advice: Purpose::ALL.map(advice).to_vec(),
            link: LinkSummary {
                name: "wifi-home,loss=5%".into(),
                method: "router between network namespaces over TUN, one copy for each transport".into(),
                limits: vec![
                    "two clocks: only round trips can be measured, not one-way delays, as they differ".into(),
                ],
            },
            crossed: Vec::new(),
            failures: vec![(
                "xtp".into(),
                "no answer from there: check the address, and that it runs".into(),
            )],
            notes: Vec::new(),
            interrupted: true,
            report: Some("antiphon-report".into()),
            passport: None,
        }
    }

    #[test]
    fn everything_shown_fits_the_terminal() {
        for width in [60, 80, 120] {
            for transports in [0, 1, 2, 4, 7, 9] {
                let text = text(&comparison(transports), &REACHED, width, Palette { coloured: false });
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= width, "{transports} at {width}: {widest}\n{text}");
                for part in [
                    "wifi-home",
                    "Not modelled",
                    "Interrupted after 4.7 of 12 s",
                    "xtp failed",
                    "xdg-open",
                    "99 % sure",
                ] {
                    assert!(text.contains(part), "{part}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn advice_that_meets_no_bound_names_no_transport() {
        let text = text(&comparison(2), &REACHED, 80, Palette { coloured: false });
        let line =
            |title: &str| text.lines().find(|line| line.trim_start().starts_with(title)).unwrap().to_string();
        assert!(line("talk").contains("none") && line("record without").contains("adaptive"), "{text}");
    }

    #[test]
    fn gates_come_before_failures() {
        let missed = Judgement { transport: "rtp".into(), missed: Some("loss<1%: measured 2%".into()) };
        let met = Judgement { transport: "rtp".into(), missed: None };
        let mut comparison = comparison(1);
        assert_eq!(verdict(&comparison, &[met.clone(), missed]), exit::GATE);
        assert_eq!(verdict(&comparison, std::slice::from_ref(&met)), exit::FAILED);
        comparison.failures.clear();
        assert_eq!(verdict(&comparison, &[met]), exit::DONE);
    }
}
