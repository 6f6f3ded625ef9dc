//! The link as a proxy for datagrams: needs no privilege, carries one UDP service.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::wire::{UDP_IPV4_HEADERS, UDP_IPV6_HEADERS};
use antiphon_core::{Instant, Rng};
use antiphon_link::{Counters, Direction, Duplex, DuplexSpec};
use socket2::{Domain, Protocol, Socket, Type};

use super::EmulatorError;
use super::pool::{Pool, Pooled};
use super::reactor::{Ended, LISTEN, Proxy, Worker};
use crate::address::any_for;
use crate::allow::AllowList;
use crate::clock::OsClock;
use crate::poll::Readiness;
use crate::realtime::Scheduling;
use crate::system::Poller;

/// How to run a [`UdpProxy`].
#[derive(Clone, Debug)]
pub struct UdpProxyConfig {
    /// Where clients send to; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where their datagrams are sent.
    pub target: SocketAddr,
    /// The link of each flow: *up* from client to target.
    pub link: DuplexSpec,
    /// Forked for each flow by its number, in the order in which they appear.
    pub seed: u64,
    /// Flows at once; datagrams of further clients are dropped and counted.
    pub max_flows: usize,
    /// A flow without datagrams for this long is forgotten.
    pub idle: Duration,
    /// Ask for `SCHED_FIFO`.
    pub real_time: bool,
    /// Which clients may send.
    pub allow: AllowList,
}

impl UdpProxyConfig {
    /// With 64 flows at once, and a minute of silence until one is forgotten.
    pub fn new(listen: SocketAddr, target: SocketAddr, link: DuplexSpec, seed: u64) -> Self {
        UdpProxyConfig {
            listen,
            target,
            link,
            seed,
            max_flows: 64,
            idle: Duration::from_secs(60),
            real_time: false,
            allow: AllowList::default(),
        }
    }
}

/// Counters of one client's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// Counts from 0 in the order in which clients appeared.
    pub flow: u64,
    /// Its address.
    pub client: SocketAddr,
    /// Client to target. Bytes include the UDP and IP headers.
    pub up: Counters,
    /// Target to client.
    pub down: Counters,
    /// Datagrams that crossed the link and that the kernel refused to send.
    pub unsent: u64,
    /// Whether it has been forgotten.
    pub ended: bool,
    /// The datagram from client to target that took longest since the last report; `None` if none crossed.
    pub slowest: Option<Slowest>,
}

/// A datagram that took longer than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slowest {
    /// When it came to the link, on the clock of the proxy.
    pub came: Instant,
    /// How long the model kept it: propagation, jitter, queue.
    pub in_link: Duration,
    /// How long after that it was handed on: the proxy's thread was not run in time.
    pub held_up: Duration,
}

impl Slowest {
    fn of(came: Instant, arrived: Instant, now: Instant) -> Self {
        Slowest { came, in_link: arrived.since(came), held_up: now.since(arrived) }
    }

    /// The one that took longer.
    pub fn or(self, other: Option<Self>) -> Self {
        other.filter(|other| other.in_link + other.held_up > self.in_link + self.held_up).unwrap_or(self)
    }
}

/// Report of a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpReport {
    /// Current flows and the last 1024 that ended, by number.
    pub flows: Vec<FlowReport>,
    /// Datagrams of clients refused because there were too many.
    pub refused: u64,
    /// Datagrams refused because the memory for packets in flight was used up; they never reached a link.
    pub over_budget: u64,
    /// What the kernel gave the thread.
    pub scheduling: Scheduling,
}

/// A running proxy. Dropping it stops it.
pub type UdpProxy = Proxy<UdpReport>;

impl UdpProxy {
    /// Binds and starts.
    pub fn start(config: UdpProxyConfig, clock: OsClock) -> Result<Self, EmulatorError> {
        config.link.up.validate()?;
        config.link.down.validate()?;
        let listen = open(config.listen)
            .map_err(|error| EmulatorError::system(format!("cannot listen on {}", config.listen), error))?;
        let (local, real_time) = (listen.local_addr(), config.real_time);
        let build = move |poller: &Poller| Forwarder::new(config, listen, poller);
        Proxy::run("link-udp", local, clock, real_time, build)
    }
}

struct Flow {
    number: u64,
    client: SocketAddr,
    /// Connected to the target: it receives only from there.
    socket: UdpSocket,
    link: Duplex<Pooled>,
    last_use: Instant,
    unsent: u64,
    slowest: Option<Slowest>,
}

impl Flow {
    fn report(&mut self, ended: bool) -> FlowReport {
        FlowReport {
            flow: self.number,
            client: self.client,
            up: self.link.up.counters(),
            down: self.link.down.counters(),
            unsent: self.unsent,
            ended,
            slowest: self.slowest.take(),
        }
    }
}

struct Forwarder {
    config: UdpProxyConfig,
    listen: UdpSocket,
    /// By number, which is also the token of the flow's socket.
    flows: BTreeMap<u64, Flow>,
    by_client: BTreeMap<SocketAddr, u64>,
    ended: Ended<FlowReport>,
    next_flow: u64,
    next_sweep: Instant,
    refused: u64,
    over_budget: u64,
    pool: Pool,
    buffer: Box<[u8; MAX_DATAGRAM]>,
}

const MAX_DATAGRAM: usize = 65_536;
/// Datagrams read from one socket before the others have their turn.
const BATCH: usize = 64;

impl Forwarder {
    fn new(config: UdpProxyConfig, listen: UdpSocket, poller: &Poller) -> std::io::Result<Self> {
        poller.watch(&listen, LISTEN, Readiness::READABLE)?;
        Ok(Forwarder {
            listen,
            flows: BTreeMap::new(),
            by_client: BTreeMap::new(),
            ended: Ended::new(),
            next_flow: 0,
            next_sweep: Instant::ZERO + config.idle,
            refused: 0,
            over_budget: 0,
            pool: Pool::new(),
            buffer: Box::new([0; MAX_DATAGRAM]),
            config,
        })
    }

    fn read_clients(&mut self, clock: &OsClock, poller: &Poller) {
        for _ in 0..BATCH {
            let (len, client) = match self.listen.recv_from(&mut self.buffer[..]) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // An ICMP error of a client that has gone: the next read is independent of it.
                Err(_) => continue,
            };
            if !self.config.allow.takes(client.ip()) {
                continue;
            }
            let now = clock.now();
            let Some(number) = self.flow_of(client, now, poller) else {
                self.refused += 1;
                continue;
            };
            self.offer(number, now, Direction::Up, len);
        }
    }

    fn read_target(&mut self, clock: &OsClock, number: u64) {
        for _ in 0..BATCH {
            let Some(flow) = self.flows.get_mut(&number) else {
                return;
            };
            match flow.socket.recv(&mut self.buffer[..]) {
                Ok(len) => self.offer(number, clock.now(), Direction::Down, len),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // Port unreachable: no socket is bound at the target yet.
                Err(_) => {}
            }
        }
    }

    fn offer(&mut self, number: u64, now: Instant, direction: Direction, len: usize) {
        let Some(flow) = self.flows.get_mut(&number) else {
            return;
        };
        flow.last_use = now;
        let overhead = headers(&flow.client);
        match self.pool.packet(now, &self.buffer[..len], overhead) {
            // A packet that the queue refuses is dropped here, and counted by the link.
            Some(packet) => drop(flow.link.offer(now, direction, packet)),
            None => self.over_budget += 1,
        }
    }

    /// The number of the client's flow, which is created here if there is room.
    fn flow_of(&mut self, client: SocketAddr, now: Instant, poller: &Poller) -> Option<u64> {
        if let Some(number) = self.by_client.get(&client) {
            return Some(*number);
        }
        if self.flows.len() >= self.config.max_flows {
            return None;
        }
        let number = self.next_flow;
        let seed = Rng::fork(self.config.seed, &format!("flow {number}")).next_u64();
        let socket = open(any_for(self.config.target)).ok()?;
        socket.connect(self.config.target).ok()?;
        poller.watch(&socket, number, Readiness::READABLE).ok()?;
        let flow = Flow {
            number,
            client,
            socket,
            link: Duplex::new(&self.config.link, seed).ok()?,
            last_use: now,
            unsent: 0,
            slowest: None,
        };
        self.next_flow += 1;
        self.flows.insert(number, flow);
        self.by_client.insert(client, number);
        Some(number)
    }

    fn sweep(&mut self, now: Instant, poller: &Poller) {
        if now < self.next_sweep {
            return;
        }
        let idle = self.config.idle;
        self.next_sweep = now + idle / 4 + Duration::from_millis(1);
        let is_idle = |flow: &Flow| now.since(flow.last_use) >= idle && flow.link.poll_timeout().is_none();
        for (_, mut flow) in self.flows.extract_if(.., |_, flow| is_idle(flow)) {
            poller.forget(&flow.socket);
            self.by_client.remove(&flow.client);
            self.ended.push(flow.report(true));
        }
    }
}

impl Worker for Forwarder {
    type Report = UdpReport;

    fn ready(&mut self, clock: &OsClock, poller: &Poller, token: u64) {
        match token {
            LISTEN => self.read_clients(clock, poller),
            number => self.read_target(clock, number),
        }
    }

    fn advance(&mut self, clock: &OsClock, poller: &Poller) {
        let now = clock.now();
        for flow in self.flows.values_mut() {
            while let Some((arrived, direction, packet)) = flow.link.poll_at(now) {
                if direction == Direction::Up {
                    flow.slowest = Some(Slowest::of(packet.came(), arrived, now).or(flow.slowest));
                }
                let sent = match direction {
                    Direction::Up => flow.socket.send(packet.bytes()),
                    Direction::Down => self.listen.send_to(packet.bytes(), flow.client),
                };
                // An earlier datagram was refused because no socket was bound: the kernel reports this once and did not
                // send this one.
                let sent = match (sent, direction) {
                    (Err(error), Direction::Up) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                        flow.socket.send(packet.bytes())
                    }
                    (sent, _) => sent,
                };
                flow.unsent += u64::from(sent.is_err());
            }
        }
        self.sweep(now, poller);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sweep = (!self.flows.is_empty()).then_some(self.next_sweep);
        let links = self.flows.values().filter_map(|flow| flow.link.poll_timeout());
        links.chain(sweep).min()
    }

    fn report(&mut self, scheduling: Scheduling) -> UdpReport {
        let running = self.flows.values_mut().map(|flow| flow.report(false));
        let flows = self.ended.with(running, |flow| flow.flow);
        UdpReport { flows, refused: self.refused, over_budget: self.over_budget, scheduling }
    }
}

/// Bytes of the UDP and IP headers, which the link carries, too.
fn headers(client: &SocketAddr) -> usize {
    if client.is_ipv4() { UDP_IPV4_HEADERS } else { UDP_IPV6_HEADERS }
}

/// A non-blocking socket with as large buffers as the kernel permits, so that a burst waits instead of being lost
/// uncounted.
fn open(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Limited by net.core.rmem_max and wmem_max; whatever is granted is sufficient to run.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

const SOCKET_BUFFER: usize = 4 << 20;
