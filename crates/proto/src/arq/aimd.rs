//! The optional congestion response: a window that opens by addition and closes by halves (RFC 5681, RFC 6928).

/// A congestion window in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aimd {
    cwnd: u64,
    ssthresh: u64,
    packet: u64,
    /// Losses of packets before this number belong to the loss already answered.
    recovered_at: u64,
}

impl Aimd {
    /// `packet`: the largest datagram in bytes.
    pub fn new(packet: usize) -> Self {
        let packet = packet.max(1) as u64;
        Aimd { cwnd: INITIAL_PACKETS * packet, ssthresh: u64::MAX, packet, recovered_at: 0 }
    }

    /// The window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Whether one more may go while `in_flight` bytes are on their way.
    pub fn allows(&self, in_flight: u64) -> bool {
        in_flight < self.cwnd
    }

    /// `len` bytes arrived, of `in_flight` before. A stream that does not fill its window learns nothing of the path
    /// (RFC 7661 §1), so the window then stays.
    pub fn on_acked(&mut self, len: u64, in_flight: u64) {
        if in_flight * 2 < self.cwnd {
            return;
        }
        let step = if self.cwnd < self.ssthresh { len } else { (self.packet * len / self.cwnd).max(1) };
        self.cwnd = self.cwnd.saturating_add(step);
    }

    /// Packet `number` was lost while `next` was to be sent: one answer per window. Whether this was it.
    pub fn on_lost(&mut self, number: u64, next: u64) -> bool {
        if number < self.recovered_at {
            return false;
        }
        self.recovered_at = next;
        self.cwnd = (self.cwnd / 2).max(LEAST_PACKETS * self.packet);
        self.ssthresh = self.cwnd;
        true
    }
}

/// RFC 6928 §2.
const INITIAL_PACKETS: u64 = 10;
/// RFC 5681 §3.1, equation 4.
const LEAST_PACKETS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_then_creeps_and_halves_once_per_window() {
        let mut aimd = Aimd::new(1000);
        for _ in 0..10 {
            aimd.on_acked(1000, 10_000);
        }
        assert_eq!(aimd.cwnd(), 20_000, "slow start doubles in a round trip");
        assert!(aimd.on_lost(5, 20) && !aimd.on_lost(19, 30) && aimd.on_lost(20, 40));
        assert_eq!(aimd.cwnd(), 5_000);
        for _ in 0..5 {
            aimd.on_acked(1000, 5_000);
        }
        // A packet per round trip, less what the window has grown within it: at most 10 % here.
        assert!((5_900..=6_000).contains(&aimd.cwnd()), "{}", aimd.cwnd());
        aimd.on_acked(1000, 1_000);
        assert!(aimd.cwnd() <= 6_000, "an unfilled window stays");
        for n in 0..10 {
            aimd.on_lost(40 + n, 41 + n);
        }
        assert_eq!(aimd.cwnd(), 2_000);
    }
}
