//! What happens to a frame on the air besides collisions: errors, and outages of a station.

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::spec::{Fade, StationSpec};

/// The path between one station and the rest of the cell.
pub(super) struct Channel {
    error: f64,
    rng: Rng,
    /// For acknowledgements, so that they change nothing in the frames' draws.
    acknowledgements: Rng,
    /// The last length of an acknowledgement and its share of errors: most follow frames of one size.
    last: (f64, f64),
    fade: Option<Outages>,
}

/// Exponential gaps between outages of exponential length, independent of the traffic.
struct Outages {
    gap: f64,
    mean: f64,
    rng: Rng,
    /// The next outage, or the current one.
    from: Instant,
    until: Instant,
}

impl Channel {
    pub(super) fn new(spec: &StationSpec, seed: u64) -> Self {
        Channel {
            error: of_this_run(spec, seed),
            rng: Rng::fork(seed, "frame error"),
            acknowledgements: Rng::fork(seed, "acknowledgement error"),
            last: (0.0, 0.0),
            fade: spec.fade.filter(|fade| fade.share.0 > 0.0).map(|fade| Outages::new(fade, seed)),
        }
    }

    /// Whether a frame sent at `start` fails. Called with instants that never go back. A clean channel draws nothing:
    /// its generator is for errors only.
    #[inline]
    pub(super) fn fails(&mut self, start: Instant) -> bool {
        let error = self.error > 0.0 && self.rng.chance(self.error);
        error | self.is_out(start)
    }

    /// Whether the acknowledgement sent at `start` fails, of a frame that did not; `length`: its airtime over that of the frame.
    /// Instants as for [`Self::fails`].
    ///
    /// Errors are taken to strike at a constant rate in time, as interference does: of a share `p` over the frame's airtime
    /// follows `1 - (1 - p)^length` over the acknowledgement's.
    #[inline]
    pub(super) fn fails_acknowledgement(&mut self, start: Instant, length: f64) -> bool {
        let error = self.error > 0.0 && {
            if self.last.0 != length {
                self.last = (length, 1.0 - (1.0 - self.error).powf(length));
            }
            self.acknowledgements.chance(self.last.1)
        };
        error | self.is_out(start)
    }

    #[inline]
    fn is_out(&mut self, at: Instant) -> bool {
        self.fade.as_mut().is_some_and(|fade| fade.is_on(at))
    }
}

/// The share of frames that are lost where the station stands in this run.
fn of_this_run(spec: &StationSpec, seed: u64) -> f64 {
    if spec.frame_error_spread == 1.0 {
        return spec.frame_error.0;
    }
    let sigma = spec.frame_error_spread.ln();
    let factor = (sigma * Rng::fork(seed, "place").normal() - sigma * sigma / 2.0).exp();
    (spec.frame_error.0 * factor).min(1.0)
}

impl Outages {
    fn new(Fade { mean, share }: Fade, seed: u64) -> Self {
        let (mean, share) = (mean.as_secs_f64(), share.0);
        let rng = Rng::fork(seed, "fade");
        let mut outages = Outages {
            gap: mean * (1.0 - share) / share,
            mean,
            rng,
            from: Instant::ZERO,
            until: Instant::ZERO,
        };
        outages.draw();
        outages
    }

    fn draw(&mut self) {
        // `as` saturates: a gap of centuries never ends.
        let mut exponential = |mean: f64| Duration::from_nanos((mean * 1e9 * self.rng.exponential()) as u64);
        self.from = self.until + exponential(self.gap);
        self.until = self.from + exponential(self.mean) + Duration::from_nanos(1);
    }

    fn is_on(&mut self, at: Instant) -> bool {
        while self.until <= at && self.until < Instant::from_nanos(u64::MAX) {
            self.draw();
        }
        self.from <= at
    }
}

#[cfg(test)]
mod tests {
    use antiphon_core::Ratio;

    use super::*;

    #[test]
    fn outages_have_their_share_and_their_length() {
        let fade = Fade { mean: Duration::from_millis(20), share: Ratio(0.1) };
        let spec = StationSpec { fade: Some(fade), ..StationSpec::default() };
        let mut channel = Channel::new(&spec, 7);
        let (mut out, mut outages, mut before) = (0u32, 0u32, false);
        let n = 4_000_000u32;
        for ms in 0..u64::from(n) {
            let now = channel.fails(Instant::from_millis(ms));
            out += u32::from(now);
            outages += u32::from(now && !before);
            before = now;
        }
        // 20 000 outages of exponential length and gap: standard error of the share √(2/20 000) = 1 %; three of them.
        // A gap that leaves the outage out of the period would be off by 10 %.
        let share = f64::from(out) / f64::from(n);
        assert!((share / 0.1 - 1.0).abs() < 0.03, "{share}");
        // Sampled each millisecond, a run is 1/(1-e^(-1/20)) = 20.5 long, but a gap under 1 ms can be missed (0.5 %).
        let run = f64::from(out) / f64::from(outages);
        assert!((run / 20.6 - 1.0).abs() < 0.03, "{run}");
    }

    #[test]
    fn places_differ_by_their_factor_and_keep_the_mean() {
        let spec =
            StationSpec { frame_error: Ratio(0.01), frame_error_spread: 2.0, ..StationSpec::default() };
        let shares: Vec<f64> = (0..20_000).map(|seed| of_this_run(&spec, seed)).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 20_000.0;
        // e^(σ²) - 1 = 0.62 is the variance of the share over the square of its mean: 0.6 % of 20 000, four of them.
        let average = mean(&mut shares.iter().copied());
        assert!((average / 0.01 - 1.0).abs() < 0.023, "{average}");
        let log = mean(&mut shares.iter().map(|share| share.ln()));
        let spread = mean(&mut shares.iter().map(|share| (share.ln() - log).powi(2))).sqrt();
        // The standard error of a deviation is 0.5 %.
        assert!((spread / 2f64.ln() - 1.0).abs() < 0.02, "{spread}");
    }

    #[test]
    fn acknowledgements_fail_by_their_length_and_change_no_frame() {
        let spec = StationSpec { frame_error: Ratio(0.3), ..StationSpec::default() };
        let (mut one, mut other) = (Channel::new(&spec, 7), Channel::new(&spec, 7));
        let (n, mut failed) = (200_000, 0u32);
        for micros in 0..n {
            let at = Instant::from_micros(micros);
            failed += u32::from(one.fails_acknowledgement(at, 34.0 / 230.0));
            assert_eq!(one.fails(at), other.fails(at));
        }
        // 1 - 0.7^(34/230) = 5.14 %, with a standard error of 0.05 %; four of them. By bytes it would be 0.4 %.
        let share = f64::from(failed) / n as f64;
        assert!((share - 0.0514).abs() < 0.002, "{share}");
    }

    #[test]
    fn the_rarest_outage_and_none_are_possible() {
        for share in [0.0, f64::MIN_POSITIVE, 1e-12] {
            let fade = Fade { mean: Duration::MAX, share: Ratio(share) };
            let mut channel = Channel::new(&StationSpec { fade: Some(fade), ..StationSpec::default() }, 1);
            assert!(!channel.fails(Instant::from_millis(10_000)));
        }
    }
}
