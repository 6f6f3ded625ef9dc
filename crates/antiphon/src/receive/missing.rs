//! What a recording misses: listed in a file beside it, and marked in it by cue points.

use std::path::{Path, PathBuf};

use antiphon_core::MediaTime;
use antiphon_session::{Gap, Gaps};
use antiphon_sound::{CuePoint, add_cue_points};

/// A recording, and what it misses.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Recording {
    /// The file.
    pub file: PathBuf,
    /// Sampling rate of the stream, in Hz.
    pub rate: u32,
    /// Length in sample frames at this rate, what is missing included.
    pub sample_frames: u64,
    /// Sample frames without sound of the sender.
    pub missing_sample_frames: u64,
    /// Where they are.
    pub missing: Vec<MissingSound>,
    /// Places of which the list has no room.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlisted: u64,
    /// The file that lists them, if it was written.
    #[serde(skip)]
    pub listed_in: Option<PathBuf>,
}

/// A stretch of a recording without sound of the sender.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct MissingSound {
    /// Where it begins, in seconds from the beginning.
    pub at_s: f64,
    /// How long it is, in seconds.
    pub duration_s: f64,
    /// Its first sample frame.
    pub first_sample_frame: u64,
    /// Its sample frames.
    pub sample_frames: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Recording {
    /// Of a finished file with so many sample frames.
    pub fn new(file: PathBuf, rate: u32, sample_frames: u64, gaps: &Gaps) -> Self {
        let missing = |gap: &Gap| MissingSound::new(gap.at, gap.frames, rate);
        Recording {
            file,
            rate,
            sample_frames,
            missing_sample_frames: gaps.frames(),
            missing: gaps.list().iter().map(missing).collect(),
            unlisted: gaps.unlisted(),
            listed_in: None,
        }
    }

    /// Writes the list beside the file and the marks into it, if something is missing or an older list is there. Returns
    /// what the user should know.
    pub fn list(&mut self, file_rate: u32) -> Vec<String> {
        let beside = sidecar(&self.file);
        if self.missing_sample_frames == 0 && !beside.exists() {
            return Vec::new();
        }
        let mut notes = Vec::new();
        let points: Vec<CuePoint> =
            self.missing.iter().map(|missing| missing.mark(self.rate, file_rate)).collect();
        if let Err(error) = add_cue_points(&self.file, &points) {
            notes.push(format!("what is missing could not be marked in '{}': {error}", self.file.display()));
        }
        let text = serde_json::to_string_pretty(self).expect("a recording is plain data") + "\n";
        match std::fs::write(&beside, text) {
            Ok(()) => self.listed_in = Some(beside),
            Err(error) => notes.push(format!("cannot write '{}': {error}", beside.display())),
        }
        notes
    }

    /// What is missing, in a sentence; `None` if nothing is.
    pub fn shortfall(&self) -> Option<String> {
        if self.missing_sample_frames == 0 {
            return None;
        }
        let seconds = MediaTime::new(self.missing_sample_frames, self.rate).duration().as_secs_f64();
        let places = match self.missing.len() as u64 + self.unlisted {
            1 => "in one place".to_string(),
            places => format!("in {places} places"),
        };
        let listed = self
            .listed_in
            .as_ref()
            .map_or_else(String::new, |file| format!(": '{}' lists what is missing", file.display()));
        Some(format!("'{}' misses {seconds:.3} s of sound {places}{listed}", self.file.display()))
    }
}

impl MissingSound {
    /// So many sample frames from `first` on, at this rate.
    pub(crate) fn new(first: u64, frames: u64, rate: u32) -> Self {
        let seconds = |frames: u64| MediaTime::new(frames, rate).duration().as_secs_f64();
        MissingSound {
            at_s: seconds(first),
            duration_s: seconds(frames),
            first_sample_frame: first,
            sample_frames: frames,
        }
    }

    fn mark(&self, rate: u32, file_rate: u32) -> CuePoint {
        let at = u128::from(self.first_sample_frame) * u128::from(file_rate) / u128::from(rate.max(1));
        let label = format!("{:.3} s missing", self.duration_s);
        CuePoint { at: u64::try_from(at).unwrap_or(u64::MAX), label }
    }
}

/// `take.wav.json` for `take.wav`.
fn sidecar(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    name.into()
}
