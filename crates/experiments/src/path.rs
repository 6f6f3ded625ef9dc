//! Any transport over a path that was recorded in a passport.

use std::path::Path;

use antiphon_lab::replay::{ReplayOptions, Replayed};
use antiphon_trace::Passport;

use antiphon::{Error, Stop};

/// Runs each of `transports`, by scheme, over the path recorded in the passport `file`, with the delays and losses of
/// the transport `as_seen_by`; without that, of one that repairs nothing by itself. Checks between two transports
/// whether to stop.
pub fn replay_path(
    file: &Path,
    as_seen_by: Option<&str>,
    transports: &[&str],
    options: &ReplayOptions,
    seed: u64,
    stop: &Stop,
) -> Result<Replayed, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::failed(format!("{}: {error}", file.display()));
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("{}: {error}", file.display()));
    let passport = Passport::open(file).map_err(|error| wrong(&error))?;
    let paths = passport.paths(as_seen_by).map_err(|error| wrong(&error))?;
    let mut all = Replayed { runs: Vec::new(), remarks: Vec::new() };
    for scheme in transports {
        if stop.is_asked() {
            break;
        }
        let one =
            antiphon_lab::replay::replay(&paths, &[scheme], options, seed).map_err(|error| failed(&error))?;
        all.runs.extend(one.runs);
        all.remarks = one.remarks;
    }
    Ok(all)
}
