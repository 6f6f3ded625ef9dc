//! What the sockets of a run stand on: loopback, two namespaces with a link between them, or a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use antiphon_lab::figures::MediumFigures;
use antiphon_lab::live::{Beneath, Wire, link_figures};
use antiphon_lab::setup::{NodeId, Setup};
use antiphon_link::{DuplexSpec, QueueLimit};
use antiphon_net::OsClock;
use antiphon_net::emulator::{LaneConfig, Router, RouterConfig, StreamProxy};
use antiphon_net::netns::{Means, Namespace, probe};
use antiphon_proto::Beneath as On;

use crate::embedded::Proxy;
use crate::{Error, LinkMethod};

/// The running link, if there is one.
pub(super) struct Ground {
    beneath: Beneath,
    way: Way,
    clock: OsClock,
}

enum Way {
    Loopback,
    Router(Router),
    /// Started by the first stream that has an address to call; there is one.
    Proxy(Mutex<Option<Proxy>>),
}

/// Where a node's sockets are.
pub(super) struct Place {
    /// To be entered before a socket is opened.
    pub namespace: Option<Namespace>,
    pub address: IpAddr,
}

impl Ground {
    pub fn start(
        beneath: Beneath,
        setup: &Setup,
        method: Option<LinkMethod>,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let way = match &beneath.wire {
            Wire::Loopback => Way::Loopback,
            Wire::Link { spec, behind, overhead, seed, .. } => match means(method) {
                Means::Forbidden(why) if method == Some(LinkMethod::Router) => {
                    return Err(Error::failed(format!("no router between network namespaces: {why}")));
                }
                Means::Forbidden(why) => {
                    alone(setup, behind.is_none() && *overhead == 0, &why)?;
                    Way::Proxy(Mutex::new(None))
                }
                means => {
                    let behind = behind.as_deref().copied();
                    let lane = LaneConfig::private(**spec, *seed);
                    let lanes = vec![LaneConfig { behind, overhead: *overhead, ..lane }];
                    let config = RouterConfig { lanes, means: Some(means), real_time: true };
                    let router = Router::start(config, clock);
                    Way::Router(router.map_err(|error| Error::failed(error.to_string()))?)
                }
            },
        };
        Ok(Ground { beneath, way, clock })
    }

    pub fn place(&self, node: NodeId) -> Place {
        match &self.way {
            Way::Loopback | Way::Proxy(_) => {
                Place { namespace: None, address: IpAddr::V4(Ipv4Addr::LOCALHOST) }
            }
            Way::Router(router) => {
                let lane = &router.lanes()[0];
                let side = if self.beneath.near[node.0] { &lane.near } else { &lane.far };
                Place { namespace: Some(side.namespace.clone()), address: IpAddr::V4(side.v4) }
            }
        }
    }

    /// Whom a sender at `from` calls to come to `target`.
    pub fn through(&self, from: NodeId, on: On, target: SocketAddr) -> Result<SocketAddr, Error> {
        let (Way::Proxy(slot), Wire::Link { spec, seed, .. }) = (&self.way, &self.beneath.wire) else {
            return Ok(target);
        };
        // A proxy's *up* is from whoever calls.
        let turned = DuplexSpec { up: spec.down, down: spec.up };
        let spec = if self.beneath.near[from.0] { **spec } else { turned };
        let proxy = Proxy::start(on, spec, *seed, target, self.clock)?;
        let address = proxy.address();
        *slot.lock().expect("no thread panics with it") = Some(proxy);
        Ok(address)
    }

    /// Ends it; what its link counted.
    pub fn stop(self) -> Vec<MediumFigures> {
        let Wire::Link { name, .. } = &self.beneath.wire else { return Vec::new() };
        let counted = match self.way {
            Way::Loopback => None,
            Way::Router(router) => router.stop().lanes.first().map(|lane| (lane.up, lane.down)),
            Way::Proxy(slot) => slot.into_inner().expect("no thread panics with it").and_then(Proxy::stop),
        };
        counted.map(|(up, down)| link_figures(name, &up, &down)).into_iter().collect()
    }
}

fn means(method: Option<LinkMethod>) -> Means {
    match method {
        Some(LinkMethod::Proxy) => Means::Forbidden("proxies were asked for".into()),
        _ => probe(),
    }
}

/// A proxy gives each flow a link of its own: streams would not meet the traffic that is there to disturb them. And it
/// knows links only, no Ethernet.
fn alone(setup: &Setup, one_link: bool, why: &str) -> Result<(), Error> {
    if one_link && setup.traffic.is_empty() && setup.streams.len() == 1 {
        return Ok(());
    }
    Err(Error::failed(format!(
        "all packets of a run have to cross one link, which takes a router between network namespaces, and there is none \
         here: {why}"
    )))
}

/// What the link is on this machine, and what of it differs from the model.
pub(super) fn describe(beneath: &Beneath, method: Option<LinkMethod>) -> Vec<String> {
    let kernel = "TCP is this machine's kernel's, whatever the scenario names, with the congestion control (Reno or CUBIC) of \
                  that";
    let link = match &beneath.wire {
        Wire::Loopback => return vec!["sockets on this machine's loopback".into(), kernel.into()],
        Wire::Link { name, .. } => match means(method) {
            Means::Forbidden(why) => {
                return vec![
                    format!("'{name}' is a proxy on loopback ({why})"),
                    format!("TCP: {}", StreamProxy::limits()),
                ];
            }
            _ => format!(
                "'{name}' is the live emulator between two network namespaces: what the scenario says, and what this \
                 machine takes to pass packets on (tenths of a millisecond a round trip)"
            ),
        },
    };
    vec![link, kernel.into()]
}

/// What waits in a full queue, in bits.
pub(super) fn queued_bits(limit: &QueueLimit) -> f64 {
    let packets = |count: u32| f64::from(count) * FULL_PACKET_BITS;
    match limit {
        QueueLimit::Packets(count) => packets(*count),
        QueueLimit::Bytes(bytes) => bytes.0 as f64 * 8.0,
        QueueLimit::Red(red) => packets(red.max),
        QueueLimit::Drd(drd) => packets(drd.max),
    }
}

/// Ethernet's.
const FULL_PACKET_BITS: f64 = 1500.0 * 8.0;
