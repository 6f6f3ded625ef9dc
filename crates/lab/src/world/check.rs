//! Checks quantities of a setup that no type restricts.

use std::time::Duration;

use antiphon_core::wire::MAX_UDP_PAYLOAD;
use antiphon_core::{Profile, Wire};
use antiphon_media::packet::{RTP_HEADER, VIDEO_HEADER};

use super::error::WorldError;
use super::network::Flow;
use super::pictures::PICTURE_NUMBER;
use crate::setup::{
    Content, Headers, MediumKind, NodeSpec, Pacing, PicturesSpec, Setup, StreamSpec, TrafficKind, TrafficSpec,
};
use crate::tcp;

/// Refuses a run without an end, or without a beginning.
pub fn times(setup: &Setup) -> Result<(), WorldError> {
    let whole = setup.duration.saturating_add(setup.drain);
    if setup.duration.is_zero() {
        return Err(WorldError::NoDuration);
    }
    let longest = setup.streams.iter().map(|stream| stream.start).chain([whole]);
    match longest.max().filter(|longest| *longest > LONGEST) {
        Some(longest) => Err(WorldError::TooLong(longest)),
        None => Ok(()),
    }
}

/// Refuses a stream that is looked at beside none.
pub fn beside(setup: &Setup) -> Result<(), WorldError> {
    for stream in &setup.streams {
        let Some(name) = &stream.beside else { continue };
        let known = stream.is_beside(name, &setup.streams);
        let regular = matches!(stream.content, Content::Packets { .. } | Content::Sound(_));
        if !known || stream.reflected || !regular {
            return Err(WorldError::quantity(
                &stream.name,
                "sound, or packets at regular intervals, not sent back, are looked at beside another stream, by its name",
            ));
        }
    }
    Ok(())
}

/// Refuses a video without an end, or whose packets have no room for what they are recognised by.
pub fn video(stream: &StreamSpec) -> Result<(), WorldError> {
    let Content::Video(video) = &stream.content else { return Ok(()) };
    let refuse = |what: &str| Err(WorldError::quantity(&stream.name, what));
    let layout = &video.layout;
    if layout.interval.is_zero() || layout.count == 0 || video.streams == 0 {
        return refuse("a video has frames, an interval above zero, such as 40ms, and a stream at least");
    }
    if layout.packet < RTP_HEADER || layout.bytes_of(layout.packets().saturating_sub(1)) < RTP_HEADER {
        return refuse("each packet of a video frame has an RTP header of 12 bytes: choose other sizes");
    }
    if stream.reflected {
        return refuse("a video is not sent back: leave out 'reflected'");
    }
    Ok(())
}

/// Refuses pictures without sound to one receiver, without an end, or whose packets do not fit.
pub fn pictures(stream: &StreamSpec, most: usize) -> Result<(), WorldError> {
    let Some(PicturesSpec { layout, .. }) = &stream.pictures else { return Ok(()) };
    let refuse = |what: &str| Err(WorldError::quantity(&stream.name, what));
    if !matches!(stream.content, Content::Sound(_)) || stream.to.len() > 1 || !stream.further.is_empty() {
        return refuse("pictures go beside sound to one receiver, over one transport");
    }
    if layout.interval.is_zero() || layout.count == 0 || layout.frame == 0 {
        return refuse("pictures have bytes, a number, and an interval above zero, such as 40ms");
    }
    if layout.packet.saturating_add(VIDEO_HEADER) > most {
        return refuse(&format!(
            "a packet of pictures has {} bytes at most here",
            most.saturating_sub(VIDEO_HEADER)
        ));
    }
    if layout.packet < PICTURE_NUMBER || layout.bytes_of(layout.packets().saturating_sub(1)) < PICTURE_NUMBER
    {
        return refuse("each packet of a picture holds its number, of 8 bytes: choose other sizes");
    }
    if layout.count.saturating_mul(layout.packets()) > MOST_PICTURE_PACKETS {
        return refuse("a run has 20 million packets of pictures at most");
    }
    Ok(())
}

/// Refuses invalid traffic; returns the queue limit of its first medium, where the medium itself does not tell it.
pub fn traffic(setup: &Setup, spec: &TrafficSpec, flow: &Flow) -> Result<usize, WorldError> {
    let refuse = |what: &str| Err(WorldError::quantity(&spec.name, what));
    let payload = match &spec.kind {
        TrafficKind::Constant { payload, .. }
        | TrafficKind::Poisson { payload, .. }
        | TrafficKind::Bursts { payload, .. }
        | TrafficKind::Blaster { payload } => *payload,
        TrafficKind::Ping { payload, .. } => *payload,
        TrafficKind::GreedyTcp { .. } => 1,
    };
    if payload == 0 && !matches!(spec.kind, TrafficKind::Ping { .. }) || payload > MAX_UDP_PAYLOAD {
        return refuse("a packet has a payload of 1 to 65507 bytes");
    }
    match &spec.kind {
        TrafficKind::Constant { rate, .. } | TrafficKind::Poisson { rate, .. }
            if rate.0 / (8 * payload as u64) > MOST_PACKETS_PER_S =>
        {
            return refuse("more than ten million packets a second; use larger packets or a lower rate");
        }
        TrafficKind::Bursts { period, .. } if *period < Duration::from_micros(1) => {
            return refuse("bursts need a period of 1 µs or more, such as 100ms");
        }
        TrafficKind::Bursts { packets, .. } if *packets > MOST_IN_BURST => {
            return refuse("a burst has 32768 packets at most: no queue holds more");
        }
        TrafficKind::Ping { interval, .. } if *interval < Duration::from_micros(1) => {
            return refuse("echo requests need an interval of 1 µs or more, such as 1s");
        }
        TrafficKind::Ping { count, .. } if *count > MOST_PINGS => {
            return refuse("a ping has 10 million requests at most");
        }
        TrafficKind::GreedyTcp { profile } => tcp(&spec.name, profile)?,
        _ => {}
    }
    let hop = flow.ways[0][0];
    let own = usize::from(hop.own);
    Ok(match &setup.media[hop.medium].kind {
        MediumKind::Link { spec: link, between } | MediumKind::Alternating { spec: link, between, .. }
            if matches!(spec.kind, TrafficKind::Blaster { .. }) =>
        {
            let way = if between[0] == spec.from { &link.up } else { &link.down };
            if way.rate.is_none() {
                return refuse("a blaster's first link needs a rate, or it would send without end");
            }
            0
        }
        MediumKind::Cell { spec: cell, .. } => match cell.stations.get(own) {
            Some(station) => station.queue as usize,
            None => 0,
        },
        MediumKind::Ring { spec: ring, .. } => {
            ring.stations.get(own).map_or(0, |station| station.queue as usize)
        }
        _ => 0,
    })
}

/// Refuses a stream whose frames would never be sent, or without end.
pub fn self_paced(stream: &StreamSpec, profile: &Profile) -> Result<(), WorldError> {
    let refuse = |what: &str| Err(WorldError::quantity(&stream.name, what));
    let Content::SelfPaced { frame, pacing, .. } = &stream.content else { return Ok(()) };
    let least = if profile.bare { RTP_HEADER } else { LEAST_FRAME };
    if *frame < least {
        return refuse(&format!("such a packet has {least} bytes at least over this transport"));
    }
    match pacing {
        Pacing::PingPong if !stream.reflected => refuse("a ping-pong needs a stream that is reflected"),
        Pacing::Window(0) => refuse("a window has at least one packet"),
        Pacing::Window(_) if !profile.reliable || !profile.acknowledged => refuse(
            "a window needs a transport that acknowledges all and gives nothing up, such as xtp?reliability=full",
        ),
        _ => Ok(()),
    }
}

/// Refuses a timer that would measure nothing.
pub fn timer(stream: &StreamSpec) -> Result<(), WorldError> {
    match stream.timer {
        Some(_) if !stream.reflected => Err(WorldError::quantity(
            &stream.name,
            "a timer reads round trips: send the stream back (reflected = true), or remove 'timer'",
        )),
        _ => Ok(()),
    }
}

/// Refuses a stream to a group that nobody could answer.
pub fn answered(stream: &StreamSpec, profile: &Profile) -> Result<(), WorldError> {
    if stream.reflected && stream.to.len() > 1 && !profile.acknowledged {
        return Err(WorldError::quantity(
            &stream.name,
            "receivers of a group answer as its members, which join for repairs: leave out acks=never and reliability=none",
        ));
    }
    Ok(())
}

/// Refuses a priority that nothing would heed.
pub fn priority(stream: &StreamSpec, profile: &Profile) -> Result<(), WorldError> {
    let refuse = |what: &str| Err(WorldError::quantity(&stream.name, what));
    match &stream.content {
        _ if stream.priority == 0 => Ok(()),
        Content::Packets { .. } | Content::SelfPaced { .. } | Content::Video(_) if profile.priorities => {
            Ok(())
        }
        Content::Packets { .. } | Content::SelfPaced { .. } | Content::Video(_) => refuse(
            "its transport heeds no priorities: take one that does, such as xtp?sort=on, or leave out 'priority'",
        ),
        Content::Sound(_) | Content::Medusa { .. } => refuse(
            "only packets of one size and video have a priority: write frame and interval, or leave out 'priority'",
        ),
    }
}

/// Refuses a node that could keep nothing.
pub fn node(node: &NodeSpec) -> Result<(), WorldError> {
    if !(1..=MOST_WAITING).contains(&node.queue) {
        return Err(WorldError::quantity(&node.name, "1 to 32768 packets wait for a processor"));
    }
    Ok(())
}

/// Refuses to count headers, or to miss or answer packets, that a transport does not have.
pub fn headers(stream: &StreamSpec, profile: &Profile, most: usize) -> Result<(), WorldError> {
    let refuse = |what: &str| Err(WorldError::quantity(&stream.name, what));
    let counts = stream.headers == Headers::Xtp36;
    if !counts && !stream.answers && stream.unheard.share.0 == 0.0 {
        return Ok(());
    }
    if counts && stream.transport != "xtp" {
        return refuse("headers of XTP 3.6 stand for those of xtp alone");
    }
    if profile.wire != Wire::Datagram || profile.bare {
        return refuse(
            "packets of a transport that has none of its own can't be told apart: take xtp, or loss on a link",
        );
    }
    // A message of several packets has no packet that holds it.
    match &stream.content {
        Content::Packets { frame, .. } | Content::SelfPaced { frame, .. }
            if frame + profile.message_overhead + MOST_OPTIONS <= most =>
        {
            Ok(())
        }
        _ => refuse("only messages that fit a packet each can be told apart: send smaller packets"),
    }
}

/// Refuses a TCP that would take all memory, or send nothing.
pub fn tcp(who: &str, profile: &tcp::Profile) -> Result<(), WorldError> {
    let buffers = [profile.send_buffer, profile.receive_buffer];
    if buffers.iter().any(|buffer| !(1..=MOST_BUFFER).contains(buffer)) {
        return Err(WorldError::quantity(who, "a TCP's buffers have 1 byte to 256 MiB"));
    }
    if !(LEAST_MSS..=MOST_MSS).contains(&profile.mss) {
        return Err(WorldError::quantity(who, "a TCP's segments carry 48 to 65495 bytes"));
    }
    Ok(())
}

/// Packets of pictures, of each of which 16 bytes are kept.
const MOST_PICTURE_PACKETS: u64 = 20_000_000;
/// A frame holds its number, which is RTP's.
const LEAST_FRAME: usize = 8;
/// What transports write beside a message now and then, such as XTP's tag.
const MOST_OPTIONS: usize = 16;
/// A packet every 100 ns: 14 times what a port of 1 Gbit/s can carry.
const MOST_PACKETS_PER_S: u64 = 10_000_000;
/// As many as the link models' queues hold.
const MOST_IN_BURST: u32 = 32_768;
/// The same of a processor.
const MOST_WAITING: u32 = 32_768;
/// Their round trips take 80 MB.
const MOST_PINGS: u32 = 10_000_000;
/// More than Linux's greatest by default (`tcp_rmem`, 32 MiB on large machines), times a few.
const MOST_BUFFER: usize = 256 << 20;
/// As Linux (`tcp_min_snd_mss`).
const LEAST_MSS: u32 = 48;
/// An IP packet less its headers.
const MOST_MSS: u32 = 65_495;
/// A hundred years: `Instant` counts nanoseconds up to 584.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
