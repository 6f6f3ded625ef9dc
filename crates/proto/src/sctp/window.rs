//! The congestion window of one path.

use std::time::Duration;

use antiphon_core::{Instant, Seq32};

use crate::cc::is_validated;

/// Congestion control (RFC 9260 §7.2), in bytes of payload.
///
/// Differences: RFC 9260 lets a window grow only while it is full. Here it grows while half of it is used, up to twice
/// what is used (RFC 7661): sound at a constant rate does not fill its window, and one that only just suffices is too
/// small after the first loss. What was never used does not remain after a loss. RFC 7661 §4.4.1 then takes half of what
/// was used; here it is all, since SCTP halves the window and not the flight (§7.2.3): where exactly half of the window
/// is used, that is the same.
///
/// No proportional rate reduction (RFC 6937): it spreads a reduction over a round trip, for senders that fill their
/// window. An application-limited flight is below the reduced window at once, and a full one continues as soon as half of
/// it was acknowledged or found lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// Payload bytes of a full packet.
    pub full: usize,
    /// Fast recovery ends when this TSN is acknowledged.
    recovery: Option<Seq32>,
    /// Transmissions up to this one left before the last reduction, which answers their losses.
    answered: u64,
    /// When payload last went out.
    last_sent: Option<Instant>,
}

impl Window {
    /// `full`: payload bytes of a full packet (PMDCS).
    pub fn new(full: usize) -> Self {
        // §7.2.1, for IPv4.
        let cwnd = (4 * full).min((2 * full).max(4404));
        Window { cwnd, ssthresh: usize::MAX, full, ..Window::default() }
    }

    /// Payload was sent at `now`. A window unused for long may no longer fit the path: it halves for each time-out
    /// without sending.
    pub fn on_send(&mut self, now: Instant, patience: Duration) {
        if let Some(last) = self.last_sent {
            let silent = now.since(last).as_nanos() / patience.as_nanos().max(1);
            if silent > 0 {
                // What it was is reached again in slow start.
                self.ssthresh = self.cwnd;
            }
            let floor = (4 * self.full).min(self.cwnd);
            // 32 halvings reduce any window to 0.
            self.cwnd = (self.cwnd >> silent.min(32) as u32).max(floor);
        }
        self.last_sent = Some(now);
    }

    /// `acked` bytes were acknowledged, up to `cumulative`; `used` bytes of the window are used.
    pub fn on_ack(&mut self, acked: usize, used: usize, cumulative: Seq32) {
        if self.recovery.is_some_and(|exit| !cumulative.is_before(exit)) {
            self.recovery = None;
            self.partial_bytes_acked = 0;
        }
        if self.recovery.is_some() {
            return;
        }
        if self.cwnd <= self.ssthresh {
            let step = acked.min(self.full);
            if is_validated(used as f64, (self.cwnd + step) as f64) {
                self.cwnd += step;
            }
            return;
        }
        self.partial_bytes_acked += acked;
        if self.partial_bytes_acked >= self.cwnd {
            if is_validated(used as f64, (self.cwnd + self.full) as f64) {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += self.full;
            } else {
                self.partial_bytes_acked = self.cwnd;
            }
        }
    }

    /// Everything sent was acknowledged (§7.2.2).
    pub fn on_all_acked(&mut self) {
        self.partial_bytes_acked = 0;
    }

    /// Whether the last reduction answers the loss of a transmission: it left before. A retransmission that is lost as
    /// well is a new sign of congestion (RFC 5681 §4.3).
    pub fn has_answered(&self, sending: u64) -> bool {
        self.recovery.is_some() && sending <= self.answered
    }

    /// Halves the window, of which `used` bytes are used; `kept` bytes of it remain in any case.
    pub fn reduce(&mut self, used: usize, kept: usize) {
        self.ssthresh = (self.cwnd / 2).min(used).max(kept.min(self.cwnd)).max(4 * self.full);
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    /// Enters fast recovery until `highest`, the last TSN sent, is acknowledged; `sent`: transmissions so far.
    pub fn recover(&mut self, highest: Seq32, sent: u64) {
        (self.recovery, self.answered) = (Some(highest), sent);
    }

    /// T3-rtx has expired: as for a loss, from a window of one packet.
    pub fn on_timeout(&mut self, used: usize, kept: usize) {
        self.reduce(used, kept);
        self.cwnd = self.full;
        self.recovery = None;
    }

    /// Whether one packet may hold so many bytes.
    pub fn holds_in_one_packet(&self, bytes: usize) -> bool {
        bytes <= self.full
    }

    pub fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = 1424;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_opens_and_closes_by_the_rules() {
        let mut window = Window::new(FULL);
        assert_eq!(window.cwnd, 4404);
        window.on_ack(2 * FULL, 0, Seq32(1));
        assert_eq!(window.cwnd, 4404, "the window was not used");
        window.on_ack(2 * FULL, 4404, Seq32(3));
        assert_eq!(window.cwnd, 4404 + FULL, "slow start, one packet for each acknowledgement");
        while window.cwnd < 20 * FULL {
            window.on_ack(FULL, window.cwnd, Seq32(4));
        }
        let before = window.cwnd;
        assert!(!window.has_answered(1));
        window.reduce(before, 0);
        window.recover(Seq32(100), 9);
        assert!(window.has_answered(9) && !window.has_answered(10), "once for a window");
        assert_eq!(window.cwnd, before / 2);
        window.on_ack(FULL, window.cwnd, Seq32(99));
        assert_eq!((window.cwnd, window.in_recovery()), (before / 2, true));
        window.on_ack(FULL, window.cwnd, Seq32(100));
        assert_eq!(
            (window.cwnd, window.in_recovery()),
            (before / 2 + FULL, false),
            "at the threshold still slow start"
        );
        // Congestion avoidance: one more packet for each acknowledged window.
        let half = window.cwnd;
        let acks = (0..).take_while(|_| {
            window.on_ack(FULL, window.cwnd, Seq32(100));
            window.cwnd == half
        });
        assert_eq!(acks.count() + 1, half.div_ceil(FULL));
        window.on_timeout(window.cwnd, 0);
        assert_eq!(window.cwnd, FULL);
    }

    #[test]
    fn silence_closes_the_window() {
        let mut window = Window::new(FULL);
        window.cwnd = 100 * FULL;
        window.on_send(Instant::from_millis(0), 70 * MS);
        window.on_send(Instant::from_millis(69), 70 * MS);
        assert_eq!(window.cwnd, 100 * FULL);
        window.on_send(Instant::from_millis(69 + 140), 70 * MS);
        assert_eq!(window.cwnd, 25 * FULL);
        window.on_send(Instant::from_millis(3_600_000), 70 * MS);
        assert_eq!(window.cwnd, 4 * FULL);
    }

    #[test]
    fn what_silence_took_returns_in_slow_start() {
        let mut window = Window::new(FULL);
        (window.cwnd, window.ssthresh) = (100 * FULL, FULL);
        window.on_send(Instant::from_millis(0), 70 * MS);
        window.on_send(Instant::from_millis(140), 70 * MS);
        window.on_ack(FULL, window.cwnd, Seq32(1));
        assert_eq!(window.cwnd, 26 * FULL, "with each acknowledgement");
    }

    #[test]
    fn acknowledgements_of_an_unused_window_save_up_one_step() {
        let mut window = Window::new(FULL);
        (window.cwnd, window.ssthresh) = (20 * FULL, FULL);
        (0..100).for_each(|n| window.on_ack(FULL, 0, Seq32(n)));
        assert_eq!(window.cwnd, 20 * FULL);
        (100..110).for_each(|n| window.on_ack(FULL, window.cwnd, Seq32(n)));
        assert_eq!(window.cwnd, 21 * FULL, "once, and not for each that came meanwhile");
    }

    #[test]
    fn after_a_time_out_any_loss_counts() {
        let mut window = Window::new(FULL);
        window.recover(Seq32(100), 9);
        window.on_timeout(window.cwnd, 0);
        assert!(!window.in_recovery() && !window.has_answered(9));
    }

    #[test]
    fn a_window_used_by_half_grows_to_twice_what_is_used() {
        let mut window = Window::new(FULL);
        (0..100).for_each(|n| window.on_ack(FULL, 8 * FULL, Seq32(n)));
        assert!((15 * FULL..=16 * FULL).contains(&window.cwnd), "in slow start: {}", window.cwnd);
        window.ssthresh = FULL;
        (0..100).for_each(|n| window.on_ack(FULL, 9 * FULL, Seq32(n)));
        assert!((17 * FULL..=18 * FULL).contains(&window.cwnd), "and after it: {}", window.cwnd);
    }

    #[test]
    fn what_was_never_used_does_not_remain() {
        let mut window = Window::new(FULL);
        for (cwnd, used, kept, expected) in [
            (40, 20, 0, 20),
            (40, 15, 0, 15),
            (40, 40, 0, 20),
            (40, 2, 0, 4),
            (20, 15, 16, 16),
            (12, 15, 16, 12),
        ] {
            window.cwnd = cwnd * FULL;
            window.reduce(used * FULL, kept * FULL);
            assert_eq!(window.cwnd, expected * FULL, "{cwnd} {used} {kept}");
        }
        window.cwnd = 20 * FULL;
        window.on_timeout(15 * FULL, 16 * FULL);
        assert_eq!((window.cwnd, window.ssthresh), (FULL, 16 * FULL), "a time-out restarts in slow start");
    }
}
