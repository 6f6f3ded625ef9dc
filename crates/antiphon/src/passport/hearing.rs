//! What a receiver knows of the path: when packets arrived, which numbers never did, and the sender's clock if packets
//! carry it.

use std::io;

use antiphon_core::{NtpTime, Unwrapper};
use antiphon_trace::passport::{Delays, Direction, Hole, PacketRow, Section, Window, fields};

use super::Writer;
use super::live::{PacketEvent, Scribe};

/// Makes rows of arrivals.
pub(crate) struct Hearing {
    transport: &'static str,
    repairs: bool,
    header_bytes: u32,
    hole: Hole,
    stream: Option<Stream>,
}

/// The current stream.
struct Stream {
    rate: u32,
    numbers: Unwrapper<16>,
    stamps: Unwrapper<32>,
    window: Window,
    first: Option<First>,
    last: (u64, i64),
    opened: bool,
}

/// The first packet of a stream, the origin of its times.
#[derive(Clone, Copy)]
struct First {
    number: u64,
    ntp: Option<NtpTime>,
    stamp: u64,
    at: i64,
    bytes: u32,
}

impl Hearing {
    /// `hole`: what it means if a number is missing.
    pub fn new(transport: &'static str, repairs: bool, hole: Hole, header_bytes: u32) -> Self {
        Hearing { transport, repairs, header_bytes, hole, stream: None }
    }
}

impl Scribe for Hearing {
    fn note(&mut self, passing: PacketEvent, writer: &mut Writer) -> io::Result<()> {
        match passing {
            PacketEvent::Began { rate } => {
                self.finish(writer)?;
                self.stream = Some(Stream::new(rate, self.hole));
            }
            PacketEvent::Arrived { sequence, timestamp, ntp, at, len } => {
                let Some(stream) = &mut self.stream else { return Ok(()) };
                let bytes = len as u32 + self.header_bytes;
                let row = stream.row(sequence, timestamp, ntp, at.as_nanos() as i64, bytes);
                let section =
                    (!stream.opened).then(|| stream.section(self.transport, self.repairs, self.header_bytes));
                stream.put(row, section, writer)?;
            }
            PacketEvent::Sent { .. } | PacketEvent::Outcome { .. } => {}
        }
        Ok(())
    }

    fn finish(&mut self, writer: &mut Writer) -> io::Result<()> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        if !stream.opened && stream.first.is_some() {
            writer.section(&stream.section(self.transport, self.repairs, self.header_bytes))?;
        }
        writer.count_unrecorded(stream.window.too_late());
        stream.window.flush(|row| writer.packet(&row))
    }
}

impl Stream {
    fn new(rate: u32, hole: Hole) -> Self {
        Stream {
            rate,
            numbers: Unwrapper::default(),
            stamps: Unwrapper::default(),
            window: Window::new(hole),
            first: None,
            last: (0, 0),
            opened: false,
        }
    }

    /// The row of an arrived packet. Its time of sending is on the sender's clock, shifted so that the first packet
    /// took no time: the clock in its header if the first packet has one, else RTP's time stamps.
    fn row(&mut self, sequence: u16, timestamp: u32, ntp: Option<NtpTime>, at: i64, bytes: u32) -> PacketRow {
        let (number, stamp) = (self.numbers.extend(sequence.into()), self.stamps.extend(timestamp.into()));
        let first = *self.first.get_or_insert(First { number, ntp, stamp, at, bytes });
        let since = match (first.ntp, ntp) {
            (Some(first), Some(ntp)) => Some(ntp.signed_nanos_since(first)),
            (Some(_), None) => None,
            (None, _) => {
                let ticks = i128::from(stamp) - i128::from(first.stamp);
                i64::try_from(ticks * 1_000_000_000 / i128::from(self.rate.max(1))).ok()
            }
        };
        let sent = since.map(|since| first.at.saturating_add(since));
        if let Some(sent) = sent.filter(|_| number > self.last.0) {
            self.last = (number, sent);
        }
        PacketRow { number, sent, arrived: Some(at), bytes: Some(bytes), duplicates: 0 }
    }

    /// Writes `section` before the first row.
    fn put(&mut self, row: PacketRow, mut section: Option<Section>, writer: &mut Writer) -> io::Result<()> {
        let opened = &mut self.opened;
        self.window.put(row, |row| {
            if let Some(section) = section.take() {
                writer.section(&section)?;
                *opened = true;
            }
            writer.packet(&row)
        })
    }

    fn section(&self, transport: &str, repairs: bool, header_bytes: u32) -> Section {
        let told = self.first.is_some_and(|first| first.ntp.is_some());
        let clock = if told { "the NTP extension of its packets" } else { "its RTP time stamps" };
        let interval = self.first.and_then(|first| {
            let steps = self.last.0.checked_sub(first.number).filter(|steps| *steps > 0)?;
            // On this clock the first packet was sent at its own arrival.
            u64::try_from(self.last.1.saturating_sub(first.at)).ok().map(|span| span / steps)
        });
        Section {
            transport: transport.into(),
            direction: Direction::Up,
            delays: Delays::Relative,
            clock: format!(
                "the sender's (from {clock}), shifted so that the first packet has no delay, and the receiver's"
            ),
            repairs,
            header_bytes,
            packet_bytes: self.first.map_or(0, |first| first.bytes),
            interval_ns: interval,
            fields: fields(),
        }
    }
}

#[cfg(test)]
mod tests;
