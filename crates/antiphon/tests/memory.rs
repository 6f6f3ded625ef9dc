//! Resident memory of a process that only sends, and of one that only receives, at 48 kHz stereo.

mod common;

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
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = text.split("peak_kb=").nth(1).unwrap_or_else(|| panic!("no figure: {text}"));
    figure.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn send_and_receive_take_less_than_12_mb_each() {
    let address = format!("127.0.0.1:{}", common::free_port());
    let receiver = start("receive", &address);
    // A sender whose peer is not there yet goes on for a second and a half before it gives up.
    let sent = peak(start("send", &address));
    let received = peak(receiver);
    println!("send {sent} kB, receive {received} kB");
    assert!(sent < MOST_KB && received < MOST_KB, "send {sent} kB, receive {received} kB");
}
