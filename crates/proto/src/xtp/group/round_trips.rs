//! Round trips to members after their join: a report echoes the number of the latest packet that the member had.

use std::time::Duration;

use antiphon_core::Instant;

/// When the latest packets to the group left.
#[derive(Debug)]
pub(super) struct Departures {
    at: Box<[Instant]>,
    newest: u64,
}

impl Departures {
    pub fn new(now: Instant) -> Self {
        Departures { at: vec![now; REMEMBERED as usize].into(), newest: 0 }
    }

    /// The packet with this number leaves; numbers ascend.
    pub fn note(&mut self, number: u64, now: Instant) {
        self.at[(number % REMEMBERED) as usize] = now;
        self.newest = number;
    }

    fn of(&self, number: u64) -> Option<Instant> {
        let remembered = number <= self.newest && self.newest - number < REMEMBERED;
        remembered.then(|| self.at[(number % REMEMBERED) as usize])
    }

    /// The time from the departure of the packet that a report echoes until it came. It has in it how long the member waited before it reported, at most
    /// until the next packet would have come; `None` where that is long.
    pub fn round_trip(&self, echo: u64, reported: Instant) -> Option<Duration> {
        let (left, next) = (self.of(echo)?, self.of(echo + 1)?);
        (next.since(left) <= LONGEST_WAIT).then(|| reported.since(left))
    }
}

/// The latest round trips to a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    latest: [Duration; KEPT],
    next: usize,
}

impl RoundTrips {
    /// `first`: as measured when it joined.
    pub fn new(first: Duration) -> Self {
        RoundTrips { latest: [first; KEPT], next: 0 }
    }

    pub fn add(&mut self, round_trip: Duration) {
        self.latest[self.next] = round_trip.clamp(SHORTEST, LONGEST);
        self.next = (self.next + 1) % KEPT;
    }

    /// The shortest of the latest, as each has in it what the member waited.
    pub fn shortest(&self) -> Duration {
        self.latest.iter().copied().min().unwrap_or(SHORTEST)
    }
}

/// Packets of five seconds at one each 5 ms.
const REMEMBERED: u64 = 1024;
/// How long a member may have waited before it reported: four packets of usual length.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
const KEPT: usize = 8;
/// What is believed of a round trip.
pub(super) const SHORTEST: Duration = Duration::from_micros(100);
pub(super) const LONGEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_report_tells_the_round_trip_where_packets_follow_each_other() {
        let mut departures = Departures::new(ms(0));
        (1..=100).for_each(|number| departures.note(number, ms(5 * number)));
        departures.note(101, ms(900));
        let of = |echo, reported| departures.round_trip(echo, ms(reported));
        assert_eq!(of(50, 273), Some(Duration::from_millis(23)));
        // The next one left much later, has not left, or was never sent.
        assert_eq!([of(100, 523), of(101, 920), of(102, 920)], [None; 3]);
        (102..2_000).for_each(|number| departures.note(number, ms(1_000 + 5 * number)));
        assert_eq!(departures.round_trip(50, ms(11_000)), None);
    }

    #[test]
    fn a_path_that_has_become_longer_is_known_after_a_few_reports() {
        let mut round_trips = RoundTrips::new(Duration::from_millis(10));
        for n in 0..KEPT {
            assert_eq!(round_trips.shortest(), Duration::from_millis(10));
            round_trips.add(Duration::from_millis(60 + n as u64));
        }
        assert_eq!(round_trips.shortest(), Duration::from_millis(60));
        round_trips.add(Duration::from_secs(9));
        assert_eq!(round_trips.shortest(), Duration::from_millis(61));
    }
}
