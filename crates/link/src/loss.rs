//! Loss models: independent, and in bursts (Gilbert and Elliott).

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use crate::packet::Counters;
use crate::spec::LossModel;

/// Decides for each packet whether it is lost.
pub struct Loss {
    model: LossModel,
    /// Whether the Gilbert-Elliott channel is in its bad state.
    bad: bool,
    /// When the last packet came.
    last: Instant,
    rng: Rng,
    pub(crate) counters: Counters,
}

impl Loss {
    /// A channel that begins in its stationary state, so that the mean over many seeds holds from the first packet.
    pub fn new(model: LossModel, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "loss");
        let bad = match model {
            LossModel::GilbertElliott { p, r, .. } => rng.chance(share_of_bad(p.0, r.0)),
            _ => rng.chance(0.0),
        };
        Loss { model, bad, last: Instant::ZERO, rng, counters: Counters::default() }
    }

    /// Returns whether the packet that comes at `now` is lost. Two draws per packet, whatever the model.
    ///
    /// The Gilbert-Elliott channel moves at each packet, so that the fate of the n-th does not depend on when it comes;
    /// but after a silence of [`BURST_MEMORY`] it is in its stationary state. A burst models a fade, which ends:
    /// otherwise a transport that sends one packet and waits, twice as long each time, would meet the same burst for
    /// minutes.
    pub fn strikes(&mut self, now: Instant) -> bool {
        let rested = now.since(self.last) >= BURST_MEMORY;
        self.last = now;
        let (change, strike) = (self.rng.unit(), self.rng.unit());
        match self.model {
            LossModel::None => false,
            LossModel::Independent(p) => strike < p.0,
            LossModel::GilbertElliott { p, r, loss_bad, loss_good } => {
                self.bad = match self.bad {
                    _ if rested => change < share_of_bad(p.0, r.0),
                    true => change >= r.0,
                    false => change < p.0,
                };
                strike < if self.bad { loss_bad.0 } else { loss_good.0 }
            }
        }
    }
}

/// How long a burst may last after the last packet. Above the gap of any audio stream (20 to 60 ms for voice), below
/// the least retransmission time-out of kernel TCP (200 ms); fades from moving people at 2.4 GHz last 5 to 100 ms.
pub const BURST_MEMORY: Duration = Duration::from_millis(100);

fn share_of_bad(p: f64, r: f64) -> f64 {
    p / (p + r).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use antiphon_core::Ratio;

    use super::*;

    /// Share of lost packets and mean run length of losses, over `n` packets.
    fn observe_each(gap_ms: u64, model: LossModel, seed: u64, n: u32) -> (f64, f64, f64) {
        let mut loss = Loss::new(model, seed);
        let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
        for k in 0..n {
            let now = loss.strikes(Instant::from_millis(u64::from(k) * gap_ms));
            lost += u32::from(now);
            runs += u32::from(now && !before);
            before = now;
        }
        (f64::from(lost) / f64::from(n), f64::from(lost) / f64::from(runs), f64::from(runs))
    }

    fn observe(model: LossModel, seed: u64, n: u32) -> (f64, f64, f64) {
        observe_each(5, model, seed, n)
    }

    #[test]
    fn bursts_do_not_outlast_a_silence() {
        let model = LossModel::bursts(Ratio(0.05), 10.0).expect("possible");
        let n = 400_000;
        let (rate, run, runs) = observe_each(100, model, 5, n);
        // As with independent losses: rate within 3 σ, runs of 1/(1-P) and not of ten.
        assert!((rate - 0.05).abs() < 3.0 * (0.05f64 * 0.95 / f64::from(n)).sqrt(), "{rate}");
        assert!((run - 1.0 / 0.95).abs() < 3.0 * 0.05f64.sqrt() / 0.95 / runs.sqrt(), "{run}");
        assert!(observe_each(99, model, 5, n).1 > 9.0);
    }

    #[test]
    fn independent_loss_has_its_rate_and_its_run_length() {
        // 3 σ of 400 000 draws at 5 %: 0.103 %; a rate taken per mille, or drawn twice, is far outside.
        let (rate, run, runs) = observe(LossModel::Independent(Ratio(0.05)), 11, 400_000);
        assert!((rate - 0.05).abs() < 3.0 * (0.05f64 * 0.95 / 4e5).sqrt(), "{rate}");
        // Runs of independent losses are geometric: mean 1/(1-P), σ² = P/(1-P)² each.
        let sigma = (0.05f64).sqrt() / 0.95 / runs.sqrt();
        assert!((run - 1.0 / 0.95).abs() < 3.0 * sigma, "{run}");
    }

    #[test]
    fn gilbert_loss_has_its_rate_and_its_bursts() {
        // 5 % in bursts of 3: r = .3333, p = .01754 (protocols/links §2).
        let model = LossModel::bursts(Ratio(0.05), 3.0).expect("possible");
        let LossModel::GilbertElliott { p, r, .. } = model else { panic!("bursts make a Gilbert channel") };
        assert!((p.0 - 0.01754).abs() < 1e-5 && (r.0 - 0.3333).abs() < 1e-4);
        let n = 1_000_000;
        let (rate, run, runs) = observe(model, 5, n);
        // σ² = P(1-P)/N (1+c)/(1-c) with c = 1-p-r: 3 σ = 0.14 % of 5 %; bursts of 2 or 4 would pass this check, not
        // the next one.
        let c = 1.0 - p.0 - r.0;
        let sigma = (0.05f64 * 0.95 / f64::from(n) * (1.0 + c) / (1.0 - c)).sqrt();
        assert!((rate - 0.05).abs() < 3.0 * sigma, "{rate}");
        // Run lengths are geometric with mean 1/r and variance (1-r)/r².
        let sigma = ((1.0 - r.0).sqrt() / r.0) / runs.sqrt();
        assert!((run - 3.0).abs() < 3.0 * sigma, "{run}");
    }

    #[test]
    fn gilbert_elliott_losses_in_both_states_add_up() {
        let model = LossModel::GilbertElliott {
            p: Ratio(0.02),
            r: Ratio(0.1),
            loss_bad: Ratio(0.4),
            loss_good: Ratio(0.01),
        };
        // (r·loss_good + p·loss_bad)/(p+r) = (.001 + .008)/.12 = 7.5 %. The states alone have a variance of
        // π(1-π)(.39)²(1+c)/(1-c)/N; the draws within them add at most P(1-P)/N.
        let n = 1_000_000.0;
        let (rate, ..) = observe(model, 9, 1_000_000);
        let share: f64 = 1.0 / 6.0;
        let states = share * (1.0 - share) * 0.39f64.powi(2) * (1.88 / 0.12) / n;
        let sigma = (states + 0.075 * 0.925 / n).sqrt();
        assert!((rate - 0.075).abs() < 3.0 * sigma, "{rate}");
    }

    #[test]
    fn no_loss_and_certain_loss_are_exact() {
        assert_eq!(observe(LossModel::None, 1, 10_000).0, 0.0);
        assert_eq!(observe(LossModel::Independent(Ratio(1.0)), 1, 10_000).0, 1.0);
    }
}
