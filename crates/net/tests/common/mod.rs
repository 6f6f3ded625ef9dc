//! Traffic across a router, with the checks that hold for each means.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_link::Counters;
use antiphon_net::OsClock;
use antiphon_net::emulator::{Lane, LaneConfig, LaneReport, Router, RouterConfig, Side};
use antiphon_net::netns::Means;
use socket2::{Domain, Socket, Type};

/// Starts a router with private lanes; each is a specification and a seed.
pub fn router(means: Means, lanes: &[(&str, u64)]) -> Router {
    let lanes = lanes
        .iter()
        .map(|(text, seed)| LaneConfig::private(text.parse().expect("a possible link"), *seed))
        .collect();
    let config = RouterConfig { lanes, means: Some(means), real_time: false };
    Router::start(config, OsClock::new()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn address(side: &Side, v6: bool) -> IpAddr {
    if v6 { side.v6.into() } else { side.v4.into() }
}

pub fn udp(side: &Side, v6: bool) -> UdpSocket {
    let at = SocketAddr::from((address(side, v6), 0));
    let bound = side.namespace.run(|| UdpSocket::bind(at));
    bound.expect("a namespace").unwrap_or_else(|error| panic!("bind to {at}: {error}"))
}

/// Counters of one direction of a lane.
pub type Pick = fn(&LaneReport) -> Counters;

/// Sends `count` numbered datagrams and returns the numbers that arrived, after every one has been delivered or
/// dropped.
pub fn send_numbered(
    router: &Router,
    lane: usize,
    pick: Pick,
    from: &UdpSocket,
    to: &UdpSocket,
    count: u32,
) -> Vec<u32> {
    let before = counted(router, lane, pick);
    let target = to.local_addr().expect("bound");
    to.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut arrived = Vec::new();
    let mut buffer = [0u8; 2048];
    for n in 0..count {
        let mut datagram = [0u8; 200];
        datagram[..4].copy_from_slice(&n.to_be_bytes());
        from.send_to(&datagram, target).expect("a route");
        // So few at a time fit into any receive buffer: missing ones were lost on the link.
        if n % 50 == 49 || n + 1 == count {
            let after = settle(router, lane, pick, before.offered + u64::from(n) + 1);
            // The kernel may deliver later what it has taken from the link: on a busy machine the network waits.
            while (arrived.len() as u64) < after.delivered - before.delivered {
                let len = to.recv(&mut buffer).expect("what is counted as delivered arrives");
                assert_eq!(len, 200);
                arrived.push(u32::from_be_bytes(buffer[..4].try_into().expect("four bytes")));
            }
        }
    }
    to.set_nonblocking(true).expect("a socket");
    assert!(to.recv(&mut buffer).is_err(), "not one more than counted");
    arrived
}

fn counted(router: &Router, lane: usize, pick: Pick) -> Counters {
    pick(&router.report().expect("it runs").lanes[lane])
}

/// Waits until the link has seen `offered` packets and holds none.
fn settle(router: &Router, lane: usize, pick: Pick, offered: u64) -> Counters {
    let clock = OsClock::new();
    loop {
        let counters = counted(router, lane, pick);
        if counters.offered >= offered && counters.queued + counters.in_flight == 0 {
            return counters;
        }
        let waited = clock.now().since(antiphon_core::Instant::ZERO);
        assert!(waited < Duration::from_secs(20), "{counters:?}, waiting for {offered}");
        std::thread::yield_now();
    }
}

/// Datagrams in both families and directions: the counts of the sockets and of the link agree to the packet.
pub fn udp_agrees(router: &Router, index: usize) {
    let Lane { near, far } = router.lanes()[index].clone();
    let up: Pick = |report| report.up;
    let down: Pick = |report| report.down;
    for v6 in [false, true] {
        for (pick, from, to) in [(up, &near, &far), (down, &far, &near)] {
            let before = counted(router, index, pick);
            let arrived = send_numbered(router, index, pick, &udp(from, v6), &udp(to, v6), 600);
            let after = counted(router, index, pick);
            assert_eq!(after.offered - before.offered, 600, "nothing but the flow is counted");
            assert_eq!(after.delivered - before.delivered, arrived.len() as u64);
            assert_eq!(after.lost - before.lost, 600 - arrived.len() as u64);
            // 5 % of 600: beyond 7 σ there were no losses.
            assert!((1..=68).contains(&(after.lost - before.lost)), "{after:?}");
            assert!(arrived.is_sorted(), "order is kept");
            assert!(after.balances());
        }
    }
    assert_eq!(router.report().expect("it runs").lanes[index].rejected, 0);
}

/// The kernel's TCP carries its bytes through losses, and is slowed down by them.
pub fn tcp_completes(router: &Router, index: usize) {
    let Lane { near, far } = router.lanes()[index].clone();
    for (v6, algorithm, from, to) in [(false, "cubic", &near, &far), (true, "reno", &far, &near)] {
        let before = router.report().expect("it runs").lanes[index];
        let sent: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert!(transfer(from, to, v6, algorithm, &sent) == sent, "the bytes that arrived are others");
        let after = router.report().expect("it runs").lanes[index];
        let carried = after.up.offered_bytes + after.down.offered_bytes - before.up.offered_bytes;
        let lost = after.up.lost + after.down.lost - before.up.lost - before.down.lost;
        // 208 segments and an acknowledgement for every other one, at 5 %: no loss at all has a chance of 1 in 8 000 000
        // (losses belong to times, which no seed fixes here).
        assert!(lost > 0 && carried as usize > sent.len(), "{lost} lost of {carried} bytes");
    }
}

fn transfer(from: &Side, to: &Side, v6: bool, algorithm: &str, bytes: &[u8]) -> Vec<u8> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let open = |side: &Side| {
        let socket = side.namespace.run(|| Socket::new(domain, Type::STREAM, None));
        let socket = socket.expect("a namespace").expect("a socket");
        // The default here may be anything, and differ between machines.
        socket.set_tcp_congestion(algorithm.as_bytes()).expect("part of every kernel");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        socket.set_write_timeout(Some(Duration::from_secs(30))).expect("a socket");
        socket
    };
    let (mut client, server) = (open(from), open(to));
    server.bind(&SocketAddr::from((address(to, v6), 0)).into()).expect("an address of the side");
    server.listen(1).expect("a socket");
    let target = server.local_addr().expect("bound");
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut connection, _) = server.accept().expect("a client");
            let mut received = Vec::new();
            connection.read_to_end(&mut received).expect("all that was sent");
            received
        });
        client.connect(&target).expect("the far side listens");
        client.write_all(bytes).expect("TCP does not give up");
        drop(client);
        reader.join().expect("no panic")
    })
}
