//! A medium as the world sees it: packets go in at one node and come out at others.
//!
//! Each part that keeps its own time (a direction of a link, a port of a switch) is a component of the agenda, so that
//! a thousand ports cost no more than ten.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use antiphon_core::{BitRate, Instant, Rng};
use antiphon_link::wlan::{Cell, CellSpec, Destination, StationId};
use antiphon_link::{Counters, Discard, Duplex, Link, Packet, Port, Ring, RingSpec, Switch};

use super::error::WorldError;
use super::packet::{GROUP, Parcel};
use crate::figures::MediumFigures;
use crate::setup::{MediumKind, MediumSpec, NodeId, Treatment};

/// A medium, without its parts.
#[derive(Debug)]
pub struct Medium {
    /// As in the setup.
    pub name: String,
    /// Who is on it.
    pub nodes: Vec<usize>,
    /// Its first part.
    first: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Two parts, one each way.
    Pair,
    /// A sending port for each node, then an output of the switch for each.
    Star,
    Cell,
    Ring,
}

/// What keeps its own time.
pub enum Part {
    Link(Box<Link<Parcel>>),
    Port(Box<Port<Parcel>>),
    /// One output of a switch.
    Output(Box<Switch<Parcel>>),
    Cell(Box<Cell<Parcel>>),
    Ring(Box<RingPart>),
}

/// A ring, and the frames between their sender and who is to hear them.
pub struct RingPart {
    ring: Ring<Parcel>,
    travelling: BinaryHeap<Reverse<Travelling>>,
    sent: u64,
}

struct Travelling {
    at: Instant,
    order: u64,
    to: usize,
    parcel: Parcel,
}

/// Where a packet is to leave a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit<'a> {
    /// At one node, by its place on the medium.
    One(u16),
    /// At these.
    Group(&'a [u16]),
}

impl Medium {
    /// The medium after `spec`; its parts are appended to `parts`.
    pub fn new(spec: &MediumSpec, seed: u64, parts: &mut Vec<Part>) -> Result<Self, WorldError> {
        let seed = Rng::fork(seed, &format!("medium {}", spec.name)).next_u64();
        let medium = |shape| Medium {
            name: spec.name.clone(),
            nodes: nodes_of(&spec.kind).iter().map(|node| node.0).collect(),
            first: parts.len(),
            shape,
        };
        Ok(match &spec.kind {
            MediumKind::Link { spec: link, .. } => {
                let medium = medium(Shape::Pair);
                let error = |error| WorldError::Link { medium: spec.name.clone(), error };
                let Duplex { up, down } = Duplex::new(link, seed).map_err(error)?;
                parts.extend([up, down].map(|link| Part::Link(Box::new(link))));
                medium
            }
            MediumKind::Cable { rate, queue, .. } => {
                needs_rate(&spec.name, *rate)?;
                let medium = medium(Shape::Pair);
                let port = |end| Part::Port(Box::new(Port::new(*rate, *queue, fork(seed, "end", end))));
                parts.extend([0, 1].map(port));
                medium
            }
            MediumKind::Switch { nodes, rate, queue, latency } => {
                needs_rate(&spec.name, *rate)?;
                let medium = medium(Shape::Star);
                let port = |n| Part::Port(Box::new(Port::new(*rate, *queue, fork(seed, "station", n))));
                parts.extend((0..nodes.len()).map(port));
                // A switch of one port each, as outputs share nothing.
                let output = |n| Switch::new(&[*rate], *queue, *latency, fork(seed, "output", n));
                parts.extend((0..nodes.len()).map(|n| Part::Output(Box::new(output(n)))));
                medium
            }
            MediumKind::Cell { spec: cell, .. } => {
                let medium = medium(Shape::Cell);
                parts.push(Part::Cell(Box::new(new_cell(spec, cell, medium.nodes.len(), seed)?)));
                medium
            }
            MediumKind::Ring { spec: ring, .. } => {
                let medium = medium(Shape::Ring);
                parts.push(Part::Ring(Box::new(new_ring(spec, ring, medium.nodes.len())?)));
                medium
            }
        })
    }

    /// The part that takes what the node at place `own` sends.
    pub fn entrance(&self, own: usize) -> usize {
        match self.shape {
            Shape::Pair | Shape::Star => self.first + own,
            Shape::Cell | Shape::Ring => self.first,
        }
    }

    /// Offers a packet of the node at place `own`; answers whether a queue refused it.
    pub fn offer(
        &self,
        parts: &mut [Part],
        now: Instant,
        own: usize,
        exit: Exit<'_>,
        treatment: Treatment,
        mut parcel: Parcel,
    ) -> bool {
        parcel.exit = match exit {
            Exit::One(to) => to,
            Exit::Group(_) => GROUP,
        };
        let refused = match &mut parts[self.entrance(own)] {
            Part::Link(link) => link.offer(now, parcel),
            Part::Port(port) => port.offer(now, parcel),
            Part::Output(_) => unreachable!("no node sends by a switch's output"),
            Part::Cell(cell) => {
                let to = match exit {
                    Exit::One(to) => Destination::Station(StationId(to)),
                    Exit::Group(_) => Destination::Multicast,
                };
                cell.offer(now, StationId(own as u16), to, treatment.category, parcel)
            }
            Part::Ring(ring) => ring.ring.offer(now, own, treatment.ring, parcel),
        };
        match refused {
            Some(refused) => {
                refused.discard(Discard::Overflowed);
                true
            }
            None => false,
        }
    }

    /// What `part` of this medium has let out by `limit`: when, at which place on the medium, what. A packet that goes
    /// on to another part of the medium is handed to it, for which that part's number is noted in `moved`.
    pub fn poll<'e>(
        &self,
        parts: &mut [Part],
        part: usize,
        limit: Instant,
        exits: impl Fn(&Parcel) -> &'e [u16],
        mut moved: impl FnMut(usize, Option<Instant>),
    ) -> Option<(Instant, usize, Parcel)> {
        let number = part - self.first;
        match &mut parts[part] {
            Part::Link(link) => link.poll_at(limit).map(|(at, parcel)| (at, 1 - number, parcel)),
            Part::Port(port) => {
                let (at, parcel) = port.poll_at(limit)?;
                if self.shape == Shape::Pair {
                    return Some((at, 1 - number, parcel));
                }
                self.through_switch(parts, at, parcel, exits, &mut moved);
                None
            }
            Part::Output(switch) => {
                let (at, _, parcel) = switch.poll_at(limit)?;
                Some((at, number - self.nodes.len(), parcel))
            }
            Part::Cell(cell) => {
                let (at, station, parcel) = cell.poll_at(limit)?;
                Some((at, usize::from(station.0), parcel))
            }
            Part::Ring(ring) => ring.poll_at(limit, exits),
        }
    }

    fn through_switch<'e>(
        &self,
        parts: &mut [Part],
        at: Instant,
        parcel: Parcel,
        exits: impl Fn(&Parcel) -> &'e [u16],
        moved: &mut impl FnMut(usize, Option<Instant>),
    ) {
        let outputs = self.first + self.nodes.len();
        let mut forward = |to: u16, parcel: Parcel| {
            let part = outputs + usize::from(to);
            let Part::Output(switch) = &mut parts[part] else {
                unreachable!("outputs follow the stations' ports")
            };
            if let Some(refused) = switch.offer(at, 0, parcel) {
                refused.discard(Discard::Overflowed);
            }
            moved(part, switch.poll_timeout());
        };
        if parcel.exit == GROUP {
            for to in exits(&parcel).iter().copied() {
                forward(to, parcel.duplicate());
            }
        } else {
            forward(parcel.exit, parcel);
        }
    }

    /// Whether the node at place `own` can hand over a packet of `len` bytes without its being dropped.
    pub fn has_room(
        &self,
        parts: &mut [Part],
        now: Instant,
        own: usize,
        len: usize,
        treatment: Treatment,
        limit: usize,
    ) -> bool {
        match &mut parts[self.entrance(own)] {
            Part::Link(link) => link.has_room(now, len),
            Part::Port(port) => port.has_room(now, len),
            Part::Output(_) => false,
            Part::Cell(cell) => cell.queue_len(StationId(own as u16), treatment.category) < limit,
            Part::Ring(ring) => {
                ring.ring.counters(own).is_some_and(|counters| counters.queued < limit as u64)
            }
        }
    }

    fn parts<'a>(&self, parts: &'a [Part]) -> &'a [Part] {
        let count = match self.shape {
            Shape::Pair => 2,
            Shape::Star => 2 * self.nodes.len(),
            Shape::Cell | Shape::Ring => 1,
        };
        &parts[self.first..self.first + count]
    }

    /// Whether every packet is accounted for.
    pub fn balances(&self, parts: &[Part]) -> bool {
        self.parts(parts).iter().all(|part| match part {
            Part::Link(link) => link.counters().balances(),
            Part::Port(port) => port.counters().balances(),
            Part::Output(switch) => switch.counters(0).is_some_and(|counters| counters.balances()),
            Part::Cell(cell) => cell.balances(),
            Part::Ring(ring) => (0..self.nodes.len())
                .all(|n| ring.ring.counters(n).is_some_and(|counters| counters.balances())),
        })
    }

    /// What it did.
    pub fn figures(&self, parts: &[Part]) -> MediumFigures {
        let counters = match self.parts(parts) {
            [Part::Cell(cell)] => cell_counters(cell),
            [Part::Ring(ring)] => ring_counters(ring, self.nodes.len()),
            parts => {
                let each: Vec<Counters> = parts.iter().map(Part::counters).collect();
                let half = each.len() / 2;
                let names =
                    if self.shape == Shape::Star { [IN_NAMES, OUT_NAMES] } else { [UP_NAMES, DOWN_NAMES] };
                let both = [&each[..half], &each[half..]].map(sum);
                names.iter().zip(both).flat_map(|(names, counters)| named(names, &counters)).collect()
            }
        };
        MediumFigures { name: self.name.clone(), counters }
    }
}

impl Part {
    /// When it has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Part::Link(link) => link.poll_timeout(),
            Part::Port(port) => port.poll_timeout(),
            Part::Output(switch) => switch.poll_timeout(),
            Part::Cell(cell) => cell.poll_timeout(),
            Part::Ring(ring) => ring.poll_timeout(),
        }
    }

    /// Whether polling ahead of time stops at what comes out first, so that what is offered then finds the part as it
    /// was.
    pub fn can_run_ahead(&self) -> bool {
        matches!(self, Part::Cell(_))
    }

    fn counters(&self) -> Counters {
        match self {
            Part::Link(link) => link.counters(),
            Part::Port(port) => port.counters(),
            Part::Output(switch) => switch.counters(0).unwrap_or_default(),
            Part::Cell(_) | Part::Ring(_) => Counters::default(),
        }
    }
}

impl RingPart {
    fn poll_timeout(&self) -> Option<Instant> {
        let travelling = self.travelling.peek().map(|Reverse(travelling)| travelling.at);
        [travelling, self.ring.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_at<'e>(
        &mut self,
        now: Instant,
        exits: impl Fn(&Parcel) -> &'e [u16],
    ) -> Option<(Instant, usize, Parcel)> {
        while let Some(sent) = self.ring.poll(now) {
            let mut travel = |to: usize, parcel: Parcel| {
                self.sent += 1;
                let at = sent.at + self.ring.travel(sent.from, to);
                self.travelling.push(Reverse(Travelling { at, order: self.sent, to, parcel }));
            };
            if sent.packet.exit == GROUP {
                for to in exits(&sent.packet).iter().copied() {
                    travel(usize::from(to), sent.packet.duplicate());
                }
            } else {
                travel(usize::from(sent.packet.exit), sent.packet);
            }
        }
        let due = self.travelling.peek().is_some_and(|Reverse(first)| first.at <= now);
        let Reverse(arrived) = if due { self.travelling.pop()? } else { return None };
        Some((arrived.at, arrived.to, arrived.parcel))
    }
}

impl PartialEq for Travelling {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Travelling {}

impl PartialOrd for Travelling {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Travelling {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Who is on a medium, in its order.
pub fn nodes_of(kind: &MediumKind) -> &[NodeId] {
    match kind {
        MediumKind::Link { between, .. } | MediumKind::Cable { between, .. } => between,
        MediumKind::Switch { nodes, .. }
        | MediumKind::Cell { nodes, .. }
        | MediumKind::Ring { nodes, .. } => nodes,
    }
}

/// The largest IP packet of a medium: RFC 1390's for FDDI, else Ethernet's, which 802.11 keeps to in practice.
pub fn mtu(kind: &MediumKind) -> usize {
    if matches!(kind, MediumKind::Ring { .. }) { 4352 } else { 1500 }
}

fn new_cell(spec: &MediumSpec, cell: &CellSpec, nodes: usize, seed: u64) -> Result<Cell<Parcel>, WorldError> {
    same_number(spec, nodes, cell.stations.len())?;
    Cell::new(cell, seed).map_err(|error| WorldError::Cell { medium: spec.name.clone(), error })
}

fn new_ring(spec: &MediumSpec, ring: &RingSpec, nodes: usize) -> Result<RingPart, WorldError> {
    same_number(spec, nodes, ring.stations.len())?;
    let ring = Ring::new(ring).map_err(|error| WorldError::Ring { medium: spec.name.clone(), error })?;
    Ok(RingPart { ring, travelling: BinaryHeap::new(), sent: 0 })
}

fn same_number(spec: &MediumSpec, nodes: usize, stations: usize) -> Result<(), WorldError> {
    if nodes == stations {
        return Ok(());
    }
    Err(WorldError::Stations { medium: spec.name.clone(), nodes, stations })
}

fn needs_rate(name: &str, rate: BitRate) -> Result<(), WorldError> {
    if rate.0 > 0 {
        return Ok(());
    }
    Err(WorldError::quantity(name, "an Ethernet port needs a rate, such as 100Mbit/s; it has none"))
}

fn fork(seed: u64, what: &str, number: usize) -> u64 {
    Rng::fork(seed, &format!("{what} {number}")).next_u64()
}

type Names = [&'static str; 7];

const UP_NAMES: Names = [
    "up_offered",
    "up_duplicated",
    "up_delivered",
    "up_lost",
    "up_overflowed",
    "up_waiting",
    "up_delivered_bytes",
];
const DOWN_NAMES: Names = [
    "down_offered",
    "down_duplicated",
    "down_delivered",
    "down_lost",
    "down_overflowed",
    "down_waiting",
    "down_delivered_bytes",
];
const IN_NAMES: Names = [
    "in_offered",
    "in_duplicated",
    "in_delivered",
    "in_lost",
    "in_overflowed",
    "in_waiting",
    "in_delivered_bytes",
];
const OUT_NAMES: Names = [
    "out_offered",
    "out_duplicated",
    "out_delivered",
    "out_lost",
    "out_overflowed",
    "out_waiting",
    "out_delivered_bytes",
];

fn named(names: &Names, counters: &Counters) -> Vec<(&'static str, f64)> {
    let waiting = counters.queued + counters.in_flight;
    let values = [
        counters.offered,
        counters.duplicated,
        counters.delivered,
        counters.lost,
        counters.overflowed,
        waiting,
        counters.delivered_bytes,
    ];
    names.iter().copied().zip(values.map(|value| value as f64)).collect()
}

fn sum(all: &[Counters]) -> Counters {
    all.iter().fold(Counters::default(), |sum, one| Counters {
        offered: sum.offered + one.offered,
        duplicated: sum.duplicated + one.duplicated,
        delivered: sum.delivered + one.delivered,
        lost: sum.lost + one.lost,
        overflowed: sum.overflowed + one.overflowed,
        queued: sum.queued + one.queued,
        in_flight: sum.in_flight + one.in_flight,
        delivered_bytes: sum.delivered_bytes + one.delivered_bytes,
        ..sum
    })
}

fn cell_counters(cell: &Cell<Parcel>) -> Vec<(&'static str, f64)> {
    let total = cell.totals();
    let counts = [
        ("offered", total.offered),
        ("relayed", total.relayed),
        ("acknowledged", total.acknowledged),
        ("multicast", total.multicast),
        ("overflowed", total.overflowed),
        ("exhausted", total.exhausted),
        ("queued", total.queued),
        ("copies", total.copies),
        ("missed", total.missed),
        ("delivered", total.delivered),
        ("attempts", total.attempts),
        ("collisions", total.collisions),
        ("failures", total.failures),
        ("retries", total.retries),
    ];
    let mut all: Vec<_> = counts.into_iter().map(|(name, count)| (name, count as f64)).collect();
    all.push(("airtime_s", total.airtime.as_secs_f64()));
    all
}

fn ring_counters(ring: &RingPart, nodes: usize) -> Vec<(&'static str, f64)> {
    let each: Vec<Counters> = (0..nodes).filter_map(|n| ring.ring.counters(n)).collect();
    let (total, rotations) = (sum(&each), ring.ring.rotations());
    let seconds = |time: Duration| time.as_secs_f64();
    vec![
        ("offered", total.offered as f64),
        ("delivered", total.delivered as f64),
        ("overflowed", total.overflowed as f64),
        ("queued", total.queued as f64),
        ("delivered_bytes", total.delivered_bytes as f64),
        ("rotations", rotations.count as f64),
        ("rotation_mean_s", seconds(rotations.mean())),
        ("rotation_max_s", seconds(rotations.longest)),
        ("claims", rotations.claims as f64),
    ]
}
