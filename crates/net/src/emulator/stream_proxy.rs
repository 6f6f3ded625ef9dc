//! The link as a proxy for byte streams: the only way for TCP where namespaces are forbidden.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use antiphon_core::{Instant, Ratio, Rng};
use antiphon_link::{Counters, Direction, Duplex, DuplexSpec, Link, LinkSpec, LossModel};
use socket2::{Domain, Protocol, Socket, Type};

use super::EmulatorError;
use super::pool::{Pool, Pooled};
use super::reactor::{Ended, LISTEN, Proxy, Worker};
use crate::allow::AllowList;
use crate::clock::OsClock;
use crate::poll::Readiness;
use crate::realtime::Scheduling;
use crate::system::Poller;
use crate::system::libc;

/// How to run a [`StreamProxy`].
#[derive(Clone, Debug)]
pub struct StreamProxyConfig {
    /// Where clients connect to; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where their bytes are sent.
    pub target: SocketAddr,
    /// The link of each connection: *up* from client to target. See [`StreamProxy::limits`] for what is left out.
    pub link: DuplexSpec,
    /// Forked for each connection by its number.
    pub seed: u64,
    /// Connections at once; further ones are closed at once and counted.
    pub max_connections: usize,
    /// Ask for `SCHED_FIFO`.
    pub real_time: bool,
    /// Which clients may connect.
    pub allow: AllowList,
}

/// Counters of one connection, in chunks of at most one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionReport {
    /// Counts from 0 in the order of acceptance.
    pub connection: u64,
    /// Its address.
    pub client: SocketAddr,
    /// Client to target. Bytes include 40 for the headers of TCP and IP in each chunk; the last chunk is empty.
    pub up: Counters,
    /// Target to client.
    pub down: Counters,
    /// Whether it has ended.
    pub ended: bool,
}

/// Report of a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamReport {
    /// Open connections and the last 1024 that ended, by number.
    pub connections: Vec<ConnectionReport>,
    /// Connections refused because there were too many.
    pub refused: u64,
    /// What the kernel gave the thread.
    pub scheduling: Scheduling,
}

/// A running proxy. Dropping it stops it.
pub type StreamProxy = Proxy<StreamReport>;

impl StreamProxy {
    /// Binds and starts.
    pub fn start(mut config: StreamProxyConfig, clock: OsClock) -> Result<Self, EmulatorError> {
        config.link.up = reliable(config.link.up);
        config.link.down = reliable(config.link.down);
        config.link.up.validate()?;
        config.link.down.validate()?;
        let listen = TcpListener::bind(config.listen)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|error| EmulatorError::system(format!("cannot listen on {}", config.listen), error))?;
        let (local, real_time) = (listen.local_addr(), config.real_time);
        let build = move |poller: &Poller| Streams::new(config, listen, poller);
        Proxy::run("link-stream", local, clock, real_time, build)
    }

    /// What this kind of link cannot model; displayed with its figures.
    pub fn limits() -> &'static str {
        "byte-stream proxy: rate, queue, delay, jitter and stalls are modelled; loss, reordering, duplication and \
         corruption are not, since TCP ends at the proxy, so its retransmissions and congestion control never meet \
         the link; a full queue holds the sender back instead of dropping"
    }
}

/// The part of a link that is possible for a byte stream.
fn reliable(link: LinkSpec) -> LinkSpec {
    LinkSpec { loss: LossModel::None, reorder: None, duplicate: Ratio(0.0), corrupt: Ratio(0.0), ..link }
}

/// The payload of a TCP segment.
const CHUNK: usize = antiphon_core::wire::TCP_SEGMENT;
/// TCP and IPv4 headers without options.
const HEADERS: usize = 40;
/// Chunks read from one socket before the others have their turn.
const BATCH: usize = 16;

struct Connection {
    number: u64,
    client: SocketAddr,
    /// Client and target.
    sockets: [TcpStream; 2],
    link: Duplex<Pooled>,
    /// What each is watched for.
    watched: [Readiness; 2],
    /// Up (client to target) and down.
    halves: [Half; 2],
}

/// One direction of a connection.
#[derive(Default)]
struct Half {
    /// The sender has finished.
    ended: bool,
    /// The link has no room: the sender waits.
    blocked: bool,
    /// A chunk that crossed the link, and how many of its bytes are written.
    pending: Option<(Pooled, usize)>,
    /// The receiver was told of the end.
    finished: bool,
}

/// A connection that cannot go on.
struct Dead;

impl Connection {
    fn link(&mut self, half: usize) -> &mut Link<Pooled> {
        if half == 0 { &mut self.link.up } else { &mut self.link.down }
    }

    /// Reads what the link has room for.
    fn read(&mut self, half: usize, clock: &OsClock, pool: &Pool) -> Result<(), Dead> {
        let mut buffer = [0u8; CHUNK];
        for _ in 0..BATCH {
            if self.halves[half].ended {
                return Ok(());
            }
            let now = clock.now();
            if !self.link(half).has_room(now, CHUNK + HEADERS) {
                self.halves[half].blocked = true;
                return Ok(());
            }
            let len = match self.sockets[half].read(&mut buffer) {
                Ok(len) => len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Dead),
            };
            // An empty chunk marks the end of the stream and crosses the link like all before it. Beyond the memory
            // budget the connection is given up: its bytes cannot be dropped.
            let chunk = pool.packet(now, &buffer[..len], HEADERS).ok_or(Dead)?;
            self.halves[half].ended = len == 0;
            if self.link(half).offer(now, chunk).is_some() {
                return Err(Dead);
            }
        }
        Ok(())
    }

    /// Writes what has crossed the link, as far as the receiver takes it.
    fn write(&mut self, half: usize, now: Instant) -> Result<(), Dead> {
        loop {
            if self.halves[half].pending.is_none() {
                let Some(chunk) = self.link(half).poll(now) else {
                    return Ok(());
                };
                self.halves[half].pending = Some((chunk, 0));
            }
            let target = &mut self.sockets[1 - half];
            let Some((chunk, written)) = &mut self.halves[half].pending else {
                return Ok(());
            };
            if chunk.bytes().is_empty() {
                target.shutdown(Shutdown::Write).map_err(|_| Dead)?;
                self.halves[half].finished = true;
                self.halves[half].pending = None;
                return Ok(());
            }
            match target.write(&chunk.bytes()[*written..]) {
                Ok(len) => *written += len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Dead),
            }
            if *written == chunk.bytes().len() {
                self.halves[half].pending = None;
            }
        }
    }

    /// Moves what is due, and watches for what can continue.
    fn advance(&mut self, now: Instant, poller: &Poller) -> Result<(), Dead> {
        for half in 0..2 {
            self.write(half, now)?;
            if self.halves[half].blocked && self.link(half).has_room(now, CHUNK + HEADERS) {
                self.halves[half].blocked = false;
            }
        }
        for side in 0..2 {
            let wanted = Readiness {
                readable: !self.halves[side].ended && !self.halves[side].blocked,
                writable: self.halves[1 - side].pending.is_some(),
            };
            let (socket, token) = (&self.sockets[side], self.number * 2 + side as u64);
            // `epoll` reports a broken connection repeatedly even if nothing is asked for.
            match wanted {
                same if same == self.watched[side] => {}
                nothing if nothing == Readiness::default() => poller.forget(socket),
                _ => poller.watch(socket, token, wanted).map_err(|_| Dead)?,
            }
            self.watched[side] = wanted;
        }
        if self.halves.iter().all(|half| half.finished) { Err(Dead) } else { Ok(()) }
    }

    /// A half that waits for its receiver has no time-out.
    fn poll_timeout(&self) -> Option<Instant> {
        let links = Direction::ALL.map(|direction| self.link.direction(direction).poll_timeout());
        let waiting = |half: &Half| half.pending.is_some();
        links.into_iter().zip(&self.halves).filter_map(|(due, half)| due.filter(|_| !waiting(half))).min()
    }

    fn report(&self, ended: bool) -> ConnectionReport {
        ConnectionReport {
            connection: self.number,
            client: self.client,
            up: self.link.up.counters(),
            down: self.link.down.counters(),
            ended,
        }
    }
}

struct Streams {
    config: StreamProxyConfig,
    listen: TcpListener,
    connections: BTreeMap<u64, Connection>,
    ended: Ended<ConnectionReport>,
    next: u64,
    refused: u64,
    pool: Pool,
}

impl Streams {
    fn new(config: StreamProxyConfig, listen: TcpListener, poller: &Poller) -> std::io::Result<Self> {
        poller.watch(&listen, LISTEN, Readiness::READABLE)?;
        Ok(Streams {
            config,
            listen,
            connections: BTreeMap::new(),
            ended: Ended::new(),
            next: 0,
            refused: 0,
            pool: Pool::new(),
        })
    }

    fn accept(&mut self, poller: &Poller) {
        while let Ok((socket, client)) = self.listen.accept() {
            if !self.config.allow.takes(client.ip()) {
                continue;
            }
            let room = self.connections.len() < self.config.max_connections;
            match room.then(|| self.open(socket, client, poller)) {
                Some(Ok(())) => {}
                _ => self.refused += 1,
            }
        }
    }

    fn open(&mut self, socket: TcpStream, client: SocketAddr, poller: &Poller) -> std::io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let target = Socket::new(Domain::for_address(self.config.target), Type::STREAM, Some(Protocol::TCP))?;
        target.set_nonblocking(true)?;
        target.set_tcp_nodelay(true)?;
        match target.connect(&self.config.target.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let seed = Rng::fork(self.config.seed, &format!("flow {}", self.next)).next_u64();
        let link = Duplex::new(&self.config.link, seed).map_err(std::io::Error::other)?;
        let sockets = [socket, target.into()];
        for (side, socket) in (0..).zip(&sockets) {
            poller.watch(socket, self.next * 2 + side, Readiness::READABLE)?;
        }
        let connection = Connection {
            number: self.next,
            client,
            sockets,
            watched: [Readiness::READABLE; 2],
            link,
            halves: Default::default(),
        };
        self.connections.insert(self.next, connection);
        self.next += 1;
        Ok(())
    }

    fn end(&mut self, number: u64, poller: &Poller) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        for side in 0..2 {
            poller.forget_closed(number * 2 + side);
        }
        self.ended.push(connection.report(true));
    }
}

impl Worker for Streams {
    type Report = StreamReport;

    fn ready(&mut self, clock: &OsClock, poller: &Poller, token: u64) {
        if token == LISTEN {
            return self.accept(poller);
        }
        let (number, side) = (token / 2, (token % 2) as usize);
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.read(side, clock, &self.pool).is_err() {
            self.end(number, poller);
        }
    }

    fn advance(&mut self, clock: &OsClock, poller: &Poller) {
        let now = clock.now();
        let dead: Vec<u64> = self
            .connections
            .values_mut()
            .filter_map(|connection| connection.advance(now, poller).is_err().then_some(connection.number))
            .collect();
        dead.into_iter().for_each(|number| self.end(number, poller));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.values().filter_map(Connection::poll_timeout).min()
    }

    fn report(&mut self, scheduling: Scheduling) -> StreamReport {
        let running = self.connections.values().map(|connection| connection.report(false));
        let connections = self.ended.with(running, |connection| connection.connection);
        StreamReport { connections, refused: self.refused, scheduling }
    }
}
