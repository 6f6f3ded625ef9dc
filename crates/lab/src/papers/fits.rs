//! Numbers of scenarios that were set so that a printed figure comes out, and what rests on them.

use super::compare::{ColumnMap, Place, TableMap};
use super::table::Table;
use super::{Experiment, Paper};
use crate::scenario::Scenario;

/// A number that was fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The experiment whose scenario has it.
    pub experiment: &'static str,
    /// Its place there.
    pub place: String,
    /// As it is written.
    pub value: String,
    /// Why this number.
    pub why: String,
    /// The printed figure from which it was set.
    pub fitted: String,
    cells: Vec<PrintedCell>,
    /// Claims that the words name.
    claims: Vec<String>,
}

/// Characters of a value that are shown.
const MOST_SHOWN: usize = 40;

/// A cell of a printed table, and where ours is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PrintedCell {
    experiment: &'static str,
    file: &'static str,
    row: usize,
    printed: &'static str,
    place: Place,
    figure: &'static str,
}

impl Fit {
    /// The value, cut off where it is a whole sweep's.
    pub fn short_value(&self) -> String {
        match self.value.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("{}…", &self.value[..end]),
            None => self.value.clone(),
        }
    }

    /// Whether the words name a printed cell or a claim of the paper; a slip of the pen does not.
    pub fn is_understood(&self) -> bool {
        !self.cells.is_empty() || !self.claims.is_empty()
    }

    /// Whether it was set from this figure, wherever that is read.
    pub(super) fn covers(&self, experiment: &str, place: &Place, figure: &str) -> bool {
        let same = |cell: &PrintedCell| {
            cell.experiment == experiment && cell.figure == figure && cell.place == *place
        };
        self.cells.iter().any(same)
    }

    /// Whether it was set from what this claim says.
    pub(super) fn names(&self, claim: &str) -> bool {
        self.claims.iter().any(|known| known == claim)
    }

    /// Whether it was set from this printed cell.
    pub fn has_cell(&self, experiment: &str, file: &str, row: usize, printed: &str) -> bool {
        self.cells.iter().any(|cell| cell.is(experiment, file, row, printed))
    }
}

impl PrintedCell {
    pub(super) fn is(&self, experiment: &str, file: &str, row: usize, printed: &str) -> bool {
        (self.experiment, self.file, self.row, self.printed) == (experiment, file, row, printed)
    }
}

impl Paper {
    /// The fitted numbers of all its scenarios.
    pub fn fits(&self) -> Vec<Fit> {
        let mut fits = Vec::new();
        for experiment in self.experiments {
            let Some(text) = experiment.scenario else { continue };
            let name = format!("{}/{}.toml", self.key, experiment.key);
            let Ok(scenario) = Scenario::parse(&name, text) else { continue };
            for note in scenario.notes() {
                let Some(fitted) = note.fitted else { continue };
                fits.push(Fit {
                    experiment: experiment.key,
                    place: note.place,
                    value: note.value,
                    why: note.why.unwrap_or_default(),
                    cells: cells(self, &fitted),
                    claims: claims(self, &fitted),
                    fitted,
                });
            }
        }
        fits
    }
}

/// Ids of claims among the words.
fn claims(paper: &Paper, text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    words.filter(|word| paper.claims.iter().any(|claim| claim.id == *word)).map(String::from).collect()
}

/// The cells of `table 6.3, 12 Mbit/s; table 6.4`.
pub(super) fn cells(paper: &Paper, text: &str) -> Vec<PrintedCell> {
    text.split(';').flat_map(|part| cells_of_table(paper, part)).collect()
}

/// The cells of `table 6.3, 12 Mbit/s`: those of a table in which every condition is true of a row's labels or of the column.
fn cells_of_table(paper: &Paper, text: &str) -> Vec<PrintedCell> {
    let mut words = text.split(',').map(str::trim);
    let Some(stem) = words.next().and_then(stem) else { return Vec::new() };
    let conditions: Vec<&str> = words.collect();
    let maps = |experiment: &'static Experiment| experiment.tables.iter().map(move |map| (experiment, map));
    let named =
        paper.experiments.iter().flat_map(maps).filter(|(_, map)| {
            map.file.strip_prefix(stem.as_str()).is_some_and(|rest| rest.starts_with('-'))
        });
    let mut found = Vec::new();
    for (experiment, map) in named {
        let Some(table) = paper.table(map.file) else { continue };
        for row in 0..table.rows.len() {
            let Some(place) = (map.place)(table, row) else { continue };
            let fits = |column: &&ColumnMap| {
                conditions.iter().all(|one| is_label(table, map, row, one) || name(column.printed) == *one)
            };
            found.extend(map.columns.iter().filter(fits).map(|column| PrintedCell {
                experiment: experiment.key,
                file: map.file,
                row,
                printed: column.printed,
                place: place.clone(),
                figure: column.figure,
            }));
        }
    }
    found
}

/// How the file of `table 6.3` or `section 5` begins.
fn stem(words: &str) -> Option<String> {
    let (kind, number) = words.split_once(' ')?;
    let kind = match kind.to_ascii_lowercase().as_str() {
        "table" => "table",
        "section" => "text",
        _ => return None,
    };
    // `table6-3-…`, `table1e-…`, `table03-…`, `text05-…`.
    Some(format!("{kind}{:0>2}", number.replace('.', "-")))
}

/// Whether one of the row's labels is `12`, `12 Mbit/s` or `channels 1`, or within `0 to 12 Mbit/s`.
fn is_label(table: &Table, map: &TableMap, row: usize, words: &str) -> bool {
    map.labels.iter().any(|label| {
        let Some(text) = table.text(row, label) else { return false };
        let unit = label.split_once('[').map_or("", |(_, unit)| unit.trim_end_matches(']'));
        let is_within = || {
            let (least, greatest) = words.strip_suffix(unit)?.trim().split_once(" to ")?;
            let [least, greatest, here]: [f64; 3] =
                [least.parse().ok()?, greatest.parse().ok()?, text.parse().ok()?];
            Some((least..=greatest).contains(&here))
        };
        words == text
            || words == format!("{text} {unit}")
            || words == format!("{} {text}", name(label))
            || is_within().unwrap_or(false)
    })
}

/// A column's name without its unit.
fn name(column: &str) -> &str {
    column.split_once('[').map_or(column, |(name, _)| name).trim()
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn the_words_of_a_fit_name_cells_of_tables() {
        let tv = find("tv-audio-wlan").unwrap();
        let found = |text: &str| {
            let found = cells(tv, text).into_iter();
            found.map(|cell| format!("{} {} {}", cell.file, cell.row, cell.figure)).collect::<Vec<_>>()
        };
        assert_eq!(found("table 6.3, 12 Mbit/s"), ["table6-3-udp-loss.csv 6 missing_percent"]);
        assert_eq!(found("section 5, 7, max delay"), ["text05-mac-retransmission.csv 1 gap_max_ms"]);
        assert_eq!(found("table 6.3").len(), 11);
        assert_eq!(found("table 6.3; table 6.1, 0 to 10 Mbit/s").len(), 17);
        assert_eq!(found("table 6.3, 0 to 10 Mbit/s").len(), 6);
        for nothing in [
            "table 6.3, 13 Mbit/s",
            "table 6.3, 11 to x Mbit/s",
            "table 6.30",
            "table",
            "",
            "6.3",
            "section 5, 7, least delay",
        ] {
            assert!(found(nothing).is_empty(), "{nothing}");
        }
        let ta = find("transport-alternatives").unwrap();
        let one = cells(ta, "table 6, channels 1, UDP");
        assert!(!one.is_empty() && one.iter().all(|cell| cell.row == one[0].row), "{one:?}");
        let srp = find("srp").unwrap();
        assert!(!cells(srp, "table 3e, UDP, latency ratio").is_empty());
        assert_eq!(claims(tv, "section 2.4 (tv-03), tv-7, tv-077"), ["tv-03"]);
    }
}
