//! Associations side by side on one modelled link.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Counters, Endpoint, Instant, Outcome, Role, StreamId};
use antiphon_link::Direction;
use antiphon_testkit::{Crossing, Party, Shape, Talk, World};

/// Settings of every flow.
#[derive(Clone)]
pub struct Plan<'a> {
    pub query: &'a str,
    pub link: &'a str,
    pub flows: usize,
    pub messages: u64,
    /// `None`: as fast as the transport accepts messages.
    pub interval: Option<Duration>,
    pub budget: Option<Duration>,
    pub len: usize,
    /// Size of every 200th message, which is sent on stream 1.
    pub large: Option<usize>,
    pub ends: Instant,
    /// When nothing crosses the link.
    pub outage: Range<Instant>,
    /// When the link drops longer datagrams, and the limit in bytes.
    pub tunnel: (Range<Instant>, usize),
    pub seed: u64,
}

impl Plan<'_> {
    /// 2000 messages of 160 bytes, one every 5 ms, over a good link with a round trip of 40 ms.
    pub const PLAIN: Plan<'static> = Plan {
        query: "",
        link: "delay=20ms",
        flows: 1,
        messages: 2000,
        interval: Some(Duration::from_millis(5)),
        budget: None,
        len: 160,
        large: None,
        ends: Instant::from_millis(20_000),
        outage: Instant::ZERO..Instant::ZERO,
        tunnel: (Instant::ZERO..Instant::ZERO, 0),
        seed: 1,
    };
}

const HEARTBEAT: u8 = 4;

/// Results of one association.
pub struct Flow {
    pub arrivals: Vec<Crossing>,
    pub outcomes: BTreeMap<u64, Outcome>,
    pub bytes: u64,
    pub closed: bool,
    /// For each packet of the caller: when it was sent, its length, and whether it was a probe.
    pub packets: Vec<(Instant, usize, bool)>,
    /// Of the caller, of the listener.
    pub counters: [Counters; 2],
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    crate::common::endpoint(&format!("sctp?{query}"), role, seed)
}

impl Flow {
    fn new(caller: &Party, listener: &Party, packets: Vec<(Instant, usize, bool)>) -> Self {
        let received = || listener.messages.iter().map(|came| came.received);
        assert!(received().all(|received| received.stream.0 == u16::from(received.len > 1400)));
        Flow {
            arrivals: listener.crossings(caller),
            outcomes: caller.outcomes.clone(),
            bytes: received().map(|received| received.len as u64).sum(),
            closed: caller.closed > 0,
            packets,
            counters: [caller.counters(), listener.counters()],
        }
    }

    /// Ages at arrival in milliseconds, ascending.
    pub fn ages(&self) -> Vec<f64> {
        let mut ages: Vec<f64> =
            self.arrivals.iter().map(|crossing| crossing.age().as_secs_f64() * 1e3).collect();
        ages.sort_by(f64::total_cmp);
        ages
    }
}

/// Whether a message is a large one, in plans that have them.
pub fn is_large(number: u64) -> bool {
    number % 200 == 100
}

/// The messages sent, from half a second on: after the handshake, so that ages do not contain its time.
fn talk(plan: &Plan<'_>) -> Talk {
    let start = Instant::from_millis(500);
    let (len, large, budget) = (plan.len, plan.large, plan.budget);
    let Some(every) = plan.interval else { return Talk::eager(start, len) };
    Talk::paced(start, every, plan.messages, move |number, _| match large.filter(|_| is_large(number)) {
        Some(len) => Shape { stream: StreamId(1), ..Shape::new(len, budget) },
        None => Shape::new(len, budget),
    })
}

/// Runs to the end of the plan.
pub fn run(plan: &Plan<'_>) -> Vec<Flow> {
    let end = |role, seed| Party::new(endpoint(plan.query, role, seed)).keeping(8);
    let seeds = (0..plan.flows as u64).map(|n| plan.seed + 10 * n);
    let near = seeds.clone().map(|seed| end(Role::Caller, seed).talking(talk(plan)));
    let far = seeds.map(|seed| end(Role::Listener, seed + 1));
    let mut world = World::side_by_side(near, far, &[plan.link], plan.seed);
    // UDP over IPv4.
    world.headers = 28;
    world.outage(plan.outage.clone());
    world.narrow(plan.tunnel.0.clone(), plan.tunnel.1);
    let log = world.log(|leaving| {
        let packet = (leaving.at, leaving.bytes.len(), leaving.bytes[12] == HEARTBEAT);
        (leaving.direction, leaving.wire, packet)
    });
    world.run_until(plan.ends);
    assert!(world.link().up.counters().balances() && world.link().down.counters().balances());
    let mut packets = vec![Vec::new(); plan.flows];
    let up = log.take().into_iter().filter(|(direction, ..)| *direction == Direction::Up);
    up.for_each(|(_, wire, packet)| packets[wire.0 as usize].push(packet));
    let flows = world.near.iter().zip(world.far.iter()).zip(packets);
    flows.map(|((caller, listener), packets)| Flow::new(caller, listener, packets)).collect()
}
