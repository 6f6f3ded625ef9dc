//! One association of any datagram transport on a path with a fixed delay and independent losses, in virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, Rng, Role};
use antiphon_testkit::{Party, Shape, Talk, World, numbers_in};

use crate::common::stack_for;

/// The messages sent, one each [`INTERVAL`], and the path.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub scheme: &'a str,
    pub query: &'a str,
    pub one_way: Duration,
    /// Share of the datagrams that get lost, each way.
    pub loss: f64,
    /// From handing a message over to its deadline.
    pub playout_delay: Duration,
    pub messages: u64,
    pub message_bytes: usize,
    pub seed: u64,
}

/// Results of a stream.
#[derive(Debug, Default)]
pub struct Run {
    /// Messages whose first transmission the path lost.
    pub lost: BTreeSet<u64>,
    /// Ages of messages at their first arrival, and whether the transport called them repaired.
    pub arrived: BTreeMap<u64, (Duration, bool)>,
    /// Messages of which a byte left after the deadline.
    pub sent_late: BTreeSet<u64>,
    /// Of messages that expired before any of it was sent, how long after the deadline that was reported.
    pub expired_unsent: Vec<Duration>,
}

/// What leaves, and which of it gets lost.
struct Path {
    losses: Rng,
    loss: f64,
    playout_delay: Duration,
    /// Messages that were transmitted at least once.
    transmitted: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    sent_late: BTreeSet<u64>,
}

impl Path {
    /// Whether a datagram that leaves gets through.
    fn carries(&mut self, now: Instant, datagram: &[u8]) -> bool {
        let loses = self.losses.chance(self.loss);
        for number in numbers_in(datagram).map(u64::from) {
            if self.transmitted.insert(number) && loses {
                self.lost.insert(number);
            }
            if now > due(number) + self.playout_delay {
                self.sent_late.insert(number);
            }
        }
        !loses
    }
}

/// Runs a stream to its end.
pub fn run(plan: &Plan<'_>) -> Run {
    let uri = format!("{}?{}", plan.scheme, plan.query);
    let end = |role, seed| Party::new(stack_for(&uri, seed, plan.playout_delay).open(Instant::ZERO, role));
    let (len, budget) = (plan.message_bytes, plan.playout_delay);
    let talk = Talk::paced(due(0), INTERVAL, plan.messages, move |_, _| Shape::new(len, Some(budget)));
    let near = end(Role::Caller, plan.seed).talking(talk);
    let far = end(Role::Listener, plan.seed + 1000).keeping(8);
    let link = format!("delay={}us", plan.one_way.as_micros());
    let mut world = World::side_by_side([near], [far], &[&link], plan.seed);
    let path = Rc::new(RefCell::new(Path {
        losses: Rng::fork(plan.seed, "losses"),
        loss: plan.loss,
        playout_delay: plan.playout_delay,
        transmitted: BTreeSet::new(),
        lost: BTreeSet::new(),
        sent_late: BTreeSet::new(),
    }));
    let carrier = path.clone();
    world.leaves = Some(Box::new(move |leaving| carrier.borrow_mut().carries(leaving.at, leaving.bytes)));
    world.run_until(due(plan.messages) + Duration::from_secs(1));
    assert_eq!(world.near[0].refused, [], "what is late leaves room");
    let mut arrived = BTreeMap::new();
    for came in &world.far[0].messages {
        let age = came.at.since(due(came.number()));
        arrived.entry(came.number()).or_insert((age, came.received.repaired));
    }
    let unsent = Outcome::Expired { maybe_received: false };
    let expired = world.near[0].outcomes.iter().filter(|(_, outcome)| **outcome == unsent);
    let late = |number: u64| world.near[0].told_at[&number].since(due(number) + budget);
    let mut path = path.borrow_mut();
    Run {
        lost: std::mem::take(&mut path.lost),
        arrived,
        sent_late: std::mem::take(&mut path.sent_late),
        expired_unsent: expired.map(|(number, _)| late(*number)).collect(),
    }
}

/// When a message is handed over: after the handshake, also if some of its packets get lost.
pub fn due(number: u64) -> Instant {
    Instant::from_millis(3000) + INTERVAL * number as u32
}

/// 256 sample frames at 48 kHz.
pub const INTERVAL: Duration = Duration::from_nanos(5_333_333);
