//! Path statistics and counters of an endpoint.

use std::time::Duration;

use crate::units::{BitRate, ByteCount};

/// Path statistics of an endpoint. `None` for values that a transport does not measure.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathStats {
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Option<Duration>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Congestion window.
    pub cwnd: Option<ByteCount>,
    /// Bytes sent and not acknowledged.
    pub in_flight: Option<ByteCount>,
    /// The rate at which datagrams are released.
    pub pacing_rate: Option<BitRate>,
    /// Totals since the endpoint was opened.
    pub counters: Counters,
}

impl PathStats {
    /// Within this an answer comes, but for few: `SRTT + 4 RTTVAR` (RFC 6298 §2.3); `None` before the first round trip. Without a
    /// deviation, which a transport that has measured once or never measures it does not know, the round trip itself.
    pub fn answer_time(&self) -> Option<Duration> {
        Some(self.srtt? + 4 * self.rttvar.unwrap_or(Duration::ZERO))
    }
}

/// Totals since an endpoint was opened. *Sent* and *received* count what crossed the wire, repairs included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Datagrams sent, or kernel segments where known.
    pub datagrams_sent: u64,
    /// Bytes in them, with transport headers, without UDP, TCP and IP headers.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Messages accepted by `send`.
    pub messages_accepted: u64,
    /// Messages handed to the application.
    pub messages_delivered: u64,
    /// Messages whose deadline passed in the send queue.
    pub messages_expired: u64,
    /// Messages that arrived and were dropped because they were not fetched in time.
    pub messages_dropped: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Messages or packets received twice and delivered once.
    pub duplicates: u64,
    /// Datagrams or stream parts that violated the protocol.
    pub malformed: u64,
}
