//! The network under the sockets of a run: loopback, two namespaces with a link between them, or a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use antiphon_core::wire::ETHERNET_MTU;
use antiphon_lab::figures::MediumFigures;
use antiphon_lab::live::{RealMedium, Wire, link_figures};
use antiphon_lab::setup::{NodeId, Setup};
use antiphon_link::{DuplexSpec, QueueLimit};
use antiphon_net::OsClock;
use antiphon_net::emulator::{LaneConfig, StreamProxy};
use antiphon_net::netns::{Means, Namespace};
use antiphon_proto::Substrate;

use antiphon::run::{EmulatedLinks, link_means};
use antiphon::{Error, LinkMethod};

/// The running link, if there is one.
pub(super) struct Testbed {
    medium: RealMedium,
    /// `None`: loopback.
    links: Option<EmulatedLinks>,
}

/// Location of a node's sockets.
pub(super) struct Place {
    /// Entered before a socket is opened.
    pub namespace: Option<Namespace>,
    pub address: IpAddr,
}

impl Testbed {
    pub fn start(
        medium: RealMedium,
        setup: &Setup,
        method: Option<LinkMethod>,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let links = match &medium.wire {
            Wire::Loopback => None,
            Wire::Link { spec, behind, overhead, seed, .. } => {
                let means = link_means(method)?;
                if let Means::Forbidden(why) = &means {
                    alone(setup, behind.is_none() && *overhead == 0, why)?;
                }
                let lane = LaneConfig::private(**spec, *seed);
                let lane = LaneConfig { behind: behind.as_deref().copied(), overhead: *overhead, ..lane };
                Some(EmulatedLinks::start(means, vec![lane], clock)?)
            }
        };
        Ok(Testbed { medium, links })
    }

    pub fn place(&self, node: NodeId) -> Place {
        let Some(lane) = self.links.as_ref().and_then(|links| links.lane(0)) else {
            return Place { namespace: None, address: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        };
        let side = if self.medium.near[node.0] { &lane.near } else { &lane.far };
        Place { namespace: Some(side.namespace.clone()), address: IpAddr::V4(side.v4) }
    }

    /// The address that a sender at `from` calls to reach `target`.
    pub fn through(&self, from: NodeId, on: Substrate, target: SocketAddr) -> Result<SocketAddr, Error> {
        let (Some(links), Wire::Link { spec, seed, .. }) = (&self.links, &self.medium.wire) else {
            return Ok(target);
        };
        let turned = DuplexSpec { up: spec.down, down: spec.up };
        let spec = if self.medium.near[from.0] { **spec } else { turned };
        links.before(target, on, spec, *seed)
    }

    /// Stops it; returns what its link counted.
    pub fn stop(self) -> Vec<MediumFigures> {
        let (Some(links), Wire::Link { name, .. }) = (self.links, &self.medium.wire) else {
            return Vec::new();
        };
        let counted = links.stop().into_iter().next().flatten();
        counted.map(|(up, down)| link_figures(name, &up, &down)).into_iter().collect()
    }
}

/// A proxy gives each flow a link of its own, so streams would not be affected by the other traffic. And it supports
/// links only, no Ethernet.
fn alone(setup: &Setup, one_link: bool, why: &str) -> Result<(), Error> {
    if one_link && setup.traffic.is_empty() && setup.streams.len() == 1 {
        return Ok(());
    }
    Err(Error::failed(format!(
        "all packets of a run have to cross one link, which takes a router between network namespaces, and there is none \
         here: {why}"
    )))
}

/// Describes the link on this machine, and how it differs from the model.
pub(super) fn describe(medium: &RealMedium, method: Option<LinkMethod>) -> Result<Vec<String>, Error> {
    let kernel = "TCP is this machine's kernel's, whatever the scenario names, with the congestion control (Reno or CUBIC) of \
                  that";
    let link = match &medium.wire {
        Wire::Loopback => "sockets on this machine's loopback".into(),
        Wire::Link { name, .. } => match link_means(method)? {
            Means::Forbidden(why) => {
                return Ok(vec![
                    format!("'{name}' is a proxy on loopback ({why})"),
                    format!("TCP: {}", StreamProxy::limits()),
                ]);
            }
            Means::Tun | Means::VethPacket => format!(
                "'{name}' is the live emulator between two network namespaces: what the scenario says, and what this \
                 machine takes to pass packets on (tenths of a millisecond a round trip)"
            ),
        },
    };
    Ok(vec![link, kernel.into()])
}

/// Bits in a full queue.
pub(super) fn queued_bits(limit: &QueueLimit) -> f64 {
    let packets = |count: u32| f64::from(count) * FULL_PACKET_BITS;
    match limit {
        QueueLimit::Packets(count) => packets(*count),
        QueueLimit::Bytes(bytes) => bytes.0 as f64 * 8.0,
        QueueLimit::Red(red) => packets(red.max),
        QueueLimit::Drd(drd) => packets(drd.max),
    }
}

/// Of Ethernet.
const FULL_PACKET_BITS: f64 = ETHERNET_MTU as f64 * 8.0;
