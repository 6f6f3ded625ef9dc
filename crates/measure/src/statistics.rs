//! How sure a figure is: confidence intervals and proportions.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};

/// A mean with the half width of its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MeanInterval {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half width: t · s / √n with Student's t of n − 1 degrees of freedom; `None` for a single sample.
    pub half_width: Option<f64>,
    /// How many samples.
    pub count: u64,
}

impl MeanInterval {
    /// Of independent `samples` (runs, not packets of one run); `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<MeanInterval> {
        let n = samples.len() as f64;
        if samples.is_empty() {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n;
        let squares = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let half_width =
            student_t(samples.len() as u64 - 1).map(|t| t * (squares / (n - 1.0)).sqrt() / n.sqrt());
        Some(MeanInterval { mean, half_width, count: samples.len() as u64 })
    }
}

/// Student's t for a two-sided 95 % interval (the 97.5 % quantile); `None` for no degree of freedom.
pub fn student_t(degrees_of_freedom: u64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom as f64).ok()?;
    Some(t.inverse_cdf(0.975))
}

/// The 97.5 % quantile of the standard normal distribution.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % interval for a proportion of `hits` in `n`, as shares. `None` if `n` is not positive.
///
/// `n` need not be whole: where losses come in bursts, divide both by the mean burst, as the losses of one burst are
/// one event, not several.
pub fn wilson(hits: f64, n: f64) -> Option<(f64, f64)> {
    if n.is_nan() || n <= 0.0 {
        return None;
    }
    let p = (hits / n).clamp(0.0, 1.0);
    let z2 = Z95 * Z95;
    let centre = p + z2 / (2.0 * n);
    let spread = Z95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    Some((((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)))
}

/// Probability that a proportion of which `hits` in `n` were seen is at most `bound`: the posterior under Jeffreys'
/// prior, Beta(hits + ½, n − hits + ½). One half when nothing was seen of it.
pub fn share_at_most(hits: f64, n: f64, bound: f64) -> f64 {
    if n.is_nan() || n <= 0.0 {
        return 0.5;
    }
    let hits = hits.clamp(0.0, n);
    match Beta::new(hits + 0.5, n - hits + 0.5) {
        Ok(beta) => beta.cdf(bound.clamp(0.0, 1.0)),
        Err(_) => 0.5,
    }
}

/// Probability that a quantity estimated as `a` with standard error `error_a` is below `b` with `error_b`, both taken
/// as normal. A half when both are equal and without error.
pub fn is_below(a: f64, error_a: f64, b: f64, error_b: f64) -> f64 {
    let error = error_a.hypot(error_b);
    let difference = b - a;
    match Normal::new(0.0, error) {
        Ok(normal) => normal.cdf(difference),
        Err(_) if difference == 0.0 => 0.5,
        Err(_) => f64::from(difference > 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_of_the_tables() {
        // n = 30: 2.045 (recovery-and-metrics §1); printed tables for the others.
        for (freedom, t) in [(29, 2.045), (1, 12.706), (9, 2.262), (1000, 1.962)] {
            let got = student_t(freedom).unwrap();
            assert!((got - t).abs() < 0.0006, "{freedom}: {got}");
        }
        assert_eq!(student_t(0), None);
    }

    #[test]
    fn mean_and_half_width() {
        // s = √2.5, t(4) = 2.776445: half width 1.963243.
        let interval = MeanInterval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(interval.mean, 3.0);
        assert!((interval.half_width.unwrap() - 1.963_243).abs() < 1e-5);
        assert_eq!(MeanInterval::of(&[7.0]).unwrap().half_width, None);
        assert_eq!(MeanInterval::of(&[]), None);
    }

    #[test]
    fn wilson_of_known_cases() {
        // 0 of 10: upper bound z²/(n + z²) = 0.27753; 5 of 10: 0.23659 to 0.76341.
        let (low, high) = wilson(0.0, 10.0).unwrap();
        assert_eq!(low, 0.0);
        assert!((high - 0.277_53).abs() < 1e-5);
        let (low, high) = wilson(5.0, 10.0).unwrap();
        assert!((low - 0.236_59).abs() < 1e-5 && (high - 0.763_41).abs() < 1e-5);
        assert_eq!(wilson(0.0, 0.0), None);
    }

    #[test]
    fn few_samples_say_little() {
        let (few, many) = (share_at_most(0.0, 20.0, 0.01), share_at_most(0.0, 2000.0, 0.01));
        assert!(few < 0.6 && many > 0.999, "{few} {many}");
        assert_eq!(share_at_most(0.0, 0.0, 0.5), 0.5);
        // Symmetric about one half.
        assert!((share_at_most(50.0, 100.0, 0.5) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn comparison_is_the_normal_one() {
        assert!((is_below(0.0, 3.0, 5.0 * Z95, 4.0) - 0.975).abs() < 1e-6);
        assert_eq!(is_below(1.0, 0.0, 2.0, 0.0), 1.0);
        assert_eq!(is_below(2.0, 0.0, 2.0, 0.0), 0.5);
    }
}
