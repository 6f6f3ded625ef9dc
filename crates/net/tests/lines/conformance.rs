//! Requirements on every line, whatever socket it is: one suite, run for each kind, alone on its thread and beside
//! another.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    BrokenReason, Input, Instant, OneWire, OverIp, PathId, Single, Transmit, WireId, WireView, Wires,
    first_ports,
};
use antiphon_net::{
    IDLE, Line, LineObserver, Lines, OsClock, RawLine, SocketOptions, TcpLine, TcpListening, UdpLine, Wait,
    Waker, round,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::world::{ACCEPTED, Host, LIMIT, local, private};

/// A line, and its other end.
struct Pair {
    line: Box<dyn Line>,
    far: Box<dyn Far>,
    /// The line speaks first.
    calls: bool,
    /// The line is told when the peer has gone.
    told: bool,
}

/// The other end of a line, by plain system calls.
trait Far {
    fn send(&mut self, message: &[u8]);
    /// The next message.
    fn receive(&mut self) -> Vec<u8>;
}

impl Far for UdpSocket {
    fn send(&mut self, message: &[u8]) {
        UdpSocket::send(self, message).expect("loopback");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut buf = [0; 2 * LEN];
        let len = self.recv(&mut buf).expect("it comes");
        buf[..len].to_vec()
    }
}

impl Far for TcpStream {
    fn send(&mut self, message: &[u8]) {
        self.write_all(message).expect("a connection");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut buf = [0; LEN];
        self.read_exact(&mut buf).expect("it comes");
        buf.to_vec()
    }
}

/// A raw socket, which gives the IP header as well.
struct RawFar(Socket);

impl Far for RawFar {
    fn send(&mut self, message: &[u8]) {
        self.0.send(message).expect("loopback");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut buf = [0; 2 * LEN];
        let len = (&self.0).read(&mut buf).expect("it comes");
        buf[20..len].to_vec()
    }
}

fn udp_call(host: &str) -> Pair {
    let far = UdpSocket::bind(host).expect("loopback");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    let line = UdpLine::call(far.local_addr().expect("bound"), &SocketOptions::default()).expect("loopback");
    far.connect(line.local_address()).expect("loopback");
    Pair { line: Box::new(line), far: Box::new(far), calls: true, told: true }
}

fn udp_listen(host: &str) -> Pair {
    let line = UdpLine::listen(local(host), &SocketOptions::default()).expect("a free port");
    let far = UdpSocket::bind(host).expect("loopback");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    far.connect(line.local_address()).expect("loopback");
    Pair { line: Box::new(line), far: Box::new(far), calls: false, told: false }
}

fn tcp_call(host: &str) -> Pair {
    let listener = TcpListener::bind(host).expect("loopback");
    let to = listener.local_addr().expect("bound");
    let line = TcpLine::call(to, &SocketOptions::default()).expect("it listens");
    let (far, _) = listener.accept().expect("the call");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    Pair { line: Box::new(line), far: Box::new(far), calls: true, told: true }
}

fn tcp_accepted(host: &str) -> Pair {
    let listening = TcpListening::bind(local(host), &SocketOptions::default()).expect("a free port");
    let far = TcpStream::connect(listening.local_address()).expect("it listens");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    let clock = OsClock::new();
    let mut host = Host::new(listening, &clock);
    let accepted = |host: &mut Host| host.lines.line(ACCEPTED).is_some();
    host.until(&clock, "the call", accepted);
    let line = host.lines.take(ACCEPTED).expect("it was there");
    Pair { line, far: Box::new(far), calls: false, told: true }
}

/// A protocol for experiments (RFC 3692), without a checksum.
#[derive(Debug)]
struct Experiment;

impl OverIp for Experiment {
    fn protocol(&self) -> u8 {
        253
    }

    fn port_key(&self) -> &'static str {
        "port"
    }

    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        first_ports(packet)
    }

    fn seal(&self, _packet: &mut [u8], _from: IpAddr, _to: IpAddr) {}

    fn is_sound(&self, _packet: &[u8], _from: IpAddr, _to: IpAddr) -> bool {
        true
    }
}

fn raw(calls: bool) -> Pair {
    let (near, far): (SocketAddr, SocketAddr) = (([127, 0, 0, 1], NEAR).into(), ([127, 0, 0, 2], FAR).into());
    let options = SocketOptions::default();
    let line = match calls {
        true => RawLine::call(far, Box::new(Experiment), &options),
        false => RawLine::listen(near, Box::new(Experiment), &options),
    };
    let socket =
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(253))).expect("a namespace of our own");
    let without_port = |ip: IpAddr| SocketAddr::new(ip, 0).into();
    socket.bind(&without_port(far.ip())).expect("loopback");
    socket.connect(&without_port(near.ip())).expect("loopback");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    let line = line.expect("a namespace of our own");
    Pair { line: Box::new(line), far: Box::new(RawFar(socket)), calls, told: calls }
}

/// Stores received inputs, and sends given messages.
#[derive(Default)]
struct Probe {
    outbox: VecDeque<Vec<u8>>,
    inbox: Vec<u8>,
    /// Of each input: when it came according to the line, and when it was handed over.
    times: Vec<(Instant, Instant)>,
    broken: Vec<BrokenReason>,
}

impl OneWire for Probe {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { bytes, received_at, .. } | Input::Stream { bytes, received_at } => {
                self.inbox.extend_from_slice(bytes);
                self.times.push((received_at, now));
            }
            Input::Broken(reason) => self.broken.push(reason),
            Input::Connected | Input::Accepted { .. } | Input::MaxDatagram(_) | Input::Report(_) => {}
        }
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let message = self.outbox.pop_front()?;
        buf[..message.len()].copy_from_slice(&message);
        Some(Transmit { path: PathId::default(), len: message.len() })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        false
    }

    fn knows(&self, _path: PathId) -> bool {
        true
    }
}

/// Records that a line is no longer driven.
struct Gone(Rc<Cell<bool>>);

impl LineObserver for Gone {
    fn on_open(&mut self, _wire: WireId, _line: &mut dyn Line) {}

    fn on_close(&mut self, _wire: WireId, _line: &mut dyn Line) {
        self.0.set(true);
    }
}

/// A line that is driven by hand.
struct Run {
    lines: Lines<'static>,
    probe: Single<Probe>,
    far: Box<dyn Far>,
    clock: OsClock,
    gone: Rc<Cell<bool>>,
}

impl Run {
    /// Drives the line of `pair`, alone or beside one that receives nothing, until both ends know each other.
    fn new(pair: Pair, alone: bool) -> Self {
        let (mut lines, gone) = (Lines::new(), Rc::default());
        lines.set_observer(Box::new(Gone(Rc::clone(&gone))));
        lines.add(WIRE, pair.line).expect("a new wire");
        if !alone {
            let other =
                UdpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port");
            lines.add(WireId(9), Box::new(other)).expect("a new wire");
        }
        let probe = Single::new(Probe::default());
        let mut run = Run { lines, probe, far: pair.far, clock: OsClock::new(), gone };
        if pair.calls {
            run.probe().outbox.push_back(message(NEAR, FAR, 0));
            run.until("the first to go out", |run| run.probe().outbox.is_empty());
            assert!(run.far.receive() == message(NEAR, FAR, 0));
        } else {
            run.far.send(&message(FAR, NEAR, 0));
            run.until("the first to come in", |run| run.probe().inbox.len() == LEN);
            assert!(run.probe().inbox == message(FAR, NEAR, 0));
            run.probe().inbox.clear();
            run.probe().times.clear();
        }
        run
    }

    fn probe(&mut self) -> &mut Probe {
        self.probe.get_mut()
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Run) -> bool) {
        let start = self.clock.now();
        while !done(self) {
            round(&mut self.lines, &mut self.probe, &self.clock, TURN).expect("nothing is fatal");
            assert!(self.clock.now().since(start) < LIMIT, "waiting for {what}");
        }
    }
}

/// Runs the suite for each line that `make` makes.
fn conforms(make: impl Fn() -> Pair) {
    for alone in [true, false] {
        input_comes_in_order_with_stamps_of_the_past(Run::new(make(), alone));
        what_is_sent_goes_out_in_order(Run::new(make(), alone));
        waits_keep_to_their_time(Run::new(make(), alone));
        a_closed_line_flushes(Run::new(make(), alone));
        let pair = make();
        let told = pair.told;
        a_peer_that_is_gone_is_told_and_not_fatal(Run::new(pair, alone), told);
    }
    a_waker_ends_a_wait(make().line);
}

fn input_comes_in_order_with_stamps_of_the_past(mut run: Run) {
    let mut sent = Vec::new();
    for n in 0..MANY {
        sent.push(run.clock.now());
        run.far.send(&message(FAR, NEAR, n));
    }
    let all: Vec<u8> = (0..MANY).flat_map(|n| message(FAR, NEAR, n)).collect();
    run.until("all that was sent", |run| run.probe().inbox.len() >= all.len());
    assert!(run.probe().inbox == all);
    let slack = Duration::from_millis(1);
    for (received_at, handed_over) in &run.probe().times {
        assert!(received_at <= handed_over);
        // Two clocks are read for this.
        assert!(*received_at + slack >= sent[0], "{received_at:?}, before it was sent at {:?}", sent[0]);
    }
}

fn what_is_sent_goes_out_in_order(mut run: Run) {
    run.probe().outbox.extend((0..MANY).map(|n| message(NEAR, FAR, n)));
    run.until("all to go out", |run| run.probe().outbox.is_empty());
    for n in 0..MANY {
        assert!(run.far.receive() == message(NEAR, FAR, n), "message {n}");
    }
}

fn waits_keep_to_their_time(mut run: Run) {
    for wait in
        [Wait::No, Wait::For(Duration::from_millis(3)), Wait::For(Duration::from_millis(30)), Wait::Idle]
    {
        let allowed = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        let most = allowed + IDLE / 2;
        let mut took: Vec<(Duration, u32)> = Vec::new();
        // The least of several: a busy machine wakes a thread late now and then.
        let mut least = Duration::MAX;
        while took.len() < 4 || (least >= most && took.len() < MOST_TRIES) {
            // One may end early, and is gone on with then.
            let start = run.clock.now();
            let (mut elapsed, mut rounds) = (Duration::ZERO, 0);
            while rounds == 0 || elapsed < allowed {
                let rest = if let Wait::For(time) = wait { Wait::For(time - elapsed) } else { wait };
                round(&mut run.lines, &mut run.probe, &run.clock, rest).expect("nothing comes");
                elapsed = run.clock.now().since(start);
                rounds += 1;
            }
            took.push((elapsed, rounds));
            least = least.min(elapsed);
        }
        assert!(least < most, "{wait:?}: {took:?}");
        // What does not wait at all goes round thousands of times meanwhile.
        assert!(took.iter().all(|(_, rounds)| *rounds <= MOST_PARTS), "{wait:?}: {took:?}");
    }
    // It sleeps: a busy loop would run thousands of times meanwhile.
    let (start, mut rounds) = (run.clock.now(), 0);
    while run.clock.now().since(start) < 2 * IDLE {
        round(&mut run.lines, &mut run.probe, &run.clock, Wait::Idle).expect("nothing comes");
        rounds += 1;
    }
    assert!(rounds < 50, "{rounds} rounds");
}

fn a_closed_line_flushes(mut run: Run) {
    run.probe().outbox.extend((0..MANY).map(|n| message(NEAR, FAR, n)));
    run.until("all to be taken", |run| run.probe().outbox.is_empty());
    run.lines.close(run.clock.now(), WIRE);
    assert!(run.lines.line(WIRE).is_none(), "its number is free");
    run.until("its end", |run| run.gone.get());
    for n in 0..MANY {
        assert!(run.far.receive() == message(NEAR, FAR, n), "message {n}");
    }
}

fn a_peer_that_is_gone_is_told_and_not_fatal(mut run: Run, told: bool) {
    struct Silent;
    impl Far for Silent {
        fn send(&mut self, _message: &[u8]) {}
        fn receive(&mut self) -> Vec<u8> {
            Vec::new()
        }
    }
    run.far = Box::new(Silent);
    let mut n = 0;
    run.until("the news", |run| {
        n += 1;
        run.probe().outbox.push_back(message(NEAR, FAR, n));
        !run.probe().broken.is_empty() || (!told && n > 20)
    });
    assert_eq!(run.probe().broken.is_empty(), !told);
}

fn a_waker_ends_a_wait(mut line: Box<dyn Line>) {
    let (waker, clock) = (Waker::new().expect("an event descriptor"), OsClock::new());
    line.set_waker(waker.clone());
    let thread = std::thread::spawn(move || waker.wake());
    let mut probe = Single::new(Probe::default());
    let view = &mut WireView::new(&mut probe, WIRE);
    // It may have had a connection to report as well, which ends no wait.
    let woken = line.receive(&clock, view, Wait::For(Duration::from_secs(3_600))).expect("it lives");
    thread.join().expect("no panic");
    assert!(woken < Instant::ZERO + LIMIT);
}

#[test]
fn udp_lines_conform() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        conforms(|| udp_call(host));
        conforms(|| udp_listen(host));
    }
}

#[test]
fn tcp_lines_conform() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        conforms(|| tcp_call(host));
        conforms(|| tcp_accepted(host));
    }
}

#[test]
fn raw_lines_conform() {
    let Some(namespace) = private() else { return };
    for calls in [true, false] {
        namespace.run(|| conforms(|| raw(calls))).expect("a namespace");
    }
}

/// A message with ports in front, as protocols directly over IP have them, filled so that mixing is noticed.
fn message(source: u16, destination: u16, number: u32) -> Vec<u8> {
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let filling = (0..LEN - 8).map(|i| (number as usize * 31 + i) as u8);
    ports.into_iter().chain(number.to_be_bytes()).chain(filling).collect()
}

const WIRE: WireId = WireId(0);
/// Ports of the line and of its other end, where they are in the packets.
const NEAR: u16 = 7_001;
const FAR: u16 = 7_002;
/// Bytes of a message.
const LEN: usize = 300;
/// Messages of a test: more than a batch.
const MANY: u32 = 100;
/// Waits of a busy machine, each of which may end late.
const MOST_TRIES: usize = 40;
/// Parts that a wait may come in.
const MOST_PARTS: u32 = 10;
const TURN: Wait = Wait::For(Duration::from_millis(1));
