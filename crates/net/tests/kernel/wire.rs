//! Packets on the wire, read by tshark.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use antiphon_net::Capture;

use crate::guest::{GUEST, Guest, Running, guest};
use crate::party::{call, messages};

/// Captures while `work` runs; then every packet of SCTP and DCCP must be well-formed, with a right checksum.
pub fn watched<T>(guest: &Guest, work: impl FnOnce() -> T) -> T {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Kept, if a place is given.
    let file = match std::env::var_os("ANTIPHON_TEST_WIRE") {
        Some(kept) => kept.into(),
        None => directory.path().join("wire.pcapng"),
    };
    let mut capture = guest.here("dumpcap");
    capture.args(["-i", "kptap0", "-w"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::piped());
    let capture = capture.spawn().expect("scripts/install-peers brings tshark, and dumpcap with it");
    let mut capture = Running(capture);
    let mut said = BufReader::new(capture.0.stderr.take().expect("piped")).lines();
    // Printed once it captures.
    let begun = said.by_ref().map_while(Result::ok).find(|line| line.starts_with("File:"));
    assert!(begun.is_some(), "dumpcap does not capture");
    let done = work();
    let interrupt = Command::new("kill").args(["-INT", &capture.0.id().to_string()]).status();
    assert!(interrupt.expect("kill is everywhere").success());
    said.for_each(drop);
    capture.0.wait().expect("our child");
    let checked = check(&file);
    assert!(checked > 100, "{checked} packets seen");
    done
}

/// Fails unless tshark accepts every packet of our protocols in `file` as well-formed, with a right checksum. Returns
/// how many there are.
pub fn check(file: &Path) -> usize {
    // Packets quoted in ICMP are truncated.
    let ours = "(sctp || dccp) && !icmp && !icmpv6";
    let all = tshark(file, ours);
    let bad = "_ws.malformed || sctp.checksum.status == 0 || dccp.checksum.status == 0";
    let complaints = tshark(file, &format!("{ours} && ({bad})"));
    assert!(complaints.is_empty(), "{complaints:#?}");
    let sound = tshark(file, &format!("{ours} && (sctp.checksum.status == 1 || dccp.checksum.status == 1)"));
    assert_eq!(sound.len(), all.len(), "a checksum was not looked at");
    all.len()
}

/// Lines for the packets that `filter` selects.
fn tshark(file: &Path, filter: &str) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter]);
    for preference in ["dccp.check_checksum:TRUE", "sctp.checksum:CRC 32c"] {
        command.args(["-o", preference]);
    }
    let output = command.output().expect("scripts/install-peers brings tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

/// The file of `--capture` with SCTP in UDP, and with SCTP and DCCP directly over IP.
#[test]
#[ignore = "needs root and a Linux 6.1 kernel in a virtual machine; scripts/install-peers brings it"]
fn our_own_captures_are_right_as_well() {
    let guest = guest();
    let [v4, v6] = [GUEST[0], GUEST[1]];
    for uri in [
        format!("sctp://{v4}:9899?sctp-port=6001&reliability=full"),
        format!("sctp://{v4}:6001?over=ip&reliability=full"),
        format!("sctp://[{v6}]:6003?over=ip&reliability=full"),
        format!("dccp://{v4}:5002?over=ip"),
        format!("dccp://[{v6}]:5003?over=ip"),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("ours.pcapng");
        call(&guest, &uri, |node| {
            let capture = Capture::create(&file, node.clock).expect("a file");
            node.line.set_tap(capture.tap("ours"));
            node.pace(&messages(20, 500), Duration::from_millis(5), None);
            node.until("all messages", Duration::from_secs(10), |party| party.messages.len() == 20);
            node.close();
            node.until("the end", Duration::from_secs(10), |party| party.closed.is_some());
            let summary = capture.finish().expect("room on the disk");
            // Each message there and back, and the handshake.
            let seen = check(&file) as u64;
            assert!(seen == summary.packets && seen > 40, "{uri}: {seen} of {}", summary.packets);
        });
    }
}
