//! Checks that the media connect all nodes, and in only one way.

use std::ops::Range;

use super::build::Nodes;
use super::error::{Fault, Read};
use super::read::Section;
use crate::setup::{NodeId, Setup};
use crate::world::WorldError;
use crate::world::medium::nodes_of;
use crate::world::routes::Map;

/// Where a medium is in the text, and its name there.
pub(super) type Place = (Range<usize>, String);

/// The paths between the nodes.
pub(super) struct Network<'a>(Map<'a>);

/// Refuses circles and nodes that nothing joins, and which thus reach nobody; `places` has each medium's place in the text.
pub(super) fn check<'a>(setup: &'a Setup, places: &[Place], nodes: &Nodes) -> Read<Network<'a>> {
    let map = Map::new(setup).map_err(|error| {
        let closing = if let WorldError::Circle { medium, .. } = &error { Some(medium) } else { None };
        let circle = closing.and_then(|closing| circle(setup, closing, places, nodes));
        // Anything else was checked as it was read.
        circle.unwrap_or_else(|| Fault::new(&(0..0), error.to_string()))
    })?;
    if let Some(alone) = (1..setup.nodes.len()).map(NodeId).find(|node| map.is_alone(*node)) {
        return Err(Fault::new(nodes.place(alone), no_route(nodes, NodeId(0), alone)));
    }
    Ok(Network(map))
}

/// The error for the medium that closes a circle: which of its nodes were connected before, and by which media.
fn circle(setup: &Setup, closing: &str, places: &[Place], nodes: &Nodes) -> Option<Fault> {
    let closing = setup.media.iter().position(|medium| medium.name == closing)?;
    let before = Map::joining(setup, closing).ok()?;
    let members = nodes_of(&setup.media[closing].kind);
    let (a, b, way) = members.iter().enumerate().find_map(|(n, b)| {
        members[..n].iter().find_map(|a| Some((nodes.name(*a), nodes.name(*b), before.path(*b, *a)?)))
    })?;
    let way: Vec<String> = way.iter().map(|hop| format!("[{}]", places[hop.medium].1)).collect();
    let (span, place) = &places[closing];
    let message = format!(
        "[{place}] makes a loop: {a} and {b} are already connected by {}, and only one route between two nodes is \
         allowed; remove one of them",
        way.join(" and ")
    );
    Some(Fault::new(span, message))
}

fn no_route(nodes: &Nodes, from: NodeId, to: NodeId) -> String {
    let (a, b) = (nodes.name(from), nodes.name(to));
    format!(
        "no route from {a} to {b}: connect them, for example with [link.NAME] between = [\"{a}\", \"{b}\"]"
    )
}

impl Network<'_> {
    /// The longest IP packet that fits the path between two nodes, for `section`; refuses nodes that no path joins.
    pub(super) fn mtu(&self, section: &Section<'_>, nodes: &Nodes, from: NodeId, to: NodeId) -> Read<usize> {
        let way = self.0.path(from, to).ok_or_else(|| section.fault(no_route(nodes, from, to)))?;
        Ok(self.0.mtu(&way))
    }
}
