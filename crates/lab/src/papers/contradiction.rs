//! Printed figures that other printed figures of the same paper rule out: no run has both.

use super::Paper;
use super::fits::{PrintedCell, cells};

/// An entry of a paper's `checks.toml`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stated {
    /// The cells, as `fitted` names them: `table 7.1, 14 to 20 Mbit/s; table 7.3, 16 Mbit/s`.
    cells: String,
    /// Why they can't be, and what that assumes.
    proof: String,
}

/// Printed cells that can't be, by others that are printed. What a run gives in their place says nothing of the model.
#[derive(Clone, PartialEq, Debug)]
pub struct Contradiction {
    /// The cells, in words.
    pub stated: &'static str,
    /// The arithmetic, and what it assumes.
    pub proof: &'static str,
    cells: Vec<PrintedCell>,
}

impl Contradiction {
    /// Whether the words name printed cells; a slip of the pen does not.
    pub fn names_cells(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Whether it rules out this printed cell.
    pub fn has_cell(&self, experiment: &str, file: &str, row: usize, printed: &str) -> bool {
        self.cells.iter().any(|cell| cell.is(experiment, file, row, printed))
    }
}

impl Paper {
    /// What its tables say against one another.
    pub fn contradictions(&'static self) -> Vec<Contradiction> {
        let stated = self.remarks.contradiction.iter();
        stated
            .map(|one| Contradiction {
                stated: &one.cells,
                proof: &one.proof,
                cells: cells(self, &one.cells),
            })
            .collect()
    }
}
