//! UDP to one peer and for many: both IP versions, time stamps, sizes, refusals.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::{BrokenReason, Lent, Role, Single};
use antiphon_net::{
    DriveOptions, Line, LineError, Lines, OsClock, SocketOptions, UdpLine, Wait, WaitStyle, Waker, round,
};

use crate::party::WIRE;
use crate::world::{Echo, LIMIT, Node, Party, endpoint, lane, local, message, number};

fn call(to: SocketAddr, clock: &OsClock) -> Node {
    Node::udp(UdpLine::call(to, &SocketOptions::default()).expect("loopback"), clock)
}

/// Sends 50 messages, each after the one before came back.
fn round_trips(node: &mut Node, clock: &OsClock) {
    let before = node.party.messages.len();
    for n in 0..50u32 {
        node.send(message(n, 400 + n as usize));
        let want = before + n as usize + 1;
        node.until(clock, "a message's return", |node| node.party.messages.len() >= want);
        assert_eq!(node.party.messages[want - 1], message(n, 400 + n as usize));
    }
}

#[test]
fn messages_return_over_both_ip_versions_and_wait_styles() {
    for wait in [WaitStyle::Block, WaitStyle::BusyPoll] {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let clock = OsClock::new();
            let echo = Echo::start("rtp", local(address), DriveOptions { wait });
            let mut node = call(echo.address, &clock);
            round_trips(&mut node, &clock);
            let (report, stats) = echo.stop();
            assert_eq!((stats.sent, stats.received, stats.send_failed, stats.refused), (50, 50, 0, 0));
            assert!(report.rounds >= 50 && report.elapsed >= report.cpu / 2, "{report:?}");
            assert_eq!((node.line.stats().sent, node.line.stats().received), (50, 50));
        }
    }
}

#[test]
fn one_listener_serves_both_ip_versions() {
    let clock = OsClock::new();
    let echo = Echo::start("rtp", local("[::]:0"), DriveOptions::default());
    let port = echo.address.port();
    for host in ["127.0.0.1", "[::1]"] {
        round_trips(&mut call(local(&format!("{host}:{port}")), &clock), &clock);
    }
    assert_eq!(echo.stop().1.unknown_sources, 0);
}

#[test]
fn the_kernel_stamps_arrivals_before_they_are_read() {
    let clock = OsClock::new();
    let listener = UdpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let sent = clock.now();
    peer.send_to(&message(0, 100), listener.local_address()).expect("loopback");
    // The datagram waits in the kernel for 5 ms, the receive time-out of another socket.
    peer.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
    assert!(peer.recv(&mut [0; 8]).is_err());
    let mut node = Node::udp(listener, &clock);
    node.until(&clock, "the datagram", |node| !node.party.messages.is_empty());
    assert!(node.line.stats().kernel_stamps);
    // Read at once it would be microseconds old; the party itself asserts that no stamp is later than now.
    let age = node.party.oldest;
    let most = clock.now().since(sent) + Duration::from_millis(1);
    // An age of a second is taken for a wall clock that was set.
    let stood_still = most > Duration::from_secs(1);
    assert!((age >= Duration::from_millis(4) || stood_still) && age < most, "{age:?} of {most:?}");
}

#[test]
fn a_refused_peer_is_reported_at_once_and_found_again() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let clock = OsClock::new();
        // One that nobody gets before this test does.
        let address = SocketAddr::new(local(host).ip(), antiphon_testkit::free_ports(1));
        let refused = || {
            let mut node = call(address, &clock);
            node.send(message(0, 100));
            let start = clock.now();
            node.until(&clock, "the refusal", |node| !node.party.broken.is_empty());
            let (at, reason) = node.party.broken[0];
            assert_eq!(reason, BrokenReason::Refused);
            (at.since(start), node)
        };
        // ICMP on loopback takes microseconds; a missed error would be reported with the next datagram or never. The least of
        // several, since a busy machine wakes a thread late now and then.
        let (took, mut node) = (0..5).map(|_| refused()).min_by_key(|(took, _)| *took).expect("five");
        assert!(took < Duration::from_millis(50), "{took:?}");
        // Each of these causes a refusal of its own, reported before or with the next; none blocks the next.
        for n in 1..4 {
            node.send(message(n, 100));
            node.turn(&clock);
        }
        let back = UdpSocket::bind(address).expect("the port is free again");
        back.set_read_timeout(Some(LIMIT)).expect("a socket");
        node.send(message(9, 100));
        node.until(&clock, "its sending", |node| node.party.outbox.is_empty());
        node.turn(&clock);
        let mut buf = [0; 200];
        let (len, from) = back.recv_from(&mut buf).expect("the first datagram after it came back");
        assert_eq!(number(&buf[..len]), 9, "a pending refusal costs no datagram");
        back.send_to(&message(10, 100), from).expect("loopback");
        node.until(&clock, "its answer", |node| !node.party.messages.is_empty());
        let stats = node.line.stats();
        assert_eq!((stats.sent, stats.send_failed), (5, 0), "{stats:?}");
        assert!(stats.refused >= 1, "{stats:?}");
    }
}

#[test]
fn datagrams_over_the_mtu_are_refused_without_fragments() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    for v6 in [false, true] {
        let host = |side: &antiphon_net::emulator::Side| -> std::net::IpAddr {
            if v6 { side.v6.into() } else { side.v4.into() }
        };
        let at = SocketAddr::new(host(&lane.far), 0);
        let far = lane.far.namespace.run(|| UdpSocket::bind(at)).expect("a namespace").expect("its address");
        far.set_read_timeout(Some(LIMIT)).expect("a socket");
        let to = far.local_addr().expect("bound");
        for fragment in [false, true] {
            let options = SocketOptions { fragment, ..SocketOptions::default() };
            let line = lane.near.namespace.run(|| UdpLine::call(to, &options)).expect("a namespace");
            let line = line.expect("a route");
            // The lane's MTU is Ethernet's: 1500 less 28 or 48 bytes of headers.
            let largest = if v6 { 1452 } else { 1472 };
            assert_eq!(line.max_datagram() > largest, fragment);
            let mut node = Node::udp(line, &clock);
            for (n, len) in [(0, largest), (1, largest + 1), (2, 4000), (3, 200)] {
                node.send(message(n, len));
            }
            node.until(&clock, "their sending", |node| node.party.outcomes.len() == 4);
            node.turn(&clock);
            let stats = node.line.stats();
            assert_eq!((stats.sent, stats.send_failed), if fragment { (4, 0) } else { (2, 2) }, "{stats:?}");
            let mut buf = [0; 8192];
            for n in if fragment { vec![0, 1, 2, 3] } else { vec![0, 3] } {
                let len = far.recv(&mut buf).expect("what was sent arrives");
                assert_eq!(buf[..len], message(n, len)[..]);
            }
        }
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let options = SocketOptions::default();
    let first = UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port");
    let error = UdpLine::listen(first.local_address(), &options).map(drop).expect_err("it is taken");
    assert!(matches!(error, LineError::PortInUse { port } if port == first.local_address().port()));
    assert!(error.to_string().contains(&first.local_address().port().to_string()));
}

#[test]
fn no_route_is_said_at_once() {
    let Some(namespace) = crate::world::private() else { return };
    let call = || UdpLine::call(local("192.0.2.1:9"), &SocketOptions::default());
    let error = namespace.run(call).expect("a namespace").map(drop).expect_err("nothing but loopback here");
    assert!(error.is_unreachable(), "{error}");
}

/// How long a round took, with a datagram in the socket; the party has as many messages as `messages` then.
fn round_with_input(
    (lines, party, clock): (&mut Lines<'_>, &mut Party, &OsClock),
    peer: &UdpSocket,
    wait: Wait,
) -> Duration {
    let to = lines.local_address(WIRE).expect("a line");
    let before = party.messages.len();
    peer.send_to(&message(before as u32, 100), to).expect("loopback");
    let start = clock.now();
    round(lines, &mut Single::new(Lent(party)), clock, wait).expect("loopback");
    assert_eq!(party.messages.len(), before + 1, "it is read in any case");
    clock.now().since(start)
}

/// With a single line, and with two, which wait in another way; with and without a waker.
#[test]
fn input_waits_for_what_is_due_soon() {
    const SOON: Duration = Duration::from_millis(20);
    for (several, woken) in [(false, false), (false, true), (true, false), (true, true)] {
        let clock = OsClock::new();
        let listen =
            || UdpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port");
        let mut party = Party::new(endpoint("rtp", Role::Listener, clock.now(), 1452));
        let mut lines = Lines::new();
        lines.add(WIRE, Box::new(listen())).expect("the first");
        if several {
            lines.add(antiphon_core::WireId(1), Box::new(listen())).expect("the second");
        }
        let waker = Waker::new().expect("an event descriptor");
        if woken {
            lines.set_waker(waker.clone());
        }
        let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let mut took =
            |lines: &mut Lines<'_>, wait| round_with_input((lines, &mut party, &clock), &peer, wait);
        assert!(took(&mut lines, Wait::For(LIMIT)) < LIMIT, "it is read as it comes");
        lines.let_input_wait(SOON);
        assert!(took(&mut lines, Wait::For(LIMIT)) < LIMIT, "nothing is due soon");
        assert!(took(&mut lines, Wait::Idle) < LIMIT);
        assert!(took(&mut lines, Wait::For(SOON)) >= SOON, "{several} {woken}");
        if woken {
            lines.let_input_wait(LIMIT);
            waker.wake();
            assert!(took(&mut lines, Wait::For(LIMIT)) < LIMIT, "the waker ends it");
        }
        assert!(party.oldest >= SOON, "and its time stamp tells when it came: {:?}", party.oldest);
    }
}

/// 64 channels in 24 bits are 6857 packets a second: a thread that was held up for 20 ms finds all of theirs in the socket, as the system's usual limit
/// of its buffer (net.core.rmem_max of 208 KiB) allows.
#[test]
fn a_thread_that_was_held_up_finds_all_packets_of_many_channels() {
    let clock = OsClock::new();
    let mut party = Party::new(endpoint("rtp", Role::Listener, clock.now(), 1452));
    let mut lines = Lines::new();
    let line = UdpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port");
    let to = line.local_address();
    lines.add(WIRE, Box::new(line)).expect("the first");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    const PACKETS: u32 = 6_857 / 50;
    for n in 0..PACKETS {
        peer.send_to(&message(n, 12 + 7 * 3 * 64), to).expect("loopback");
    }
    while party.messages.len() < PACKETS as usize && clock.now().since(antiphon_core::Instant::ZERO) < LIMIT {
        round(&mut lines, &mut Single::new(Lent(&mut party)), &clock, Wait::Idle).expect("loopback");
    }
    let stats = lines.stats(WIRE).expect("a line");
    assert_eq!((party.messages.len(), stats.dropped), (PACKETS as usize, 0));
}
