//! Traffic that competes with the streams.

use std::time::Duration;

use antiphon_core::wire::UDP_IPV4_HEADERS;
use antiphon_core::{BitRate, ByteCount, Ppm, Ratio};
use antiphon_link::RingClass;
use antiphon_link::wlan::Category;

use super::build::Nodes;
use super::error::Read;
use super::read::{Section, Value};
use super::tcp;
use super::topology::Network;
use crate::setup::{NodeId, TrafficKind, TrafficSpec, Treatment};

/// More packets than can be computed in an hour.
pub(super) const MAX_PACKETS: f64 = 1e9;
/// Longer than any machine takes for a packet.
const MOST_HELD_UP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Poisson,
    Bursts,
    Blaster,
    Tcp,
    Ping,
}

/// `[traffic.NAME]`; `None` if it is silent.
pub(super) fn traffic(
    name: &str,
    section: &Section<'_>,
    nodes: &Nodes,
    network: &Network<'_>,
    duration: Duration,
) -> Read<Option<TrafficSpec>> {
    let (from, to) = ends(section, nodes)?;
    let kind = section.need("kind", "\"constant\"")?.choice(&[
        ("constant", Kind::Constant),
        ("poisson", Kind::Poisson),
        ("bursts", Kind::Bursts),
        ("blaster", Kind::Blaster),
        ("tcp", Kind::Tcp),
        ("ping", Kind::Ping),
    ])?;
    let start = start(section, duration)?;
    let treatment = treatment(section)?;
    let (mut clock, mut held_up) = (Ppm::default(), Duration::ZERO);
    let longest = network.mtu(section, nodes, from, to)? - UDP_IPV4_HEADERS;
    let payload = || payload(section, longest);
    let kind = match kind {
        Kind::Constant | Kind::Poisson => {
            let (rate, payload) = (section.need("rate", "\"10Mbit/s\"")?, payload()?);
            let bits: BitRate = rate.parse()?;
            bounded(&rate, bits.0 as f64 / 8.0 / payload as f64, duration)?;
            if matches!(kind, Kind::Constant) {
                clock = clock_tolerance(section)?;
            }
            match (bits.0, kind) {
                (0, _) => return Ok(None),
                (_, Kind::Constant) => TrafficKind::Constant { rate: bits, payload },
                _ => TrafficKind::Poisson { rate: bits, payload },
            }
        }
        Kind::Bursts => {
            let kind = bursts(section, payload()?, duration)?;
            clock = clock_tolerance(section)?;
            section.set("held-up", &mut held_up, |value| value.duration(Duration::ZERO..=MOST_HELD_UP))?;
            match kind {
                Some(kind) => kind,
                None => return Ok(None),
            }
        }
        Kind::Blaster => TrafficKind::Blaster { payload: payload()? },
        Kind::Tcp => TrafficKind::GreedyTcp { profile: tcp::profile(section)? },
        Kind::Ping => {
            let interval = section
                .need("interval", "\"1s\"")?
                .duration(Duration::from_micros(10)..=Duration::from_hours(1))?;
            let count = section.need("count", "100")?.whole32(1..=1_000_000)?;
            let payload = section.or("payload", 56, |value| bytes(value, longest))?;
            TrafficKind::Ping { interval, payload, count }
        }
    };
    Ok(Some(TrafficSpec { name: name.into(), from, to, kind, start, clock, held_up, treatment }))
}

/// `None` if there are no packets in a burst.
fn bursts(section: &Section<'_>, payload: usize, duration: Duration) -> Read<Option<TrafficKind>> {
    let packets = section.need("packets", "10")?.whole32(0..=1_000_000)?;
    let period = section.need("period", "\"100ms\"")?;
    let time = period.duration(Duration::from_micros(1)..=Duration::from_hours(1))?;
    bounded(&period, f64::from(packets) / time.as_secs_f64(), duration)?;
    let jitter = section.or("jitter", Ratio::default(), Value::parse)?;
    Ok((packets > 0).then_some(TrafficKind::Bursts { packets, period: time, jitter, payload }))
}

/// By how much a sender's clock may be off.
fn clock_tolerance(section: &Section<'_>) -> Read<Ppm> {
    section.or("clock", Ppm::default(), |value| {
        let tolerance: Ppm = value.parse()?;
        match tolerance.0 {
            0.0..=1000.0 => Ok(tolerance),
            _ => Err(value.fault("a clock is off by 0ppm to 1000ppm at most")),
        }
    })
}

fn ends(section: &Section<'_>, nodes: &Nodes) -> Read<(NodeId, NodeId)> {
    let (from, to) = (nodes.one(section, "from")?, nodes.one(section, "to")?);
    if from == to {
        let message =
            format!("[{}] goes from {} to itself: name another node", section.place, nodes.name(from));
        return Err(section.fault(message));
    }
    Ok((from, to))
}

/// When it begins.
pub(super) fn start(section: &Section<'_>, duration: Duration) -> Read<Duration> {
    section.or("start", Duration::ZERO, |value| value.duration(Duration::ZERO..=duration))
}

/// How media treat its packets.
pub(super) fn treatment(section: &Section<'_>) -> Read<Treatment> {
    let mut treatment = Treatment::default();
    let categories = Category::ALL.map(|category| (category.name(), category));
    section.set("category", &mut treatment.category, |value| value.choice(&categories))?;
    let classes = [("synchronous", RingClass::Synchronous), ("asynchronous", RingClass::Asynchronous)];
    section.set("ring-class", &mut treatment.ring, |value| value.choice(&classes))?;
    Ok(treatment)
}

fn payload(section: &Section<'_>, longest: usize) -> Read<usize> {
    bytes(&section.need("payload", "\"1470B\"")?, longest)
}

/// A size in bytes that a packet can have.
pub(super) fn bytes(value: &Value<'_>, longest: usize) -> Read<usize> {
    let size: ByteCount = value.parse()?;
    match usize::try_from(size.0) {
        Ok(bytes) if (1..=longest).contains(&bytes) => Ok(bytes),
        _ => {
            let message = format!("{} bytes don't go into one packet on this way: 1B to {longest}B", size.0);
            Err(value.fault(message))
        }
    }
}

/// Refuses traffic that would take too long to compute.
pub(super) fn bounded(value: &Value<'_>, packets_a_second: f64, duration: Duration) -> Read<()> {
    let packets = packets_a_second * duration.as_secs_f64();
    if packets <= MAX_PACKETS {
        return Ok(());
    }
    Err(value.fault(format!(
        "{packets:.0} packets in one run: at most {MAX_PACKETS:.0}; shorten the duration, or send less"
    )))
}
