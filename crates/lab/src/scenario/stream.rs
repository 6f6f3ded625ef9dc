//! Streams, which are measured.

use std::time::Duration;

use antiphon_core::units::parse_frequency;
use antiphon_core::uri::Query;
use antiphon_core::wire::{ETHERNET_MTU, UDP_IPV4_HEADERS};
use antiphon_core::{BitRate, ByteCount, DEFAULT_LATENCY};
use antiphon_measure::VideoLayout;
use antiphon_media::ChannelGroups;
use antiphon_media::medusa::{BlockMode, MAX_CHANNELS};
use antiphon_media::packet::RTP_HEADER;
use antiphon_proto::{StackArgs, Transport};

use super::build::Nodes;
use super::error::{Fault, Read, clip, did_you_mean};
use super::further::{Around, further};
use super::load::{MAX_PACKETS, bounded, bytes, start, treatment};
use super::pictures::pictures;
use super::read::{Section, Value};
use super::tcp;
use super::topology::Network;
use crate::setup::{
    Content, FrameChoice, Headers, NodeId, Pacing, SoundSpec, StreamSpec, Unheard, VideoSpec, Watch,
};

/// Longer blocks are not live audio; and waiting frames must be kept.
const LONGEST: Duration = Duration::from_secs(600);
/// A frame on a byte stream may be longer than a packet, up to what RFC 4571 can frame.
const MAX_STREAM_FRAME: usize = 65_535;

/// `[stream.NAME]`
pub(super) fn stream(
    name: &str,
    section: &Section<'_>,
    nodes: &Nodes,
    network: &Network<'_>,
    duration: Duration,
) -> Read<StreamSpec> {
    let from = nodes.one(section, "from")?;
    let to = nodes.several(section, "to")?;
    if to.contains(&from) {
        let message =
            format!("[{}] goes from {} to itself: name other nodes", section.place, nodes.name(from));
        return Err(section.fault(message));
    }
    let mtus = to.iter().map(|to| network.mtu(section, nodes, from, *to)).collect::<Read<Vec<_>>>()?;
    let mtu = mtus.into_iter().min().unwrap_or(ETHERNET_MTU);
    let latency = section.or("latency", DEFAULT_LATENCY, |value| value.duration(Duration::ZERO..=LONGEST))?;
    let (transport, query) = transport(section, mtu, latency, to.len() > 1)?;
    let reflected = section.or("reflected", false, Value::truth)?;
    destinations(section, transport, &to, reflected)?;
    let datagrams = transport.substrate == antiphon_proto::Substrate::Udp;
    let longest = if datagrams { mtu - UDP_IPV4_HEADERS } else { MAX_STREAM_FRAME };
    let content = content(section, longest, duration)?;
    if matches!(content, Content::Medusa { .. }) && !reflected {
        return Err(section.fault("Medusa measures round trips: write reflected = true"));
    }
    let around = Around { nodes, network, duration, latency, between: [from, to[0]] };
    let further = further(section, &around)?;
    if !further.is_empty() && (to.len() > 1 || !matches!(content, Content::Sound(_))) {
        let message = "only sound to one node changes its transport, or goes over several";
        return Err(section.fault(message));
    }
    let pictures = pictures(section, longest, duration)?;
    if pictures.is_some() && (to.len() > 1 || !further.is_empty() || !matches!(content, Content::Sound(_))) {
        return Err(section.fault("pictures go beside sound to one node, over one transport"));
    }
    Ok(StreamSpec {
        name: name.into(),
        transport: transport.scheme.into(),
        query,
        from,
        to,
        content,
        pictures,
        reflected,
        start: start(section, duration)?,
        patience: section.or("patience", None, |value| value.duration(Duration::ZERO..=LONGEST).map(Some))?,
        latency,
        tcp: tcp::profile(section)?,
        treatment: treatment(section)?,
        further,
        watch: watch(section)?,
        headers: section.or("headers", Headers::default(), |value| {
            value.choice(&[("as-sent", Headers::AsSent), ("xtp-3.6", Headers::Xtp36)])
        })?,
        timer: section.or("timer", None, |value| value.duration(TICKS).map(Some))?,
        timer_rounds_down: section
            .or("timer-rounds", false, |value| value.choice(&[("up", false), ("down", true)]))?,
        unheard: unheard(section)?,
        answers: section.or("answers", false, Value::truth)?,
        beside: section.or("beside", None, |value| Ok(Some(value.text("\"video\"")?.into())))?,
        priority: section.or("priority", 0, |value| Ok(value.whole(0..=u8::MAX.into())? as u8))?,
    })
}

/// Refuses a stream that is looked at beside one that does not exist.
pub(super) fn beside(top: &Section<'_>, streams: &[StreamSpec]) -> Read<()> {
    for stream in streams {
        let Some(other) = &stream.beside else { continue };
        if !stream.is_beside(other, streams) {
            let name = clip(&stream.name);
            let known = streams.iter().map(|stream| stream.name.as_str()).filter(|known| *known != name);
            let hint = did_you_mean(other, known);
            return Err(top.fault(format!(
                "[stream.{name}] is beside '{}', which is no other stream{hint} write the name of one",
                clip(other)
            )));
        }
    }
    Ok(())
}

/// `unheard = { share, delivered }`
fn unheard(section: &Section<'_>) -> Read<Unheard> {
    let Some(inner) = section.sub("unheard")? else { return Ok(Unheard::default()) };
    let share = inner.need("share", "\"5%\"")?.parse()?;
    let delivered = inner.or("delivered", false, Value::truth)?;
    inner.finish()?;
    Ok(Unheard { share, delivered })
}

/// `watch = { every, length }`
fn watch(section: &Section<'_>) -> Read<Option<Watch>> {
    let Some(inner) = section.sub("watch")? else { return Ok(None) };
    let every = inner.need("every", "\"10s\"")?.duration(Duration::from_millis(1)..=LONGEST)?;
    let length = inner.need("length", "\"2s\"")?;
    let watch = Watch { every, length: length.duration(Duration::from_millis(1)..=every)? };
    inner.finish()?;
    Ok(Some(watch))
}

/// `rtp`, or with settings of its own: `arq?mode=as-published`. `group`: it has several destinations.
pub(super) fn transport(
    section: &Section<'_>,
    mtu: usize,
    latency: Duration,
    group: bool,
) -> Read<(&'static Transport, Query)> {
    let value = section.need("transport", "\"rtp\"")?;
    let text = value.text("\"rtp\"")?;
    let (scheme, query) = text.split_once('?').unwrap_or((text, ""));
    let transport = antiphon_proto::find(scheme).map_err(|why| value.fault(why))?;
    let query: Query = query.parse().map_err(|why| value.fault(why))?;
    query.only(transport.keys.iter().map(|key| key.name)).map_err(|why| value.fault(why))?;
    let max_datagram = mtu - UDP_IPV4_HEADERS;
    let args = StackArgs { group, ..StackArgs::new(&query, 0, max_datagram, latency) };
    // A stack checks the values of its keys when it is made.
    (transport.stack)(&args).map_err(|why| value.fault(why))?;
    if query.iter().next().is_some() {
        value.note(text);
    }
    Ok((transport, query))
}

fn destinations(section: &Section<'_>, transport: &Transport, to: &[NodeId], reflected: bool) -> Read<()> {
    let count = to.len();
    if count == 0 {
        return Err(section.fault(format!("[{}] has no destination: name a node", section.place)));
    }
    if count > 1 && !transport.multicast {
        let scheme = transport.scheme;
        let message = format!(
            "{scheme} reaches one node, not {count}: write a stream for each, or transport = \"rtp\""
        );
        return Err(section.fault(message));
    }
    if count > 1 && reflected && !transport.members {
        return Err(section.fault(
            "receivers of a group answer over xtp alone: name one node, or write transport = \"xtp\", or reflected = false",
        ));
    }
    Ok(())
}

/// Kinds of stream content.
#[derive(Clone, Copy)]
enum Kind {
    Sound,
    Packets,
    Medusa,
    Video,
}

/// The kind of a stream: as given, or according to its keys; otherwise sound.
fn kind(section: &Section<'_>) -> Read<Kind> {
    let kinds = [
        ("sound", Kind::Sound),
        ("packets", Kind::Packets),
        ("medusa", Kind::Medusa),
        ("video", Kind::Video),
    ];
    if let Some(said) = section.find("content")? {
        return said.choice(&kinds);
    }
    let has = |key: &str| section.table.entry(key).is_some();
    Ok(if has("medusa") {
        Kind::Medusa
    } else if has("video") {
        Kind::Video
    } else if !has("sound") && ["frame", "interval", "count"].into_iter().any(has) {
        Kind::Packets
    } else {
        Kind::Sound
    })
}

fn content(section: &Section<'_>, longest: usize, duration: Duration) -> Read<Content> {
    let kind = kind(section)?;
    if let (Kind::Packets | Kind::Medusa | Kind::Video, Some(protect)) = (kind, section.find("protect")?) {
        return Err(protect.fault("protect works with sound only: remove it, or 'frame' and 'interval'"));
    }
    match kind {
        Kind::Sound => sound(section, longest),
        Kind::Packets => packets(section, longest, duration),
        Kind::Video => {
            let inner = section.sub("video")?;
            let inner = inner.ok_or_else(|| {
                section.fault("write [stream.NAME.video] with frame, packet, interval and count")
            })?;
            let content = video(&inner, longest)?;
            inner.finish()?;
            Ok(content)
        }
        Kind::Medusa => {
            let inner = section.sub("medusa")?;
            let inner =
                inner.ok_or_else(|| section.fault("write [stream.NAME.medusa] with channels and blocks"))?;
            let content = medusa(&inner)?;
            inner.finish()?;
            Ok(content)
        }
    }
}

/// Frames of one size, at regular intervals or by what became of those before.
fn packets(section: &Section<'_>, longest: usize, duration: Duration) -> Read<Content> {
    let size = section.need("frame", "\"1300B\", or omit it for sound")?;
    let frame = bytes(&size, longest)?;
    if let Some(pacing) = pacing(section)? {
        if let Some(interval) = section.find("interval")? {
            return Err(interval.fault("a ping-pong or a window sets the pace: remove 'interval'"));
        }
        let count = match section.find("total")? {
            Some(total) => total.parse::<ByteCount>()?.0.div_ceil(frame as u64),
            None => section.need("count", "1000")?.whole(1..=MAX_SELF_PACED)?,
        };
        if !(1..=MAX_SELF_PACED).contains(&count) {
            return Err(
                size.fault(format!("{count} packets in one run: 1 to {MAX_SELF_PACED}; change 'total'"))
            );
        }
        return Ok(Content::SelfPaced { frame, count, pacing });
    }
    if frame < RTP_HEADER {
        return Err(size.fault(format!(
            "a frame begins with an RTP header of {RTP_HEADER} bytes: at least {RTP_HEADER}B"
        )));
    }
    let (interval, time) = match section.find("rate")? {
        Some(rate) => {
            let time = rate.parse::<BitRate>()?.time_for(frame as u64).unwrap_or(Duration::MAX);
            (rate, time)
        }
        None => {
            let interval = section.need("interval", "\"7.4ms\", or rate = \"64kbit/s\"")?;
            let time = interval.duration(INTERVALS)?;
            (interval, time)
        }
    };
    if !INTERVALS.contains(&time) {
        return Err(interval.fault("a packet each 1us to 1h: choose another rate, or write an interval"));
    }
    bounded(&interval, 1.0 / time.as_secs_f64(), duration)?;
    let count = section.or("count", None, |value| value.whole(1..=MAX_PACKETS as u64).map(Some))?;
    Ok(Content::Packets { frame, interval: time, count })
}

/// `ping-pong = true`, or `window = 8`.
fn pacing(section: &Section<'_>) -> Read<Option<Pacing>> {
    let ping_pong = section.or("ping-pong", false, Value::truth)?;
    let window = section.or("window", None, |value| value.whole(1..=MAX_WINDOW).map(Some))?;
    match (ping_pong, window) {
        (true, Some(_)) => Err(section.fault(format!(
            "[{}] has one packet under way as a ping-pong: remove 'window', or 'ping-pong'",
            section.place
        ))),
        (true, None) => Ok(Some(Pacing::PingPong)),
        (false, window) => Ok(window.map(Pacing::Window)),
    }
}

fn medusa(section: &Section<'_>) -> Read<Content> {
    let modes = [("paper", BlockMode::Paper), ("exact", BlockMode::Exact)];
    Ok(Content::Medusa {
        channels: section.need("channels", "2")?.whole(1..=MAX_CHANNELS.into())? as u16,
        blocks: section.need("blocks", "10000")?.whole(1..=1_000_000)?,
        mode: section.or("mode", BlockMode::Paper, |value| value.choice(&modes))?,
    })
}

fn video(section: &Section<'_>, longest: usize) -> Read<Content> {
    let frame = bytes(&section.need("frame", "\"12kB\"")?, MAX_VIDEO_FRAME)?;
    let packet = bytes(&section.need("packet", "\"1400B\"")?, longest)?;
    let interval = section.need("interval", "\"40ms\"")?.duration(INTERVALS)?;
    let count = section.need("count", "200")?.whole(1..=MAX_VIDEO_FRAMES)?;
    let choices = [("all", FrameChoice::All), ("newest", FrameChoice::Newest)];
    let choice = section.or("choose", FrameChoice::All, |value| value.choice(&choices))?;
    let streams = section.or("streams", 1, |value| Ok(value.whole(1..=1024)? as u16))?;
    let layout = VideoLayout { frame, packet, interval, count };
    let last = layout.bytes_of(layout.packets() - 1);
    if packet < RTP_HEADER || last < RTP_HEADER {
        return Err(section.fault(format!(
            "each packet of a frame has an RTP header of {RTP_HEADER} bytes, and the last one has {last}: choose other sizes"
        )));
    }
    Ok(Content::Video(VideoSpec { layout, choice, streams }))
}

fn sound(section: &Section<'_>, longest: usize) -> Read<Content> {
    let mut sound = SoundSpec::default();
    let (mut place, mut span) = (section.place.clone(), section.span.clone());
    if let Some(inner) = section.sub("sound")? {
        sound = format(&inner)?;
        inner.finish()?;
        (place, span) = (inner.place, inner.span);
    }
    section.set("protect", &mut sound.protect, Value::parse)?;
    let SoundSpec { groups, block, opus, .. } = sound;
    let widest = groups.ranges().map(|range| range.len()).max().expect("there is a group");
    let bytes = block as usize * widest * 2;
    if opus.is_none() && bytes + RTP_HEADERS > longest {
        let place = clip(&place);
        let message = format!(
            "[{place}]: {block} sample frames of {widest} channels are {bytes} bytes, and {} at most go into a \
             packet: take a smaller block, or smaller groups",
            longest - RTP_HEADERS
        );
        return Err(Fault::new(&span, message));
    }
    Ok(Content::Sound(sound))
}

/// `[stream.NAME.sound]`
fn format(section: &Section<'_>) -> Read<SoundSpec> {
    let mut sound = SoundSpec::default();
    section.set("rate", &mut sound.sample_rate, |value| {
        let rate = value.quantity(parse_frequency)?;
        (8_000..=192_000).contains(&rate).then_some(rate).ok_or_else(|| value.fault("8kHz to 192kHz"))
    })?;
    let channels =
        section.or("channels", sound.groups.channels(), |value| Ok(value.whole(1..=64)? as usize))?;
    sound.groups = section.or("groups", ChannelGroups::whole(channels), |value| {
        value.quantity(|text| ChannelGroups::parse(channels, text))
    })?;
    section.set("block", &mut sound.block, |value| value.whole32(16..=4096))?;
    sound.opus = section.or("opus", None, |value| value.parse().map(Some))?;
    Ok(sound)
}

/// More than a key frame of high definition.
pub(super) const MAX_VIDEO_FRAME: usize = 10_000_000;
/// Ten days of 25 frames a second.
pub(super) const MAX_VIDEO_FRAMES: u64 = 20_000_000;
/// From one frame to the next.
pub(super) const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(1)..=Duration::from_hours(1);
/// Frames whose pace nothing but the network bounds.
const MAX_SELF_PACED: u64 = 10_000_000;
/// More than any queue holds.
const MAX_WINDOW: u64 = 100_000;
/// A timer's ticks.
const TICKS: std::ops::RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_secs(1);
/// Header and extensions of our own frames: 12 bytes, the sender's clock, the format, the channel group (see `antiphon_media`).
const RTP_HEADERS: usize = 48;
