//! The SRP report's measure of a stream: how far its loss and latency are from what the application desires.
//!
//! Latency is "round trip time / 2 plus the mean distance of the arrivals from their mean" (section 5.1). "Arrivals"
//! can be read in two ways, and the printed figures don't decide between them, so both have a name here:
//!
//! * the *intervals* between arrivals ([`interval_deviation_ms`]): a message that never came makes one of them twice as
//!   long, so loss counts as latency, too;
//! * the *ages* of arrivals ([`mean_absolute_deviation`](crate::mean_absolute_deviation) of them): a late message
//!   counts by how late it came, a lost one only as loss.

use antiphon_core::Instant;

use crate::jitter::mean_absolute_deviation;

/// What an application tolerates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DesiredQuality {
    /// Loss in percent of the messages sent, above 0.
    pub loss_percent: f64,
    /// Latency in milliseconds, above 0.
    pub latency_ms: f64,
}

impl DesiredQuality {
    /// Of all tests of the SRP report (section 5.1).
    pub const SRP_REPORT: DesiredQuality = DesiredQuality { loss_percent: 10.0, latency_ms: 250.0 };

    /// A stream that lost `lost_percent` of its messages, on a path of `round_trip_ms`, whose arrivals lie
    /// `deviation_ms` from their mean on average.
    pub fn ratios(&self, lost_percent: f64, round_trip_ms: f64, deviation_ms: f64) -> QualityRatios {
        QualityRatios {
            loss: lost_percent / self.loss_percent,
            latency: (round_trip_ms / 2.0 + deviation_ms) / self.latency_ms,
        }
    }
}

/// A point of the report's quality plots: both as ratios to the desired values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QualityRatios {
    /// Loss.
    pub loss: f64,
    /// Latency.
    pub latency: f64,
}

impl QualityRatios {
    /// Distance from the origin; within 1 is the desired quality.
    pub fn distance(&self) -> f64 {
        self.loss.hypot(self.latency)
    }
}

/// Mean absolute deviation of the intervals between successive arrivals, in milliseconds. `arrivals` in order; `None`
/// before the second.
pub fn interval_deviation_ms(arrivals: &[Instant]) -> Option<f64> {
    let interval = |pair: &[Instant]| pair[1].since(pair[0]).as_secs_f64() * 1e3;
    let intervals: Vec<f64> = arrivals.windows(2).map(interval).collect();
    mean_absolute_deviation(&intervals)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP of Table 1e: 3.404 % lost and 28.8075 ms at a round trip of 50 ms are printed as 0.340426, 0.11523 and 0.359399.
    #[test]
    fn ratios_and_distance_are_the_reports() {
        let udp = DesiredQuality::SRP_REPORT.ratios(3.404_26, 50.0, 3.807_5);
        assert!((udp.loss - 0.340_426).abs() < 1e-9 && (udp.latency - 0.115_23).abs() < 1e-9, "{udp:?}");
        // Computed from ratios that are printed to six places, too.
        assert!((udp.distance() - 0.359_399).abs() < 2e-6, "{}", udp.distance());
    }

    #[test]
    fn a_lost_message_makes_one_interval_of_two() {
        let at = |ms: &[u64]| ms.iter().map(|ms| Instant::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(interval_deviation_ms(&at(&[0, 160, 320, 480])), Some(0.0));
        // Intervals 160, 320, 160: mean 213.3, distances 53.3, 106.7, 53.3.
        let deviation = interval_deviation_ms(&at(&[0, 160, 480, 640])).unwrap();
        assert!((deviation - 640.0 / 9.0).abs() < 1e-9, "{deviation}");
        assert_eq!(interval_deviation_ms(&at(&[5])), None);
    }
}
