//! The report of a paper: every printed table beside ours, every figure redrawn, every claim with its verdict.

use std::path::{Path, PathBuf};

use antiphon_lab::papers::{Experiment, Judgement, Paper, Reading, Verdict};
use antiphon_lab::results::Results;
use antiphon_lab::scenario::{Note, Scenario};
use antiphon_lab::spreadsheet::Spreadsheet;
use antiphon_report::{Cell, Column, Page, Part, Row, Section, Table};

use super::compared::{Beside, TABLES_HEAD, definitions};
use super::papers::{PaperResults, count_own, counted, job_of};
use super::sides::{self, SIDES_HEAD, side_rows};
use antiphon::Error;

/// Writes `PAPER.html`, `PAPER-tables.csv` and `PAPER-claims.csv` for each paper, and `PAPER-real.csv` if any of it ran
/// on sockets, into `out`, which is created if missing; older ones are replaced. `command` is printed on the page.
pub fn write_report(papers: &[PaperResults], out: &Path, command: &str) -> Result<Vec<PathBuf>, Error> {
    let failed = |path: &Path, error| Error::failed(format!("cannot write '{}': {error}", path.display()));
    std::fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    let mut written = Vec::new();
    for paper in papers {
        let key = paper.paper.key;
        let mut files = vec![
            (format!("{key}.html"), paper.page(command).render()),
            (format!("{key}-tables.csv"), paper.tables_csv()),
            (format!("{key}-claims.csv"), paper.claims_csv()),
        ];
        if !paper.real.is_empty() {
            files.push((format!("{key}-real.csv"), paper.sides_csv()));
        }
        for (name, text) in files {
            let path = out.join(name);
            std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
            written.push(path);
        }
    }
    Ok(written)
}

impl PaperResults {
    /// The report as a page.
    pub fn page(&self, command: &str) -> Page {
        let claims = self.claims();
        let mut sections: Vec<Section> = self.fidelity_section().into_iter().collect();
        sections.push(claims_section(self.paper, &claims));
        sections.extend(self.srp_section());
        sections.extend(self.connections_section());
        sections.extend(self.paper.experiments.iter().map(|experiment| self.section(experiment)));
        let mut page = Page::default();
        page.kicker = "Antiphon · a published study, re-run".into();
        page.title = self.paper.title.clone();
        page.verdict = verdict(&claims);
        page.facts = self.facts();
        page.command = command.into();
        page.sections = sections;
        page
    }

    fn facts(&self) -> Vec<(String, String)> {
        let is_modelled = |key: &str| !self.is_measured(key);
        let modelled = self.results.iter().filter(|(key, _)| is_modelled(key));
        let model: u32 = modelled.map(|(_, results)| results.runs()).sum();
        let real: u32 = self.real.iter().map(|(_, real)| real.results.runs()).sum();
        let runs = match real {
            0 => format!("{model} in virtual time"),
            _ => format!("{model} in virtual time, {real} on real sockets"),
        };
        vec![
            ("Authors".into(), self.paper.authors.join(", ")),
            ("Year".into(), self.paper.year.to_string()),
            ("Runs".into(), runs),
            ("Version".into(), format!("antiphon {}", env!("CARGO_PKG_VERSION"))),
        ]
    }

    fn section(&self, experiment: &'static Experiment) -> Section {
        let intro = format!("{}. {}", capital(experiment.title), self.state(experiment));
        let mut section = Section::new(&heading_of(experiment.key), &intro);
        for (n, map) in experiment.tables.iter().enumerate() {
            let Some(beside) = Beside::of(self.paper, map, self.of(experiment.key)) else { continue };
            section.parts.push(Part::Heading(beside.heading()));
            section.parts.push(Part::Table(beside.table()));
            section.parts.extend(beside.chart().map(Part::Chart));
            let reasons: Vec<String> = self.paper.reasons(map.file).map(String::from).collect();
            // Where a table appears twice, for two readings of it, remarks appear below the second.
            let again = experiment.tables[n + 1..].iter().any(|later| later.file == map.file);
            if !reasons.is_empty() && !again {
                section.parts.push(Part::Notes(reasons));
            }
            section.parts.push(Part::Facts(definitions(map)));
        }
        section.parts.extend(self.redrawn(experiment));
        section.parts.extend(self.scatter(experiment));
        section.parts.extend(self.audio_packets(experiment));
        section.parts.extend(self.alternatives(experiment));
        section.parts.extend(self.own_results(experiment));
        section.parts.extend(self.srp_plots(experiment));
        section.parts.extend(self.beside_reality(experiment));
        section.parts.extend(numbers(self.paper, experiment));
        section
    }

    /// Model and reality side by side, if it ran on sockets as well.
    fn beside_reality(&self, experiment: &Experiment) -> Vec<Part> {
        let (Some(real), Some(job)) = (self.real_of(experiment.key), job_of(self.paper, experiment)) else {
            return Vec::new();
        };
        let model = self.modelled(experiment.key);
        let rows = side_rows(self.paper, experiment, model, &real.results);
        sides::parts(self.paper, &job, &rows, model, real)
    }

    /// Whether an experiment runs only on sockets, so that its results are not a model's.
    pub(super) fn is_measured(&self, experiment: &str) -> bool {
        let experiment = self.paper.experiment(experiment);
        experiment.and_then(|found| job_of(self.paper, found)).is_some_and(|job| job.scenario.measured)
    }

    /// The model's results of an experiment.
    fn modelled(&self, experiment: &str) -> Option<&Results> {
        self.of(experiment).filter(|_| !self.is_measured(experiment))
    }

    fn sides_csv(&self) -> String {
        let mut csv = Spreadsheet::new(SIDES_HEAD.split(','));
        for (key, real) in &self.real {
            let Some(experiment) = self.paper.experiment(key) else { continue };
            for row in side_rows(self.paper, experiment, self.modelled(key), &real.results) {
                sides::csv(self.paper.key, key, &row, &mut csv);
            }
        }
        csv.into_text()
    }

    /// Whether it has run, or what it needs.
    fn state(&self, experiment: &Experiment) -> String {
        let place = match experiment.section {
            Some(section) => format!("Section {section} of the paper."),
            None => "An experiment of our own.".into(),
        };
        let command = format!("`antiphon lab run {}/{}`", self.paper.key, experiment.key);
        let real = self.real_of(experiment.key).filter(|_| self.is_measured(experiment.key));
        let measured = real.map_or(String::new(), |real| {
            let machine = real.machine.as_deref().unwrap_or("an unrecorded machine");
            format!(" Measured, not modelled: real sockets on {machine}.")
        });
        match (self.of(experiment.key), experiment.lacks()) {
            (Some(results), _) if results.is_complete() => {
                format!("{place} {} runs, made by {command}.{measured}", results.runs())
            }
            (Some(results), _) => format!(
                "{place} {} of {} runs are done; {command} continues with the others.{measured}",
                results.runs(),
                results.planned_runs
            ),
            (None, Some(needs)) => format!("{place} Can't run yet: needs {needs}."),
            (None, None) => format!("{place} Not run yet: {command}."),
        }
    }

    fn tables_csv(&self) -> String {
        let mut csv = Spreadsheet::new(TABLES_HEAD.split(','));
        for experiment in self.paper.experiments {
            for map in experiment.tables {
                if let Some(beside) = Beside::of(self.paper, map, self.of(experiment.key)) {
                    beside.csv(self.paper.key, experiment.key, &mut csv);
                }
            }
        }
        self.srp_csv(&mut csv);
        csv.into_text()
    }

    fn claims_csv(&self) -> String {
        let head = "paper,id,required,verdict,because,figures,claim,where,check,departure,agreeing,fits,bounds,proof,seeds";
        let mut csv = Spreadsheet::new(head.split(','));
        for claim in self.claims() {
            let figures: Vec<String> = claim.figures.iter().map(figure_text).collect();
            let fields = [
                claim.paper.into(),
                claim.id,
                claim.required.to_string(),
                claim.verdict.name().into(),
                claim.because,
                figures.join("; "),
                claim.claim,
                claim.place,
                claim.check,
                claim.departure.join(" "),
                claim.agreeing.map_or(String::new(), |share| format!("{share:.3}")),
                claim.fits.join("; "),
                claim.bounds.join("; "),
                claim.proof.into(),
                claim.seeds,
            ];
            csv.line(fields);
        }
        csv.into_text()
    }
}

/// With a capital letter in front.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The claims in a sentence.
fn verdict(claims: &[Judgement]) -> String {
    let required = claims.iter().filter(|claim| claim.required && !claim.own).count();
    let ours = match count_own(claims) {
        (_, 0) => String::new(),
        (hold, all) => format!(" Of {all} claims of our own on it, {hold} hold."),
    };
    format!("Of {required} conclusions that the paper's own figures support, {} here.{ours}", counted(claims))
}

fn claims_section(paper: &Paper, claims: &[Judgement]) -> Section {
    let row = |claim: &Judgement| Row {
        label: claim.id.clone(),
        values: vec![
            verdict_cell(claim),
            Cell::Text(claim_text(claim)),
            Cell::Text(evidence_text(paper, claim, claims)),
        ],
        ..Row::default()
    };
    let column = |title: &str, note: &str| Column { title: title.into(), note: note.into(), colour: None };
    let mut sorted: Vec<&Judgement> = claims.iter().collect();
    sorted.sort_by_key(|claim| place_of(claim.verdict));
    Section::new(
        "Claims",
        "Each conclusion of the paper, checked against our own runs, those that fall first: means over the runs unless they are \
         called greatest. Undecided: in more than 2.5 % of a thousand drawings of the runs the check says the opposite, so that \
         other runs of the same model could, or fewer than 95 % of the seeds that were tried gave the verdict. Holds by fit: it reads a figure from which a number of the model was set. Not \
         reproducible: the proof stands beside it. By definition: nothing is tested. Confidence intervals are in the tables below \
         and in the CSV file.",
    )
    .with(Part::Table(Table {
        caption: String::new(),
        columns: vec![
            column("Verdict", "here"),
            column("What the paper says", "and where"),
            column("Our figures", "and why they differ"),
        ],
        rows: sorted.into_iter().map(row).collect(),
    }))
}

fn verdict_cell(claim: &Judgement) -> Cell {
    let free = if claim.required { "" } else { "\nnot required" };
    let mark = match claim.verdict {
        Verdict::Holds => "✓",
        Verdict::DoesNotHold | Verdict::NotReproducible => "✗",
        Verdict::HoldsByFit => "(✓)",
        Verdict::Undecided => "?",
        Verdict::ByDefinition | Verdict::NotRun => "–",
    };
    Cell::Text(format!("{mark} {}{free}", claim.verdict.words()))
}

/// The order in which verdicts are shown: what a reader doubts first.
fn place_of(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::DoesNotHold => 0,
        Verdict::NotReproducible => 1,
        Verdict::Undecided => 2,
        Verdict::HoldsByFit => 3,
        Verdict::Holds => 4,
        Verdict::ByDefinition => 5,
        Verdict::NotRun => 6,
    }
}

fn claim_text(claim: &Judgement) -> String {
    format!("{} ({})", claim.claim, claim.place)
}

/// The figures, or what is missing, and why ours depart: a line each.
fn evidence_text(paper: &Paper, claim: &Judgement, all: &[Judgement]) -> String {
    let reasons = [claim.because.as_str(), claim.proof].into_iter().chain(claim.departure.iter().copied());
    let reasons = reasons.filter(|more| !more.is_empty()).map(String::from);
    let share = claim.agreeing.filter(|share| *share < 1.0);
    let drawn = share.map(|share| format!("{:.1} % of the drawings say the same.", 100.0 * share));
    // Where they make it undecided, `because` says so.
    let seeds = (!claim.seeds.is_empty() && claim.because.is_empty())
        .then(|| format!("Other seeds: {}.", claim.seeds));
    let bounds = claim.bounds.iter().map(|bound| format!("Bound chosen here: {bound}."));
    let fits = claim.fits.iter().map(|fit| format!("Fitted: {fit}."));
    let tables = tables_of(paper, &claim.figures);
    let tables = (!tables.is_empty()).then(|| format!("Beside print: {}.", tables.join(", ")));
    let explained = claim.explained_by.iter().filter_map(|id| explanation(id, all));
    let reasons = tables
        .into_iter()
        .chain(drawn)
        .chain(seeds)
        .chain(bounds)
        .chain(fits)
        .chain(reasons)
        .chain(explained);
    grouped(paper, &claim.figures).into_iter().chain(reasons).collect::<Vec<_>>().join("\n")
}

/// The claim of ours that explains a departure, its verdict, and a link to each experiment that it reads.
fn explanation(id: &str, all: &[Judgement]) -> Option<String> {
    let claim = all.iter().find(|claim| claim.id == id)?;
    let mut links: Vec<String> = Vec::new();
    for figure in &claim.figures {
        let link = format!("[[{}]]", heading_of(&figure.experiment));
        if !links.contains(&link) {
            links.push(link);
        }
    }
    let verdict = claim.verdict.words();
    Some(match links.is_empty() {
        true => format!("Explained by {id}: {verdict}."),
        false => format!("Explained by {id}, experiment {}: {verdict}.", links.join(", ")),
    })
}

/// The heading of an experiment's section.
fn heading_of(experiment: &str) -> String {
    experiment.replace('_', " ")
}

/// Links to the tables that have these figures.
fn tables_of(paper: &Paper, figures: &[Reading]) -> Vec<String> {
    let mut links = Vec::new();
    for experiment in paper.experiments {
        for map in experiment.tables {
            let has = |figure: &Reading| {
                figure.experiment == experiment.key
                    && map.columns.iter().any(|column| column.figure == figure.figure)
            };
            if let (true, Some(beside)) = (figures.iter().any(has), Beside::of(paper, map, None)) {
                let link = format!("[[{}]]", beside.heading());
                if !links.contains(&link) {
                    links.push(link);
                }
            }
        }
    }
    links
}

/// Figures of one kind together: "udp missing_percent at 12, 14 Mbit/s: 1.967, 41.63", "direct rtt_mean_ms: UDP 18.7,
/// TCP 19.3". What is too long for readers is in the CSV file.
fn grouped(paper: &Paper, figures: &[Reading]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&Reading>)> = Vec::new();
    // A check may read a figure more than once.
    let known = |n: usize| figures[..n].contains(&figures[n]);
    let figures: Vec<&Reading> = (0..figures.len()).filter(|n| !known(*n)).map(|n| &figures[n]).collect();
    for figure in &figures[..figures.len().min(MOST_FIGURES)] {
        let stream = if figure.stream == "audio" { "" } else { &format!(" of {}", figure.stream) };
        let greatest = if figure.statistic == "max" { ", greatest," } else { "" };
        let head =
            format!("{} `{}`{greatest}{stream}", unbroken(paper.short(&figure.experiment)), figure.figure);
        match groups.iter_mut().find(|(known, _)| *known == head) {
            Some((_, figures)) => figures.push(figure),
            None => groups.push((head, vec![figure])),
        }
    }
    let text = |(head, figures): (String, Vec<&Reading>)| {
        let values = figures.iter().map(|figure| format!("{:.*}", places(figure.value), figure.value));
        match rates(&figures) {
            Some(rates) => format!("{head} at {rates}: {}", values.collect::<Vec<_>>().join(", ")),
            None => {
                let pairs = figures.iter().zip(values);
                let pairs = pairs
                    .map(|(figure, value)| unbroken(format!("{} {value}", setting(paper, figure)).trim()));
                format!("{head}: {}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    };
    let rest = figures.len().saturating_sub(MOST_FIGURES);
    let rest = (rest > 0).then(|| format!("and {rest} more in {}-claims.csv", paper.key));
    groups.into_iter().map(text).chain(rest).collect()
}

/// The settings of figures where they are rates, their unit once: "0, 2, 4 Mbit/s".
fn rates(figures: &[&Reading]) -> Option<String> {
    const UNIT: &str = "Mbit/s";
    let rates = figures.iter().map(|figure| figure.at.split_once('=')?.1.strip_suffix(UNIT));
    Some(format!("{} {UNIT}", rates.collect::<Option<Vec<_>>>()?.join(", ")))
}

/// The short form of a figure's settings; empty if there are none.
fn setting(paper: &Paper, figure: &Reading) -> String {
    let Some((_, at)) = figure.at.split_once('=') else { return String::new() };
    // Settings that contain commas are names as a whole.
    match paper.short(at) {
        same if same == at => paper.short_settings(at),
        short => short.into(),
    }
}

/// Words that stay on one line.
fn unbroken(words: &str) -> String {
    words.replace(' ', "\u{a0}")
}

fn figure_text(figure: &Reading) -> String {
    format!(
        "{} {} {} at {}: {} {} ({} runs)",
        figure.experiment,
        figure.statistic,
        figure.figure,
        figure.at,
        shown(figure),
        figure.unit,
        figure.runs
    )
}

/// The value, and its interval with as many places.
fn shown(figure: &Reading) -> String {
    let places = places(figure.value);
    match figure.half_width {
        Some(half_width) if figure.runs > 1 => format!("{:.places$} ± {half_width:.places$}", figure.value),
        _ => format!("{:.places$}", figure.value),
    }
}

fn places(value: f64) -> usize {
    match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        size if size >= 0.1 => 4,
        _ => 5,
    }
}

/// Every number of an experiment's scenario with its reason.
fn numbers(paper: &Paper, experiment: &Experiment) -> Vec<Part> {
    let name = format!("{}/{}.toml", paper.key, experiment.key);
    let scenario = experiment.scenario.and_then(|text| Scenario::parse(&name, text).ok());
    let Some(scenario) = scenario else { return Vec::new() };
    let row = |note: &Note| Row {
        label: note.place.clone(),
        values: vec![note.value.as_str().into(), Cell::Text(reason(note))],
        ..Row::default()
    };
    let column = |title: &str| Column { title: title.into(), ..Column::default() };
    let table = Table {
        caption: format!("Numbers of the scenario: {}.", scenario.title),
        columns: vec![column("Value"), column("Reason or source")],
        rows: scenario.notes().iter().map(row).collect(),
    };
    vec![Part::Heading("What was run".into()), Part::Table(table)]
}

/// Why a number is what it is, and from what it was set.
fn reason(note: &Note) -> String {
    let why = note.why.as_deref().unwrap_or("no reason given");
    note.fitted.as_ref().map_or(why.into(), |fitted| format!("{why}. Fitted: set from {fitted}"))
}

/// The most figures shown for a claim: the longest comparisons of the papers have 24 and still fit a dozen lines.
const MOST_FIGURES: usize = 24;

#[cfg(test)]
mod tests;
