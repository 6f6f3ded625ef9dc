//! Reno (RFC 5681).

use std::time::Duration;

use crate::Instant;

use super::{Controller, Window};

/// Adds a segment for each window, halves the window at a loss.
#[derive(Clone, Debug)]
pub struct Reno(Window);

impl Reno {
    /// Begins with this window.
    pub fn new(window: Window) -> Self {
        Reno(window)
    }
}

impl Controller for Reno {
    /// Congestion avoidance adds a segment for each window (§3.1, equation 3).
    fn on_ack(&mut self, _now: Instant, acked: f64, _srtt: Duration) {
        let window = &mut self.0;
        let left = window.slow_start(acked);
        if left > 0.0 {
            let step = window.mss * left / window.cwnd;
            // Bytes are whole, and grow by at least one; for segments a fraction is progress towards the next.
            window.cwnd += if window.mss > 1.0 { step.floor().max(1.0) } else { step };
        }
    }

    /// Half the window: as Linux, and not half of what is in flight (`tcp_reno_ssthresh`).
    fn on_congestion_event(&mut self) {
        self.0.reduce_by(0.5);
    }

    fn on_timeout(&mut self) {}

    fn on_idle(&mut self, _idle: Duration) {}

    fn window(&self) -> &Window {
        &self.0
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(reno: &mut Reno, acked: f64) {
        reno.on_ack(Instant::ZERO, acked, Duration::ZERO);
    }

    #[test]
    fn a_window_of_acknowledgements_adds_about_a_segment() {
        let mut reno = Reno::new(Window { ssthresh: 20.0, ..Window::new(1.0, 20) });
        (0..20).for_each(|_| ack(&mut reno, 1.0));
        // Each acknowledgement sees the grown window, so a little less than one: 20 ln-wise 0.976.
        assert!((20.97..21.0).contains(&reno.window().cwnd), "{reno:?}");
        reno.window_mut().cwnd = 21.9;
        reno.on_congestion_event();
        assert_eq!((reno.window().ssthresh, reno.window().cwnd), (10.0, 21.9));
    }

    #[test]
    fn slow_start_doubles_the_window_up_to_the_threshold() {
        let mut reno = Reno::new(Window::new(1000.0, 10));
        (0..10).for_each(|_| ack(&mut reno, 1000.0));
        assert_eq!(reno.window().cwnd, 20_000.0);
        reno.on_congestion_event();
        reno.window_mut().cwnd = 9_500.0;
        ack(&mut reno, 1500.0);
        // 500 to the threshold of 10 000, and a tenth of a segment for the other 1000.
        assert_eq!(reno.window().cwnd, 10_100.0);
        reno.window_mut().cwnd = 3_000.0;
        reno.on_congestion_event();
        assert_eq!(reno.window().ssthresh, 2_000.0, "not below two segments");
    }
}
