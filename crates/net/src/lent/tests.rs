use std::net::{TcpListener, UdpSocket};
use std::os::fd::{FromRawFd, IntoRawFd};

use super::*;

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("loopback")
}

fn refused(fd: RawFd, peer: SocketAddr) -> Option<i32> {
    LentSocket::lend(fd, peer).expect_err("refused").raw_os_error()
}

#[test]
fn sockets_of_other_kinds_are_refused_with_errno() {
    let (socket, peer) = (udp(), udp().local_addr().expect("bound"));
    let fd = socket.as_raw_fd();
    assert_eq!(refused(-1, peer), Some(libc::EBADF));
    let file = tempfile::tempfile().expect("a file");
    assert_eq!(refused(file.as_raw_fd(), peer), Some(libc::ENOTSOCK));
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    assert_eq!(refused(tcp.as_raw_fd(), peer), Some(libc::EPROTOTYPE));
    assert_eq!(refused(fd, "[::1]:7000".parse().unwrap()), Some(libc::EAFNOSUPPORT));
    for invalid in ["127.0.0.1:0", "0.0.0.0:7000", "239.1.2.3:7000"] {
        assert_eq!(refused(fd, invalid.parse().unwrap()), Some(libc::EINVAL), "{invalid}");
    }
}

#[test]
fn datagrams_pass_and_other_sources_are_recognised() {
    let (program, peer, unknown_source) = (udp(), udp(), udp());
    let (clock, mut buf) = (OsClock::new(), [0; 100]);
    let lent = LentSocket::lend(program.as_raw_fd(), peer.local_addr().unwrap()).expect("a UDP socket");
    assert_eq!(lent.receive(&clock, &mut buf).unwrap(), Arrival::Nothing);
    let here = program.local_addr().unwrap();
    // Loopback delivers within the call that sends, unless the kernel has a lot to do.
    let mut next = || loop {
        match lent.receive(&clock, &mut buf).unwrap() {
            Arrival::Nothing => lent.wait(Duration::from_secs(20)).unwrap(),
            arrival => break arrival,
        }
        assert!(clock.now() < Instant::from_millis(20_000), "nothing comes");
    };
    unknown_source.send_to(b"psst", here).unwrap();
    peer.send_to(b"hello", here).unwrap();
    assert_eq!(next(), Arrival::UnknownSource);
    let arrival = next();
    assert!(matches!(arrival, Arrival::Datagram { len: 5, received_at } if received_at <= clock.now()));
    assert_eq!(&buf[..5], b"hello");
    lent.send(b"answer").unwrap();
    assert_eq!(peer.recv(&mut buf).unwrap(), 6);
}

#[test]
fn the_program_has_its_socket_back_as_it_was() {
    let (program, peer) = (udp(), udp());
    let stamps = || read_int(&program, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).unwrap();
    let lent = LentSocket::lend(program.as_raw_fd(), peer.local_addr().unwrap()).unwrap();
    assert_eq!(stamps(), 1);
    drop(lent);
    assert_eq!(stamps(), 0);
    peer.send_to(b"still open", program.local_addr().unwrap()).unwrap();
    assert_eq!(program.recv(&mut [0; 20]).unwrap(), 10);
}

#[test]
fn a_closed_descriptor_is_noticed_when_its_number_is_reused() {
    let (program, peer) = (udp(), udp());
    let fd = program.into_raw_fd();
    let lent = LentSocket::lend(fd, peer.local_addr().unwrap()).unwrap();
    lent.wait(Duration::ZERO).expect("still open");
    let other = udp();
    // SAFETY: both are open; the first is ours alone, and becomes another socket under the same number.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
    assert!(!lent.is_lent());
    assert_eq!(lent.wait(Duration::ZERO).unwrap_err().raw_os_error(), Some(libc::EBADF));
    // SAFETY: made just above, and owned by nothing else.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

#[test]
fn waiting_ends_with_a_ring_and_with_a_shut_down() {
    let (program, peer) = (udp(), udp());
    program.connect(peer.local_addr().unwrap()).unwrap();
    let lent = LentSocket::lend(program.as_raw_fd(), peer.local_addr().unwrap()).unwrap();
    let clock = OsClock::new();
    lent.waker().wake();
    lent.wait(Duration::from_secs(60)).expect("woken, and nothing wrong");
    socket2::SockRef::from(&program).shutdown(std::net::Shutdown::Both).unwrap();
    let error = lent.wait(Duration::from_secs(60)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    // Neither wait may have run to its end of a minute.
    assert!(clock.now() < Instant::from_millis(30_000));
}
