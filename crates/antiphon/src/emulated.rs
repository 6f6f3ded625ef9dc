//! Links that are emulated on this machine, between two sockets each.
//!
//! A router between two network namespaces carries any IP traffic, so that kernel TCP is exposed to every loss; where
//! the system forbids namespaces, proxies on loopback are used instead and report what they cannot model.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use antiphon_link::{Counters, DuplexSpec};
use antiphon_net::OsClock;
use antiphon_net::emulator::{
    Lane, LaneConfig, Router, RouterConfig, StreamProxy, StreamProxyConfig, UdpProxy, UdpProxyConfig,
};
use antiphon_net::netns::{Means, become_namespace_root, probe};
use antiphon_proto::Substrate;

use crate::{Error, LinkMethod};

/// Makes this process root of a user namespace of its own, in which it may create a router; only a single-threaded
/// process may. Returns the reason if it cannot: another way is then used and reported.
pub fn prepare_link() -> Option<String> {
    become_namespace_root().err().map(|error| error.to_string())
}

/// How links are emulated here: as `method` asks, otherwise the best way permitted; where a router is
/// [`Means::Forbidden`], proxies replace it. An error if a router is asked for and cannot be made.
pub fn link_means(method: Option<LinkMethod>) -> Result<Means, Error> {
    match method {
        None => Ok(probe()),
        Some(LinkMethod::Proxy) => Ok(Means::Forbidden("requested by --link-method proxy".into())),
        Some(LinkMethod::Router) => match probe() {
            Means::Forbidden(why) => {
                Err(Error::failed(format!("no router between network namespaces available: {why}")))
            }
            means => Ok(means),
        },
    }
}

/// Emulated links that run. Dropping them ends them.
pub struct EmulatedLinks {
    means: Means,
    /// `None` where a router is forbidden.
    router: Option<Router>,
    proxies: Mutex<Vec<Proxy>>,
    clock: OsClock,
}

impl EmulatedLinks {
    /// Starts a router with these lanes; a proxy is started for each socket later, when its address is known.
    pub fn start(means: Means, lanes: Vec<LaneConfig>, clock: OsClock) -> Result<Self, Error> {
        let config = RouterConfig { lanes, means: Some(means.clone()), real_time: true };
        let router = match means {
            Means::Forbidden(_) => None,
            Means::Tun | Means::VethPacket => Some(Router::start(config, clock).map_err(failed)?),
        };
        Ok(EmulatedLinks { means, router, proxies: Mutex::default(), clock })
    }

    /// How they are emulated.
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// The two ends of a link in their namespaces; `None` with proxies, whose ends are on loopback.
    pub fn lane(&self, link: usize) -> Option<&Lane> {
        self.router.as_ref()?.lanes().get(link)
    }

    /// The address to call to reach `target` over a link: `target` itself over a router's lane, else a new proxy with
    /// this `spec` and `seed` in front of it. *Up* is the direction from the caller.
    pub fn before(
        &self,
        target: SocketAddr,
        on: Substrate,
        spec: DuplexSpec,
        seed: u64,
    ) -> Result<SocketAddr, Error> {
        if self.router.is_some() {
            return Ok(target);
        }
        let proxy = Proxy::start(on, spec, seed, target, self.clock)?;
        let address = proxy.address();
        self.proxies.lock().expect("no thread panics with it").push(proxy);
        Ok(address)
    }

    /// Stops them; returns what each counted, up and down. `None` for a proxy that nothing crossed.
    pub fn stop(self) -> Vec<Option<(Counters, Counters)>> {
        let lanes = self.router.into_iter().flat_map(|router| router.stop().lanes);
        let proxies = self.proxies.into_inner().expect("no thread panics with it");
        lanes.map(|lane| Some((lane.up, lane.down))).chain(proxies.into_iter().map(Proxy::stop)).collect()
    }
}

/// A proxy for one transport.
enum Proxy {
    /// For datagrams.
    Udp(UdpProxy),
    /// For connections.
    Stream(StreamProxy),
}

impl Proxy {
    /// A proxy between its callers on loopback and `target`.
    fn start(
        on: Substrate,
        link: DuplexSpec,
        seed: u64,
        target: SocketAddr,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let (listen, real_time) = (LOOPBACK, true);
        let started = match on {
            Substrate::Udp => {
                let config = UdpProxyConfig { real_time, ..UdpProxyConfig::new(listen, target, link, seed) };
                UdpProxy::start(config, clock).map(Proxy::Udp)
            }
            Substrate::Tcp => {
                let allow = antiphon_net::AllowList::default();
                let config =
                    StreamProxyConfig { listen, target, link, seed, max_connections: 4, real_time, allow };
                StreamProxy::start(config, clock).map(Proxy::Stream)
            }
        };
        started.map_err(failed)
    }

    /// The address to call.
    fn address(&self) -> SocketAddr {
        match self {
            Proxy::Udp(proxy) => proxy.local_addr(),
            Proxy::Stream(proxy) => proxy.local_addr(),
        }
    }

    /// Stops it; returns what its link counted, up and down, if anything crossed it.
    fn stop(self) -> Option<(Counters, Counters)> {
        match self {
            Proxy::Udp(proxy) => proxy.stop().flows.first().map(|flow| (flow.up, flow.down)),
            Proxy::Stream(proxy) => proxy.stop().connections.last().map(|one| (one.up, one.down)),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::failed(error.to_string())
}

/// Any port of this machine alone.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
