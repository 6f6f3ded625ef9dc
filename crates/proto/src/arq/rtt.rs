//! Round-trip time and the time-out drawn from it (RFC 6298).

use std::time::Duration;

use antiphon_core::Instant;

/// Smoothed round-trip time, its deviation, the retransmission time-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    floor: Duration,
    ack_delay: Duration,
    smoothed: Option<(Duration, Duration)>,
    min: Duration,
    /// Smoothed time between packets, and when the last one went out.
    interval: Duration,
    last_packet: Option<Instant>,
}

impl Rtt {
    /// `floor`: least time-out; `ack_delay`: how long the peer may keep an acknowledgement back.
    pub fn new(floor: Duration, ack_delay: Duration) -> Self {
        Rtt {
            floor,
            ack_delay,
            smoothed: None,
            min: Duration::MAX,
            interval: Duration::ZERO,
            last_packet: None,
        }
    }

    /// Folds in one round trip, the peer's delay already taken off; never one that could belong to either of two
    /// sendings (Karn's rule).
    ///
    /// Source: RFC 6298 §2.2 and 2.3.
    pub fn on_sample(&mut self, sample: Duration) {
        // A clock's grain: nothing is nearer than this.
        let sample = sample.max(Duration::from_micros(1));
        self.min = self.min.min(sample);
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((srtt, rttvar)) => ((7 * srtt + sample) / 8, (3 * rttvar + srtt.abs_diff(sample)) / 4),
        });
    }

    /// A new packet goes out: how often they do says when the next acknowledgement can come.
    pub fn on_packet(&mut self, now: Instant) {
        if let Some(last) = self.last_packet {
            self.interval = (7 * self.interval + now.since(last).min(LONGEST_INTERVAL)) / 8;
        }
        self.last_packet = Some(now);
    }

    /// SRTT, once something was measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| srtt)
    }

    /// RTTVAR, once something was measured.
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, rttvar)| rttvar)
    }

    /// The smallest round trip, once something was measured.
    pub fn min(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.min)
    }

    /// SRTT + 4 RTTVAR, the peer's delay, and as long again as the next acknowledgement needs: one may be lost, and the
    /// next one, an interval and a delay later, tells the same.
    ///
    /// Departs from RFC 6298 §2.4, as the floor is not a second: playout budgets are under 200 ms.
    pub fn rto(&self) -> Duration {
        let Some((srtt, rttvar)) = self.smoothed else { return INITIAL_RTO };
        (srtt + 4 * rttvar + 2 * self.ack_delay + self.interval).clamp(self.floor, MAX_RTO.max(self.floor))
    }

    /// How much later than its successors a packet may come without being taken for lost: a quarter of the smallest
    /// round trip (RFC 8985 §6.2).
    pub fn reordering(&self) -> Duration {
        self.min().unwrap_or_default() / 4
    }
}

/// Before the first measurement: longer than the paths over which live sound is of use; the first answer corrects it.
const INITIAL_RTO: Duration = Duration::from_millis(100);
/// Packets that are rarer (the longest usual block of speech) don't lengthen the time-out: they are few, and may well be
/// sent once too often.
const LONGEST_INTERVAL: Duration = Duration::from_millis(20);
/// A longer time-out helps no live sound, and recordings come back sooner after an outage.
pub(super) const MAX_RTO: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Worked by hand after RFC 6298: 40 ms, then 60 ms.
    #[test]
    fn the_estimate_follows_the_rfc() {
        let mut rtt = Rtt::new(ms(10), ms(5));
        assert_eq!(rtt.rto(), ms(100));
        rtt.on_sample(ms(40));
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(40)), Some(ms(20)), ms(40 + 80 + 10)));
        rtt.on_sample(ms(60));
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(Duration::from_micros(42_500)), Some(ms(20))));
        assert_eq!((rtt.min(), rtt.reordering()), (Some(ms(40)), ms(10)));
        for n in 0..100 {
            rtt.on_packet(Instant::from_millis(8 * n));
        }
        let with_interval = Duration::from_micros(42_500) + ms(80 + 10 + 8);
        assert!(rtt.rto().abs_diff(with_interval) < Duration::from_micros(1), "{:?}", rtt.rto());
        for _ in 0..200 {
            rtt.on_sample(Duration::ZERO);
        }
        assert_eq!(
            Rtt { ack_delay: Duration::ZERO, interval: Duration::ZERO, ..rtt }.rto(),
            ms(10),
            "the floor"
        );
    }
}
