//! The embedded link of `compare`: a copy for each transport, between its near end and a reflector.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use antiphon_net::OsClock;
use antiphon_net::emulator::{LaneConfig, StreamProxy};
use antiphon_net::netns::{Means, Namespace};
use antiphon_session::ArrivalTable;

use crate::compare::{LinkCounts, LinkSummary};
use crate::emulated::{EmulatedLinks, LOOPBACK, link_means, prepare_link};
use crate::far_end::{FarEnd, FarPlan};
use crate::transport::TransportChoice;
use crate::{CompareOptions, DEFAULT_PORT, Error, LinkMethod};

impl CompareOptions {
    /// Gives this process, which must have no other thread yet, the rights that the embedded link needs. Returns the
    /// reason if it cannot: the comparison then uses another way and reports what that changes. With a peer nothing is
    /// needed.
    pub fn prepare(&self) -> Option<String> {
        let needed = self.peer.is_none() && self.link_method != Some(LinkMethod::Proxy);
        needed.then(prepare_link).flatten()
    }
}

/// Where a near end is opened, and its peer's address.
pub(crate) struct Place {
    pub choice: TransportChoice,
    pub target: SocketAddr,
    pub namespace: Option<Namespace>,
    pub arrivals: Option<ArrivalTable>,
    /// The same of the pictures beside the sound, if there are any.
    pub picture_arrivals: Option<ArrivalTable>,
}

impl Place {
    /// Of a peer elsewhere, with a clock of its own.
    pub fn elsewhere(choice: TransportChoice, target: SocketAddr) -> Self {
        Place { choice, target, namespace: None, arrivals: None, picture_arrivals: None }
    }
}

/// The running links with their reflectors.
pub(crate) struct Embedded {
    links: EmulatedLinks,
    far_ends: Vec<FarEnd>,
}

impl Embedded {
    /// Starts links and reflectors, in the way asked for or else the best one permitted. Returns the near ends' places,
    /// in the order of the transports. `interval`: from one packet to the next.
    pub fn start(
        options: &CompareOptions,
        transports: &[TransportChoice],
        interval: Duration,
        clock: OsClock,
    ) -> Result<(Self, Vec<Place>), Error> {
        let means = link_means(options.link_method)?;
        if let Means::Forbidden(why) = &means {
            refuse_over_ip(transports, why)?;
        }
        // Each transport's link has the same seed, and what it does depends on the time: all meet the same weather.
        let (spec, seed) = (options.link.1.in_time(interval), options.seed);
        let lanes = vec![LaneConfig::private(spec, seed); transports.len()];
        let links = EmulatedLinks::start(means, lanes, clock)?;
        let (mut far_ends, mut places) = (Vec::new(), Vec::new());
        for (n, choice) in transports.iter().enumerate() {
            let (lane, arrivals) = (links.lane(n), Some(ArrivalTable::new()));
            let picture_arrivals = (!options.video.is_empty()).then(ArrivalTable::new);
            let far = FarEnd::start(FarPlan {
                choice: choice.clone(),
                bind: lane.map_or(LOOPBACK, |lane| SocketAddr::new(IpAddr::V4(lane.far.v4), DEFAULT_PORT)),
                namespace: lane.map(|lane| lane.far.namespace.clone()),
                arrivals: arrivals.clone(),
                picture_arrivals: picture_arrivals.clone(),
                clock,
                socket: choice.socket(&options.socket),
                max_peers: 4,
                interval: Some(interval),
                seed: seed ^ 1,
                // The near ends' packets are captured.
                taps: None,
            })?;
            let target = links.before(far.address, choice.transport.substrate, spec, seed)?;
            let namespace = lane.map(|lane| lane.near.namespace.clone());
            places.push(Place { choice: choice.clone(), target, namespace, arrivals, picture_arrivals });
            far_ends.push(far);
        }
        Ok((Embedded { links, far_ends }, places))
    }

    /// Description of the link.
    pub fn summary(&self, name: &str) -> LinkSummary {
        let router = |devices: &str| {
            format!(
                "router between network namespaces over {devices}, one copy per transport with the same seed; real sockets \
                 and the kernel's own TCP"
            )
        };
        let (method, limits) = match self.links.means() {
            Means::VethPacket => (router("virtual Ethernet"), Vec::new()),
            Means::Tun => (router("TUN"), Vec::new()),
            Means::Forbidden(why) => {
                (format!("proxies on loopback ({why})"), vec![format!("tcp: {}", StreamProxy::limits())])
            }
        };
        LinkSummary { name: name.into(), method, limits }
    }

    /// Stops the link and returns what crossed it.
    pub fn finish(self) -> Vec<LinkCounts> {
        let names: Vec<String> = self.far_ends.iter().map(|far| far.choice.label.clone()).collect();
        drop(self.far_ends);
        let counted = names.into_iter().zip(self.links.stop());
        let counts = counted.filter_map(|(transport, counted)| {
            let (up, down) = counted?;
            Some(LinkCounts { transport, up: up.into(), down: down.into() })
        });
        counts.collect()
    }
}

/// An error if one of the transports runs directly over IP.
fn refuse_over_ip(transports: &[TransportChoice], why: &str) -> Result<(), Error> {
    let Some(choice) = transports.iter().find(|choice| choice.over_ip.is_some()) else { return Ok(()) };
    Err(Error::failed(format!(
        "{}: a proxy carries UDP and TCP only, and no router between namespaces is available ({why}): omit over=ip",
        choice.label
    )))
}
