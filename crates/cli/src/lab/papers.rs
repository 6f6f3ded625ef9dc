//! `antiphon lab list`, `antiphon lab claims`, `antiphon lab report`.

use antiphon::Error;
use antiphon_experiments::{
    ExperimentRow, Judgement, PaperResults, Verdict, count_own, counted, write_report,
};
use serde_json::json;

use crate::args::{PaperArgs, ReportArgs};
use crate::exit;
use crate::grid::{Align, Cell, Grid, Palette, Tone, paragraph};
use crate::output::{Output, with_kind};
use antiphon::quoted;

/// Lists every experiment and whether it can run.
pub fn list(args: &PaperArgs, output: &mut Output) -> Result<u8, Error> {
    let papers = read(args, output)?;
    if output.json {
        for row in papers.iter().flat_map(PaperResults::experiments) {
            output.record("experiment", json!(row));
        }
        return Ok(exit::DONE);
    }
    let text: String = papers.iter().map(|paper| listed(paper, output.width, output.palette)).collect();
    output.result(text.trim_end());
    Ok(exit::DONE)
}

/// Lists every claim with its verdict.
pub fn claims(args: &PaperArgs, output: &mut Output) -> Result<u8, Error> {
    for paper in read(args, output)? {
        let claims = paper.claims();
        if output.json {
            for claim in &claims {
                // In the order of the struct's fields: paper, id, required, verdict and figures come first.
                let fields =
                    serde_json::to_string(claim).map_err(|error| Error::failed(error.to_string()))?;
                output.result(&with_kind("claim", &fields));
            }
        } else {
            let text = judged(&paper, &claims, output.width, output.palette);
            output.result(&text);
        }
    }
    Ok(exit::DONE)
}

/// Writes the reports, prints their paths and how many conclusions hold. Papers that were not named and have no results
/// are left out.
pub fn report(args: &ReportArgs, output: &mut Output) -> Result<u8, Error> {
    let mut papers = read(&args.papers, output)?;
    if args.papers.papers.is_empty() {
        papers.retain(|paper| !paper.results.is_empty() || !paper.real.is_empty());
    }
    if papers.is_empty() {
        return Err(Error::failed(format!(
            "no results in '{}': run a paper first, such as antiphon lab run tv-audio-wlan, or name another --results",
            args.papers.results.display()
        )));
    }
    for path in write_report(&papers, &args.out, &command(args))? {
        if output.json {
            output.record("file", json!({ "path": path.display().to_string() }));
        } else {
            output.result(&path.display().to_string());
        }
    }
    for paper in papers.iter().filter(|_| !output.json) {
        let page = args.out.join(format!("{}.html", paper.paper.key));
        let open = quoted(&page.display().to_string());
        output.talk(&format!("{}\nopen it: xdg-open {open}", standing(paper.paper.key, &paper.claims())));
    }
    Ok(exit::DONE)
}

/// How many of a paper's required claims hold.
fn standing(paper: &str, claims: &[Judgement]) -> String {
    let required = claims.iter().filter(|claim| claim.required && !claim.own).count();
    format!("{paper}: of {required} conclusions {}", counted(claims))
}

fn read(args: &PaperArgs, output: &Output) -> Result<Vec<PaperResults>, Error> {
    let (papers, notes) = PaperResults::kept(&args.papers, &args.results)?;
    for note in notes {
        output.error(&format!("ignored: {note}"));
    }
    Ok(papers)
}

fn command(args: &ReportArgs) -> String {
    let mut words = vec!["antiphon lab report".to_string()];
    words.extend(args.papers.papers.iter().map(|paper| quoted(paper)));
    let results = args.papers.results.to_string_lossy();
    if results != "antiphon-lab" {
        words.push(format!("--results {}", quoted(&results)));
    }
    words.join(" ")
}

fn listed(paper: &PaperResults, width: usize, palette: Palette) -> String {
    let about = paper.paper;
    let mut text = format!("{}\n", palette.paint(Tone::Head, about.key));
    text +=
        &paragraph("", &format!("{}: {} ({})", about.authors.join(", "), about.title, about.year), 2, width);
    let mut grid = Grid::new([Align::Left, Align::Left, Align::Prose]);
    for row in paper.experiments() {
        let tone = if row.can_run { Tone::Plain } else { Tone::Dim };
        let name = Cell::from(format!("    {}", row.experiment));
        let whose = if row.section.is_none() { " (ours)" } else { "" };
        grid.row([name, Cell::new(state(&row), tone), Cell::new(format!("{}{whose}", row.title), Tone::Dim)]);
    }
    text + &grid.render(width, palette) + "\n"
}

/// What is missing, or how many of its runs are done.
fn state(row: &ExperimentRow) -> String {
    match (row.finished_runs, row.planned_runs) {
        _ if !row.can_run => format!("needs {}", row.needs.join(", ")),
        (0, Some(planned)) => format!("can run: {planned} runs"),
        (done, Some(planned)) if done < planned => format!("{done} of {planned} runs done"),
        (done, _) => format!("{done} runs done"),
    }
}

fn judged(paper: &PaperResults, claims: &[Judgement], width: usize, palette: Palette) -> String {
    let required = claims.iter().filter(|claim| claim.required && !claim.own).count();
    let head = palette.paint(Tone::Head, paper.paper.key);
    let mut text = format!("{head}: of {required} required claims {}\n", counted(claims));
    if let (hold, all @ 1..) = count_own(claims) {
        text += &format!("{hold} of {all} claims of our own hold\n");
    }
    let mut grid = Grid::new([Align::Left, Align::Left, Align::Prose]);
    for claim in claims {
        let tone = match claim.verdict {
            Verdict::Holds => Tone::Best,
            Verdict::NotRun | Verdict::ByDefinition => Tone::Dim,
            _ => Tone::Plain,
        };
        let free = if claim.required { "" } else { " (not required)" };
        let about = match claim.because.as_str() {
            "" => claim.claim.clone(),
            because => format!("{} [{because}]", claim.claim),
        };
        grid.row([
            Cell::from(format!("  {}", claim.id)),
            Cell::new(format!("{}{free}", claim.verdict.words()), tone),
            Cell::from(about),
        ]);
    }
    text += &grid.render(width, palette);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Palette = Palette { coloured: false };

    fn nothing_run() -> Vec<PaperResults> {
        PaperResults::kept(&[], std::path::Path::new("no such directory")).unwrap().0
    }

    #[test]
    fn every_experiment_has_a_line_that_fits() {
        for width in [60, 80, 120] {
            let text: String = nothing_run().iter().map(|paper| listed(paper, width, PLAIN)).collect();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest} at {width}\n{text}");
            for paper in nothing_run() {
                assert!(paper.experiments().iter().all(|row| text.contains(row.experiment)), "{text}");
            }
            // All of the five papers can run.
            assert!(text.contains("can run") && !text.contains("needs "), "{text}");
        }
    }

    #[test]
    fn a_report_says_how_many_conclusions_hold() {
        let mut claims =
            nothing_run().iter().find(|paper| paper.paper.key == "tv-audio-wlan").unwrap().claims();
        let required = claims.iter().filter(|claim| claim.required && !claim.own).count();
        let expected = format!("tv-audio-wlan: of {required} conclusions 0 hold, {required} not run");
        assert_eq!(standing("tv-audio-wlan", &claims), expected);
        for (claim, verdict) in claims.iter_mut().zip(Verdict::ALL.into_iter().cycle()) {
            claim.verdict = verdict;
        }
        let all = standing("tv-audio-wlan", &claims);
        let words = [
            "4 hold, ",
            " 4 hold by fit, ",
            " undecided, ",
            " do not, ",
            " not reproducible, ",
            " by definition, ",
        ];
        assert!(words.iter().all(|word| all.contains(word)) && all.ends_with(" not run"), "{all}");
    }

    #[test]
    fn every_claim_has_a_line_that_fits() {
        for paper in nothing_run() {
            let claims = paper.claims();
            let text = judged(&paper, &claims, 80, PLAIN);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(claims.iter().all(|claim| text.contains(&claim.id)), "{text}");
        }
    }
}
