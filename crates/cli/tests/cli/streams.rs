//! How `send` ends: stopped before it has begun, and with changes of the transport that failed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use antiphon_testkit::unless_held_up;

use crate::common::{HELD_UP, antiphon, free_ports, listening, run};

/// A UDP socket that answers nothing, and its address.
fn silent() -> (std::net::UdpSocket, String) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound").to_string();
    (socket, address)
}

/// An address at which no program listens for TCP.
fn closed() -> String {
    format!("127.0.0.1:{}", free_ports(1))
}

/// A receiver that waits on every transport, and its port, the first of a row.
fn receiver() -> (Child, u16) {
    let port = free_ports(30);
    let source = format!("auto://127.0.0.1:{port}");
    let mut command = antiphon();
    command.args(["receive", &source, "null:", "--time-limit", "30s"]).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("listening on")));
    (child, port)
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

#[test]
fn a_sender_that_receivers_call_tells_of_each() {
    unless_held_up(HELD_UP, || {
        let port = free_ports(1);
        let mut sender = antiphon();
        sender.args([
            "send",
            "tone:440Hz",
            &format!("rtp://@127.0.0.1:{port}"),
            "--seconds",
            "2s",
            "--purpose",
            "tv",
        ]);
        let mut sender = sender.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut said = BufReader::new(sender.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let waits = said.find(|line| line.contains("to each caller")).expect("it says that it waits");
        assert!(waits.contains("receivers play 80ms after capture, in step"), "{waits}");
        let call = format!("rtp://127.0.0.1:{port}?role=caller");
        let receiver = run(&["receive", &call, "null:", "--time-limit", "20s"]);
        assert_eq!(receiver.code, Some(0), "{}", receiver.err);
        assert!(receiver.err.contains("calling rtp://127.0.0.1:"), "{}", receiver.err);
        assert!(
            receiver.err.contains("in step 80.") || receiver.err.contains("in step 79."),
            "{}",
            receiver.err
        );
        let rest: Vec<String> = said.collect();
        assert!(sender.wait().expect("it is our child").success(), "{rest:?}");
        let told = rest.iter().find(|line| line.starts_with("receiver 1 (127.0.0.1:")).expect("its figures");
        assert!(told.contains("lost 0, late 0") && told.contains("from capture to playout"), "{told}");
    });
}

#[test]
fn lines_on_standard_input_choose_programmes() {
    let port = free_ports(1);
    let at = format!("rtp://@127.0.0.1:{port}");
    let programmes = ["--programme", "News=tone:440Hz", "--programme", "Film=tone:880Hz"];
    let send = [&["send"], &programmes[..], &[&at]].concat();
    let (mut sender, said) = listening(&send, "to each caller");
    let uri = format!("rtp://127.0.0.1:{port}?role=caller");
    let mut receiver = antiphon();
    receiver.args(["receive", &uri, "null:", "--programme", "-", "--time-limit", "30s"]);
    receiver.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = receiver.spawn().expect("the program starts");
    let mut input = receiver.stdin.take().expect("piped");
    let mut told = BufReader::new(receiver.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut hears = |sentence: &str| assert!(told.any(|line| line.contains(sentence)), "{sentence}");
    hears("programme 1 of 2: News");
    input.write_all(b"Sport\n").expect("it reads");
    hears("the sender has no programme 'Sport': it has News, Film");
    input.write_all(b"film\n").expect("it reads");
    hears("programme 2 of 2: Film");
    receiver.kill().expect("it runs");
    receiver.wait().expect("it is our child");
    sender.kill().expect("it runs");
    sender.wait().expect("it is our child");
    said.join().expect("it was read");
}
