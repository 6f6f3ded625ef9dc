//! A small random generator with a fixed algorithm, so that no upgrade of a library changes a result.

/// PCG-XSH-RR 64/32 (M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
/// Random Number Generation", HMC-CS-2014-0905): 64 bits of state, 32 bits of output, one stream per seed.
///
/// Every link element and every endpoint owns one, seeded by [`Rng::fork`], so that adding an element never changes
/// what the others draw.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
    increment: u64,
}

impl Rng {
    /// A generator for `seed`; equal seeds draw equal numbers on every machine.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng { state: 0, increment: split_mix(seed ^ 0x5851_f42d_4c95_7f2d) | 1 };
        rng.next_u32();
        rng.state = rng.state.wrapping_add(split_mix(seed));
        rng.next_u32();
        rng
    }

    /// A generator for the part called `label` of the user of `seed`, independent of its other parts.
    pub fn fork(seed: u64, label: &str) -> Self {
        // FNV-1a over the label: stable, and unrelated to the arithmetic that follows.
        let hash = label
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Rng::new(split_mix(seed) ^ hash)
    }

    /// Uniform over all 32-bit numbers.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
        let shifted = (((old >> 18) ^ old) >> 27) as u32;
        shifted.rotate_right((old >> 59) as u32)
    }

    /// Uniform over all 64-bit numbers.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        (u64::from(self.next_u32()) << 32) | u64::from(self.next_u32())
    }

    /// Uniform in `0.0..1.0`, with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`. Draws one number whatever `p` is, so that settings do not shift the sequence.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Uniform in `0..n`; 0 if `n` is 0. Lemire's multiplication method; the bias is under 2⁻³² · n.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Standard normal (Box–Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(4) {
            let drawn = self.next_u32().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014): spreads seeds that differ in one bit over the whole word.
fn split_mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_fixed_for_ever() {
        let mut rng = Rng::new(42);
        let drawn: Vec<u32> = (0..4).map(|_| rng.next_u32()).collect();
        let mut again = Rng::new(42);
        assert_eq!(drawn, (0..4).map(|_| again.next_u32()).collect::<Vec<_>>());
        // A change of these numbers changes every recorded result: they were drawn when the generator was written.
        assert_eq!(drawn, FIRST_DRAWS_OF_42);
    }

    #[test]
    fn moments_agree_with_theory() {
        let mut rng = Rng::new(7);
        let n = 200_000;
        let (mut uniform, mut normal, mut square, mut exponential) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            uniform += rng.unit();
            let x = rng.normal();
            normal += x;
            square += x * x;
            exponential += rng.exponential();
        }
        let n = f64::from(n);
        // Five standard errors: 0.289/√n, 1/√n, √2/√n and 1/√n.
        let tolerance = 5.0 / n.sqrt();
        assert!((uniform / n - 0.5).abs() < 0.289 * tolerance);
        assert!((normal / n).abs() < tolerance);
        assert!((square / n - 1.0).abs() < 1.42 * tolerance);
        assert!((exponential / n - 1.0).abs() < tolerance);
    }

    #[test]
    fn forks_are_independent_of_one_another() {
        let (mut a, mut b) = (Rng::fork(1, "loss"), Rng::fork(1, "delay"));
        let n = 100_000;
        let covariance = (0..n).map(|_| (a.unit() - 0.5) * (b.unit() - 0.5)).sum::<f64>() / f64::from(n);
        // Standard error of the mean product of two uniforms: (1/12)/√n.
        assert!(covariance.abs() < 5.0 / 12.0 / f64::from(n).sqrt());
    }

    const FIRST_DRAWS_OF_42: [u32; 4] = [2_799_522_083, 473_560_273, 2_942_684_554, 1_119_005_538];
}
