//! Connections that come in: served side by side, refused, reported.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{BrokenReason, WireId};
use antiphon_net::{Line, LineObserver, SocketOptions};

use crate::server::{DATAGRAMS, FIRST, LISTENER, Running, Server, echoes, has_ended, pattern};

#[test]
fn one_thread_echoes_a_hundred_connections() {
    let running = Running::start(Server::taking(100));
    let mut callers: Vec<TcpStream> = (0..100).map(|_| running.call()).collect();
    for round in 1..4 {
        for (at, caller) in callers.iter_mut().enumerate() {
            echoes(caller, &pattern(round * 700 + at));
        }
    }
    drop(callers);
    let left = running.stop();
    assert_eq!(left.server.accepted, 100);
    let served = left.server.wires.range(WireId(FIRST)..);
    assert!(served.clone().all(|(_, wire)| wire.connected == 1));
    assert_eq!(served.count(), 100);
}

#[test]
fn a_datagram_wire_is_served_beside_connections() {
    let running = Running::start(Server::taking(1));
    let (mut caller, socket) = (running.call(), running.datagrams());
    for n in 0..50u8 {
        socket.send(&[n; 300]).expect("loopback");
        echoes(&mut caller, &[n; 500]);
        let mut buf = [0; 400];
        assert_eq!(socket.recv(&mut buf).expect("it comes back"), 300);
        assert!(buf[..300] == [n; 300]);
    }
    assert_eq!(running.stop().server.wires[&DATAGRAMS].connected, 0, "it was there from the start");
}

#[test]
fn a_broken_connection_goes_and_leaves_the_others() {
    let running = Running::start(Server::taking(100));
    let mut others: Vec<TcpStream> = (0..3).map(|_| running.call()).collect();
    let (mut ends, mut resets) = (running.call(), running.call());
    for caller in others.iter_mut().chain([&mut ends, &mut resets]) {
        echoes(caller, b"hello");
    }
    ends.shutdown(Shutdown::Write).expect("a connection");
    assert!(has_ended(&mut ends), "our side closes, too");
    socket2::SockRef::from(&resets).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(resets);
    for caller in &mut others {
        echoes(caller, &pattern(5_000));
    }
    let left = running.stop();
    let broken = |wire: u32| left.server.wires[&WireId(FIRST + wire)].broken.clone();
    assert_eq!(broken(3), [BrokenReason::EndOfStream]);
    assert_eq!(broken(4), [BrokenReason::Refused]);
    assert!((0..3).all(|wire| broken(wire).is_empty()));
    let there: Vec<u32> = left.wires.iter().map(|wire| wire.0).collect();
    assert_eq!(there, [LISTENER.0, DATAGRAMS.0, FIRST, FIRST + 1, FIRST + 2]);
}

#[test]
fn a_refused_connection_is_closed_at_once_and_counted() {
    let running = Running::start(Server::taking(1));
    let mut first = running.call();
    echoes(&mut first, b"hello");
    for _ in 0..5 {
        assert!(has_ended(&mut running.call()));
    }
    echoes(&mut first, b"still here");
    drop(first);
    let left = running.stop();
    assert_eq!((left.turned_away, left.server.refused, left.server.accepted), (5, 5, 1));
}

#[test]
fn a_connection_that_ends_makes_room() {
    let running = Running::start(Server::taking(1));
    for n in 0..20 {
        let mut caller = running.call();
        echoes(&mut caller, &pattern(100 + n));
        // The server has closed its end when ours is answered, and has forgotten the connection.
        caller.shutdown(Shutdown::Write).expect("a connection");
        assert!(has_ended(&mut caller));
    }
    let left = running.stop();
    assert_eq!((left.server.accepted, left.turned_away), (20, 0));
}

/// Records lines that open and close.
struct Notes(mpsc::Sender<(bool, WireId, u64)>);

impl LineObserver for Notes {
    fn on_open(&mut self, wire: WireId, line: &mut dyn Line) {
        self.0.send((true, wire, line.stats().received)).expect("the test listens");
    }

    fn on_close(&mut self, wire: WireId, line: &mut dyn Line) {
        self.0.send((false, wire, line.stats().received)).expect("the test listens");
    }
}

#[test]
fn an_observer_is_told_of_opened_and_closed_lines() {
    let (tell, told) = mpsc::channel();
    let running = Running::start_with(Server::taking(5), SocketOptions::default(), |lines| {
        lines.set_observer(Box::new(Notes(tell)));
    });
    let mut caller = running.call();
    echoes(&mut caller, b"one read");
    drop(caller);
    let next = || told.recv_timeout(crate::server::LIMIT).expect("it is told");
    assert_eq!(next(), (true, WireId(FIRST), 0), "before anything is read");
    assert_eq!(next(), (false, WireId(FIRST), 1), "with all its counts");
    running.stop();
}

#[test]
fn the_kernels_figures_come_for_connections_that_send() {
    let running = Running::start(Server::taking(5));
    let (mut speaks, silent) = (running.call(), running.call());
    echoes(&mut speaks, b"hello");
    echoes(&mut speaks, b"again");
    let left = running.stop();
    let reports = |wire: u32| left.server.wires[&WireId(FIRST + wire)].reports;
    // One when it sends, one at the end; the silent one has only its last.
    assert!((2..=3).contains(&reports(0)), "{}", reports(0));
    assert_eq!(reports(1), 1);
    drop(silent);
}
