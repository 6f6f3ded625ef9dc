//! Wires that the participant closes, and lines that were full.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Instant, WireId};
use antiphon_net::{Line, LineObserver, OsClock, SocketOptions};

use crate::server::{CLOSE_THE_FIRST, FIRST, LIMIT, Running, Server, has_ended, pattern};

/// Far more than the buffers of both machines hold.
const MUCH: usize = 6_000_000;

/// A caller whose machine has small buffers.
fn small(running: &Running) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(1_024).expect("a socket");
    socket.connect(&running.tcp.into()).expect("it listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    socket.into()
}

fn small_options() -> SocketOptions {
    SocketOptions { send_buffer: 16_384, ..SocketOptions::default() }
}

#[test]
fn a_full_line_goes_on_by_itself_and_a_closed_one_flushes() {
    // It reports once that the wire is ready, and closes it when the last bytes have been asked for.
    let server = Server::sending_then_closing(MUCH);
    let running = Running::start_with(server, small_options(), |_| {});
    let mut caller = running.call();
    let mut got = Vec::new();
    caller.read_to_end(&mut got).expect("everything, and the end");
    assert!(got == pattern(MUCH), "{} of {MUCH} bytes", got.len());
    let left = running.stop();
    assert!(!left.wires.contains(&WireId(FIRST)));
}

#[test]
fn input_during_a_close_loses_no_byte() {
    let server = Server::sending_then_closing(300_000);
    let running = Running::start_with(server, small_options(), |_| {});
    let mut caller = running.call();
    let mut talks = caller.try_clone().expect("a socket");
    let talking = std::thread::spawn(move || {
        // Until the server is gone: unread bytes would make its system drop what is still in flight.
        while talks.write_all(&[7; 500]).is_ok() {}
    });
    let (mut got, mut piece) = (Vec::new(), [0; 1_000]);
    loop {
        match caller.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => got.extend_from_slice(&piece[..len]),
            // A peer that still sends after we have closed is reset, after everything has been sent.
            Err(error) => break assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert!(got.len() >= 300_000 && got[..300_000] == pattern(300_000), "{} bytes", got.len());
    drop(caller);
    talking.join().expect("no panic");
    running.stop();
}

/// Reports when a wire is no longer driven.
struct Ends(mpsc::Sender<WireId>);

impl LineObserver for Ends {
    fn on_open(&mut self, _wire: WireId, _line: &mut dyn Line) {}

    fn on_close(&mut self, wire: WireId, _line: &mut dyn Line) {
        self.0.send(wire).expect("the test listens");
    }
}

#[test]
fn a_peer_that_does_not_read_is_left_after_two_seconds() {
    let (tell, told) = mpsc::channel();
    let server = Server::sending_then_closing(300_000);
    let running = Running::start_with(server, small_options(), |lines| {
        lines.set_observer(Box::new(Ends(tell)));
    });
    let mut caller = small(&running);
    // Reads so little that there is no room for most of what it is sent.
    caller.read_exact(&mut [0; 1_000]).expect("the beginning");
    let clock = OsClock::new();
    let mut commands = running.call();
    commands.write_all(CLOSE_THE_FIRST).expect("a connection");
    // The other connection is served meanwhile.
    let mut rest = Vec::new();
    commands.read_to_end(&mut rest).expect("everything");
    assert_eq!(rest.len(), 300_000);
    let ends = [(); 2].map(|()| told.recv_timeout(LIMIT).expect("it is told"));
    assert_eq!(ends, [WireId(FIRST + 1), WireId(FIRST)]);
    let took = clock.now().since(Instant::ZERO);
    assert!(took >= Duration::from_secs(2), "what was written had less than two seconds: {took:?}");
    running.stop();
    // What had been sent is still delivered, and then the end.
    let mut got = Vec::new();
    let _reset_or_ended = caller.read_to_end(&mut got);
    assert!(got.len() < 299_000, "{} bytes found room", got.len());
}

#[test]
fn a_listener_that_ends_turns_callers_away() {
    let running = Running::start(Server::taking(1));
    let mut caller = running.call();
    crate::server::echoes(&mut caller, b"hello");
    let address = running.tcp;
    running.stop();
    assert!(has_ended(&mut caller));
    assert!(TcpStream::connect(address).is_err());
}
