//! When a member asks for repairs: soon, or, in large groups, at a random time, so that one asks for what many lack (*damping*).

use std::time::Duration;

use antiphon_core::Rng;

/// Draws a wait of at most `spread` for one of about `members` members that miss the same packet. Few of them draw a short wait, so that the repair
/// for the first request reaches most others before they ask. Truncated exponential distribution (RFC 5401 §3.2.1; RFC 5740 §5.4).
pub(super) fn draw(rng: &mut Rng, spread: Duration, members: f64) -> Duration {
    let lambda = members.max(1.0).ln() + 1.0;
    let x = rng.unit();
    // The inverse of the distribution function (e^(λt) − 1) / (e^λ − 1) on 0..1.
    let t = (x * (lambda.exp() - 1.0) + 1.0).ln() / lambda;
    spread.mul_f64(t.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_is_early_and_few_are() {
        let mut rng = Rng::new(5);
        let spread = Duration::from_millis(100);
        for members in [10, 100, 1000] {
            let (mut first_sum, mut asks_sum) = (0.0, 0);
            for _ in 0..200 {
                let draws: Vec<f64> = (0..members)
                    .map(|_| draw(&mut rng, spread, f64::from(members)).as_secs_f64() / spread.as_secs_f64())
                    .collect();
                assert!(draws.iter().all(|t| (0.0..=1.0).contains(t)));
                let first = draws.iter().copied().fold(1.0, f64::min);
                first_sum += first;
                // A quarter of the spread is a round trip: who draws less than the first's and that asks as well.
                asks_sum += draws.iter().filter(|t| **t < first + 0.25).count();
            }
            let (first, asks) = (first_sum / 200.0, f64::from(asks_sum as u32) / 200.0);
            // With λ = ln n + 1 about e^(λ/4) members draw within a quarter of the first (RFC 5740 §5.4: a handful).
            let expected = ((f64::from(members).ln() + 1.0) / 4.0).exp() * 2.0;
            assert!(first < 0.8, "the first of {members} at {first}");
            assert!(asks < 1.5 * expected + 1.0, "{asks} of {members} ask; {expected} are expected at most");
        }
    }
}
