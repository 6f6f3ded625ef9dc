//! Further associations of a stream: changes of its transport, and transports beside it.

use std::time::Duration;

use antiphon_session::Joining;

use super::build::Nodes;
use super::error::Read;
use super::read::{Section, Value};
use super::stream::transport;
use super::topology::Network;
use crate::setup::{FurtherSpec, NodeId};

/// What the tables of one stream have in common.
pub(super) struct Around<'a> {
    pub nodes: &'a Nodes,
    pub network: &'a Network<'a>,
    pub duration: Duration,
    pub latency: Duration,
    /// The stream's own sender and receiver.
    pub between: [NodeId; 2],
}

/// `[stream.NAME.also.NAME]` and `[stream.NAME.switch.NAME]`, in the order in which they begin.
pub(super) fn further(stream: &Section<'_>, around: &Around<'_>) -> Read<Vec<FurtherSpec>> {
    let mut all = Vec::new();
    for (kind, joining) in [("also", Joining::Beside), ("switch", Joining::Instead)] {
        let Some(tables) = stream.sub(kind)? else { continue };
        for (_, section) in tables.sections()? {
            all.push(one(&section, around, joining)?);
            section.finish()?;
        }
    }
    if all.len() > MOST {
        return Err(stream.fault(format!("a stream has at most {MOST} further transports")));
    }
    all.sort_by_key(|one| one.at);
    Ok(all)
}

fn one(section: &Section<'_>, around: &Around<'_>, joining: Joining) -> Read<FurtherSpec> {
    let node = |key: &'static str, own: NodeId| match section.table.entry(key) {
        Some(_) => around.nodes.one(section, key),
        None => section.find(key).map(|_| own),
    };
    let [from, to] = [node("from", around.between[0])?, node("to", around.between[1])?];
    if from == to {
        let name = around.nodes.name(from);
        return Err(
            section.fault(format!("[{}] goes from {name} to itself: name other nodes", section.place))
        );
    }
    let (transport, query) =
        transport(section, around.network.mtu(section, around.nodes, from, to)?, around.latency, false)?;
    let time = |value: &Value<'_>| value.duration(Duration::ZERO..=around.duration);
    let at = match joining {
        Joining::Instead => time(&section.need("at", "\"10s\"")?)?,
        Joining::Beside => section.or("at", Duration::ZERO, time)?,
    };
    Ok(FurtherSpec { transport: transport.scheme.into(), query, between: [from, to], at, joining })
}

/// More than a stream has use for; each costs a port at both ends.
const MOST: usize = 16;
