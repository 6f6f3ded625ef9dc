//! Links that are emulated on this machine, between two sockets each.
//!
//! A router between two network namespaces carries any IP traffic, so that kernel TCP feels every loss; where the system
//! forbids namespaces, proxies on loopback stand in and say what they can't model.

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

/// Makes this process root of a user namespace of its own, in which it may make a router; only a process of one thread may. Why
/// it can't, if so: another way is found then, and told of.
pub fn prepare_link() -> Option<String> {
    become_namespace_root().err().map(|error| error.to_string())
}

/// How links are emulated here: as `method` asks for, the best that is permitted if nothing is asked for; where a router is
/// [`Means::Forbidden`], proxies stand in for it. An error if a router is asked for and there can be none.
pub fn link_means(method: Option<LinkMethod>) -> Result<Means, Error> {
    match method {
        None => Ok(probe()),
        Some(LinkMethod::Proxy) => Ok(Means::Forbidden("asked for by --link-method proxy".into())),
        Some(LinkMethod::Router) => match probe() {
            Means::Forbidden(why) => {
                Err(Error::failed(format!("no router between network namespaces: {why}")))
            }
            means => Ok(means),
        },
    }
}

/// Emulated links that run. Dropping them ends them.
pub struct EmulatedLinks {
    means: Means,
    /// `None` where it is forbidden.
    router: Option<Router>,
    proxies: Mutex<Vec<Proxy>>,
    clock: OsClock,
}

impl EmulatedLinks {
    /// Starts a router with these lanes; proxies are started as sockets are there to be called.
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

    /// Where the two ends of a link live; `None`, which is on loopback, where there are proxies.
    pub fn lane(&self, link: usize) -> Option<&Lane> {
        self.router.as_ref()?.lanes().get(link)
    }

    /// Whom to call to reach `target` over a link: itself over the lane of a router, else a new proxy with this `spec` and
    /// `seed` before it. *Up* is from whoever calls.
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

    /// Ends them; what each counted, up and down. Of a proxy nothing, if nothing crossed it.
    pub fn stop(self) -> Vec<Option<(Counters, Counters)>> {
        let lanes = self.router.into_iter().flat_map(|router| router.stop().lanes);
        let proxies = self.proxies.into_inner().expect("no thread panics with it");
        lanes.map(|lane| Some((lane.up, lane.down))).chain(proxies.into_iter().map(Proxy::stop)).collect()
    }
}

/// A proxy for one transport.
enum Proxy {
    /// Of datagrams.
    Udp(UdpProxy),
    /// Of connections.
    Stream(StreamProxy),
}

impl Proxy {
    /// Between whoever calls it on loopback and `target`.
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
                let config = StreamProxyConfig { listen, target, link, seed, max_connections: 4, real_time };
                StreamProxy::start(config, clock).map(Proxy::Stream)
            }
        };
        started.map_err(failed)
    }

    /// Where to call it.
    fn address(&self) -> SocketAddr {
        match self {
            Proxy::Udp(proxy) => proxy.local_addr(),
            Proxy::Stream(proxy) => proxy.local_addr(),
        }
    }

    /// Ends it; what its link counted, up and down, if anything crossed it.
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
