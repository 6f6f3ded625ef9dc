//! CUBIC (RFC 9438).

use std::time::Duration;

use crate::Instant;

use super::{Controller, Window};

/// The cubic function between two reductions, in segments.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    w_max: f64,
    /// Began with the first growth after a reduction.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Time from its start to the plateau, seconds.
    k: f64,
    /// Window a Reno flow would have.
    w_est: f64,
    /// Window before the reduction: from there on Reno's own pace.
    prior: f64,
}

impl Cubic {
    /// Begins with this window.
    pub fn new(window: Window) -> Self {
        Cubic { window, w_max: 0.0, epoch: None }
    }

    /// The window after `acked` segments in congestion avoidance (§4.2 to §4.5).
    fn grown(&mut self, now: Instant, cwnd: f64, acked: f64, srtt: Duration) -> f64 {
        if self.epoch.is_none() {
            if self.w_max < cwnd {
                self.w_max = cwnd;
            }
            let k = ((self.w_max - cwnd) / C).cbrt();
            self.epoch = Some(Epoch { start: now, k, w_est: cwnd, prior: self.w_max });
        }
        let w_max = self.w_max;
        let Some(epoch) = &mut self.epoch else { return cwnd };
        let t = now.since(epoch.start).as_secs_f64();
        let cubic_at = |t: f64| C * (t - epoch.k).powi(3) + w_max;
        // §4.3: α is 1 once the window of before the reduction is reached again.
        let alpha = if epoch.w_est >= epoch.prior { 1.0 } else { ALPHA };
        let target = cubic_at(t + srtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
        let now_cubic = cubic_at(t);
        epoch.w_est += alpha * acked / cwnd;
        if now_cubic < epoch.w_est { cwnd.max(epoch.w_est) } else { cwnd + (target - cwnd) * acked / cwnd }
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, now: Instant, acked: f64, srtt: Duration) {
        let left = self.window.slow_start(acked);
        if left > 0.0 {
            let Window { cwnd, mss, .. } = self.window;
            self.window.cwnd = mss * self.grown(now, cwnd / mss, left / mss, srtt);
        }
    }

    /// §4.6, with fast convergence (§4.7).
    fn on_congestion_event(&mut self) {
        let cwnd = self.window.cwnd / self.window.mss;
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.epoch = None;
        self.window.reduce_by(BETA);
    }

    /// The next growth begins a new epoch (§4.8).
    fn on_timeout(&mut self) {
        self.epoch = None;
    }

    /// Idle time moves the epoch (Linux `cubictcp_cwnd_event`, `CA_EVENT_TX_START`).
    fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

/// RFC 9438 §5: aggressiveness, segments per cubed second.
const C: f64 = 0.4;
/// CUBIC's window after a loss, as a part of that before it: the multiplicative decrease (RFC 9438 §4.6).
pub const BETA: f64 = 0.7;
/// RFC 9438 §4.3: growth that gives Reno's mean window at `BETA`: 3 (1 - β) / (1 + β).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_returns_to_its_maximum_after_k_seconds() {
        // In bytes, as the function itself counts segments.
        let mut cubic = Cubic::new(Window::new(100.0, 1000));
        cubic.on_congestion_event();
        let segments = |cubic: &Cubic| cubic.window().cwnd / 100.0;
        cubic.window_mut().cwnd = cubic.window().ssthresh;
        assert_eq!(segments(&cubic), 700.0);
        // K = ∛(1000·0.3/0.4) = 9.086 s.
        let rtt = Duration::from_millis(100);
        let mut seen = Vec::new();
        for step in 0..200u64 {
            let now = Instant::from_millis(step * 100);
            // One window of acknowledgements per round trip, in ten parts.
            (0..10).for_each(|_| cubic.on_ack(now, cubic.window().cwnd / 10.0, rtt));
            seen.push(segments(&cubic));
        }
        // Concave before K, flat at K, convex after it. The target is a round trip ahead, so the plateau is flat to
        // within 0.4·0.3³; a wrong K (30 % of the window forgotten) would be off by tens of segments.
        assert!((seen[90] - 1000.0).abs() < 1.0, "{}", seen[90]);
        let expected = 1000.0 + 0.4 * (15.1f64 - 9.086).powi(3);
        assert!((seen[150] / expected - 1.0).abs() < 0.01, "{} against {expected}", seen[150]);
        assert!(seen[10] - seen[0] > seen[90] - seen[80]);
    }

    #[test]
    fn fast_convergence_gives_way_to_new_flows() {
        let mut cubic = Cubic::new(Window::new(1.0, 100));
        cubic.on_congestion_event();
        assert_eq!(cubic.w_max, 100.0);
        cubic.window_mut().cwnd = 80.0;
        cubic.on_congestion_event();
        assert!((cubic.w_max - 68.0).abs() < 1e-9, "80 · (1 + 0.7) / 2");
    }
}
