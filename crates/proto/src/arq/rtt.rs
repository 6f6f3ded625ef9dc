//! Round-trip time, and a time-out that waits for the next acknowledgement as well (RFC 6298).

use std::time::Duration;

use antiphon_core::Instant;

use crate::rtt;

/// Smoothed round-trip time, its variation, the retransmission time-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    floor: Duration,
    ack_delay: Duration,
    smoothed: rtt::Rtt,
    /// Smoothed time between packets, and when the last one was sent.
    interval: Duration,
    last_packet: Option<Instant>,
}

impl Rtt {
    /// `floor`: minimum time-out; `ack_delay`: how long the peer may delay an acknowledgement.
    pub fn new(floor: Duration, ack_delay: Duration) -> Self {
        Rtt { floor, ack_delay, smoothed: rtt::Rtt::default(), interval: Duration::ZERO, last_packet: None }
    }

    /// Folds in one round trip, without the peer's delay; never one that could belong to either of two transmissions
    /// (Karn's rule).
    pub fn on_sample(&mut self, sample: Duration) {
        // The clock's granularity.
        self.smoothed.on_sample(sample.max(Duration::from_micros(1)));
    }

    /// A new packet is sent: the rate of packets tells when the next acknowledgement can come.
    pub fn on_packet(&mut self, now: Instant) {
        if let Some(last) = self.last_packet {
            self.interval = (7 * self.interval + now.since(last).min(LONGEST_INTERVAL)) / 8;
        }
        self.last_packet = Some(now);
    }

    /// SRTT, RTTVAR and the shortest round trip.
    pub fn smoothed(&self) -> &rtt::Rtt {
        &self.smoothed
    }

    /// SRTT + 4 RTTVAR, the peer's delay, and the time until the next acknowledgement: one may be lost, and the next
    /// one, an interval and a delay later, has the same information.
    ///
    /// Departs from RFC 6298 §2.4, as the floor is not a second: playout budgets are under 200 ms.
    pub fn rto(&self) -> Duration {
        let Some(timeout) = self.smoothed.timeout() else { return INITIAL_RTO };
        (timeout + 2 * self.ack_delay + self.interval).clamp(self.floor, MAX_RTO.max(self.floor))
    }
}

/// Before the first measurement: longer than the paths over which live sound is of use; the first answer corrects it.
const INITIAL_RTO: Duration = Duration::from_millis(100);
/// Less frequent packets (the longest usual block of speech) do not lengthen the time-out: they are few, and an
/// unnecessary retransmission costs little.
const LONGEST_INTERVAL: Duration = Duration::from_millis(20);
/// A longer time-out is of no use for live sound, and recordings resume sooner after an outage.
pub(super) const MAX_RTO: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Computed by hand after RFC 6298: 40 ms, then 60 ms.
    #[test]
    fn the_estimate_follows_the_rfc() {
        let mut rtt = Rtt::new(ms(10), ms(5));
        assert_eq!(rtt.rto(), ms(100));
        rtt.on_sample(ms(40));
        assert_eq!(rtt.rto(), ms(40 + 80 + 10));
        rtt.on_sample(ms(60));
        assert_eq!(rtt.smoothed().srtt(), Some(Duration::from_micros(42_500)));
        assert_eq!(rtt.smoothed().min(), Some(ms(40)));
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
