//! Congestion window: how it grows with acknowledgements and shrinks at a loss.

mod cubic;
mod reno;

use std::time::Duration;

use antiphon_core::Instant;

use super::profile::Algorithm;
use cubic::Cubic;

/// Congestion window and slow-start threshold in segments, grown and shrunk by an algorithm.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window, segments; never below 1.
    pub cwnd: f64,
    /// Slow-start threshold, segments; infinite until the first loss.
    pub ssthresh: f64,
    algorithm: State,
}

#[derive(Clone, Debug)]
enum State {
    Reno,
    Cubic(Cubic),
}

impl Window {
    /// A window of `initial` segments.
    pub fn new(algorithm: Algorithm, initial: u32) -> Self {
        let algorithm = match algorithm {
            Algorithm::Reno => State::Reno,
            Algorithm::Cubic => State::Cubic(Cubic::default()),
        };
        Window { cwnd: f64::from(initial.max(1)), ssthresh: f64::INFINITY, algorithm }
    }

    /// Below the threshold?
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `acked` segments were acknowledged while the window was in use and nothing is being repaired.
    pub fn on_ack(&mut self, now: Instant, acked: f64, srtt: Duration) {
        let mut left = acked;
        if self.in_slow_start() {
            // Appropriate byte counting (RFC 3465): by what is acknowledged, not by acknowledgements.
            let step = left.min(self.ssthresh - self.cwnd);
            self.cwnd += step;
            left -= step;
        }
        if left > 0.0 {
            self.cwnd = match &mut self.algorithm {
                State::Reno => reno::grown(self.cwnd, left),
                State::Cubic(cubic) => cubic.grown(now, self.cwnd, left, srtt),
            };
        }
    }

    /// A loss begins a reduction: sets the threshold, leaves the window to the recovery.
    pub fn on_loss(&mut self) {
        let reduced = match &mut self.algorithm {
            State::Reno => reno::reduced(self.cwnd),
            State::Cubic(cubic) => cubic.reduced(self.cwnd),
        };
        self.ssthresh = reduced.max(MIN_SSTHRESH);
    }

    /// A time-out: growth starts afresh.
    pub fn on_timeout(&mut self) {
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.on_timeout();
        }
    }

    /// Sending resumes after `idle` without anything in flight: the time does not count for growth.
    pub fn on_resume(&mut self, idle: Duration) {
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.on_resume(idle);
        }
    }

    /// The reduction from `cwnd` and `ssthresh` proved spurious.
    pub fn undo(&mut self, cwnd: f64, ssthresh: f64) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.on_timeout();
        }
    }
}

/// RFC 5681 §3.1 equation 4 and RFC 9438 §4.6: not below two segments.
const MIN_SSTHRESH: f64 = 2.0;
