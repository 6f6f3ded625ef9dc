//! FDDI: a ring on which a token gives the right to send, timed so that its rotation time is bounded (ISO 9314-2).
//!
//! Each station has two classes: **synchronous** traffic, sent at every token up to the station's own allocation, and
//! **asynchronous** traffic, sent while the token is early. A token rotation takes at most twice the target (TTRT) and
//! on average at most the target, as long as allocations, ring latency, token and one frame of the greatest length fit
//! into the target; [`Ring::new`] checks this.
//!
//! The ring outputs a frame when its last bit has left the station; what follows is propagation ([`Ring::travel`]), the
//! same for every receiver, however many listen. Ring initialisation, station management and the priorities of
//! asynchronous traffic are not modelled. Claiming a lost token takes no time here, and is counted.

mod station;

use std::time::Duration;

use antiphon_core::{BitRate, Instant};

use crate::packet::{Counters, Packet};
use station::Station;

/// 100 Mbit/s, before 4B/5B coding (ISO 9314-1).
pub const FDDI_RATE: BitRate = BitRate(100_000_000);
/// Bytes that a frame adds to its data: LLC/SNAP 8, addresses 12, check sequence 4, status 1, as the study of voice
/// over FDDI counts them. Its figures leave out preamble and delimiters, 11 bytes or 0.9 µs.
pub const FDDI_OVERHEAD: usize = 25;
/// The longest frame (ISO 9314-2: 9000 symbols of 4 bits), overhead included.
pub const FDDI_MAX_FRAME: usize = 4500;
/// Preamble 8, start 1, frame control 1, end 1: 0.88 µs.
const TOKEN: u64 = 11;

/// A ring as plain data.
#[derive(Clone, PartialEq, Debug)]
pub struct RingSpec {
    /// Target token rotation time: 4 to 165 ms, the least that any station asks for.
    pub ttrt: Duration,
    /// The stations, in the order in which the token meets them.
    pub stations: Vec<StationSpec>,
}

/// A station of a ring.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StationSpec {
    /// From the arrival of the first bit here to its arrival at the next station: some 0.6 to 1 µs in the station and
    /// 5.085 µs a kilometre of fibre.
    pub hop: Duration,
    /// How long it may send synchronous frames at each token. `None`: unlimited, and the rotation has no bound.
    pub synchronous: Option<Duration>,
    /// Frames of either class at each token; `None`: as many as the timers allow.
    pub frames_per_token: Option<u32>,
    /// Frames of each class that may wait; further ones are dropped.
    pub queue: u32,
    /// Frames of a class leave by the priority of their packets ([`Packet::priority`]), and by age where it is the same. Where the
    /// queue is full the last one makes room for a more urgent one.
    pub priorities: bool,
}

impl Default for StationSpec {
    /// 1 µs to the next station, nothing synchronous, any number of frames, 100 may wait, the oldest leaves first.
    fn default() -> Self {
        let (hop, synchronous) = (Duration::from_micros(1), Some(Duration::ZERO));
        StationSpec { hop, synchronous, frames_per_token: None, queue: 100, priorities: false }
    }
}

/// Why there can be no such ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// No station to pass the token to, or too many.
    #[error("a ring has 2 to 500 stations, not {count}")]
    Stations {
        /// How many were given.
        count: usize,
    },
    /// A hop that takes no time, or too long.
    #[error("station {station}: {hop:?} to the next one; from 10 ns (2 m) to 1 ms is possible")]
    Hop {
        /// Index of the station, from 0.
        station: usize,
        /// The given value.
        hop: Duration,
    },
    /// A station that can send nothing.
    #[error(
        "station {station}: a queue of {queue} frames and {frames:?} frames a token; 1 to 32768, and at least 1"
    )]
    Idle {
        /// Index of the station, from 0.
        station: usize,
        /// The limit of its queues.
        queue: u32,
        /// The limit for each token.
        frames: Option<u32>,
    },
    /// A target outside the standard's range.
    #[error("a target rotation time of {ttrt:?}; 4 ms to 165 ms is possible")]
    Target {
        /// The given value.
        ttrt: Duration,
    },
    /// Allocations that do not fit into the target.
    #[error(
        "allocations, ring latency, token and one greatest frame make {needed:?}: ask for less synchronous time, or for a \
         target above that instead of {ttrt:?}"
    )]
    OverAllocated {
        /// The least target that fits them.
        needed: Duration,
        /// The given value.
        ttrt: Duration,
    },
}

/// How a frame waits for the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingClass {
    /// Sent at every token, up to the station's allocation.
    Synchronous,
    /// Sent while the token is early; the last frame may overrun.
    Asynchronous,
}

/// A frame that has left its station.
#[derive(PartialEq, Eq, Debug)]
pub struct Sent<P> {
    /// When its last bit left.
    pub at: Instant,
    /// The station.
    pub from: usize,
    /// Its class.
    pub class: RingClass,
    /// Its content.
    pub packet: P,
}

/// How long the token took from one visit of a station to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotations {
    /// Rotations, counted at station 0.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The longest at any station.
    pub longest: Duration,
    /// Times that a station met the token so late (over 2 TTRT) that it had already claimed a new one.
    pub claims: u64,
}

impl Rotations {
    /// Mean rotation time; zero before the first rotation.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.total.as_nanos() / u128::from(self.count.max(1))) as u64)
    }
}

/// The ring, its stations and the token.
pub struct Ring<P> {
    ttrt: Duration,
    latency: Duration,
    /// From station 0 to each.
    offsets: Vec<Duration>,
    stations: Vec<Station<P>>,
    /// The station that has the token, or gets it next.
    holder: usize,
    /// When the token arrives there, or the frame being sent ends.
    at: Instant,
    visit: Option<Visit>,
    sending: Option<(RingClass, P)>,
    /// Waiting frames of all stations and classes.
    waiting: usize,
    /// Visits in a row, up to now, that came on time and sent nothing.
    undisturbed: usize,
    rotations: Rotations,
}

/// What a station that holds the token may still do.
struct Visit {
    /// Synchronous time left.
    synchronous: Option<Duration>,
    /// Token holding timer: asynchronous time left, in nanoseconds.
    holding: u64,
    frames: u32,
    /// Whether it has sent a frame, so that it must issue a new token.
    captured: bool,
}

impl<P: Packet> Ring<P> {
    /// A ring whose token comes to station 0 at the beginning of the run.
    pub fn new(spec: &RingSpec) -> Result<Self, RingError> {
        spec.validate()?;
        let stations: Vec<_> =
            spec.stations.iter().map(|station| Station::new(*station, spec.ttrt)).collect();
        let offsets = spec.stations.iter().scan(Duration::ZERO, |sum, station| {
            let offset = *sum;
            *sum += station.hop;
            Some(offset)
        });
        Ok(Ring {
            ttrt: spec.ttrt,
            latency: spec.latency(),
            offsets: offsets.collect(),
            stations,
            holder: 0,
            at: Instant::ZERO,
            visit: None,
            sending: None,
            waiting: 0,
            undisturbed: 0,
            rotations: Rotations::default(),
        })
    }

    /// Takes a packet at `now`, which never goes back, for station `station` (from 0) to send.
    ///
    /// [`Packet::wire_len`] counts what the frame carries; [`FDDI_OVERHEAD`] is added. Returns the packet if the
    /// station's queue is full, or its frame would be too long for the ring or for the station's allocation; or a less urgent one that
    /// made room for it, where the station honours priorities.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn offer(&mut self, now: Instant, station: usize, class: RingClass, packet: P) -> Option<P> {
        if self.poll_timeout().is_none() {
            self.rotate_idle(now);
        }
        let refused = self.stations[station].offer(now, class, packet);
        self.waiting += usize::from(refused.is_none());
        refused
    }

    /// The next frame that has left its station by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Sent<P>> {
        while self.poll_timeout().is_some_and(|due| due <= now) {
            if let Some((class, packet)) = self.sending.take() {
                let (at, from) = (self.at, self.holder);
                self.stations[from].counters.queued -= 1;
                self.stations[from].counters.count_delivered(packet.wire_len() + FDDI_OVERHEAD);
                return Some(Sent { at, from, class, packet });
            }
            self.step();
        }
        None
    }

    /// Lets the token move on up to and including `until`, or until a frame begins: nothing is offered before then. The
    /// ring is then as if it had been polled at each of these instants.
    pub fn run_ahead(&mut self, until: Instant) {
        while self.sending.is_none() && self.waiting > 0 && self.at <= until {
            self.step();
        }
    }

    /// When to poll next; that poll may return nothing, as the token only moves on. `None`: nothing waits.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.waiting > 0 || self.sending.is_some()).then_some(self.at)
    }

    /// Propagation time from one station to another; from a station to itself it is once round the ring.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn travel(&self, from: usize, to: usize) -> Duration {
        let count = self.stations.len();
        assert!(from < count && to < count, "stations {from} and {to} of {count}");
        let (from, to) = (self.offsets[from], self.offsets[to]);
        if to > from { to - from } else { to + self.latency - from }
    }

    /// Latency of the idle ring.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Token rotations so far; those of an idle ring are counted when the next packet is offered.
    pub fn rotations(&self) -> Rotations {
        self.rotations
    }

    /// A station's counters, in frames with their overhead; `None` if there is no such station.
    pub fn counters(&self, station: usize) -> Option<Counters> {
        self.stations.get(station).map(|station| station.counters)
    }

    /// Handles the next event: the token arrives or a frame has ended, and a frame begins or the token moves on.
    fn step(&mut self) {
        let mut visit = match self.visit.take() {
            Some(visit) => visit,
            // What the station does with the token is decided at the same instant.
            None => self.token_comes(),
        };
        let Some((class, packet, time)) = self.stations[self.holder].next(self.at, &visit) else {
            self.pass_token(visit.captured);
            return;
        };
        match class {
            RingClass::Synchronous => {
                visit.synchronous = visit.synchronous.map(|left| left.saturating_sub(time))
            }
            RingClass::Asynchronous => visit.holding = visit.holding.saturating_sub(time.as_nanos() as u64),
        }
        visit.frames = visit.frames.saturating_sub(1);
        visit.captured = true;
        self.undisturbed = 0;
        self.visit = Some(visit);
        self.sending = Some((class, packet));
        self.waiting -= 1;
        self.at += time;
    }

    /// The token goes on to the next station; `anew`: this one has taken it to send, and issues another.
    fn pass_token(&mut self, anew: bool) {
        if anew {
            self.at += token_time();
        }
        self.at += self.stations[self.holder].spec.hop;
        self.holder = if self.holder + 1 < self.stations.len() { self.holder + 1 } else { 0 };
    }

    /// The timers when the token arrives (ISO 9314-2).
    fn token_comes(&mut self) -> Visit {
        let station = &mut self.stations[self.holder];
        let (holding, claimed) = station.timers(self.at, self.ttrt);
        // A token that comes late leaves no asynchronous time.
        self.undisturbed = if holding == 0 { 0 } else { self.undisturbed + 1 };
        self.rotations.claims += u64::from(claimed);
        if let Some(last) = station.visited.replace(self.at) {
            let rotation = self.at.since(last);
            self.rotations.longest = self.rotations.longest.max(rotation);
            if self.holder == 0 {
                self.rotations.count += 1;
                self.rotations.total += rotation;
            }
        }
        Visit {
            synchronous: station.spec.synchronous,
            holding,
            frames: station.spec.frames_per_token.unwrap_or(u32::MAX),
            captured: false,
        }
    }

    /// Rotates the token of an idle ring until `now`.
    fn rotate_idle(&mut self, now: Instant) {
        while self.at < now {
            // After a round in which it came to every station on time, every round is like the last one, and whole ones are
            // computed at once.
            let is_settled = self.undisturbed > self.stations.len() && self.visit.is_none();
            if is_settled && now.since(self.at) >= self.latency {
                self.skip_rounds(now);
            } else if self.visit.is_some() {
                self.step();
            } else {
                self.token_comes();
                self.pass_token(false);
            }
        }
    }

    /// Whole rounds of an idle ring in which every station's timers are the same at each visit, up to `now`.
    fn skip_rounds(&mut self, now: Instant) {
        let latency = self.latency.as_nanos() as u64;
        let rounds = (now.as_nanos() - self.at.as_nanos()) / latency.max(1);
        let skipped = Duration::from_nanos(rounds * latency);
        self.at += skipped;
        self.rotations.count += rounds;
        self.rotations.total += skipped;
        for station in &mut self.stations {
            station.skip(skipped);
        }
    }
}

impl RingSpec {
    /// Latency of the idle ring.
    pub fn latency(&self) -> Duration {
        self.stations.iter().map(|station| station.hop).sum()
    }

    /// Refuses rings that cannot work.
    pub fn validate(&self) -> Result<(), RingError> {
        if !(2..=500).contains(&self.stations.len()) {
            return Err(RingError::Stations { count: self.stations.len() });
        }
        if !(MIN_TTRT..=MAX_TTRT).contains(&self.ttrt) {
            return Err(RingError::Target { ttrt: self.ttrt });
        }
        for (station, spec) in self.stations.iter().enumerate() {
            if !(MIN_HOP..=MAX_HOP).contains(&spec.hop) {
                return Err(RingError::Hop { station, hop: spec.hop });
            }
            if !(1..=32_768).contains(&spec.queue) || spec.frames_per_token == Some(0) {
                return Err(RingError::Idle { station, queue: spec.queue, frames: spec.frames_per_token });
            }
        }
        // Saturating: an allocation may be of any length.
        let allocations = self.stations.iter().filter_map(|station| station.synchronous);
        let allocated = allocations.fold(Duration::ZERO, Duration::saturating_add);
        let needed = allocated.saturating_add(self.latency() + token_time() + frame_time(FDDI_MAX_FRAME));
        if needed > self.ttrt {
            return Err(RingError::OverAllocated { needed, ttrt: self.ttrt });
        }
        Ok(())
    }
}

/// Bounds of the target (ISO 9314-2: T_Min at most 4 ms, T_Max at least 165 ms).
const MIN_TTRT: Duration = Duration::from_millis(4);
const MAX_TTRT: Duration = Duration::from_millis(165);
const MIN_HOP: Duration = Duration::from_nanos(10);
const MAX_HOP: Duration = Duration::from_millis(1);

/// How long a frame of so many bytes takes, overhead included.
const fn frame_time(len: usize) -> Duration {
    Duration::from_nanos((len as u64).saturating_mul(BYTE_NANOS))
}

const fn token_time() -> Duration {
    Duration::from_nanos(TOKEN * BYTE_NANOS)
}

/// A byte's time, which is a whole number of nanoseconds.
const BYTE_NANOS: u64 = 8_000_000_000 / FDDI_RATE.0;
const _: () = assert!(8_000_000_000 % FDDI_RATE.0 == 0);

#[cfg(test)]
mod tests;
