//! A sender and a receiver of `arq://` on a modelled link.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{
    Counters, Ecn, Endpoint, Event, Frame, FrameId, Input, Instant, Outcome, PathId, PathStats,
};
use antiphon_link::{Direction, Duplex};
use antiphon_proto::{OpenArgs, Role, open};

/// What a run was.
pub struct Run {
    pub frames: u64,
    /// Arrivals of each frame: how often, and its age at the first.
    pub arrivals: BTreeMap<u32, (u32, Duration)>,
    pub repaired: u64,
    pub outcomes: BTreeMap<FrameId, Outcome>,
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
    pub frames: u64,
    pub interval: Duration,
    pub budget: Duration,
    pub len: usize,
    pub seed: u64,
}

impl Run {
    pub fn residual(&self) -> f64 {
        1.0 - self.arrivals.len() as f64 / self.frames as f64
    }

    /// Copies handed to the application beyond the first, per frame.
    pub fn doubled(&self) -> f64 {
        let copies: u64 = self.arrivals.values().map(|(times, _)| u64::from(*times) - 1).sum();
        copies as f64 / self.frames as f64
    }

    /// Datagrams of data that arrived and were not needed, per frame, whoever dropped them.
    pub fn wasted(&self) -> f64 {
        self.doubled() + self.receiver.duplicates as f64 / self.frames as f64
    }

    pub fn worst_age(&self) -> Duration {
        self.arrivals.values().map(|(_, age)| *age).max().unwrap_or_default()
    }
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    let query: Query = query.parse().expect("a query");
    let latency = Duration::from_millis(80);
    let args = OpenArgs { role, query: &query, seed, now: Instant::ZERO, max_datagram: 1452, latency };
    open("arq", &args).expect("opens")
}

pub fn datagram(bytes: &[u8], now: Instant) -> Input<'_> {
    Input::Datagram { path: PathId::default(), bytes, ecn: Ecn::NotCapable, received_at: now }
}

/// Streams and waits until everything is settled.
pub fn run(plan: &Plan<'_>) -> Run {
    let mut caller = endpoint(plan.query, Role::Caller, plan.seed);
    let mut listener = endpoint(plan.query, Role::Listener, plan.seed + 1);
    let mut link = Duplex::<Vec<u8>>::new(&plan.link.parse().expect("a link"), plan.seed).expect("a link");
    let mut run = Run {
        frames: plan.frames,
        arrivals: BTreeMap::new(),
        repaired: 0,
        outcomes: BTreeMap::new(),
        sent_at: Vec::new(),
        stats: PathStats::default(),
        least_cwnd: None,
        receiver: Counters::default(),
        lost_on_link: 0,
    };
    let (mut now, mut sent, start) = (Instant::ZERO, 0u64, Instant::from_millis(1));
    let due_at = |n: u64| start + Duration::from_nanos(plan.interval.as_nanos() as u64 * n);
    let mut buf = vec![0; 65_536];
    let mut frame = vec![0x80; plan.len];
    loop {
        while sent < plan.frames && due_at(sent) <= now {
            frame[..4].copy_from_slice(&(sent as u32).to_be_bytes());
            // A sender that is kept back by its window drops what finds no room.
            let _refused = caller.send(now, Frame::new(&frame, Some(now + plan.budget)));
            sent += 1;
        }
        while let Some((direction, bytes)) = link.poll(now) {
            match direction {
                Direction::Up => listener.handle_input(now, datagram(&bytes, now)),
                Direction::Down => caller.handle_input(now, datagram(&bytes, now)),
            }
        }
        for endpoint in [&mut caller, &mut listener] {
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
        }
        while let Some(transmit) = caller.poll_transmit(now, &mut buf) {
            run.sent_at.push(now);
            link.offer(now, Direction::Up, buf[..transmit.len].to_vec());
        }
        while let Some(transmit) = listener.poll_transmit(now, &mut buf) {
            link.offer(now, Direction::Down, buf[..transmit.len].to_vec());
        }
        while let Some(received) = listener.poll_frame(&mut buf) {
            let number = u32::from_be_bytes([buf[0], buf[1], buf[2], buf[3]]);
            assert_eq!(received.len, plan.len);
            let entry = run.arrivals.entry(number).or_insert((0, now.since(due_at(number.into()))));
            entry.0 += 1;
            run.repaired += u64::from(received.repaired);
        }
        while let Some(event) = caller.poll_event() {
            if let Event::Frame { id, outcome } = event {
                assert_eq!(run.outcomes.insert(id, outcome), None, "one outcome for {id:?}");
            }
        }
        if let Some(cwnd) = caller.path_stats().cwnd {
            run.least_cwnd = Some(run.least_cwnd.map_or(cwnd.0, |least| least.min(cwnd.0)));
        }
        let next_frame = (sent < plan.frames).then(|| due_at(sent));
        let timeouts = [caller.poll_timeout(), listener.poll_timeout(), link.poll_timeout(), next_frame];
        let Some(next) = timeouts.into_iter().flatten().min() else { break };
        now = now.max(next);
    }
    (run.stats, run.receiver) = (caller.path_stats(), listener.path_stats().counters);
    run.lost_on_link = link.up.counters().lost;
    assert!(link.up.counters().balances() && link.down.counters().balances());
    assert_eq!(run.outcomes.len() as u64, run.stats.counters.frames_accepted);
    run
}
