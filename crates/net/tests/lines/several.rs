//! One peer by several addresses, on real sockets.

use antiphon_core::Role;
use antiphon_net::emulator::{UdpProxy, UdpProxyConfig};
use antiphon_net::{DriveOptions, LineError, OsClock, SocketOptions, UdpLine};

use crate::party::stack;
use crate::world::{Echo, Node, Party, local, message};

#[test]
fn an_association_fails_over_to_the_second_address() {
    let clock = OsClock::new();
    let echo = Echo::start("sctp", local("127.0.0.1:0"), DriveOptions::default());
    // Two paths to it, each of which can be closed.
    let way = |seed| {
        let config =
            UdpProxyConfig::new(local("127.0.0.1:0"), echo.address, "delay=1ms".parse().unwrap(), seed);
        UdpProxy::start(config, OsClock::new()).expect("loopback")
    };
    let (first, second) = (way(1), way(2));
    let options = SocketOptions { other_peers: vec![second.local_addr()], ..SocketOptions::default() };
    let line = UdpLine::call(first.local_addr(), &options).expect("loopback");
    let uri = format!("sctp?peers={}", second.local_addr());
    let endpoint = stack(&uri, 1, 1452).open(clock.now(), Role::Caller);
    let mut node = Node { line: Box::new(line), party: Party::new(endpoint) };
    for n in 0..20 {
        node.send(message(n, 400));
        node.until(&clock, "a message's return", |node| node.party.messages.len() as u32 > n);
    }
    // The proxy may not have read it yet.
    let flows = || second.report().expect("it runs").flows;
    node.until(&clock, "the second address to be asked whether it works", |_| !flows().is_empty());
    let by = flows();
    // Where the machine stood still for longer than a time-out, a message was repeated there.
    let repeated = node.party.endpoint.stats().counters.retransmitted;
    assert!(by.len() == 1 && by[0].up.offered > 0, "{by:?}");
    assert!(by[0].up.offered < 10 + repeated, "and no message went there: {by:?}, {repeated} repeated");
    first.stop();
    for n in 20..60 {
        node.send(message(n, 400));
        node.until(&clock, "a message's return by the other address", |node| {
            node.party.messages.len() as u32 > n
        });
    }
    assert!(second.report().expect("it runs").flows[0].up.offered >= 40, "now they go there");
}

#[test]
fn addresses_of_both_versions_are_refused() {
    let options = SocketOptions { other_peers: vec![local("[::1]:9")], ..SocketOptions::default() };
    let refused = UdpLine::call(local("127.0.0.1:9"), &options).map(drop);
    assert!(
        matches!(&refused, Err(LineError::Unreachable { why, .. }) if why.contains("use one version")),
        "{refused:?}"
    );
}
