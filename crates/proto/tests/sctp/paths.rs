//! Two paths to one peer: fail-over within a playout budget, fail-back, both at once.

use std::ops::Index;
use std::time::Duration;

use antiphon_core::{Instant, Message, Outcome, PathId, Role, Tag};
use antiphon_testkit::{Crossing, Parties, Party, Shape, Talk, World, datagram};

use crate::world::endpoint;

const PLAYOUT: Duration = Duration::from_millis(80);
const INTERVAL: Duration = Duration::from_millis(5);

/// Two paths of fixed delay, each of which works or not; both ends send a message every 5 ms, from half a second on.
struct TwoPaths {
    world: World<Parties, Parties>,
    delay: [Duration; 2],
}

impl TwoPaths {
    fn new(query: &str, delay: [u64; 2]) -> Self {
        TwoPaths::with_budget(query, delay, Some(PLAYOUT))
    }

    fn with_budget(query: &str, delay: [u64; 2], budget: Option<Duration>) -> Self {
        // The driver decides where the addresses lead.
        let caller = format!("{query}&peers=192.0.2.1:9906");
        let end = |query: &str, role, seed| {
            let talk = Talk::paced(Instant::from_millis(500), INTERVAL, u64::MAX, move |_, _| {
                Shape::new(960, budget)
            });
            [Party::new(endpoint(query, role, seed)).talking(talk)]
        };
        let (near, far) = (end(caller.trim_matches('&'), Role::Caller, 1), end(query, Role::Listener, 2));
        let links = delay.map(|ms| format!("delay={ms}ms"));
        let world = World::side_by_side(near, far, &links.each_ref().map(String::as_str), 1);
        TwoPaths { world, delay: delay.map(Duration::from_millis) }
    }

    /// Runs until each of these times, in milliseconds, with those paths working.
    fn live(&mut self, until: &[(u64, [bool; 2])]) {
        let mut from = self.world.now;
        for (millis, works) in until {
            let time = from..Instant::from_millis(*millis);
            let dead: Vec<u32> = (0..2).filter(|path| !works[*path as usize]).collect();
            self.world.up.outages.push((time.clone(), dead.clone()));
            self.world.down.outages.push((time.clone(), dead));
            from = time.end;
        }
        self.world.run_until(from);
    }

    /// The caller, the listener.
    fn end(&self, at: usize) -> &Party {
        [&self.world.near, &self.world.far][at].index(0)
    }

    /// The messages that arrived at an end, with their paths.
    fn arrivals(&self, at: usize) -> impl Iterator<Item = (PathId, Crossing)> {
        let paths = self.end(at).messages.iter().map(|came| came.received.path);
        let crossings = self.end(at).crossings(self.end(1 - at));
        paths.zip(crossings)
    }

    /// Messages handed in from `from` to `to` that arrived, by path, and the age of the oldest.
    fn arrived(&self, at: usize, from: u64, to: u64) -> ([usize; 2], Duration) {
        let number = |millis: u64| (millis - 500) / 5;
        let (mut by, mut oldest) = ([0; 2], Duration::ZERO);
        for (path, crossing) in self.arrivals(at) {
            if (number(from)..number(to)).contains(&crossing.number) {
                by[path.0 as usize] += 1;
                oldest = oldest.max(crossing.age());
            }
        }
        (by, oldest)
    }

    /// Asserts that the first, faster path delivered every message of that time, none later than its delay.
    fn assert_first_brought_all(&self, at: usize, from: u64, to: u64) {
        let messages = ((to - from) / 5) as usize;
        assert_eq!(self.arrived(at, from, to), ([messages, 0], self.delay[0]), "from {from} to {to} ms");
    }
}

#[test]
fn a_dead_path_delays_no_message_and_is_used_again() {
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
        assert_eq!(
            world.arrivals(end).count() as u64,
            world.end(1 - end).next() - 2,
            "none twice, none lost"
        );
    }
}

#[test]
fn each_path_has_figures_of_its_own() {
    let mut world = TwoPaths::new("", [10, 30]);
    world.live(&[(4_000, [true, true])]);
    let caller = &world.end(0).endpoint;
    let srtt = |path: u32| {
        let stats = caller.path_stats(PathId(path)).expect("a path of its own");
        stats.srtt.expect("measured").as_millis()
    };
    // Two delays, and on the first path, which carries messages, up to 10 ms of a delayed acknowledgement.
    assert!((20..=30).contains(&srtt(0)), "{} ms", srtt(0));
    assert_eq!(srtt(1), 60, "heartbeats alone");
    let [first, other] = [0, 1].map(|path| caller.path_stats(PathId(path)).expect("known"));
    assert!(first.in_flight > other.in_flight && first.cwnd > other.cwnd, "{first:?} {other:?}");
    assert_eq!(caller.path_stats(PathId(2)), None);
    let whole = caller.stats();
    assert_eq!((whole.srtt, whole.cwnd, whole.in_flight), (first.srtt, first.cwnd, first.in_flight));
    assert!(whole.counters.messages_accepted > 600);
}

#[test]
fn a_path_may_be_forgiven_time_outs_before_it_is_left() {
    // A time-out of 50 ms, or also a doubled one, with an unanswered heartbeat as well, and the delay of 12 ms.
    for (query, least, most) in [("", 55, 70), ("path-max-retrans=2", 145, 180)] {
        let mut world = TwoPaths::new(query, [10, 12]);
        world.live(&[(2_000, [true, true]), (4_000, [false, true])]);
        let came = world.arrivals(1).filter(|(path, _)| path.0 == 1).map(|(_, crossing)| crossing.came);
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
        let counters = world.end(end).counters();
        assert!(counters.duplicates > 400 && counters.retransmitted == 0, "{counters:?}");
        let end = world.end(end);
        assert_eq!(end.outcomes.len(), end.count_outcomes(|outcome| *outcome == Outcome::Acked));
    }
}

#[test]
fn one_path_is_enough_to_begin_and_to_live() {
    // The first path never worked: the INIT is sent on the other after its time-out.
    let mut world = TwoPaths::with_budget("", [10, 10], None);
    world.live(&[(100_000, [false, true])]);
    let (came, caller) = (world.arrivals(1).count() as u64, world.end(0));
    assert!(came + 10 > caller.next() && caller.closed == 0, "{came} of {}", caller.next());
}

#[test]
fn an_unproved_address_gets_heartbeats_only() {
    let mut world = TwoPaths::new("", [10, 10]);
    world.live(&[(1_000, [true, true])]);
    // A packet overheard by an attacker and sent again from another address.
    let mut buf = [0; 1500];
    let TwoPaths { mut world, .. } = world;
    let now = world.now;
    let end = &mut world.near[0];
    end.endpoint.send(now, Message::new(Tag::NONE, &[0; 900], None)).unwrap();
    let len = end.endpoint.poll_transmit(now, &mut buf).unwrap().len;
    let listener = &mut world.far[0].endpoint;
    listener.handle_input(now, datagram(&mut buf[..len], PathId(7), now));
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
