//! Resident memory of a process that only sends, and of one that only receives, at 48 kHz stereo.

mod common;

use std::io::{BufRead, BufReader, read_to_string};
use std::process::{Command, Stdio};
use std::time::Duration;

use antiphon::{ReceiveOptions, SendOptions, Stop, receive, send};

/// The whole program is to stay under 12 MB.
const MOST_KB: u64 = 12_000;
/// Names the role of a child process.
const PART: &str = "ANTIPHON_MEMORY_PART";
const ADDRESS: &str = "ANTIPHON_MEMORY_ADDRESS";

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Not a test of its own: what the child processes of the test below run.
#[test]
fn child() {
    let (Ok(part), Ok(address)) = (std::env::var(PART), std::env::var(ADDRESS)) else { return };
    if part == "receive" {
        let options = ReceiveOptions {
            source: format!("rtp://@{address}?latency=80ms"),
            sink: "null:".into(),
            length: Some(Duration::from_secs(30)),
            ..ReceiveOptions::default()
        };
        let summary = receive(&options, &Stop::new(), &mut |_| println!("listening"), &mut |_| {}).unwrap();
        assert!(summary.status.packets_received > 500);
    } else {
        let options = SendOptions {
            target: format!("rtp://{address}"),
            length: Some(Duration::from_secs(4)),
            ..SendOptions::default()
        };
        assert!(send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap().status.packets_sent > 500);
    }
    println!("peak_kb={}", peak_kb());
}

fn start(part: &str, address: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(PART, part)
        .env(ADDRESS, address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn peak(child: std::process::Child) -> u64 {
    let output = child.wait_with_output().unwrap();
    peak_in(&String::from_utf8_lossy(&output.stdout))
}

fn peak_in(text: &str) -> u64 {
    let figure = text.split("peak_kb=").nth(1).unwrap_or_else(|| panic!("no figure: {text}"));
    figure.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn send_and_receive_take_less_than_12_mb_each() {
    let address = format!("127.0.0.1:{}", common::free_port());
    let mut receiver = start("receive", &address);
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut first = String::new();
    while !first.contains("listening") {
        assert!(said.read_line(&mut first).unwrap() > 0, "{first}");
    }
    let sent = peak(start("send", &address));
    let received = peak_in(&read_to_string(said).unwrap());
    assert!(receiver.wait().unwrap().success());
    println!("send {sent} kB, receive {received} kB");
    assert!(sent < MOST_KB && received < MOST_KB, "send {sent} kB, receive {received} kB");
}
