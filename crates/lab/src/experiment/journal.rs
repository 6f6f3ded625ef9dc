//! The journal of an experiment: a header, then a line of JSON for each run as it ends, so that an interrupted
//! experiment can be continued.
//!
//! No line that was written is lost, whether the program is killed or the disk is full. Space for the runs in progress
//! is reserved in advance, as empty lines after the last one, and then overwritten, so that a full disk is noticed
//! before a run begins, not when it has ended.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Finished;

/// The first line of a journal: what its runs belong to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the program.
    pub version: String,
    /// Build of the program; two builds may compute different figures.
    pub build: String,
    /// The scenario's title.
    pub title: String,
    /// [`digest`] of the scenario's text.
    pub digest: String,
    /// The command that made the journal.
    pub command: String,
    /// The setting of its runs, and what the scenario does not fix of it: `model`, `real, 60s`. Files call it `ground`.
    #[serde(rename = "ground")]
    pub setting: String,
}

/// Why a line is not a journal line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid line of a journal: {0}")]
pub struct JournalError(String);

/// Version of the journal's format: increased when older programs would misread it.
const SCHEMA: u64 = 2;

/// A text's hash in 16 hexadecimal digits (FNV-1a, 64 bits): tells scenarios apart, but is not secure against forgery.
pub fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// Fields of every line.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    record: String,
    schema: u64,
    #[serde(flatten)]
    content: T,
    /// The command that repeats the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    replay: String,
}

fn write<T: Serialize>(record: &str, content: &T, replay: &str) -> String {
    let line = Line { record: record.into(), schema: SCHEMA, content, replay: replay.into() };
    serde_json::to_string(&line).expect("plain data has a text")
}

fn parse<T: DeserializeOwned>(record: &str, line: &str) -> Result<T, JournalError> {
    let found: Line<T> = serde_json::from_str(line).map_err(|error| JournalError(error.to_string()))?;
    match (found.record == record, found.schema) {
        (true, SCHEMA) => Ok(found.content),
        _ => Err(JournalError(format!("a {} of form {}", found.record, found.schema))),
    }
}

impl Header {
    /// As a line, without its end.
    pub fn to_line(&self) -> String {
        write("experiment", self, "")
    }

    /// From a line.
    pub fn parse(line: &str) -> Result<Header, JournalError> {
        parse("experiment", line)
    }
}

impl Finished {
    /// As a line, without its end. `replay` is the command that runs this run again.
    pub fn to_line(&self, replay: &str) -> String {
        write("run", self, replay)
    }

    /// From a line.
    pub fn parse(line: &str) -> Result<Finished, JournalError> {
        parse("run", line)
    }
}

/// Content of a journal that was read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kept {
    /// The experiment of these runs; `None` if the header was never completely written.
    pub header: Option<Header>,
    /// The runs, as they ended.
    pub finished: Vec<Finished>,
    /// Invalid lines, not counting an incomplete last one.
    pub damaged: u64,
    /// Its beginning is not that of a journal.
    pub is_foreign: bool,
    /// Position after the last valid line.
    end: u64,
    longest: u64,
}

impl Kept {
    /// Reads a journal, in bounded memory beyond the runs themselves.
    pub fn read(reader: impl Read) -> io::Result<Kept> {
        let mut reader = BufReader::new(reader);
        let mut kept = Kept::default();
        let (mut at, mut torn) = (0, 0u64);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                break;
            }
            at += length;
            if line == b"\n" {
                continue;
            }
            let is_whole = line.ends_with(b"\n");
            if is_whole && str::from_utf8(&line).is_ok_and(|text| kept.take(text.trim_end())) {
                (kept.end, kept.longest) = (at, kept.longest.max(length));
                kept.damaged += torn;
                torn = 0;
            } else {
                kept.is_foreign |= is_whole && at == length;
                torn += 1;
            }
        }
        // At most one line can have been in progress; more invalid lines are damage.
        kept.damaged += torn.saturating_sub(1);
        Ok(kept)
    }

    /// Whether it is a line of a journal.
    fn take(&mut self, line: &str) -> bool {
        if self.header.is_none()
            && let Ok(header) = Header::parse(line)
        {
            self.header = Some(header);
            return true;
        }
        Finished::parse(line).map(|run| self.finished.push(run)).is_ok()
    }
}

/// The file that a journal is written to.
pub trait Storage: Read + Write + Seek {
    /// Truncates it, or extends it.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
}

impl Storage for std::fs::File {
    fn set_len(&mut self, length: u64) -> io::Result<()> {
        std::fs::File::set_len(self, length)
    }
}

/// A longer line cannot be ours.
const MAX_LINE: u64 = 64 << 20;

/// A journal open for writing.
#[derive(Debug)]
pub struct Journal<S: Storage> {
    storage: S,
    /// Position after the last line.
    end: u64,
    /// Position after the reserved space.
    taken: u64,
    longest: u64,
}

impl<S: Storage> Journal<S> {
    /// Continues after the runs that were read: anything after the last valid line is cut off.
    pub fn open(mut storage: S, kept: &Kept) -> io::Result<Self> {
        storage.set_len(kept.end)?;
        Ok(Journal { storage, end: kept.end, taken: kept.end, longest: kept.longest })
    }

    /// Writes a line, over reserved space if there is any. After an error no part of it remains.
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        let whole = format!("{line}\n");
        self.storage.seek(SeekFrom::Start(self.end))?;
        let written = self.storage.write_all(whole.as_bytes()).and_then(|()| self.storage.flush());
        if let Err(error) = written {
            // A partial line must not precede the next one. If even this fails, readers skip it; the first error is
            // returned.
            let _half_is_passed_over = self.storage.set_len(self.end);
            self.taken = self.end;
            return Err(error);
        }
        let length = whole.len() as u64;
        self.end += length;
        self.taken = self.taken.max(self.end);
        self.longest = self.longest.max(length);
        Ok(())
    }

    /// Reserves space for so many lines; an error if there is none.
    pub fn reserve(&mut self, lines: u64) -> io::Result<()> {
        // Lines of one experiment differ only in their digits; before the first line, a guess.
        let wanted = self.end + lines * (2 * self.longest).max(FIRST_GUESS);
        if self.taken >= wanted {
            return Ok(());
        }
        self.storage.seek(SeekFrom::Start(self.taken))?;
        let empty = vec![b'\n'; (wanted - self.taken) as usize];
        let taken = self.storage.write_all(&empty).and_then(|()| self.storage.flush());
        if taken.is_ok() {
            self.taken = wanted;
        }
        taken
    }

    /// Releases reserved space.
    pub fn close(&mut self) -> io::Result<()> {
        self.taken = self.end;
        self.storage.set_len(self.end)
    }
}

/// A run with ten streams and a dozen media.
const FIRST_GUESS: u64 = 16 << 10;

#[cfg(test)]
mod tests;
