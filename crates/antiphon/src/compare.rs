use crate::{CompareOptions, Error};
use antiphon_measure::{Advice, TransportFigures};
use antiphon_net::Stop;
use std::path::PathBuf;
use std::time::Duration;

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One record per transport, in the order of the registry.
    pub figures: Vec<TransportFigures>,
    /// Which transport to take, one record per purpose.
    pub advice: Vec<Advice>,
    /// The link, and how it was made.
    pub link: LinkSummary,
    /// Transports that could not be measured, and why.
    pub failures: Vec<(String, String)>,
    /// What the reader must know of the run as a whole (scheduling obtained, options refused).
    pub notes: Vec<String>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Where the report is.
    pub report: Option<PathBuf>,
}

/// The link of a comparison.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LinkSummary {
    /// As it was asked for: a preset, a description, or the peer's name.
    pub name: String,
    /// How it was put between the sockets, in a sentence.
    pub method: String,
    /// What it can't model here.
    pub limits: Vec<String>,
}

/// How far a comparison is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the streams began.
    pub elapsed: Duration,
    /// How long they will last, where known.
    pub total: Option<Duration>,
    /// Each transport so far.
    pub transports: Vec<TransportProgress>,
}

/// How far one transport is.
#[derive(Clone, Debug)]
pub struct TransportProgress {
    /// Its scheme.
    pub transport: &'static str,
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
    /// Frames that came back after their playout time.
    pub late: u64,
    /// The last round trip.
    pub rtt: Option<Duration>,
}

/// Streams a source over several transports at once and measures each. `progress` is called about ten times a second.
pub fn compare(
    options: &CompareOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Comparison, Error> {
    let _ = (options, stop, progress);
    Err(Error::failed("not built yet"))
}
