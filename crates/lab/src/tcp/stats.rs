//! Figures of a connection.

use std::time::Duration;

use super::Tcp;

/// Figures of a connection: totals since its beginning, and present values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Segments sent, acknowledgements and retransmissions included.
    pub segments_sent: u64,
    /// Segments received, damaged ones included.
    pub segments_received: u64,
    /// Segments dropped for a wrong checksum.
    pub damaged: u64,
    /// Bytes sent, IP and TCP headers included.
    pub wire_bytes_sent: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Recoveries begun by acknowledgements.
    pub fast_recoveries: u64,
    /// Tail loss probes sent.
    pub tail_probes: u64,
    /// Probes of a closed window sent.
    pub window_probes: u64,
    /// Reductions undone.
    pub undone: u64,
    /// Payload received a second time.
    pub duplicate_bytes: u64,
    /// Segments received outside the window.
    pub refused: u64,
    /// Positions of the stream acknowledged by the peer, bytes.
    pub acknowledged_bytes: u64,
    /// Congestion window, segments.
    pub cwnd: f64,
    /// Slow-start threshold, segments; infinite before the first loss.
    pub ssthresh: f64,
    /// Segments, by weight, in flight.
    pub in_flight: f64,
    /// Smoothed round trip.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Duration,
    /// Shortest round trip.
    pub min_rtt: Option<Duration>,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Retransmission time-out, back-off included.
    pub rto: Duration,
}

impl Tcp {
    /// Figures of the connection.
    pub fn stats(&self) -> Stats {
        let (sender, counts) = (&self.sender, &self.sender.counts);
        Stats {
            segments_sent: self.segments_sent,
            segments_received: self.segments_received,
            damaged: self.damaged,
            wire_bytes_sent: self.wire_bytes_sent,
            retransmitted_segments: counts.retransmitted_segments,
            retransmitted_bytes: counts.retransmitted_bytes,
            timeouts: counts.timeouts,
            fast_recoveries: counts.recoveries,
            tail_probes: counts.tail_probes,
            window_probes: counts.window_probes,
            undone: counts.undone,
            duplicate_bytes: self.receiver.duplicate_bytes,
            refused: self.receiver.refused,
            acknowledged_bytes: sender.una - 1,
            cwnd: sender.window().cwnd,
            ssthresh: sender.window().ssthresh,
            in_flight: sender.in_flight(),
            srtt: sender.rtt.smoothed().srtt(),
            rttvar: sender.rtt.smoothed().rttvar().unwrap_or_default(),
            min_rtt: sender.rtt.smoothed().min(),
            mss: sender.mss,
            rto: sender.rtt.rto(),
        }
    }
}
