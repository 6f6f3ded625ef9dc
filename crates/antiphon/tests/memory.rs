//! Resident memory of a process that only sends, and of one that only receives, at 48 kHz stereo.

mod common;

use std::io::{BufRead, BufReader, read_to_string};
use std::process::{Command, Stdio};
use std::time::Duration;

use antiphon::{ReceiveOptions, SendOptions, Stop, receive, send};

/// The whole program is to stay under 12 MB, its code included. How much of that the kernel maps beside what is used depends on what
/// of the file it has in memory, some hundred kB from run to run: so the least of several runs is judged.
const MOST_KB: u64 = 12_000;
const MOST_RUNS: usize = 5;
/// What is not mapped from a file: heap and stacks. Each run's is judged; they differ by less than a tenth.
const MOST_OWN_KB: u64 = 3_000;
/// Names the role of a child process.
const PART: &str = "ANTIPHON_MEMORY_PART";
const ADDRESS: &str = "ANTIPHON_MEMORY_ADDRESS";

/// A figure that Linux tells of this process (proc_pid_status(5)).
fn status_kb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("Linux tells").trim().trim_end_matches(" kB").parse().unwrap()
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
    let peak = status_kb("VmHWM");
    // Nothing of a file is unmapped meanwhile.
    println!("peak_kb={peak} own_kb={}", peak - status_kb("RssFile"));
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

/// The peak that a child told, of all and of what is its own.
fn peak_in(text: &str) -> [u64; 2] {
    ["peak_kb=", "own_kb="].map(|name| {
        let figure = text.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
        figure.split_whitespace().next().unwrap().parse().unwrap()
    })
}

/// The peaks of a sender and its receiver.
fn streamed() -> [[u64; 2]; 2] {
    let address = format!("127.0.0.1:{}", common::free_port());
    let mut receiver = start("receive", &address);
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut first = String::new();
    while !first.contains("listening") {
        assert!(said.read_line(&mut first).unwrap() > 0, "{first}");
    }
    let sent = start("send", &address).wait_with_output().unwrap();
    let received = peak_in(&read_to_string(said).unwrap());
    assert!(receiver.wait().unwrap().success());
    [peak_in(&String::from_utf8_lossy(&sent.stdout)), received]
}

#[test]
fn send_and_receive_take_less_than_12_mb_each() {
    let mut least = [u64::MAX; 2];
    for _ in 0..MOST_RUNS {
        let peaks = streamed();
        println!("send and receive, in kB, of which their own: {peaks:?}");
        assert!(peaks.iter().all(|[_, own]| *own < MOST_OWN_KB), "{peaks:?}");
        least = [least[0].min(peaks[0][0]), least[1].min(peaks[1][0])];
        if least.iter().all(|peak| *peak < MOST_KB) {
            return;
        }
    }
    panic!("send {} kB, receive {} kB", least[0], least[1]);
}
