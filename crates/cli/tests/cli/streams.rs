//! How `send` ends: stopped before it has begun, and with changes of the transport that failed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::common::{antiphon, run};

/// A UDP socket that answers nothing, and its address.
fn silent() -> (std::net::UdpSocket, String) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound").to_string();
    (socket, address)
}

/// An address at which no program listens for TCP.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").to_string()
}

/// A receiver that waits on every transport, and its port. It needs a row of ports, of which another program may have one: then it
/// tries another row.
fn receiver() -> (Child, u16) {
    for _ in 0..10 {
        let (socket, address) = silent();
        let port: u16 = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
        drop(socket);
        let source = format!("auto://127.0.0.1:{port}");
        let mut command = antiphon();
        command.args(["receive", &source, "null:", "--time-limit", "30s"]).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        if said.any(|line| line.contains("listening on")) {
            return (child, port);
        }
        child.wait().expect("it is our child");
    }
    panic!("no row of ports is free");
}

#[test]
fn a_limit_that_ends_the_wait_for_a_peer_has_its_own_code() {
    let target = format!("tcp://{}", closed());
    let ran = run(&["send", "tone:440Hz", &target, "--wait-for-peer", "--time-limit", "700ms"]);
    assert_eq!(ran.code, Some(124), "{}", ran.err);
    assert!(ran.err.contains("trying again"), "{}", ran.err);
    // Without waiting, a peer that does not accept is what ended it.
    assert_eq!(run(&["send", "tone:440Hz", &target, "--time-limit", "20s"]).code, Some(4));
}

#[test]
fn failed_changes_are_reported_even_if_quiet() {
    let (_socket, address) = silent();
    let other = format!("tcp://{}", closed());
    let ran = run(&[
        "--quiet",
        "send",
        "tone:440Hz",
        &format!("rtp://{address}"),
        "--seconds",
        "1s",
        "--switch",
        &format!("{other}@100ms"),
    ]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with(&other) && ran.err.contains("Connection refused"), "{}", ran.err);
}

#[test]
fn a_limit_while_the_connection_is_measured_sends_nothing() {
    let (mut receiver, port) = receiver();
    let target = format!("auto://127.0.0.1:{port}");
    let ran = run(&["-v", "send", "tone:440Hz", &target, "--time-limit", "2s"]);
    receiver.kill().expect("it runs");
    receiver.wait().expect("it is our child");
    assert_eq!(ran.code, Some(124), "{}", ran.err);
    assert!(ran.err.contains("measuring for 10 s") && ran.err.contains("nothing was sent"), "{}", ran.err);
    assert!(!ran.err.contains("sending tone"), "{}", ran.err);
}
