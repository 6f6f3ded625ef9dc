//! Checks that the media connect all nodes, and in only one way.

use std::collections::VecDeque;
use std::ops::Range;

use antiphon_link::{FDDI_MAX_FRAME, FDDI_OVERHEAD};

use super::build::Nodes;
use super::error::{Fault, Read};
use super::read::Section;
use crate::setup::{MediumKind, NodeId, Setup};

/// Media and nodes as a tree.
pub(super) struct Network {
    /// For each medium its nodes and its longest IP packet.
    media: Vec<(Vec<NodeId>, usize)>,
    nodes: usize,
}

/// RFC 894; 802.11 carries what Ethernet does.
const ETHERNET_MTU: usize = 1500;

impl MediumKind {
    /// The nodes that it joins.
    fn members(&self) -> Vec<NodeId> {
        match self {
            MediumKind::Link { between, .. }
            | MediumKind::Alternating { between, .. }
            | MediumKind::Replay { between, .. }
            | MediumKind::Cable { between, .. } => between.to_vec(),
            MediumKind::Switch { nodes, .. }
            | MediumKind::Cell { nodes, .. }
            | MediumKind::Ring { nodes, .. } => nodes.clone(),
        }
    }

    fn mtu(&self) -> usize {
        match self {
            MediumKind::Ring { .. } => FDDI_MAX_FRAME - FDDI_OVERHEAD,
            _ => ETHERNET_MTU,
        }
    }
}

/// Refuses circles and nodes that nothing joins, and which thus reach nobody; `places` has each medium's place in the text.
pub(super) fn check(setup: &Setup, places: &[(Range<usize>, String)], nodes: &Nodes) -> Read<Network> {
    let mut network = Network { media: Vec::new(), nodes: setup.nodes.len() };
    for (medium, (span, place)) in setup.media.iter().zip(places) {
        let members = medium.kind.members();
        for (n, a) in members.iter().enumerate() {
            let Some((b, way)) = members[..n].iter().find_map(|b| Some((b, network.way(*a, *b)?))) else {
                continue;
            };
            let way: Vec<String> = way.iter().map(|medium| format!("[{}]", places[*medium].1)).collect();
            let (a, b) = (nodes.name(*b), nodes.name(*a));
            return Err(Fault::new(
                span,
                format!(
                    "[{place}] makes a loop: {a} and {b} are already connected by {}, and only one route between \
                     two nodes is allowed; remove one of them",
                    way.join(" and ")
                ),
            ));
        }
        network.media.push((members, medium.kind.mtu()));
    }
    let joined = |node: NodeId| network.media.iter().any(|(members, _)| members.contains(&node));
    if let Some(alone) = (1..setup.nodes.len()).map(NodeId).find(|node| !joined(*node)) {
        return Err(Fault::new(nodes.place(alone), no_route(nodes, NodeId(0), alone)));
    }
    Ok(network)
}

fn no_route(nodes: &Nodes, from: NodeId, to: NodeId) -> String {
    let (a, b) = (nodes.name(from), nodes.name(to));
    format!(
        "no route from {a} to {b}: connect them, for example with [link.NAME] between = [\"{a}\", \"{b}\"]"
    )
}

impl Network {
    /// The media on the path from one node to another.
    fn way(&self, from: NodeId, to: NodeId) -> Option<Vec<usize>> {
        let mut reached: Vec<Option<(usize, usize)>> = vec![None; self.nodes];
        let mut tried = vec![false; self.media.len()];
        let mut next = VecDeque::from([from.0]);
        while let Some(here) = next.pop_front() {
            if here == to.0 {
                break;
            }
            for (medium, (members, _)) in self.media.iter().enumerate() {
                if tried[medium] || !members.contains(&NodeId(here)) {
                    continue;
                }
                tried[medium] = true;
                for member in members {
                    if member.0 != from.0 && reached[member.0].is_none() {
                        reached[member.0] = Some((medium, here));
                        next.push_back(member.0);
                    }
                }
            }
        }
        let (mut way, mut here) = (Vec::new(), to.0);
        while here != from.0 {
            let (medium, before) = reached[here]?;
            way.push(medium);
            here = before;
        }
        way.reverse();
        Some(way)
    }

    /// The longest IP packet that fits the path between two nodes, for `section`; refuses nodes that no path joins.
    pub(super) fn mtu(&self, section: &Section<'_>, nodes: &Nodes, from: NodeId, to: NodeId) -> Read<usize> {
        let way = self.way(from, to).ok_or_else(|| section.fault(no_route(nodes, from, to)))?;
        Ok(way.iter().map(|medium| self.media[*medium].1).min().unwrap_or(ETHERNET_MTU))
    }
}
