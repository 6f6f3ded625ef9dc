//! Streams, which are what is measured.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::units::parse_frequency;
use antiphon_core::uri::Query;
use antiphon_media::ChannelGroups;
use antiphon_media::medusa::{BlockMode, MAX_CHANNELS};
use antiphon_proto::{OpenArgs, Role, Transport};

use super::build::Nodes;
use super::error::{Fault, Read, clip};
use super::load::{MAX_PACKETS, UDP_HEADERS, bounded, bytes, start, treatment};
use super::read::Section;
use super::tcp;
use super::topology::Network;
use crate::setup::{Content, DEFAULT_LATENCY, NodeId, StreamSpec};

/// The fixed header of RTP (RFC 3550 §5.1), with which every frame begins.
const RTP_HEADER: usize = 12;
/// Longer is no live audio; and what waits has to be kept.
const LONGEST: Duration = Duration::from_secs(600);
/// A frame on a byte stream may be longer than a packet, up to what RFC 4571 can frame.
const MAX_STREAM_FRAME: usize = 65_535;

/// `[stream.NAME]`
pub(super) fn stream(
    name: &str,
    section: &Section<'_>,
    nodes: &Nodes,
    network: &Network,
    duration: Duration,
) -> Read<StreamSpec> {
    let from = nodes.one(section, "from")?;
    let to = nodes.several(section, "to")?;
    if to.contains(&from) {
        let message =
            format!("[{}] goes from {} to itself: name other nodes", section.place, nodes.name(from));
        return Err(section.fault(message));
    }
    let mtu = to.iter().map(|to| network.mtu(from, *to)).min().unwrap_or(1500);
    let latency = section
        .find("latency")?
        .map_or(Ok(DEFAULT_LATENCY), |value| value.duration(Duration::ZERO..=LONGEST))?;
    let (transport, query) = transport(section, mtu, latency)?;
    let reflected = section.find("reflected")?.map_or(Ok(false), |value| value.truth())?;
    destinations(section, transport, &to, reflected)?;
    let datagrams = transport.beneath == antiphon_proto::Beneath::Udp;
    let longest = if datagrams { mtu - UDP_HEADERS } else { MAX_STREAM_FRAME };
    let content = content(section, longest, duration)?;
    if matches!(content, Content::Medusa { .. }) && !reflected {
        return Err(section.fault("Medusa measures round trips: write reflected = true"));
    }
    Ok(StreamSpec {
        name: name.into(),
        transport: transport.scheme.into(),
        query,
        from,
        to,
        content,
        reflected,
        start: start(section, duration)?,
        patience: section
            .find("patience")?
            .map(|value| value.duration(Duration::ZERO..=LONGEST))
            .transpose()?,
        latency,
        tcp: tcp::profile(section)?,
        treatment: treatment(section)?,
    })
}

/// `rtp`, or with settings of its own: `arq?mode=as-published`.
fn transport(section: &Section<'_>, mtu: usize, latency: Duration) -> Read<(&'static Transport, Query)> {
    let value = section.need("transport", "\"rtp\"")?;
    let text = value.text("\"rtp\"")?;
    let (scheme, query) = text.split_once('?').unwrap_or((text, ""));
    let transport = antiphon_proto::find(scheme).map_err(|why| value.fault(why))?;
    let query: Query = query.parse().map_err(|why| value.fault(why))?;
    query.only(transport.keys.iter().map(|key| key.name)).map_err(|why| value.fault(why))?;
    let args = OpenArgs {
        role: Role::Caller,
        query: &query,
        seed: 0,
        now: Instant::ZERO,
        max_datagram: mtu - UDP_HEADERS,
        latency,
    };
    // An endpoint checks the values of its keys when it is opened.
    (transport.open)(&args).map_err(|why| value.fault(why))?;
    if query.iter().next().is_some() {
        value.note(text);
    }
    Ok((transport, query))
}

fn destinations(section: &Section<'_>, transport: &Transport, to: &[NodeId], reflected: bool) -> Read<()> {
    let count = to.len();
    if count == 0 {
        return Err(section.fault(format!("[{}] goes to nobody: name a node", section.place)));
    }
    if count > 1 && !transport.strengths.multicast {
        let scheme = transport.scheme;
        let message = format!(
            "{scheme} reaches one node, not {count}: write a stream for each, or transport = \"rtp\""
        );
        return Err(section.fault(message));
    }
    if count > 1 && reflected {
        return Err(section
            .fault("a stream that is reflected goes to one node: name one, or write reflected = false"));
    }
    Ok(())
}

/// Frames of one size at regular intervals, or sound.
fn content(section: &Section<'_>, longest: usize, duration: Duration) -> Read<Content> {
    if let Some(inner) = section.sub("medusa")? {
        let content = medusa(&inner)?;
        inner.finish()?;
        return Ok(content);
    }
    if let Some(inner) = section.sub("sound")? {
        let content = sound(&inner, longest)?;
        inner.finish()?;
        return Ok(content);
    }
    let size = section.need("frame", "\"1300B\", or write [stream.NAME.sound]")?;
    let frame = bytes(&size, longest)?;
    if frame < RTP_HEADER {
        return Err(size.fault(format!(
            "a frame begins with an RTP header of {RTP_HEADER} bytes: at least {RTP_HEADER}B"
        )));
    }
    let interval = section.need("interval", "\"7.4ms\"")?;
    let time = interval.duration(Duration::from_micros(1)..=Duration::from_hours(1))?;
    bounded(&interval, 1.0 / time.as_secs_f64(), duration)?;
    let count = section.find("count")?.map(|value| value.whole(1..=MAX_PACKETS as u64)).transpose()?;
    Ok(Content::Packets { frame, interval: time, count })
}

fn medusa(section: &Section<'_>) -> Read<Content> {
    let modes = [("paper", BlockMode::Paper), ("exact", BlockMode::Exact)];
    Ok(Content::Medusa {
        channels: section.need("channels", "2")?.whole(1..=MAX_CHANNELS.into())? as u16,
        blocks: section.need("blocks", "10000")?.whole(1..=1_000_000)?,
        mode: section.find("mode")?.map_or(Ok(BlockMode::Paper), |value| value.choice(&modes))?,
    })
}

fn sound(section: &Section<'_>, longest: usize) -> Read<Content> {
    let rate = section.need("rate", "\"48kHz\"")?;
    let sample_rate = rate.quantity(parse_frequency)?;
    if !(8_000..=192_000).contains(&sample_rate) {
        return Err(rate.fault("8kHz to 192kHz"));
    }
    let channels = section.need("channels", "2")?.whole(1..=64)? as usize;
    let groups = match section.find("groups")? {
        Some(groups) => groups.quantity(|text| ChannelGroups::parse(channels, text))?,
        None => ChannelGroups::whole(channels),
    };
    let block = section.need("block", "256")?.whole32(16..=4096)?;
    let widest = groups.ranges().map(|range| range.len()).max().unwrap_or(channels);
    let bytes = block as usize * widest * 2;
    if bytes + RTP_HEADERS > longest {
        let place = clip(&section.place);
        let message = format!(
            "[{place}]: {block} sample frames of {widest} channels are {bytes} bytes, and {} at most go into a \
             packet: take a smaller block, or smaller groups",
            longest - RTP_HEADERS
        );
        return Err(Fault::new(&section.span, message));
    }
    Ok(Content::Sound { sample_rate, groups, block })
}

/// Header and extensions of our own frames: 12 bytes, the sender's clock, the format, the channel group (see `antiphon_media`).
const RTP_HEADERS: usize = 48;
