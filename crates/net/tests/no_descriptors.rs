//! A server whose process has no descriptor left; alone in its process, whose limit it lowers.
#![allow(unsafe_code, reason = "the limit has no safe wrapper here")]

#[path = "wires/server.rs"]
#[allow(dead_code, reason = "the tests of wires use the rest of it")]
mod server;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use server::{LIMIT, Running, Server, echoes};

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes into a live rlimit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY: reads a live rlimit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn a_server_without_descriptors_goes_on_and_does_not_spin() {
    let running = Running::start(Server::taking(10));
    let mut served = running.call();
    echoes(&mut served, b"hello");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let usual = limit();
    let next = File::open("/dev/null").expect("every Linux has it").as_raw_fd() as libc::rlim_t;
    set_limit(libc::rlimit { rlim_cur: next, ..usual });
    let connected = socket.connect(&running.tcp.into());
    let mut waits: TcpStream = socket.into();
    std::io::Write::write_all(&mut waits, b"is there room?").expect("the kernel takes it");
    // Half a second passes, in which this caller is not answered, and the other is served.
    let mut buf = [0; 14];
    for _ in 0..5 {
        waits.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
        let none = waits.read(&mut buf).map_err(|error| error.kind());
        assert!(matches!(none, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{none:?}");
        echoes(&mut served, b"still here");
    }
    set_limit(usual);
    connected.expect("it listens");
    waits.set_read_timeout(Some(LIMIT)).expect("a socket");
    waits.read_exact(&mut buf).expect("it is served now");
    assert_eq!(&buf, b"is there room?");
    let left = running.stop();
    assert_eq!((left.server.accepted, left.server.refused), (2, 0));
    // Ten pauses and twenty idle waits a second, and the messages of the two; a busy loop would make a hundred
    // thousand.
    assert!(left.report.rounds < 200 + 60 * left.report.elapsed.as_secs(), "{:?}", left.report);
}
