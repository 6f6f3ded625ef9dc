//! Reads a passport, which may come from any source.

use std::io::{self, BufRead, Read};

use super::{End, Header, Object, PacketRow, PassportError, Section, VERSION};

/// A line after the header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadLine {
    /// The packets of another section follow.
    Section(Section),
    /// A packet of the section read last.
    Packet(PacketRow),
}

/// Reads a passport line by line; memory is bounded by the longest line permitted ([`MAX_LINE`]).
pub struct PassportReader<R> {
    from: R,
    header: Header,
    line: u64,
    buffer: Vec<u8>,
    /// Whether a section was begun, and its last number.
    in_section: bool,
    last: Option<u64>,
    end: Option<End>,
}

impl<R: BufRead> PassportReader<R> {
    /// Reads the header.
    pub fn new(from: R) -> Result<Self, PassportError> {
        let header = Header::new("", 0);
        let (buffer, line) = (Vec::new(), 0);
        let mut reader =
            PassportReader { from, header, line, buffer, in_section: false, last: None, end: None };
        let whole = reader.next_line().map_err(|error| match error {
            PassportError::Line { .. } => PassportError::NotAPassport,
            error => error,
        })?;
        // Only the version is read first: the rest of another version may have any form.
        let value: serde_json::Value =
            whole.then(|| serde_json::from_slice(&reader.buffer).ok()).flatten().unwrap_or_default();
        let found = value["passport"]["version"].as_u64().ok_or(PassportError::NotAPassport)?;
        if found != u64::from(VERSION) {
            return Err(PassportError::Version { found: u32::try_from(found).unwrap_or(u32::MAX) });
        }
        match serde_json::from_value(value) {
            Ok(Object::Passport(header)) => reader.header = header,
            Ok(_) => return Err(PassportError::NotAPassport),
            Err(error) => return Err(reader.wrong(error)),
        }
        Ok(reader)
    }

    /// The last line, once [`Self::next`] has reached it.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The next line; `None` at the end, with or without (after a killed recording) an end line. A last line without
    /// its line feed was truncated and is left out.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<ReadLine>, PassportError> {
        if self.end.is_some() || !self.next_line()? {
            return Ok(None);
        }
        if self.buffer.starts_with(b"[") {
            return self.packet().map(Some);
        }
        match serde_json::from_slice(&self.buffer) {
            Ok(Object::Section(section)) => {
                (self.in_section, self.last) = (true, None);
                Ok(Some(ReadLine::Section(section)))
            }
            Ok(Object::End(end)) => {
                self.end = Some(end);
                Ok(None)
            }
            Ok(Object::Passport(_)) => Err(self.wrong("a second header; a file holds one passport")),
            Err(error) => Err(self.not_json(&error)),
        }
    }

    fn packet(&mut self) -> Result<ReadLine, PassportError> {
        type Fields = (u64, Option<i64>, Option<i64>, Option<u32>, u32);
        let (number, sent, arrived, bytes, duplicates) =
            serde_json::from_slice::<Fields>(&self.buffer).map_err(|error| self.not_json(&error))?;
        if !self.in_section {
            return Err(self.wrong("a packet before any section; {\"section\":…} must come first"));
        }
        if self.last.is_some_and(|last| number <= last) {
            return Err(self.wrong("packets must stand in rising order of their numbers, each once"));
        }
        self.last = Some(number);
        Ok(ReadLine::Packet(PacketRow { number, sent, arrived, bytes, duplicates }))
    }

    /// Reads a line into the buffer, without its line feed; returns whether it was complete.
    fn next_line(&mut self) -> Result<bool, PassportError> {
        self.buffer.clear();
        self.line += 1;
        (&mut self.from).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            return Ok(true);
        }
        if self.buffer.len() > MAX_LINE {
            return Err(self.wrong(format!("a line longer than {MAX_LINE} bytes")));
        }
        Ok(false)
    }

    /// The parser counts lines from this one.
    fn not_json(&self, error: &serde_json::Error) -> PassportError {
        let text = error.to_string();
        let why = text.rsplit_once(" at line ").map_or(&*text, |(why, _)| why);
        self.wrong(format!("{why} at column {}; record it again, or leave the line out", error.column()))
    }

    fn wrong(&self, why: impl ToString) -> PassportError {
        PassportError::Line { line: self.line, why: why.to_string() }
    }
}

/// A section with its packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Properties of all of them.
    pub section: Section,
    /// In rising order of their numbers.
    pub packets: Vec<PacketRow>,
}

/// A whole passport in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passport {
    /// Its header.
    pub header: Header,
    /// Its sections.
    pub sections: Vec<Recorded>,
    /// Whether the recording ended regularly.
    pub complete: bool,
    /// Packets missed because the recorder was too slow; they look lost.
    pub unrecorded: u64,
}

impl Passport {
    /// Reads a whole passport: [`MAX_SECTIONS`] and [`MAX_PACKETS`] bound the memory.
    pub fn read(from: impl BufRead) -> Result<Self, PassportError> {
        let mut reader = PassportReader::new(from)?;
        let (mut sections, mut packets) = (Vec::<Recorded>::new(), 0usize);
        while let Some(line) = reader.next()? {
            match line {
                ReadLine::Section(section) if sections.len() < MAX_SECTIONS => {
                    sections.push(Recorded { section, packets: Vec::new() });
                }
                ReadLine::Section(_) => {
                    return Err(reader.wrong(format!("more than {MAX_SECTIONS} sections; split the file")));
                }
                ReadLine::Packet(_) if packets == MAX_PACKETS => {
                    return Err(
                        reader.wrong(format!("more than {MAX_PACKETS} packets; record a shorter time"))
                    );
                }
                ReadLine::Packet(row) => {
                    packets += 1;
                    sections.last_mut().expect("a packet comes behind a section").packets.push(row);
                }
            }
        }
        let end = reader.end();
        let unrecorded = end.map_or(0, |end| end.unrecorded);
        Ok(Passport { header: reader.header, sections, complete: end.is_some(), unrecorded })
    }

    /// Opens and reads the file at `path`.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, PassportError> {
        let path = path.as_ref();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("'{}': {error}", path.display()));
        let file = std::fs::File::open(path).map_err(named)?;
        Passport::read(io::BufReader::new(file))
    }
}

/// The longest line: a command line may be long, a packet takes 100 bytes at most.
pub const MAX_LINE: usize = 1 << 17;
/// The most sections: every transport in both directions, or a receiver's streams of one evening.
pub const MAX_SECTIONS: usize = 1_024;
/// The most packets: two transports both ways for an hour and a half of 5.3 ms packets; 280 MB.
pub const MAX_PACKETS: usize = 4_000_000;
