//! What `send` says at the end, over every transport on loopback: that a receiver left, died, never was there, or came back.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

use antiphon_testkit::unless_held_up;

use crate::common::{HELD_UP_LONG, SCHEMES, antiphon, free_ports, listening, run, source};

/// A receiver that listens already, with these further arguments.
fn receiver(scheme: &str, port: u16, more: &[&str]) -> Child {
    listening(&[&["receive", &source(scheme, port), "null:"], more].concat(), "listening on").0
}

fn end(mut child: Child) {
    let _ended_already = child.kill();
    child.wait().expect("it is our child");
}

#[test]
fn a_receiver_that_leaves_early_is_told_with_exit_code_1() {
    unless_held_up(HELD_UP_LONG, || {
        for scheme in SCHEMES {
            let port = free_ports(1);
            let receiver = receiver(scheme, port, &["--seconds", "1500ms"]);
            let ran = run(&["send", "clip:demo", &format!("{scheme}://127.0.0.1:{port}"), "--seconds", "6s"]);
            assert_eq!(ran.code, Some(1), "{scheme}: {}", ran.err);
            assert!(ran.err.contains("the receiver ended the stream after 1."), "{scheme}: {}", ran.err);
            end(receiver);
        }
    });
}

#[test]
fn a_receiver_that_is_killed_is_told_with_exit_code_4() {
    unless_held_up(HELD_UP_LONG, || {
        let killed = |scheme: &'static str| {
            let port = free_ports(1);
            let mut receiver = receiver(scheme, port, &[]);
            let mut command = antiphon();
            let target = format!("{scheme}://127.0.0.1:{port}");
            command.args(["send", "clip:demo", &target, "--seconds", "8s", "--json"]);
            let mut sender =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            let mut lines =
                BufReader::new(sender.stdout.take().expect("piped")).lines().map_while(Result::ok);
            // Its reports come; then it is killed.
            assert!(
                lines.any(|line| line.contains("\"rtt_ms\":") && !line.contains("\"rtt_ms\":null")),
                "{scheme}"
            );
            receiver.kill().expect("it runs");
            receiver.wait().expect("it is our child");
            let summary = lines.last().expect("a summary");
            let ended = sender.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(4), "{scheme}: {said}");
            assert!(summary.contains("\"shortfall\":\"the receiver"), "{scheme}: {summary}");
            assert!(said.contains("error: the receiver"), "{scheme}: {said}");
        };
        let threads = SCHEMES.map(|scheme| std::thread::spawn(move || killed(scheme)));
        threads.into_iter().for_each(|thread| thread.join().expect("as it must be"));
    });
}

#[test]
fn nobody_there_is_told_however_short_the_sound() {
    for scheme in SCHEMES {
        let target = format!("{scheme}://127.0.0.1:{}", free_ports(1));
        let ran = run(&["send", "clip:demo", &target, "--seconds", "500ms"]);
        assert_eq!(ran.code, Some(4), "{scheme}: {}", ran.err);
        assert!(ran.err.contains("reached"), "{scheme}: {}", ran.err);
    }
}

/// A player that reads the sound and reports nothing, as many do.
#[test]
fn without_reports_a_stream_is_unconfirmed() {
    let player = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let target = format!("rtp://{}", player.local_addr().expect("bound"));
    let ran = run(&["send", "clip:demo", &target, "--seconds", "500ms"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("unconfirmed"), "{}", ran.err);
}

#[test]
fn a_receiver_that_comes_back_is_heard_by_again() {
    unless_held_up(HELD_UP_LONG, || {
        let restarted = |scheme: &'static str| {
            let port = free_ports(1);
            let first = receiver(scheme, port, &["--forever"]);
            let mut command = antiphon();
            let target = format!("{scheme}://127.0.0.1:{port}");
            command.args(["send", "clip:demo", &target, "--seconds", "12s", "--wait-for-peer", "--json"]);
            let mut sender = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
            let mut lines =
                BufReader::new(sender.stdout.take().expect("piped")).lines().map_while(Result::ok);
            assert!(
                lines.any(|line| line.contains("\"rtt_ms\":") && !line.contains("\"rtt_ms\":null")),
                "{scheme}"
            );
            end(first);
            let mut command = antiphon();
            command.args([
                "receive",
                &source(scheme, port),
                "null:",
                "--forever",
                "--seconds",
                "4s",
                "--json",
            ]);
            let second = command.stderr(Stdio::null()).output().expect("it runs");
            let said = String::from_utf8_lossy(&second.stdout).into_owned();
            let summary = said.lines().last().expect("a summary");
            let summary: serde_json::Value = serde_json::from_str(summary).expect("JSON");
            let played = summary["played_s"].as_f64().expect("a number");
            // Of four seconds, all but one.
            assert!(played > 2.8, "{scheme}: {summary}");
            end(sender);
        };
        let threads = SCHEMES.map(|scheme| std::thread::spawn(move || restarted(scheme)));
        threads.into_iter().for_each(|thread| thread.join().expect("as it must be"));
    });
}

#[test]
fn a_receiver_gives_up_when_nothing_comes() {
    for scheme in SCHEMES {
        let ran = run(&[
            "receive",
            &source(scheme, free_ports(1)),
            "null:",
            "--give-up",
            "300ms",
            "--time-limit",
            "20s",
        ]);
        assert_eq!(ran.code, Some(4), "{scheme}: {}", ran.err);
        assert!(ran.err.contains("no packets for 300ms: given up"), "{scheme}: {}", ran.err);
    }
}

/// A recording that is deleted under the program's hands.
#[test]
fn a_file_that_is_removed_while_it_is_recorded_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (path, port) = (folder.path().join("take.wav"), free_ports(1));
    let source = format!("tcp://127.0.0.1:{port}");
    let receiver = antiphon()
        .args(["receive", &source, &format!("file:{}", path.display()), "--time-limit", "60s"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let sender = antiphon()
        .args(["send", "clip:demo", &source, "--wait-for-peer", "--seconds", "3s"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 100_000 {
        std::thread::yield_now();
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(sender.wait_with_output().unwrap().status.code(), Some(0));
    let ended = receiver.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("was removed while it was recorded"), "{said}");
}
