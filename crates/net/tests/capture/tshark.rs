//! An independent analyser reads our captures.

use std::path::Path;
use std::process::Command;

use antiphon_net::{Capture, OsClock, capture::decode_as_hint};

use crate::exchange::{self, SSRC, messages};

/// RTP packets in each direction: two seconds of sound. Those of both directions and the sender reports fit into a
/// tap's ring (1 MiB), so that nothing is dropped however late the writer runs.
const PACKETS: usize = 400;

/// Runs tshark over `file`, with every checksum checked, and returns the fields of every packet that `filter` selects.
fn tshark(file: &Path, port: u16, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(decode_as_hint(port).split(' ')).args(["-Y", filter, "-T", "fields"]);
    for layer in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
}

/// All values of one field, of packets that hold several of them too.
fn values(file: &Path, port: u16, filter: &str, field: &str) -> Vec<String> {
    let rows = tshark(file, port, filter, &[field]);
    rows.iter().flat_map(|row| row[0].split(',')).map(str::to_string).collect()
}

#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn tshark_reads_our_capture() {
    let cases = [("rtp", "127.0.0.1:0"), ("rtp", "[::1]:0"), ("tcp", "127.0.0.1:0"), ("tcp", "[::1]:0")];
    for (scheme, listen) in cases {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let files = [dir.path().join("near.pcapng"), dir.path().join("far.pcapng")];
        let clock = OsClock::new();
        let captures = files.clone().map(|file| Capture::create(file, clock).expect("a file"));
        let taps = captures.each_ref().map(|capture| capture.tap(scheme));
        let done = exchange::run(scheme, listen, messages(PACKETS), taps, clock);
        for (capture, file) in captures.into_iter().zip(&files) {
            let summary = capture.finish().expect("room on the disk");
            assert_eq!(summary.dropped, 0);
            check(scheme, file, done.port, summary.packets as usize, &done.messages);
        }
    }
}

fn check(scheme: &str, file: &Path, port: u16, packets: usize, messages: &[Vec<u8>]) {
    assert_eq!(tshark(file, port, "frame", &["frame.number"]).len(), packets);
    let complaints = tshark(file, port, "_ws.malformed || _ws.expert.severity >= 6291456", &["_ws.expert"]);
    assert_eq!(complaints, Vec::<Vec<String>>::new(), "warnings or errors");
    // 1 means good: every packet was checked, and none was bad.
    let transport = if scheme == "rtp" { "udp" } else { "tcp" };
    let sums = values(file, port, "frame", &format!("{transport}.checksum.status"));
    assert_eq!(sums, vec!["1"; packets]);
    let headers = values(file, port, "ip", "ip.checksum.status");
    assert!(headers.iter().all(|status| status == "1"));

    let ssrcs = values(file, port, "rtp", "rtp.ssrc");
    assert_eq!(ssrcs, vec![format!("0x{SSRC:08x}"); 2 * PACKETS]);
    let mut sequences: Vec<u16> =
        values(file, port, "rtp", "rtp.seq").iter().map(|seq| seq.parse().expect("a number")).collect();
    let first = u16::from_be_bytes([messages[0][2], messages[0][3]]);
    sequences.iter_mut().for_each(|seq| *seq = seq.wrapping_sub(first));
    sequences.sort_unstable();
    let twice: Vec<u16> = (0..PACKETS as u16).flat_map(|n| [n, n]).collect();
    assert_eq!(sequences, twice, "each there and back");
    let reports = values(file, port, "rtcp.pt == 200", "rtcp.senderssrc");
    assert_eq!(
        reports.iter().filter(|ssrc| **ssrc == format!("0x{SSRC:08x}")).count(),
        2 * (messages.len() - PACKETS)
    );
    let mut framed = 0;
    if scheme == "tcp" {
        let lengths = values(file, port, "rtp.rfc4571.len", "rtp.rfc4571.len");
        let mut lengths: Vec<usize> = lengths.iter().map(|len| len.parse().expect("a number")).collect();
        let mut expected: Vec<usize> = messages.iter().flat_map(|message| [message.len(); 2]).collect();
        lengths.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lengths, expected, "every message of RFC 4571 is found");
        framed = tshark(file, port, "tcp.reassembled.length", &["frame.number"]).len();
        assert!(framed > PACKETS / 4, "messages span segments: {framed}");
    }
    println!(
        "{scheme}: {packets} packets, {} RTP, {} sender reports, {framed} reassembled, none malformed",
        ssrcs.len(),
        reports.len(),
    );
}
