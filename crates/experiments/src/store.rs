//! The directory of an experiment.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use antiphon_lab::experiment::{Finished, Header, Journal, Kept, Setting, digest};

use super::{Job, RunOptions, threads};
use antiphon::Error;

/// An experiment's directory, locked, with its journal open.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    journal: Journal<File>,
    /// Lines for which space is reserved: those of runs in progress, and as many that wait to be written.
    ahead: u64,
    kept: usize,
    notes: Vec<String>,
    /// Unlocked when it is closed, in whatever way.
    _lock: Option<File>,
}

const RUNS: &str = "runs.jsonl";
/// File that records on what machine runs were measured.
pub(super) const MACHINE: &str = "machine.txt";

impl Store {
    /// Opens the directory, and reads the existing runs.
    pub(super) fn open(
        job: &Job,
        header: &Header,
        options: &RunOptions,
    ) -> Result<(Self, Vec<Finished>), Error> {
        let setting = if options.real.is_some() { Setting::Real } else { Setting::Model };
        let directory = directory(job, &options.results, setting);
        let failed = |what: &str, error: io::Error| failure(&directory.join(what), &error, 0);
        std::fs::create_dir_all(&directory).map_err(|error| failed("", error))?;
        let lock = lock(&directory)?;
        let path = directory.join(RUNS);
        let mut notes = Vec::new();
        if options.fresh && path.exists() {
            let old = directory.join("runs.jsonl.old");
            std::fs::rename(&path, &old).map_err(|error| failed(RUNS, error))?;
            notes.push(format!("earlier runs were moved to {}", old.display()));
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| failed(RUNS, error))?;
        let kept = Kept::read(&file).map_err(|error| failed(RUNS, error))?;
        belongs(&kept, header, &path)?;
        let mut journal = Journal::open(file, &kept).map_err(|error| failed(RUNS, error))?;
        if kept.damaged > 0 {
            let (shown, damaged) = (path.display(), kept.damaged);
            notes.push(format!("{shown} has {damaged} damaged lines; their runs are repeated"));
        }
        if kept.header.is_none() {
            journal.append(&header.to_line()).map_err(|error| failed(RUNS, error))?;
        }
        let ahead = 2 * threads(options.threads) as u64 + 1;
        journal.reserve(ahead).map_err(|error| failed(RUNS, error))?;
        let finished = kept.finished;
        Ok((Store { directory, journal, ahead, kept: finished.len(), notes, _lock: lock }, finished))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Keeps a run. An error if it could not be written, or if there is no space for those that follow.
    pub(super) fn keep(&mut self, run: &Finished, replay: &str) -> Result<(), Error> {
        let kept = self.journal.append(&run.to_line(replay));
        self.kept += usize::from(kept.is_ok());
        kept.and_then(|()| self.journal.reserve(self.ahead))
            .map_err(|error| failure(&self.directory.join(RUNS), &error, self.kept))
    }

    /// Writes a file whole or leaves the old one.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!(".{name}.new")));
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|error| {
            // A partly written file takes space that others need. If it cannot be removed either, or was never made,
            // the write error is the one to report, and the next write begins it anew.
            let _ = std::fs::remove_file(&new);
            failure(&path, &error, self.kept)
        })
    }

    /// Closes it; returns messages for the user.
    pub(super) fn close(mut self) -> Vec<String> {
        // Cuts off space that was reserved and not needed. If that fails only empty lines remain, which the reader
        // skips.
        let _ = self.journal.close();
        self.notes
    }
}

/// Directory of an experiment's runs; those on sockets are never among those of the model.
fn directory(job: &Job, results: &Path, setting: Setting) -> PathBuf {
    let directory = results.join(&job.name);
    match setting {
        Setting::Model => directory,
        Setting::Real => directory.join("real"),
    }
}

/// On what machine an experiment was last measured; `None` if that was not recorded.
pub(super) fn machine(job: &Job, results: &Path) -> Option<String> {
    let file = File::open(directory(job, results, Setting::Real).join(MACHINE)).ok()?;
    let mut text = String::new();
    // At most a sentence.
    file.take(1000).read_to_string(&mut text).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// The runs that an experiment has, and what their journal says of its setting, without locking or changing anything.
pub(super) fn read(job: &Job, results: &Path, setting: Setting) -> Result<(Vec<Finished>, String), Error> {
    let path = directory(job, results, setting).join(RUNS);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), String::new())),
        Err(error) => return Err(Error::failed(format!("cannot read {}: {error}", path.display()))),
    };
    let kept = Kept::read(file)
        .map_err(|error| Error::failed(format!("cannot read {}: {error}", path.display())))?;
    let Some(header) = kept.header else { return Ok((kept.finished, String::new())) };
    match header.digest == digest(job.scenario.text()) {
        true => Ok((kept.finished, header.setting)),
        false => Err(other_scenario(&header, &path)),
    }
}

fn belongs(kept: &Kept, ours: &Header, path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let Some(theirs) = &kept.header else {
        // Killed before its first line was complete, or never begun.
        return match kept.is_foreign || !kept.finished.is_empty() {
            true => {
                Err(Error::usage(format!("{shown} is not a journal of antiphon: choose another --results")))
            }
            false => Ok(()),
        };
    };
    if theirs.digest != ours.digest {
        return Err(other_scenario(theirs, path));
    }
    if theirs.setting != ours.setting {
        return Err(Error::usage(format!(
            "{shown} has runs of another length ({}, not {}): add --fresh to start over, which sets it aside, or name \
             another --results",
            theirs.setting, ours.setting
        )));
    }
    if theirs.build != ours.build {
        return Err(Error::usage(format!(
            "{shown} was begun by another build of antiphon (version {}), whose figures may differ: add --fresh to \
             begin anew, which moves it aside, or choose another --results",
            theirs.version
        )));
    }
    Ok(())
}

fn other_scenario(theirs: &Header, path: &Path) -> Error {
    Error::usage(format!(
        "{} has results of another scenario or of another state of this one (\"{}\"): add --fresh to start over, which \
         moves them aside, or choose another --results",
        path.display(),
        theirs.title
    ))
}

/// Locks the directory for as long as the file is open. `None` on file systems without locks.
fn lock(directory: &Path) -> Result<Option<File>, Error> {
    let path = directory.join("lock");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(|error| failure(&path, &error, 0))?;
    match file.try_lock() {
        Ok(()) => {
            // The process number only serves the error message of another process; the lock holds without it.
            let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut who = String::new();
            let told = file.take(20).read_to_string(&mut who).is_ok() && !who.is_empty();
            let who = if told { format!(" (process {who})") } else { String::new() };
            Err(Error::failed(format!(
                "another antiphon is using {}{who}: wait until it ends, or choose another --results",
                directory.display()
            )))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// What cannot be written, how many runs are safe, and what to do.
fn failure(path: &Path, error: &io::Error, kept: usize) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        _ => "choose a writable directory with --results",
    };
    let safe = match kept {
        0 => String::new(),
        _ => format!("; {kept} runs are saved, and the same command continues from there"),
    };
    Error::failed(format!("cannot write {}: {error}: {remedy}{safe}", path.display()))
}
