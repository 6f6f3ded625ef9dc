//! Packet capture into a pcapng file: what our own sockets carry, without privileges.
//!
//! A [`Capture`] owns the file and a thread that writes it; each line holds a [`Tap`], one interface of the file:
//!
//! ```text
//! media thread: line ─ Tap ─► rings ─► writer thread: headers, checksums, layers, blocks ─► FILE.pcapng
//! ```
//!
//! The file holds whole IP packets. A socket gives only their payload, so their headers are reconstructed:
//!
//! * addresses, ports, lengths and checksums are right. Where a socket is bound to the wildcard, our address is the one
//!   that the routing table gives towards the peer (or the wildcard, where it gives none, as when the line is in
//!   another network namespace than the thread that created the capture);
//! * TCP is shown as a conversation that an analyser can reassemble: handshake, segments of at most 1448 bytes, FINs.
//!   Sequence numbers follow the stream; the kernel's own actions (losses, repairs, acknowledgements, windows)
//!   are not in it;
//! * time is the kernel's receive time stamp where there is one, otherwise when the socket was read or written, on the
//!   wall clock as it was when the run's clock was made. Interfaces are written in turn, so times are in order almost
//!   but not quite; `reordercap` sorts them;
//! * a datagram that the kernel refused to send is not shown.
//!
//! # Contents of packets
//!
//! Analysers do not know every transport, nor do they look for RTP inside those that they know. So a tap's interface
//! has others beside it, where its transport's [`Dissector`] finds something:
//!
//! | interface | shows |
//! | --- | --- |
//! | `NAME` | what crossed the socket |
//! | `NAME-ip` | SCTP, DCCP and XTP out of UDP, as they are directly over IP: their own ports, DCCP's checksum for the addresses |
//! | `NAME-rtp` | the messages (RTP, RTCP) in the packets or in the stream, in UDP between ports [`MESSAGE_PORT`] (ours) and [`PEER_MESSAGE_PORT`] |
//!
//! A message is shown once, when it first crossed whole, so that the analyser's figures are those of the stream;
//! repairs are visible on the other interfaces. Fragments are joined in bounded memory
//! ([`MAX_HELD_BYTES`](antiphon_trace::inside::MAX_HELD_BYTES)); those whose message did not become whole are counted
//! ([`CaptureSummary::incomplete`], and `isb_ifdrop` of the interface).
//!
//! Records for which there is no room between the media thread and the disk are counted per interface (`isb_ifdrop`).
//! The file grows up to a hundred times a second and ends at a whole block each time, so the file of a killed process
//! can be opened.
//!
//! # Many peers
//!
//! A socket that serves many peers is one interface, and so is each of those beside it: peers are distinguished by
//! their addresses, which are in every packet. Those that share one (behind a router that translates addresses) differ
//! by port on `NAME`, and by SSRC inside the messages on `NAME-rtp`. A TCP connection has a tap of its own while it
//! lasts, which a later one may reuse ([`Tap::hang_up`]): a server needs as many interfaces as it has simultaneous
//! connections, however many there are in a day.
//!
//! # Reading it
//!
//! No port number identifies RTP, so analysers must be told: [`decode_as_hint`] gives the options. With tshark:
//!
//! ```text
//! tshark -r FILE.pcapng -d udp.port==5004,rtp          RTP, and RTCP beside it, over UDP
//! tshark -r FILE.pcapng -d tcp.port==5004,rtp          the same over TCP, framed as RFC 4571 says
//! tshark -r FILE.pcapng -d udp.port==50004,rtp         inside any transport, on the interfaces called …-rtp
//! ```
//!
//! In Wireshark the same is *Analyze, Decode As*. On a TCP port the choice `rtp` means RFC 4571 framing; its length
//! field is `rtp.rfc4571.len`.

mod compose;
mod facing;
mod layers;
mod record;
mod tap;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

pub use layers::{MESSAGE_PORT, PEER_MESSAGE_PORT};
pub use record::{Direction, Ending, Ends, Marks};
pub use tap::Tap;

use crate::clock::OsClock;
use antiphon_core::{Dissector, Plain};
use antiphon_trace::pcapng::{Medium, PcapngFile};
use writer::{Failure, Order, Writer};

/// An open capture file. Dropping it finishes it, too, but errors are not reported then.
pub struct Capture {
    path: PathBuf,
    taps: Taps,
    writer: Option<JoinHandle<Result<CaptureSummary, Failure>>>,
}

/// Creates the interfaces of a capture; clones create those of the same one, on any thread.
#[derive(Clone)]
pub struct Taps {
    clock: OsClock,
    orders: Sender<Order>,
}

/// Summary of a finished capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureSummary {
    /// IP packets in the file, including simulated TCP packets.
    pub packets: u64,
    /// How many of these repeat the contents of others.
    pub inside: u64,
    /// Bytes in them, headers included.
    pub bytes: u64,
    /// Datagrams, and parts of streams, missing from the file because the writer did not keep up.
    pub dropped: u64,
    /// Fragments of messages, and parts of streams, that are not shown as messages: the rest of their message did not
    /// cross, or not in time; and messages too long for a UDP packet. The packets that carried them are shown.
    pub incomplete: u64,
}

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be created.
    #[error("cannot create the capture file '{}': {source}; choose a directory that can be written to", .path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The file cannot be written any more, as on a full disk. What was written before remains and can be read.
    #[error(
        "the capture file '{}' ends early, after {packets} packets: {source}; the packets in it can be read; \
         free some space or capture elsewhere", .path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// IP packets in it.
        packets: u64,
        /// The system's message.
        source: io::Error,
    },
}

impl Capture {
    /// Creates the file at `path`, replacing an existing one, and starts the thread that writes it. `clock` is the
    /// clock of the taps' times.
    pub fn create(path: impl AsRef<Path>, clock: OsClock) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let create = |source| CaptureError::Create { path: path.into(), source };
        let file = File::create(path).map_err(create)?;
        Self::on(file, path, clock).map_err(create)
    }

    fn on<M: Medium + Send + 'static>(medium: M, path: &Path, clock: OsClock) -> io::Result<Self> {
        let mut writer = Writer::new(PcapngFile::begin(medium, COMMENT)?, clock);
        let (orders, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("capture".into());
        let writer = thread.spawn(move || writer.run(&told))?;
        Ok(Capture { path: path.into(), taps: Taps { clock, orders }, writer: Some(writer) })
    }

    /// Creates interfaces, for threads that need them later.
    pub fn taps(&self) -> Taps {
        self.taps.clone()
    }

    /// Another interface of the file, called `name`, for one line or one layer. Allocates its rings (1.4 MiB), so call it
    /// before the media thread runs.
    pub fn tap(&self, name: &str) -> Tap {
        self.tap_inside(name, Box::new(Plain))
    }

    /// The same, with what `dissector` finds inside the packets on interfaces of its own, called `NAME-ip` and
    /// `NAME-rtp`.
    pub fn tap_inside(&self, name: &str, dissector: Box<dyn Dissector>) -> Tap {
        self.taps.tap_inside(name, dissector)
    }

    /// Writes what the taps hold, and the totals, and closes the file. Later records are lost, so drop the lines first:
    /// a closing TCP line records the end of its connection.
    pub fn finish(mut self) -> Result<CaptureSummary, CaptureError> {
        let path = self.path.clone();
        self.end().map_err(|Failure { source, packets }| CaptureError::Write { path, packets, source })
    }

    fn end(&mut self) -> Result<CaptureSummary, Failure> {
        let Some(writer) = self.writer.take() else { return Ok(CaptureSummary::default()) };
        // If the writer is gone it has failed, which joining it reports.
        let _gone = self.taps.orders.send(Order::Finish);
        writer.join().expect("the capture's writer does not panic")
    }
}

impl Taps {
    /// Like [`Capture::tap_inside`]. After the capture's end the tap's records are lost.
    pub fn tap_inside(&self, name: &str, dissector: Box<dyn Dissector>) -> Tap {
        let (tap, drain) = Tap::new(self.clock);
        // A writer that has failed is gone; the tap then fills its ring and counts, and `finish` reports why.
        let _gone = self.orders.send(Order::Tap { name: name.into(), dissector, drain });
        tap
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(self.end());
        }
    }
}

/// The options that make tshark dissect RTP and RTCP on `port`, over UDP and over TCP.
///
/// ```
/// assert_eq!(antiphon_net::capture::decode_as_hint(5004), "-d udp.port==5004,rtp -d tcp.port==5004,rtp");
/// ```
pub fn decode_as_hint(port: u16) -> String {
    format!("-d udp.port=={port},rtp -d tcp.port=={port},rtp")
}

/// The file's comment about itself.
const COMMENT: &str = "Captured by antiphon at its own sockets. IP, UDP and TCP headers are made up around what the \
    sockets carried: addresses, ports, lengths and checksums are right, and TTL and DSCP over UDP; elsewhere these, TCP's \
    acknowledgements and windows say nothing about the network. To dissect RTP: Decode As rtp on its UDP or TCP port.";
