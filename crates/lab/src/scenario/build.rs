//! From the tree to a setup: the head, the nodes, and all elements in the order in which they were written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::units::parse_duration;

use super::cell::packets;
use super::error::{Fault, Read, clip, did_you_mean};
use super::passport::Recordings;
use super::read::{Context, Section, Value, is_name};
use super::topology::Place;
use super::tree::{Kind, Table};
use super::{Note, cell, load, media, pictures, ring, stream, topology};
use crate::setup::{HOST_QUEUE, HostCost, MediumSpec, NodeId, NodeSpec, Setup, TrafficKind};

/// Names of the written elements, with their kinds.
type Names<'a> = BTreeMap<&'a str, &'a str>;
/// The tables of the kinds that the scenario has.
type Kinds<'a> = BTreeMap<&'static str, Option<Section<'a>>>;

/// The part of a scenario before its elements.
pub(super) struct Head {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) seed: u64,
    pub(super) repetitions: u32,
    pub(super) measured: bool,
}

/// A setup, with the notes and variables found while building it.
pub(super) struct Built {
    pub(super) setup: Setup,
    pub(super) notes: Vec<Note>,
    pub(super) used: BTreeSet<String>,
}

/// What is named after a kind: `[link.dsl]`.
const KINDS: [&str; 8] = ["node", "link", "cable", "switch", "cell", "ring", "traffic", "stream"];

/// More elements than any study has, and few enough to build a setup quickly.
const MAX_ELEMENTS: usize = 4096;

/// As many receivers as a group can have: more would not all have repairs.
const MAX_COPIES: u64 = antiphon_proto::MOST_MEMBERS as u64;

/// Enough for what waits in the queues of the papers' networks to arrive.
const DRAIN: Duration = Duration::from_secs(5);
/// A day of virtual time takes a minute of computing or more.
const DURATIONS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);
const DRAINS: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);

/// Reads the head, and refuses keys that contradict each other.
pub(super) fn head(tree: &Table) -> Read<Head> {
    let none = Recordings::default();
    let context = Context::new(&[], &none);
    let top = Section::new(&context, tree, "", &(0..0));
    let title = match top.find("title")? {
        Some(title) => title.text("\"Audio over a DSL line\"")?.to_string(),
        None => {
            let message = "the scenario has no title: write title = \"…\" in its first line";
            return Err(top.missing("title", message));
        }
    };
    let source = top.or("source", String::new(), |source| {
        Ok(source.text("\"where the numbers come from\"")?.to_string())
    })?;
    let seed = top.or("seed", 1, |seed| seed.whole(0..=u64::MAX))?;
    let repetitions = top.or("repetitions", 1, |count| count.whole32(1..=100_000))?;
    let measured = top.or("measured", false, Value::truth)?;
    Ok(Head { title, source, seed, repetitions, measured })
}

/// Builds the setup of one point.
pub(super) fn setup(tree: &Table, point: &[(String, String)], recordings: &Recordings) -> Read<Built> {
    let context = Context::new(point, recordings);
    let setup = {
        let top = Section::new(&context, tree, "", &(0..0));
        for key in ["title", "source", "seed", "measured", "include", "omit"] {
            top.find(key)?;
        }
        // It says what the point is compared with, and decides nothing.
        if let Some(row) = top.find("row")? {
            row.text("\"$disturbance\"")?;
        }
        top.or("repetitions", 1, |count| count.whole32(1..=100_000))?;
        elements(&top)?
    };
    let (notes, used) = context.learnt();
    Ok(Built { setup, notes, used })
}

fn elements(top: &Section<'_>) -> Read<Setup> {
    let duration = top
        .find("duration")?
        .ok_or_else(|| top.missing("duration", "the scenario has no duration: write duration = \"60s\""))?
        .duration(DURATIONS)?;
    let drain = top.or("drain", DRAIN, |drain| drain.duration(DRAINS))?;
    let ends_with_streams = top.or("ends-with-streams", false, Value::truth)?;
    let mut kinds = Kinds::new();
    for kind in KINDS {
        kinds.insert(kind, top.sub(kind)?);
    }
    top.sub("sweep")?;
    top.finish()?;
    let names = unique_names(top.table)?;
    let nodes = Nodes::read(kinds["node"].as_ref(), top, &names)?;
    let (media, places) = media(top, &kinds, &nodes, &names)?;
    let (mut traffic, mut streams) = (Vec::new(), Vec::new());
    let specs = nodes.specs.to_vec();
    let setup = Setup {
        duration,
        drain,
        ends_with_streams,
        media_seed: None,
        nodes: specs,
        media,
        traffic: Vec::new(),
        streams: Vec::new(),
    };
    let network = topology::check(&setup, &places, &nodes)?;
    for (name, section) in sections(&kinds, "traffic")? {
        traffic.extend(load::traffic(name, &section, &nodes, &network, duration)?);
        section.finish()?;
    }
    for (name, section) in sections(&kinds, "stream")? {
        let copies = copies(name, &section, &nodes, &names)?;
        if streams.len() + copies.len() > MAX_ELEMENTS {
            return Err(section.fault(format!("a scenario has at most {MAX_ELEMENTS} streams")));
        }
        top.context.each(copies, |(name, nodes)| {
            streams.push(stream::stream(&name, &section, &nodes, &network, duration)?);
            Ok(())
        })?;
        section.finish()?;
    }
    pictures::unique(top, &streams)?;
    stream::beside(top, &streams)?;
    let pings = traffic.iter().any(|t| matches!(t.kind, TrafficKind::Ping { .. }));
    if pings && ends_with_streams {
        return Err(
            top.fault("pings are measured for the whole duration: remove ends-with-streams, or the pings")
        );
    }
    if streams.is_empty() && !pings {
        let remedy = "nothing is measured: write a [stream.NAME], or a [traffic.NAME] of kind = \"ping\"";
        return Err(top.missing("stream", remedy));
    }
    Ok(Setup { traffic, streams, ..setup })
}

/// The streams, or media, that a table describes, each with the nodes as it sees them: one, or one `for-each` copy of a node.
fn copies(name: &str, section: &Section<'_>, nodes: &Nodes, names: &Names<'_>) -> Read<Vec<(String, Nodes)>> {
    let Some(value) = section.find("for-each")? else { return Ok(vec![(name.into(), nodes.clone())]) };
    let node = value.text("\"NODE\"")?;
    let all = nodes.named(node, value.span())?;
    let copy = |(n, id): (usize, usize)| {
        let name = copy_name(name, n, names, value.span())?;
        Ok((name, Nodes { narrowed: Some((node.into(), NodeId(id))), ..nodes.clone() }))
    };
    all.enumerate().map(copy).collect()
}

/// The name of a copy, from 0; an element may not have it.
fn copy_name(name: &str, n: usize, names: &Names<'_>, span: &Range<usize>) -> Read<String> {
    let copy = format!("{name}-{}", n + 1);
    match names.get(copy.as_str()) {
        Some(kind) => {
            Err(Fault::new(span, format!("[{kind}.{copy}] has the name of a copy: choose another")))
        }
        None => Ok(copy),
    }
}

/// The elements of one kind.
fn sections<'a>(kinds: &Kinds<'a>, kind: &str) -> Read<Vec<(&'a str, Section<'a>)>> {
    kinds[kind].as_ref().map_or(Ok(Vec::new()), Section::sections)
}

/// All media, and where each is in the text with its name there.
fn media(
    top: &Section<'_>,
    kinds: &Kinds<'_>,
    nodes: &Nodes,
    names: &Names<'_>,
) -> Read<(Vec<MediumSpec>, Vec<Place>)> {
    let (mut specs, mut places) = (Vec::new(), Vec::new());
    for (kind, name, section) in in_order(kinds)? {
        let copies = copies(name, &section, nodes, names)?;
        top.context.each(copies, |(name, nodes)| {
            let medium = match kind {
                "link" => media::link(&section, &nodes)?,
                "cable" => media::cable(&section, &nodes)?,
                "switch" => media::switch(&section, &nodes)?,
                "cell" => cell::cell(&section, &nodes)?,
                _ => ring::ring(&section, &nodes)?,
            };
            places.push((section.span.clone(), section.place.clone()));
            specs.push(MediumSpec::new(name, medium));
            Ok(())
        })?;
        section.finish()?;
    }
    Ok((specs, places))
}

/// The media of all kinds in their order in the text, so that the last one is reported as the one that closes a circle.
fn in_order<'a>(kinds: &Kinds<'a>) -> Read<Vec<(&'static str, &'a str, Section<'a>)>> {
    let mut media = Vec::new();
    for kind in ["link", "cable", "switch", "cell", "ring"] {
        media.extend(sections(kinds, kind)?.into_iter().map(|(name, section)| (kind, name, section)));
    }
    media.sort_by_key(|(_, _, section)| section.span.start);
    Ok(media)
}

/// Refuses two elements of one name, of whatever kinds, and invalid names.
fn unique_names(tree: &Table) -> Read<Names<'_>> {
    let mut seen = Names::new();
    for kind in KINDS {
        let Some(Kind::Table(table)) = tree.entry(kind).map(|entry| &entry.node.kind) else { continue };
        for entry in &table.entries {
            if !is_name(&entry.key) {
                let name = clip(&entry.key);
                let message =
                    format!("'{name}' is not a name: a letter, then letters, digits, '-' or '_', at most 40");
                return Err(Fault::new(&entry.key_span, message));
            }
            if let Some(other) = seen.insert(&entry.key, kind) {
                let name = &entry.key;
                let message = format!("the name '{name}' is used by [{other}.{name}]: choose another");
                return Err(Fault::new(&entry.key_span, message));
            }
        }
    }
    if seen.len() > MAX_ELEMENTS {
        return Err(Fault::new(&(0..0), format!("{} elements: at most {MAX_ELEMENTS}", seen.len())));
    }
    Ok(seen)
}

/// The nodes by name.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) specs: Rc<[NodeSpec]>,
    places: Rc<[Range<usize>]>,
    /// Those that were written as one, by their common name.
    copied: Rc<[(String, Range<usize>)]>,
    /// Of these only one is meant here.
    narrowed: Option<(String, NodeId)>,
}

impl Nodes {
    fn read(section: Option<&Section<'_>>, top: &Section<'_>, names: &Names<'_>) -> Read<Nodes> {
        let missing = || {
            top.missing(
                "node",
                "there are no nodes: write [node.NAME] for each station, router and access point",
            )
        };
        let section = section.ok_or_else(missing)?;
        let (mut specs, mut places, mut copied) = (Vec::new(), Vec::new(), Vec::new());
        for (name, section) in section.sections()? {
            let cost = HostCost {
                send_packet: cost(&section, "send-packet")?,
                send_byte_s: cost_s(&section, "send-byte")?,
                receive_packet: cost(&section, "receive-packet")?,
                receive_byte_s: cost_s(&section, "receive-byte")?,
                send_control: control(&section, "send-control")?,
                receive_control: control(&section, "receive-control")?,
                apart: section.or("processors", false, |value| Ok(value.whole(1..=2)? == 2))?,
                wake: cost(&section, "wake")?,
            };
            let node = NodeSpec {
                cost,
                queue: section.or("queue", HOST_QUEUE, packets)?,
                priorities: section.or("priorities", false, Value::truth)?,
                ..NodeSpec::new(name)
            };
            let copies = section.or("copies", None, |value| value.whole(1..=MAX_COPIES).map(Some))?;
            section.finish()?;
            let first = specs.len();
            match copies {
                None => specs.push(node),
                Some(count) => {
                    for n in 0..count as usize {
                        let name = copy_name(name, n, names, &section.span)?;
                        specs.push(NodeSpec { name, ..node.clone() });
                    }
                    copied.push((name.to_string(), first..specs.len()));
                }
            }
            places.resize(specs.len(), section.span.clone());
            if specs.len() > MAX_ELEMENTS {
                return Err(section.fault(format!("a scenario has at most {MAX_ELEMENTS} nodes")));
            }
        }
        if specs.is_empty() {
            return Err(missing());
        }
        Ok(Nodes { specs: specs.into(), places: places.into(), copied: copied.into(), narrowed: None })
    }

    /// The node of that name.
    pub(super) fn find(&self, name: &str, span: &Range<usize>) -> Read<NodeId> {
        let named = self.named(name, span)?;
        match named.len() {
            1 => Ok(NodeId(named.start)),
            count => {
                let message = format!(
                    "'{name}' is {count} nodes: write one of them, such as \"{name}-1\"; a stream to each has for-each = \"{name}\""
                );
                Err(Fault::new(span, message))
            }
        }
    }

    /// The node of that name, or all its copies.
    pub(super) fn named(&self, name: &str, span: &Range<usize>) -> Read<Range<usize>> {
        if let Some((_, NodeId(id))) = self.narrowed.as_ref().filter(|(known, _)| known == name) {
            return Ok(*id..*id + 1);
        }
        if let Some((_, all)) = self.copied.iter().find(|(known, _)| known == name) {
            return Ok(all.clone());
        }
        let names = || self.specs.iter().map(|node| node.name.as_str());
        names().position(|known| known == name).map(|id| id..id + 1).ok_or_else(|| {
            let near = did_you_mean(name, names());
            let known: Vec<&str> = names().take(12).collect();
            let more = if self.specs.len() > known.len() { ", …" } else { "" };
            let name = clip(name);
            let message = format!("unknown node '{name}'{near} nodes: {}{more}", known.join(", "));
            Fault::new(span, message)
        })
    }

    /// The node that `key` names.
    pub(super) fn one(&self, section: &Section<'_>, key: &'static str) -> Read<NodeId> {
        let value = section.need(key, "\"NODE\"")?;
        self.find(value.text("\"NODE\"")?, value.span())
    }

    /// The nodes that `key` names, each once.
    pub(super) fn several(&self, section: &Section<'_>, key: &'static str) -> Read<Vec<NodeId>> {
        let example = "[\"NODE\", \"NODE\"]";
        let value = section.need(key, example)?;
        let mut found = Vec::new();
        for (name, span) in value.texts(example)? {
            for node in self.named(&name, &span)?.map(NodeId) {
                if found.contains(&node) {
                    return Err(Fault::new(&span, format!("'{}' is listed twice", clip(&name))));
                }
                found.push(node);
            }
        }
        Ok(found)
    }

    /// Two nodes.
    pub(super) fn ends(&self, section: &Section<'_>) -> Read<[NodeId; 2]> {
        let ends = self.several(section, "between")?;
        <[NodeId; 2]>::try_from(ends).map_err(|ends| {
            let count = ends.len();
            section
                .fault(format!("[{}] joins two nodes, not {count}: between = [\"a\", \"b\"]", section.place))
        })
    }

    pub(super) fn place(&self, node: NodeId) -> &Range<usize> {
        &self.places[node.0]
    }

    pub(super) fn name(&self, node: NodeId) -> &str {
        &self.specs[node.0].name
    }
}

/// No processor takes longer over a packet.
const MOST_COST: Duration = Duration::from_secs(1);

fn cost(section: &Section<'_>, key: &'static str) -> Read<Duration> {
    section.or(key, Duration::ZERO, |value| value.duration(Duration::ZERO..=MOST_COST))
}

fn control(section: &Section<'_>, key: &'static str) -> Read<Option<Duration>> {
    section.or(key, None, |value| value.duration(Duration::ZERO..=MOST_COST).map(Some))
}

/// A time with fractions of a nanosecond, in seconds.
fn cost_s(section: &Section<'_>, key: &'static str) -> Read<f64> {
    let read = |text: &str| {
        parse_duration(text)?;
        // As a duration it would be rounded to a nanosecond.
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && !"+.".contains(c)).unwrap_or(text.len());
        let worth = parse_duration(&format!("1{}", &text[end..]))?.as_secs_f64();
        Ok::<_, antiphon_core::UnitError>(text[..end].parse().unwrap_or(0.0) * worth)
    };
    section.or(key, 0.0, |value| {
        let seconds = value.quantity(read)?;
        let possible = (0.0..=1e-3).contains(&seconds);
        possible.then_some(seconds).ok_or_else(|| value.fault("at most 1ms per byte"))
    })
}
