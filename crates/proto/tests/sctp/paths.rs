//! Two ways to one peer: fail-over within a playout budget, fail-back, both at once.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Event, Frame, Instant, Outcome, PathId};
use antiphon_proto::{OpenArgs, Role, open};

use crate::world::datagram;

const PLAYOUT: Duration = Duration::from_millis(80);
const INTERVAL: Duration = Duration::from_millis(5);

/// An end with what came out of it.
struct End {
    endpoint: Box<dyn Endpoint>,
    sent: u64,
    /// Number, path and age of each frame that came.
    arrivals: Vec<(u64, PathId, Duration)>,
    outcomes: u64,
    acked: u64,
    closed: bool,
}

/// Two paths of fixed delay, each of which works or does not.
struct TwoPaths {
    ends: [End; 2],
    delay: [Duration; 2],
    works: [bool; 2],
    /// Arrival, to whom, by which path.
    wire: Vec<(Instant, usize, usize, Vec<u8>)>,
    now: Instant,
    start: Instant,
    budget: Option<Duration>,
}

impl End {
    fn new(query: &str, role: Role, seed: u64) -> Self {
        let query: Query = query.parse().expect("a query");
        let args =
            OpenArgs { role, query: &query, seed, now: Instant::ZERO, max_datagram: 1452, latency: PLAYOUT };
        let endpoint = open("sctp", &args).expect("opens");
        End { endpoint, sent: 0, arrivals: Vec::new(), outcomes: 0, acked: 0, closed: false }
    }

    fn drain(&mut self, now: Instant, start: Instant) {
        let mut buf = vec![0; 1 << 18];
        while let Some(received) = self.endpoint.poll_frame(&mut buf) {
            let number = u64::from_be_bytes(buf[..8].try_into().unwrap());
            let handed_in = start + INTERVAL * number as u32;
            self.arrivals.push((number, received.path, now.since(handed_in)));
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Frame { outcome, .. } => {
                    self.outcomes += 1;
                    self.acked += u64::from(outcome == Outcome::Acked);
                }
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
    }
}

impl TwoPaths {
    fn new(query: &str, delay: [u64; 2]) -> Self {
        // Where the addresses lead is the driver's business.
        let caller = format!("{query}&peers=192.0.2.1:9906");
        TwoPaths {
            ends: [End::new(caller.trim_matches('&'), Role::Caller, 1), End::new(query, Role::Listener, 2)],
            delay: delay.map(Duration::from_millis),
            works: [true; 2],
            wire: Vec::new(),
            now: Instant::ZERO,
            start: Instant::from_millis(500),
            budget: Some(PLAYOUT),
        }
    }

    /// Both ends send a frame every 5 ms, from half a second on.
    fn run_until(&mut self, millis: u64) {
        let ends = Instant::from_millis(millis);
        while self.now < ends {
            self.wire.sort_by_key(|(at, ..)| *at);
            while self.wire.first().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, to, path, bytes) = self.wire.remove(0);
                self.ends[to]
                    .endpoint
                    .handle_input(self.now, datagram(&bytes, PathId(path as u32), self.now));
            }
            for from in 0..2 {
                self.settle(from);
            }
            let timeouts = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout());
            let frames = self.ends.iter().map(|end| self.start + INTERVAL * end.sent as u32);
            let arrivals = self.wire.iter().map(|(at, ..)| *at);
            let next = timeouts.chain(frames).chain(arrivals).min().unwrap_or(ends);
            self.now = next.max(self.now).min(ends);
        }
    }

    /// Goes on until each of these times, in milliseconds, with those paths that work until then.
    fn live(&mut self, until: &[(u64, [bool; 2])]) {
        for (millis, works) in until {
            self.works = *works;
            self.run_until(*millis);
        }
    }

    fn settle(&mut self, from: usize) {
        let (now, end) = (self.now, &mut self.ends[from]);
        if end.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            end.endpoint.handle_timeout(now);
        }
        while self.start + INTERVAL * end.sent as u32 <= now && !end.closed {
            let mut bytes = [0x80; 960];
            bytes[..8].copy_from_slice(&end.sent.to_be_bytes());
            end.endpoint.send(now, Frame::new(&bytes, self.budget.map(|b| now + b))).expect("room");
            end.sent += 1;
        }
        let mut buf = [0; 1500];
        while let Some(transmit) = end.endpoint.poll_transmit(now, &mut buf) {
            let path = transmit.path.0 as usize;
            if self.works[path] {
                self.wire.push((now + self.delay[path], 1 - from, path, buf[..transmit.len].to_vec()));
            }
        }
        end.drain(now, self.start);
    }

    /// Frames handed in from `from` to `to` that came, by path, and the age of the oldest.
    fn arrived(&self, at: usize, from: u64, to: u64) -> ([usize; 2], Duration) {
        let number = |millis: u64| (millis - 500) / 5;
        let (mut by, mut oldest) = ([0; 2], Duration::ZERO);
        for (n, path, age) in &self.ends[at].arrivals {
            if (number(from)..number(to)).contains(n) {
                by[path.0 as usize] += 1;
                oldest = oldest.max(*age);
            }
        }
        (by, oldest)
    }

    /// The first path, and faster, brought each frame of that time, none later than its delay.
    fn assert_first_brought_all(&self, at: usize, from: u64, to: u64) {
        let frames = ((to - from) / 5) as usize;
        assert_eq!(self.arrived(at, from, to), ([frames, 0], self.delay[0]), "from {from} to {to} ms");
    }
}

#[test]
fn a_dead_path_costs_no_frame_its_playout_time_and_is_used_again() {
    let mut world = TwoPaths::new("", [10, 12]);
    world.live(&[(2_000, [true, true]), (5_000, [false, true]), (9_000, [true, true])]);
    for end in [0, 1] {
        world.assert_first_brought_all(end, 500, 1_900);
        let (by, oldest) = world.arrived(end, 1_900, 2_200);
        println!("end {end}: {by:?} around the failure, the oldest {oldest:?}");
        assert_eq!(by[0] + by[1], 60, "all of them come");
        assert!(oldest <= PLAYOUT, "and in time: {oldest:?}");
        assert_eq!(world.arrived(end, 2_200, 4_900), ([0, 540], Duration::from_millis(12)));
        // Probes are a second apart at most.
        let (by, oldest) = world.arrived(end, 5_000, 6_200);
        assert!(by[0] > 20 && by[0] + by[1] == 240 && oldest <= PLAYOUT, "{by:?} {oldest:?}");
        world.assert_first_brought_all(end, 6_200, 8_900);
        assert_eq!(world.ends[end].arrivals.len() as u64, world.ends[end].sent - 2, "none twice, none lost");
    }
}

#[test]
fn a_path_may_be_forgiven_time_outs_before_it_is_left() {
    // A time-out of 50 ms, or a doubled one as well, with a heartbeat that is not answered either, and the way of 12 ms.
    for (query, least, most) in [("", 55, 70), ("path-max-retrans=2", 145, 180)] {
        let mut world = TwoPaths::new(query, [10, 12]);
        world.live(&[(2_000, [true, true]), (4_000, [false, true])]);
        let by_other = world.ends[1].arrivals.iter().filter(|(_, path, _)| path.0 == 1);
        let came = by_other.map(|(number, _, age)| world.start + INTERVAL * *number as u32 + *age);
        let first = came.min().expect("some").since(Instant::from_millis(2_000));
        println!("{query:?}: by the other path after {first:?}");
        assert!((least..most).contains(&first.as_millis()), "{query:?}: {first:?}");
    }
}

#[test]
fn by_both_paths_a_dead_one_is_not_noticed() {
    let mut world = TwoPaths::new("paths=both", [10, 14]);
    world.live(&[(2_000, [true; 2]), (3_000, [false, true]), (4_000, [true, false]), (5_000, [true; 2])]);
    for end in [0, 1] {
        world.assert_first_brought_all(end, 500, 1_900);
        assert_eq!(world.arrived(end, 2_000, 2_900), ([0, 180], Duration::from_millis(14)));
        assert_eq!(world.arrived(end, 1_900, 4_900).0.iter().sum::<usize>(), 600);
        assert_eq!(
            world.arrived(end, 1_900, 4_900).1,
            Duration::from_millis(14),
            "none waited for a repetition"
        );
        let counters = world.ends[end].endpoint.path_stats().counters;
        assert!(counters.duplicates > 400 && counters.retransmitted == 0, "{counters:?}");
        assert_eq!(world.ends[end].outcomes, world.ends[end].acked);
    }
}

#[test]
fn one_path_is_enough_to_begin_and_to_live() {
    // The first path never worked: the INIT goes by the other after its time-out.
    let mut world = TwoPaths::new("", [10, 10]);
    world.works[0] = false;
    world.budget = None;
    world.run_until(100_000);
    let came = world.ends[1].arrivals.len() as u64;
    assert!(came + 10 > world.ends[0].sent && !world.ends[0].closed, "{came} of {}", world.ends[0].sent);
}

#[test]
fn an_address_that_only_claims_to_be_the_peers_gets_heartbeats_and_no_more() {
    let mut world = TwoPaths::new("", [10, 10]);
    world.run_until(1_000);
    // A packet that was overheard, and comes once more from elsewhere.
    let mut buf = [0; 1500];
    let now = world.now;
    let end = &mut world.ends[0];
    end.endpoint.send(now, Frame::new(&[0; 900], None)).unwrap();
    let len = end.endpoint.poll_transmit(now, &mut buf).unwrap().len;
    let listener = &mut world.ends[1].endpoint;
    listener.handle_input(now, datagram(&buf[..len], PathId(7), now));
    let (mut packets, mut bytes) = (0, 0);
    for ms in 0..60_000 {
        let now = now + Duration::from_millis(ms);
        listener.handle_timeout(now);
        let mut out = [0; 1500];
        while let Some(transmit) = listener.poll_transmit(now, &mut out) {
            if transmit.path == PathId(7) {
                assert_eq!(out[12], 4, "a heartbeat");
                (packets, bytes) = (packets + 1, bytes + transmit.len);
            }
        }
    }
    assert!((1..20).contains(&packets) && bytes <= len, "{packets} packets, {bytes} bytes for {len}");
}
