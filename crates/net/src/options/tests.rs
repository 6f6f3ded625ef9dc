use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::*;
use crate::poll::{self, Readiness};
use crate::{Line, TcpLine, TcpListening, UdpLine};

/// The kernel's value of a socket option.
fn read(socket: BorrowedFd<'_>, level: i32, name: i32) -> i32 {
    read_int(&socket, level, name).unwrap_or_else(|error| panic!("option {level}/{name}: {error}"))
}

fn check_common(socket: BorrowedFd<'_>, v6: bool) {
    // Set after DSCP, which sets it to a value of its own (46 << 2 makes 2 or 6 by table, 0 on some kernels).
    assert_eq!(read(socket, libc::SOL_SOCKET, libc::SO_PRIORITY), 6);
    assert_eq!(
        read(socket, libc::IPPROTO_IP, libc::IP_TOS),
        46 << 2,
        "for IPv4, dual-stack sockets included"
    );
    if v6 {
        assert_eq!(read(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS), 46 << 2);
    }
    let socket = socket2::SockRef::from(&socket);
    // The kernel counts time-outs in its ticks, of 10 ms at the coarsest.
    let timeout = socket.write_timeout().expect("a socket").expect("set");
    assert!(timeout >= Duration::from_millis(40) && timeout <= Duration::from_millis(50), "{timeout:?}");
    let timeout = socket.read_timeout().expect("a socket").expect("set");
    assert!(timeout >= IDLE && timeout <= IDLE + Duration::from_millis(10), "{timeout:?}");
}

/// The kernel doubles the requested size for its own bookkeeping, and limits it for users other than root (socket(7)).
fn check_buffer(got: usize, asked: usize, limit: &str) {
    let limit = std::fs::read_to_string(format!("/proc/sys/net/core/{limit}")).expect("Linux");
    let limit: usize = limit.trim().parse().expect("a number");
    assert_eq!(got, 2 * asked.min(limit));
}

const ADDRESSES: [&str; 3] = ["127.0.0.1:0", "[::1]:0", "[::]:0"];

fn parse(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

#[test]
fn udp_sockets_are_set_as_asked() {
    let options = SocketOptions { receive_buffer: 150_000, send_buffer: 60_000, ..SocketOptions::default() };
    for address in ADDRESSES.map(parse) {
        let listener = UdpLine::listen(address, &options).expect("a free port");
        assert_eq!(listener.notes(), [] as [String; 0]);
        let mut lines = vec![(listener, address.is_ipv6())];
        if !address.ip().is_unspecified() {
            let peer = lines[0].0.local_address();
            lines.push((UdpLine::call(peer, &options).expect("loopback"), address.is_ipv6()));
        }
        for (line, v6) in &lines {
            let socket = line.socket();
            check_common(socket, *v6);
            assert_eq!(read(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1);
            assert_eq!(read(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), libc::IP_PMTUDISC_DO);
            if *v6 {
                let mode = read(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
                assert_eq!(mode, libc::IP_PMTUDISC_DO);
            }
            let socket = socket2::SockRef::from(&socket);
            check_buffer(socket.recv_buffer_size().expect("a socket"), 150_000, "rmem_max");
            check_buffer(socket.send_buffer_size().expect("a socket"), 60_000, "wmem_max");
        }
    }
}

#[test]
fn tcp_sockets_are_set_as_asked_called_and_accepted_alike() {
    for address in ADDRESSES.map(parse) {
        let options = SocketOptions::default();
        let listening = TcpListening::bind(address, &options).expect("a free port");
        let port = listening.local_address().port();
        let host =
            if address.ip().is_unspecified() { "127.0.0.1".parse().expect("v4") } else { address.ip() };
        let caller = TcpLine::call(SocketAddr::new(host, port), &options).expect("it listens");
        poll::wait(listening.as_fd().as_raw_fd(), Readiness::READABLE, Duration::from_secs(5));
        let (stream, peer) = listening.next_caller().expect("a descriptor").expect("the call");
        let accepted = listening.line(stream, peer).expect("it is there still");
        for (line, v6) in [(&caller, host.is_ipv6()), (&accepted, address.is_ipv6())] {
            let socket = line.socket().expect("connected");
            check_common(socket, v6);
            assert_eq!(read(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
            assert_eq!(read(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), 2_048);
            assert_eq!(read(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
            assert_eq!(read(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 15);
            assert_eq!(read(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 30_000);
            assert_eq!(line.notes(), [] as [String; 0]);
        }
    }
}

#[test]
fn a_group_is_sent_to_with_its_ttl_through_its_interface() {
    for (group, interface) in [("239.1.2.3:5", "127.0.0.1"), ("239.1.2.3:5", "lo"), ("[ff18::1]:5", "lo")] {
        let multicast = Multicast { ttl: Some(7), interface: Some(interface.into()), ..Multicast::default() };
        let options = SocketOptions { multicast, ..SocketOptions::default() };
        let group = parse(group);
        let line = UdpLine::call(group, &options).expect("a group");
        let index = interface_index("lo").expect("every Linux has it");
        if group.is_ipv6() {
            assert_eq!(read(line.socket(), libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS), 7);
            assert_eq!(read(line.socket(), libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) as u32, index);
        } else {
            assert_eq!(read(line.socket(), libc::IPPROTO_IP, libc::IP_MULTICAST_TTL), 7);
        }
    }
    // By default datagrams do not leave the local network.
    let line = UdpLine::call(parse("239.1.2.3:5"), &SocketOptions::default()).expect("a group");
    assert_eq!(read(line.socket(), libc::IPPROTO_IP, libc::IP_MULTICAST_TTL), 1);
}

#[test]
fn what_is_refused_is_noted_and_stops_nothing() {
    let options = SocketOptions { congestion: Some("nosuch".into()), ..SocketOptions::default() };
    let listening = TcpListening::bind(parse("127.0.0.1:0"), &options).expect("a free port");
    assert!(listening.notes().iter().any(|note| note.contains("'nosuch'")), "{:?}", listening.notes());
}

#[test]
fn an_interface_is_found_by_name_and_by_address() {
    let lo = interface_index("lo").expect("every Linux has it");
    assert_eq!(interface_index("127.0.0.1").expect("loopback's"), lo);
    for unknown in ["nosuch0", "192.0.2.1", "2001:db8::1", "", "l\0o"] {
        assert!(interface_index(unknown).is_err(), "{unknown:?}");
    }
}
