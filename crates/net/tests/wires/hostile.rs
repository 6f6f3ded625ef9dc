//! Traffic of unknown sources on a server of many wires.
#![allow(unsafe_code, reason = "the limit of descriptors has no safe wrapper here")]

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::WireId;
use antiphon_net::{IDLE, OsClock};

use crate::server::{DATAGRAMS, FIRST, LISTENER, Running, Server, echoes, has_ended, pattern};

/// Lets this process have descriptors for both ends of so many connections; answers for how many there are. The test says
/// nothing where there are few.
fn room_for(connections: usize) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are given a live rlimit.
    let limit = unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(65_536);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        limit.rlim_cur as usize
    };
    let room = connections.min(limit.saturating_sub(200) / 2);
    assert!(
        room >= LEAST_MANY,
        "{limit} descriptors are too few for this test: raise the hard limit (ulimit -Hn)"
    );
    room
}

#[test]
fn a_thousand_silent_connections_cost_the_honest_one_nothing() {
    let many = room_for(1_000);
    let running = Running::start(Server::taking(many + 1));
    let silent: Vec<TcpStream> = (0..many).map(|_| running.call()).collect();
    let mut honest = running.call();
    let clock = OsClock::new();
    let took = (0..50).map(|n| {
        let start = clock.now();
        echoes(&mut honest, &pattern(1_000 + n));
        clock.now().since(start)
    });
    // 20 microseconds each on an idle machine; checking every connection in each round would take a hundred times as
    // long. The least, since a busy machine runs other programs in between.
    let least = took.min().expect("fifty");
    assert!(least < Duration::from_millis(1), "{least:?}");
    let left = running.stop();
    assert_eq!(left.server.accepted as usize, many + 1);
    // A round for each event: a few for accepting, fifty for the honest connection, the rest are needless wake-ups.
    let most = (many + 200) as u64 + 3 * (left.report.elapsed.as_millis() / IDLE.as_millis()) as u64;
    assert!(left.report.rounds < most, "{:?}", left.report);
    drop(silent);
}

#[test]
fn connects_and_closes_in_a_loop_leave_nothing_behind() {
    let running = Running::start(Server::taking(usize::MAX));
    let mut honest = running.call();
    for n in 0..600 {
        let mut caller = running.call();
        match n % 3 {
            0 => caller.write_all(&[1; 100]).expect("buffers take it"),
            1 => socket2::SockRef::from(&caller).set_linger(Some(Duration::ZERO)).expect("a socket"),
            _ => {}
        }
        drop(caller);
        if n % 50 == 0 {
            echoes(&mut honest, &pattern(n + 1));
        }
    }
    // Served in order: when this one has been, the others have, too.
    let mut last = running.call();
    echoes(&mut last, b"the last");
    call_and_end_again(&running, &mut last);
    let left = running.stop();
    assert_eq!(left.server.accepted, 602 + PROBES);
    assert_eq!(left.wires, [LISTENER, DATAGRAMS, WireId(FIRST), WireId(FIRST + 601)]);
}

/// Calls and ends a few times more: each end that is answered was served after those before it.
fn call_and_end_again(running: &Running, last: &mut TcpStream) {
    for _ in 0..PROBES {
        let mut caller = running.call();
        echoes(&mut caller, b"probe");
        caller.shutdown(std::net::Shutdown::Write).expect("a connection");
        assert!(has_ended(&mut caller));
    }
    echoes(last, b"still here");
}

const PROBES: u32 = 3;
/// With fewer silent connections, a server that looks at all of them in each round would not be told from one that does not.
const LEAST_MANY: usize = 400;
/// Bytes of a flood that have come back in its test: far more than the honest one has sent, and than sockets hold.
const FLOOD: u64 = 32 << 20;

#[test]
fn a_flood_on_one_wire_starves_no_other() {
    let running = Running::start(Server::taking(2));
    let (mut honest, udp) = (running.call(), running.udp);
    let (over, clock) = (AtomicBool::new(false), OsClock::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
                while !over.load(Ordering::Relaxed) {
                    let _full_queues_are_the_point = socket.send_to(&[1; 60], udp);
                }
            });
        }
        for n in 0..200 {
            echoes(&mut honest, &pattern(500 + n));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(clock.now().as_nanos() < 10_000_000_000, "{:?}", clock.now());
    let left = running.stop();
    assert!(left.server.wires.contains_key(&DATAGRAMS), "a flood happened");
}

#[test]
fn a_connection_that_floods_starves_no_other() {
    let running = Running::start(Server::taking(3));
    let mut honest = running.call();
    let flood = running.call();
    let (over, flooded, clock) = (AtomicBool::new(false), AtomicU64::new(0), OsClock::new());
    std::thread::scope(|scope| {
        let (mut writes, mut reads) = (&flood, &flood);
        scope.spawn(move || while writes.write_all(&[3; 65_536]).is_ok() {});
        let (over, flooded) = (&over, &flooded);
        scope.spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while !over.load(Ordering::Relaxed) {
                let Ok(len) = reads.read(&mut piece) else { return };
                flooded.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        let is_under_way = || clock.now().as_nanos() < 10_000_000_000;
        let enough = |n| n >= 200 && flooded.load(Ordering::Relaxed) >= FLOOD;
        let mut n = 0;
        while !enough(n) && is_under_way() {
            echoes(&mut honest, &pattern(500 + n % 200));
            n += 1;
        }
        over.store(true, Ordering::Relaxed);
        flood.shutdown(std::net::Shutdown::Both).expect("a connection");
        assert!(enough(n), "{n} echoes beside {flooded:?} bytes of a flood in {:?}", clock.now());
    });
    running.stop();
}
