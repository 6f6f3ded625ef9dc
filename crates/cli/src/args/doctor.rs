//! Options of `doctor`.

use antiphon::DoctorOptions;
use clap::Args;

use crate::completions;

/// What to check.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Transports to try, separated by commas; each can have settings [default: all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = completions::transport_with_keys())]
    pub transports: Vec<String>,
}

impl DoctorArgs {
    /// Converts to the facade's options.
    pub fn options(&self) -> DoctorOptions {
        DoctorOptions { transports: self.transports.clone() }
    }
}

const EXAMPLES: &str = "\
Examples:
  antiphon doctor                check everything; some ten seconds
  antiphon doctor -t rtp,sctp    with two transports only
  antiphon doctor --json         a JSON line for each check

Exit code 0: nothing is at fault, though warnings may name changes.
Exit code 1: something is at fault.";
