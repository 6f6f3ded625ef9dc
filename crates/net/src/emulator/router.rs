//! The link as a router between network namespaces: any IP traffic crosses it, so that the kernel's own TCP and other
//! programs are exposed to the delay, the queue and the losses.
//!
//! A *lane* is two namespaces joined by one link. The near side's packets go *up* through the link to the far side, the
//! far side's *down*. One thread serves all lanes.

use std::net::{Ipv4Addr, Ipv6Addr};

use antiphon_core::{Instant, Rng};
use antiphon_link::{Counters, Direction, Duplex, DuplexSpec};

use super::EmulatorError;
use super::pool::{Pool, Pooled};
use super::reactor::{Reactor, Worker};
use crate::clock::OsClock;
use crate::netns::{
    Configured, Means, Namespace, Netlink, NetnsError, Port, disable_offloads, probe, tun_port, veth_port,
};
use crate::poll::Readiness;
use crate::realtime::Scheduling;
use crate::system::Poller;
use crate::system::fd::AsFd;

/// How to run a [`Router`].
#[derive(Clone, Debug, Default)]
pub struct RouterConfig {
    /// At most 4096.
    pub lanes: Vec<LaneConfig>,
    /// How packets enter and leave; `None` uses what [`probe`] finds.
    pub means: Option<Means>,
    /// Ask for `SCHED_FIFO`.
    pub real_time: bool,
}

/// One lane.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// *Up* is from the near side to the far side.
    pub link: DuplexSpec,
    /// A second link after it, on the far side: packets from the first wait in the other's queue, as in a switch.
    pub behind: Option<DuplexSpec>,
    /// Bytes of overhead of each packet on the links, such as the 38 of an Ethernet frame and its gap.
    pub overhead: usize,
    /// Seed, forked for each direction and element.
    pub seed: u64,
    /// The namespaces that it joins.
    pub sides: Sides,
}

impl LaneConfig {
    /// A lane of one link between two new namespaces.
    pub fn private(link: DuplexSpec, seed: u64) -> Self {
        LaneConfig { link, behind: None, overhead: 0, seed, sides: Sides::Private }
    }

    fn links(&self) -> impl Iterator<Item = &DuplexSpec> {
        std::iter::once(&self.link).chain(&self.behind)
    }
}

/// The namespaces that a lane joins.
#[derive(Clone, Debug)]
pub enum Sides {
    /// Two new ones, otherwise empty.
    Private,
    /// Existing ones, which get a device, its addresses and (where there is none) a default route while the router
    /// runs.
    Existing {
        /// Where *up* begins.
        near: Namespace,
        /// Where it ends.
        far: Namespace,
    },
}

/// One end of a lane.
#[derive(Clone, Debug)]
pub struct Side {
    /// [`Namespace::enter`] places a thread here, [`Namespace::run`] opens sockets here.
    pub namespace: Namespace,
    /// Its address, in a network of 24 bits with the other side.
    pub v4: Ipv4Addr,
    /// Its address, in a network of 64 bits with the other side.
    pub v6: Ipv6Addr,
}

/// The two ends of a lane.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Where *up* begins.
    pub near: Side,
    /// Where it ends.
    pub far: Side,
}

/// Counters of one lane; of two links, from the entrance of the first to the exit of the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneReport {
    /// Near to far. Bytes are those of IP packets.
    pub up: Counters,
    /// Far to near.
    pub down: Counters,
    /// The kernels' own group and neighbour messages, which are not forwarded: they would use the flow's random
    /// numbers.
    pub ignored: u64,
    /// Packets that crossed the link and that the kernel refused (a corrupted header, a full buffer).
    pub rejected: u64,
    /// Packets refused because the memory for packets in flight was used up; they never reached a link.
    pub over_budget: u64,
}

/// Report of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterReport {
    /// In the order of the configuration.
    pub lanes: Vec<LaneReport>,
    /// Scheduling that the kernel gave the thread.
    pub scheduling: Scheduling,
}

/// A running router. Dropping it stops it and removes its devices.
pub struct Router {
    lanes: Vec<Lane>,
    means: Means,
    reactor: Reactor<RouterReport>,
}

impl Router {
    /// Makes the namespaces, the devices and the thread. Without root, call [`crate::netns::become_namespace_root`]
    /// first.
    pub fn start(config: RouterConfig, clock: OsClock) -> Result<Self, EmulatorError> {
        for lane in &config.lanes {
            for link in lane.links() {
                link.up.validate()?;
                link.down.validate()?;
            }
        }
        if config.lanes.len() > MAX_LANES {
            let error =
                std::io::Error::other(format!("{} lanes; the limit is {MAX_LANES}", config.lanes.len()));
            return Err(EmulatorError::system("too many lanes", error));
        }
        let means = config.means.unwrap_or_else(probe);
        let mut joints = Joints::new(&means)?;
        let (mut lanes, mut parts) = (Vec::new(), Vec::new());
        for (number, lane) in (0..).zip(&config.lanes) {
            let (near, far) = match &lane.sides {
                Sides::Private => (Namespace::private()?, Namespace::private()?),
                Sides::Existing { near, far } if near.is_same(far) => {
                    let error =
                        std::io::Error::other("a kernel does not send packets to itself over a device");
                    return Err(EmulatorError::system("both sides are one namespace", error));
                }
                Sides::Existing { near, far } => (near.clone(), far.clone()),
            };
            let (near, near_port) = joints.join(number, 1, near)?;
            let (far, far_port) = joints.join(number, 2, far)?;
            lanes.push(Lane { near, far });
            parts.push(([near_port, far_port], lane.clone()));
        }
        let reactor = Reactor::start("link-router", clock, config.real_time, move |poller| {
            Carrier::new(parts, joints, poller)
        })
        .map_err(|error| EmulatorError::system("cannot start the router", error))?;
        Ok(Router { lanes, means, reactor })
    }

    /// The lanes in the order of the configuration.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// How packets enter and leave.
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// What was counted so far; `None` if the router failed.
    pub fn report(&self) -> Option<RouterReport> {
        self.reactor.report()
    }

    /// Stops it. Packets in flight in the links stay there, as the counters show.
    pub fn stop(self) -> RouterReport {
        self.reactor.stop()
    }
}

/// The address bits would allow more; this is enough.
const MAX_LANES: usize = 4096;

/// Makes the router's ends of devices.
struct Joints {
    /// Namespace of the router's ends of virtual Ethernet pairs; TUN needs none.
    middle: Option<Namespace>,
}

impl Joints {
    fn new(means: &Means) -> Result<Self, NetnsError> {
        match means {
            Means::Tun => Ok(Joints { middle: None }),
            Means::VethPacket => Ok(Joints { middle: Some(Namespace::private()?) }),
            Means::Forbidden(reason) => {
                Err(NetnsError::new("no router on this system", std::io::Error::other(reason.clone())))
            }
        }
    }

    /// Puts a device into a namespace, gives it its addresses, and opens the router's end of it.
    fn join(&mut self, lane: u16, side: u8, namespace: Namespace) -> Result<(Side, Port), NetnsError> {
        let addresses = Configured::of_lane(lane, side);
        let name = format!("antiphon{lane}");
        let port = match &self.middle {
            None => namespace.run(|| {
                let port = tun_port(&name)?;
                Netlink::open()?.configure(&name, addresses, None)?;
                Ok(port)
            })??,
            Some(middle) => {
                let hardware = [0x02, 0, 0, 0, 0, side];
                let end = format!("end{lane}-{side}");
                let port = middle.run(|| {
                    let mut netlink = Netlink::open()?;
                    netlink.add_veth(&end, &name, Some(&namespace))?;
                    netlink.set_up(&end)?;
                    veth_port(&end, hardware)
                })??;
                namespace.run(|| {
                    disable_offloads(&name)?;
                    Netlink::open()?.configure(&name, addresses, Some(hardware))
                })??;
                port
            }
        };
        let side = Side { namespace, v4: addresses.v4, v6: addresses.v6 };
        Ok((side, port))
    }
}

/// The router's thread.
struct Carrier {
    lanes: Vec<Carried>,
    pool: Pool,
    buffer: Box<[u8; MAX_PACKET]>,
    /// Keeps the namespace of the router's device ends alive.
    _joints: Joints,
}

struct Carried {
    /// Near and far.
    ports: [Port; 2],
    /// In the order of *up*.
    links: Vec<Duplex<Pooled>>,
    overhead: usize,
    report: LaneReport,
}

/// An IP packet and an Ethernet header.
const MAX_PACKET: usize = 65_536 + 14;
/// Packets read from one device before the others have their turn.
const BATCH: usize = 64;

impl Carrier {
    fn new(parts: Vec<([Port; 2], LaneConfig)>, joints: Joints, poller: &Poller) -> std::io::Result<Self> {
        let mut lanes = Vec::new();
        for (number, (ports, lane)) in (0..).zip(parts) {
            for (side, port) in (0..).zip(&ports) {
                poller.watch(port.as_fd(), number * 2 + side, Readiness::READABLE)?;
            }
            // The second link has its own seed; the first one's numbers must not depend on whether there is a second.
            let seeds = [lane.seed, Rng::fork(lane.seed, "behind").next_u64()];
            let links = lane.links().zip(seeds).map(|(link, seed)| Duplex::new(link, seed));
            // Checked before this thread was started.
            let links = links.collect::<Result<_, _>>().map_err(std::io::Error::other)?;
            let (overhead, report) = (lane.overhead, LaneReport::default());
            lanes.push(Carried { ports, links, overhead, report });
        }
        Ok(Carrier { lanes, pool: Pool::new(), buffer: Box::new([0; MAX_PACKET]), _joints: joints })
    }
}

impl Worker for Carrier {
    type Report = RouterReport;

    fn ready(&mut self, clock: &OsClock, _: &Poller, token: u64) {
        let direction = Direction::ALL[(token % 2) as usize];
        let Some(lane) = self.lanes.get_mut((token / 2) as usize) else {
            return;
        };
        for _ in 0..BATCH {
            let Some(packet) = lane.ports[(token % 2) as usize].read(&mut self.buffer[..]) else {
                return;
            };
            if is_chatter(packet) {
                lane.report.ignored += 1;
                continue;
            }
            let now = clock.now();
            match self.pool.packet(now, packet, lane.overhead) {
                // A packet that the queue refuses is dropped here, and counted by the link.
                Some(packet) => drop(lane.entrance(direction).offer(now, direction, packet)),
                None => lane.report.over_budget += 1,
            }
        }
    }

    fn advance(&mut self, clock: &OsClock, _: &Poller) {
        let now = clock.now();
        for lane in &mut self.lanes {
            // A packet that leaves one link may already be through the other, so this is repeated until nothing moves.
            while lane.advance(now) {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.lanes.iter().flat_map(|lane| &lane.links).filter_map(Duplex::poll_timeout).min()
    }

    fn report(&mut self, scheduling: Scheduling) -> RouterReport {
        let lanes = self.lanes.iter().map(|lane| LaneReport {
            up: whole(lane.links.iter().map(|link| link.up.counters())),
            down: whole(lane.links.iter().rev().map(|link| link.down.counters())),
            ..lane.report
        });
        RouterReport { lanes: lanes.collect(), scheduling }
    }
}

impl Carried {
    /// The link at which packets of that direction enter.
    fn entrance(&mut self, direction: Direction) -> &mut Duplex<Pooled> {
        let at = match direction {
            Direction::Up => 0,
            Direction::Down => self.links.len() - 1,
        };
        &mut self.links[at]
    }

    /// Moves packets that have crossed a link to the next, or out; returns whether any moved to another link.
    fn advance(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for at in 0..self.links.len() {
            while let Some((direction, packet)) = self.links[at].poll(now) {
                let (next, port) = match direction {
                    Direction::Up => {
                        (Some(at + 1).filter(|next| *next < self.links.len()), &mut self.ports[1])
                    }
                    Direction::Down => (at.checked_sub(1), &mut self.ports[0]),
                };
                match next {
                    Some(next) => {
                        moved = true;
                        drop(self.links[next].offer(now, direction, packet));
                    }
                    None => self.report.rejected += u64::from(!port.write(packet.bytes())),
                }
            }
        }
        moved
    }
}

/// Counters of one direction through several links: in at the first, out of the last, drops of all.
fn whole(mut links: impl Iterator<Item = Counters>) -> Counters {
    let first = links.next().unwrap_or_default();
    links.fold(first, |sum, one| Counters {
        offered: sum.offered,
        offered_bytes: sum.offered_bytes,
        delivered: one.delivered,
        delivered_bytes: one.delivered_bytes,
        duplicated: sum.duplicated + one.duplicated,
        lost: sum.lost + one.lost,
        overflowed: sum.overflowed + one.overflowed,
        dropped_early: sum.dropped_early + one.dropped_early,
        queued: sum.queued + one.queued,
        in_flight: sum.in_flight + one.in_flight,
        corrupted: sum.corrupted + one.corrupted,
        held_back: sum.held_back + one.held_back,
    })
}

/// Whether a packet is a kernel's own housekeeping: group membership (IGMP, MLD), router and neighbour discovery. Or
/// not an IP packet at all.
fn is_chatter(packet: &[u8]) -> bool {
    const IGMP: u8 = 2;
    const ICMP_V6: u8 = 58;
    const HOP_BY_HOP: u8 = 0;
    // RFC 2710, 4861 and 3810: 130 to 132 and 143 multicast listeners, 133 to 137 neighbours and routers.
    let local = |kind: Option<&u8>| matches!(kind, Some(130..=137 | 143));
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => packet[9] == IGMP,
        Some(6) if packet.len() >= 40 => match packet[6] {
            ICMP_V6 => local(packet.get(40)),
            HOP_BY_HOP if packet.get(40) == Some(&ICMP_V6) => {
                let options = packet.get(41).map_or(0, |units| (usize::from(*units) + 1) * 8);
                local(packet.get(40 + options))
            }
            _ => false,
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn housekeeping_packets_are_distinguished_from_traffic() {
        let v6 = |next: u8, rest: &[u8]| [&[0x60, 0, 0, 0, 0, 0, next][..], &[0; 33], rest].concat();
        let v4 = |protocol: u8| [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol][..], &[0; 10]].concat();
        for traffic in [v4(17), v4(6), v4(1), v6(17, &[]), v6(6, &[1]), v6(58, &[128]), v6(0, &[17, 0])] {
            assert!(!is_chatter(&traffic), "{traffic:?}");
        }
        // A listener report after a router-alert option, as the kernel sends it.
        let report = v6(0, &[58, 0, 5, 2, 0, 0, 1, 0, 143]);
        for chatter in [v4(2), v6(58, &[133]), v6(58, &[135]), report, vec![], vec![0x45; 19], vec![0x60; 39]]
        {
            assert!(is_chatter(&chatter), "{chatter:?}");
        }
    }
}
