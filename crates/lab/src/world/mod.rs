//! The virtual world: runs a [`Setup`] and returns its figures.
//!
//! **Time** jumps from event to event. Components (parts of media, nodes' processors, participants with their sockets,
//! generators of traffic) name the instant at which they have something to do; the earliest is next, ties in the order
//! of their requests. All random numbers are forked by name from one seed, so equal setups and seeds give equal runs. A
//! cell may run ahead up to the next event of any other component, which changes only the speed.
//!
//! **Packets** are IP packets with a flow and a path; media connect nodes as a tree, so there is one path, found at the
//! start. A multicast packet is offered once to each medium of the group's tree: in a cell one transmission reaches
//! all, a switch copies it to the ports that lead to members, and every other link carries one.
//!
//! **Participants** are the sessions and reflectors of `antiphon-session`, or the laboratory's packet generator and
//! listener, on endpoints of `antiphon-proto`. They are driven as in `net`, by `core`'s pump. Transports on datagrams
//! send UDP; those on a byte stream have a connection of [`crate::tcp`] below, which opens when the stream starts and
//! is not repeated once broken. A stream without patience (a packet generator) writes until the send buffer is full and
//! then waits, like a program whose write blocks: it falls behind its schedule and catches up; with patience, or with
//! sound, little is left unsent in the TCP (`TCP_NOTSENT_LOWAT`), so that frames expire where they wait.
//!
//! **Traffic** of a regular kind begins at a random part of its first interval, so that generators of equal rate, and
//! runs of different seeds, are not synchronised; streams begin at their set time.
//!
//! **Host costs** occupy one processor per node, first come, first served, in and out, or one for each of the two;
//! [`NodeSpec::queue`](crate::setup::NodeSpec::queue) packets may wait for it.
//!
//! ```
//! use antiphon_core::uri::Query;
//! use antiphon_lab::setup::{Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, StreamSpec};
//! use antiphon_lab::tcp::Profile;
//! use std::time::Duration;
//!
//! let spec = Box::new("rate=2Mbit/s,delay=30ms,loss=1%".parse()?);
//! let line = MediumKind::Link { between: [NodeId(0), NodeId(1)], spec };
//! let packets = Content::Packets { frame: 1300, interval: Duration::from_micros(7_400), count: None };
//! let audio = StreamSpec::new("audio", "rtp", [NodeId(0), NodeId(1)], packets);
//! let setup = Setup {
//!     duration: Duration::from_secs(10),
//!     drain: Duration::from_secs(1),
//!     ends_with_streams: false,
//!     media_seed: None,
//!     nodes: ["studio", "home"].map(NodeSpec::new).to_vec(),
//!     media: vec![MediumSpec::new("line", line)],
//!     traffic: Vec::new(),
//!     streams: vec![audio],
//! };
//! let figures = antiphon_lab::world::run(&setup, 1)?;
//! assert_eq!(figures.streams[0].1.sent, Some(1352.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Limits.** No IP fragments: a datagram larger than the path carries is refused where the stream is set up, and such
//! packets of traffic cross as one. No ARP, no routing protocol, no ECN marks. Sound is noise without the pauses of
//! speech, is not reflected, and its players' clocks run as the world's. Frame numbers are RTP's 16 bits, so 32 768
//! frames lost in a row are not noticed. A UDP datagram with an inverted bit is dropped by its receiver, as its
//! checksum fails.

mod agenda;
mod answering;
mod check;
mod copies;
pub(crate) mod counters;
mod error;
pub(crate) mod generator;
mod headers;
mod host;
pub(crate) mod medium;
mod medusa;
pub(crate) mod meter;
mod network;
pub(crate) mod packet;
pub(crate) mod participant;
pub(crate) mod pictures;
mod results;
mod ring;
pub(crate) mod routes;
pub(crate) mod socket;
mod sound;
mod stream_end;
pub(crate) mod stream_figures;
pub(crate) mod streams;
mod tap;
mod timer;
pub(crate) mod traffic;
mod unheard;
mod video;

use std::time::Duration;

use antiphon_core::wire::{ETHERNET_MTU, IPV4_HEADER, TCP_HEADER, UDP_IPV4_HEADERS};
use antiphon_core::{Instant, WireId};
use antiphon_proto::Substrate;

pub use error::{TapError, WorldError};
pub use traffic::TrafficCounters;

use crate::figures::RunFigures;
use crate::setup::{NodeId, Setup, StreamSpec, TrafficKind, TrafficSpec};
use crate::tcp::Profile;
use network::{Arrival, Flow, FlowKind, Network};
use routes::Map;
use socket::Socket;
use streams::StreamBuilder;
use traffic::Traffic;

/// Runs `setup` to its end. All that is random comes from `seed`.
pub fn run(setup: &Setup, seed: u64) -> Result<RunFigures, WorldError> {
    let mut world = World::new(setup, seed)?;
    world.run_to_end();
    Ok(world.figures())
}

/// A network and its participants, in virtual time.
pub struct World {
    net: Network,
    /// Those of each stream: its sender's, then its receivers'.
    sockets: Vec<Socket>,
    /// Of each flow of a stream, the socket of its sender; the flows of the traffic follow.
    senders: Vec<usize>,
    streams: Vec<Stream>,
    /// With its name.
    traffic: Vec<(String, Traffic)>,
    /// The traffic that keeps its first medium's queue full.
    blasters: Vec<usize>,
    /// The traffic that packets to a group hold up, with its medium and by how much.
    held_up: Vec<(usize, usize, Duration)>,
    /// Names of the nodes.
    names: Vec<String>,
    now: Instant,
    end: Instant,
    /// It ends when nothing more can happen to any stream.
    ends_with_streams: bool,
    over: bool,
    events: u64,
}

struct Stream {
    name: String,
    /// Of each of its associations, the first one first.
    flows: Vec<u32>,
    receivers: Vec<String>,
    /// The name of the one that is looked at beside it.
    beside: Option<String>,
}

/// Puts on the agenda when each socket and each load begins.
fn schedule(net: &mut Network, sockets: &[Socket], traffic: &[(String, Traffic)]) {
    let begin = sockets.iter().map(|socket| Some(socket.starts()));
    let begin = begin.chain(traffic.iter().map(|(_, traffic)| traffic.poll_timeout()));
    for (component, first) in (net.components()..).zip(begin) {
        net.agenda.set(component, first);
    }
}

impl World {
    /// The world of `setup` at the beginning of its run.
    pub fn new(setup: &Setup, seed: u64) -> Result<Self, WorldError> {
        check::times(setup)?;
        check::beside(setup)?;
        let map = Map::new(setup)?;
        let until = Instant::ZERO + setup.duration;
        let (mut flows, mut sockets, mut senders, mut streams) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for spec in &setup.streams {
            let flow = stream_flow(&map, spec)?;
            let mtu = map.mtu_of(&flow.ways);
            let first = flows.len() as u32;
            let mut own = StreamBuilder::new(spec, setup, first, mtu, seed)?.sockets()?;
            let receivers = spec.to.iter().map(|node| setup.nodes[node.0].name.clone()).collect();
            flows.push(flow);
            for (id, further) in (1..).zip(&spec.further) {
                let over = spec.over(further);
                let flow = stream_flow(&map, &over)?;
                let builder =
                    StreamBuilder::new(&over, setup, flows.len() as u32, map.mtu_of(&flow.ways), seed)?;
                builder.add_to(&mut own, WireId(id), further.joining)?;
                flows.push(flow);
            }
            senders.resize(flows.len(), sockets.len());
            let flows = (first..flows.len() as u32).collect();
            streams.push(Stream { name: spec.name.clone(), flows, receivers, beside: spec.beside.clone() });
            sockets.append(&mut own);
        }
        let (mut traffic, mut held_up) = (Vec::new(), Vec::new());
        for spec in &setup.traffic {
            let flow = traffic_flow(&map, spec)?;
            let queue = check::traffic(setup, spec, &flow)?;
            if spec.held_up > Duration::ZERO {
                held_up.push((traffic.len(), flow.ways[0][0].medium, spec.held_up));
            }
            traffic.push((spec.name.clone(), Traffic::new(spec, flows.len() as u32, until, queue, seed)));
            flows.push(flow);
        }
        let blasters = (0..traffic.len()).filter(|n| traffic[*n].1.is_blaster()).collect();
        let mut net = Network::new(setup, flows, sockets.len() + traffic.len(), seed)?;
        net.pool.stock((connections(setup) * SEGMENTS_READY).min(MOST_SEGMENTS_READY), FULL_SEGMENT);
        let datagrams = (setup.streams.len() * DATAGRAMS_READY).min(MOST_DATAGRAMS_READY);
        net.pool.stock_datagrams(datagrams, ETHERNET_MTU - UDP_IPV4_HEADERS);
        let end = until + setup.drain;
        let now = Instant::ZERO;
        let names = setup.nodes.iter().map(|node| node.name.clone()).collect();
        schedule(&mut net, &sockets, &traffic);
        let (ends_with_streams, over, events) = (setup.ends_with_streams, false, 0);
        Ok(World {
            net,
            sockets,
            senders,
            streams,
            traffic,
            blasters,
            held_up,
            names,
            now,
            end,
            ends_with_streams,
            over,
            events,
        })
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs event by event until duration and drain are over, or the streams if the setup says so.
    pub fn run_to_end(&mut self) {
        self.run_until(self.end);
    }

    /// Runs up to and including `until`, but not beyond the end.
    pub fn run_until(&mut self, until: Instant) {
        let until = until.min(self.end);
        while !self.over
            && let Some((at, id)) = self.net.agenda.first().filter(|(at, _)| *at <= until)
        {
            self.step(at, id, until);
        }
        self.now = self.now.max(until);
    }

    fn step(&mut self, at: Instant, id: usize, until: Instant) {
        self.events += 1;
        self.now = self.now.max(at);
        let Some(number) = id.checked_sub(self.net.components()) else {
            if let Some(arrival) = self.net.poll(id, at, until) {
                self.now = self.now.max(arrival.at);
                self.deliver(arrival);
            }
            self.hold_up();
            self.refill();
            return;
        };
        match number.checked_sub(self.sockets.len()) {
            None => self.sockets[number].pump(self.now, &mut self.net),
            Some(traffic) => self.traffic[traffic].1.pump(self.now, &mut self.net),
        }
        self.reschedule(number);
    }

    fn deliver(&mut self, arrival: Arrival) {
        let flow = arrival.parcel.flow as usize;
        if let Some(sender) = self.senders.get(flow) {
            let socket = arrival.receiver.map_or(*sender, |receiver| sender + 1 + receiver);
            self.sockets[socket].on_arrival(arrival, &mut self.net);
            return self.reschedule(socket);
        }
        let number = flow - self.senders.len();
        let (_, traffic) = &mut self.traffic[number];
        traffic.on_arrival(arrival, &mut self.net);
        if traffic.depends_on_arrivals() {
            self.reschedule(self.sockets.len() + number);
        }
    }

    /// Delays the traffic that a packet to a group holds up.
    fn hold_up(&mut self) {
        let Some(medium) = self.net.take_to_group() else { return };
        for n in 0..self.held_up.len() {
            let (number, own, by) = self.held_up[n];
            if own == medium {
                self.traffic[number].1.hold_up(by);
                self.reschedule(self.sockets.len() + number);
            }
        }
    }

    /// Fills the queues that must be kept full.
    fn refill(&mut self) {
        for n in 0..self.blasters.len() {
            let number = self.blasters[n];
            let (_, traffic) = &mut self.traffic[number];
            if traffic.is_started(self.now) {
                traffic.pump(self.now, &mut self.net);
                self.reschedule(self.sockets.len() + number);
            }
        }
    }

    /// Asks a socket, or the traffic behind the sockets, when it has something to do next.
    fn reschedule(&mut self, number: usize) {
        let due = match number.checked_sub(self.sockets.len()) {
            None => self.sockets[number].poll_timeout(),
            Some(traffic) => self.traffic[traffic].1.poll_timeout(),
        };
        self.net.agenda.set(self.net.components() + number, due);
        if due.is_none() && self.ends_with_streams {
            self.over = self.is_quiet();
        }
    }

    /// Whether nothing can happen to any stream any more: no socket waits for a time, and no packet is on its way to one.
    fn is_quiet(&self) -> bool {
        let first = self.net.components();
        self.net.pool.is_at_rest()
            && (first..first + self.sockets.len()).all(|socket| !self.net.agenda.is_set(socket))
    }
}

fn is_tcp(scheme: &str) -> bool {
    antiphon_proto::find(scheme).is_ok_and(|found| found.substrate == Substrate::Tcp)
}

fn tcp_flow(profile: &Profile) -> FlowKind {
    // RFC 7323 §2.3: 14 at most.
    FlowKind::Tcp { scale: profile.window_scale.unwrap_or(0).min(14) }
}

/// TCP connections of a setup.
fn connections(setup: &Setup) -> usize {
    let further = |stream: &StreamSpec| stream.further.iter().filter(|one| is_tcp(&one.transport)).count();
    let of = |stream: &StreamSpec| usize::from(is_tcp(&stream.transport)) + further(stream);
    let streams: usize = setup.streams.iter().map(of).sum();
    streams + setup.traffic.iter().filter(|t| matches!(t.kind, TrafficKind::GreedyTcp { .. })).count()
}

fn stream_flow(map: &Map<'_>, spec: &StreamSpec) -> Result<Flow, WorldError> {
    let Some(first) = spec.to.first() else { return Err(WorldError::NoReceiver(spec.name.clone())) };
    let mut ways = vec![map.way(&spec.name, spec.from, *first)?];
    for to in &spec.to {
        ways.push(map.way(&spec.name, *to, spec.from)?);
    }
    let receivers = spec.to.len() as u16;
    if receivers > 1 {
        for to in &spec.to {
            ways.push(map.way(&spec.name, spec.from, *to)?);
        }
    }
    let forks = if spec.to.len() > 1 { map.forks(&spec.name, spec.from, &spec.to)? } else { Vec::new() };
    let kind = if is_tcp(&spec.transport) { tcp_flow(&spec.tcp) } else { FlowKind::Stream };
    Ok(Flow { kind, ways, receivers, forks, treatment: spec.treatment, wire_bytes: 0 })
}

fn traffic_flow(map: &Map<'_>, spec: &TrafficSpec) -> Result<Flow, WorldError> {
    let way = |from: NodeId, to: NodeId| map.way(&spec.name, from, to);
    let ways = vec![way(spec.from, spec.to)?, way(spec.to, spec.from)?];
    let kind = match &spec.kind {
        TrafficKind::GreedyTcp { profile } => tcp_flow(profile),
        TrafficKind::Ping { .. } => FlowKind::Ping,
        _ => FlowKind::Filler,
    };
    Ok(Flow { kind, ways, receivers: 1, forks: Vec::new(), treatment: spec.treatment, wire_bytes: 0 })
}

/// Segments reserved for each connection: more than a queue of 100 packets and the packets in flight.
const SEGMENTS_READY: usize = 128;
/// The most for all of them together: 6 MB.
const MOST_SEGMENTS_READY: usize = 4096;
/// Datagrams reserved for each stream: sound of 128 sample frames and its repairs on a path of 40 ms.
const DATAGRAMS_READY: usize = 32;
/// The most for all of them together: 6 MB.
const MOST_DATAGRAMS_READY: usize = 4096;
/// Payload of a full segment on Ethernet.
const FULL_SEGMENT: usize = ETHERNET_MTU - IPV4_HEADER - TCP_HEADER;
#[cfg(test)]
mod tests;
