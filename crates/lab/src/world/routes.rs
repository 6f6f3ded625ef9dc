//! Connections between nodes, and the one path between any two.

use antiphon_core::wire::ETHERNET_MTU;

use super::error::WorldError;
use super::medium::nodes_of;
use crate::setup::{MediumKind, NodeId, Setup};

/// One step of a path: out of `node` by `medium`, on which it has index `own`, to the node at index `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    pub node: usize,
    pub medium: usize,
    pub own: u16,
    pub next: u16,
}

/// A path from one node to another; it has at least one hop.
pub type Way = Box<[Hop]>;

/// What a node does with a multicast packet.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The node.
    pub node: usize,
    /// The media on which it forwards it.
    pub out: Vec<Branch>,
    /// Its number as a receiver, if it is one.
    pub receiver: Option<usize>,
}

/// A medium by which a packet leaves, and the nodes that take it from there.
#[derive(Clone, Debug)]
pub struct Branch {
    pub medium: usize,
    pub own: u16,
    pub exits: Vec<u16>,
}

/// The connected nodes.
pub struct Map<'a> {
    setup: &'a Setup,
    /// For each node: its media, and its indices on them.
    places: Vec<Vec<(usize, u16)>>,
}

impl<'a> Map<'a> {
    /// Refuses unknown nodes, equal names and circles.
    pub fn new(setup: &'a Setup) -> Result<Self, WorldError> {
        if setup.nodes.len() > MOST_NODES {
            return Err(WorldError::quantity("the setup", "a world has 60000 nodes at most"));
        }
        unique("nodes", setup.nodes.iter().map(|node| node.name.as_str()))?;
        unique("media", setup.media.iter().map(|medium| medium.name.as_str()))?;
        let pictures = setup.streams.iter().filter_map(|stream| Some(&stream.pictures.as_ref()?.name));
        let flows = setup.streams.iter().map(|stream| &stream.name).chain(pictures);
        unique("streams or traffic", flows.chain(setup.traffic.iter().map(|t| &t.name)).map(String::as_str))?;
        Map::joining(setup, setup.media.len())
    }

    /// The nodes as the first `count` media connect them.
    pub fn joining(setup: &'a Setup, count: usize) -> Result<Self, WorldError> {
        let mut places: Vec<Vec<(usize, u16)>> = vec![Vec::new(); setup.nodes.len()];
        let mut joined = Joined::new(setup.nodes.len());
        for (m, medium) in setup.media[..count].iter().enumerate() {
            let nodes = nodes_of(&medium.kind);
            for (own, node) in nodes.iter().enumerate() {
                known(setup, &medium.name, *node)?;
                let name = || setup.nodes[node.0].name.clone();
                if places[node.0].last().is_some_and(|(last, _)| *last == m) {
                    return Err(WorldError::TwiceOnMedium { node: name(), medium: medium.name.clone() });
                }
                if own > 0 && !joined.join(nodes[0].0, node.0) {
                    return Err(WorldError::Circle { medium: medium.name.clone(), node: name() });
                }
                let own = u16::try_from(own).map_err(|_| {
                    WorldError::quantity(
                        &medium.name,
                        "more than 65535 nodes; spread them over several media",
                    )
                })?;
                places[node.0].push((m, own));
            }
        }
        Ok(Map { setup, places })
    }

    /// The path of `who` from a node to another.
    pub fn way(&self, who: &str, from: NodeId, to: NodeId) -> Result<Way, WorldError> {
        known(self.setup, who, from)?;
        known(self.setup, who, to)?;
        let name = |node: NodeId| self.setup.nodes[node.0].name.clone();
        if from == to {
            return Err(WorldError::ToItself { who: who.into(), node: name(from) });
        }
        let unreachable = || WorldError::Unreachable { who: who.into(), from: name(from), to: name(to) };
        self.path(from, to).ok_or_else(unreachable)
    }

    /// Whether no medium joins a node.
    pub fn is_alone(&self, node: NodeId) -> bool {
        self.places[node.0].is_empty()
    }

    /// The path from a node to another; `None` if there is none.
    pub fn path(&self, from: NodeId, to: NodeId) -> Option<Way> {
        // Breadth first from the end, so that every node reached knows its next step.
        let mut step: Vec<Option<Hop>> = vec![None; self.places.len()];
        let mut reached = vec![to.0];
        // Each medium once, or a star of a thousand nodes would be searched a thousand times.
        let mut seen = vec![false; self.setup.media.len()];
        let mut done = 0;
        while let Some(&node) = reached.get(done).filter(|_| step[from.0].is_none()) {
            done += 1;
            for &(medium, next) in &self.places[node] {
                if std::mem::replace(&mut seen[medium], true) {
                    continue;
                }
                for (own, other) in nodes_of(&self.setup.media[medium].kind).iter().enumerate() {
                    if other.0 != to.0 && step[other.0].is_none() {
                        step[other.0] = Some(Hop { node: other.0, medium, own: own as u16, next });
                        reached.push(other.0);
                    }
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = from.0;
        while at != to.0 {
            let hop = step[at]?;
            hops.push(hop);
            at = nodes_of(&self.setup.media[hop.medium].kind)[usize::from(hop.next)].0;
        }
        Some(hops.into())
    }

    /// What each node does with a packet from `from` to all of `to`, ordered by node.
    pub fn forks(&self, who: &str, from: NodeId, to: &[NodeId]) -> Result<Vec<Fork>, WorldError> {
        let mut forks: Vec<Fork> = Vec::new();
        for (receiver, member) in to.iter().enumerate() {
            for hop in &self.way(who, from, *member)? {
                self.hears(who, hop, to.len())?;
                let branches = &mut fork(&mut forks, hop.node).out;
                match branches.iter_mut().find(|branch| branch.medium == hop.medium) {
                    Some(branch) if branch.exits.contains(&hop.next) => {}
                    Some(branch) => branch.exits.push(hop.next),
                    None => branches.push(Branch { medium: hop.medium, own: hop.own, exits: vec![hop.next] }),
                }
            }
            fork(&mut forks, member.0).receiver = Some(receiver);
        }
        Ok(forks)
    }

    /// An access point forwards a station's multicast and receives none itself.
    fn hears(&self, who: &str, hop: &Hop, receivers: usize) -> Result<(), WorldError> {
        let MediumKind::Cell { spec, .. } = &self.setup.media[hop.medium].kind else { return Ok(()) };
        if spec.access_point.is_some_and(|id| id.0 == hop.next) {
            let what = "multicast from a station of a cell to or beyond its own access point";
            return Err(WorldError::NoGroup { stream: who.into(), receivers, what });
        }
        Ok(())
    }

    /// The largest IP packet that fits all media of a path.
    pub fn mtu(&self, way: &[Hop]) -> usize {
        way.iter()
            .map(|hop| super::medium::mtu(&self.setup.media[hop.medium].kind))
            .min()
            .unwrap_or(ETHERNET_MTU)
    }

    /// The largest IP packet that fits all media of all paths of a flow.
    pub fn mtu_of(&self, ways: &[Way]) -> usize {
        ways.iter().map(|way| self.mtu(way)).min().unwrap_or(ETHERNET_MTU)
    }
}

fn fork(forks: &mut Vec<Fork>, node: usize) -> &mut Fork {
    let place = forks.binary_search_by_key(&node, |fork| fork.node).unwrap_or_else(|place| {
        forks.insert(place, Fork { node, out: Vec::new(), receiver: None });
        place
    });
    &mut forks[place]
}

fn known(setup: &Setup, who: &str, node: NodeId) -> Result<(), WorldError> {
    if node.0 < setup.nodes.len() {
        return Ok(());
    }
    Err(WorldError::NoSuchNode { who: who.into(), node: node.0, count: setup.nodes.len() })
}

fn unique<'n>(what: &'static str, names: impl Iterator<Item = &'n str>) -> Result<(), WorldError> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(WorldError::Duplicate { what, name: pair[0].into() }),
        None => Ok(()),
    }
}

/// Indices on media and steps of paths are counted in 16 bits.
const MOST_NODES: usize = 60_000;

/// Sets of connected nodes (union-find with path halving).
struct Joined(Vec<usize>);

impl Joined {
    fn new(count: usize) -> Self {
        Joined((0..count).collect())
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    /// Joins two sets; returns whether they were different.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[b] = a;
        a != b
    }
}
