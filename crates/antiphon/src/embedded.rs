//! The embedded link of `compare`: a copy for each transport, between its near end and a reflector.
//!
//! A router between two network namespaces carries any IP traffic, so that kernel TCP feels every loss; where the system
//! forbids namespaces, proxies on loopback stand in and say what they can't model.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use antiphon_link::{Counters, DuplexSpec};
use antiphon_net::OsClock;
use antiphon_net::emulator::{
    LaneConfig, Router, RouterConfig, StreamProxy, StreamProxyConfig, UdpProxy, UdpProxyConfig,
};
use antiphon_net::netns::{Means, Namespace, probe};
use antiphon_proto::Beneath;
use antiphon_session::ArrivalBoard;

use crate::compare::{LinkCounts, LinkSummary};
use crate::far_end::{FarEnd, FarPlan};
use crate::transport::Entrant;
use crate::{CompareOptions, DEFAULT_PORT, Error, LinkMethod};

/// Where a near end is to be opened, and whom it calls.
pub(crate) struct Place {
    pub entrant: Entrant,
    pub target: SocketAddr,
    pub namespace: Option<Namespace>,
    pub board: Option<ArrivalBoard>,
}

/// The running link with its reflectors.
pub(crate) struct Embedded {
    ways: Ways,
    boards: Vec<ArrivalBoard>,
    far_ends: Vec<FarEnd>,
    /// Why there is no router, if there is none.
    forbidden: Option<String>,
}

enum Ways {
    Router(Router),
    Proxies(Vec<Proxy>),
}

/// A proxy for one transport.
pub(crate) enum Proxy {
    Udp(UdpProxy),
    Stream(StreamProxy),
}

impl Embedded {
    /// Starts links and reflectors, the best way that is permitted or the one that was asked for. `interval`: from one
    /// frame to the next.
    pub fn start(
        options: &CompareOptions,
        transports: &[Entrant],
        interval: Duration,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let boards: Vec<_> = transports.iter().map(|_| ArrivalBoard::new()).collect();
        let means = match options.link_method {
            Some(LinkMethod::Proxy) => Means::Forbidden("asked for by --link-method proxy".into()),
            _ => probe(),
        };
        let far_plan = |entrant: &Entrant, bind, namespace, board: &ArrivalBoard| FarPlan {
            entrant: entrant.clone(),
            bind,
            namespace,
            board: Some(board.clone()),
            clock,
            socket: entrant.socket(&options.socket),
            max_peers: 4,
            interval: Some(interval),
            seed: options.seed ^ 1,
            // The near ends are shown.
            taps: None,
        };
        let (ways, far_ends, forbidden) = match means {
            Means::Forbidden(why) if options.link_method == Some(LinkMethod::Router) => {
                return Err(Error::failed(format!("no router between network namespaces: {why}")));
            }
            Means::Forbidden(why) => {
                if let Some(entrant) = transports.iter().find(|entrant| entrant.over_ip.is_some()) {
                    return Err(Error::failed(format!(
                        "{}: a proxy carries UDP and TCP alone, and there is no router between namespaces ({why}): leave \
                         over=ip out",
                        entrant.label
                    )));
                }
                let plans = transports.iter().zip(&boards);
                let plans = plans.map(|(entrant, board)| far_plan(entrant, LOOPBACK, None, board));
                let (proxies, far_ends) = start_proxies(plans, options, clock)?;
                (Ways::Proxies(proxies), far_ends, Some(why))
            }
            means => {
                // Each transport's lane has the same seed: the n-th packet of each meets the same fate.
                let lanes =
                    transports.iter().map(|_| LaneConfig::private(options.link.1, options.seed)).collect();
                let config = RouterConfig { lanes, means: Some(means), real_time: true };
                let router =
                    Router::start(config, clock).map_err(|error| Error::failed(error.to_string()))?;
                let ends = transports.iter().zip(&boards).zip(router.lanes());
                let far_ends = ends.map(|((entrant, board), lane)| {
                    let bind = SocketAddr::new(IpAddr::V4(lane.far.v4), DEFAULT_PORT);
                    FarEnd::start(far_plan(entrant, bind, Some(lane.far.namespace.clone()), board))
                });
                let far_ends = far_ends.collect::<Result<_, _>>()?;
                (Ways::Router(router), far_ends, None)
            }
        };
        Ok(Embedded { ways, boards, far_ends, forbidden })
    }

    /// The near ends' places, in the order of the transports.
    pub fn places(&self) -> Vec<Place> {
        let place = |(i, far): (usize, &FarEnd)| {
            let (target, namespace) = match &self.ways {
                Ways::Router(router) => (far.address, Some(router.lanes()[i].near.namespace.clone())),
                Ways::Proxies(proxies) => (proxies[i].address(), None),
            };
            Place { entrant: far.entrant.clone(), target, namespace, board: Some(self.boards[i].clone()) }
        };
        self.far_ends.iter().enumerate().map(place).collect()
    }

    /// What to tell of it.
    pub fn summary(&self, name: &str) -> LinkSummary {
        let name = name.to_string();
        match (&self.ways, &self.forbidden) {
            (Ways::Router(router), _) => LinkSummary {
                name,
                method: match router.means() {
                    Means::VethPacket => "router between network namespaces over virtual Ethernet, one copy per \
                                          transport with the same seed; real sockets and the kernel's own TCP",
                    _ => "router between network namespaces over TUN, one copy per transport with the same seed; real \
                          sockets and the kernel's own TCP",
                }
                .into(),
                limits: Vec::new(),
            },
            (Ways::Proxies(_), forbidden) => LinkSummary {
                name,
                method: format!(
                    "proxies on loopback ({})",
                    forbidden.as_deref().unwrap_or("namespaces are not to be had")
                ),
                limits: vec![format!("tcp: {}", StreamProxy::limits())],
            },
        }
    }

    /// Ends it and says what crossed it.
    pub fn finish(self) -> Vec<LinkCounts> {
        let names: Vec<String> = self.far_ends.iter().map(|far| far.entrant.label.clone()).collect();
        drop(self.far_ends);
        match self.ways {
            Ways::Router(router) => {
                let report = router.stop();
                let lanes = names.into_iter().zip(report.lanes);
                lanes
                    .map(|(transport, lane)| LinkCounts {
                        transport,
                        up: lane.up.into(),
                        down: lane.down.into(),
                    })
                    .collect()
            }
            Ways::Proxies(proxies) => names
                .into_iter()
                .zip(proxies)
                .filter_map(|(transport, proxy)| proxy.finish(transport))
                .collect(),
        }
    }
}

/// Reflectors on loopback, and a proxy before each.
fn start_proxies(
    plans: impl Iterator<Item = FarPlan>,
    options: &CompareOptions,
    clock: OsClock,
) -> Result<(Vec<Proxy>, Vec<FarEnd>), Error> {
    let (mut proxies, mut far_ends) = (Vec::new(), Vec::new());
    for plan in plans {
        let far = FarEnd::start(plan)?;
        let beneath = far.entrant.transport.beneath;
        proxies.push(Proxy::start(beneath, options.link.1, options.seed, far.address, clock)?);
        far_ends.push(far);
    }
    Ok((proxies, far_ends))
}

/// Any port of this machine alone.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Proxy {
    /// Between whoever calls it on loopback and `target`.
    pub fn start(
        beneath: Beneath,
        link: DuplexSpec,
        seed: u64,
        target: SocketAddr,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let started = match beneath {
            Beneath::Udp => {
                let config =
                    UdpProxyConfig { real_time: true, ..UdpProxyConfig::new(LOOPBACK, target, link, seed) };
                UdpProxy::start(config, clock).map(Proxy::Udp)
            }
            Beneath::Tcp => {
                let config = StreamProxyConfig {
                    listen: LOOPBACK,
                    target,
                    link,
                    seed,
                    max_connections: 4,
                    real_time: true,
                };
                StreamProxy::start(config, clock).map(Proxy::Stream)
            }
        };
        started.map_err(|error| Error::failed(error.to_string()))
    }

    /// Where to call it.
    pub fn address(&self) -> SocketAddr {
        match self {
            Proxy::Udp(proxy) => proxy.local_addr(),
            Proxy::Stream(proxy) => proxy.local_addr(),
        }
    }

    /// Ends it; what its link counted, up and down, if anything crossed it.
    pub fn stop(self) -> Option<(Counters, Counters)> {
        match self {
            Proxy::Udp(proxy) => proxy.stop().flows.first().map(|flow| (flow.up, flow.down)),
            Proxy::Stream(proxy) => proxy.stop().connections.last().map(|one| (one.up, one.down)),
        }
    }

    fn finish(self, transport: String) -> Option<LinkCounts> {
        let (up, down) = self.stop()?;
        Some(LinkCounts { transport, up: up.into(), down: down.into() })
    }
}
