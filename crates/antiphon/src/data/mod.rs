//! Data beside the sound: from a file, or lines as they come, to the session, and from the session into files.
//!
//! ```text
//! file, lines ─ pieces ─ thread ─ ring ─ session        session ─ ring ─ thread ─ file, pipe
//! ```
//!
//! The media thread copies pieces and no more. Reading and writing have a thread of their own.

mod places;
mod receiving;
mod sending;

use antiphon_session::{DataTrackCounters, MOST_DATA_TRACKS, Session};

pub(crate) use receiving::{DataCounters, DataFiles};
pub(crate) use sending::DataInput;

use crate::Error;

/// A data track that is sent.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct DataSent {
    /// The file; `-` for standard input.
    pub source: String,
    /// Bytes handed to the transport.
    pub bytes: u64,
    /// Pieces in them: packets.
    pub pieces: u64,
    /// Pieces that were left out, as they had waited for longer than their deadline.
    pub expired: u64,
    /// Pieces that the transport refused, or gave up.
    pub refused: u64,
    /// Whether the data have ended, and all of them were handed over or counted here.
    pub ended: bool,
    /// The scheme of their own transport; `None` if they go with the sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<&'static str>,
}

/// A data track that is received.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct DataReceived {
    /// The file; `-` for standard output.
    pub file: String,
    /// Bytes that came, each counted once.
    pub bytes: u64,
    /// Bytes that never came, of those whose place is known.
    pub missing: u64,
    /// Where the first 16 holes are.
    pub holes: Vec<DataHole>,
    /// All holes.
    pub hole_count: u64,
    /// Whether the sender has said where the data end.
    pub ended: bool,
    /// Pieces that came faster than the file or its reader takes them, and were left out.
    pub dropped: u64,
    /// Why nothing more is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A place where data are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DataHole {
    /// The first byte that is missing, counted from the beginning.
    pub at: u64,
    /// How many.
    pub bytes: u64,
}

/// What a snapshot holds of the data tracks that are sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct DataSnapshot([Option<DataTrackCounters>; MOST_DATA_TRACKS]);

impl DataSnapshot {
    pub fn of(session: &Session) -> Self {
        let mut tracks = [None; MOST_DATA_TRACKS];
        tracks.iter_mut().zip(session.data_sent()).for_each(|(track, counted)| *track = Some(counted));
        DataSnapshot(tracks)
    }

    /// The same with the names of their sources.
    pub fn named(&self, sources: &[String], over: Option<&'static str>) -> Vec<DataSent> {
        let tracks = self.0.iter().flatten().zip(sources);
        let named = |(counted, source): (&DataTrackCounters, &String)| DataSent {
            source: source.clone(),
            bytes: counted.bytes,
            pieces: counted.pieces,
            expired: counted.expired,
            refused: counted.refused,
            ended: counted.ended,
            over,
        };
        tracks.map(named).collect()
    }
}

impl DataSent {
    /// A sentence if not all of it was sent that was to be. `is_stopped`: by the user.
    pub fn shortfall(&self, is_stopped: bool) -> Option<String> {
        let DataSent { source, bytes, expired, refused, ended, .. } = self;
        if !ended && !is_stopped {
            return Some(format!(
                "of the data of {source} {bytes} bytes were sent, and no more were taken: start 'antiphon receive' with --data there, or \
                 use a path with more room"
            ));
        }
        (*refused > 0)
            .then(|| format!("{refused} pieces of the data of {source} were not sent, as the transport refused them"))
            .or_else(|| (*expired > 0 && !is_stopped).then(|| format!("{expired} pieces of the data of {source} were left out: they had waited for longer than --data-deadline")))
    }
}

impl DataReceived {
    /// A sentence if something is missing.
    pub fn shortfall(&self) -> Option<String> {
        let DataReceived { file, bytes, missing, hole_count, ended, dropped, trouble, .. } = self;
        if let Some(why) = trouble {
            return Some(format!("data for {file}: {why}"));
        }
        let slow = match dropped {
            0 => String::new(),
            pieces => format!("; {pieces} pieces came faster than they were taken"),
        };
        if *missing > 0 {
            let first = self.holes.first().map_or(0, |hole| hole.at);
            let holes =
                if *hole_count == 1 { "hole".into() } else { format!("{hole_count} holes, the first") };
            return Some(format!(
                "data for {file}: {missing} bytes are missing, {holes} at byte {first}{slow}"
            ));
        }
        match (ended, bytes) {
            (true, _) => None,
            (false, 0) => Some(format!(
                "no data came for {file}: the sender needs --data, and reaches this receiver alone"
            )),
            (false, _) => Some(format!(
                "data for {file}: {bytes} bytes came, and the sender has not said that these were all{slow}"
            )),
        }
    }
}

/// Refuses more tracks than there are.
fn check_count(count: usize) -> Result<(), Error> {
    if count > MOST_DATA_TRACKS {
        return Err(Error::usage(format!("--data is given {count} times: {MOST_DATA_TRACKS} at most")));
    }
    Ok(())
}
