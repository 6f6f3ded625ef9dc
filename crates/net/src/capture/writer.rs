//! The thread that empties the taps into the file.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use antiphon_core::{Dissector, Epoch, Instant, NtpTime};
use antiphon_trace::pcapng::{Medium, Packet, PcapngFile, Totals};

use super::CaptureSummary;
use super::compose::Composer;
use super::facing::Facing;
use super::layers::Layers;
use super::record::{Direction, Head, Kind};
use super::tap::Drain;
use crate::clock::OsClock;

/// Orders to the writer.
pub(super) enum Order {
    /// A new interface.
    Tap { name: String, dissector: Box<dyn Dissector>, drain: Drain },
    /// Write everything and end.
    Finish,
}

/// Why the writer ended early.
#[derive(Debug)]
pub(super) struct Failure {
    pub source: io::Error,
    /// Packets in the file.
    pub packets: u64,
}

/// The writer's state, on its own thread.
pub(super) struct Writer<M> {
    file: PcapngFile<M>,
    interfaces: Vec<Interface>,
    facing: Facing,
    clock: OsClock,
    summary: CaptureSummary,
    /// Packets that are certainly in the file.
    safe: u64,
    body: Vec<u8>,
}

struct Interface {
    /// Its number in the file.
    number: u32,
    drain: Drain,
    composer: Composer,
    layers: Layers,
    packets: u64,
    /// Records that belong to the present round.
    budget: usize,
}

impl<M: Medium> Writer<M> {
    pub fn new(file: PcapngFile<M>, clock: OsClock) -> Self {
        Writer {
            file,
            interfaces: Vec::new(),
            facing: Facing::default(),
            clock,
            summary: CaptureSummary::default(),
            safe: 0,
            body: Vec::with_capacity(1 << 16),
        }
    }

    /// Runs until told to finish, or until the file cannot be written any more.
    pub fn run(&mut self, orders: &Receiver<Order>) -> Result<CaptureSummary, Failure> {
        loop {
            let finish = match orders.recv_timeout(ROUND) {
                Ok(Order::Tap { name, dissector, drain }) => {
                    self.add(&name, dissector, drain);
                    false
                }
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => true,
                Err(RecvTimeoutError::Timeout) => false,
            };
            let done = if finish { self.end() } else { self.round() };
            match done {
                Ok(()) if finish => return Ok(self.summary),
                Ok(()) => {}
                Err(source) => return Err(Failure { source, packets: self.safe }),
            }
        }
    }

    /// A further interface.
    pub fn add(&mut self, name: &str, dissector: Box<dyn Dissector>, drain: Drain) {
        let number = self.file.interface(name, DESCRIPTION);
        let (composer, layers) = (Composer::default(), Layers::new(name, dissector));
        self.interfaces.push(Interface { number, drain, composer, layers, packets: 0, budget: 0 });
    }

    /// Writes what the taps held at the beginning of the round, the oldest first, so that a busy tap cannot delay the
    /// others or the file.
    pub fn round(&mut self) -> io::Result<()> {
        for interface in &mut self.interfaces {
            interface.budget = interface.drain.records.slots();
        }
        while let Some((index, head)) = self.oldest() {
            self.write(index, &head)?;
        }
        self.file.flush()?;
        self.safe = self.summary.packets;
        Ok(())
    }

    fn oldest(&mut self) -> Option<(usize, Head)> {
        let heads = self.interfaces.iter_mut().enumerate().filter_map(|(index, interface)| {
            let head = interface.drain.head()?;
            (interface.budget > 0).then_some((index, head))
        });
        heads.min_by_key(|(_, head)| head.at)
    }

    fn write(&mut self, index: usize, head: &Head) -> io::Result<()> {
        let interface = &mut self.interfaces[index];
        interface.drain.take(head, &mut self.body);
        interface.budget -= 1;
        let direction = match head.kind {
            Kind::Datagram { direction, .. } | Kind::Opened(direction) | Kind::Stream(direction) => direction,
            Kind::Closed(_) => Direction::Received,
        };
        let ends = self.facing.complete(direction, head.ends);
        let nanos = unix_nanos(self.clock.epoch(), head.at);
        let (file, summary, packets) = (&mut self.file, &mut self.summary, &mut interface.packets);
        let number = interface.number;
        interface.composer.compose(head, ends, &self.body, |direction, bytes| {
            file.packet(&Packet { interface: number, nanos, way: direction.into(), bytes })?;
            *packets += 1;
            summary.packets += 1;
            summary.bytes += bytes.len() as u64;
            io::Result::Ok(())
        })?;
        interface.layers.show(file, summary, nanos, head, ends, &self.body)
    }

    /// The last round, and the totals.
    fn end(&mut self) -> io::Result<()> {
        self.round()?;
        let now = unix_nanos(self.clock.epoch(), self.clock.now());
        for interface in &mut self.interfaces {
            let dropped = interface.drain.dropped.load(Ordering::Relaxed);
            self.summary.dropped += dropped;
            self.file.statistics(interface.number, now, Totals { packets: interface.packets, dropped });
            self.summary.incomplete += interface.layers.end(&mut self.file, now);
        }
        self.file.flush()
    }

    #[cfg(test)]
    pub fn safe(&self) -> u64 {
        self.safe
    }

    #[cfg(test)]
    pub fn into_medium(self) -> M {
        self.file.into_medium()
    }
}

/// Wall-clock time of `at` in nanoseconds since 1970, right until the NTP era ends in 2036.
fn unix_nanos(epoch: Epoch, at: Instant) -> u64 {
    let zero = epoch.ntp_at_zero.to_bits();
    let seconds = (zero >> 32).wrapping_sub(NtpTime::UNIX_OFFSET_SECONDS) & 0xffff_ffff;
    // Rounded up, since the fraction was rounded down when it was computed from nanoseconds.
    let nanos = ((zero & 0xffff_ffff) * 1_000_000_000).div_ceil(1 << 32);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos).wrapping_add(at.as_nanos())
}

/// How often the taps are emptied into the file: a killed process loses no more than this, and a tap's ring lasts for
/// 100 MB/s. A hundred rounds a second cost about a thousandth of a processor.
const ROUND: Duration = Duration::from_millis(10);
/// Description of an interface.
const DESCRIPTION: &str = "what one socket carried; IP, UDP and TCP headers made up";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_keeps_its_nanoseconds() {
        for nanos in [0, 1, 999_999_999, 123_456_789] {
            let wall = Duration::new(1_700_000_000, nanos);
            let epoch = Epoch { ntp_at_zero: NtpTime::from_unix(wall) };
            let expected = wall.as_nanos() as u64 + 77;
            assert_eq!(unix_nanos(epoch, Instant::from_nanos(77)), expected);
        }
    }
}
