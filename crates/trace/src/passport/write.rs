//! Writes a passport line by line.

use std::io::{self, Write};

use serde::Serialize;

use super::{End, Header, Object, PacketRow, Section};

/// Writes a passport during the recording; memory does not grow. Give it a buffered writer.
pub struct PassportWriter<W> {
    to: W,
    packets: u64,
    unrecorded: u64,
}

impl<W: Write> PassportWriter<W> {
    /// Begins a passport and writes its header at once, so that a file that can't be written is detected before the
    /// stream.
    pub fn begin(mut to: W, header: &Header) -> io::Result<Self> {
        line(&mut to, &Object::Passport(header.clone()))?;
        to.flush()?;
        Ok(PassportWriter { to, packets: 0, unrecorded: 0 })
    }

    /// Begins a section: the packets that follow belong to it.
    pub fn section(&mut self, section: &Section) -> io::Result<()> {
        line(&mut self.to, &Object::Section(section.clone()))
    }

    /// Writes a packet of the current section; its number is above that of the one before it.
    pub fn packet(&mut self, row: &PacketRow) -> io::Result<()> {
        line(&mut self.to, &(row.number, row.sent, row.arrived, row.bytes, row.duplicates))?;
        self.packets += 1;
        Ok(())
    }

    /// Adds packets that were not recorded; the last line states their number.
    pub fn count_unrecorded(&mut self, packets: u64) {
        self.unrecorded += packets;
    }

    /// Packets written so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Passes buffered bytes on to the writer below, up to a whole line.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes the last line and flushes.
    pub fn finish(mut self) -> io::Result<W> {
        let end = End { packets: self.packets, unrecorded: self.unrecorded };
        line(&mut self.to, &Object::End(end))?;
        self.to.flush()?;
        Ok(self.to)
    }
}

fn line(to: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, object)?;
    to.write_all(b"\n")
}
