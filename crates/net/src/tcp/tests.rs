use std::net::{TcpListener, TcpStream};

use socket2::{Domain, Type};

use super::*;
use antiphon_core::Single;

use crate::inert::{Inert, on};
use crate::poll::{self, Readiness};

/// A caller whose peer has just gone, at the instant zero, and to which no socket listens any more.
fn deserted(participant: &mut Single<Inert>) -> TcpLine {
    let to = ([127, 0, 0, 1], antiphon_testkit::free_ports(1)).into();
    let listener = TcpListener::bind::<SocketAddr>(to).expect("loopback");
    let mut line = TcpLine::call(to, &SocketOptions::default()).expect("it listens");
    line.tend(Instant::ZERO, &mut on(participant));
    drop((listener.accept().expect("the call"), listener));
    line.lose(Instant::ZERO, BrokenReason::EndOfStream, &mut on(participant));
    line
}

#[test]
fn failed_calls_are_repeated_with_back_off_and_a_limit() {
    let mut participant = Single::new(Inert::default());
    let mut line = deserted(&mut participant);
    let mut calls = Vec::new();
    let mut now = Instant::ZERO;
    // Time is simulated: a minute passes at once, while the refusals of loopback are real.
    while now < Instant::from_millis(60_000) {
        let before = line.stream.is_some();
        line.tend(now, &mut on(&mut participant));
        if let Some(stream) = line.stream.as_ref().filter(|_| !before) {
            calls.push(now);
            // Simulated time stands still until the refusal is there.
            let answered = Readiness { readable: false, writable: true };
            assert!(poll::wait(stream.as_raw_fd(), answered, Duration::from_secs(20)).writable, "no refusal");
        }
        let due = line.poll_timeout().expect("it never gives up");
        // Loopback refuses at once, so the next call is due.
        now = if line.stream.is_some() { now + Duration::from_millis(1) } else { due.max(now) };
    }
    let pauses: Vec<u128> = calls.windows(2).map(|pair| pair[1].since(pair[0]).as_millis()).collect();
    assert_eq!(calls[0], Instant::from_millis(100), "the first call after the first pause");
    // Doubled each time from 200 ms on, a millisecond of refusal in between, up to five seconds.
    for (i, pause) in pauses.iter().enumerate() {
        let wanted = (200 << i.min(10)).min(5_000);
        assert!((wanted..=wanted + 2).contains(pause), "pause {i} is {pause} ms: {pauses:?}");
    }
    assert!(pauses.len() > 10, "{pauses:?}");
    assert_eq!((participant.get().connected, participant.get().broken), (1, 1));
}

#[test]
fn a_call_into_a_black_hole_is_given_up_and_repeated() {
    let mut participant = Single::new(Inert::default());
    let mut line = deserted(&mut participant);
    // A listener that accepts nothing: its queue of one is full, and the kernel drops further calls.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    full.listen(0).expect("a socket");
    let to = address_of(&full).expect("bound");
    let _fills_it = TcpStream::connect(to).expect("room for one");
    if let Source::Caller { peer, .. } = &mut line.source {
        *peer = to;
    }
    let start = Instant::from_millis(100);
    line.tend(start, &mut on(&mut participant));
    assert!(line.stream.is_some(), "a call is under way");
    let until = line.poll_timeout().expect("it will be given up");
    assert_eq!(until, start + CONNECT_PATIENCE);
    line.tend(until - Duration::from_millis(1), &mut on(&mut participant));
    assert!(line.stream.is_some());
    line.tend(until, &mut on(&mut participant));
    assert!(line.stream.is_none(), "no answer");
    assert_eq!(line.poll_timeout(), Some(until + 2 * FIRST_BACKOFF));
    assert_eq!(participant.get().connected, 1);
}

#[test]
fn a_socket_that_called_itself_is_no_connection() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let own = socket.local_addr().expect("bound");
    socket.connect(&own).expect("TCP allows it: a simultaneous open with oneself");
    assert!(settle(&socket).is_err());
}

/// Bytes that the kernel holds and has not sent (`tcpi_notsent_bytes`, linux/tcp.h).
#[cfg(target_os = "linux")]
fn unsent(line: &TcpLine) -> u32 {
    let info = system::tcp_info_of(line.stream.as_ref().expect("connected")).expect("it is a TCP");
    u32::from_ne_bytes(info[144..148].try_into().expect("four bytes"))
}

/// A peer that reads nothing, or a slow path: what the kernel was given can no longer be dropped for its age.
#[test]
#[cfg(target_os = "linux")]
fn a_peer_that_reads_nothing_leaves_little_unsent_in_the_kernel() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let to = listener.local_addr().expect("bound");
    let mut line = TcpLine::call(to, &SocketOptions::default()).expect("it listens");
    let mut participant = Single::new(Inert { message: 200, ..Inert::default() });
    let _reads_nothing = listener.accept().expect("the call");
    let mut most = 0;
    // Until the peer's buffer is full, and then on.
    for round in 0..50 {
        let now = Instant::from_millis(round);
        let view = &mut on(&mut participant);
        line.tend(now, view);
        line.blocked = false;
        line.transmit(now, view).expect("it goes on");
        let want = Readiness { readable: false, writable: true };
        poll::wait(line.fd().expect("connected"), want, Duration::from_millis(2));
        most = most.max(unsent(&line));
    }
    // What was below the bound, and a segment.
    assert!((1..=2_048 + 1_448).contains(&most), "{most} bytes unsent");
}
