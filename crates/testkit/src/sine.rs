//! A sine of known frequency in sound, and what else is there.

/// The sine that fits best, and the rest.
#[derive(Clone, Copy, Debug)]
pub struct Sine {
    /// Its highest value.
    pub level: f64,
    /// Its phase at sample 0, in radians.
    pub phase: f64,
    /// Mean power of what is left without it.
    pub rest: f64,
}

impl Sine {
    /// Fits one that turns by `turn` radians from sample to sample to `sound`, which begins at sample `first` (least squares).
    pub fn fit(sound: &[f32], first: usize, turn: f64) -> Self {
        let basis = |n: usize| (turn * (first + n) as f64).sin_cos();
        let (mut ss, mut cc, mut sc, mut xs, mut xc) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (n, x) in sound.iter().enumerate() {
            let ((s, c), x) = (basis(n), f64::from(*x));
            (ss, cc, sc) = (ss + s * s, cc + c * c, sc + s * c);
            (xs, xc) = (xs + x * s, xc + x * c);
        }
        let determinant = ss * cc - sc * sc;
        let (a, b) = ((xs * cc - xc * sc) / determinant, (xc * ss - xs * sc) / determinant);
        let left = sound.iter().enumerate().map(|(n, x)| {
            let (s, c) = basis(n);
            (f64::from(*x) - a * s - b * c).powi(2)
        });
        Sine { level: a.hypot(b), phase: b.atan2(a), rest: left.sum::<f64>() / sound.len() as f64 }
    }

    /// Power of the rest, in dB relative to the sine's.
    pub fn rest_db(&self) -> f64 {
        10.0 * (self.rest / (self.level * self.level / 2.0)).log10()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sine_beside_another_is_found() {
        let sample = |n: usize| (0.5 * (0.1 * n as f64 + 1.0).sin() + 0.05 * (0.4 * n as f64).sin()) as f32;
        let sound: Vec<f32> = (300..7_000).map(sample).collect();
        let Sine { level, phase, rest } = Sine::fit(&sound, 300, 0.1);
        assert!((level - 0.5).abs() < 1e-3 && (phase - 1.0).abs() < 1e-3, "{level} at {phase}");
        // 0.05 beside 0.5 are 20 dB.
        assert!((rest / 0.00125 - 1.0).abs() < 0.01, "{rest}");
        assert!((Sine::fit(&sound, 300, 0.1).rest_db() + 20.0).abs() < 0.1);
    }
}
