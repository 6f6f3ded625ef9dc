//! Writes packets of any link, real or virtual, to a pcapng file that common analysers open.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use antiphon_core::Instant;

use crate::headers::{self, Echo, HeaderError, Segment};
use crate::pcapng::{Medium, Packet, PcapngFile, Totals, Way};

/// Writes UDP and TCP packets, whose headers it composes, to a pcapng file.
///
/// Times are in nanoseconds, exact. Memory is bounded: a buffer of [`crate::pcapng::BUFFER`] bytes and one packet.
/// After an error of the medium nothing more is written, and every call returns an error of that kind; the file holds
/// whole packets up to that point (unless its medium is a [`crate::pcapng::Stream`]).
///
/// ```
/// use antiphon_core::Instant;
/// use antiphon_trace::{CaptureWriter, pcapng::Way};
///
/// let mut capture = CaptureWriter::begin(Vec::new(), "a virtual link", 0)?;
/// let link = capture.interface("up", "from the sender to the access point")?;
/// let (from, to) = ("10.0.0.1:5004".parse().unwrap(), "10.0.0.2:5004".parse().unwrap());
/// capture.udp(link, Instant::from_micros(17), Way::Outbound, from, to, b"payload")?;
/// let file: Vec<u8> = capture.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct CaptureWriter<M> {
    file: PcapngFile<M>,
    /// Nanoseconds since 1970 at [`Instant::ZERO`].
    unix_nanos_at_zero: u64,
    /// Packets by interface, and the time of the last packet of all.
    packets: Vec<u64>,
    last: u64,
    packet: Vec<u8>,
    failed: Option<io::ErrorKind>,
}

/// An interface of a [`CaptureWriter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface(u32);

impl<M: Medium> CaptureWriter<M> {
    /// Begins a file with the description `comment`. Times are shown as if [`Instant::ZERO`] were `unix_nanos_at_zero`
    /// nanoseconds after the beginning of 1970; for virtual time, zero is fine.
    pub fn begin(medium: M, comment: &str, unix_nanos_at_zero: u64) -> io::Result<Self> {
        Ok(CaptureWriter {
            file: PcapngFile::begin(medium, comment)?,
            unix_nanos_at_zero,
            packets: Vec::new(),
            last: unix_nanos_at_zero,
            packet: Vec::new(),
            failed: None,
        })
    }

    /// Adds an interface: one end of a link, or one host. An error if there are [`MOST_INTERFACES`] already.
    pub fn interface(&mut self, name: &str, description: &str) -> io::Result<Interface> {
        self.check()?;
        if self.packets.len() >= MOST_INTERFACES {
            let text = format!("a capture holds {MOST_INTERFACES} interfaces at most; capture fewer links");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.packets.push(0);
        let id = Interface(self.file.interface(name, description));
        // Descriptions are written at once, so that many of them do not fill the memory.
        let result = self.file.flush();
        self.keep(result).map(|()| id)
    }

    /// Writes a UDP datagram that crossed `interface` at `at`.
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is too long for an IP packet; the file continues without it.
    pub fn udp(
        &mut self,
        interface: Interface,
        at: Instant,
        way: Way,
        from: SocketAddr,
        to: SocketAddr,
        payload: &[u8],
    ) -> io::Result<()> {
        self.check()?;
        headers::udp(&mut self.packet, from, to, payload).map_err(unfit)?;
        self.write(interface, at, way)
    }

    /// Writes a TCP segment that crossed `interface` at `at`. Errors as [`Self::udp`].
    #[allow(
        clippy::too_many_arguments,
        reason = "a segment is no less than this, and each has a type of its own"
    )]
    pub fn tcp(
        &mut self,
        interface: Interface,
        at: Instant,
        way: Way,
        from: SocketAddr,
        to: SocketAddr,
        segment: Segment<'_>,
        payload: &[u8],
    ) -> io::Result<()> {
        self.check()?;
        headers::tcp(&mut self.packet, from, to, segment, payload).map_err(unfit)?;
        self.write(interface, at, way)
    }

    /// Writes an ICMP echo message with `data` zeros that crossed `interface` at `at`. Errors as [`Self::udp`].
    #[allow(clippy::too_many_arguments, reason = "as for a segment")]
    pub fn echo(
        &mut self,
        interface: Interface,
        at: Instant,
        way: Way,
        from: Ipv4Addr,
        to: Ipv4Addr,
        echo: Echo,
        data: usize,
    ) -> io::Result<()> {
        self.check()?;
        headers::echo(&mut self.packet, from, to, echo, data).map_err(unfit)?;
        self.write(interface, at, way)
    }

    /// Writes the totals, flushes, and returns the medium.
    pub fn finish(mut self) -> io::Result<M> {
        self.check()?;
        for (interface, packets) in self.packets.iter().enumerate() {
            let totals = Totals { packets: *packets, dropped: 0 };
            self.file.statistics(interface as u32, self.last, totals);
        }
        self.file.flush()?;
        Ok(self.file.into_medium())
    }

    fn write(&mut self, interface: Interface, at: Instant, way: Way) -> io::Result<()> {
        let nanos = self.unix_nanos_at_zero.saturating_add(at.as_nanos());
        let packet = Packet { interface: interface.0, nanos, way, bytes: &self.packet };
        let result = self.file.packet(&packet);
        self.keep(result)?;
        self.last = self.last.max(nanos);
        self.packets[interface.0 as usize] += 1;
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn keep(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.failed = result.as_ref().err().map(io::Error::kind);
        result
    }
}

fn unfit(error: HeaderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Limit of interfaces in a file: as many as a laboratory has stations, and more than an analyser's list shows at once.
pub const MOST_INTERFACES: usize = 4_096;

#[cfg(test)]
mod tests;
