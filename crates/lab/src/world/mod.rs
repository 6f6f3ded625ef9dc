//! The virtual world: runs a [`Setup`] and says what came of it.
//!
//! Time jumps from event to event. Components (parts of media, nodes' processors, stations, generators of traffic) name
//! the instant at which they have something to do; the earliest goes next, ties in the order in which they were asked
//! for. Nothing else decides, so equal setups and seeds give equal runs.

mod agenda;
mod error;
mod generator;
mod medium;
mod meter;
mod network;
mod packet;
mod routes;
mod socket;
mod stream_end;
mod streams;
mod traffic;

use std::time::Duration;

use antiphon_core::Instant;

pub use error::WorldError;
pub use traffic::TrafficCounters;

use crate::figures::RunFigures;
use crate::setup::{MediumKind, NodeId, Setup, StreamSpec, TrafficKind, TrafficSpec};
use network::{Arrival, Flow, Network};
use routes::Map;
use socket::Socket;
use streams::Maker;
use traffic::Traffic;

/// Runs `setup` to its end. All that is random comes from `seed`.
pub fn run(setup: &Setup, seed: u64) -> Result<RunFigures, WorldError> {
    let mut world = World::new(setup, seed)?;
    world.run_to_end();
    Ok(world.figures())
}

/// A network with its stations, in virtual time.
pub struct World {
    net: Network,
    apps: Vec<App>,
    /// Of each flow: the app of its sender; those of its receivers follow, but traffic has one for both.
    senders: Vec<usize>,
    streams: Vec<Stream>,
    pings: Vec<(String, usize)>,
    traffic: Vec<(String, usize)>,
    /// Apps that keep their first medium's queue full.
    blasters: Vec<usize>,
    now: Instant,
    end: Instant,
    events: u64,
}

enum App {
    Socket(Box<Socket>),
    Traffic(Box<Traffic>),
}

struct Stream {
    name: String,
    flow: u32,
    receivers: Vec<String>,
}

impl World {
    /// The world after `setup` at the beginning of its run.
    pub fn new(setup: &Setup, seed: u64) -> Result<Self, WorldError> {
        check_times(setup)?;
        let map = Map::new(setup)?;
        let until = Instant::ZERO + setup.duration;
        let (mut flows, mut apps, mut senders, mut streams) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for spec in &setup.streams {
            let flow = stream_flow(&map, spec)?;
            let mtu = flow.ways.iter().map(|way| map.mtu(way)).min().unwrap_or(1500);
            let maker = Maker::new(spec, flows.len() as u32, mtu, until, seed)?;
            let (_, sockets) = maker.sockets()?;
            let receivers = spec.to.iter().map(|node| setup.nodes[node.0].name.clone()).collect();
            streams.push(Stream { name: spec.name.clone(), flow: flows.len() as u32, receivers });
            senders.push(apps.len());
            apps.extend(sockets.into_iter().map(|socket| App::Socket(Box::new(socket))));
            flows.push(flow);
        }
        let (mut pings, mut traffic, mut blasters) = (Vec::new(), Vec::new(), Vec::new());
        for spec in &setup.traffic {
            let flow = traffic_flow(&map, spec)?;
            let queue = check_traffic(setup, spec, &flow)?;
            let made = Traffic::new(spec, flows.len() as u32, until, queue, seed);
            traffic.push((spec.name.clone(), apps.len()));
            if matches!(spec.kind, TrafficKind::Ping { .. }) {
                pings.push((spec.name.clone(), apps.len()));
            }
            if made.is_blaster() {
                blasters.push(apps.len());
            }
            senders.push(apps.len());
            apps.push(App::Traffic(Box::new(made)));
            flows.push(flow);
        }
        let net = Network::new(setup, flows, apps.len(), seed)?;
        let end = until + setup.drain;
        let now = Instant::ZERO;
        let mut world = World { net, apps, senders, streams, pings, traffic, blasters, now, end, events: 0 };
        for app in 0..world.apps.len() {
            let first = match &world.apps[app] {
                App::Socket(socket) => Some(socket.starts()),
                App::Traffic(traffic) => traffic.poll_timeout(),
            };
            world.net.agenda.set(world.net.components() + app, first);
        }
        Ok(world)
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs event by event until duration and drain are over.
    pub fn run_to_end(&mut self) {
        self.run_until(self.end);
    }

    /// Runs up to and including `until`, but not beyond the end.
    pub fn run_until(&mut self, until: Instant) {
        let until = until.min(self.end);
        while let Some((at, id)) = self.net.agenda.first().filter(|(at, _)| *at <= until) {
            self.step(at, id, until);
        }
        self.now = self.now.max(until);
    }

    fn step(&mut self, at: Instant, id: usize, until: Instant) {
        self.events += 1;
        self.now = self.now.max(at);
        let Some(app) = id.checked_sub(self.net.components()) else {
            // A medium may go on by itself as long as nobody else has anything to do.
            let others = self.net.agenda.second().map_or(until, |second| second.offset_nanos(-1).min(until));
            if let Some(arrival) = self.net.poll(id, at, others) {
                self.now = self.now.max(arrival.at);
                self.deliver(arrival);
            }
            self.refill();
            return;
        };
        match &mut self.apps[app] {
            App::Socket(socket) => socket.pump(self.now, &mut self.net),
            App::Traffic(traffic) => traffic.pump(self.now, &mut self.net),
        }
        self.reschedule(app);
    }

    fn deliver(&mut self, arrival: Arrival) {
        let sender = self.senders[arrival.parcel.flow as usize];
        let app = match (&self.apps[sender], arrival.receiver) {
            (App::Socket(_), Some(receiver)) => sender + 1 + receiver,
            _ => sender,
        };
        match &mut self.apps[app] {
            App::Socket(socket) => socket.on_arrival(arrival, &mut self.net),
            App::Traffic(traffic) => traffic.on_arrival(arrival, &mut self.net),
        }
        self.reschedule(app);
    }

    /// Keeps full the queues that are to be.
    fn refill(&mut self) {
        for n in 0..self.blasters.len() {
            let app = self.blasters[n];
            if let App::Traffic(traffic) = &mut self.apps[app]
                && traffic.is_started(self.now)
            {
                traffic.pump(self.now, &mut self.net);
                self.reschedule(app);
            }
        }
    }

    fn reschedule(&mut self, app: usize) {
        let due = match &self.apps[app] {
            App::Socket(socket) => socket.poll_timeout(),
            App::Traffic(traffic) => traffic.poll_timeout(),
        };
        self.net.agenda.set(self.net.components() + app, due);
    }

    /// What came of it so far.
    pub fn figures(&self) -> RunFigures {
        let mut streams: Vec<_> = Vec::new();
        let mut others = Vec::new();
        for stream in &self.streams {
            let first = self.senders[stream.flow as usize];
            for (receiver, node) in stream.receivers.iter().enumerate() {
                let (App::Socket(near), App::Socket(far)) =
                    (&self.apps[first], &self.apps[first + 1 + receiver])
                else {
                    continue;
                };
                let figures = streams::figures(near, far, stream.flow, &self.net);
                if receiver == 0 {
                    streams.push((stream.name.clone(), figures));
                } else {
                    others.push((format!("{}@{node}", stream.name), figures));
                }
            }
        }
        for (name, app) in &self.pings {
            if let App::Traffic(traffic) = &self.apps[*app] {
                streams.extend(traffic.figures().map(|figures| (name.clone(), figures)));
            }
        }
        streams.extend(others);
        let (media, parts) = self.net.media();
        let media = media.iter().map(|medium| medium.figures(parts)).collect();
        RunFigures { streams, media, events: self.events }
    }

    /// What a generator of traffic has done so far; `None` if there is none of that name.
    pub fn traffic(&self, name: &str) -> Option<TrafficCounters> {
        let (_, app) = self.traffic.iter().find(|(other, _)| other == name)?;
        match &self.apps[*app] {
            App::Traffic(traffic) => Some(traffic.counters()),
            App::Socket(_) => None,
        }
    }

    /// Whether every packet in every medium is accounted for.
    pub fn balances(&self) -> bool {
        self.net.balances()
    }
}

fn check_times(setup: &Setup) -> Result<(), WorldError> {
    let whole = setup.duration.saturating_add(setup.drain);
    if setup.duration.is_zero() {
        return Err(WorldError::NoDuration);
    }
    let longest = setup.streams.iter().map(|stream| stream.start).chain([whole]);
    match longest.max().filter(|longest| *longest > LONGEST) {
        Some(longest) => Err(WorldError::TooLong(longest)),
        None => Ok(()),
    }
}

fn stream_flow(map: &Map<'_>, spec: &StreamSpec) -> Result<Flow, WorldError> {
    let Some(first) = spec.to.first() else { return Err(WorldError::NoReceiver(spec.name.clone())) };
    let mut ways = vec![map.way(&spec.name, spec.from, *first)?];
    for to in &spec.to {
        ways.push(map.way(&spec.name, *to, spec.from)?);
    }
    let forks = if spec.to.len() > 1 { map.forks(&spec.name, spec.from, &spec.to)? } else { Vec::new() };
    Ok(Flow { ways, forks, treatment: spec.treatment, wire_bytes: 0 })
}

fn traffic_flow(map: &Map<'_>, spec: &TrafficSpec) -> Result<Flow, WorldError> {
    let way = |from: NodeId, to: NodeId| map.way(&spec.name, from, to);
    let ways = vec![way(spec.from, spec.to)?, way(spec.to, spec.from)?];
    Ok(Flow { ways, forks: Vec::new(), treatment: spec.treatment, wire_bytes: 0 })
}

/// Refuses traffic that cannot be; answers what the queue of its first medium holds, where the medium itself does not
/// tell.
fn check_traffic(setup: &Setup, spec: &TrafficSpec, flow: &Flow) -> Result<usize, WorldError> {
    let refuse = |what: &str| Err(WorldError::quantity(&spec.name, what));
    let payload = match &spec.kind {
        TrafficKind::Constant { payload, .. }
        | TrafficKind::Poisson { payload, .. }
        | TrafficKind::Bursts { payload, .. }
        | TrafficKind::Blaster { payload } => *payload,
        TrafficKind::Ping { payload, .. } => *payload,
        TrafficKind::GreedyTcp { .. } => 1,
    };
    if payload == 0 && !matches!(spec.kind, TrafficKind::Ping { .. }) || payload > MOST_PAYLOAD {
        return refuse("a packet has a payload of 1 to 65507 bytes");
    }
    match &spec.kind {
        TrafficKind::Bursts { period, .. } if period.is_zero() => {
            return refuse("bursts need a period above zero, such as 100ms");
        }
        TrafficKind::Ping { interval, .. } if interval.is_zero() => {
            return refuse("echo requests need an interval above zero, such as 1s");
        }
        _ => {}
    }
    let hop = flow.ways[0][0];
    let own = usize::from(hop.own);
    Ok(match &setup.media[hop.medium].kind {
        MediumKind::Link { spec: link, between } if matches!(spec.kind, TrafficKind::Blaster { .. }) => {
            let way = if between[0] == spec.from { &link.up } else { &link.down };
            if way.rate.is_none() {
                return refuse("a blaster's first link needs a rate, or it would send without end");
            }
            0
        }
        MediumKind::Cell { spec: cell, .. } => match cell.stations.get(own) {
            Some(station) => station.queue as usize,
            None => 0,
        },
        MediumKind::Ring { spec: ring, .. } => {
            ring.stations.get(own).map_or(0, |station| station.queue as usize)
        }
        _ => 0,
    })
}

/// The largest UDP payload over IPv4.
const MOST_PAYLOAD: usize = 65_507;
/// A hundred years: `Instant` counts nanoseconds up to 584.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

#[cfg(test)]
mod tests;
