//! Connections that break, and how a line reconnects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use antiphon_core::BrokenReason;
use antiphon_net::{OsClock, SocketOptions, TcpLine, TcpListening};

use crate::tcp::{cut, listening, raw, sleeps};
use crate::world::{Host, LIMIT, Node, lane, message};

fn caller(listener: &TcpListener, clock: &OsClock) -> Node {
    let to = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("a socket");
    Node::tcp(TcpLine::call(to, &SocketOptions::default()).expect("it listens"), clock)
}

/// Runs the caller until the listener has its connection.
fn accept(node: &mut Node, listener: &TcpListener, clock: &OsClock) -> TcpStream {
    let mut stream = None;
    node.until(clock, "a call", |_| {
        stream = stream.take().or_else(|| listener.accept().ok());
        stream.is_some()
    });
    let (stream, _) = stream.expect("until said so");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    stream
}

/// A message from the caller arrives whole.
fn proves_alive(node: &mut Node, peer: &mut TcpStream, clock: &OsClock, n: u32) {
    node.send(message(n, 300));
    node.until(clock, "its sending", |node| node.party.outbox.is_empty() && node.line.is_flushed());
    let mut bytes = [0; 302];
    peer.read_exact(&mut bytes).expect("the message");
    assert_eq!(cut(&bytes), [message(n, 300)]);
}

#[test]
fn a_caller_reconnects_after_end_reset_and_restart() {
    let clock = OsClock::new();
    // One that nobody gets while the listener is away.
    let address = SocketAddr::from(([127, 0, 0, 1], antiphon_testkit::free_ports(1)));
    let listener = TcpListener::bind(address).expect("loopback");
    let mut node = caller(&listener, &clock);
    let mut peer = accept(&mut node, &listener, &clock);
    proves_alive(&mut node, &mut peer, &clock, 1);

    drop(peer);
    let mut peer = accept(&mut node, &listener, &clock);
    assert_eq!(node.party.broken.last().map(|b| b.1), Some(BrokenReason::EndOfStream));
    proves_alive(&mut node, &mut peer, &clock, 2);
    sleeps(&mut node, &clock);

    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(peer);
    let mut peer = accept(&mut node, &listener, &clock);
    assert_eq!(node.party.broken.last().map(|b| b.1), Some(BrokenReason::Refused));
    proves_alive(&mut node, &mut peer, &clock, 3);

    // The listener ends, calls fail for a while, and it starts again on the same port.
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop((peer, listener));
    node.until(&clock, "the break", |node| node.party.broken.len() == 3);
    node.run_for(&clock, Duration::from_millis(500));
    assert_eq!(node.party.connected, 3, "nothing to connect to");
    let listener = TcpListener::bind(address).expect("the port is free");
    listener.set_nonblocking(true).expect("a socket");
    let mut peer = accept(&mut node, &listener, &clock);
    proves_alive(&mut node, &mut peer, &clock, 4);
    let stats = node.line.stats();
    assert_eq!((stats.reconnected, stats.refused, node.party.connected), (3, 2, 4), "{stats:?}");
}

#[test]
fn messages_wait_for_the_connection_until_their_deadlines() {
    let clock = OsClock::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut node = caller(&listener, &clock);
    let peer = accept(&mut node, &listener, &clock);
    drop(peer);
    node.until(&clock, "the break", |node| node.party.broken.len() == 1);
    // The first back-off is 100 ms from the break on: this message is too old by then, however late it is handed over.
    let (broke, _) = node.party.broken[0];
    node.party.outbox.push_back((message(1, 300), Some(broke + Duration::from_millis(5))));
    let mut peer = accept(&mut node, &listener, &clock);
    proves_alive(&mut node, &mut peer, &clock, 2);
    assert_eq!(node.party.expired(), 1);
}

#[test]
fn a_peer_that_fell_silent_for_good_makes_room_for_the_next() {
    let Some((router, lane)) = lane("delay=0ms", 1) else { return };
    let clock = OsClock::new();
    // The minimum of the kernel's timers, which count in seconds.
    let options = SocketOptions { peer_patience: Duration::from_secs(1), ..SocketOptions::default() };
    let listen = || TcpListening::bind((lane.far.v4, 0).into(), &options);
    let listener = lane.far.namespace.run(listen).expect("a namespace").expect("a free port");
    let to = listener.local_address();
    let call = || TcpStream::connect(to).expect("a lane");
    let mut peer = lane.near.namespace.run(call).expect("a namespace");
    let mut host = Host::new(listener, &clock);
    peer.write_all(&[0, 1, 7]).expect("a connection");
    host.until(&clock, "the peer's message", |host| host.party().messages.len() == 1);
    // Its machine loses power: nothing comes any more, no FIN, no reset.
    router.stop();
    host.until(&clock, "its loss", |host| !host.party().broken.is_empty());
    assert_eq!(host.party().broken[0].1, BrokenReason::Unreachable);
    assert_eq!(host.stats().refused, 1);
}

#[test]
fn half_closed_and_half_sent_is_an_end() {
    let clock = OsClock::new();
    let mut host = listening(&clock);
    let mut peer = raw(&host);
    peer.write_all(&[0, 9, 1, 2]).expect("a connection");
    peer.shutdown(std::net::Shutdown::Write).expect("a connection");
    host.until(&clock, "the end", |host| host.party().broken.len() == 1);
    assert_eq!(host.party().broken[0].1, BrokenReason::EndOfStream);
    assert!(host.party().messages.is_empty());
    assert_eq!(peer.read(&mut [0; 8]).expect("our end"), 0);
}
