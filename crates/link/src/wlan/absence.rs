//! Stations that do not hear the channel for a while, as they scan other channels or save power.

use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::contender::NEVER;

/// A client that scans other channels: after exponential gaps it is away for a fixed time.
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

/// A client that saves power until it sees that there is traffic for it (IEEE 802.11-2007 §11.2.1).
///
/// While it is idle, the first frame for it finds it awake, since what it sent itself, such as its answer to ARP, came
/// before. It stays awake for a while and then dozes until the next beacon that it listens to; the access point keeps its
/// packets meanwhile. From then on it stays awake, until nothing has come for it between two such beacons. Its own frames
/// wake it up at any time. Multicast reaches it: what an access point does with it for those that doze is not modelled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PowerSave {
    /// From one beacon that it listens to, to the next: one or more beacon intervals of 102.4 ms. Their phase is random.
    pub listen: Duration,
    /// How long it stays awake after its first frame.
    pub hold: Duration,
}

/// The absences of one station.
pub(super) enum Absences {
    Scans(Scans),
    Dozes(Dozes),
}

/// What a station does at its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// It leaves; what it has to send waits until then, if it can't.
    Leaves(Option<Instant>),
    /// It is back.
    Returns,
    /// Neither.
    Stays,
}

impl Absences {
    pub fn scans(scan: Scan, seed: u64) -> Self {
        let rng = Rng::fork(seed, "scan");
        let mut scans = Scans { scan, rng, from: Instant::ZERO, until: Instant::ZERO, away: false };
        scans.draw();
        Absences::Scans(scans)
    }

    pub fn dozes(spec: PowerSave, seed: u64) -> Self {
        let phase = Rng::fork(seed, "beacon").unit() * spec.listen.as_secs_f64();
        Absences::Dozes(Dozes {
            spec,
            beacon: Instant::ZERO + Duration::from_secs_f64(phase),
            state: State::Idle,
        })
    }

    pub fn is_away(&self) -> bool {
        match self {
            Absences::Scans(scans) => scans.away,
            Absences::Dozes(dozes) => dozes.state == State::Dozing,
        }
    }

    /// Whether it misses multicast now.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Absences::Scans(scans) if scans.away)
    }

    /// When it leaves or comes back next.
    pub fn turn(&self) -> Instant {
        match self {
            Absences::Scans(scans) if scans.away => scans.until,
            Absences::Scans(scans) => scans.from,
            Absences::Dozes(dozes) => match dozes.state {
                State::Idle => NEVER,
                State::Holding { until } => until,
                State::Dozing | State::Awake { .. } => dozes.beacon,
            },
        }
    }

    /// Leaves or comes back, at [`Self::turn`].
    pub fn pass(&mut self) -> Turn {
        match self {
            Absences::Scans(scans) => scans.pass(),
            Absences::Dozes(dozes) => dozes.pass(),
        }
    }

    /// A frame has come for it.
    pub fn on_frame(&mut self, now: Instant) {
        if let Absences::Dozes(dozes) = self {
            dozes.on_frame(now);
        }
    }
}

pub(super) struct Scans {
    scan: Scan,
    rng: Rng,
    /// The next one, or the present one.
    from: Instant,
    until: Instant,
    away: bool,
}

impl Scans {
    fn draw(&mut self) {
        let gap = self.scan.every.as_secs_f64() * self.rng.exponential();
        // `as` saturates: a gap of centuries never ends.
        self.from = self.until + Duration::from_nanos((gap * 1e9) as u64);
        self.until = self.from + self.scan.length;
    }

    fn pass(&mut self) -> Turn {
        self.away = !self.away;
        if self.away {
            return Turn::Leaves(Some(self.until));
        }
        self.draw();
        Turn::Returns
    }
}

pub(super) struct Dozes {
    spec: PowerSave,
    /// The next one that it listens to, where it is not idle.
    beacon: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Holding { until: Instant },
    Dozing,
    Awake { heard: bool },
}

impl Dozes {
    fn on_frame(&mut self, now: Instant) {
        match &mut self.state {
            State::Idle => self.state = State::Holding { until: now + self.spec.hold },
            State::Awake { heard } => *heard = true,
            State::Holding { .. } | State::Dozing => {}
        }
    }

    fn pass(&mut self) -> Turn {
        match self.state {
            State::Holding { until } => {
                let (listen, behind) = (self.spec.listen.as_nanos(), until.since(self.beacon).as_nanos());
                let intervals = if until < self.beacon { 0 } else { behind / listen + 1 };
                self.beacon += Duration::from_nanos((intervals * listen) as u64);
                self.state = State::Dozing;
                Turn::Leaves(None)
            }
            State::Dozing => {
                self.state = State::Awake { heard: false };
                self.beacon += self.spec.listen;
                Turn::Returns
            }
            State::Awake { heard } => {
                self.state = if heard { State::Awake { heard: false } } else { State::Idle };
                self.beacon += self.spec.listen;
                Turn::Stays
            }
            State::Idle => Turn::Stays,
        }
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
    fn scans_are_as_many_and_as_long_as_they_should_be() {
        let scan = Scan { length: Duration::from_millis(200), every: Duration::from_secs(10) };
        let (mut absences, mut times, mut squares) = (Absences::scans(scan, 3), 0u32, 0.0);
        let mut back = Instant::ZERO;
        while absences.turn() < Instant::from_millis(200_000_000) {
            let left = absences.turn();
            assert_eq!(absences.pass(), Turn::Leaves(Some(left + scan.length)));
            assert!(absences.is_away() && absences.is_elsewhere());
            let gap = left.since(back).as_secs_f64();
            squares += gap * gap;
            back = absences.turn();
            assert_eq!((absences.pass(), back), (Turn::Returns, left + scan.length));
            times += 1;
        }
        // 200 000 s over 10.2 s; a Poisson process of 19 600 events is within 3 % at four deviations.
        assert!((f64::from(times) / 19_608.0 - 1.0).abs() < 0.03, "{times}");
        // Exponential: the mean square is twice the square of the mean; regular gaps would give 100.
        assert!((squares / f64::from(times) / 200.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn a_station_dozes_once_where_traffic_goes_on_and_for_uniform_times() {
        let spec = PowerSave { listen: Duration::from_micros(204_800), hold: Duration::from_millis(10) };
        let (mut sum, mut squares, runs) = (0.0, 0.0, 2_000);
        for seed in 0..runs {
            let mut absences = Absences::dozes(spec, seed);
            assert_eq!(absences.turn(), NEVER, "nothing has come yet");
            let first = Instant::from_millis(5_000 + seed);
            absences.on_frame(first);
            let left = absences.turn();
            assert_eq!((left, absences.pass()), (first + spec.hold, Turn::Leaves(None)));
            assert!(absences.is_away() && !absences.is_elsewhere());
            let back = absences.turn();
            assert!(left < back && back <= left + spec.listen);
            assert_eq!((absences.pass(), absences.is_away()), (Turn::Returns, false));
            let away = back.since(left).as_secs_f64() / spec.listen.as_secs_f64();
            (sum, squares) = (sum + away, squares + away * away);
            // Awake while anything comes between two beacons; idle afterwards.
            for _ in 0..3 {
                absences.on_frame(absences.turn());
                assert_eq!((absences.pass(), absences.is_away()), (Turn::Stays, false));
            }
            assert_eq!((absences.pass(), absences.turn()), (Turn::Stays, NEVER));
        }
        // A uniform distribution has 1/2 and 1/3; four standard errors of 2000 draws are 0.026 and 0.027.
        let runs = runs as f64;
        assert!((sum / runs - 0.5).abs() < 0.026, "{}", sum / runs);
        assert!((squares / runs - 1.0 / 3.0).abs() < 0.027, "{}", squares / runs);
    }
}
