//! Traffic of unknown sources on an open UDP port.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_core::OneWire;
use antiphon_core::{Input, Instant, Rng, Transmit};
use antiphon_net::{DriveOptions, Line, OsClock, SocketOptions, Stop, UdpLine};

use crate::party::drive_one;
use crate::world::{Echo, LIMIT, Node, local, message, number};

#[test]
fn noise_on_the_port_does_no_harm() {
    let clock = OsClock::new();
    let echo = Echo::start("rtp", local("127.0.0.1:0"), DriveOptions::default());
    let unknown_source = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let mut rng = Rng::fork(3, "noise");
    let mut node =
        Node::udp(UdpLine::call(echo.address, &SocketOptions::default()).expect("loopback"), &clock);
    for n in 0..500u32 {
        let mut bytes = vec![0; rng.below(1500) as usize];
        rng.fill(&mut bytes);
        if n % 3 == 0 {
            bytes = message(n, 60);
            bytes.truncate(rng.below(61) as usize);
        }
        unknown_source.send_to(&bytes, echo.address).expect("loopback");
        if n % 50 == 0 {
            node.send(message(n, 300));
            let want = n as usize / 50 + 1;
            node.until(&clock, "the honest peer's message", |node| node.party.messages.len() == want);
            assert_eq!(node.party.messages[want - 1], message(n, 300));
        }
    }
    echo.stop();
}

#[test]
fn what_a_full_receive_buffer_drops_is_counted() {
    let clock = OsClock::new();
    let options = SocketOptions { receive_buffer: 8_192, ..SocketOptions::default() };
    let line = UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port");
    let (peer, to) = (UdpSocket::bind("127.0.0.1:0").expect("loopback"), line.local_address());
    let mut node = Node::udp(line, &clock);
    let send = |n| peer.send_to(&message(n, 1000), to).expect("loopback");
    (0..200).for_each(|n| {
        send(n);
    });
    // A later one for each that was read, until one of them finds room: by then all before it were delivered or dropped, however
    // late the kernel is.
    let mut later = 200..;
    node.until(&clock, "a later one", |node| {
        let messages = &node.party.messages;
        let is_there = messages.last().is_some_and(|last| number(last) >= 200);
        if !is_there && messages.len() as u32 > later.start - 200 {
            send(later.next().expect("without an end"));
        }
        is_there
    });
    let later = node.party.messages.iter().filter(|message| number(message) >= 200).count();
    let received = node.party.messages.len() - later;
    assert!((1..100).contains(&received), "{received} of 200 find room");
    // Each datagram brings the count of those that were dropped before it.
    let stats = node.line.stats();
    let last = number(node.party.messages.last().expect("it came"));
    assert_eq!(stats.dropped + stats.received, u64::from(last) + 1);
}

/// Datagrams at least that are a flood.
const FLOOD: u64 = 2_000;

/// Has a timer every millisecond and counts how much input comes between two turns of its own.
struct Ticker {
    next: Instant,
    ticks: u32,
    inputs: u64,
    run: u64,
    longest_run: u64,
}

impl OneWire for Ticker {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {
        self.inputs += 1;
        self.run += 1;
        self.longest_run = self.longest_run.max(self.run);
    }

    fn advance(&mut self, now: Instant) {
        self.run = 0;
        if now >= self.next {
            self.ticks += 1;
            self.next = now + Duration::from_millis(1);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        // The flood may begin late.
        (self.ticks >= 200 && self.inputs > FLOOD) || self.ticks >= 5_000
    }
}

#[test]
fn a_flood_does_not_keep_the_station_from_its_timers() {
    let clock = OsClock::new();
    let options = SocketOptions::default();
    let mut line = UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port");
    let to = line.local_address();
    let over = AtomicBool::new(false);
    let mut ticker = Ticker { next: Instant::ZERO, ticks: 0, inputs: 0, run: 0, longest_run: 0 };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            while !over.load(Ordering::Relaxed) {
                let _full_queues_are_the_point = socket.send_to(&[0x80; 60], to);
            }
        });
        let report = drive_one(&mut line, &mut ticker, &clock, &Stop::new(), DriveOptions::default());
        over.store(true, Ordering::Relaxed);
        report.expect("the line lives")
    });
    assert!(report.elapsed < LIMIT, "200 ticks of a millisecond took {:?}", report.elapsed);
    assert!(ticker.inputs > FLOOD, "a flood happened: {} datagrams", ticker.inputs);
    // Eight batches of 16: without that bound a round lasts as long as the flood.
    assert!(ticker.longest_run <= 128, "{} datagrams in a row", ticker.longest_run);
}
