//! The proxies over loopback: no privilege needed.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use antiphon_core::{Instant, Rng};
use antiphon_link::{Direction, Duplex};
use antiphon_net::OsClock;
use antiphon_net::emulator::{FlowReport, StreamProxy, StreamProxyConfig, UdpProxy, UdpProxyConfig};

fn local(v6: bool) -> SocketAddr {
    let text = if v6 { "[::1]:0" } else { "127.0.0.1:0" };
    text.parse().expect("an address")
}

fn socket(v6: bool) -> UdpSocket {
    let socket = UdpSocket::bind(local(v6)).expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    socket
}

fn proxy(v6: bool, link: &str, seed: u64, target: &UdpSocket) -> UdpProxy {
    let target = target.local_addr().expect("bound");
    let config = UdpProxyConfig::new(local(v6), target, link.parse().expect("a possible link"), seed);
    UdpProxy::start(config, OsClock::new()).expect("loopback")
}

/// Waits until `done` says so of the flow.
fn wait(proxy: &UdpProxy, flow: usize, done: impl Fn(&FlowReport) -> bool) -> FlowReport {
    let clock = OsClock::new();
    loop {
        let report = proxy.report().expect("it runs");
        if let Some(found) = report.flows.get(flow).filter(|found| done(found)) {
            return *found;
        }
        assert!(clock.now() < Instant::from_millis(20_000), "{report:?}");
        std::thread::yield_now();
    }
}

/// Sends numbered datagrams up; returns which arrived, and the source of the last one.
fn send(
    proxy: &UdpProxy,
    flow: usize,
    client: &UdpSocket,
    target: &UdpSocket,
    count: u32,
) -> (Vec<u32>, SocketAddr) {
    let (mut arrived, mut buffer, mut from) = (Vec::new(), [0u8; 2048], None);
    for n in 0..count {
        client.send_to(&n.to_be_bytes(), proxy.local_addr()).expect("loopback");
        // Few enough at a time for any receive buffer.
        if n % 50 == 49 || n + 1 == count {
            let settled = |report: &FlowReport| {
                report.up.offered == u64::from(n) + 1 && report.up.queued + report.up.in_flight == 0
            };
            let through = wait(proxy, flow, settled).up.delivered;
            while (arrived.len() as u64) < through {
                let (len, address) = target.recv_from(&mut buffer).expect("it was delivered");
                assert_eq!(len, 4);
                arrived.push(u32::from_be_bytes(buffer[..4].try_into().expect("four bytes")));
                from = Some(address);
            }
        }
    }
    (arrived, from.expect("some arrived"))
}

#[test]
fn sockets_and_counters_agree_in_both_directions() {
    for v6 in [false, true] {
        let (client, target) = (socket(v6), socket(v6));
        let proxy = proxy(v6, "loss=5%,delay=1ms,jitter=1ms/exponential", 3, &target);
        let (arrived, back) = send(&proxy, 0, &client, &target, 1000);
        assert!(arrived.is_sorted() && (910..1000).contains(&arrived.len()), "{}", arrived.len());
        for _ in 0..50 {
            target.send_to(&[7; 10], back).expect("loopback");
        }
        let flow =
            wait(&proxy, 0, |flow| flow.down.offered == 50 && flow.down.queued + flow.down.in_flight == 0);
        let mut buffer = [0u8; 64];
        for _ in 0..flow.down.delivered {
            assert_eq!(client.recv(&mut buffer).expect("it was delivered"), 10);
        }
        client.set_nonblocking(true).expect("a socket");
        assert!(client.recv(&mut buffer).is_err(), "not one more than counted");
        let report = proxy.stop();
        assert_eq!(report.flows.len(), 1);
        let flow = report.flows[0];
        assert_eq!(flow.up.delivered, arrived.len() as u64);
        assert_eq!(flow.up.lost + flow.up.delivered, 1000);
        // 28 or 48 bytes of headers beside the four of the payload.
        assert_eq!(flow.up.offered_bytes, 1000 * if v6 { 52 } else { 32 });
        assert!(flow.up.balances() && flow.down.balances());
        assert_eq!((flow.unsent, report.refused, report.over_budget), (0, 0, 0));
    }
}

#[test]
fn the_slowest_datagram_is_told_until_the_next_report() {
    let (client, target) = (socket(false), socket(false));
    let proxy = proxy(false, "delay=30ms", 1, &target);
    client.send_to(&[1], proxy.local_addr()).expect("loopback");
    let slowest = wait(&proxy, 0, |flow| flow.slowest.is_some()).slowest.expect("waited for");
    assert_eq!(slowest.in_link, Duration::from_millis(30), "the model's time, whenever its thread ran");
    assert!(slowest.came > Instant::ZERO);
    assert_eq!(proxy.report().expect("it runs").flows[0].slowest, None, "it was told");
}

/// A fade, or the time between two, lasts longer than any test: the seed and the flow alone decide whether anything passes.
const FOR_GOOD: &str = "loss=1000s/1000s/100%/0%";

/// Whether the link of a flow passes packets, now and for a minute: each flow forks the proxy's seed by its number.
fn modelled(seed: u64, flow: usize) -> bool {
    let seed = Rng::fork(seed, &format!("flow {flow}")).next_u64();
    let mut link = Duplex::new(&FOR_GOOD.parse().expect("a link"), seed).expect("a possible link");
    let passed: Vec<bool> = [0, 60]
        .map(|second| {
            let now = Instant::from_millis(1000 * second);
            link.offer(now, Direction::Up, vec![1u8; 48]);
            link.poll(now).is_some()
        })
        .to_vec();
    assert_eq!(passed[0], passed[1], "seed {seed}: the weather changes during the test");
    passed[0]
}

/// Which of ten flows get a datagram through, each sending from a socket of its own to the target.
fn passing(link: &str, seed: u64) -> Vec<bool> {
    let target = socket(false);
    let proxy = proxy(false, link, seed, &target);
    let clients: Vec<UdpSocket> = (0..10).map(|_| socket(false)).collect();
    let mut sources = BTreeSet::new();
    let mut passed = Vec::new();
    for (flow, client) in clients.iter().enumerate() {
        client.send_to(&[flow as u8; 20], proxy.local_addr()).expect("loopback");
        let decided = wait(&proxy, flow, |report| report.up.delivered + report.up.lost > 0);
        let mut buffer = [0u8; 64];
        let mut came = decided.up.delivered == 0;
        while !came {
            let (len, from) = target.recv_from(&mut buffer).expect("it was delivered");
            // A copy of an earlier one may come first.
            assert!(len == 20 && usize::from(buffer[0]) <= flow, "flow {flow}: {:?}", &buffer[..len]);
            came = usize::from(buffer[0]) == flow;
            assert!(!came || sources.insert(from), "flow {flow} shares the source {from} with another");
        }
        passed.push(decided.up.delivered > 0);
    }
    passed
}

#[test]
fn a_flow_meets_the_fate_of_its_own_seed() {
    for seed in [9, 10] {
        let expected: Vec<bool> = (0..10).map(|flow| modelled(seed, flow)).collect();
        assert!(expected.contains(&true) && expected.contains(&false), "flows differ: {expected:?}");
        assert_eq!(passing(FOR_GOOD, seed), expected, "seed {seed}");
        // Other elements change nothing in what the losses draw.
        let more = format!("{FOR_GOOD},delay=2ms,duplicate=0.001%");
        assert_eq!(passing(&more, seed), expected, "seed {seed}, with delay and duplicates");
    }
    assert_ne!(passing(FOR_GOOD, 9), passing(FOR_GOOD, 10), "another seed");
}

#[test]
fn flows_of_unknown_sources_are_bounded_and_end() {
    let target = socket(false);
    let config = UdpProxyConfig {
        max_flows: 2,
        idle: Duration::from_millis(1),
        ..UdpProxyConfig::new(local(false), target.local_addr().expect("bound"), Default::default(), 1)
    };
    let proxy =
        UdpProxy::start(UdpProxyConfig { idle: Duration::from_secs(60), ..config.clone() }, OsClock::new());
    let proxy = proxy.expect("loopback");
    // Kept, so that each has another port.
    let clients = [(); 5].map(|()| socket(false));
    for client in &clients {
        client.send_to(b"x", proxy.local_addr()).expect("loopback");
    }
    wait(&proxy, 1, |_| true);
    let clock = OsClock::new();
    while proxy.report().expect("it runs").refused < 3 {
        assert!(clock.now() < Instant::from_millis(20_000));
    }
    assert_eq!(proxy.stop().flows.len(), 2);
    // With a very short patience the next client finds room again, and the counters of the first are kept.
    let proxy = UdpProxy::start(config, OsClock::new()).expect("loopback");
    for n in 0..5 {
        socket(false).send_to(b"x", proxy.local_addr()).expect("loopback");
        wait(&proxy, n, |flow| flow.ended && flow.up.delivered == 1);
    }
}

#[test]
fn a_datagram_is_never_early() {
    let (client, target) = (socket(false), socket(false));
    let proxy = proxy(false, "delay=15ms", 1, &target);
    let clock = OsClock::new();
    let mut delays = Vec::new();
    // Generous, for busy machines; usually 0.1 ms beyond the delay. Eight in time of fifteen, or of more where the machine stands
    // still in between.
    let late = |delay: &Duration| *delay >= Duration::from_millis(45);
    while delays.len() < 15 || (delays.len() < 150 && delays.get(7).is_none_or(late)) {
        let begin = clock.now();
        client.send_to(b"x", proxy.local_addr()).expect("loopback");
        target.recv(&mut [0; 8]).expect("no loss here");
        delays.push(clock.now().since(begin));
        delays.sort();
    }
    assert!(delays[0] >= Duration::from_millis(15), "{delays:?}");
    assert!(!late(&delays[7]), "{delays:?}");
}

#[test]
fn a_byte_stream_arrives_whole_at_the_rate_of_the_link() {
    let listener = TcpListener::bind(local(false)).expect("loopback");
    let config = StreamProxyConfig {
        listen: local(false),
        target: listener.local_addr().expect("bound"),
        link: "rate=8Mbit/s,queue=20packets,delay=5ms,jitter=1ms,loss=50%".parse().expect("a possible link"),
        seed: 4,
        max_connections: 1,
        real_time: false,
        allow: antiphon_net::AllowList::default(),
    };
    let proxy = StreamProxy::start(config, OsClock::new()).expect("loopback");
    let clock = OsClock::new();
    let mut client = TcpStream::connect(proxy.local_addr()).expect("loopback");
    let (mut server, _) = listener.accept().expect("the proxy connects");
    let sent: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).expect("loopback");
            client.shutdown(std::net::Shutdown::Write).expect("loopback");
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).expect("loopback");
        received
    });
    let took = clock.now().since(Instant::ZERO);
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    // 300 kB and 40 bytes in each 1448 at 1 MB/s, behind a burst that is in the queue at once: never early.
    assert!(took >= Duration::from_millis(305), "{took:?}");
    // The other direction, and the end of both.
    server.write_all(b"and back").expect("loopback");
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("loopback");
    assert_eq!(answer, "and back");
    let report = proxy.stop();
    let up = report.connections[0].up;
    assert_eq!((up.dropped(), up.delivered), (0, up.offered), "nothing is lost on a byte stream");
    assert!(up.offered_bytes as usize > sent.len());
    assert!(StreamProxy::limits().contains("loss"));
}
