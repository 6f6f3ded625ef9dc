//! A process that is killed during a capture leaves a file that can be opened.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use antiphon_core::Instant;
use antiphon_net::capture::{Direction, Ends};
use antiphon_net::{Capture, OsClock};

use crate::exchange::read;

/// Environment variable with the second process's task and file.
const WHERE: &str = "ANTIPHON_TEST_CAPTURE_UNTIL_KILLED";

#[test]
fn a_killed_process_leaves_a_file_that_opens() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("killed.pcapng");
    let this = std::env::current_exe().expect("a program knows itself");
    let child = Command::new(this)
        .args(["--exact", "killed::capture_until_killed", "--ignored"])
        .env(WHERE, &path)
        .output()
        .expect("it starts");
    assert_eq!(child.status.signal(), Some(6), "{}", String::from_utf8_lossy(&child.stderr));
    let packets = read(&path);
    // Size of the file when the process was killed; the reader has found whole blocks only.
    assert!(packets.len() >= 100, "{}", packets.len());
    assert!(packets.iter().enumerate().all(|(n, packet)| packet.payload == [n as u8; 500]));
}

#[test]
#[ignore = "the second process of the test above"]
fn capture_until_killed() {
    let Some(path) = std::env::var_os(WHERE).map(PathBuf::from) else { return };
    let capture = Capture::create(&path, OsClock::new()).expect("a file");
    let mut tap = capture.tap("one");
    let address = |port: u16| ([127, 0, 0, 1], port).into();
    let ends = Ends { local: address(1), peer: address(2) };
    let mut n = 0;
    loop {
        tap.datagram(Direction::Sent, Instant::from_nanos(n), ends, &[n as u8; 500]);
        n += 1;
        // The file contains this although it was never finished: all packets of 572 bytes so far except one.
        while n % 10 == 0 && std::fs::metadata(&path).is_ok_and(|file| file.len() < 572 * n) {
            std::thread::yield_now();
        }
        if n == 200 {
            // No destructor runs, as with any signal that ends a process.
            std::process::abort();
        }
    }
}
