//! Links, cables and switches.

use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_link::{Alternation, DuplexSpec, ETHERNET_100, KEYS, LinkSpec, QueueLimit, preset};

use super::build::Nodes;
use super::error::Read;
use super::passport;
use super::read::{Reason, Section, Value};
use crate::setup::{MediumKind, NodeId};

/// `[link.NAME]`: the words of `antiphon link`, in one text or key by key.
pub(super) fn link(section: &Section<'_>, nodes: &Nodes) -> Read<MediumKind> {
    let between = nodes.ends(section)?;
    let mut words = Vec::new();
    let mut span = section.span.clone();
    if let Some(value) = section.find("link")? {
        let text = value.text("\"rate=10Mbit/s,delay=20ms\"")?.to_string();
        if let Some(name) = passport::named(&text) {
            return recorded(section, between, &value, name);
        }
        let _: DuplexSpec = text.parse().map_err(|why| value.fault(why))?;
        note_link(section, &text, value.reason());
        span = value.span().clone();
        words.push(text);
    }
    words.extend(keys(section, "")?);
    for (way, prefix) in [("up", "up."), ("down", "down.")] {
        if let Some(inner) = section.sub(way)? {
            words.extend(keys(&inner, prefix)?);
            inner.finish()?;
        }
    }
    if words.is_empty() {
        let message = format!("[{}] has no link: write link = \"rate=10Mbit/s,delay=20ms\"", section.place);
        return Err(section.fault(message));
    }
    let spec: DuplexSpec =
        words.join(",").parse().map_err(|why| super::error::Fault::new(&span, format!("{why}")))?;
    let spec = Box::new(spec);
    Ok(match section.sub("alternate")? {
        Some(inner) => {
            let with = alternation(&inner)?;
            inner.finish()?;
            MediumKind::Alternating { between, spec, with }
        }
        None => MediumKind::Link { between, spec },
    })
}

/// `link = "passport:FILE"`: a recorded path, which is all that the link does.
fn recorded(section: &Section<'_>, between: [NodeId; 2], value: &Value<'_>, name: &str) -> Read<MediumKind> {
    let beside = KEYS.iter().map(|(key, ..)| *key).chain(["up", "down", "alternate"]);
    for key in beside {
        if section.find(key)?.is_some() {
            let message = format!("a recorded path has its own delays and losses: leave out '{key}'");
            return Err(value.fault(message));
        }
    }
    let recording = section.context.recordings.find(name).map_err(|why| value.fault(why))?;
    let place = format!("{}.link", section.place);
    let why = value
        .reason()
        .why
        .map_or_else(|| recording.about.clone(), |why| format!("{why}; {}", recording.about));
    section.context.note(&place, name, Reason::of(Some(&why)));
    Ok(MediumKind::Replay { between, up: recording.up.clone(), down: recording.down.clone() })
}

/// `alternate = { every, delay, loss }` of a link.
fn alternation(section: &Section<'_>) -> Read<Alternation> {
    let every =
        section.need("every", "\"10s\"")?.duration(Duration::from_millis(1)..=Duration::from_hours(1))?;
    let delay = section.need("delay", "\"200ms\"")?.duration(Duration::ZERO..=Duration::from_secs(60))?;
    let loss = section.need("loss", "\"15%\"")?.quantity(|text| {
        let link = checked("loss", text)
            .and_then(|()| format!("loss={text}").parse::<LinkSpec>().map_err(|e| e.to_string()));
        link.map(|link| link.loss)
    })?;
    Ok(Alternation { every, delay, loss })
}

/// Notes the numbers of a link's text: those of a preset have their reasons.
fn note_link(section: &Section<'_>, text: &str, reason: Reason<'_>) {
    let (first, changed) = text.split_once(',').unwrap_or((text, ""));
    let Some(preset) = preset(first.trim()) else {
        return section.context.note(&format!("{}.link", section.place), text, reason);
    };
    for setting in preset.settings {
        let place = format!("{}.link, preset {}", section.place, preset.name);
        section.context.note(&place, setting.text, Reason::of(Some(setting.reason)));
    }
    if !changed.is_empty() {
        section.context.note(&format!("{}.link", section.place), changed, reason);
    }
}

/// The keys of a link as words: `up.rate=1Mbit/s`.
fn keys(section: &Section<'_>, prefix: &str) -> Read<Vec<String>> {
    let mut words = Vec::new();
    for (key, ..) in KEYS {
        let Some(value) = section.find(key)? else { continue };
        // Each alone first, so that an error is marked at its place.
        let word = value.quantity(|text| {
            let text = text.trim();
            let alone = if text.contains(',') { Err(text.into()) } else { Ok(()) };
            alone
                .map_err(|text: String| format!("'{text}': one value, without a comma"))
                .and_then(|()| checked(key, text))
                .map(|()| format!("{prefix}{key}={text}"))
        })?;
        words.push(word);
    }
    Ok(words)
}

fn checked(key: &str, text: &str) -> Result<(), String> {
    // An empty policer queue is refused without its bucket; the whole is checked again.
    let context = if key == "queue" { "rate=1Gbit/s/1MB," } else { "" };
    format!("{context}{key}={text}").parse::<LinkSpec>().map(|_| ()).map_err(|error| error.to_string())
}

/// `[cable.NAME]`
pub(super) fn cable(section: &Section<'_>, nodes: &Nodes) -> Read<MediumKind> {
    let between = nodes.ends(section)?;
    Ok(MediumKind::Cable { between, rate: rate(section)?, queue: queue(section)? })
}

/// `[switch.NAME]`
pub(super) fn switch(section: &Section<'_>, nodes: &Nodes) -> Read<MediumKind> {
    let joined = nodes.several(section, "nodes")?;
    if !(2..=1024).contains(&joined.len()) {
        return Err(section.fault(format!("a switch joins 2 to 1024 nodes, not {}", joined.len())));
    }
    let longest = Duration::from_millis(100);
    let usual = Duration::from_micros(10);
    let latency = section.or("latency", usual, |value| value.duration(Duration::ZERO..=longest))?;
    Ok(MediumKind::Switch { nodes: joined, rate: rate(section)?, queue: queue(section)?, latency })
}

/// Fast Ethernet by default.
fn rate(section: &Section<'_>) -> Read<BitRate> {
    section.or("rate", ETHERNET_100, |value| {
        let rate: BitRate = value.parse()?;
        if (1_000..=400_000_000_000).contains(&rate.0) {
            return Ok(rate);
        }
        Err(value
            .fault(format!("a rate of {rate} is impossible here: 1kbit/s to 400Gbit/s, such as 100Mbit/s")))
    })
}

/// A queue as `antiphon link` writes it.
pub(super) fn queue(section: &Section<'_>) -> Read<QueueLimit> {
    let read = |text: &str| match text.contains(',') {
        true => Err(format!("'{text}': write a queue, such as \"100packets\" or \"64kB\"")),
        false => format!("queue={text}")
            .parse::<LinkSpec>()
            .map(|spec| spec.queue)
            .map_err(|error| error.to_string()),
    };
    section.or("queue", QueueLimit::default(), |value| value.quantity(read))
}
