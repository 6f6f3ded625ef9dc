//! tshark finds nothing malformed in packets on the wire, live or in a capture of our own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::child::{Child, antiphon, free_ports, program};
use crate::dissect::{APP, BYE, Dissected, RR, SDES, SR, XR, dissect, dissect_with_checksums};

/// Sends five and a half seconds: past the first report, which comes within five.
const SOUND: &str = "tone:noise?channels=2&seconds=5500ms";

/// How the name of the sender's capture ends.
const SENT: &str = "sent.pcapng";

/// A stream between two processes of ours.
pub struct Stream {
    /// Whether the recording confirms what it has, as over a transport that loses nothing.
    confirms: bool,
    port: u16,
    /// The summaries of sender and receiver.
    pub sent: Value,
    pub received: Value,
    /// Their captures.
    pub sender: PathBuf,
    pub receiver: PathBuf,
}

/// Streams [`SOUND`] over `scheme` through `port` of the loopback, captured at both ends in `directory`.
pub fn stream(scheme: &str, port: u16, directory: &Path) -> Stream {
    stream_with(scheme, "", port, directory)
}

/// The same with settings in the URI at both ends, such as `?over=ip`.
pub fn stream_with(scheme: &str, query: &str, port: u16, directory: &Path) -> Stream {
    let path = |name: &str| directory.join(format!("{scheme}-{name}"));
    let (sender, receiver, wav) = (path(SENT), path("received.pcapng"), path("got.wav"));
    let names = [&sender, &receiver, &wav].map(|path| path.display().to_string());
    // A TCP address is called unless it is marked as one to listen on.
    let at = if scheme == "tcp" { "@" } else { "" };
    let source = format!("{scheme}://{at}127.0.0.1:{port}{query}");
    let arguments = ["receive", &source, &names[2], "--json", "--capture", &names[1]];
    let mut receiving = Child::start(&mut antiphon(arguments), DEADLINE);
    receiving.wait_for("listening on");
    let target = format!("{scheme}://127.0.0.1:{port}{query}");
    let mut sending = antiphon(["send", SOUND, &target, "--json", "--capture", &names[0]]);
    let sending = Child::start(&mut sending, DEADLINE).succeed();
    let received = receiving.succeed().summary();
    let confirms = matches!(scheme, "tcp" | "sctp");
    Stream { confirms, port, sent: sending.summary(), received, sender, receiver }
}

impl Stream {
    /// Every packet that the sender reports as sent is there, once and in order, with reports beside.
    fn check(&self, seen: &Dissected, whose: &str) {
        let frames = self.sent["packets_sent"].as_u64().expect("a number");
        assert_eq!(
            self.received["packets_received"], frames,
            "nothing is lost on loopback: {}",
            self.received
        );
        let numbers = seen.numbers(self.port);
        assert_eq!(numbers.len() as u64, frames, "packets in {whose}");
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap in the numbers in {whose}");
        let ssrcs = seen.towards(self.port).flat_map(|packet| &packet.ssrc);
        assert_eq!(ssrcs.collect::<std::collections::BTreeSet<_>>().len(), 1, "senders in {whose}");
        let kinds = |packets: Vec<&crate::dissect::Packet>| {
            assert!(packets.iter().all(|p| p.rtcp.is_empty() || p.compounds > 0), "unjudged RTCP in {whose}");
            let all = packets.iter().flat_map(|packet| packet.rtcp.clone());
            all.collect::<std::collections::BTreeSet<u8>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(kinds(seen.towards(self.port).collect()), [SR, SDES, BYE], "the sender's RTCP in {whose}");
        let mut answers = kinds(seen.from(self.port).collect());
        // The sender may be gone when the receiver's BYE arrives, which is then not in the sender's own capture.
        if whose.ends_with(SENT) && !answers.contains(&BYE) {
            answers.push(BYE);
        }
        answers.sort_unstable();
        // A recording over a transport that loses nothing confirms what it has.
        assert_eq!(answers.contains(&APP), self.confirms, "{whose}");
        answers.retain(|kind| *kind != APP);
        // An extended report tells the playout delay.
        assert_eq!(answers, [RR, SDES, BYE, XR], "the receiver's RTCP in {whose}");
        // The sender's clock is in every packet, the format in some (RFC 8285 elements 1 and 2).
        let sound: Vec<_> = seen.towards(self.port).filter(|packet| !packet.rtp.is_empty()).collect();
        assert!(
            sound.iter().all(|p| p.extensions.iter().filter(|id| **id == 1).count() == p.rtp.len()),
            "{whose}"
        );
        assert!(sound.iter().any(|packet| packet.extensions.contains(&2)), "{whose}");
    }

    /// The framing's bytes and the framed bytes are all bytes of the connection.
    fn check_framing(&self, seen: &Dissected, whose: &str) {
        for packets in [seen.towards(self.port).collect::<Vec<_>>(), seen.from(self.port).collect()] {
            let carried: usize = packets.iter().map(|packet| packet.tcp_len).sum();
            let framed: usize = packets.iter().flat_map(|packet| &packet.framed).map(|len| len + 2).sum();
            assert_eq!(carried, framed, "bytes outside RFC 4571 packets in {whose}");
        }
    }
}

fn check_checksums(seen: &Dissected, whose: &str) {
    // IP and what is above it.
    let good = seen.packets.iter().all(|packet| packet.checksums == [1, 1]);
    assert!(good, "checksums in {whose}: {:?}", seen.packets.iter().find(|p| p.checksums != [1, 1]));
}

#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn nothing_is_malformed_in_our_own_captures() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ports = free_ports(2);
    std::thread::scope(|scope| {
        for (scheme, port) in ["rtp", "tcp"].into_iter().zip(ports) {
            let directory = directory.path();
            scope.spawn(move || {
                let stream = stream(scheme, port, directory);
                for file in [&stream.sender, &stream.receiver] {
                    let whose = file.display().to_string();
                    let seen = dissect_with_checksums(file, port);
                    stream.check(&seen, &whose);
                    check_checksums(&seen, &whose);
                    if scheme == "tcp" {
                        stream.check_framing(&seen, &whose);
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "needs tshark and root, to capture live; scripts/install-peers brings it"]
fn nothing_is_malformed_on_the_wire() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ports = free_ports(2);
    std::thread::scope(|scope| {
        for (scheme, port) in ["rtp", "tcp"].into_iter().zip(ports) {
            let directory = directory.path();
            scope.spawn(move || {
                let file = directory.join(format!("{scheme}-live.pcapng"));
                // Its output shows when the BYEs of both have been captured.
                let mut command = program("tshark -i lo -P -l -T fields -e rtcp.pt -e tcp.flags.fin");
                let hint = format!("{scheme}.port=={port},rtp").replace("rtp.port", "udp.port");
                command.args(["-f", &format!("port {port}"), "-d", &hint, "-w"]).arg(&file);
                let mut shark = Child::start(&mut command, DEADLINE);
                shark.wait_for("Capture started");
                let stream = stream(scheme, port, directory);
                match scheme {
                    "rtp" => (0..4).for_each(|_| drop(shark.wait_for(&BYE.to_string()))),
                    _ => (0..2).for_each(|_| {
                        shark.wait_until("the end of the connection", |line| line.ends_with("\t1"));
                    }),
                }
                shark.interrupt();
                shark.end();
                let seen = dissect(&file, port);
                stream.check(&seen, "the live capture");
                if scheme == "tcp" {
                    stream.check_framing(&seen, "the live capture");
                }
            });
        }
    });
}

/// Six seconds of sound, and a slow dissector.
pub const DEADLINE: Duration = Duration::from_secs(25);
