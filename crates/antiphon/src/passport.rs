//! Path passports of `compare`, made from its logs when the run is over; [`live`] makes those of `send` and `receive`.

mod hearing;
mod live;
mod sending;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use antiphon_measure::{Fate, LoggedPacket};
use antiphon_trace::passport::{Delays, Direction, Header, PacketRow, Section, fields};
use antiphon_trace::{PassportError, PassportWriter};

pub(crate) use hearing::Hearing;
pub(crate) use live::Recorder;
pub(crate) use sending::Sending;

use crate::measured::Measured;
use crate::{Comparison, Error};

/// A passport's file, with its header in it.
pub(crate) struct PassportFile {
    path: PathBuf,
    writer: Writer,
}

type Writer = PassportWriter<BufWriter<File>>;

impl PassportFile {
    /// Creates the file, so that an error is known before the stream begins.
    pub fn create(path: &Path, command: &str, seed: u64) -> Result<Self, Error> {
        let header = Header::new(command, seed);
        let begun = File::create(path)
            .and_then(|file| PassportWriter::begin(BufWriter::with_capacity(BUFFER, file), &header));
        let writer = begun.map_err(|error| {
            Error::failed(format!(
                "cannot write the passport '{}': {error}; choose a file that can be written to",
                path.display()
            ))
        })?;
        Ok(PassportFile { path: path.into(), writer })
    }

    /// Writes what `measured` holds and records in `comparison` where the file is, or why it could not be written.
    pub fn fill(mut self, comparison: &mut Comparison, measured: &[Measured]) {
        let written = measured.iter().try_for_each(|one| write_log(&mut self.writer, one));
        match written.and_then(|()| self.writer.finish()) {
            Ok(_) => comparison.passport = Some(self.path),
            Err(error) => comparison.failures.push(("passport".into(), incomplete(&self.path, &error))),
        }
        for one in measured.iter().filter(|one| !one.log.is_complete()) {
            let text = "the run was longer than its log: the passport has only the beginning";
            comparison.notes.push(format!("{}: {text}", one.choice.label));
        }
    }
}

/// The message about a passport that was cut short.
fn incomplete(path: &Path, error: &io::Error) -> String {
    format!(
        "the passport '{}' is incomplete: {error}; complete lines can be read; free some space or choose \
         another file",
        path.display()
    )
}

/// One transport: both directions where arrivals at the far end are known, else the round trip.
fn write_log(writer: &mut Writer, measured: &Measured) -> io::Result<()> {
    let rows = || measured.log.rows().filter(|row| on_the_path(row.fate));
    let section = |direction, delays, clock: &str| Section {
        transport: measured.choice.label.clone(),
        direction,
        delays,
        clock: clock.into(),
        repairs: measured.profile.retransmits,
        header_bytes: measured.header_bytes,
        packet_bytes: rows().map(|row| row.bytes).max().unwrap_or(0) + measured.header_bytes,
        interval_ns: Some(measured.log.config().packet.as_nanos() as u64),
        fields: fields(),
    };
    let packet = |row: &LoggedPacket, sent: Option<i64>, arrived, duplicates| PacketRow {
        number: row.seq,
        sent,
        arrived,
        bytes: Some(row.bytes + measured.header_bytes),
        duplicates,
    };
    let sent = |row: &LoggedPacket| Some(row.sent.as_nanos() as i64);
    let back = |row: &LoggedPacket| row.received.map(|at| at.as_nanos() as i64);
    let there = |row: &LoggedPacket| row.one_way.map(|way| (row.sent + way).as_nanos() as i64);
    if rows().all(|row| row.one_way.is_none()) {
        writer.section(&section(Direction::Both, Delays::RoundTrip, "the sender's, both ways"))?;
        return rows()
            .try_for_each(|row| writer.packet(&packet(&row, sent(&row), back(&row), row.duplicates)));
    }
    let clock = "one for both ends; duplicates are counted on return";
    writer.section(&section(Direction::Up, Delays::OneWay, clock))?;
    rows().try_for_each(|row| writer.packet(&packet(&row, sent(&row), there(&row), 0)))?;
    writer.section(&section(Direction::Down, Delays::OneWay, clock))?;
    let came_there = rows().filter(|row| row.one_way.is_some());
    came_there
        .into_iter()
        .try_for_each(|row| writer.packet(&packet(&row, there(&row), back(&row), row.duplicates)))
}

/// Whether the frame was sent: one that its transport refused or gave up says nothing about the path.
fn on_the_path(fate: Fate) -> bool {
    !matches!(fate, Fate::Expired | Fate::Refused)
}

impl From<PassportError> for Error {
    fn from(error: PassportError) -> Self {
        Error::usage(error.to_string())
    }
}

/// Bytes gathered for one system call.
const BUFFER: usize = 1 << 16;
