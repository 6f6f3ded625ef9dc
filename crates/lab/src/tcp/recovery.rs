//! Phases of loss recovery: when the window is reduced, and when that is undone.

use antiphon_core::Instant;
use antiphon_proto::cc::{Controller, Window};

use super::profile::Reduction;

/// Phase of the sender (RFC 5681, RFC 6675, RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing is being repaired.
    Open,
    /// Holes that acknowledgements reported are being filled.
    Recovery,
    /// After a time-out, all segments count as lost.
    Loss,
}

/// State of the present recovery.
#[derive(Clone, Debug)]
pub struct Recovery {
    phase: Phase,
    reduction: Reduction,
    /// The repair ends when this position is acknowledged.
    high: u64,
    delivered: f64,
    sent: f64,
    prior_cwnd: f64,
    undo: Option<Undo>,
}

/// The values to restore if the reduction proves spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: f64,
    ssthresh: f64,
    /// Retransmissions not yet shown to be duplicates.
    open: u32,
    retransmitted: bool,
    /// When the first of them was sent.
    first: Option<Instant>,
}

impl Recovery {
    /// Open sending.
    pub fn new(reduction: Reduction) -> Self {
        let phase = Phase::Open;
        Recovery { phase, reduction, high: 0, delivered: 0.0, sent: 0.0, prior_cwnd: 1.0, undo: None }
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn remember(&mut self, window: &Window) {
        let (cwnd, ssthresh) = (window.cwnd, window.ssthresh);
        self.undo = Some(Undo { cwnd, ssthresh, open: 0, retransmitted: false, first: None });
    }

    /// Acknowledgements show a loss: reduce once until all sent up to `high` is acknowledged.
    pub fn enter(&mut self, congestion: &mut dyn Controller, high: u64) {
        self.remember(congestion.window());
        self.prior_cwnd = congestion.window().cwnd.max(1.0);
        congestion.on_congestion_event();
        self.phase = Phase::Recovery;
        self.high = high;
        (self.delivered, self.sent) = (0.0, 0.0);
        if self.reduction == Reduction::Immediate {
            let window = congestion.window_mut();
            window.cwnd = window.ssthresh;
        }
    }

    /// The retransmission timer fired. `in_flight`: segments not counted as lost.
    ///
    /// One reduction for one window of data: none if this window's was made already (Linux `tcp_enter_loss`).
    pub fn on_timeout(&mut self, congestion: &mut dyn Controller, una: u64, high: u64, in_flight: f64) {
        if self.phase == Phase::Open || self.high <= una {
            self.remember(congestion.window());
            congestion.on_congestion_event();
        }
        congestion.on_timeout();
        self.phase = Phase::Loss;
        self.high = high;
        congestion.window_mut().cwnd = in_flight + 1.0;
    }

    /// An acknowledgement during recovery: the window for what may be sent now (RFC 6937 §3).
    pub fn on_ack(
        &mut self,
        window: &mut Window,
        delivered: f64,
        in_flight: f64,
        more_lost: bool,
        advanced: bool,
    ) {
        if self.phase != Phase::Recovery || self.reduction == Reduction::Immediate {
            return;
        }
        self.delivered += delivered;
        let may_send = if in_flight > window.ssthresh {
            (self.delivered * window.ssthresh / self.prior_cwnd).ceil() - self.sent
        } else {
            // The slow-start bound; the conservative one while new losses show (RFC 6937bis, Linux).
            let bound = (self.delivered - self.sent).max(delivered);
            let extra = if advanced && !more_lost { 1.0 } else { 0.0 };
            (window.ssthresh - in_flight).min(bound + extra)
        };
        let least = if self.sent > 0.0 { 0.0 } else { 1.0 };
        window.cwnd = (in_flight + may_send.max(least)).max(1.0);
    }

    /// Something of `segments` weight was sent.
    pub fn on_sent(&mut self, segments: f64) {
        self.sent += segments;
    }

    /// A segment was sent again.
    pub fn on_retransmit(&mut self, now: Instant) {
        if let Some(undo) = &mut self.undo {
            undo.open += 1;
            undo.retransmitted = true;
            undo.first.get_or_insert(now);
        }
    }

    /// The peer reports a duplicate: one retransmission was unnecessary (RFC 3708). True if it was the last open one.
    pub fn on_duplicate_report(&mut self) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        undo.open = undo.open.saturating_sub(1);
        undo.retransmitted && undo.open == 0
    }

    /// Whether the peer answered, with `echo` ms, a transmission older than the first retransmission (RFC 3522).
    pub fn is_spurious(&self, echo: u32) -> bool {
        let first = self.undo.and_then(|undo| undo.first);
        first.is_some_and(|first| u64::from(echo) < first.as_nanos() / 1_000_000)
    }

    /// Undoes the reduction.
    pub fn undo(&mut self, congestion: &mut dyn Controller) {
        if let Some(undo) = self.undo.take() {
            let window = congestion.window_mut();
            window.cwnd = window.cwnd.max(undo.cwnd);
            window.ssthresh = window.ssthresh.max(undo.ssthresh);
            congestion.on_timeout();
            self.phase = Phase::Open;
        }
    }

    /// `una` is acknowledged: ends the repair if it is complete. True if it does.
    pub fn finish(&mut self, window: &mut Window, una: u64) -> bool {
        if self.phase == Phase::Open || una < self.high {
            return false;
        }
        if self.phase == Phase::Recovery {
            window.cwnd = window.ssthresh;
        }
        self.phase = Phase::Open;
        true
    }
}

#[cfg(test)]
mod tests {
    use antiphon_proto::cc::Reno;

    use super::*;

    #[test]
    fn the_reduction_is_proportional_and_ends_at_the_threshold() {
        let mut reno = Reno::new(Window::new(1.0, 20));
        let mut recovery = Recovery::new(Reduction::Proportional);
        recovery.enter(&mut reno, 100);
        assert_eq!(reno.window().ssthresh, 10.0);
        // RFC 6937: of 19 segments in flight, one delivered each time, every second may be answered by a sending.
        let (mut in_flight, mut sent) = (19.0, 0);
        for _ in 0..16 {
            in_flight -= 1.0;
            recovery.on_ack(reno.window_mut(), 1.0, in_flight, false, false);
            while in_flight + 1.0 <= reno.window().cwnd {
                recovery.on_sent(1.0);
                in_flight += 1.0;
                sent += 1;
            }
        }
        assert!((7..=9).contains(&sent), "{sent}");
        assert!((10.0..=12.0).contains(&in_flight), "{in_flight}");
        assert!(recovery.finish(reno.window_mut(), 100));
        assert_eq!((reno.window().cwnd, recovery.phase()), (10.0, Phase::Open));
    }

    #[test]
    fn a_time_out_in_recovery_does_not_reduce_twice() {
        let mut reno = Reno::new(Window::new(1.0, 20));
        let mut recovery = Recovery::new(Reduction::Proportional);
        recovery.enter(&mut reno, 100);
        recovery.on_timeout(&mut reno, 50, 120, 0.0);
        assert_eq!((reno.window().ssthresh, reno.window().cwnd), (10.0, 1.0));
        assert_eq!(recovery.phase(), Phase::Loss);
    }
}
