//! Wires that are added and removed while the thread runs, handed over by other threads.

use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc;

use antiphon_core::{BrokenReason, Instant, WireId};
use antiphon_net::{
    DriveOptions, Handover, IDLE, Line, LineError, Lines, Opened, OsClock, SocketOptions, Stop, TcpLine,
    UdpLine, drive, drive_each,
};

use crate::server::{LIMIT, Server, pattern};

fn udp() -> UdpLine {
    UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("a free port")
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    socket
}

/// Runs a server without any wire until `with` is done; returns the server.
fn handing_over(with: impl FnOnce(Handover)) -> Server {
    let (tell, told) = mpsc::channel();
    let stop = Stop::new();
    let asked = stop.clone();
    let thread = std::thread::spawn(move || {
        let (mut lines, mut server) = (Lines::new(), Server::taking(0));
        tell.send(lines.handover(4).expect("a descriptor")).expect("the test waits");
        let clock = OsClock::new();
        drive(&mut lines, &mut server, &clock, &asked, DriveOptions::default()).expect("it goes on");
        server
    });
    with(told.recv().expect("it starts"));
    stop.ask();
    thread.join().expect("no panic")
}

fn give(handover: &mut Handover, wire: u32, opened: Opened) {
    assert!(handover.give(WireId(wire), opened).is_ok(), "there is room");
}

#[test]
fn wires_are_handed_over_one_after_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = handing_over(|mut handover| {
        let (first, second) = (udp(), udp());
        let addresses = [first.local_address(), second.local_address()];
        let socket = socket();
        let echo = |to| {
            socket.send_to(&pattern(300), to).expect("loopback");
            let mut buf = [0; 400];
            let len = socket.recv(&mut buf).expect("it comes back");
            assert!(buf[..len] == pattern(300));
        };
        // Alone, then beside another, then beside a connection.
        give(&mut handover, 1, Opened::Line(Box::new(first)));
        echo(addresses[0]);
        give(&mut handover, 2, Opened::Line(Box::new(second)));
        echo(addresses[1]);
        echo(addresses[0]);
        let to = listener.local_addr().expect("bound");
        let call = TcpLine::call(to, &SocketOptions::default()).expect("it listens");
        give(&mut handover, 3, Opened::Line(Box::new(call)));
        let (mut peer, _) = listener.accept().expect("the call");
        peer.set_read_timeout(Some(LIMIT)).expect("a socket");
        crate::server::echoes(&mut peer, &pattern(5_000));
        echo(addresses[1]);
    });
    let connected = |wire: u32| server.wires[&WireId(wire)].connected;
    assert_eq!([connected(1), connected(2), connected(3)], [1, 1, 1]);
}

#[test]
fn a_caller_beside_another_line_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // It is kept to the end.
    let mut last = None;
    let server = handing_over(|mut handover| {
        give(&mut handover, 1, Opened::Line(Box::new(udp())));
        let to = listener.local_addr().expect("bound");
        let call = TcpLine::call(to, &SocketOptions::default()).expect("it listens");
        give(&mut handover, 2, Opened::Line(Box::new(call)));
        for n in 0..3 {
            // The first call, and one after each break.
            let (mut peer, _) = listener.accept().expect("a call");
            peer.set_read_timeout(Some(LIMIT)).expect("a socket");
            crate::server::echoes(&mut peer, &pattern(3_000 + n));
        }
        // All that it was told before is complete when this comes back.
        let (mut peer, _) = listener.accept().expect("a call");
        crate::server::echoes(&mut peer, b"the last");
        last = Some(peer);
    });
    let wire = &server.wires[&WireId(2)];
    assert_eq!((wire.connected, wire.broken.len()), (4, 3));
}

#[test]
fn a_wire_that_cannot_be_opened_is_reported_as_broken() {
    let server = handing_over(|mut handover| {
        give(&mut handover, 7, Opened::Failed(BrokenReason::Unreachable));
        // Everything before was taken when this answer comes.
        let line = udp();
        let to = line.local_address();
        give(&mut handover, 8, Opened::Line(Box::new(line)));
        let socket = socket();
        socket.send_to(b"there?", to).expect("loopback");
        socket.recv(&mut [0; 10]).expect("it comes back");
    });
    assert_eq!(server.wires[&WireId(7)].broken, [BrokenReason::Unreachable]);
    assert_eq!((server.wires[&WireId(7)].connected, server.wires[&WireId(8)].connected), (0, 1));
}

#[test]
fn a_handover_without_room_gives_back() {
    let mut lines = Lines::new();
    let mut handover = lines.handover(1).expect("a descriptor");
    assert!(handover.give(WireId(1), Opened::Line(Box::new(udp()))).is_ok());
    let back = handover.give(WireId(2), Opened::Failed(BrokenReason::Refused));
    assert!(matches!(back, Err(Opened::Failed(BrokenReason::Refused))));
}

#[test]
fn a_waker_ends_the_wait_of_several_lines() {
    let (stop, clock) = (Stop::new(), OsClock::new());
    let asked = stop.clone();
    let waker = antiphon_net::Waker::new().expect("an event descriptor");
    let (given, (tell, told)) = (waker.clone(), mpsc::channel());
    let thread = std::thread::spawn(move || {
        let (mut lines, mut server) = (Lines::new(), Server::taking(0));
        lines.set_waker(given);
        for wire in 0..2 {
            lines.add(WireId(wire), Box::new(udp())).expect("a new wire");
        }
        let mut each = |_: Instant, _: &mut Server, _: &mut Lines<'_>| {
            let _by_its_end_the_test_has_heard_enough = tell.send(());
        };
        drive_each(&mut lines, &mut server, &clock, &asked, DriveOptions::default(), &mut each)
            .expect("it goes on");
    });
    // The first round does not wait.
    told.recv_timeout(LIMIT).expect("it starts");
    let mut waits = Vec::new();
    for _ in 0..40 {
        let start = clock.now();
        waker.wake();
        told.recv_timeout(LIMIT).expect("it goes on");
        waits.push(clock.now().since(start));
    }
    stop.ask();
    waker.wake();
    thread.join().expect("no panic");
    // Without it, rounds are an IDLE apart, of which most are whole here. A busy machine wakes a thread late now and then.
    waits.sort_unstable();
    assert!(waits[10] < IDLE / 2, "{waits:?}");
}

#[test]
fn a_wire_that_is_there_is_not_added_again() {
    let mut lines = Lines::new();
    lines.add(WireId(5), Box::new(udp())).expect("the first");
    let again = lines.add(WireId(5), Box::new(udp()));
    assert!(matches!(again, Err(LineError::WireInUse { wire: 5 })));
    let taken = lines.take(WireId(5)).expect("it is there");
    lines.add(WireId(5), taken).expect("free again");
    assert_eq!(lines.wires().collect::<Vec<_>>(), [WireId(5)]);
}
