//! The journal of an experiment: a header, then a line of JSON for each run as it ends, so that what was interrupted can go
//! on.
//!
//! It loses no line that was written: not when the program is killed, not when the disk is full. Room for the runs under way
//! is taken beforehand, as empty lines behind the last one, and written over. So a disk that fills up is seen before a run
//! begins, not when it has ended.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Finished;

/// The first line of a journal: what its runs belong to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Of the program.
    pub version: String,
    /// Which build of the program; two builds may differ in what they compute.
    pub build: String,
    /// The scenario's title.
    pub title: String,
    /// [`digest`] of the scenario's text.
    pub digest: String,
    /// The command that made the journal.
    pub command: String,
    /// In which setting its runs were done, and what of them is not the scenario's: `model`, `real, 60s`. Files call it
    /// `ground`.
    #[serde(rename = "ground")]
    pub setting: String,
}

/// Why a line is none of a journal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no line of a journal: {0}")]
pub struct JournalError(String);

/// Of the journal's form: goes up when older programs would misread it.
const SCHEMA: u64 = 2;

/// A text in 16 hexadecimal digits (FNV-1a, 64 bits): tells one scenario from another, and withstands no forger.
pub fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// What every line has.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    record: String,
    schema: u64,
    #[serde(flatten)]
    content: T,
    /// The command that does the run again.
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

/// What a journal held when it was read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kept {
    /// Whose runs they are; `None` if it was never written whole.
    pub header: Option<Header>,
    /// The runs, as they ended.
    pub finished: Vec<Finished>,
    /// Lines that were none, a torn last one not counted.
    pub damaged: u64,
    /// It begins with something else: no journal at all.
    pub is_foreign: bool,
    /// Behind the last good line.
    end: u64,
    longest: u64,
}

impl Kept {
    /// Reads what is there, in bounded memory beyond the runs themselves.
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
        // Only one line can have been under way; more of them were something else.
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

/// What a journal is written to.
pub trait Storage: Read + Write + Seek {
    /// Cuts it off, or makes it longer.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
}

impl Storage for std::fs::File {
    fn set_len(&mut self, length: u64) -> io::Result<()> {
        std::fs::File::set_len(self, length)
    }
}

/// A line that is longer is none of ours.
const MAX_LINE: u64 = 64 << 20;

/// A journal being written.
#[derive(Debug)]
pub struct Journal<S: Storage> {
    storage: S,
    /// Behind the last line.
    end: u64,
    /// Behind the room that was taken.
    taken: u64,
    longest: u64,
}

impl<S: Storage> Journal<S> {
    /// Goes on behind what was read of it: what stands behind the last good line is cut off.
    pub fn open(mut storage: S, kept: &Kept) -> io::Result<Self> {
        storage.set_len(kept.end)?;
        Ok(Journal { storage, end: kept.end, taken: kept.end, longest: kept.longest })
    }

    /// Writes a line, over the room that was taken if there is some. An error leaves no trace of it.
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        let whole = format!("{line}\n");
        self.storage.seek(SeekFrom::Start(self.end))?;
        let written = self.storage.write_all(whole.as_bytes()).and_then(|()| self.storage.flush());
        if let Err(error) = written {
            // Half a line must not stand before the next; where even that fails it is passed over when read, and the
            // error that is told is the first one.
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

    /// Takes room for so many lines; an error if there is none.
    pub fn reserve(&mut self, lines: u64) -> io::Result<()> {
        // Lines of one experiment differ in their digits only; before the first one a guess.
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

    /// Gives room back that was taken.
    pub fn close(&mut self) -> io::Result<()> {
        self.taken = self.end;
        self.storage.set_len(self.end)
    }
}

/// A run with ten streams and a dozen media.
const FIRST_GUESS: u64 = 16 << 10;

#[cfg(test)]
mod tests;
