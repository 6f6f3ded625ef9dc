//! Associations side by side on one modelled link.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, FrameId, Input, Instant, Outcome, PathId, StreamId};
use antiphon_link::{Direction, Duplex, Packet};
use antiphon_proto::{OpenArgs, Role, open};

/// What every flow does.
#[derive(Clone)]
pub struct Plan<'a> {
    pub query: &'a str,
    pub link: &'a str,
    pub flows: usize,
    pub frames: u64,
    /// `None`: as fast as the transport takes frames.
    pub interval: Option<Duration>,
    pub budget: Option<Duration>,
    pub len: usize,
    /// Size of every 200th frame, which goes on stream 1.
    pub large: Option<usize>,
    pub ends: Instant,
    /// When nothing crosses the link.
    pub outage: Range<Instant>,
    /// When the link drops datagrams that are longer than so many bytes.
    pub tunnel: (Range<Instant>, usize),
    pub seed: u64,
}

impl Plan<'_> {
    /// 2000 messages of 160 bytes, one every 5 ms, over a good link with a round trip of 40 ms.
    pub const PLAIN: Plan<'static> = Plan {
        query: "",
        link: "delay=20ms",
        flows: 1,
        frames: 2000,
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

/// One association and what came of it.
pub struct Flow {
    pub caller: Box<dyn Endpoint>,
    pub listener: Box<dyn Endpoint>,
    sent: u64,
    /// Number, when handed in, when it came.
    pub arrivals: Vec<(u64, Instant, Instant)>,
    handed_in: BTreeMap<u64, Instant>,
    pub outcomes: BTreeMap<FrameId, Outcome>,
    pub bytes: u64,
    pub closed: bool,
    /// When the caller sent each of its packets, its bytes, and whether it was a probe.
    pub packets: Vec<(Instant, usize, bool)>,
}

struct Tagged(usize, Vec<u8>);

impl Packet for Tagged {
    fn wire_len(&self) -> usize {
        // UDP over IPv4.
        self.1.len() + 28
    }
    fn duplicate(&self) -> Self {
        Tagged(self.0, self.1.clone())
    }
    fn flip_bit(&mut self, bit: u64) {
        self.1.flip_bit(bit);
    }
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    let query: Query = query.parse().expect("a query");
    let latency = Duration::from_millis(80);
    let args = OpenArgs { role, query: &query, seed, now: Instant::ZERO, max_datagram: 1452, latency };
    open("sctp", &args).expect("opens")
}

pub fn datagram(bytes: &[u8], path: PathId, now: Instant) -> Input<'_> {
    Input::Datagram { path, bytes, ecn: Ecn::NotCapable, received_at: now }
}

impl Flow {
    fn new(query: &str, seed: u64) -> Self {
        Flow {
            caller: endpoint(query, Role::Caller, seed),
            listener: endpoint(query, Role::Listener, seed + 1),
            sent: 0,
            arrivals: Vec::new(),
            handed_in: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            bytes: 0,
            closed: false,
            packets: Vec::new(),
        }
    }

    fn feed(&mut self, now: Instant, plan: &Plan<'_>, due_at: impl Fn(u64) -> Instant) {
        while self.sent < plan.frames && due_at(self.sent) <= now {
            let large = plan.large.filter(|_| is_large(self.sent));
            let mut bytes = vec![0x80; large.unwrap_or(plan.len)];
            bytes[..8].copy_from_slice(&self.sent.to_be_bytes());
            let stream = StreamId(u16::from(large.is_some()));
            let frame = Frame { stream, ..Frame::new(&bytes, plan.budget.map(|budget| now + budget)) };
            let taken = self.caller.send(now, frame);
            if taken.is_err() && plan.interval.is_none() {
                return;
            }
            self.handed_in.insert(self.sent, now);
            self.sent += 1;
        }
    }

    fn settle(&mut self, now: Instant, buf: &mut [u8]) {
        for endpoint in [&mut self.caller, &mut self.listener] {
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
        }
        while let Some(received) = self.listener.poll_frame(buf) {
            let number = u64::from_be_bytes(buf[..8].try_into().unwrap());
            assert_eq!(received.stream.0, u16::from(received.len > 1400));
            self.arrivals.push((number, self.handed_in[&number], now));
            self.bytes += received.len as u64;
        }
        while self.listener.poll_event().is_some() {}
        while let Some(event) = self.caller.poll_event() {
            match event {
                Event::Frame { id, outcome } => assert_eq!(self.outcomes.insert(id, outcome), None),
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
    }

    /// Ages at arrival in milliseconds, ascending.
    pub fn ages(&self) -> Vec<f64> {
        let mut ages: Vec<f64> =
            self.arrivals.iter().map(|(_, sent, came)| came.since(*sent).as_secs_f64() * 1e3).collect();
        ages.sort_by(f64::total_cmp);
        ages
    }
}

/// Whether a frame is one of the large ones, where there are any.
pub fn is_large(number: u64) -> bool {
    number % 200 == 100
}

/// Runs to the end of the plan.
pub fn run(plan: &Plan<'_>) -> Vec<Flow> {
    let mut flows: Vec<Flow> =
        (0..plan.flows).map(|n| Flow::new(plan.query, plan.seed + 10 * n as u64)).collect();
    let mut link = Duplex::<Tagged>::new(&plan.link.parse().expect("a link"), plan.seed).expect("a link");
    // After the handshake, so that ages are the transport's and not its beginning's.
    let (mut now, start) = (Instant::ZERO, Instant::from_millis(500));
    let due_at = |n: u64| start + plan.interval.unwrap_or_default() * n as u32;
    let mut buf = vec![0; 1 << 18];
    while now < plan.ends {
        while let Some((direction, Tagged(n, bytes))) = link.poll(now) {
            let side = if direction == Direction::Up { &mut flows[n].listener } else { &mut flows[n].caller };
            side.handle_input(now, datagram(&bytes, PathId::default(), now));
        }
        for (n, flow) in flows.iter_mut().enumerate() {
            flow.settle(now, &mut buf);
            flow.feed(now, plan, due_at);
            for (direction, side) in
                [(Direction::Up, &mut flow.caller), (Direction::Down, &mut flow.listener)]
            {
                while let Some(transmit) = side.poll_transmit(now, &mut buf) {
                    if direction == Direction::Up {
                        flow.packets.push((now, transmit.len, buf[12] == HEARTBEAT));
                    }
                    let (when, longest) = &plan.tunnel;
                    let too_long = when.contains(&now) && transmit.len > *longest;
                    if !plan.outage.contains(&now) && !too_long {
                        link.offer(now, direction, Tagged(n, buf[..transmit.len].to_vec()));
                    }
                }
            }
            flow.settle(now, &mut buf);
        }
        let ends = flows.iter().flat_map(|flow| {
            let next = (flow.sent < plan.frames && plan.interval.is_some()).then(|| due_at(flow.sent));
            [flow.caller.poll_timeout(), flow.listener.poll_timeout(), next]
        });
        // A greedy source looks again when something moves, or soon.
        let look = plan.interval.is_none().then(|| now + Duration::from_millis(5));
        let next = ends.chain([link.poll_timeout(), look]).flatten().min();
        now = now.max(next.unwrap_or(plan.ends));
    }
    assert!(link.up.counters().balances() && link.down.counters().balances());
    flows
}
