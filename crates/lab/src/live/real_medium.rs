//! A setup's media on a real machine.

use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_link::{DuplexSpec, LinkSpec, QueueLimit};

use super::LiveError;
use crate::setup::{Headers, HostCost, MediumKind, MediumSpec, NodeId, Setup, TrafficKind};
use crate::world::medium::nodes_of;
use crate::world::routes::Map;
use crate::world::{World, WorldError};

/// What packets cross on a real machine.
#[derive(Clone, PartialEq, Debug)]
pub struct RealMedium {
    /// What is between the two sides.
    pub wire: Wire,
    /// For each node, whether it is on the side where *up* begins. All nodes, if there is no link.
    pub near: Vec<bool>,
    /// Differences from the model, in words.
    pub notes: Vec<String>,
}

/// What is between the two sides.
#[derive(Clone, PartialEq, Debug)]
pub enum Wire {
    /// Nothing: this machine's loopback.
    Loopback,
    /// A link for an emulator.
    Link {
        /// The medium's name.
        name: String,
        /// The link's parameters, both ways.
        spec: Box<DuplexSpec>,
        /// A second link after it, on the far side: a switch's other port.
        behind: Option<Box<DuplexSpec>>,
        /// Bytes of overhead of each packet.
        overhead: usize,
        /// Seed of everything random in it: with the same one the world's link does the same at the same time.
        seed: u64,
    },
}

impl RealMedium {
    /// Finds the link of a setup; refuses what a machine cannot provide. `seed` is the run's.
    pub fn of(setup: &Setup, seed: u64) -> Result<Self, LiveError> {
        // A setup that is invalid in the world is invalid here.
        World::new(setup, seed)?;
        for medium in &setup.media {
            only_modelled(medium)?;
        }
        if let Some(stream) = setup.streams.iter().find(|stream| stream.to.len() > 1) {
            return Err(refusal(&stream.name, "a stream to a group"));
        }
        if let Some(stream) = setup.streams.iter().find(|stream| !stream.further.is_empty()) {
            return Err(refusal(&stream.name, "a stream over several transports"));
        }
        let mut notes = host_notes(setup);
        let links: Vec<&MediumSpec> = setup.media.iter().filter(|medium| is_link(&medium.kind)).collect();
        if let [_, second, ..] = links[..] {
            return Err(refusal(&second.name, "a second link"));
        }
        // Without a link, a single cable takes its place.
        let cables = || setup.media.iter().filter(|medium| is_ethernet(&medium.kind));
        let alone = cables().next().filter(|_| links.is_empty() && cables().count() == 1);
        let chosen = links.first().copied().or(alone);
        let others = cables().filter(|medium| chosen.is_none_or(|chosen| chosen.name != medium.name));
        notes.extend(others.map(|medium| {
            format!("'{}' is this machine's own memory: no Ethernet delays there, and no queue", medium.name)
        }));
        let Some(medium) = chosen else {
            return Ok(RealMedium { wire: Wire::Loopback, near: vec![true; setup.nodes.len()], notes });
        };
        let ends = nodes_of(&medium.kind);
        let (spec, behind, overhead) = spec_of(medium)?;
        let (spec, behind) = (Box::new(spec), behind.map(Box::new));
        let seed = setup.seed_of_medium(&medium.name, seed);
        let near = side_of(setup, &medium.name, ends[0])?;
        Ok(RealMedium {
            wire: Wire::Link { name: medium.name.clone(), spec, behind, overhead, seed },
            near,
            notes,
        })
    }
}

fn refusal(who: &str, what: &'static str) -> LiveError {
    LiveError::OnlyModelled { who: who.into(), what }
}

fn only_modelled(medium: &MediumSpec) -> Result<(), LiveError> {
    let what = match &medium.kind {
        MediumKind::Cell { .. } => "an 802.11 cell",
        MediumKind::Ring { .. } => "an FDDI ring",
        MediumKind::Replay { .. } => "a recorded path",
        MediumKind::Alternating { .. } => "a link that changes",
        MediumKind::Link { .. } | MediumKind::Cable { .. } | MediumKind::Switch { .. } => return Ok(()),
    };
    Err(refusal(&medium.name, what))
}

/// A link without effect is none: packets then stay on loopback.
fn is_link(kind: &MediumKind) -> bool {
    matches!(kind, MediumKind::Link { spec, .. } if **spec != DuplexSpec::default())
}

fn is_ethernet(kind: &MediumKind) -> bool {
    matches!(kind, MediumKind::Cable { .. } | MediumKind::Switch { .. })
}

/// The link, a second one, and the overhead of each packet.
type Links = (DuplexSpec, Option<DuplexSpec>, usize);

fn spec_of(medium: &MediumSpec) -> Result<Links, LiveError> {
    let port = |rate: BitRate, queue: QueueLimit, delay: Duration| LinkSpec {
        rate: Some(rate),
        queue,
        delay,
        ..LinkSpec::default()
    };
    let both = |way: LinkSpec| DuplexSpec { up: way, down: way };
    match &medium.kind {
        MediumKind::Link { spec, .. } => Ok((**spec, None, 0)),
        MediumKind::Cable { rate, queue, .. } => {
            Ok((both(port(*rate, *queue, Duration::ZERO)), None, ETHERNET_OVERHEAD))
        }
        // Between two nodes a switch is two ports in a row each way; what it takes to send a frame on is the second's.
        MediumKind::Switch { nodes, rate, queue, latency } if nodes.len() == 2 => {
            let (own, out) = (port(*rate, *queue, Duration::ZERO), port(*rate, *queue, *latency));
            let behind = DuplexSpec { up: out, down: own };
            Ok((DuplexSpec { up: own, down: out }, Some(behind), ETHERNET_OVERHEAD))
        }
        _ => Err(refusal(&medium.name, "a switch of more than two nodes with nothing slower behind it")),
    }
}

/// Preamble, header, check sequence and gap (IEEE 802.3 §3.1.1, §4.4.2). Packets of less than 46 bytes, which would be
/// filled up, are sent as they are.
const ETHERNET_OVERHEAD: usize = 8 + 14 + 4 + 12;

/// The machine's own processing replaces host costs; traffic that depends on the state of a queue cannot see the
/// emulator's.
fn host_notes(setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    if setup.nodes.iter().any(|node| node.cost != HostCost::default()) {
        notes.push("processor times are those of this machine, not of the scenario".into());
    }
    if setup.nodes.iter().any(|node| node.priorities) {
        notes.push("nodes send in the order of arrival: 'priorities' counts in the model alone".into());
    }
    if setup.traffic.iter().any(|traffic| matches!(traffic.kind, TrafficKind::Blaster { .. })) {
        notes.push(
            "blasters send at the rate of their first medium, since an emulator's queue is not visible"
                .into(),
        );
    }
    if setup.traffic.iter().any(|traffic| matches!(traffic.kind, TrafficKind::Ping { .. })) {
        notes.push("pings are UDP datagrams of the same size, returned by a thread".into());
    }
    if setup.traffic.iter().any(|traffic| !traffic.held_up.is_zero()) {
        notes.push("nothing holds traffic up: 'held-up' counts in the model alone".into());
    }
    if setup.streams.iter().any(|stream| stream.headers != Headers::AsSent) {
        notes.push(
            "packets have the headers that they are sent with: 'headers' counts in the model alone".into(),
        );
    }
    notes
}

/// Which nodes are connected to `start` without the medium `without`.
fn side_of(setup: &Setup, without: &str, start: NodeId) -> Result<Vec<bool>, WorldError> {
    let others = setup.media.iter().filter(|medium| medium.name != without).cloned();
    let setup = Setup { media: others.collect(), ..setup.clone() };
    let map = Map::new(&setup)?;
    Ok((0..setup.nodes.len()).map(|node| map.path(start, NodeId(node)).is_some()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn medium_of(media: &str) -> Result<RealMedium, LiveError> {
        let text = format!(
            "title='x'\nduration='1s'\nnode.a={{}}\nnode.b={{}}\nnode.c={{}}\n{media}\n\
             [traffic.p]\nkind='ping'\nfrom='a'\nto='c'\ninterval='1s'\ncount=1"
        );
        let scenario = Scenario::parse("x", &text).unwrap();
        RealMedium::of(&scenario.setup(&[]).unwrap(), 7)
    }

    #[test]
    fn nodes_are_on_the_side_that_the_link_leaves_them() {
        let lan = "switch.lan={nodes=['a','b'],rate='100Mbit/s'}\n";
        let found = medium_of(&format!("{lan}link.line={{between=['c','b'],delay='5ms'}}")).unwrap();
        assert_eq!(found.near, [false, false, true]);
        let Wire::Link { name, spec, seed, .. } = found.wire else { panic!("{:?}", found.wire) };
        assert_eq!((name.as_str(), spec.up.delay.as_millis()), ("line", 5));
        // Forked as in `Medium::new`, so that the link does at each time what it does there.
        assert_eq!(seed, antiphon_core::Rng::fork(7, "medium line").next_u64());
        assert!(found.notes.iter().any(|note| note.contains("'lan'")), "{:?}", found.notes);
    }

    #[test]
    fn what_a_machine_does_otherwise_is_noted() {
        let voice = "[stream.voice]\ntransport='xtp'\nfrom='a'\nto='b'\nframe='64B'\ninterval='8ms'\n";
        let notes = |more: &str| {
            let media = format!(
                "link.x={{between=['a','b'],link='ideal'}}\nlink.y={{between=['b','c'],link='ideal'}}\n{voice}{more}"
            );
            medium_of(&media).unwrap().notes
        };
        let (plain, with) = (notes(""), notes("headers='xtp-3.6'"));
        let further: Vec<_> = with.iter().filter(|note| !plain.contains(note)).collect();
        assert!(further.len() == 1 && further[0].contains("'headers'"), "{with:?}");
        let text = "title='x'\nduration='1s'\n[node.a]\n[node.b]\npriorities=true\n[link.x]\nbetween=['a','b']\nlink='ideal'\n\
                    [traffic.p]\nkind='ping'\nfrom='a'\nto='b'\ninterval='1s'\ncount=1";
        let sorted = host_notes(&Scenario::parse("x", text).unwrap().setup(&[]).unwrap());
        assert!(sorted.iter().any(|note| note.contains("'priorities'")), "{sorted:?}");
    }

    #[test]
    fn links_that_do_nothing_are_loopback_and_a_cable_alone_is_a_link() {
        let two = |kind: &str, more: &str| {
            medium_of(&format!(
                "link.x={{between=['a','b'],link='ideal'}}\n{kind}.y={{between=['b','c']{more}}}"
            ))
        };
        assert_eq!(two("link", ",link='ideal'").unwrap().wire, Wire::Loopback);
        let Wire::Link { spec, .. } = two("cable", ",rate='10Mbit/s'").unwrap().wire else { panic!() };
        assert_eq!(spec.up.rate.map(|rate| rate.0), Some(10_000_000));
        let lan = "link.x={between=['a','b'],link='ideal'}\nswitch.y={nodes=['b','c'],latency='2us'}";
        let Wire::Link { spec, behind, overhead, .. } = medium_of(lan).unwrap().wire else { panic!() };
        let behind = behind.unwrap();
        assert_eq!(
            (spec.up.delay, behind.up.delay, overhead),
            (Duration::ZERO, Duration::from_micros(2), 38)
        );
        assert_eq!((spec.down.delay, behind.down.delay), (Duration::from_micros(2), Duration::ZERO));
        let three = medium_of("switch.y={nodes=['a','b','c']}").unwrap_err().to_string();
        assert!(three.contains("'y' is a switch of more than two nodes"), "{three}");
        let refused = |result: Result<RealMedium, LiveError>| result.unwrap_err().to_string();
        let both = "link.x={between=['a','b'],delay='1ms'}\nlink.y={between=['b','c'],delay='1ms'}";
        assert!(refused(medium_of(both)).contains("'y' is a second link"));
        let cell = "cell.w={access-point='b',stations=['a','c']}";
        let told = refused(medium_of(cell));
        assert!(told.contains("'w' is an 802.11 cell: that exists as a model only"), "{told}");
        let ring = "ring.r={stations=['a','b','c'],ttrt='8ms'}";
        assert!(refused(medium_of(ring)).contains("FDDI"));
    }
}
