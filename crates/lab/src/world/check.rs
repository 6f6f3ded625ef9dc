//! Checks quantities of a setup that no type restricts.

use std::time::Duration;

use antiphon_core::wire::MAX_UDP_PAYLOAD;

use super::error::WorldError;
use super::network::Flow;
use crate::setup::{MediumKind, Setup, TrafficKind, TrafficSpec};
use crate::tcp::Profile;

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

/// Refuses a TCP that would take all memory, or send nothing.
pub fn tcp(who: &str, profile: &Profile) -> Result<(), WorldError> {
    let buffers = [profile.send_buffer, profile.receive_buffer];
    if buffers.iter().any(|buffer| !(1..=MOST_BUFFER).contains(buffer)) {
        return Err(WorldError::quantity(who, "a TCP's buffers have 1 byte to 256 MiB"));
    }
    if !(LEAST_MSS..=MOST_MSS).contains(&profile.mss) {
        return Err(WorldError::quantity(who, "a TCP's segments carry 48 to 65495 bytes"));
    }
    Ok(())
}

/// A packet every 100 ns: 14 times what a port of 1 Gbit/s can carry.
const MOST_PACKETS_PER_S: u64 = 10_000_000;
/// As many as the link models' queues hold.
const MOST_IN_BURST: u32 = 32_768;
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
