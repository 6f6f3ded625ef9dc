//! Options of `lab list`, `lab claims` and `lab report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::completions;
use crate::values;

/// Papers, and the directory of their results.
#[derive(Args, Debug)]
pub struct PaperArgs {
    /// Papers, such as tv-audio-wlan [default: all; of a report, those with results]
    #[arg(value_name = "PAPER", value_parser = completions::completed(values::uri, completions::papers), hide_possible_values = true)]
    pub papers: Vec<String>,
    /// Directory with the results of `antiphon lab run`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "antiphon-lab")]
    pub results: PathBuf,
}

/// Options of `lab report`.
#[derive(Args, Debug)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    #[command(flatten)]
    pub papers: PaperArgs,
    /// Directory for PAPER.html, PAPER-tables.csv and PAPER-claims.csv, and
    /// PAPER-real.csv if there are results of real sockets
    #[arg(short = 'o', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "antiphon-report")]
    pub out: PathBuf,
}

pub const LIST_EXAMPLES: &str = "\
Examples:
  antiphon lab list
      every experiment of the papers, and whether it can run
  antiphon lab list tv-audio-wlan --json";

pub const CLAIMS_EXAMPLES: &str = "\
Examples:
  antiphon lab claims
      which conclusions of the papers hold in our results
  antiphon lab claims tv-audio-wlan --json
      one claim per line, with its verdict and figures

A verdict is holds, does-not-hold or not-run. Claims that the paper's own
figures contradict are shown, but not required.";

const REPORT_EXAMPLES: &str = "\
Examples:
  antiphon lab run tv-audio-wlan && antiphon lab report
      run a paper's experiments, then write the report
  antiphon lab report tv-audio-wlan --out report";
