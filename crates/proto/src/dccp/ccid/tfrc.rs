//! The throughput equation of TFRC (RFC 5348 §3.1), and its inverse.

use std::time::Duration;

/// f(p), so that the rate is s / (R f(p)): b = 1, t_RTO = 4 R.
pub fn f(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// The rate of a TCP with segments of `size` bytes, in bytes per second.
///
/// `p`: loss event rate, above 0, at most 1.
pub fn throughput(size: f64, rtt: Duration, p: f64) -> f64 {
    size / (rtt.as_secs_f64().max(1e-6) * f(p.clamp(1e-9, 1.0)))
}

/// The loss event rate at which [`throughput`] is `rate`, by bisection; between 10⁻⁸ and 1.
pub fn loss_event_rate(size: f64, rtt: Duration, rate: f64) -> f64 {
    let wanted = size / (rtt.as_secs_f64().max(1e-6) * rate.max(1e-3));
    let (mut low, mut high) = (1e-8f64, 1.0f64);
    // f grows with p. 40 halvings of the exponent's range are exact to a millionth.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if f(middle) < wanted { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_gives_the_table_and_its_inverse_takes_it_back() {
        // Computed independently for s = 1000 bytes, R = 0.1 s.
        let table = [
            (0.0001, 0.008172, 1_223_644.0),
            (0.001, 0.026052, 383_844.0),
            (0.005, 0.060335, 165_741.0),
            (0.01, 0.089022, 112_332.0),
            (0.02, 0.136521, 73_249.0),
            (0.05, 0.271305, 36_859.0),
            (0.1, 0.564939, 17_701.0),
            (0.2, 1.863717, 5_366.0),
        ];
        let rtt = Duration::from_millis(100);
        for (p, expected_f, rate) in table {
            assert!((f(p) - expected_f).abs() < 1e-6, "f({p}) = {}", f(p));
            assert!((throughput(1000.0, rtt, p) - rate).abs() < 1.0, "X({p})");
            let back = loss_event_rate(1000.0, rtt, rate);
            assert!((back / p - 1.0).abs() < 1e-3, "{back} for {p}");
        }
    }
}
