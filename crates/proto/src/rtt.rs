//! Round-trip time and the retransmission time-out drawn from it (RFC 6298), for every protocol here that has one.
//!
//! [`Rtt`] smooths, [`RttEstimator`] bounds a time-out and backs it off. What is measured is the caller's choice: never an
//! answer that could belong to either of two transmissions (Karn's rule, RFC 6298 §3).

use std::time::Duration;

use crate::patience::LONGEST_PAUSE;

/// Smoothed round-trip time, its variation, and the shortest of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: Option<(Duration, Duration)>,
    min: Option<Duration>,
}

impl Rtt {
    /// Folds in one round trip.
    ///
    /// Source: RFC 6298 §2.2 and §2.3, α = 1/8, β = 1/4.
    pub fn on_sample(&mut self, sample: Duration) {
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((srtt, rttvar)) => ((7 * srtt + sample) / 8, (3 * rttvar + srtt.abs_diff(sample)) / 4),
        });
    }

    /// SRTT, once something was measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| srtt)
    }

    /// RTTVAR, once something was measured.
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, rttvar)| rttvar)
    }

    /// The shortest round trip, once something was measured.
    pub fn min(&self) -> Option<Duration> {
        self.min
    }

    /// SRTT + 4 RTTVAR (RFC 6298 §2.3), without any bound, once something was measured.
    pub fn timeout(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, rttvar)| srtt + 4 * rttvar)
    }
}

/// How a retransmission time-out is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoSettings {
    /// Before the first round trip is measured.
    pub initial: Duration,
    /// Lower bound; what it bounds is told by `floor`.
    pub min: Duration,
    /// Up to which back-off doubles. It does not shorten a time-out that is longer without back-off.
    pub max: Duration,
    /// Upper bound without back-off, at least `max`.
    pub longest: Duration,
    /// What `min` bounds.
    pub floor: RtoFloor,
    /// The least that a time-out is above the round trip: granularity of the clock, RFC 6298's G, and whatever else the
    /// variation does not show.
    pub granularity: Duration,
}

impl RtoSettings {
    /// The time-out after `rtt`, without back-off.
    pub fn timeout(&self, rtt: &Rtt) -> Duration {
        let RtoSettings { initial, min, longest, floor, granularity, .. } = *self;
        let Some((srtt, rttvar)) = rtt.smoothed else { return initial.max(granularity) };
        let variation = (4 * rttvar).max(granularity);
        let rto = match floor {
            RtoFloor::Total => (srtt + variation).max(min),
            RtoFloor::Variation => srtt + variation.max(min),
        };
        rto.min(longest)
    }
}

/// What the lower bound of the time-out applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtoFloor {
    /// The whole time-out (RFC 6298 §2.4).
    Total,
    /// The term of the variation alone, so that a time-out is never below `srtt + min`: Linux since 2.4
    /// (`net/ipv4/tcp_input.c`, `tcp_rtt_estimator`: `rttvar = max(mdev_max, tcp_rto_min)`).
    Variation,
}

/// A round trip with the retransmission time-out (RTO) that follows from it.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    settings: RtoSettings,
    rtt: Rtt,
    backoff: u32,
}

impl RttEstimator {
    /// An estimator that has measured nothing.
    pub fn new(settings: RtoSettings) -> Self {
        RttEstimator { settings, rtt: Rtt::default(), backoff: 0 }
    }

    /// As [`Rtt::on_sample`].
    pub fn on_sample(&mut self, sample: Duration) {
        self.rtt.on_sample(sample);
    }

    /// The time-out fired: the next one is twice as long (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// New data was acknowledged: back to the computed time-out.
    ///
    /// Linux does so on every advance (`tcp_ack`: `icsk_backoff = 0`), RFC 6298 §5 only on a new sample.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The time-out, back-off included.
    pub fn rto(&self) -> Duration {
        backed_off(self.base_rto(), self.backoff, self.settings.max)
    }

    /// The same with the computed time-out multiplied before its bounds: Linux 2.2 (`tcp_set_rto`, `tcp_bound_rto`).
    pub fn rto_times(&self, factor: f64) -> Duration {
        let RtoSettings { min, max, longest, .. } = self.settings;
        let Some(timeout) = self.rtt.timeout() else { return self.rto() };
        backed_off(timeout.mul_f64(factor).clamp(min, longest), self.backoff, max)
    }

    /// The time-out without back-off.
    pub fn base_rto(&self) -> Duration {
        self.settings.timeout(&self.rtt)
    }

    /// SRTT, RTTVAR and the shortest round trip.
    pub fn smoothed(&self) -> &Rtt {
        &self.rtt
    }

    /// The lower bound of the settings.
    pub fn min_rto(&self) -> Duration {
        self.settings.min
    }
}

/// A time-out after so many others in a row (RFC 6298 §5.5): doubled by each, up to `max` or itself if that is longer.
pub fn backed_off(timeout: Duration, times: u32, max: Duration) -> Duration {
    timeout.saturating_mul(1 << times.min(MAX_DOUBLINGS)).min(max.max(timeout))
}

/// 2^16 time-outs pass any bound that may be set; keeps the shift in range.
const MAX_DOUBLINGS: u32 = 16;

/// For playout budgets under 200 ms, where the peer may delay an acknowledgement by `ack_delay`; RFC 9260 §16 has 1 s, 1 s and
/// 60 s.
pub(crate) const fn live_rto(ack_delay: Duration) -> RtoSettings {
    let granularity = Duration::from_nanos((ack_delay.as_nanos() + RTO_SLACK.as_nanos()) as u64);
    let (min, floor) = (Duration::ZERO, RtoFloor::Total);
    RtoSettings { initial: RTO_INITIAL, min, max: RTO_MAX, longest: RTO_LONGEST, floor, granularity }
}

/// A scheduler's time slice, at both ends.
const RTO_SLACK: Duration = Duration::from_millis(20);
/// RFC 9260 §16 says 1 s; live sound can't wait for it.
const RTO_INITIAL: Duration = Duration::from_millis(250);
/// RFC 9260 doubles up to 60 s: after an outage of 30 s the next try could be half a minute away.
const RTO_MAX: Duration = LONGEST_PAUSE;
/// A path slower than that is of no use for a conversation.
const RTO_LONGEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn estimator(floor: RtoFloor) -> RttEstimator {
        let (initial, min, max) = (ms(1000), ms(200), ms(120_000));
        RttEstimator::new(RtoSettings { initial, min, max, longest: max, floor, granularity: ms(1) })
    }

    #[test]
    fn the_equations_of_rfc_6298() {
        let mut estimator = estimator(RtoFloor::Total);
        assert_eq!(estimator.rto(), ms(1000), "section 2.1");
        assert_eq!(estimator.smoothed().timeout(), None);
        estimator.on_sample(ms(400));
        let known = |estimator: &RttEstimator| {
            (estimator.smoothed().srtt(), estimator.smoothed().rttvar(), estimator.rto())
        };
        // Section 2.2: SRTT = R, RTTVAR = R/2, RTO = R + 4 R/2.
        assert_eq!(known(&estimator), (Some(ms(400)), Some(ms(200)), ms(1200)));
        estimator.on_sample(ms(480));
        // Section 2.3, RTTVAR before SRTT: (3·200 + 80)/4 = 170; (7·400 + 480)/8 = 410; 410 + 4·170. SRTT first would
        // give (3·200 + 70)/4 = 167.5.
        assert_eq!(known(&estimator), (Some(ms(410)), Some(ms(170)), ms(1090)));
        assert_eq!(
            (estimator.smoothed().min(), estimator.smoothed().timeout()),
            (Some(ms(400)), Some(ms(1090)))
        );
    }

    #[test]
    fn a_factor_multiplies_before_the_bounds() {
        let mut estimator = estimator(RtoFloor::Total);
        assert_eq!(estimator.rto_times(2.0), ms(1000), "nothing is measured");
        estimator.on_sample(ms(400));
        assert_eq!(estimator.rto_times(1.75), ms(2100), "1200 ms by RFC 6298");
        estimator.back_off();
        assert_eq!(estimator.rto_times(1.75), ms(4200));
        (0..200).for_each(|_| estimator.on_sample(ms(40)));
        estimator.reset_backoff();
        assert_eq!(estimator.rto_times(1.75), ms(200));
    }

    #[test]
    fn the_floor_bounds_the_whole_or_the_variation() {
        let steady = |floor| {
            let mut estimator = estimator(floor);
            (0..200).for_each(|_| estimator.on_sample(ms(40)));
            estimator.rto()
        };
        assert_eq!(steady(RtoFloor::Total), ms(200));
        assert_eq!(steady(RtoFloor::Variation), ms(240), "Linux: 40 ms + 200 ms");
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum_and_ends_with_new_data() {
        let mut estimator = estimator(RtoFloor::Total);
        estimator.on_sample(ms(1000));
        let doubled = std::iter::repeat_with(|| {
            estimator.back_off();
            estimator.rto().as_secs()
        });
        assert_eq!(doubled.take(8).collect::<Vec<_>>(), [6, 12, 24, 48, 96, 120, 120, 120]);
        (0..100).for_each(|_| estimator.back_off());
        assert_eq!(estimator.rto(), ms(120_000));
        estimator.reset_backoff();
        assert_eq!(estimator.rto(), ms(3000));
    }

    #[test]
    fn a_long_round_trip_is_waited_for_up_to_a_bound_of_its_own() {
        let settings =
            RtoSettings { max: ms(1000), longest: ms(2000), ..estimator(RtoFloor::Total).settings };
        let mut estimator = RttEstimator::new(settings);
        (0..400).for_each(|_| estimator.on_sample(ms(1500)));
        estimator.back_off();
        assert!((ms(1500)..=ms(1502)).contains(&estimator.rto()), "{:?}", estimator.rto());
        (0..400).for_each(|_| estimator.on_sample(ms(5000)));
        assert_eq!(estimator.rto(), ms(2000));
        assert_eq!(backed_off(ms(100), u32::MAX, ms(1000)), ms(1000));
        assert_eq!(backed_off(Duration::MAX, 3, ms(1000)), Duration::MAX);
    }
}
