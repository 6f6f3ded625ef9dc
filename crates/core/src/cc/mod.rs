//! Congestion control: how a window grows with acknowledgements and shrinks at a loss.
//!
//! The laboratory's TCP, ARQ and a session's congestion manager use it. SCTP and CCID 2 have their own: their RFCs count whole packets that are
//! credited when a window of them was acknowledged (RFC 9260 §7.2.2, RFC 4341 §5.1), with other initial and minimum
//! windows, so that their growth has nothing in common with this one. How much of a window is used ([`PipeAck`],
//! [`is_validated`]) does not depend on how it grows: SCTP and ARQ ask the same question.

mod cubic;
mod reno;
pub mod tfrc;
mod usage;

use std::fmt::Debug;
use std::time::Duration;

use crate::Instant;

pub use cubic::{BETA as CUBIC_BETA, Cubic};
pub use reno::Reno;
pub use usage::{PipeAck, is_validated};

/// Controls the window of one path by events, with the interface of quinn's `congestion::Controller`.
///
/// The sender detects losses, reports at most one per window, and reduces the window to the threshold in its own way:
/// at once, or in proportion to what arrives (RFC 6937).
pub trait Controller: Debug {
    /// `acked` was acknowledged, in the window's unit, while the window was in use and nothing was being repaired.
    fn on_ack(&mut self, now: Instant, acked: f64, srtt: Duration);
    /// A loss begins a reduction: sets the threshold.
    fn on_congestion_event(&mut self);
    /// A time-out, or a reduction that proved spurious: growth restarts.
    fn on_timeout(&mut self);
    /// Sending resumes after `idle` without anything in flight: the time does not count for growth.
    fn on_idle(&mut self, idle: Duration);
    /// Window and threshold.
    fn window(&self) -> &Window;
    /// The same, mutable, for recovery and for window validation.
    fn window_mut(&mut self) -> &mut Window;
}

/// Congestion window and slow-start threshold, in the unit of the transport that uses them: segments or bytes.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Congestion window; never below a segment.
    pub cwnd: f64,
    /// Slow-start threshold; infinite until the first loss.
    pub ssthresh: f64,
    /// A full segment: 1, or its bytes.
    mss: f64,
}

impl Window {
    /// A window of `initial` segments, each of `mss` units.
    pub fn new(mss: f64, initial: u32) -> Self {
        Window { cwnd: mss * f64::from(initial.max(1)), ssthresh: f64::INFINITY, mss }
    }

    /// Below the threshold?
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows up to the threshold; returns the rest for congestion avoidance.
    ///
    /// Appropriate byte counting (RFC 3465): by what is acknowledged, not by acknowledgements.
    fn slow_start(&mut self, acked: f64) -> f64 {
        let step = acked.min((self.ssthresh - self.cwnd).max(0.0));
        self.cwnd += step;
        acked - step
    }

    /// Sets the threshold, but not below two segments (RFC 5681 §3.1, equation 4; RFC 9438 §4.6). Whole units, as Linux's
    /// window is an integer and its fraction is progress towards the next one.
    fn reduce_by(&mut self, factor: f64) {
        self.ssthresh = (self.cwnd.floor() * factor).floor().max(2.0 * self.mss);
    }
}
