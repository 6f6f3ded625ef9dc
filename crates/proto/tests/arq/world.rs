//! A sender and a receiver of `arq://` on a modelled link.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Counters, Endpoint, Input, Instant, Outcome, PathId, PathStats, Role};
use antiphon_link::Direction;
use antiphon_testkit::{Party, Shape, Talk, World};

/// What a run was.
pub struct Run {
    pub messages: u64,
    /// Arrivals of each message: how often, and its age at the first.
    pub arrivals: BTreeMap<u64, (u32, Duration)>,
    pub repaired: usize,
    pub outcomes: BTreeMap<u64, Outcome>,
    /// When each datagram of the sender went out.
    pub sent_at: Vec<Instant>,
    pub stats: PathStats,
    pub least_cwnd: Option<u64>,
    pub receiver: Counters,
    pub lost_on_link: u64,
}

/// How a run is made.
pub struct Plan<'a> {
    pub query: &'a str,
    pub link: &'a str,
    pub messages: u64,
    pub interval: Duration,
    pub budget: Duration,
    pub len: usize,
    pub seed: u64,
}

impl Run {
    pub fn residual(&self) -> f64 {
        1.0 - self.arrivals.len() as f64 / self.messages as f64
    }

    /// Copies handed to the application beyond the first, per message.
    pub fn doubled(&self) -> f64 {
        let copies: u64 = self.arrivals.values().map(|(times, _)| u64::from(*times) - 1).sum();
        copies as f64 / self.messages as f64
    }

    /// Datagrams of data that arrived and were not needed, per message, whichever side dropped them.
    pub fn wasted(&self) -> f64 {
        self.doubled() + self.receiver.duplicates as f64 / self.messages as f64
    }

    pub fn worst_age(&self) -> Duration {
        self.arrivals.values().map(|(_, age)| *age).max().unwrap_or_default()
    }
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    crate::common::endpoint(&format!("arq?{query}"), role, seed)
}

pub fn datagram(bytes: &mut [u8], now: Instant) -> Input<'_> {
    antiphon_testkit::datagram(bytes, PathId::default(), now)
}

/// Streams and waits until everything is settled.
pub fn run(plan: &Plan<'_>) -> Run {
    let start = Instant::from_millis(1);
    let (len, budget, every) = (plan.len, plan.budget, plan.interval);
    let talk = Talk::paced(start, every, plan.messages, move |_, _| Shape::new(len, Some(budget)));
    let caller = Party::new(endpoint(plan.query, Role::Caller, plan.seed)).talking(talk);
    let listener = Party::new(endpoint(plan.query, Role::Listener, plan.seed + 1)).keeping(8);
    let mut world = World::side_by_side([caller], [listener], &[plan.link], plan.seed);
    let log = world.log(|leaving| (leaving.direction, leaving.at));
    let mut least_cwnd: Option<u64> = None;
    world.run_while(Instant::from_millis(1_000_000_000), |world| {
        if let Some(cwnd) = world.near[0].endpoint.stats().cwnd {
            least_cwnd = Some(least_cwnd.map_or(cwnd.0, |least| least.min(cwnd.0)));
        }
        true
    });
    let (caller, listener) = (&world.near[0], &world.far[0]);
    let mut arrivals = BTreeMap::new();
    for came in &listener.messages {
        assert_eq!(came.received.len, plan.len);
        let due = start + Duration::from_nanos(every.as_nanos() as u64 * came.number());
        arrivals.entry(came.number()).or_insert((0, came.at.since(due))).0 += 1;
    }
    caller.assert_balanced();
    let (up, down) = (world.link().up.counters(), world.link().down.counters());
    assert!(up.balances() && down.balances());
    let stats = caller.endpoint.stats();
    assert_eq!(caller.outcomes.len() as u64, stats.counters.messages_accepted);
    Run {
        messages: plan.messages,
        arrivals,
        repaired: listener.messages.iter().filter(|came| came.received.repaired).count(),
        outcomes: caller.outcomes.clone(),
        sent_at: log.take().into_iter().filter(|(way, _)| *way == Direction::Up).map(|(_, at)| at).collect(),
        stats,
        least_cwnd,
        receiver: listener.counters(),
        lost_on_link: up.lost,
    }
}
