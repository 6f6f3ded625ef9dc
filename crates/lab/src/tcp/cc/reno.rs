//! Reno (RFC 5681).

/// The window after `acked` segments in congestion avoidance: one segment more per window (§3.1, equation 3).
pub fn grown(cwnd: f64, acked: f64) -> f64 {
    cwnd + acked / cwnd
}

/// The threshold at a loss: half the window. As Linux, by the window and not by what is in flight (`tcp_reno_ssthresh`).
///
/// Halves whole segments: Linux's window is an integer, and the fraction is progress towards the next one.
pub fn reduced(cwnd: f64) -> f64 {
    (cwnd.floor() / 2.0).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_acknowledgements_adds_about_a_segment() {
        let mut cwnd = 20.0;
        (0..20).for_each(|_| cwnd = grown(cwnd, 1.0));
        // Each acknowledgement sees the grown window, so a little less than one: 20 ln-wise 0.976.
        assert!((20.97..21.0).contains(&cwnd), "{cwnd}");
        assert_eq!(reduced(21.9), 10.0);
    }
}
