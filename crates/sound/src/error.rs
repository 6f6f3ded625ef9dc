//! Why a source or a sink could not be opened: each message says what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use antiphon_core::UnitError;
use antiphon_core::uri::UriError;
use antiphon_media::{FormatError, StreamFormat};

/// Why a source or sink was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The text is no URI, or has an unknown, repeated or unreadable key.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A quantity without its unit, or out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// An unsupported sampling rate, channel count or sample format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// One of these in a source or sink that is named.
    #[error("'{text}': {error}")]
    In {
        /// As it was written.
        text: String,
        /// What is wrong in it.
        error: Box<OpenError>,
    },
    /// A scheme that is no source or sink.
    #[error("unknown {kind} '{name}'{}; known: {known}", antiphon_core::did_you_mean(.nearest.as_ref()))]
    UnknownName {
        /// `source`, `sink`, `tone`, `clip`, …
        kind: &'static str,
        /// The text.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// Something planned that this version cannot do.
    #[error("{what} is not in this version: {instead}")]
    NotInThisVersion {
        /// The requested value.
        what: String,
        /// The current alternative.
        instead: String,
    },
    /// An invalid combination of valid settings.
    #[error("{what}: {remedy}")]
    Refused {
        /// The error.
        what: String,
        /// What would be valid.
        remedy: String,
    },
    /// No such file or folder.
    #[error("{} does not exist: check the spelling and the folder ({})", .path.display(), .cwd)]
    Missing {
        /// The path as written.
        path: PathBuf,
        /// Where relative paths start.
        cwd: String,
    },
    /// A folder where a file is needed.
    #[error("{} is a folder: name a file in it", .path.display())]
    Directory {
        /// The path as written.
        path: PathBuf,
    },
    /// The operating system denies access.
    #[error("{}: permission denied ({access}): change its permissions (ls -l shows them) or choose another path", .path.display())]
    Permission {
        /// The path as written.
        path: PathBuf,
        /// `reading` or `writing`.
        access: &'static str,
    },
    /// A recording of this name exists; recordings are overwritten only on request.
    #[error("{} exists and is not overwritten: record to {}, or add ?number=yes (next free number) or ?overwrite=yes", .path.display(), .free.display())]
    Exists {
        /// The path as written.
        path: PathBuf,
        /// A name that is free.
        free: PathBuf,
    },
    /// Any other error of the operating system.
    #[error("{}: {why}", .path.display())]
    Io {
        /// The path as written.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// The bytes are not a supported sound format.
    #[error(
        "{name} is an unsupported or damaged sound file ({why}); WAV, FLAC, Ogg Vorbis and MP3 are supported; convert others, for example with: ffmpeg -i {name} sound.wav"
    )]
    NotAudio {
        /// The path or its substitute.
        name: String,
        /// The content found.
        why: String,
    },
    /// Sound, but with an encoding or layout that is not supported.
    #[error("{name}: {why} is not supported: convert it, for example with: ffmpeg -i {name} sound.wav")]
    Unsupported {
        /// The path or its substitute.
        name: String,
        /// The unsupported feature.
        why: String,
    },
    /// Sound of a rate or with a number of channels that is not supported.
    #[error("{name}: {why}; convert it, for example with: ffmpeg -i {name} -ac 2 -ar 48000 sound.wav")]
    FileFormat {
        /// The path or its substitute.
        name: String,
        /// What is not supported, and what is.
        why: FormatError,
    },
    /// A sound file without a single whole sample frame.
    #[error("{name} contains no sound{}: choose another file", .why.as_ref().map(|w| format!(" ({w})")).unwrap_or_default())]
    Empty {
        /// The path or its substitute.
        name: String,
        /// Why, where known.
        why: Option<String>,
    },
    /// Raw sound without a description of its format.
    #[error(
        "standard {stream} has raw samples and needs their format, for example {example}; missing: {missing}"
    )]
    NeedsFormat {
        /// `input` or `output`.
        stream: &'static str,
        /// A full example.
        example: &'static str,
        /// The missing keys.
        missing: String,
    },
    /// Standard input or output is a terminal.
    #[error("standard {stream} is a terminal: {remedy}")]
    Terminal {
        /// `input` or `output`.
        stream: &'static str,
        /// How to use it.
        remedy: &'static str,
    },
    /// A sink with another rate or channel count than the stream's.
    #[error(
        "the sink was asked for {wanted}, but the stream is {stream}: omit rate= and channels=, or convert it first"
    )]
    Mismatch {
        /// What the sink's URI says.
        wanted: String,
        /// What the stream is.
        stream: StreamFormat,
    },
}

impl OpenError {
    /// The same, naming the source or sink in which it is, if it does not yet.
    pub(crate) fn within(self, text: &str) -> Self {
        match self {
            OpenError::Uri(_) | OpenError::Unit(_) | OpenError::Format(_) => {
                OpenError::In { text: text.into(), error: Box::new(self) }
            }
            other => other,
        }
    }

    /// The operating system's error for `path`, as a helpful message. `access`: `reading` or `writing`.
    pub(crate) fn io(path: &Path, access: &'static str, error: &io::Error) -> Self {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => OpenError::Missing {
                path,
                cwd: std::env::current_dir().map_or_else(|_| "?".into(), |dir| dir.display().to_string()),
            },
            io::ErrorKind::PermissionDenied => OpenError::Permission { path, access },
            io::ErrorKind::IsADirectory => OpenError::Directory { path },
            io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::Io { path, why: "the file system is read-only: choose another folder".into() }
            }
            _ => OpenError::Io { path, why: error.to_string() },
        }
    }

    /// `name` is none of `known`.
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        OpenError::UnknownName {
            kind,
            name: name.chars().take(40).collect(),
            nearest: antiphon_core::nearest(name, known.clone()).map(Into::into),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        }
    }

    /// The system has no thread left for reading or writing.
    pub(crate) fn no_thread(error: &io::Error) -> Self {
        OpenError::refused(format!("no thread could be started ({error})"), "close other programs")
    }

    pub(crate) fn refused(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        OpenError::Refused { what: what.into(), remedy: remedy.into() }
    }
}

/// Messages of a source or sink besides the sound: a file that ended early, a header that was repaired.
///
/// Written on the thread that reads or writes the disk, read by the thread of the user interface; never touched by the
/// media thread.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    /// The notes so far, oldest first.
    pub fn list(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a line, unless it is already there; so a file with many errors does not fill the memory.
    pub(crate) fn add(&self, line: impl Into<String>) {
        const MOST: usize = 16;
        let line = line.into();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST && !lines.contains(&line) {
            lines.push(line);
        }
    }
}
