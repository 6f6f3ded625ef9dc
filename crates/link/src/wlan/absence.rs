//! Stations that do not hear the channel for a while, as they scan other channels or save power.

use std::time::Duration;

use antiphon_core::{Instant, Ratio, Rng};

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
/// packets meanwhile. From then on it stays awake, until nothing has come for it between two such beacons, or until it dozes
/// again. Its own frames wake it up at any time. Multicast reaches it: what an access point does with it for those that doze
/// is not modelled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PowerSave {
    /// From one beacon that it listens to, to the next: one or more beacon intervals of 102.4 ms. Their phase is random.
    pub listen: Duration,
    /// How long it stays awake after its first frame.
    pub hold: Duration,
    /// Whether it dozes again later.
    pub again: Option<DozeAgain>,
}

/// A client that dozes whenever nothing has come for it for a while, though there was traffic, until the next beacon that it
/// listens to and receives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DozeAgain {
    /// How long nothing has come when it dozes.
    pub idle: Duration,
    /// Share of the beacons that it does not receive: they are sent once, as all broadcasts.
    pub beacon_loss: Ratio,
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
            rng: Rng::fork(seed, "lost beacon"),
            beacon: Instant::ZERO + Duration::from_secs_f64(phase),
            last: Instant::ZERO,
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
                State::Holding { until } | State::Watching { until } => until,
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
    /// Draws which beacons it does not receive.
    rng: Rng,
    /// The next one that it listens to, where it is not idle.
    beacon: Instant,
    /// When the last frame came for it.
    last: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Holding {
        until: Instant,
    },
    Dozing,
    Awake {
        heard: bool,
    },
    /// It looks then whether anything has come for it lately.
    Watching {
        until: Instant,
    },
}

impl Dozes {
    fn on_frame(&mut self, now: Instant) {
        self.last = now;
        match &mut self.state {
            State::Idle => self.state = State::Holding { until: now + self.spec.hold },
            State::Awake { heard } => *heard = true,
            State::Holding { .. } | State::Dozing | State::Watching { .. } => {}
        }
    }

    fn pass(&mut self) -> Turn {
        match (self.state, self.spec.again) {
            (State::Holding { until }, _) => self.doze(until),
            (State::Watching { until }, Some(again)) if self.last + again.idle > until => {
                self.state = State::Watching { until: self.last + again.idle };
                Turn::Stays
            }
            (State::Watching { until }, _) => self.doze(until),
            (State::Dozing, Some(again)) => {
                let heard = !self.rng.chance(again.beacon_loss.0);
                if heard {
                    self.state = State::Watching { until: self.beacon + again.idle };
                }
                self.beacon += self.spec.listen;
                if heard { Turn::Returns } else { Turn::Stays }
            }
            (State::Dozing, None) => {
                self.state = State::Awake { heard: false };
                self.beacon += self.spec.listen;
                Turn::Returns
            }
            (State::Awake { heard }, _) => {
                self.state = if heard { State::Awake { heard: false } } else { State::Idle };
                self.beacon += self.spec.listen;
                Turn::Stays
            }
            (State::Idle, _) => Turn::Stays,
        }
    }

    /// From `now` to the next beacon.
    fn doze(&mut self, now: Instant) -> Turn {
        let (listen, behind) = (self.spec.listen.as_nanos(), now.since(self.beacon).as_nanos());
        let intervals = if now < self.beacon { 0 } else { behind / listen + 1 };
        self.beacon += Duration::from_nanos((intervals * listen) as u64);
        self.state = State::Dozing;
        Turn::Leaves(None)
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
        let spec = PowerSave {
            listen: Duration::from_micros(204_800),
            hold: Duration::from_millis(10),
            again: None,
        };
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

    /// Time away: of one that watches for 60 ms, listens each 200 ms and misses 30 % of its beacons.
    #[test]
    fn a_station_dozes_again_until_a_beacon_that_it_receives() {
        let again = DozeAgain { idle: Duration::from_millis(60), beacon_loss: Ratio(0.3) };
        let spec = PowerSave { listen: Duration::from_millis(200), hold: Duration::ZERO, again: Some(again) };
        let (mut sum, runs) = (0.0, 2_000);
        for seed in 0..runs {
            let mut absences = Absences::dozes(spec, seed);
            absences.on_frame(Instant::from_millis(1_000));
            assert_eq!(absences.pass(), Turn::Leaves(None));
            while absences.pass() == Turn::Stays {
                assert!(absences.is_away());
            }
            // A frame each 50 ms keeps it awake.
            let mut last = absences.turn();
            for _ in 0..20 {
                last = last.max(absences.turn() - Duration::from_millis(10));
                absences.on_frame(last);
                assert_eq!((absences.pass(), absences.turn()), (Turn::Stays, last + again.idle));
            }
            let left = absences.turn();
            assert_eq!(absences.pass(), Turn::Leaves(None));
            let (mut beacon, mut missed) = (absences.turn(), 0);
            assert!(left < beacon && beacon <= left + spec.listen);
            while absences.pass() == Turn::Stays {
                missed += 1;
                assert_eq!((absences.is_away(), absences.turn()), (true, beacon + spec.listen));
                beacon = absences.turn();
            }
            assert_eq!((absences.is_away(), absences.turn()), (false, beacon + again.idle));
            sum += f64::from(missed);
        }
        // Geometric: 0.3 / 0.7 with a variance of 0.3 / 0.49; four standard errors of 2000 draws are 0.07.
        let mean = sum / runs as f64;
        assert!((mean - 0.3 / 0.7).abs() < 0.07, "{mean}");
    }
}
