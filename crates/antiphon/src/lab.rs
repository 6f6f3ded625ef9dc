//! The laboratory from outside: published studies in virtual time.

mod compared;
mod papers;
mod report;

pub use papers::{ClaimRow, ExperimentRow, FigureRow, PaperResults, count, paper};
pub use report::write_report;
