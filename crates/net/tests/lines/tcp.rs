//! TCP lines: framing, stalls, accepted and refused callers.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, Rng, WireId};
use antiphon_link::{Direction, Duplex};
use antiphon_net::{
    DriveOptions, Line, LineError, LineObserver, OsClock, SocketOptions, Stop, TcpLine, TcpListening, Wait,
};

use crate::party::{drive_one, round_one};
use crate::world::{Echo, Host, LIMIT, Node, Party, endpoint, lane, local, message, number};

/// The message with RFC 4571's framing.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Splits what a peer has read into messages; the last must be complete.
pub fn cut(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        assert!(bytes.len() >= 2 + len, "{} bytes of a message of {len} are left", bytes.len() - 2);
        messages.push(bytes[2..2 + len].to_vec());
        bytes = &bytes[2 + len..];
    }
    messages
}

pub fn listening(clock: &OsClock) -> Host {
    let options = SocketOptions::default();
    Host::new(TcpListening::bind(local("127.0.0.1:0"), &options).expect("a free port"), clock)
}

pub fn raw(to: &Host) -> TcpStream {
    let stream = TcpStream::connect(to.address()).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    stream.set_write_timeout(Some(LIMIT)).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

#[test]
fn messages_go_there_and_back() {
    for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let clock = OsClock::new();
        let echo = Echo::start("tcp", local(address), DriveOptions::default());
        let to = local(&format!(
            "{}:{}",
            if address == "[::1]:0" { "[::1]" } else { "127.0.0.1" },
            echo.address.port()
        ));
        let mut node = Node::tcp(TcpLine::call(to, &SocketOptions::default()).expect("it listens"), &clock);
        for n in 0..50u32 {
            node.send(message(n, 200 + 7 * n as usize));
            node.until(&clock, "a message's return", |node| node.party.messages.len() == n as usize + 1);
            assert_eq!(node.party.messages[n as usize], message(n, 200 + 7 * n as usize));
        }
        assert!(node.line.stats().kernel_stamps);
        echo.stop();
    }
}

#[test]
fn frames_survive_writes_of_odd_sizes() {
    let clock = OsClock::new();
    let mut host = listening(&clock);
    let mut peer = raw(&host);
    let mut rng = Rng::fork(5, "cuts");
    let messages: Vec<Vec<u8>> = (0..60).map(|n| message(n, 8 + rng.below(2000) as usize)).collect();
    let stream: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
    let mut rest = &stream[..];
    while !rest.is_empty() {
        let (piece, later) = rest.split_at((1 + rng.below(700) as usize).min(rest.len()));
        peer.write_all(piece).expect("it is read");
        rest = later;
        host.turn(&clock);
    }
    host.until(&clock, "the last message", |host| host.party().messages.len() == messages.len());
    assert!(host.party().messages == messages);
}

#[test]
fn a_peer_that_stops_reading_cuts_no_frame() {
    let clock = OsClock::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // Small buffers, so that a stall of half a second has an effect.
    let options = SocketOptions { send_buffer: 8_192, ..SocketOptions::default() };
    let line = TcpLine::call(listener.local_addr().expect("bound"), &options).expect("it listens");
    let (peer, _) = listener.accept().expect("the call");
    socket2::SockRef::from(&peer).set_recv_buffer_size(8_192).expect("a socket");
    let mut node = Node::tcp(line, &clock);
    // A message every 0.2 ms, each with a lifetime of 20 ms; the peer does not read until enough are given up to prove
    // the stall.
    let mut n = 0;
    while node.party.expired() < 300 {
        let deadline = clock.now() + Duration::from_millis(20);
        node.party.outbox.push_back((message(n, 700 + n as usize % 900), Some(deadline)));
        n += 1;
        node.turn(&clock);
        assert!(n < 50_000, "messages expire while the peer does not read");
    }
    node.party.outbox.push_back((message(n, 500), None));
    let reader = std::thread::spawn(move || {
        let mut peer = peer;
        peer.set_read_timeout(Some(LIMIT)).expect("a socket");
        let mut bytes = Vec::new();
        let mut piece = [0; 3_001];
        loop {
            match peer.read(&mut piece).expect("the stream goes on") {
                0 => return bytes,
                len => bytes.extend_from_slice(&piece[..len]),
            }
        }
    });
    let all = n as usize + 1;
    node.until(&clock, "the last message's outcome", |node| node.party.outcomes.len() == all);
    node.until(&clock, "the last bytes", |node| node.line.is_flushed());
    let expired = node.party.expired();
    drop(node);
    let got = cut(&reader.join().expect("no panic"));
    assert_eq!(got.len() + expired, all, "every message arrived or expired");
    for message_got in &got {
        assert_eq!(
            *message_got,
            message(number(message_got), message_got.len()),
            "no message is cut or mixed"
        );
    }
    assert!(got.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])));
    assert_eq!(got.last().map(|last| number(last)), Some(n), "the message after the stall arrives");
}

/// Closing a TCP socket resets the connection, and drops unsent data, if the peer has sent something that was not read:
/// so the end must wait until the peer's machine has everything.
#[test]
fn an_orderly_end_loses_no_frame() {
    let clock = OsClock::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // Inherited by the connection: the peer's machine holds little, ours the rest.
    socket2::SockRef::from(&listener).set_recv_buffer_size(4_096).expect("a socket");
    let mut line =
        TcpLine::call(listener.local_addr().expect("bound"), &SocketOptions::default()).expect("it listens");
    let (mut peer, _) = listener.accept().expect("the call");
    let mut party = Party::new(endpoint("tcp", antiphon_core::Role::Caller, clock.now(), 1_452));
    party.endpoint.handle_input(clock.now(), antiphon_core::Input::Connected);
    for n in 0..400 {
        let bytes = message(n, 1_000);
        let accepted = party
            .endpoint
            .send(clock.now(), antiphon_core::Message::new(antiphon_core::Tag::NONE, &bytes, None));
        accepted.expect("400 kB find room");
    }
    let reader = std::thread::spawn(move || {
        peer.set_read_timeout(Some(LIMIT)).expect("a socket");
        let (mut bytes, mut piece) = (Vec::new(), [0; 997]);
        // Reads and sends at the same time, to the end and beyond it.
        while let Ok(len @ 1..) = peer.read(&mut piece) {
            bytes.extend_from_slice(&piece[..len]);
            let _refused_after_the_end = peer.write_all(&framed(&message(0, 40)));
        }
        bytes
    });
    let stop = Stop::new();
    stop.ask();
    drive_one(&mut line, &mut party, &clock, &stop, DriveOptions::default()).expect("the line lives");
    drop(line);
    let got = cut(&reader.join().expect("no panic"));
    assert_eq!(got.len(), 400, "everything accepted before the end arrives");
    assert!(got.iter().enumerate().all(|(n, got)| *got == message(n as u32, 1_000)));
}

#[test]
fn a_second_caller_is_served_only_after_the_first() {
    let clock = OsClock::new();
    let mut host = listening(&clock);
    let mut first = raw(&host);
    first.write_all(&framed(&message(1, 100))).expect("a connection");
    host.until(&clock, "the first caller", |host| host.party().messages.len() == 1);
    let mut second = raw(&host);
    host.until(&clock, "the second caller", |host| host.stats().unknown_sources == 1);
    assert_eq!(second.read(&mut [0; 8]).expect("an end"), 0, "the second is turned away");
    first.write_all(&framed(&message(2, 100))).expect("a connection");
    host.until(&clock, "the first caller's next", |host| host.party().messages.len() == 2);
    drop(first);
    host.until(&clock, "the first to be gone", |host| host.party().broken.len() == 1);
    let mut third = raw(&host);
    third.write_all(&framed(&message(3, 100))).expect("a connection");
    host.until(&clock, "the third caller", |host| host.party().messages.len() == 3);
    let stats = host.stats();
    assert_eq!((stats.unknown_sources, stats.reconnected, host.party().connected), (1, 1, 2), "{stats:?}");
}

/// One message in each of so many connections, one after the other.
fn one_after_the_other(host: &mut Host, clock: &OsClock, connections: usize) {
    for n in 1..=connections {
        let mut peer = raw(host);
        peer.write_all(&framed(&message(n as u32, 100))).expect("a connection");
        host.until(clock, "the message", |host| host.party().messages.len() == n);
        drop(peer);
        host.until(clock, "its end", |host| host.party().broken.len() == n);
    }
}

/// Stores the notes of lines when they end.
struct Facts(Rc<RefCell<Vec<String>>>);

impl LineObserver for Facts {
    fn on_open(&mut self, _wire: WireId, _line: &mut dyn Line) {}

    fn on_close(&mut self, _wire: WireId, line: &mut dyn Line) {
        self.0.borrow_mut().extend(line.facts());
    }
}

#[test]
fn a_listening_wire_counts_for_its_connections() {
    let clock = OsClock::new();
    let options = SocketOptions { congestion: Some("reno".into()), ..SocketOptions::default() };
    let listening = TcpListening::bind(local("127.0.0.1:0"), &options).expect("a free port");
    let mut host = Host::new(listening, &clock);
    let facts = Rc::new(RefCell::new(Vec::new()));
    host.lines.set_observer(Box::new(Facts(Rc::clone(&facts))));
    one_after_the_other(&mut host, &clock, 2);
    let _third = raw(&host);
    host.until(&clock, "a third", |host| host.party().connected == 3);
    let stats = host.stats();
    assert_eq!((stats.received, stats.reconnected, stats.unknown_sources), (2, 2, 0), "{stats:?}");
    assert_eq!(*facts.borrow(), ["kernel TCP with congestion control reno"; 2], "told behind its end");
}

#[test]
fn noise_on_the_port_does_no_harm() {
    let clock = OsClock::new();
    let mut host = listening(&clock);
    let mut rng = Rng::fork(9, "noise");
    for round in 0..20u32 {
        let mut unknown_source = raw(&host);
        let mut bytes = vec![0; 1 + rng.below(40_000) as usize];
        rng.fill(&mut bytes);
        unknown_source.write_all(&bytes).expect("buffers take it");
        drop(unknown_source);
        host.until(&clock, "its end", |host| host.party().broken.len() == round as usize + 1);
    }
    host.party().messages.clear();
    let mut honest = raw(&host);
    honest.write_all(&framed(&message(1, 100))).expect("a connection");
    host.until(&clock, "the honest peer", |host| !host.party().messages.is_empty());
    assert_eq!(host.party().messages, [message(1, 100)], "no noise of an old connection is mixed in");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let options = SocketOptions::default();
    let first = TcpListening::bind(local("127.0.0.1:0"), &options).expect("a free port");
    let error = TcpListening::bind(first.local_address(), &options).map(drop).expect_err("it is taken");
    assert!(matches!(error, LineError::PortInUse { port } if port == first.local_address().port()));
}

#[test]
fn closed_ports_and_black_holes_are_reported_within_2_s() {
    let clock = OsClock::new();
    // The least of several tries: on a busy machine this thread itself stands still now and then.
    let least = |tries: usize, once: &dyn Fn() -> LineError| {
        let took = (0..tries).map(|_| {
            let start = clock.now();
            let error = once();
            assert!(error.is_unreachable(), "{error}");
            (clock.now().since(start), error)
        });
        took.min_by_key(|(took, _)| *took).expect("some")
    };
    let closed = SocketAddr::from(([127, 0, 0, 1], antiphon_testkit::free_ports(1)));
    let options = SocketOptions::default();
    let call = || TcpLine::call(closed, &options).map(drop).expect_err("nothing listens");
    let (took, error) = least(5, &call);
    assert!(error.to_string().contains(&closed.to_string()), "{error}");
    assert!(took < Duration::from_millis(500), "a refusal is told at once: {took:?}");
    let Some((_router, lane)) = lane("loss=100%", 1) else { return };
    let call = || {
        let call = || TcpLine::call((lane.far.v4, 5).into(), &options).map(drop);
        lane.near.namespace.run(call).expect("a namespace").expect_err("everything is dropped")
    };
    let (took, _) = least(2, &call);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_call_whose_first_packet_is_lost_still_gets_through() {
    let seed = seed_of_a_fade();
    // On a machine that stands still for so long that the fade is over when the call begins, nothing is lost.
    for _ in 0..3 {
        // The kernel tries again after a second.
        let Some((router, lane)) = lane(FADE, seed) else { return };
        let options = SocketOptions::default();
        let far = || TcpListening::bind((lane.far.v4, 0).into(), &options);
        let far = lane.far.namespace.run(far).expect("a namespace").expect("a free port");
        let address = far.local_address();
        let call = || TcpLine::call(address, &options).map(drop);
        lane.near.namespace.run(call).expect("a namespace").expect("the second try of the kernel");
        if router.report().expect("it runs").lanes[0].up.lost >= 1 {
            return;
        }
    }
    panic!("three times nothing was lost");
}

const FADE: &str = "up.loss=3s/1s/100%/0%";

/// Of a link whose way up loses everything for its first 0.9 s, and then nothing until its sixth second.
fn seed_of_a_fade() -> u64 {
    let lost = |link: &mut Duplex<Vec<u8>>, at| {
        link.offer(at, Direction::Up, vec![0; 60]);
        link.poll(at).is_none()
    };
    let fits = |seed: &u64| {
        let mut link = Duplex::new(&FADE.parse().expect("a link"), *seed).expect("a possible link");
        (0..600).all(|k| {
            let is_lost = lost(&mut link, Instant::from_millis(10 * k));
            (90..100).contains(&k) || is_lost == (k < 90)
        })
    };
    (1..100_000).find(fits).expect("one in some hundred")
}

#[test]
fn an_idle_line_sleeps() {
    let clock = OsClock::new();
    let echo = Echo::start("tcp", local("127.0.0.1:0"), DriveOptions::default());
    let line = TcpLine::call(echo.address, &SocketOptions::default()).expect("it listens");
    let mut node = Node::tcp(line, &clock);
    node.until(&clock, "the connection", |node| node.party.connected == 1);
    sleeps(&mut node, &clock);
}

/// An idle wait takes its time: a non-blocking socket would turn the media thread's loop into a busy one.
pub fn sleeps(node: &mut Node, clock: &OsClock) {
    let start = clock.now();
    round_one(&mut *node.line, &mut node.party, clock, Wait::Idle).expect("the line lives");
    // IDLE is 50 ms; a call that does not block takes microseconds.
    assert!(clock.now().since(start) > Duration::from_millis(30), "{:?}", clock.now().since(start));
}
