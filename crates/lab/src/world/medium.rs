//! A medium in the world: packets enter at one node and leave at others.
//!
//! Each part with its own time (a direction of a link, a port of a switch) is a component of the agenda, so that the
//! cost does not grow with the number of ports.

use antiphon_core::wire::ETHERNET_MTU;
use antiphon_core::{BitRate, Instant, Rng};
use antiphon_link::wlan::{Cell, CellSpec, Destination, StationId};
use antiphon_link::{
    Discard, Duplex, Link, LinkSpec, Packet, Port, QueueLimit, Replay, ReplayPath, Ring, RingSpec, Switch,
};

use super::error::WorldError;
use super::packet::{GROUP, Parcel};
use super::ring::RingPart;
use crate::setup::{MediumKind, MediumSpec, NodeId, NodeSpec, Treatment};

/// A medium, without its parts.
#[derive(Debug)]
pub struct Medium {
    /// As in the setup.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// Its first part.
    first: usize,
    pub(super) shape: Shape,
}

/// Its structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Two parts, one each way.
    Pair,
    /// A sending port for each node, then an output of the switch for each.
    Star,
    Cell,
    Ring,
}

/// A part with its own time.
pub enum Part {
    Link(Box<Link<Parcel>>),
    Replay(Box<Replay<Parcel>>),
    Port(Box<Port<Parcel>>),
    /// One output of a switch.
    Output(Box<Switch<Parcel>>),
    Cell(Box<Cell<Parcel>>),
    Ring(Box<RingPart>),
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
    /// The medium after `spec` between some of `all` nodes; its parts are appended to `parts`.
    pub fn new(
        spec: &MediumSpec,
        all: &[NodeSpec],
        seed: u64,
        parts: &mut Vec<Part>,
    ) -> Result<Self, WorldError> {
        let medium = |shape| Medium {
            name: spec.name.clone(),
            nodes: nodes_of(&spec.kind).iter().map(|node| node.0).collect(),
            first: parts.len(),
            shape,
        };
        Ok(match &spec.kind {
            MediumKind::Link { spec: link, .. } => {
                let medium = medium(Shape::Pair);
                let error = |error| WorldError::Link { medium: spec.name.clone(), error: Box::new(error) };
                let Duplex { up, down } = Duplex::new(link, seed).map_err(error)?;
                parts.extend([up, down].map(|link| Part::Link(Box::new(link))));
                medium
            }
            MediumKind::Alternating { spec: link, with, .. } => {
                let medium = medium(Shape::Pair);
                let error = |error| WorldError::Link { medium: spec.name.clone(), error: Box::new(error) };
                let Duplex { up, down } = Duplex::alternating(link, *with, seed).map_err(error)?;
                parts.extend([up, down].map(|link| Part::Link(Box::new(link))));
                medium
            }
            MediumKind::Replay { up, down, .. } => {
                let medium = medium(Shape::Pair);
                let replay = |path: &ReplayPath| Part::Replay(Box::new(Replay::new(path.clone())));
                parts.extend([up, down].map(replay));
                medium
            }
            MediumKind::Cable { rate, queue, .. } => {
                check_port(&spec.name, *rate, *queue)?;
                let medium = medium(Shape::Pair);
                let port = |end| Part::Port(Box::new(Port::new(*rate, *queue, fork(seed, "end", end))));
                parts.extend([0, 1].map(port));
                medium
            }
            MediumKind::Switch { nodes, rate, queue, latency } => {
                check_port(&spec.name, *rate, *queue)?;
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
                let nodes = medium.nodes.iter().map(|node| &all[*node]);
                parts.push(Part::Ring(Box::new(new_ring(spec, ring, nodes)?)));
                medium
            }
        })
    }

    /// The part that takes packets of the node at index `own`.
    pub fn entrance(&self, own: usize) -> usize {
        match self.shape {
            Shape::Pair | Shape::Star => self.first + own,
            Shape::Cell | Shape::Ring => self.first,
        }
    }

    /// Offers a packet of the node at index `own`; returns the flow of a packet that a queue then refused: this one, or a less urgent one.
    #[inline]
    pub fn offer(
        &self,
        parts: &mut [Part],
        now: Instant,
        own: usize,
        exit: Exit<'_>,
        treatment: Treatment,
        mut parcel: Parcel,
    ) -> Option<u32> {
        parcel.exit = match exit {
            Exit::One(to) => to,
            Exit::Group(_) => GROUP,
        };
        let refused = match &mut parts[self.entrance(own)] {
            Part::Link(link) => link.offer(now, parcel),
            Part::Replay(replay) => replay.offer(now, parcel),
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
        let refused = refused?;
        let flow = refused.flow;
        refused.discard(Discard::Overflowed);
        Some(flow)
    }

    /// The next packet that `part` of this medium, called at `now`, has delivered by `limit`: when, at which index on the medium, and the
    /// packet. A packet that goes on to another part of the medium is handed to it, and that part's number is stored in
    /// `moved`.
    #[inline]
    pub fn poll<'e>(
        &self,
        parts: &mut [Part],
        part: usize,
        [now, limit]: [Instant; 2],
        exits: impl Fn(&Parcel) -> &'e [u16],
        mut moved: impl FnMut(usize, Option<Instant>),
    ) -> Option<(Instant, usize, Parcel)> {
        let number = part - self.first;
        match &mut parts[part] {
            Part::Link(link) => link.poll_at(limit).map(|(at, parcel)| (at, 1 - number, parcel)),
            Part::Replay(replay) => replay.poll_at(limit).map(|(at, parcel)| (at, 1 - number, parcel)),
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
            Part::Ring(ring) => ring.poll_at(now, limit, exits),
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

    /// Whether the node at index `own` can hand over a packet of `len` bytes without a drop.
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
            Part::Replay(replay) => replay.has_room(),
            Part::Port(port) => port.has_room(now, len),
            Part::Output(_) => false,
            Part::Cell(cell) => cell.queue_len(StationId(own as u16), treatment.category) < limit,
            Part::Ring(ring) => {
                ring.ring.counters(own).is_some_and(|counters| counters.queued < limit as u64)
            }
        }
    }

    pub(super) fn parts<'a>(&self, parts: &'a [Part]) -> &'a [Part] {
        let count = match self.shape {
            Shape::Pair => 2,
            Shape::Star => 2 * self.nodes.len(),
            Shape::Cell | Shape::Ring => 1,
        };
        &parts[self.first..self.first + count]
    }
}

impl Part {
    /// When it has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Part::Link(link) => link.poll_timeout(),
            Part::Replay(replay) => replay.poll_timeout(),
            Part::Port(port) => port.poll_timeout(),
            Part::Output(switch) => switch.poll_timeout(),
            Part::Cell(cell) => cell.poll_timeout(),
            Part::Ring(ring) => ring.poll_timeout(),
        }
    }

    /// Whether it can be polled ahead of time: it stops at the first packet that comes out, so that packets offered at that
    /// instant find the part unchanged.
    pub fn can_run_ahead(&self) -> bool {
        matches!(self, Part::Cell(_) | Part::Ring(_))
    }
}

/// The nodes of a medium, in its order.
pub fn nodes_of(kind: &MediumKind) -> &[NodeId] {
    match kind {
        MediumKind::Link { between, .. }
        | MediumKind::Alternating { between, .. }
        | MediumKind::Replay { between, .. }
        | MediumKind::Cable { between, .. } => between,
        MediumKind::Switch { nodes, .. }
        | MediumKind::Cell { nodes, .. }
        | MediumKind::Ring { nodes, .. } => nodes,
    }
}

/// The largest IP packet of a medium: RFC 1390's for FDDI, otherwise Ethernet's, which 802.11 networks use in practice.
pub fn mtu(kind: &MediumKind) -> usize {
    if matches!(kind, MediumKind::Ring { .. }) { 4352 } else { ETHERNET_MTU }
}

fn new_cell(spec: &MediumSpec, cell: &CellSpec, nodes: usize, seed: u64) -> Result<Cell<Parcel>, WorldError> {
    same_number(spec, nodes, cell.stations.len())?;
    Cell::new(cell, seed)
        .map_err(|error| WorldError::Cell { medium: spec.name.clone(), error: Box::new(error) })
}

fn new_ring<'a>(
    spec: &MediumSpec,
    ring: &RingSpec,
    nodes: impl ExactSizeIterator<Item = &'a NodeSpec>,
) -> Result<RingPart, WorldError> {
    same_number(spec, nodes.len(), ring.stations.len())?;
    let mut ring = ring.clone();
    for (station, node) in ring.stations.iter_mut().zip(nodes) {
        station.priorities = node.priorities;
    }
    let ring = Ring::new(&ring)
        .map_err(|error| WorldError::Ring { medium: spec.name.clone(), error: Box::new(error) })?;
    Ok(RingPart::new(ring))
}

fn same_number(spec: &MediumSpec, nodes: usize, stations: usize) -> Result<(), WorldError> {
    if nodes == stations {
        return Ok(());
    }
    Err(WorldError::Stations { medium: spec.name.clone(), nodes, stations })
}

fn check_port(name: &str, rate: BitRate, queue: QueueLimit) -> Result<(), WorldError> {
    if rate.0 == 0 {
        return Err(WorldError::quantity(
            name,
            "an Ethernet port needs a rate, such as 100Mbit/s; it has none",
        ));
    }
    // Ports accept any limit; links check it.
    let like_a_port = LinkSpec { rate: Some(rate), queue, ..LinkSpec::default() };
    let refused = Link::<Parcel>::new(&like_a_port, 0).err();
    refused.map_or(Ok(()), |error| Err(WorldError::Link { medium: name.into(), error: Box::new(error) }))
}

fn fork(seed: u64, what: &str, number: usize) -> u64 {
    Rng::fork(seed, &format!("{what} {number}")).next_u64()
}
