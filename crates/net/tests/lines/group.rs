//! Multicast and broadcast, in namespaces whose only network is a lane.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use antiphon_core::Role;
use antiphon_net::emulator::Side;
use antiphon_net::{Line, Multicast, OsClock, SocketOptions, UdpLine};
use antiphon_proto::{Capability, Substrate};

use crate::world::{Node, Party, endpoint, lane, local, message, private};

fn options(interface: Option<String>, ttl: u8) -> SocketOptions {
    let multicast = Multicast { ttl: Some(ttl), interface, ..Multicast::default() };
    SocketOptions { multicast, ..SocketOptions::default() }
}

fn address(side: &Side, v6: bool) -> IpAddr {
    if v6 { side.v6.into() } else { side.v4.into() }
}

#[test]
fn a_group_is_joined_by_interface_name_or_address() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    // Organisation-local, and link-local, which has no meaning without an interface.
    for group in ["239.1.2.3", "ff18::123", "ff02::4:123"] {
        let group: IpAddr = group.parse().expect("an address");
        // With a socket of its own for what is for it alone, a receiver's answers come from there.
        for (by_name, members) in [(true, false), (false, false), (true, true)] {
            let with = |interface, ttl| {
                let mut options = options(interface, ttl);
                options.multicast.members = members;
                options
            };
            let interface = |side| {
                Some(if by_name { "antiphon0".into() } else { address(side, group.is_ipv6()).to_string() })
            };
            let join = || UdpLine::listen(SocketAddr::new(group, 0), &with(interface(&lane.far), 1));
            let joined = lane.far.namespace.run(join).expect("a namespace");
            let joined = joined
                .unwrap_or_else(|error| panic!("{group}, by name: {by_name}, members: {members}: {error}"));
            let to = SocketAddr::new(group, joined.local_address().port());
            let call = || UdpLine::call(to, &with(interface(&lane.near), 4));
            let caller = lane.near.namespace.run(call).expect("a namespace");
            let caller = caller
                .unwrap_or_else(|error| panic!("{group}, by name: {by_name}, members: {members}: {error}"));
            let (mut near, mut far) = (Node::udp(caller, &clock), Node::udp(joined, &clock));
            for n in 0..20 {
                near.send(message(n, 300));
                near.until(&clock, "its sending", |node| node.party.outcomes.len() == n as usize + 1);
                far.until(&clock, "the group's message", |node| node.party.messages.len() == n as usize + 1);
                assert_eq!(far.party.messages[n as usize], message(n, 300));
            }
            assert_eq!((near.line.stats().sent, near.line.stats().send_failed), (20, 0));
            // A member answers the sender, whose socket is not connected to the group.
            far.send(message(99, 100));
            far.until(&clock, "its answer's sending", |node| node.party.outcomes.len() == 1);
            near.until(&clock, "the answer", |node| !node.party.messages.is_empty());
            assert_eq!(near.party.messages, [message(99, 100)]);
        }
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    for (group, interface) in [
        ("239.1.2.3:5004", "nosuch0"),
        ("[ff18::1]:5004", "nosuch0"),
        ("239.1.2.3:5004", "192.0.2.7"),
        ("[ff18::1]:5004", "2001:db8::7"),
    ] {
        let options = options(Some(interface.into()), 1);
        for opened in [UdpLine::call(local(group), &options), UdpLine::listen(local(group), &options)] {
            let error = opened.map(drop).expect_err("no such interface").to_string();
            assert!(error.contains(interface), "{error}");
        }
    }
}

#[test]
fn two_receivers_on_one_machine_hear_the_same_group() {
    let Some(namespace) = private() else { return };
    let clock = OsClock::new();
    let interface = || Some("127.0.0.1".to_string());
    let join = |port| UdpLine::listen(SocketAddr::from(([239, 9, 9, 9], port)), &options(interface(), 1));
    let first = namespace.run(|| join(0)).expect("a namespace").expect("joined");
    let to = first.local_address();
    let second = namespace.run(|| join(to.port())).expect("a namespace").expect("joined beside it");
    let caller = namespace.run(|| UdpLine::call(to, &options(interface(), 0))).expect("a namespace");
    let mut near = Node::udp(caller.expect("a group"), &clock);
    near.send(message(1, 200));
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
    for line in [first, second] {
        let mut node = Node::udp(line, &clock);
        node.until(&clock, "the group's message", |node| node.party.messages == [message(1, 200)]);
    }
}

#[test]
fn a_broadcast_address_reaches_the_network() {
    let Some(namespace) = private() else { return };
    let clock = OsClock::new();
    let options = SocketOptions::default();
    let listen = || UdpLine::listen(local("0.0.0.0:0"), &options);
    let listener = namespace.run(listen).expect("a namespace").expect("a free port");
    let port = listener.local_address().port();
    // Loopback's own broadcast address (127/8).
    let to = SocketAddr::from(([127, 255, 255, 255], port));
    let caller = namespace.run(|| UdpLine::call(to, &options)).expect("a namespace").expect("broadcast");
    let (mut near, mut far) = (Node::udp(caller, &clock), Node::udp(listener, &clock));
    near.send(message(1, 200));
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
    far.until(&clock, "the broadcast", |node| node.party.messages == [message(1, 200)]);
    // The answer comes from an address of its own.
    far.send(message(2, 200));
    far.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
    near.until(&clock, "the answer", |node| node.party.messages == [message(2, 200)]);
}

/// A socket beside others on the same port, which all get what is broadcast; it never answers.
fn silent_listener(port: u16) -> UdpSocket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], port)).into()).expect("a port beside others");
    socket.set_nonblocking(true).expect("an option");
    socket.into()
}

/// Which of the messages 0 to 19 a socket got inside datagrams.
#[derive(Default)]
struct Heard(BTreeSet<u32>);

impl Heard {
    fn more(&mut self, socket: &UdpSocket) -> usize {
        let mut buf = [0; 2048];
        while let Ok(len) = socket.recv(&mut buf) {
            let holds = |n: &u32| buf[..len].windows(300).any(|part| part == message(*n, 300));
            self.0.extend((0..20).filter(holds));
        }
        self.0.len()
    }
}

#[test]
fn transports_broadcast_if_and_only_if_their_description_says_so() {
    let Some(namespace) = private() else { return };
    let clock = OsClock::new();
    for transport in antiphon_proto::TRANSPORTS {
        let answers = transport.offers(Capability::ConnectionOriented, "");
        if transport.substrate != Substrate::Udp || (!transport.broadcast && !answers) {
            // What needs no answer also reaches everybody; it is not promised, as repairs are for one receiver.
            continue;
        }
        let listeners = namespace.run(|| {
            let first = silent_listener(0);
            let port = first.local_addr().expect("its port").port();
            [first, silent_listener(port)]
        });
        let listeners = listeners.expect("a namespace");
        let port = listeners[0].local_addr().expect("its port").port();
        let to = SocketAddr::from(([127, 255, 255, 255], port));
        let call = || UdpLine::call(to, &SocketOptions::default());
        let line = namespace.run(call).expect("a namespace").expect("broadcast");
        let party = Party::new(endpoint(transport.scheme, Role::Caller, clock.now(), 1_400));
        let mut near = Node { line: Box::new(line), party };
        (0..20).for_each(|n| near.send(message(n, 300)));
        let mut heard: [Heard; 2] = Default::default();
        let mut count = || [0, 1].map(|at| heard[at].more(&listeners[at]));
        if transport.broadcast {
            near.until(&clock, transport.scheme, |_| count() == [20; 2]);
        } else {
            near.run_for(&clock, std::time::Duration::from_millis(300));
            assert_eq!(count(), [0; 2], "{}", transport.scheme);
        }
    }
}

#[test]
fn a_member_with_a_source_hears_that_one_alone() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    for group in ["232.1.2.3", "ff38::123"] {
        let group: IpAddr = group.parse().expect("an address");
        let from = address(&lane.near, group.is_ipv6());
        let elsewhere: IpAddr =
            if group.is_ipv6() { "2001:db8::9" } else { "192.0.2.9" }.parse().expect("one");
        for (source, heard) in [(from, 1), (elsewhere, 0)] {
            let interface = |side| Some(address(side, group.is_ipv6()).to_string());
            let mut asked = options(interface(&lane.far), 1);
            asked.multicast.source = Some(source);
            let join = || UdpLine::listen(SocketAddr::new(group, 0), &asked);
            let joined = lane.far.namespace.run(join).expect("a namespace").expect("joined");
            let to = SocketAddr::new(group, joined.local_address().port());
            let call = || UdpLine::call(to, &options(interface(&lane.near), 4));
            let caller = lane.near.namespace.run(call).expect("a namespace").expect("a group");
            let (mut near, mut far) = (Node::udp(caller, &clock), Node::udp(joined, &clock));
            near.send(message(1, 300));
            near.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
            if heard > 0 {
                far.until(&clock, "the group's message", |node| !node.party.messages.is_empty());
            }
            far.run_for(&clock, std::time::Duration::from_millis(100));
            assert_eq!(far.party.messages.len(), heard, "{group} from {source}");
        }
    }
}
