//! Loss models: independent, in fades, and in bursts of packets (Gilbert and Elliott).

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use crate::draws::Draws;
use crate::packet::Counters;
use crate::spec::LossModel;

/// Decides for each packet whether it is lost.
pub struct Loss {
    model: LossModel,
    state: State,
    draws: Draws,
    pub(crate) counters: Counters,
}

/// The state of a channel that has two.
enum State {
    /// It has one.
    Constant,
    Fades(Fades),
    Bursts(Bursts),
}

impl Loss {
    /// A channel that begins in its stationary state, so that the mean over many seeds holds from the first packet.
    pub fn new(model: LossModel, seed: u64) -> Self {
        let rng = Rng::fork(seed, "loss");
        let state = match model {
            LossModel::None | LossModel::Independent(_) => State::Constant,
            LossModel::Fading { good, bad, .. } => State::Fades(Fades::new(good, bad, rng)),
            LossModel::GilbertElliott { p, r, .. } => State::Bursts(Bursts::new(p.0, r.0, rng)),
        };
        Loss { model, state, draws: Draws::new(seed, "loss"), counters: Counters::default() }
    }

    /// Returns whether the packet that comes at `now` is lost.
    pub fn strikes(&mut self, now: Instant) -> bool {
        let bad = match &mut self.state {
            State::Constant => false,
            State::Fades(fades) => fades.is_bad(now),
            State::Bursts(bursts) => bursts.is_bad(now),
        };
        let share = match self.model {
            LossModel::None => return false,
            LossModel::Independent(share) => share,
            LossModel::Fading { loss_bad, .. } | LossModel::GilbertElliott { loss_bad, .. } if bad => {
                loss_bad
            }
            LossModel::Fading { loss_good, .. } | LossModel::GilbertElliott { loss_good, .. } => loss_good,
        };
        self.draws.at(now).chance(share.0)
    }
}

/// A channel that moves with time: both states last for exponentially distributed times.
struct Fades {
    good: Duration,
    bad: Duration,
    in_fade: bool,
    /// When the present state ends.
    until: Instant,
    rng: Rng,
}

impl Fades {
    fn new(good: Duration, bad: Duration, mut rng: Rng) -> Self {
        let share = bad.as_secs_f64() / (good + bad).as_secs_f64().max(f64::MIN_POSITIVE);
        let in_fade = rng.chance(share);
        let mut fades = Fades { good, bad, in_fade, until: Instant::ZERO, rng };
        fades.draw();
        fades
    }

    fn is_bad(&mut self, now: Instant) -> bool {
        while self.until <= now {
            self.in_fade = !self.in_fade;
            self.draw();
        }
        self.in_fade
    }

    fn draw(&mut self) {
        let mean = if self.in_fade { self.bad } else { self.good };
        // A state lasts for some time, or a channel of two very short ones would never catch up with the clock.
        self.until += mean.mul_f64(self.rng.exponential()).max(SHORTEST_STATE);
    }
}

/// Far below the time between two packets, and short beside the shortest fade that a specification accepts.
const SHORTEST_STATE: Duration = Duration::from_micros(1);

/// A channel that moves at each packet, as published.
///
/// After a silence of [`BURST_MEMORY`] it is in its stationary state. A burst models a fade, which ends: otherwise a
/// transport that sends one packet and waits, twice as long each time, would meet the same burst for minutes.
struct Bursts {
    /// Probability of going from good to bad.
    p: f64,
    /// Probability of going from bad to good.
    r: f64,
    in_burst: bool,
    /// When the last packet came.
    last: Instant,
    rng: Rng,
}

impl Bursts {
    fn new(p: f64, r: f64, mut rng: Rng) -> Self {
        let in_burst = rng.chance(stationary(p, r));
        Bursts { p, r, in_burst, last: Instant::ZERO, rng }
    }

    fn is_bad(&mut self, now: Instant) -> bool {
        let rested = now.since(self.last) >= BURST_MEMORY;
        self.last = now;
        let change = self.rng.unit();
        self.in_burst = match self.in_burst {
            _ if rested => change < stationary(self.p, self.r),
            true => change >= self.r,
            false => change < self.p,
        };
        self.in_burst
    }
}

/// How long a burst may last after the last packet. Above the gap of any audio stream (20 to 60 ms for voice), below
/// the least retransmission time-out of kernel TCP (200 ms); fades from moving people at 2.4 GHz last 5 to 100 ms.
pub const BURST_MEMORY: Duration = Duration::from_millis(100);

/// Share of the bad state.
fn stationary(p: f64, r: f64) -> f64 {
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

    /// Fades that average `bad`, 5 % of the time.
    fn fades(bad: Duration) -> LossModel {
        LossModel::fades(Ratio(0.05), bad).expect("possible")
    }

    #[test]
    fn fades_take_their_share_of_time_and_last_as_long_as_they_should() {
        // The state each 0.1 ms for 4000 s: 20 000 fades of 10 ms. Renewal theory: the share's standard deviation is
        // √(2 Ag²b²/(T (g+b)³)) for exponential times, here with g = 190 ms and b = 10 ms.
        let (step, n) = (100, 40_000_000u64);
        let mut loss = Loss::new(fades(Duration::from_millis(10)), 5);
        let (mut lost, mut runs, mut before) = (0u64, 0u64, false);
        for k in 0..n {
            let now = loss.strikes(Instant::from_micros(k * step));
            lost += u64::from(now);
            runs += u64::from(now && !before);
            before = now;
        }
        let seconds = n as f64 * step as f64 * 1e-6;
        let (good, bad) = (0.19f64, 0.01f64);
        let sigma = (2.0 * good.powi(2) * bad.powi(2) / (seconds * (good + bad).powi(3))).sqrt();
        let share = lost as f64 / n as f64;
        assert!((share - 0.05).abs() < 3.0 * sigma, "{share}");
        // Sampled every 0.1 ms, fades shorter than that are missed now and then: a run has 1/(1-e^{-step/b'}) samples,
        // 1/b' = 1/b + 1/g·(what returns at once, negligible). σ of an exponential mean is itself.
        let mean = lost as f64 * step as f64 * 1e-6 / runs as f64;
        let expected = 1e-6 * step as f64 / (1.0 - (-1e-6 * step as f64 / bad).exp());
        assert!(
            (mean - expected).abs() < 3.0 * bad / (runs as f64).sqrt() + 1e-4 * expected,
            "{mean} {expected}"
        );
    }

    #[test]
    fn losses_in_and_between_fades_add_up() {
        let (good, bad) = (Duration::from_millis(90), Duration::from_millis(10));
        let model = LossModel::Fading { good, bad, loss_bad: Ratio(0.4), loss_good: Ratio(0.01) };
        assert!((model.mean().0 - (0.9 * 0.01 + 0.1 * 0.4)).abs() < 1e-12, "4.9 %");
        assert!((fades(bad).mean().0 - 0.05).abs() < 1e-9);
        // As above, with the share of fades; the draws within the states add at most P(1-P)/N.
        let (n, step) = (2_000_000, 0.001);
        let (rate, ..) = observe_each(1, model, 5, n);
        let states = 2.0 * 0.09f64.powi(2) * 0.01f64.powi(2) / (f64::from(n) * step * 0.1f64.powi(3));
        let sigma = (states * 0.39f64.powi(2) + 0.049 * 0.951 / f64::from(n)).sqrt();
        assert!((rate - 0.049).abs() < 3.0 * sigma, "{rate}");
    }

    #[test]
    fn the_first_packets_of_many_links_meet_the_mean_loss() {
        let bursts = LossModel::bursts(Ratio(0.3), 10.0).expect("possible");
        let fades = LossModel::fades(Ratio(0.3), Duration::from_millis(50)).expect("possible");
        for model in [bursts, fades] {
            let first = |seed: &u64| Loss::new(model, *seed).strikes(Instant::from_micros(10));
            let lost = (0..20_000).filter(first).count() as f64 / 20_000.0;
            assert!((lost - 0.3).abs() < 3.0 * (0.3f64 * 0.7 / 20_000.0).sqrt(), "{model:?}: {lost}");
        }
    }

    #[test]
    fn fades_that_are_too_short_or_too_long_are_impossible() {
        let micros = Duration::from_micros;
        for (share, bad, possible) in [
            (0.5, micros(30), true),
            (0.5, micros(29), false),
            (0.9, micros(270), true),
            // The times between them.
            (0.9, micros(260), false),
            (0.5, LossModel::LONGEST, true),
            (0.6, LossModel::LONGEST + micros(1), false),
            (1e-9, Duration::from_secs(3_600), false),
            (0.0, micros(1_000), false),
            (1.0, micros(1_000), false),
        ] {
            assert_eq!(LossModel::fades(Ratio(share), bad).is_some(), possible, "{share} {bad:?}");
        }
    }

    #[test]
    fn a_fade_is_the_same_for_who_sends_much_and_who_sends_little() {
        let at = |k: u64, spacing: u64| Instant::from_micros(k * spacing);
        let model = fades(Duration::from_millis(15));
        let (mut talkative, mut quiet) = (Loss::new(model, 9), Loss::new(model, 9));
        let mut often = std::collections::BTreeSet::new();
        for k in 0..600_000 {
            if talkative.strikes(at(k, 100)) {
                often.insert(at(k, 100));
            }
        }
        let lost = (0..12_000).filter(|k| quiet.strikes(at(*k, 5_000))).count();
        let also = (0..12_000).filter(|k| often.contains(&at(*k, 5_000))).count();
        assert_eq!(lost, also, "at one in fifty of the instants");
        assert!(lost > 300, "{lost}");
    }

    #[test]
    fn bursts_of_packets_become_fades_that_are_the_same_at_the_pace_of_the_stream() {
        let pace = Duration::from_micros(5_333);
        for (share, burst) in [(0.05, 3.0), (0.004, 2.0), (0.02, 10.0)] {
            let by_packets = LossModel::bursts(Ratio(share), burst).expect("possible");
            let in_time = by_packets.in_time(pace);
            assert!(matches!(in_time, LossModel::Fading { .. }), "{in_time:?}");
            let mut loss = Loss::new(in_time, 5);
            let (n, mut lost, mut runs, mut before) = (2_000_000u32, 0u32, 0u32, false);
            for k in 0..n {
                let now = loss.strikes(Instant::ZERO + pace * k);
                lost += u32::from(now);
                runs += u32::from(now && !before);
                before = now;
            }
            let LossModel::GilbertElliott { p, r, .. } = by_packets else { panic!("bursts") };
            let c = 1.0 - p.0 - r.0;
            let sigma = (share * (1.0 - share) / f64::from(n) * (1.0 + c) / (1.0 - c)).sqrt();
            assert!(
                (f64::from(lost) / f64::from(n) - share).abs() < 3.0 * sigma,
                "{lost} of {n} for {share}"
            );
            let mean = f64::from(lost) / f64::from(runs);
            let sigma = burst * (1.0 - r.0).sqrt() / f64::from(runs).sqrt();
            assert!((mean - burst).abs() < 3.0 * sigma, "{mean} for {burst}");
        }
        // A channel that alternates faster than independently can't be one in time: each packet is by itself.
        let alternating = LossModel::GilbertElliott {
            p: Ratio(0.8),
            r: Ratio(0.9),
            loss_bad: Ratio(1.0),
            loss_good: Ratio(0.0),
        };
        assert_eq!(alternating.in_time(pace), LossModel::Independent(alternating.mean()));
        // One that never changes its state loses what it loses in that.
        for (p, r, expected) in [(0.0, 0.3, 0.01), (0.3, 0.0, 0.4)] {
            let (loss_bad, loss_good) = (Ratio(0.4), Ratio(0.01));
            let constant = LossModel::GilbertElliott { p: Ratio(p), r: Ratio(r), loss_bad, loss_good };
            assert_eq!(constant.in_time(pace), LossModel::Independent(Ratio(expected)));
        }
        assert_eq!(LossModel::Independent(Ratio(0.1)).in_time(pace), LossModel::Independent(Ratio(0.1)));
    }

    #[test]
    fn no_loss_and_certain_loss_are_exact() {
        assert_eq!(observe(LossModel::None, 1, 10_000).0, 0.0);
        assert_eq!(observe(LossModel::Independent(Ratio(1.0)), 1, 10_000).0, 1.0);
    }
}
