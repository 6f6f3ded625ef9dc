//! Five published studies as data: what they did, what they print, what they conclude; and what of it runs here.
//!
//! `crates/lab/papers` holds the printed tables and the conclusions, with a README on every reading of a doubtful figure.
//! Each paper has a module with its experiments, the way from their figures to the columns of the printed tables, and a
//! check for each conclusion. A check reads [`Results`](crate::results::Results) and nothing else.

mod claim;
mod compare;
mod csv;
mod derived;
mod digitized_voice;
mod embedded;
mod experiment;
mod judge;
mod own;
mod srp;
mod transport_alternatives;
mod tv_audio_wlan;
mod two_stream;

use std::sync::OnceLock;

pub use claim::Claim;
pub use compare::{ColumnMap, Compared, Drawing, Place, Statistic, TableMap, Value};
pub use csv::{Table, TableError};
pub use derived::{Derived, RunView, definition};
pub use experiment::{Experiment, Need};
pub use judge::{Evidence, Judgement, Reading, Verdict};
pub use own::{Contest, ContestColumn, Contestant, Own, OwnClaim, Plane};

use judge::Check;

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
    /// What it did, in its order.
    pub experiments: &'static [Experiment],
    /// What it prints, in its order.
    pub tables: Vec<Table>,
    /// What it concludes, and behind that what we claim of our own contestants.
    pub claims: Vec<Claim>,
    /// Why our figures differ from the printed ones, in sentences, by experiment.
    pub departures: &'static [Departure],
    checks: &'static [(&'static str, Check)],
}

/// Why figures of ours differ from printed ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Tables (file names) or claims (ids) that it is about.
    pub about: &'static [&'static str],
    /// The reason, written after looking at both.
    pub reason: &'static str,
}

/// What a paper's module adds to its files.
struct Module {
    key: &'static str,
    experiments: &'static [Experiment],
    checks: &'static [(&'static str, Check)],
    departures: &'static [Departure],
}

static MODULES: &[Module] = &[
    transport_alternatives::MODULE,
    digitized_voice::MODULE,
    two_stream::MODULE,
    srp::MODULE,
    tv_audio_wlan::MODULE,
];

/// What we add to papers.
static OWN: &[Own] = &[srp::OWN, transport_alternatives::OWN];

/// The five papers.
///
/// # Panics
///
/// If the embedded files are broken, which a test sees first.
pub fn all() -> &'static [Paper] {
    static PAPERS: OnceLock<Vec<Paper>> = OnceLock::new();
    PAPERS.get_or_init(|| embedded::FILES.iter().map(Paper::load).collect())
}

/// The paper called `key`.
pub fn find(key: &str) -> Option<&'static Paper> {
    all().iter().find(|paper| paper.key == key)
}

impl Paper {
    fn load(files: &embedded::Files) -> Paper {
        let broken = |what: &str| -> ! { panic!("papers/{}: {what}", files.key) };
        let about: toml::Table = match files.paper.parse() {
            Ok(about) => about,
            Err(error) => broken(&format!("paper.toml: {error}")),
        };
        let text = |value: &toml::Value| value.as_str().map(str::to_string);
        let (Some(title), Some(authors), Some(year)) = (
            about.get("title").and_then(text),
            about.get("authors").and_then(toml::Value::as_array),
            about.get("year").and_then(toml::Value::as_integer).and_then(|year| u16::try_from(year).ok()),
        ) else {
            broken("paper.toml needs title, authors and year")
        };
        let tables = files.tables.iter().map(|(file, text)| Table::parse(file, text));
        let printed = Claim::parse_all("claims.csv", files.claims);
        let mut claims = printed.unwrap_or_else(|error| broken(&error.to_string()));
        let own = OWN.iter().filter(|own| own.key == files.key).flat_map(|own| own.claims);
        claims.extend(own.map(OwnClaim::claim));
        let Some(module) = MODULES.iter().find(|module| module.key == files.key) else {
            broken("no module of that name")
        };
        Paper {
            key: files.key,
            title,
            authors: authors.iter().filter_map(text).collect(),
            year,
            experiments: module.experiments,
            tables: tables.collect::<Result<_, _>>().unwrap_or_else(|error| broken(&error.to_string())),
            claims,
            departures: module.departures,
            checks: module.checks,
        }
    }

    /// The experiment called `key`.
    pub fn experiment(&self, key: &str) -> Option<&'static Experiment> {
        self.experiments.iter().find(|experiment| experiment.key == key)
    }

    /// The printed table in `file`.
    pub fn table(&self, file: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.file == file)
    }

    /// What the results say on each claim, in the paper's order.
    pub fn judge(&self, evidence: &Evidence<'_>) -> Vec<Judgement> {
        let check =
            |claim: &Claim| self.checks.iter().find(|(id, _)| *id == claim.id).map(|(_, check)| *check);
        self.claims.iter().map(|claim| judge::judge(self, claim, check(claim), evidence)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

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
        let row = loss.row(&[("disturbance_mbit_s", "14")]).unwrap();
        assert_eq!(loss.number(row, "mean_loss_percent"), Some(41.369));
        assert_eq!(loss.decimals(row, "mean_loss_percent"), Some(3));
        let gaps = tv.table("table6-4-udp-above-threshold.csv").unwrap();
        let row = gaps.row(&[("disturbance_mbit_s", "20")]).unwrap();
        assert_eq!(gaps.number(row, "above_80ms_packets"), None);
        assert_eq!(gaps.number(row, "confidence_packets"), Some(97.0125));
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
                for map in experiment.tables {
                    let table = paper.table(map.file).unwrap();
                    for row in 0..table.rows.len() {
                        let place = (map.place)(table, row).unwrap();
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
    fn names_meet_their_definitions() {
        let mut ids = std::collections::BTreeSet::new();
        for paper in all() {
            let about: toml::Table =
                embedded::FILES.iter().find(|f| f.key == paper.key).unwrap().paper.parse().unwrap();
            let stated = about["experiment"].as_table().unwrap();
            let mut keys: Vec<&str> = paper.experiments.iter().map(|e| e.key).collect();
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
            for name in paper.departures.iter().flat_map(|departure| departure.about) {
                let known = paper.table(name).is_some() || paper.claims.iter().any(|c| c.id == *name);
                assert!(known, "{}: departure about {name}", paper.key);
            }
            for map in paper.experiments.iter().flat_map(|experiment| experiment.tables) {
                map.assert_fits(paper.table(map.file).expect(map.file));
            }
        }
    }
}
