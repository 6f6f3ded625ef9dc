//! What passes between an endpoint and its driver.

use std::time::Duration;

use crate::time::Instant;
use crate::units::ByteCount;

/// What carries an endpoint's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// Datagrams: may be lost, reordered, duplicated, never cut.
    Datagram,
    /// A reliable byte stream that the kernel (or the lab's TCP) provides.
    ByteStream,
}

/// A path to the peer. Endpoints see this number; the driver knows the address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PathId(pub u32);

/// Input of an endpoint from the driver.
///
/// The bytes are borrowed mutably: a layer that decrypts does so in place.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram came in.
    Datagram {
        /// Path by which it came.
        path: PathId,
        /// Its payload, from an unknown source until proved otherwise.
        bytes: &'a mut [u8],
        /// When the kernel received it, if known; otherwise when it was read. Never after `now`.
        received_at: Instant,
    },
    /// Bytes of the stream came in, in order.
    Stream {
        /// The bytes, of any number.
        bytes: &'a mut [u8],
        /// As for a datagram, of the last byte.
        received_at: Instant,
    },
    /// The endpoint's own [`Validator`](crate::Validator) accepted `path`, and passes what begins the association
    /// ([`Verdict::AcceptWith`](crate::Verdict::AcceptWith)). It was never on the wire: layers pass it on unchanged.
    Accepted {
        /// Path on which the packet arrived.
        path: PathId,
        /// What the validator wrote.
        block: &'a [u8],
    },
    /// The stream below is connected (again): both directions start at a message boundary.
    Connected,
    /// The stream or path below is broken. Unconfirmed bytes may or may not have arrived.
    Broken(BrokenReason),
    /// The kernel has learnt that the path carries datagrams of at most so many bytes, and refuses larger ones.
    MaxDatagram(usize),
    /// Figures that only the kernel knows.
    Report(KernelReport),
}

/// Why a path broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenReason {
    /// The peer refused (reset, port unreachable).
    Refused,
    /// The peer ended the stream in an orderly way.
    EndOfStream,
    /// No answer in time, or no route.
    Unreachable,
}

/// Figures of a kernel transport (Linux `TCP_INFO`).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct KernelReport {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Smallest round trip seen.
    pub min_rtt: Duration,
    /// Congestion window in bytes.
    pub cwnd: ByteCount,
    /// Bytes sent and not acknowledged.
    pub in_flight: ByteCount,
    /// Segments sent again so far.
    pub retransmitted: u64,
    /// Bytes put on the wire so far, repairs included, without headers of TCP and IP.
    pub sent_bytes: u64,
    /// Segments put on the wire so far, bare acknowledgements included.
    pub segments_sent: u64,
}

/// What [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit) wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Path on which to send it.
    pub path: PathId,
    /// Bytes written into the lent buffer.
    pub len: usize,
}
