//! What the tests of lines share: a station that records, lines run by hand, an echo on a thread, private namespaces.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{
    BrokenReason, CloseMode, Endpoint, Event, Frame, Input, Instant, Outcome, PathId, Transmit,
};
use antiphon_net::emulator::{Lane, LaneConfig, Router, RouterConfig};
use antiphon_net::netns::{Means, Namespace, probe};
use antiphon_net::{
    DriveOptions, DriveReport, Line, LineStats, OsClock, SocketOptions, Stop, TcpLine, UdpLine, Wait, drive,
};
use antiphon_proto::{OpenArgs, Role, find};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

/// No test here waits for anything longer than this.
pub const LIMIT: Duration = Duration::from_secs(10);

/// An endpoint of that transport which takes frames up to `max_datagram`.
pub fn endpoint(scheme: &str, role: Role, now: Instant, max_datagram: usize) -> Box<dyn Endpoint> {
    let (query, latency) = (Query::default(), Duration::from_millis(80));
    let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram, latency };
    (find(scheme).expect("known").open)(&args).expect("defaults open")
}

/// A frame that looks like RTP, carries its number and is filled so that a cut or a mixture shows.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (number as usize * 31 + i) as u8).collect();
    bytes[0] = 0x80;
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[4..8].try_into().expect("four bytes"))
}

/// A station with nothing above its endpoint: sends what it is given, keeps all that comes.
pub struct Party {
    pub endpoint: Box<dyn Endpoint>,
    pub outbox: VecDeque<(Vec<u8>, Option<Instant>)>,
    pub frames: Vec<Vec<u8>>,
    pub paths: Vec<PathId>,
    pub outcomes: Vec<Outcome>,
    pub broken: Vec<(Instant, BrokenReason)>,
    pub connected: u32,
    /// The oldest age of an input when it was handed over.
    pub oldest: Duration,
    pub finished: bool,
    buf: Vec<u8>,
}

impl Party {
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        Party {
            endpoint,
            outbox: VecDeque::new(),
            frames: Vec::new(),
            paths: Vec::new(),
            outcomes: Vec::new(),
            broken: Vec::new(),
            connected: 0,
            oldest: Duration::ZERO,
            finished: false,
            buf,
        }
    }

    pub fn expired(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Expired { .. })).count()
    }
}

impl Station for Party {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { received_at, .. } | Input::Stream { received_at, .. } = input {
            assert!(received_at <= now, "received at {received_at:?}, after {now:?}");
            self.oldest = self.oldest.max(now.since(received_at));
        }
        if let Input::Datagram { path, .. } = input {
            self.paths.push(path);
        }
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some((bytes, deadline)) = self.outbox.front() {
            if self.endpoint.send(now, Frame::new(bytes, *deadline)).is_err() {
                break;
            }
            self.outbox.pop_front();
        }
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            self.frames.push(self.buf[..received.len].to_vec());
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => self.connected += 1,
                Event::Broken(reason) => self.broken.push((now, reason)),
                Event::Frame { outcome, .. } => self.outcomes.push(outcome),
                Event::Closed(_) => self.finished = true,
                Event::Congestion(_) | Event::Writable => {}
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.endpoint.close(now, CloseMode::Graceful);
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn knows(&self, _path: PathId) -> bool {
        false
    }
}

/// A party on its line, run by hand.
pub struct Node {
    pub line: Box<dyn Line>,
    pub party: Party,
}

impl Node {
    pub fn udp(line: UdpLine, clock: &OsClock) -> Self {
        Node { line: Box::new(line), party: Party::new(endpoint("rtp", Role::Caller, clock.now(), 9_000)) }
    }

    pub fn tcp(line: TcpLine, clock: &OsClock) -> Self {
        Node { line: Box::new(line), party: Party::new(endpoint("tcp", Role::Caller, clock.now(), 1_452)) }
    }

    pub fn send(&mut self, frame: Vec<u8>) {
        self.party.outbox.push_back((frame, None));
    }

    pub fn turn(&mut self, clock: &OsClock) {
        let wait = Wait::For(Duration::from_micros(200));
        self.line.receive(clock, &mut self.party, wait).expect("the line lives");
        self.party.advance(clock.now());
        self.line.transmit(clock.now(), &mut self.party).expect("the line lives");
        self.party.advance(clock.now());
    }

    /// Runs until `done`, or fails naming what was waited for.
    pub fn until(&mut self, clock: &OsClock, what: &str, mut done: impl FnMut(&Node) -> bool) {
        let start = clock.now();
        while !done(self) {
            self.turn(clock);
            assert!(clock.now().since(start) < LIMIT, "waiting for {what}: {:?}", self.line.stats());
        }
    }

    /// Runs for a stretch of time.
    pub fn run_for(&mut self, clock: &OsClock, time: Duration) {
        let start = clock.now();
        while clock.now().since(start) < time {
            self.turn(clock);
        }
    }
}

/// Reflectors behind a hub (UDP), or one (TCP), driven on a thread of their own.
pub struct Echo {
    pub address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<(DriveReport, LineStats)>>,
}

impl Echo {
    pub fn start(scheme: &'static str, local: SocketAddr, options: DriveOptions) -> Self {
        let stop = Stop::new();
        let asked = stop.clone();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let clock = OsClock::new();
            let (mut line, mut station) = reflecting(scheme, local, clock.now());
            tell.send(line.local_address()).expect("the test waits");
            let report = drive(&mut *line, &mut *station, &clock, &asked, options).expect("the line lives");
            (report, line.stats())
        });
        let address = told.recv().expect("the echo opens");
        Echo { address, stop, thread: Some(thread) }
    }

    /// Ends it in order.
    pub fn stop(mut self) -> (DriveReport, LineStats) {
        self.stop.ask();
        self.thread.take().expect("not yet joined").join().expect("no panic")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.ask();
    }
}

fn reflecting(scheme: &'static str, local: SocketAddr, now: Instant) -> (Box<dyn Line>, Box<dyn Station>) {
    let (options, config) = (SocketOptions::default(), ReflectorConfig::default());
    let reflector =
        move |now: Instant| Reflector::new(endpoint(scheme, Role::Listener, now, 1_452), config.clone());
    if scheme == "tcp" {
        let line = TcpLine::listen(local, &options).expect("a free port");
        return (Box::new(line), Box::new(reflector(now)));
    }
    let admits = find(scheme).expect("known").admits;
    let hub = HubConfig { max_peers: 4, idle: Duration::from_secs(10), admits };
    let line = UdpLine::listen(local, &options).expect("a free port");
    let keeper = endpoint(scheme, Role::Listener, now, 1_452).doorkeeper(now);
    let hub = Hub::new(hub, Box::new(move |now, _| reflector(now))).with_doorkeeper(keeper);
    (Box::new(line), Box::new(hub))
}

pub fn local(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

/// Two namespaces joined by a link, or `None` with a remark where this machine allows none.
pub fn lane(link: &str, seed: u64) -> Option<(Router, Lane)> {
    let means = match probe() {
        Means::Forbidden(reason) => {
            println!("skipped: {reason}");
            return None;
        }
        means => means,
    };
    let lanes = vec![LaneConfig::private(link.parse().expect("a possible link"), seed)];
    let config = RouterConfig { lanes, means: Some(means), real_time: false };
    let router = Router::start(config, OsClock::new()).expect("means were probed");
    let lane = router.lanes()[0].clone();
    Some((router, lane))
}

/// A namespace with nothing but loopback, or `None` with a remark.
pub fn private() -> Option<Namespace> {
    Namespace::private().map_err(|error| println!("skipped: {error}")).ok()
}
