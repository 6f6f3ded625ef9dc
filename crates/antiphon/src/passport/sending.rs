//! What a sender knows of the path: when packets were sent, and their outcomes if the transport acknowledges.

use std::io;
use std::time::Duration;

use antiphon_core::Outcome;
use antiphon_trace::passport::{Delays, Direction, Hole, PacketRow, Section, Window, fields};

use super::Writer;
use super::live::{PacketEvent, Scribe};

/// Makes rows of packets sent.
pub(crate) struct Sending {
    section: Section,
    window: Window,
    opened: bool,
}

impl Sending {
    /// A packet every `interval`. Without `acknowledged`, only times of sending are known.
    pub fn new(
        transport: &'static str,
        repairs: bool,
        acknowledged: bool,
        header_bytes: u32,
        interval: Duration,
    ) -> Self {
        let (direction, delays, clock) = if acknowledged {
            (
                Direction::Both,
                Delays::RoundTrip,
                "the sender's, from handing a packet over to its acknowledgement",
            )
        } else {
            (Direction::Up, Delays::Unknown, "the sender's; arrival times are unknown")
        };
        let section = Section {
            transport: transport.into(),
            direction,
            delays,
            clock: clock.into(),
            repairs,
            header_bytes,
            // Size of the first packet, once known.
            packet_bytes: 0,
            interval_ns: u64::try_from(interval.as_nanos()).ok(),
            fields: fields(),
        };
        Sending { section, window: Window::new(Hole::NotSent), opened: false }
    }

    fn open(&mut self, packet_bytes: u32, writer: &mut Writer) -> io::Result<()> {
        if !std::mem::replace(&mut self.opened, true) {
            self.section.packet_bytes = packet_bytes;
            writer.section(&self.section)?;
        }
        Ok(())
    }
}

impl Scribe for Sending {
    fn note(&mut self, passing: PacketEvent, writer: &mut Writer) -> io::Result<()> {
        match passing {
            PacketEvent::Sent { number, at, len } => {
                let bytes = len as u32 + self.section.header_bytes;
                self.open(bytes, writer)?;
                let sent = Some(at.as_nanos() as i64);
                let row = PacketRow { number, sent, arrived: None, bytes: Some(bytes), duplicates: 0 };
                self.window.put(row, |row| writer.packet(&row))
            }
            PacketEvent::Outcome { number, at, outcome } => {
                match (outcome, self.window.slot(number)) {
                    (Outcome::Acked, Some(Some(row))) => row.arrived = Some(at.as_nanos() as i64),
                    // It was not on the path, or that is unknown.
                    (Outcome::Expired { .. } | Outcome::Aborted, Some(slot)) => *slot = None,
                    // Too late to be recorded: the row was written without its arrival.
                    (Outcome::Acked, None) => writer.count_unrecorded(1),
                    _ => {}
                }
                Ok(())
            }
            PacketEvent::Began { .. } | PacketEvent::Arrived { .. } => Ok(()),
        }
    }

    fn finish(&mut self, writer: &mut Writer) -> io::Result<()> {
        self.window.flush(|row| writer.packet(&row))
    }
}

#[cfg(test)]
mod tests;
