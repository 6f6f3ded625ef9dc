//! Stations that leave the channel for a while.

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::contender::NEVER;

/// A client that scans other channels, or saves power: after exponential gaps it is away for a fixed time.
///
/// It tells the access point, which keeps its packets for it (IEEE 802.11-2007 §11.2.1), in the same queue's room, and
/// sends them when it is back. Multicast is missed: here no access point keeps it for a beacon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scan {
    /// How long it is away: a beacon interval is 102.4 ms.
    pub length: Duration,
    /// Mean time between two absences.
    pub every: Duration,
}

/// The absences of one station, whatever the traffic.
pub(super) struct Absences {
    length: Duration,
    every: f64,
    rng: Rng,
    /// The next one, or the present one.
    from: Instant,
    until: Instant,
    pub away: bool,
}

impl Absences {
    pub fn new(scan: Scan, seed: u64) -> Self {
        let mut absences = Absences {
            length: scan.length,
            every: scan.every.as_secs_f64(),
            rng: Rng::fork(seed, "scan"),
            from: Instant::ZERO,
            until: Instant::ZERO,
            away: false,
        };
        absences.draw();
        absences
    }

    fn draw(&mut self) {
        // `as` saturates: a gap of centuries never ends.
        self.from = self.until + Duration::from_nanos((self.every * 1e9 * self.rng.exponential()) as u64);
        self.until = self.from + self.length;
    }

    /// When it leaves or comes back next.
    pub fn turn(&self) -> Instant {
        if self.away { self.until } else { self.from }
    }

    /// Leaves or comes back, at [`Self::turn`]. Returns until when it is away.
    pub fn pass(&mut self) -> Option<Instant> {
        self.away = !self.away;
        if self.away {
            return Some(self.until);
        }
        self.draw();
        None
    }
}

/// The earliest of these turns.
pub(super) fn next_turn<'a>(all: impl Iterator<Item = &'a Absences>) -> Instant {
    all.map(Absences::turn).fold(NEVER, Instant::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absences_are_as_many_and_as_long_as_they_should_be() {
        let scan = Scan { length: Duration::from_millis(200), every: Duration::from_secs(10) };
        let (mut absences, mut times, mut squares) = (Absences::new(scan, 3), 0u32, 0.0);
        let mut back = Instant::ZERO;
        while absences.turn() < Instant::from_millis(200_000_000) {
            let left = absences.turn();
            assert_eq!(absences.pass(), Some(left + scan.length));
            let gap = left.since(back).as_secs_f64();
            squares += gap * gap;
            back = absences.turn();
            assert_eq!((absences.pass(), back), (None, left + scan.length));
            times += 1;
        }
        // 200 000 s over 10.2 s; a Poisson process of 19 600 events is within 3 % at four deviations.
        assert!((f64::from(times) / 19_608.0 - 1.0).abs() < 0.03, "{times}");
        // Exponential: the mean square is twice the square of the mean; regular gaps would give 100.
        assert!((squares / f64::from(times) / 200.0 - 1.0).abs() < 0.1);
    }
}
