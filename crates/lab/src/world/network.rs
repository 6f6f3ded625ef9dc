//! Nodes and media: takes packets from senders and delivers them to receivers.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_link::{Discard, Packet};
use antiphon_trace::pcapng::Way;

use super::agenda::Agenda;
use super::check;
use super::error::WorldError;
use super::host::{Host, Job, check_cost};
use super::medium::{Exit, Medium, Part};
use super::packet::{GROUP, Parcel, Pool};
use super::routes::{self, Fork, Hop};
use super::tap::Tap;
use crate::setup::{Setup, Treatment};

/// Everything between senders and receivers.
///
/// Components of the agenda: the parts of the media, then the nodes that have costs, then the world's own.
pub struct Network {
    /// The next event.
    pub agenda: Agenda,
    /// Packet contents, and outcomes of packets.
    pub pool: Rc<Pool>,
    media: Vec<Medium>,
    parts: Vec<Part>,
    /// The medium of each part.
    medium_of: Vec<u32>,
    hosts: Vec<Host>,
    /// Those that are components: the nodes that have costs.
    scheduled: Vec<usize>,
    /// The component of each node that is one.
    component_of: Vec<usize>,
    flows: Vec<Flow>,
    taps: Vec<Tap>,
    /// The medium on which a packet of data to a group has arrived.
    to_group: Option<usize>,
}

/// Content of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowKind {
    /// A stream's datagrams.
    Stream,
    /// A TCP connection with this window scaling at both ends.
    Tcp {
        /// Bits.
        scale: u8,
    },
    /// UDP packets without content.
    Filler,
    /// Echo requests and replies.
    Ping,
}

/// A flow in the network.
#[derive(Debug)]
pub struct Flow {
    /// Its content.
    pub kind: FlowKind,
    /// 0 is forward, *n* back from the *n*-th receiver. If there are several receivers, a way to each follows.
    pub ways: Vec<routes::Way>,
    /// Receivers.
    pub receivers: u16,
    /// Of a multicast flow.
    pub forks: Vec<Fork>,
    /// How media treat its packets.
    pub treatment: Treatment,
    /// Bytes that its sender has put on its first medium.
    pub wire_bytes: u64,
}

/// A packet that has arrived at its destination.
#[derive(Debug)]
pub struct Arrival {
    /// The instant.
    pub at: Instant,
    /// The end of its flow: `None` is the sender.
    pub receiver: Option<usize>,
    /// The packet.
    pub parcel: Parcel,
}

impl Network {
    /// The media of `setup`, with room in the agenda for `others` components beyond parts and nodes.
    pub fn new(setup: &Setup, flows: Vec<Flow>, others: usize, seed: u64) -> Result<Self, WorldError> {
        let (mut media, mut parts, mut medium_of) = (Vec::new(), Vec::new(), Vec::new());
        for (m, spec) in setup.media.iter().enumerate() {
            media.push(Medium::new(spec, &setup.nodes, setup.seed_of_medium(&spec.name, seed), &mut parts)?);
            medium_of.resize(parts.len(), m as u32);
        }
        let hosts: Vec<Host> = setup.nodes.iter().map(|node| Host::new(node, seed)).collect();
        for node in &setup.nodes {
            check_cost(&node.name, &node.cost)?;
            check::node(node)?;
        }
        // Nodes without costs never have anything to do, and each entry costs time for all others.
        let scheduled: Vec<usize> = (0..hosts.len()).filter(|node| !hosts[*node].is_free).collect();
        let mut component_of = vec![0; hosts.len()];
        for (place, node) in scheduled.iter().enumerate() {
            component_of[*node] = parts.len() + place;
        }
        // Every packet in a cell or on a ring makes several events of it.
        let busiest = parts.iter().position(Part::can_run_ahead).unwrap_or(0);
        Ok(Network {
            agenda: Agenda::new(parts.len() + scheduled.len() + others, busiest),
            pool: Pool::new(flows.len()),
            media,
            parts,
            medium_of,
            hosts,
            scheduled,
            component_of,
            flows,
            taps: Vec::new(),
            to_group: None,
        })
    }

    /// Components that are the network's own; those of the world follow.
    pub fn components(&self) -> usize {
        self.parts.len() + self.scheduled.len()
    }

    /// A flow.
    pub fn flow(&self, flow: usize) -> &Flow {
        &self.flows[flow]
    }

    /// The media, and their parts.
    pub fn media(&self) -> (&[Medium], &[Part]) {
        (&self.media, &self.parts)
    }

    /// Sends a packet from the node at which its path begins.
    pub fn send(&mut self, now: Instant, parcel: Parcel) {
        let flow = &self.flows[parcel.flow as usize];
        let way = if parcel.way == GROUP { 0 } else { usize::from(parcel.way) };
        let node = flow.ways[way][0].node;
        if self.hosts[node].is_free {
            self.leave(now, node, parcel);
        } else {
            let copies = flow.copies(node, &parcel, parcel.hop);
            let cost = self.hosts[node].sending(&parcel).saturating_mul(copies);
            self.work(now, node, Job::Send, cost, parcel);
        }
    }

    /// Does what is due at component `id`: `at` is its time, `until` the end of the run.
    #[inline]
    pub fn poll(&mut self, id: usize, at: Instant, until: Instant) -> Option<Arrival> {
        if id >= self.parts.len() {
            return self.poll_host(self.scheduled[id - self.parts.len()], at);
        }
        let m = self.medium_of[id] as usize;
        let medium = &self.media[m];
        let limit = if self.parts[id].can_run_ahead() { self.alone_until(until).max(at) } else { at };
        let (flows, agenda) = (&self.flows, &mut self.agenda);
        let exits = |parcel: &Parcel| flows[parcel.flow as usize].exits(m);
        let out = medium.poll(&mut self.parts, id, [at, limit], exits, |part, due| agenda.set(part, due));
        self.agenda.set(id, self.parts[id].poll_timeout());
        let (at, place, parcel) = out?;
        let node = medium.nodes[place];
        let flow = &self.flows[parcel.flow as usize];
        for tap in &mut self.taps {
            tap.on_packet(at, m, node, Way::Inbound, flow, &parcel);
        }
        // Once for each packet: the first of its receivers there stands for all.
        if parcel.way == GROUP && !parcel.is_control() && flow.exits(m).first() == Some(&(place as u16)) {
            self.to_group = Some(m);
        }
        self.arrive(at, node, parcel)
    }

    /// The medium of a packet of data to a group that has arrived since this was asked last.
    pub fn take_to_group(&mut self) -> Option<usize> {
        self.to_group.take()
    }

    /// Until when the next component may run ahead: no other component has anything to do before.
    fn alone_until(&self, until: Instant) -> Instant {
        self.agenda.second().map_or(until, |second| second.offset_nanos(-1).min(until))
    }

    fn poll_host(&mut self, node: usize, now: Instant) -> Option<Arrival> {
        let done = self.hosts[node].poll(now);
        self.agenda.set(self.component_of[node], self.hosts[node].poll_timeout());
        match done? {
            (Job::Send, parcel) => {
                self.leave(now, node, parcel);
                None
            }
            (Job::Receive, parcel) => self.receive(now, node, parcel),
        }
    }

    /// A packet has reached a node, which receives or forwards it.
    fn arrive(&mut self, now: Instant, node: usize, parcel: Parcel) -> Option<Arrival> {
        if self.hosts[node].is_free {
            return self.receive(now, node, parcel);
        }
        let copies = self.flows[parcel.flow as usize].copies(node, &parcel, parcel.hop + 1);
        let host = &mut self.hosts[node];
        let onwards = if copies > 0 { host.sending(&parcel).saturating_mul(copies) } else { Duration::ZERO };
        let cost = host.receiving(&parcel) + onwards;
        self.work(now, node, Job::Receive, cost, parcel);
        None
    }

    fn work(&mut self, now: Instant, node: usize, job: Job, cost: Duration, parcel: Parcel) {
        if let Some(refused) = self.hosts[node].take(now, job, cost, parcel) {
            refused.discard(Discard::Overflowed);
        }
        self.agenda.set(self.component_of[node], self.hosts[node].poll_timeout());
    }

    #[inline]
    fn receive(&mut self, now: Instant, node: usize, mut parcel: Parcel) -> Option<Arrival> {
        let flow = &self.flows[parcel.flow as usize];
        if parcel.way == GROUP {
            // Stations that are not in the group receive a cell's packets, too.
            let receiver = flow.fork(node)?.receiver;
            if receiver.is_none() {
                self.leave(now, node, parcel);
                return None;
            }
            self.leave(now, node, parcel.duplicate());
            return Some(Arrival { at: now, receiver, parcel });
        }
        parcel.hop += 1;
        let way = &flow.ways[usize::from(parcel.way)];
        if usize::from(parcel.hop) < way.len() {
            self.leave(now, node, parcel);
            return None;
        }
        // Beyond the ways back are those to single members of a group.
        let alone = parcel.way.checked_sub(flow.receivers + 1).map(usize::from);
        let receiver = if parcel.way == 0 { Some(0) } else { alone };
        Some(Arrival { at: now, receiver, parcel })
    }

    /// Puts a packet on the next medium or media.
    #[inline]
    fn leave(&mut self, now: Instant, node: usize, parcel: Parcel) {
        let flow = parcel.flow as usize;
        if parcel.way != GROUP {
            let hop = self.flows[flow].ways[usize::from(parcel.way)][usize::from(parcel.hop)];
            let forward = parcel.way == 0 || parcel.way > self.flows[flow].receivers;
            let first = forward && parcel.hop == 0;
            self.offer(now, flow, hop, None, first, parcel);
            return;
        }
        let first = self.flows[flow].ways[0][0].node == node;
        let branches = self.flows[flow].fork(node).map_or(0, |fork| fork.out.len());
        for branch in 0..branches {
            let Some(out) = self.flows[flow].fork(node).map(|fork| &fork.out[branch]) else { return };
            let hop = Hop { node, medium: out.medium, own: out.own, next: GROUP };
            self.offer(now, flow, hop, Some(branch), first, parcel.duplicate());
        }
    }

    #[inline]
    fn offer(
        &mut self,
        now: Instant,
        flow: usize,
        hop: Hop,
        branch: Option<usize>,
        first: bool,
        parcel: Parcel,
    ) {
        let (medium, own) = (&self.media[hop.medium], usize::from(hop.own));
        let flow = &mut self.flows[flow];
        let bytes = u64::from(parcel.len);
        for tap in &mut self.taps {
            tap.on_packet(now, hop.medium, hop.node, Way::Outbound, flow, &parcel);
        }
        let exit = match branch.and_then(|branch| Some(&flow.fork(hop.node)?.out[branch])) {
            Some(branch) => Exit::Group(&branch.exits),
            None => Exit::One(hop.next),
        };
        let this = parcel.flow;
        let refused = medium.offer(&mut self.parts, now, own, exit, flow.treatment, parcel);
        if first && refused != Some(this) {
            flow.wire_bytes += bytes;
        }
        let part = medium.entrance(own);
        self.agenda.set(part, self.parts[part].poll_timeout());
    }

    /// Whether the sender of a flow could put a packet on its first medium now; `limit` is that of its queue if the
    /// medium does not tell.
    pub fn has_room(&mut self, now: Instant, flow: usize, len: usize, limit: usize) -> bool {
        let hop = self.flows[flow].ways[0][0];
        let treatment = self.flows[flow].treatment;
        let host = &self.hosts[hop.node];
        (host.is_free || host.is_idle())
            && self.media[hop.medium].has_room(
                &mut self.parts,
                now,
                usize::from(hop.own),
                len,
                treatment,
                limit,
            )
    }

    /// The way of a packet from the sender to one member of a group, the *n*-th from 1.
    pub fn way_to(&self, flow: u32, member: u32) -> Option<u16> {
        let flow = &self.flows[flow as usize];
        let known = (1..=u32::from(flow.receivers)).contains(&member);
        known.then(|| flow.receivers + member as u16)
    }

    /// When the sender of a flow has processed the packets that wait at its processor.
    pub fn host_free_at(&self, flow: usize) -> Instant {
        self.hosts[self.flows[flow].ways[0][0].node].sends_until()
    }

    /// Adds a capture.
    pub fn add_tap(&mut self, tap: Tap) {
        self.taps.push(tap);
    }

    /// Ends all captures.
    pub fn take_taps(&mut self) -> Vec<Tap> {
        std::mem::take(&mut self.taps)
    }

    /// Whether every packet in every medium is accounted for.
    pub fn balances(&self) -> bool {
        self.media.iter().all(|medium| medium.balances(&self.parts))
    }
}

impl Flow {
    fn fork(&self, node: usize) -> Option<&Fork> {
        let place = self.forks.binary_search_by_key(&node, |fork| fork.node).ok()?;
        Some(&self.forks[place])
    }

    /// How often a node sends a packet on, of whose path it is step `hop`.
    fn copies(&self, node: usize, parcel: &Parcel, hop: u16) -> u32 {
        match parcel.way {
            GROUP => self.fork(node).map_or(0, |fork| fork.out.len() as u32),
            way => u32::from(usize::from(hop) < self.ways[usize::from(way)].len()),
        }
    }

    /// The nodes that take multicast packets from a medium. A flow enters a medium at only one node, as there are no
    /// circles.
    fn exits(&self, medium: usize) -> &[u16] {
        let mut branches = self.forks.iter().flat_map(|fork| &fork.out);
        branches.find(|branch| branch.medium == medium).map_or(&[], |branch| &branch.exits)
    }
}
