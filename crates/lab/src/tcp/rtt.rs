//! Round-trip time and retransmission time-out (RFC 6298).

use std::time::Duration;

/// How the retransmission time-out is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoSettings {
    /// Before the first round trip is measured.
    pub initial: Duration,
    /// Lower bound; what it bounds is told by `floor`.
    pub min: Duration,
    /// Upper bound, back-off included.
    pub max: Duration,
    /// What `min` bounds.
    pub floor: RtoFloor,
    /// Granularity of the clock, RFC 6298's G.
    pub granularity: Duration,
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

/// Smoothed round trip, its variation, and the time-out with its back-off.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    settings: RtoSettings,
    srtt: Option<Duration>,
    rttvar: Duration,
    min_rtt: Option<Duration>,
    backoff: u32,
}

impl RttEstimator {
    /// An estimator that has measured nothing.
    pub fn new(settings: RtoSettings) -> Self {
        RttEstimator { settings, srtt: None, rttvar: Duration::ZERO, min_rtt: None, backoff: 0 }
    }

    /// Folds in one round trip; never from a retransmitted segment without timestamps (Karn's rule).
    ///
    /// Source: RFC 6298 §2.2-2.3, α = 1/8, β = 1/4.
    pub fn on_sample(&mut self, sample: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
        match self.srtt {
            None => {
                self.srtt = Some(sample);
                self.rttvar = sample / 2;
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(sample)) / 4;
                self.srtt = Some((srtt * 7 + sample) / 8);
            }
        }
    }

    /// The time-out fired: the next one is twice as long (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// New data was acknowledged: back to the computed time-out.
    ///
    /// Linux does so on every advance (`tcp_ack`: `icsk_backoff = 0`), RFC 6298 §5 only on a new sample.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The time-out, back-off included.
    pub fn rto(&self) -> Duration {
        self.base_rto().saturating_mul(1 << self.backoff).min(self.settings.max)
    }

    /// The time-out without back-off.
    pub fn base_rto(&self) -> Duration {
        let settings = &self.settings;
        let Some(srtt) = self.srtt else { return settings.initial };
        let variation = (self.rttvar * 4).max(settings.granularity);
        let rto = match settings.floor {
            RtoFloor::Total => (srtt + variation).max(settings.min),
            RtoFloor::Variation => srtt + variation.max(settings.min),
        };
        rto.min(settings.max)
    }

    /// Smoothed round-trip time, once measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Variation of the round trip.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// Least round trip of the connection. (Linux takes the least of the last five minutes.)
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// The lower bound of the settings.
    pub fn min_rto(&self) -> Duration {
        self.settings.min
    }

    /// Time-outs in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }
}

/// 2^16 initial time-outs pass any `max` a user may set; keeps the shift in range.
const MAX_BACKOFF: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn settings(floor: RtoFloor) -> RtoSettings {
        RtoSettings { initial: ms(1000), min: ms(200), max: ms(120_000), floor, granularity: ms(1) }
    }

    #[test]
    fn the_equations_of_rfc_6298() {
        let mut rtt = RttEstimator::new(settings(RtoFloor::Total));
        assert_eq!(rtt.rto(), ms(1000), "section 2.1");
        rtt.on_sample(ms(400));
        // Section 2.2: SRTT = R, RTTVAR = R/2, RTO = R + 4 R/2.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(400)), ms(200), ms(1200)));
        rtt.on_sample(ms(480));
        // Section 2.3, RTTVAR before SRTT: (3·200 + 80)/4 = 170; (7·400 + 480)/8 = 410; 410 + 4·170. SRTT first would
        // give (3·200 + 70)/4 = 167.5.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(410)), ms(170), ms(1090)));
        assert_eq!(rtt.min_rtt(), Some(ms(400)));
    }

    #[test]
    fn the_floor_bounds_the_whole_or_the_variation() {
        let steady = |floor| {
            let mut rtt = RttEstimator::new(settings(floor));
            (0..200).for_each(|_| rtt.on_sample(ms(40)));
            rtt.rto()
        };
        assert_eq!(steady(RtoFloor::Total), ms(200));
        assert_eq!(steady(RtoFloor::Variation), ms(240), "Linux: 40 ms + 200 ms");
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum_and_ends_with_new_data() {
        let mut rtt = RttEstimator::new(settings(RtoFloor::Total));
        rtt.on_sample(ms(1000));
        let seen: Vec<u64> = (0..8)
            .map(|_| {
                rtt.back_off();
                rtt.rto().as_secs()
            })
            .collect();
        assert_eq!(seen, [6, 12, 24, 48, 96, 120, 120, 120]);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), ms(120_000));
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), ms(3000));
    }
}
