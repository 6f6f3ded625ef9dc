//! Experiments of our own that change one cause, and what a paper's cells are with it changed.

use std::collections::BTreeMap;

use super::Paper;
use super::compare::{ColumnMap, TableMap, Value};
use super::table::Table;
use crate::results::Results;

/// An entry of a paper's `checks.toml`: runs of an experiment of ours that stand for those of one of the paper's, with one cause changed.
#[derive(Clone, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The experiment of ours.
    pub experiment: String,
    /// The experiment whose cells it has.
    pub of: String,
    /// Further settings of its sweep.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// What is changed, in a few words.
    pub changed: String,
    /// The claim of ours about it.
    pub claim: String,
}

impl Paper {
    /// The experiments of ours that stand for one of the paper's with a cause changed.
    pub fn variants(&'static self) -> &'static [Variant] {
        &self.remarks.variant
    }
}

impl Variant {
    /// What a cell is with the cause changed; `None` where the experiment has no run of it.
    pub fn ours(
        &'static self,
        map: &TableMap,
        column: &ColumnMap,
        table: &Table,
        row: usize,
        results: &Results,
    ) -> Option<Value> {
        let mut place = (map.place)(table, row)?;
        place.point.extend(self.at.iter().map(|(key, value)| (key.as_str(), value.clone())));
        column.ours(&place, results)
    }
}
