//! Lines directly over IP, in a namespace of the test's own: without root it reports why it did not run.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{CloseMode, Input, Instant, OneWire, OverIp, PathId, Role, Stack, Transmit};
use antiphon_net::{
    Capture, DriveOptions, Line, LineError, LineStats, Lines, OsClock, RawLine, SocketOptions, Stop, Target,
    Wait, drive,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::party::{WIRE, reflector, round_one, stack};
use crate::world::{LIMIT, Node, Party, local, message, private};

/// How the transport runs directly over IP.
fn over(scheme: &str) -> &'static (dyn OverIp + Sync) {
    antiphon_proto::find(scheme).expect("known").over_ip.expect("it has a number")
}

fn stack_on(line: &RawLine, scheme: &str, seed: u64) -> Rc<dyn Stack> {
    stack(&format!("{scheme}?{}={PORT}", over(scheme).port_key()), seed, line.max_datagram())
}

fn open(scheme: &str, target: Target) -> Result<RawLine, LineError> {
    RawLine::open(target, Box::new(over(scheme)), &SocketOptions::default())
}

fn caller(scheme: &str, peer: &str, seed: u64, clock: &OsClock) -> Node {
    let line = open(scheme, Target::Call(local(peer))).expect("a namespace of our own");
    let party = Party::new(stack_on(&line, scheme, seed).open(clock.now(), Role::Caller));
    Node { line: Box::new(line), party }
}

/// Tells the listener that the caller has gone, so that it need not wait.
fn leave(mut node: Node, clock: &OsClock) {
    node.party.endpoint.close(clock.now(), CloseMode::Abort);
    node.turn(clock);
}

/// A reflector for many, until it is told to end.
fn echo(scheme: &'static str, at: SocketAddr, tell: mpsc::Sender<()>, stop: &Stop) -> LineStats {
    let clock = OsClock::new();
    let line = open(scheme, Target::Listen(at)).expect("a namespace of our own");
    assert_eq!(line.local_address().port(), at.port());
    let mut reflector = reflector(stack_on(&line, scheme, 9), 8, clock.now());
    let mut lines = Lines::new();
    lines.add(WIRE, Box::new(line)).expect("it is the first");
    tell.send(()).expect("the test waits");
    drive(&mut lines, &mut reflector, &clock, stop, DriveOptions::default()).expect("the line lives");
    lines.stats(WIRE).expect("it is there")
}

/// Runs `test` beside an echo that listens on every address of both IP versions.
fn beside_echo(scheme: &'static str, test: impl FnOnce(&OsClock) + Send) -> Option<LineStats> {
    let namespace = private()?;
    let stop = Stop::new();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let asked = stop.clone();
        let far = &namespace;
        let echo = scope.spawn(move || {
            far.enter().expect("ours");
            echo(scheme, local(&format!("[::]:{PORT}")), tell, &asked)
        });
        told.recv_timeout(LIMIT).expect("the echo opens");
        let done = namespace.run(|| test(&OsClock::new()));
        // Also when the test failed: the echo does not end otherwise.
        stop.ask();
        done.expect("ours");
        Some(echo.join().expect("no panic"))
    })
}

#[test]
fn callers_share_a_listener_and_hear_their_own_frames_alone() {
    for scheme in ["sctp", "dccp"] {
        beside_echo(scheme, |clock| {
            let peers = [format!("127.0.0.1:{PORT}"), format!("[::1]:{PORT}"), format!("127.0.0.3:{PORT}")];
            // The first two have one address each; the third shares the first one's, for raw sockets.
            let mut nodes: Vec<Node> =
                (0..3).map(|n| caller(scheme, &peers[n], n as u64 + 1, clock)).collect();
            let len = |n: usize| 300 + 400 * n;
            for (n, node) in nodes.iter_mut().enumerate() {
                (0..20).for_each(|k| node.send(message(k, len(n))));
            }
            let start = clock.now();
            while nodes.iter().any(|node| node.party.messages.len() < 20) {
                nodes.iter_mut().for_each(|node| node.turn(clock));
                let seen: Vec<_> = nodes.iter().map(|node| node.party.messages.len()).collect();
                assert!(clock.now().since(start) < LIMIT, "{scheme}: {seen:?}");
            }
            for (n, node) in nodes.iter_mut().enumerate() {
                node.party.messages.sort();
                let mut expected: Vec<_> = (0..20).map(|k| message(k, len(n))).collect();
                expected.sort();
                assert!(node.party.messages == expected, "{scheme}: messages of others, or not all, at {n}");
                assert_eq!(node.line.stats().damaged, 0);
                assert_ne!(node.line.local_address().port(), 0, "learned from what went out");
            }
            nodes.into_iter().for_each(|node| leave(node, clock));
        });
    }
}

/// A party with some paths cut in both directions.
struct Cut<'a>(&'a mut Party, &'a [u32]);

impl OneWire for Cut<'_> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { path, .. } if self.1.contains(&path.0) => {}
            input => self.0.handle_input(now, input),
        }
    }

    fn advance(&mut self, now: Instant) {
        self.0.advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        std::iter::from_fn(|| self.0.poll_transmit(now, buf)).find(|sent| !self.1.contains(&sent.path.0))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.0.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.0.knows(path)
    }
}

#[test]
fn an_association_uses_whichever_address_works() {
    beside_echo("sctp", |clock| {
        let others = [format!("127.0.0.3:{PORT}"), format!("[::1]:{PORT}")];
        let options = SocketOptions {
            other_peers: others.iter().map(|other| local(other)).collect(),
            ..SocketOptions::default()
        };
        let peer = local(&format!("127.0.0.1:{PORT}"));
        let mut line = RawLine::call(peer, Box::new(over("sctp")), &options).expect("ours");
        let uri = format!("sctp?sctp-port={PORT}&peers={}", others.join(","));
        let mut party = Party::new(stack(&uri, 1, 1400).open(clock.now(), Role::Caller));
        let mut sent = 0;
        for cut in [&[][..], &[0], &[0, 1], &[1, 2]] {
            party.paths.clear();
            let (start, until) = (clock.now(), sent + 20);
            // Heartbeats confirm every path that is left.
            while party.messages.len() < until
                || (0..3).any(|n| !cut.contains(&n) && !party.paths.contains(&PathId(n)))
            {
                assert!(clock.now().since(start) < LIMIT, "{cut:?}: {} messages", party.messages.len());
                if sent < until && party.messages.len() == sent {
                    party.outbox.push_back((message(sent as u32, 400), None));
                    sent += 1;
                }
                let wait = Wait::For(Duration::from_millis(1));
                round_one(&mut line, &mut Cut(&mut party, cut), clock, wait).expect("the line lives");
            }
        }
        leave(Node { line: Box::new(line), party }, clock);
    });
}

#[test]
fn impossible_peer_addresses_are_refused_before_opening() {
    let cases: [(Vec<&str>, &str); 3] = [
        (vec!["127.0.0.2:5005"], "the same port"),
        (vec!["127.0.0.2:5004", "127.0.0.1:5004"], "twice"),
        (vec!["127.0.0.2:5004", "127.0.0.3:5004", "127.0.0.4:5004", "127.0.0.5:5004"], "at most 4 addresses"),
    ];
    for (others, wanted) in cases {
        let other_peers = others.into_iter().map(local).collect();
        let options = SocketOptions { other_peers, ..SocketOptions::default() };
        let refused = RawLine::call(local("127.0.0.1:5004"), Box::new(over("sctp")), &options).map(drop);
        assert!(
            matches!(&refused, Err(LineError::Unreachable { why, .. }) if why.contains(wanted)),
            "{wanted}: {refused:?}"
        );
    }
}

/// A wrong checksum is only counted: the listener's endpoint never gets the packet.
#[test]
fn a_checksum_over_other_addresses_is_damage() {
    let over = over("dccp");
    let stats = beside_echo("dccp", |clock| {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(33))).expect("root here");
        let mut node = caller("dccp", &format!("127.0.0.1:{PORT}"), 3, clock);
        let mut request = vec![0; 1500];
        let sent = node.party.endpoint.poll_transmit(clock.now(), &mut request).expect("a Request");
        request.truncate(sent.len);
        let [here, there] = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().expect("an address"));
        over.seal(&mut request, here, there);
        assert!(over.is_sound(&request, here, there) && !over.is_sound(&request, here, here));
        for _ in 0..3 {
            raw.send_to(&request, &local("127.0.0.1:0").into()).expect("loopback");
        }
        let mut good = caller("dccp", &format!("127.0.0.1:{PORT}"), 4, clock);
        good.until(clock, "a connection after all", |node| node.party.connected == 1);
        leave(good, clock);
    });
    if let Some(stats) = stats {
        assert_eq!(stats.damaged, 3, "{stats:?}");
    }
}

#[test]
fn a_second_listener_on_a_port_gets_an_error() {
    beside_echo("sctp", |_| {
        let second = open("sctp", Target::Listen(local(&format!("[::]:{PORT}"))));
        assert!(matches!(second, Err(LineError::PortInUse { port: PORT })));
    });
}

/// A capture contains a packet of the protocol after an IP header, with a checksum for the addresses there.
#[test]
fn a_capture_shows_whole_packets() {
    let over = over("dccp");
    beside_echo("dccp", |clock| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("raw.pcapng");
        let capture = Capture::create(&path, *clock).expect("a file");
        let mut node = caller("dccp", &format!("127.0.0.1:{PORT}"), 5, clock);
        node.line.set_tap(capture.tap("dccp"));
        node.send(message(1, 200));
        node.until(clock, "the echo", |node| node.party.messages.len() == 1);
        let ours = node.line.local_address().port();
        leave(node, clock);
        let summary = capture.finish().expect("room on the disk");
        let packets = crate::raw::packets(&path);
        assert_eq!((summary.packets, summary.dropped), (packets.len() as u64, 0));
        for packet in &packets {
            assert_eq!((packet[0], packet[9]), (0x45, 33));
            let ip = |at: usize| {
                std::net::IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
            };
            assert!(over.is_sound(&packet[20..], ip(12), ip(16)));
            let (source, destination) = over.ports(&packet[20..]).expect("ports");
            assert!([(ours, PORT), (PORT, ours)].contains(&(source, destination)));
        }
    });
}

fn packets(path: &std::path::Path) -> Vec<Vec<u8>> {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let file = std::fs::File::open(path).expect("the capture is there");
    let mut reader = PcapNgReader::new(file).expect("a capture");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("whole blocks") {
            packets.push(packet.data.to_vec());
        }
    }
    packets
}

/// RTP's registered port, free in a namespace of our own.
const PORT: u16 = 5004;
