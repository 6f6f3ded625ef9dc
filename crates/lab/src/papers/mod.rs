//! Five published studies as data: their experiments, printed tables and conclusions; and which of it runs here.
//!
//! `crates/lab/papers` holds the printed tables and the conclusions, with a README on every reading of a doubtful
//! figure. Each paper has a module with its experiments, the mapping from their figures to the columns of the printed
//! tables, and a check for each conclusion. A check reads only [`Results`](crate::results::Results).

mod claim;
mod compare;
mod contradiction;
mod derived;
mod digitized_voice;
mod draws;
mod embedded;
mod experiment;
mod fits;
mod judge;
pub mod srp;
mod table;
mod transport_alternatives;
mod trial;
mod tv_audio_wlan;
pub mod two_stream;
mod variant;

use std::sync::OnceLock;

pub use claim::Claim;
pub use compare::{ColumnMap, Compared, Drawing, Place, Statistic, TableMap, Value};
pub use contradiction::Contradiction;
pub use derived::{Derived, definition};
pub use experiment::Experiment;
pub use fits::Fit;
pub use judge::{DECIDED, DRAWS, Evidence, Judgement, Reading, Verdict};
pub use table::{Table, TableError, heading};
pub use trial::{LEAST_SEEDS, SAME_PERCENT, Trial, TrialError, Trials};
pub use variant::Variant;

use draws::Draws;
use judge::{Check, Judging};

/// A published study.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Its name in commands and files, such as `tv-audio-wlan`.
    pub key: &'static str,
    /// As printed.
    pub title: String,
    /// As printed.
    pub authors: Vec<String>,
    /// Of publication.
    pub year: u16,
    /// Its experiments, in its order.
    pub experiments: &'static [Experiment],
    /// Its printed tables, in its order.
    pub tables: Vec<Table>,
    /// Its conclusions, followed by our own claims about our transports.
    pub claims: Vec<Claim>,
    /// Why our figures differ from the printed ones.
    pub departures: Vec<Departure>,
    /// What is known of its checks.
    remarks: Remarks,
    /// How its claims come out with other seeds.
    pub trials: Trials,
    checks: &'static [(&'static str, Check)],
    names: &'static [(&'static str, &'static str)],
}

/// Why our figures differ from printed ones.
#[derive(Clone, PartialEq, Eq, Debug, serde::Deserialize)]
pub struct Departure {
    /// Tables (file names) or claims (ids) that it explains.
    pub about: Vec<String>,
    /// The reason, written after looking at both.
    pub reason: String,
    /// Our own claims that show it: with this cause changed, and nothing else, the figure is within the claim's bound.
    #[serde(default)]
    pub explained_by: Vec<String>,
}

/// A paper's `checks.toml`: remarks on the checks of its claims.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Remarks {
    /// Checks that follow from what the figure is, or from an input.
    #[serde(default)]
    definition: Vec<Remark>,
    /// Bounds that the paper does not state.
    #[serde(default)]
    bound: Vec<Remark>,
    /// Proofs that a claim cannot be confirmed under the stated conditions, and what they assume.
    #[serde(default)]
    proof: Vec<Remark>,
    /// Printed cells that other cells rule out.
    #[serde(default)]
    contradiction: Vec<contradiction::Stated>,
    /// Experiments of ours that change one cause.
    #[serde(default)]
    variant: Vec<Variant>,
}

/// A remark on a check.
#[derive(Clone, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Remark {
    /// The claims.
    claims: Vec<String>,
    /// The remark.
    text: String,
}

/// The fields of a paper's `paper.toml` that the program reads.
#[derive(serde::Deserialize)]
struct About {
    title: String,
    authors: Vec<String>,
    year: u16,
}

/// A paper's `departures.toml`.
#[derive(serde::Deserialize)]
struct Departures {
    #[serde(default)]
    departure: Vec<Departure>,
}

/// A paper's files, and the contents of its module.
struct Module {
    files: embedded::Files,
    experiments: &'static [Experiment],
    checks: &'static [(&'static str, Check)],
    /// Short names of experiments and settings.
    names: &'static [(&'static str, &'static str)],
    /// Figures computed from several streams, used by its tables and claims.
    derived: &'static [Derived],
}

/// The setting that `names` abbreviate as `short`: the inverse of [`Paper::short`].
fn long(names: &[(&'static str, &'static str)], short: &str) -> Option<&'static str> {
    names.iter().find(|(_, known)| *known == short).map(|(long, _)| *long)
}

static MODULES: &[Module] = &[
    transport_alternatives::MODULE,
    digitized_voice::MODULE,
    two_stream::MODULE,
    srp::MODULE,
    tv_audio_wlan::MODULE,
];

/// The five papers.
///
/// # Panics
///
/// If the embedded files are invalid, which a test would detect first.
pub fn all() -> &'static [Paper] {
    static PAPERS: OnceLock<Vec<Paper>> = OnceLock::new();
    PAPERS.get_or_init(|| MODULES.iter().map(Paper::load).collect())
}

/// The paper called `key`.
pub fn find(key: &str) -> Option<&'static Paper> {
    all().iter().find(|paper| paper.key == key)
}

impl Paper {
    fn load(module: &Module) -> Paper {
        let files = &module.files;
        let broken = |error: &dyn std::fmt::Display| -> ! { panic!("papers/{}: {error}", files.key) };
        let tables = files.tables.iter().map(|(file, text)| Table::parse(file, text));
        let tables: Result<Vec<_>, _> = tables.collect();
        let claims = Claim::parse_all("claims.csv", files.claims);
        let about: About = toml::from_str(files.paper).unwrap_or_else(|error| broken(&error));
        let departures: Departures = toml::from_str(files.departures).unwrap_or_else(|error| broken(&error));
        let remarks: Remarks = toml::from_str(files.checks).unwrap_or_else(|error| broken(&error));
        let claims = claims.unwrap_or_else(|error| broken(&error));
        let trials = Trials::parse("seeds.csv", files.seeds, &claims, module.experiments);
        Paper {
            key: files.key,
            title: about.title,
            authors: about.authors,
            year: about.year,
            experiments: module.experiments,
            tables: tables.unwrap_or_else(|error| broken(&error)),
            claims,
            departures: departures.departure,
            remarks,
            trials: trials.unwrap_or_else(|error| broken(&error)),
            checks: module.checks,
            names: module.names,
        }
    }

    /// The short name of an experiment or a setting, or the name itself if there is none.
    pub fn short<'a>(&self, text: &'a str) -> &'a str {
        self.names.iter().find(|(long, _)| *long == text).map_or(text, |(_, short)| short)
    }

    /// Settings separated by commas, each in its short form if it has one.
    pub fn short_settings(&self, text: &str) -> String {
        text.split(',').map(|setting| self.short(setting)).collect::<Vec<_>>().join(" · ")
    }

    /// The experiment called `key`.
    pub fn experiment(&self, key: &str) -> Option<&'static Experiment> {
        self.experiments.iter().find(|experiment| experiment.key == key)
    }

    /// The printed table in `file`.
    pub fn table(&self, file: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.file == file)
    }

    /// Why our results depart from the paper in a table or a claim.
    pub fn reasons<'a>(&'static self, about: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
        let departures = self.departures.iter();
        let here = departures.filter(move |departure| departure.about.iter().any(|name| name == about));
        here.map(|departure| departure.reason.as_str())
    }

    /// Our own claims that explain why our results depart from the paper in a table or a claim.
    fn explanations<'a>(&'static self, about: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
        let departures = self.departures.iter();
        let here = departures.filter(move |departure| departure.about.iter().any(|name| name == about));
        here.flat_map(|departure| departure.explained_by.iter().map(String::as_str))
    }

    /// Why a claim's check tests nothing.
    fn definition(&'static self, claim: &str) -> Option<&'static str> {
        texts(&self.remarks.definition, claim).next()
    }

    /// Why a claim cannot be confirmed.
    fn proof(&'static self, claim: &str) -> Option<&'static str> {
        texts(&self.remarks.proof, claim).next()
    }

    /// Bounds of a claim's check that the paper does not state.
    fn bounds<'a>(&'static self, claim: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
        texts(&self.remarks.bound, claim)
    }

    /// The verdict on each claim by these runs alone, in the paper's order: as each seed of a trial is judged.
    pub fn judge_alone(&'static self, evidence: &Evidence<'_>) -> Vec<Judgement> {
        self.judge_with(evidence, DRAWS, DRAWS_SEED)
    }

    /// The same with so many other draws.
    fn judge_with(&'static self, evidence: &Evidence<'_>, draws: usize, seed: u64) -> Vec<Judgement> {
        let (draws, fits) = (Draws::new(evidence, draws, seed), self.fits());
        let judging = Judging { paper: self, evidence, draws: &draws, fits: &fits };
        let check =
            |claim: &Claim| self.checks.iter().find(|(id, _)| *id == claim.id).map(|(_, check)| *check);
        self.claims.iter().map(|claim| judging.judge(claim, check(claim))).collect()
    }
}

/// The remarks on a claim.
fn texts<'a>(remarks: &'static [Remark], claim: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
    let about = remarks.iter().filter(move |remark| remark.claims.iter().any(|known| known == claim));
    about.map(|remark| remark.text.as_str())
}

/// Seed of the draws: verdicts are the same each time they are asked for.
const DRAWS_SEED: u64 = 1979;

#[cfg(test)]
mod tests {
    use antiphon_link::LossModel;

    use super::*;
    use crate::scenario::Scenario;
    use crate::setup::{MediumKind, Setup};

    #[test]
    fn all_papers_load_with_their_tables_and_claims() {
        let printed = |paper: &Paper| paper.claims.iter().filter(|claim| !claim.own).count();
        let counts: Vec<_> =
            all().iter().map(|paper| (paper.key, paper.tables.len(), printed(paper))).collect();
        let expected = [
            ("transport-alternatives", 6, 20),
            ("digitized-voice", 12, 23),
            ("two-stream", 2, 22),
            ("srp", 4, 23),
            ("tv-audio-wlan", 18, 26),
        ];
        assert_eq!(counts, expected);
        for paper in all() {
            assert!(!paper.title.is_empty() && !paper.authors.is_empty(), "{}", paper.key);
            assert!((1990..2020).contains(&paper.year), "{}", paper.key);
            assert!(paper.tables.iter().all(|table| !table.rows.is_empty()), "{}", paper.key);
        }
        assert_eq!(find("srp").unwrap().authors.len(), 3);
        assert!(find("none").is_none());
    }

    #[test]
    fn printed_figures_are_read_as_printed() {
        let tv = find("tv-audio-wlan").unwrap();
        let loss = tv.table("table6-3-udp-loss.csv").unwrap();
        let row = loss.row(&[("disturbance [Mbit/s]", "14")]).unwrap();
        assert_eq!(loss.number(row, "mean loss [%]"), Some(41.369));
        assert_eq!(loss.decimals(row, "mean loss [%]"), Some(3));
        let gaps = tv.table("table6-4-udp-above-threshold.csv").unwrap();
        let row = gaps.row(&[("disturbance [Mbit/s]", "20")]).unwrap();
        assert_eq!(gaps.number(row, "above 80 ms [packets]"), None);
        assert_eq!(gaps.number(row, "confidence [packets]"), Some(97.0125));
    }

    #[test]
    fn claims_that_the_papers_contradict_are_not_required() {
        let free: Vec<&str> = all()
            .iter()
            .flat_map(|paper| &paper.claims)
            .filter(|claim| !claim.required)
            .map(|claim| claim.id.as_str())
            .collect();
        let expected =
            ["ta-03", "ta-09", "ta-15", "dv-07", "dv-11", "dv-14", "dv-15", "ts-19", "srp-17", "srp-18"];
        assert_eq!(free, expected);
    }

    #[test]
    fn every_scenario_is_sound_and_has_the_points_of_its_tables() {
        for paper in all() {
            for experiment in paper.experiments {
                let Some(text) = experiment.scenario else { continue };
                let name = format!("{}/{}.toml", paper.key, experiment.key);
                let scenario = Scenario::parse(&name, text).unwrap_or_else(|error| panic!("{error}"));
                for note in scenario.notes() {
                    assert!(note.why.is_some(), "{name}: no reason for {} = {}", note.place, note.value);
                }
                let plan = scenario.plan();
                assert_no_burst_moves_by_packets(&name, &scenario.setup(&plan[0].point).unwrap());
                for map in experiment.tables {
                    let table = paper.table(map.file).unwrap();
                    let places = (0..table.rows.len()).filter_map(|row| (map.place)(table, row));
                    for place in places {
                        let planned = plan.iter().any(|run| {
                            place.point.iter().all(|(key, value)| {
                                run.point.iter().any(|(name, here)| name == key && here == value)
                            })
                        });
                        assert!(planned, "{name}: no run at {:?}", place.point);
                    }
                }
            }
        }
    }

    #[test]
    fn explanations_are_claims_of_ours() {
        for paper in all() {
            for departure in &paper.departures {
                for id in &departure.explained_by {
                    let known = paper.claims.iter().find(|claim| claim.id == *id);
                    assert!(known.is_some_and(|claim| claim.own), "{}: {id}", paper.key);
                }
            }
        }
    }

    /// A table of several experiments has each of its rows in one of them.
    fn assert_each_row_is_somewhere(paper: &Paper) {
        let maps = || paper.experiments.iter().flat_map(|experiment| experiment.tables);
        for map in maps() {
            let table = paper.table(map.file).unwrap();
            for row in 0..table.rows.len() {
                let mut same = maps().filter(|other| other.file == map.file);
                assert!(same.any(|map| (map.place)(table, row).is_some()), "{}: row {row}", map.file);
            }
        }
    }

    /// A channel that moves with each packet lets who sends more through a burst sooner; published comparisons need one
    /// that moves with time.
    fn assert_no_burst_moves_by_packets(name: &str, setup: &Setup) {
        for medium in &setup.media {
            let MediumKind::Link { spec, .. } = &medium.kind else { continue };
            let by_packets =
                [&spec.up, &spec.down].map(|way| matches!(way.loss, LossModel::GilbertElliott { .. }));
            assert_eq!(by_packets, [false; 2], "{name}: {}", medium.name);
        }
    }

    #[test]
    fn short_names_are_found_both_ways() {
        for paper in all() {
            for (long, short) in paper.names {
                assert_eq!((paper.short(long), super::long(paper.names, short)), (*short, Some(*long)));
            }
            assert_eq!(paper.short("anything else"), "anything else");
        }
        let paper = find("transport-alternatives").unwrap();
        assert_eq!(paper.short_settings("channels=1,x=1"), "1 ch · x=1");
    }

    #[test]
    fn names_meet_their_definitions() {
        let mut ids = std::collections::BTreeSet::new();
        for paper in all() {
            let about: toml::Table =
                MODULES.iter().find(|m| m.files.key == paper.key).unwrap().files.paper.parse().unwrap();
            let stated = about["experiment"].as_table().unwrap();
            let printed = paper.experiments.iter().filter(|e| !e.is_own());
            let mut keys: Vec<&str> = printed.map(|e| e.key).collect();
            keys.sort_unstable();
            let mut expected: Vec<&str> =
                stated.keys().map(String::as_str).filter(|k| *k != "common").collect();
            expected.sort_unstable();
            assert_eq!(keys, expected, "{}", paper.key);
            for claim in &paper.claims {
                assert!(ids.insert(claim.id.clone()), "{} twice", claim.id);
            }
            for (id, _) in paper.checks {
                assert!(paper.claims.iter().any(|claim| claim.id == *id), "no claim {id}");
            }
            for name in paper.departures.iter().flat_map(|departure| &departure.about) {
                let known = paper.table(name).is_some() || paper.claims.iter().any(|c| c.id == *name);
                assert!(known, "{}: departure about {name}", paper.key);
            }
            let Remarks { definition, bound, proof, .. } = &paper.remarks;
            for name in [definition, bound, proof].into_iter().flatten().flat_map(|remark| &remark.claims) {
                assert!(
                    paper.claims.iter().any(|claim| claim.id == *name),
                    "{}: remark on {name}",
                    paper.key
                );
            }
            for fit in paper.fits() {
                assert!(fit.is_understood(), "{}: nothing is '{}'", paper.key, fit.fitted);
            }
            for one in paper.contradictions() {
                assert!(one.names_cells(), "{}: nothing is '{}'", paper.key, one.stated);
            }
            for one in paper.variants() {
                let of = paper.experiment(&one.of);
                assert!(
                    of.is_some_and(|of| !of.tables.is_empty()),
                    "{}: no tables of '{}'",
                    paper.key,
                    one.of
                );
                assert!(
                    paper.experiment(&one.experiment).is_some(),
                    "{}: no '{}'",
                    paper.key,
                    one.experiment
                );
                assert!(
                    paper.claims.iter().any(|claim| claim.id == one.claim),
                    "{}: no {}",
                    paper.key,
                    one.claim
                );
            }
            for map in paper.experiments.iter().flat_map(|experiment| experiment.tables) {
                map.assert_fits(paper.table(map.file).expect(map.file));
            }
            assert_each_row_is_somewhere(paper);
        }
    }
}
