//! How much of its window a sender uses (RFC 7661).
//!
//! A window that is hardly used is not known to fit the path: it must neither grow further nor decide what remains after
//! a loss. One that is used by half is as good as a full one, so that an application which sends at a constant rate keeps
//! a window above what it needs.

use std::time::Duration;

use crate::Instant;

/// Whether `used` of a window says that the path takes the window (RFC 7661 §4.3).
pub fn is_validated(used: f64, cwnd: f64) -> bool {
    2.0 * used >= cwnd
}

/// The volume acknowledged in a round trip, recently at most (`pipeACK`, RFC 7661 §4.2 and §4.5.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct PipeAck {
    /// Since when and how much, in the present round trip.
    round: Option<(Instant, f64)>,
    /// The largest samples of this half of the sampling period and of the one before, and when this one began.
    most: [f64; 2],
    half_began: Instant,
}

impl PipeAck {
    /// `acked` was acknowledged. A round trip without a measure yet is not sampled.
    pub fn on_ack(&mut self, now: Instant, acked: f64, srtt: Option<Duration>) {
        let Some(srtt) = srtt else { return };
        // The first acknowledgement begins a round trip: it tells of the one before.
        let Some((began, volume)) = &mut self.round else {
            self.round = Some((now, 0.0));
            self.half_began = now;
            return;
        };
        *volume += acked;
        let elapsed = now.since(*began);
        if elapsed.is_zero() || elapsed < srtt {
            return;
        }
        let sample = *volume * srtt.as_secs_f64() / elapsed.as_secs_f64();
        self.round = Some((now, 0.0));
        let half = PERIOD.max(3 * srtt) / 2;
        let passed = now.since(self.half_began);
        if passed >= half {
            self.most = [0.0, if passed < 2 * half { self.most[0] } else { 0.0 }];
            self.half_began = now;
        }
        self.most[0] = self.most[0].max(sample);
    }

    /// The most that was acknowledged in a round trip of the sampling period; 0 before the first one.
    pub fn most(&self) -> f64 {
        self.most[0].max(self.most[1])
    }
}

/// The least sampling period (RFC 7661 §4.2).
const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Option<Duration> = Some(Duration::from_millis(40));

    /// `bytes` every 5 ms, for so many times.
    fn stream(pipe: &mut PipeAck, from: u64, times: u64, bytes: f64) -> u64 {
        (0..times).for_each(|n| pipe.on_ack(Instant::from_millis(from + 5 * n), bytes, SRTT));
        from + 5 * times
    }

    #[test]
    fn the_volume_of_a_round_trip_is_kept_for_a_period() {
        let mut pipe = PipeAck::default();
        assert_eq!(pipe.most(), 0.0);
        let now = stream(&mut pipe, 0, 100, 1000.0);
        assert_eq!(pipe.most(), 8000.0, "eight in a round trip of 40 ms");
        let now = stream(&mut pipe, now, 80, 100.0);
        assert_eq!(pipe.most(), 8000.0, "not forgotten within half a second");
        stream(&mut pipe, now, 201, 100.0);
        assert_eq!(pipe.most(), 800.0, "forgotten after a second");
    }

    #[test]
    fn the_largest_round_trip_of_a_period_counts_and_not_the_last() {
        let mut pipe = PipeAck::default();
        let now = stream(&mut pipe, 0, 20, 1000.0);
        let now = stream(&mut pipe, now, 20, 100.0);
        assert_eq!(pipe.most(), 8000.0);
        pipe.on_ack(Instant::from_millis(now + 3_000), 100.0, SRTT);
        assert!(pipe.most() < 100.0, "nothing remains after a silence of three periods: {}", pipe.most());
    }

    #[test]
    fn a_burst_of_acknowledgements_is_no_rate() {
        let mut pipe = PipeAck::default();
        [0, 1, 40].into_iter().for_each(|at| pipe.on_ack(Instant::from_millis(at), 1000.0, SRTT));
        assert_eq!(pipe.most(), 2000.0, "of a whole round trip");
    }

    #[test]
    fn a_silent_path_shows_little() {
        let mut pipe = PipeAck::default();
        pipe.on_ack(Instant::from_millis(0), 1000.0, SRTT);
        pipe.on_ack(Instant::from_millis(4_000), 1000.0, SRTT);
        assert_eq!(pipe.most(), 10.0);
        pipe.on_ack(Instant::from_millis(4_001), 1000.0, None);
    }

    #[test]
    fn half_a_window_validates_it() {
        assert!(is_validated(500.0, 1000.0) && !is_validated(499.0, 1000.0));
    }
}
