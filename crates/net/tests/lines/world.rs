//! Common parts of the tests of lines: a participant that records, lines run by hand, an echo on a thread, private
//! namespaces.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{
    BrokenReason, CloseMode, Endpoint, Event, Input, Instant, Message, OneWire, Outcome, PathId, Role, Tag,
    Transmit, WireId,
};
use antiphon_net::emulator::{Lane, LaneConfig, Router, RouterConfig};
use antiphon_net::netns::{Means, Namespace, probe};
use antiphon_net::{
    DriveOptions, DriveReport, Line, LineStats, Lines, OsClock, SocketOptions, Stop, TcpLine, TcpListening,
    UdpLine, Wait, drive, round,
};
use antiphon_testkit::{Served, skip_without_namespace};

use crate::party::{WIRE, reflector, round_one, stack};

/// No test here waits for anything longer than this.
pub const LIMIT: Duration = Duration::from_secs(10);

/// An endpoint of that transport which takes messages up to `max_datagram`.
pub fn endpoint(scheme: &str, role: Role, now: Instant, max_datagram: usize) -> Box<dyn Endpoint> {
    stack(scheme, 1, max_datagram).open(now, role)
}

/// A message that looks like RTP, contains its number and is filled so that truncation or mixing is noticed.
pub fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (number as usize * 31 + i) as u8).collect();
    bytes[0] = 0x80;
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub fn number(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[4..8].try_into().expect("four bytes"))
}

/// A participant with only its endpoint: sends given messages, stores all received ones.
pub struct Party {
    pub endpoint: Box<dyn Endpoint>,
    pub outbox: VecDeque<(Vec<u8>, Option<Instant>)>,
    pub messages: Vec<Vec<u8>>,
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
            messages: Vec::new(),
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

impl OneWire for Party {
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
            if self.endpoint.send(now, Message::new(Tag::NONE, bytes, *deadline)).is_err() {
                break;
            }
            self.outbox.pop_front();
        }
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            self.messages.push(self.buf[..received.len].to_vec());
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => self.connected += 1,
                Event::Broken(reason) => self.broken.push((now, reason)),
                Event::Outcome { outcome, .. } => self.outcomes.push(outcome),
                Event::Closed(_) => self.finished = true,
                _ => {}
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

    pub fn send(&mut self, message: Vec<u8>) {
        self.party.outbox.push_back((message, None));
    }

    pub fn turn(&mut self, clock: &OsClock) {
        let wait = Wait::For(Duration::from_micros(200));
        round_one(&mut *self.line, &mut self.party, clock, wait).expect("the line lives");
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

/// The wire of a [`Host`]'s connection.
pub const ACCEPTED: WireId = Served::<Party>::WIRE;

/// A party that is called over TCP, one connection at a time, run by hand.
pub struct Host {
    pub lines: Lines<'static>,
    served: Served<Party>,
}

impl Host {
    pub fn new(listening: TcpListening, clock: &OsClock) -> Self {
        let mut lines = Lines::new();
        lines.listen(WIRE, listening).expect("it is the first");
        let party = Party::new(endpoint("tcp", Role::Listener, clock.now(), 1_452));
        Host { lines, served: Served::new(party) }
    }

    pub fn party(&mut self) -> &mut Party {
        self.served.get_mut()
    }

    pub fn stats(&self) -> LineStats {
        self.lines.stats(WIRE).expect("it listens")
    }

    pub fn address(&self) -> SocketAddr {
        self.lines.local_address(WIRE).expect("it listens")
    }

    pub fn turn(&mut self, clock: &OsClock) {
        let wait = Wait::For(Duration::from_micros(200));
        round(&mut self.lines, &mut self.served, clock, wait).expect("the lines live");
    }

    /// Runs until `done`, or fails naming what was waited for.
    pub fn until(&mut self, clock: &OsClock, what: &str, mut done: impl FnMut(&mut Host) -> bool) {
        let start = clock.now();
        while !done(self) {
            self.turn(clock);
            assert!(clock.now().since(start) < LIMIT, "waiting for {what}: {:?}", self.stats());
        }
    }
}

/// A reflector, driven on a thread of its own.
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
            let mut lines = listening(scheme, local);
            let mut reflector = reflector(stack(scheme, 1, 1_452), 4, clock.now());
            tell.send(lines.local_address(WIRE).expect("it is there")).expect("the test waits");
            let report = drive(&mut lines, &mut reflector, &clock, &asked, options).expect("the line lives");
            (report, lines.stats(WIRE).expect("it is there"))
        });
        let address = told.recv().expect("the echo opens");
        Echo { address, stop, thread: Some(thread) }
    }

    /// Stops it in order.
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

fn listening(scheme: &str, local: SocketAddr) -> Lines<'static> {
    let (options, mut lines) = (SocketOptions::default(), Lines::new());
    if scheme == "tcp" {
        let listening = TcpListening::bind(local, &options).expect("a free port");
        lines.listen(WIRE, listening).expect("it is the first");
    } else {
        let line = UdpLine::listen(local, &options).expect("a free port");
        lines.add(WIRE, Box::new(line)).expect("it is the first");
    }
    lines
}

pub fn local(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

/// Two namespaces joined by a link, or `None` with a remark where this user may have none.
pub fn lane(link: &str, seed: u64) -> Option<(Router, Lane)> {
    let means = match probe() {
        Means::Forbidden(reason) => {
            skip_without_namespace(&reason);
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

/// A namespace with nothing but loopback, or `None` with a remark where this user may have none.
pub fn private() -> Option<Namespace> {
    Namespace::private().map_err(|error| skip_without_namespace(&error)).ok()
}
