//! A machine with several addresses, and one whose address changes in the middle of a stream, in namespaces.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use antiphon_net::emulator::{Lane, Side};
use antiphon_net::{Line, OsClock, SocketOptions, UdpLine};

use crate::world::{LIMIT, Node, lane, local, message, number};

/// The device of each side of a lane.
const DEVICE: &str = "antiphon0";

/// Runs `ip` in the side's namespace.
fn ip(side: &Side, arguments: &str) {
    let run = || Command::new("ip").args(arguments.split(' ')).output();
    let output = side.namespace.run(run).expect("a namespace").expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Another address of the network of `address`.
fn neighbour(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            IpAddr::from([a, b, c, d ^ 0x80])
        }
        IpAddr::V6(v6) => {
            let mut segments = v6.segments();
            segments[7] ^= 0x8000;
            IpAddr::from(segments)
        }
    }
}

fn add(side: &Side, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => ip(side, &format!("addr add {v4}/32 dev {DEVICE}")),
        IpAddr::V6(v6) => ip(side, &format!("addr add {v6}/128 dev {DEVICE} nodad")),
    }
}

#[test]
fn answers_leave_from_the_address_that_was_called() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    let first: [IpAddr; 2] = [lane.far.v4.into(), lane.far.v6.into()];
    first.iter().for_each(|address| add(&lane.far, neighbour(*address)));
    for (wildcard, called) in [("0.0.0.0:0", first[0]), ("[::]:0", first[0]), ("[::]:0", first[1])] {
        for called in [called, neighbour(called)] {
            let listen = || UdpLine::listen(local(wildcard), &SocketOptions::default());
            let line = lane.far.namespace.run(listen).expect("a namespace").expect("a free port");
            let to = SocketAddr::new(called, line.local_address().port());
            let near = lane.near.namespace.run(|| UdpSocket::bind(local("[::]:0"))).expect("a namespace");
            let near = if called.is_ipv4() {
                lane.near.namespace.run(|| UdpSocket::bind(local("0.0.0.0:0"))).expect("a namespace")
            } else {
                near
            };
            let near = near.expect("a port");
            near.connect(to).expect("a route");
            near.set_read_timeout(Some(LIMIT)).expect("a socket");
            near.send(&message(1, 200)).expect("a way");
            let mut far = Node::udp(line, &clock);
            far.until(&clock, "the message", |node| node.party.messages.len() == 1);
            far.send(message(2, 200));
            far.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
            let mut buf = [0; 2048];
            let len = near.recv(&mut buf).unwrap_or_else(|error| panic!("{wildcard}, {called}: {error}"));
            assert_eq!(buf[..len], message(2, 200)[..]);
        }
    }
}

#[test]
fn a_caller_whose_address_is_gone_goes_on_from_another() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    for v6 in [false, true] {
        // In the caller's network, where it looks for its address.
        lane.near.namespace.run(|| goes_on(&lane, v6)).expect("a namespace");
    }
}

fn goes_on(lane: &Lane, v6: bool) {
    let clock = OsClock::new();
    let (from, at): (IpAddr, IpAddr) = match v6 {
        true => (lane.near.v6.into(), lane.far.v6.into()),
        false => (lane.near.v4.into(), lane.far.v4.into()),
    };
    let far = lane.far.namespace.run(|| UdpSocket::bind(SocketAddr::new(at, 0))).expect("a namespace");
    let far = far.expect("its address");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    let to = far.local_addr().expect("bound");
    let line = UdpLine::call(to, &SocketOptions::default());
    let mut near = Node::udp(line.expect("a route"), &clock);
    near.send(message(0, 100));
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
    let mut buf = [0; 2048];
    let (_, before) = far.recv_from(&mut buf).expect("the first message");
    assert_eq!(before.ip(), from);

    let other = neighbour(from);
    add(&lane.near, other);
    let (family, whole) = if v6 { ("-6", 128) } else { ("-4", 32) };
    let prefix = prefix_of(&lane.near, from).unwrap_or(whole);
    let gone_since = clock.now();
    ip(&lane.near, &format!("addr del {from}/{prefix} dev {DEVICE}"));
    ip(&lane.near, &format!("{family} route replace default dev {DEVICE} src {other}"));
    let began = clock.now();
    let mut n = 1;
    while near.line.stats().moved == 0 {
        assert!(clock.now().since(began) < LIMIT, "it never looks for another: {:?}", near.line.stats());
        near.send(message(n, 100));
        near.run_for(&clock, Duration::from_millis(5));
        n += 1;
    }
    let took = clock.now().since(gone_since);
    assert!(took >= Duration::from_millis(200), "an address that is renewed is waited for: {took:?}");
    near.send(message(1000, 100));
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == n as usize + 1);
    // IPv6 has sent the others from where nobody can answer.
    let after = loop {
        let (len, after) = far.recv_from(&mut buf).expect("the stream goes on");
        if number(&buf[..len]) == 1000 {
            break after;
        }
    };
    assert_eq!(after, SocketAddr::new(other, before.port()), "from the other address and the same port");
    // And what is answered comes back.
    far.send_to(&message(7, 100), after).expect("a way");
    near.until(&clock, "the answer", |node| node.party.messages == [message(7, 100)]);
}

/// The length of the prefix that an address was added with.
fn prefix_of(side: &Side, address: IpAddr) -> Option<u8> {
    let run = || Command::new("ip").args(["-o", "addr", "show", "dev", DEVICE]).output();
    let output = side.namespace.run(run).expect("a namespace").expect("iproute2 is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.split_whitespace().find_map(|word| word.strip_prefix(&format!("{address}/")))?;
    found.parse().ok()
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!(((folded & 0xffff) + (folded >> 16)) as u16)).to_be_bytes()
}

/// What a router says that had to drop a datagram with Don't Fragment (RFC 1191 §4), sent by the side `from`.
fn say_too_large(from: &Side, sender: SocketAddr, receiver: SocketAddr, mtu: u16) {
    let (IpAddr::V4(near), IpAddr::V4(far)) = (sender.ip(), receiver.ip()) else { panic!("IPv4") };
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    // The header of what was dropped: IPv4, 1428 bytes, UDP.
    icmp.extend([0x45, 0, 5, 0x94, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    icmp.extend(near.octets());
    icmp.extend(far.octets());
    icmp.extend(sender.port().to_be_bytes());
    icmp.extend(receiver.port().to_be_bytes());
    icmp.extend([5, 0x80, 0, 0]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let send = || {
        let raw = (socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::ICMPV4));
        let socket = socket2::Socket::new(raw.0, raw.1, raw.2)?;
        socket.send_to(&icmp, &SocketAddr::new(sender.ip(), 0).into())
    };
    assert_eq!(from.namespace.run(send).expect("a namespace").expect("root sends ICMP"), icmp.len());
}

#[test]
fn a_path_that_becomes_narrower_is_told_to_the_participant() {
    let Some((_router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    let at = SocketAddr::new(lane.far.v4.into(), 0);
    let far = lane.far.namespace.run(|| UdpSocket::bind(at)).expect("a namespace").expect("its address");
    far.set_read_timeout(Some(LIMIT)).expect("a socket");
    let to = far.local_addr().expect("bound");
    let line = lane.near.namespace.run(|| UdpLine::call(to, &SocketOptions::default()));
    let line = line.expect("a namespace").expect("a route");
    let from = line.local_address();
    let mut near = Node::udp(line, &clock);
    let (before, mut buf) = (near.party.endpoint.profile().max_message, [0; 2048]);
    near.send(message(0, 1400));
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == 1);
    assert_eq!(far.recv(&mut buf).expect("it arrives"), 1400);
    say_too_large(&lane.far, from, to, 1280);
    let began = clock.now();
    while near.party.endpoint.profile().max_message == before {
        assert!(clock.now().since(began) < LIMIT, "it is never told: {:?}", near.line.stats());
        near.send(message(1, 1400));
        near.run_for(&clock, Duration::from_millis(2));
    }
    assert_eq!(near.party.endpoint.profile().max_message, 1280 - 28);
    near.send(message(2, 1280 - 28));
    let sent = near.party.outcomes.len() + 1;
    near.until(&clock, "its sending", |node| node.party.outcomes.len() == sent);
    while number(&buf) != 2 {
        far.recv(&mut buf).expect("what fits arrives");
    }
}
