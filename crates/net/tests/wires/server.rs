//! A participant of many wires that returns what it receives, driven on a thread of its own; and its clients.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{BrokenReason, Input, Instant, Participant, PathId, Transmit, WireId};
use antiphon_net::{
    DriveOptions, DriveReport, Lines, OsClock, SocketOptions, Stop, TcpListening, UdpLine, drive,
};

/// No test here waits for anything longer than this.
pub const LIMIT: Duration = Duration::from_secs(20);
/// The listening socket's wire.
pub const LISTENER: WireId = WireId(0);
/// The first wire of a connection that is accepted.
pub const FIRST: u32 = 100;

/// Message with which a connection has the first one's wire closed.
pub const CLOSE_THE_FIRST: &[u8] = b"close the first";

/// Bytes that wait to be sent on a wire, and its state.
#[derive(Default)]
pub struct Wire {
    out: VecDeque<(PathId, Vec<u8>)>,
    pub connected: u32,
    pub reports: u32,
    pub broken: Vec<BrokenReason>,
}

/// Returns what it receives, on the same wire.
#[derive(Default)]
pub struct Server {
    pub wires: BTreeMap<WireId, Wire>,
    /// The most connections that it accepts.
    pub most: usize,
    pub accepted: u32,
    pub refused: u32,
    /// Bytes sent to each new connection, after which its wire is closed; received bytes are not returned then.
    last_bytes: usize,
    ready: VecDeque<WireId>,
    closes: VecDeque<WireId>,
    stopped: bool,
}

impl Server {
    pub fn taking(most: usize) -> Self {
        Server { most, ..Server::default() }
    }

    /// A server that sends `last_bytes` bytes to each new connection, and closes its wire after them.
    pub fn sending_then_closing(last_bytes: usize) -> Self {
        Server { most: 2, last_bytes, ..Server::default() }
    }

    fn queue(&mut self, wire: WireId, path: PathId, bytes: Vec<u8>) {
        self.wires.entry(wire).or_default().out.push_back((path, bytes));
        self.ready.push_back(wire);
    }

    fn is_there(&self, wire: WireId) -> bool {
        self.wires.get(&wire).is_some_and(|wire| wire.broken.is_empty())
    }
}

impl Participant for Server {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        let entry = self.wires.entry(wire).or_default();
        match input {
            Input::Datagram { path, bytes, received_at, .. } => {
                assert!(received_at <= now);
                let bytes = bytes.to_vec();
                self.queue(wire, path, bytes);
            }
            Input::Stream { bytes, received_at } => {
                assert!(received_at <= now);
                if bytes == CLOSE_THE_FIRST {
                    self.closes.push_back(WireId(FIRST));
                }
                if self.last_bytes == 0 {
                    let bytes = bytes.to_vec();
                    self.queue(wire, PathId::default(), bytes);
                }
            }
            Input::Connected => {
                entry.connected += 1;
                if self.last_bytes > 0 {
                    self.queue(wire, PathId::default(), pattern(self.last_bytes));
                }
            }
            Input::Broken(reason) => {
                entry.broken.push(reason);
                // A wire that calls reconnects.
                if wire.0 >= FIRST {
                    self.closes.push_back(wire);
                }
            }
            Input::MaxDatagram(_) => {}
            Input::Report(_) => entry.reports += 1,
            Input::Accepted { .. } => {}
        }
    }

    fn accept(&mut self, _now: Instant, listener: WireId) -> Option<WireId> {
        assert_eq!(listener, LISTENER);
        let there = (FIRST..FIRST + self.accepted).filter(|wire| self.is_there(WireId(*wire))).count();
        if there >= self.most {
            self.refused += 1;
            return None;
        }
        let wire = WireId(FIRST + self.accepted);
        self.accepted += 1;
        self.wires.insert(wire, Wire::default());
        Some(wire)
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_ready(&mut self) -> Option<WireId> {
        self.ready.pop_front()
    }

    fn poll_transmit(&mut self, _now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let out = &mut self.wires.get_mut(&wire)?.out;
        let (path, bytes) = out.front_mut()?;
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        let path = *path;
        bytes.drain(..len);
        if bytes.is_empty() {
            out.pop_front();
            if self.last_bytes > 0 && out.is_empty() {
                self.closes.push_back(wire);
            }
        }
        Some(Transmit { path, len })
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.closes.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn knows(&self, _wire: WireId, _path: PathId) -> bool {
        true
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, _now: Instant) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.stopped
    }
}

/// Final state of a server.
pub struct Left {
    pub server: Server,
    pub report: DriveReport,
    pub wires: Vec<WireId>,
    /// Connections refused at the listening socket.
    pub turned_away: u64,
}

/// A server with a listening socket and a UDP wire, on its thread.
pub struct Running {
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Left>>,
}

/// The wire of datagrams.
pub const DATAGRAMS: WireId = WireId(1);

impl Running {
    pub fn start(server: Server) -> Self {
        Self::start_with(server, SocketOptions::default(), |_| {})
    }

    /// `prepare` is called on the thread before it drives.
    pub fn start_with(
        mut server: Server,
        options: SocketOptions,
        prepare: impl FnOnce(&mut Lines<'static>) + Send + 'static,
    ) -> Self {
        let (tell, told) = mpsc::channel();
        let stop = Stop::new();
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let local = ([127, 0, 0, 1], 0).into();
            let mut lines = Lines::new();
            let listening = TcpListening::bind(local, &options).expect("a free port");
            let udp = UdpLine::listen(local, &options).expect("a free port");
            lines.listen(LISTENER, listening).expect("the first");
            lines.add(DATAGRAMS, Box::new(udp)).expect("the second");
            prepare(&mut lines);
            let address = |wire| lines.local_address(wire).expect("it is there");
            tell.send((address(LISTENER), address(DATAGRAMS))).expect("the test waits");
            let clock = OsClock::new();
            let options = DriveOptions::default();
            let report = drive(&mut lines, &mut server, &clock, &asked, options).expect("it goes on");
            let turned_away = lines.stats(LISTENER).map_or(0, |stats| stats.unknown_sources);
            assert!(lines.failures().is_empty(), "{:?}", lines.failures());
            Left { server, report, wires: lines.wires().collect(), turned_away }
        });
        let (tcp, udp) = told.recv().expect("the server opens");
        Running { tcp, udp, stop, thread: Some(thread) }
    }

    /// Ends it in order.
    pub fn stop(mut self) -> Left {
        self.stop.ask();
        self.thread.take().expect("not yet joined").join().expect("no panic")
    }

    pub fn call(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream.set_write_timeout(Some(LIMIT)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    pub fn datagrams(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(self.udp).expect("loopback");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        socket
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.ask();
    }
}

/// Bytes whose values show their positions.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

/// Sent bytes are returned.
pub fn echoes(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("a connection");
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("it comes back");
    assert!(back == bytes);
}

/// The connection ends with nothing more to read.
pub fn has_ended(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 8]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
