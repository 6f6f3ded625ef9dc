//! tshark's view of the interfaces that show the contents of a transport's packets.

use std::path::Path;

use antiphon::net::capture::{MESSAGE_PORT, PEER_MESSAGE_PORT};

use crate::analysed::{DEADLINE, stream, stream_with};
use crate::child::{Child, antiphon, free_ports, program};

/// A packet of a capture as tshark shows it, checksums checked.
#[derive(Debug)]
struct Shown {
    interface: String,
    /// The protocols, outermost first: `raw:ip:udp:rtp`.
    protocols: String,
    ports: Option<(u16, u16)>,
    rtp: Option<u16>,
    rtcp: Option<u8>,
    /// Bytes, headers of IP included.
    length: usize,
    /// Verdicts on all checksums in the packet, 1 being good.
    checksums: Vec<u8>,
}

const FIELDS: [&str; 12] = [
    "frame.interface_name",
    "frame.protocols",
    "udp.srcport",
    "udp.dstport",
    "rtp.seq",
    "rtcp.pt",
    "frame.len",
    "ip.checksum.status",
    "udp.checksum.status",
    "sctp.checksum.status",
    "dccp.checksum.status",
    "xtp.checksum.status",
];

fn tshark(file: &Path, rest: &[&str]) -> String {
    let mut command = program(&format!("tshark -d udp.port=={MESSAGE_PORT},rtp"));
    let checks = ["ip.check_checksum", "udp.check_checksum", "dccp.check_checksum"];
    command.args(checks.map(|check| format!("-o{check}:TRUE"))).arg("-osctp.checksum:CRC 32c");
    for guess in guesses() {
        command.args(["--disable-protocol", &guess]);
    }
    command.arg("-r").arg(file).args(rest);
    Child::start(&mut command, DEADLINE).succeed().out
}

/// Protocols that tshark looks for in UDP packets of ports that it does not know, as those of a comparison are: sometimes a
/// packet of ours begins with the same bytes, and is malformed as one of those.
fn guesses() -> Vec<String> {
    let listed = Child::start(&mut program("tshark -G heuristic-decodes"), DEADLINE).succeed().out;
    let guess = |line: &str| {
        let mut words = line.split('\t');
        let (below, name) = (words.next()?, words.next()?);
        (below == "udp" && !["rtp", "rtcp"].contains(&name)).then(|| name.to_string())
    };
    let names: Vec<String> = listed.lines().filter_map(guess).collect();
    assert!(names.iter().any(|name| name == "stun"), "{listed}");
    let ours = ["ip", "udp", "tcp", "sctp", "dccp", "xtp", "rtp", "rtcp"];
    assert!(names.iter().all(|name| !ours.contains(&name.as_str())), "ours stay enabled: {names:?}");
    names
}

fn shown(file: &Path) -> Vec<Shown> {
    // tshark guesses at protocols that it does not know, SRP and the simple ARQ: sometimes the packet of another
    // protocol begins with the same bytes. DCCP, SCTP and XTP in UDP begin with a port or a key, which chance makes the beginning of RTCP;
    // where RTP and RTCP are in the open, the interface's name ends with theirs.
    let guessed = "(rtp||rtcp)&&!(frame.interface_name matches \"rtp$\")";
    let known = format!("!(frame.interface_name in {{\"srp\", \"arq\"}})&&!({guessed})");
    let wrong = "_ws.malformed||_ws.expert.severity==error||rtcp.length_check==0";
    let wrong = tshark(file, &["-Y", &format!("{known}&&({wrong})")]);
    assert_eq!(wrong, "", "malformed in {}", file.display());
    let mut fields = vec!["-T", "fields", "-E", "occurrence=a", "-E", "separator=;"];
    fields.extend(FIELDS.iter().flat_map(|field| ["-e", field]));
    tshark(file, &fields).lines().map(packet).collect()
}

fn packet(line: &str) -> Shown {
    let columns: Vec<&str> = line.split(';').collect();
    let [interface, protocols, from, to, seq, rtcp, length, sums @ ..] = &columns[..] else {
        panic!("{line}")
    };
    let first = |column: &str| column.split(',').next().filter(|word| !word.is_empty()).map(String::from);
    let port = |column: &str| first(column).map(|port| port.parse().expect("a port"));
    Shown {
        interface: (*interface).into(),
        protocols: (*protocols).into(),
        ports: port(from).zip(port(to)),
        rtp: first(seq).map(|seq| seq.parse().expect("a number")),
        rtcp: first(rtcp).map(|kind| kind.parse().expect("a number")),
        length: length.parse().expect("a number"),
        checksums: sums
            .iter()
            .filter_map(|sum| first(sum))
            .map(|sum| sum.parse().expect("a number"))
            .collect(),
    }
}

/// Each packet is on `…-rtp`, once and in order, and nothing else is.
fn check_frames(packets: &[Shown], scheme: &str, frames: u64, sender: bool) {
    let name = format!("{scheme}-rtp");
    let inside: Vec<_> = packets.iter().filter(|packet| packet.interface == name).collect();
    let (ours, theirs) = (MESSAGE_PORT, PEER_MESSAGE_PORT);
    let sound = if sender { (ours, theirs) } else { (theirs, ours) };
    let mut numbers = Vec::new();
    for packet in &inside {
        assert!(packet.rtp.is_some() != packet.rtcp.is_some(), "RTP or RTCP: {packet:?}");
        if let Some(seq) = packet.rtp {
            assert_eq!(packet.ports, Some(sound), "sound goes one way");
            numbers.push(seq);
        }
    }
    assert_eq!(numbers.len() as u64, frames, "packets inside {scheme}");
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "a gap inside {scheme}");
    let answers = inside.iter().filter(|packet| packet.ports != Some(sound));
    assert!(answers.count() > 0, "the receiver's reports are there: {scheme}");
}

/// Every packet of UDP is on `…-ip` as it would go over IP.
fn check_bare(packets: &[Shown], scheme: &str) {
    let on = |name: &str| packets.iter().filter(|packet| packet.interface == name).count();
    let bare = format!("{scheme}-ip");
    assert_eq!(on(scheme), on(&bare), "{scheme}");
    check_known(packets, &bare, scheme);
}

/// The packets of an interface are recognised, and correct.
fn check_known(packets: &[Shown], interface: &str, scheme: &str) {
    for packet in packets.iter().filter(|packet| packet.interface == interface) {
        let layers = format!("raw:ip:{scheme}");
        assert!(packet.protocols.starts_with(&layers), "{packet:?}");
        // IP's and the protocol's own.
        assert_eq!(packet.checksums, [1, 1], "{packet:?}");
    }
}

#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn what_is_inside_every_transport_is_dissected() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let schemes = ["tcp", "sctp", "dccp", "srp", "arq", "xtp"];
    std::thread::scope(|scope| {
        for (scheme, port) in schemes.into_iter().zip(free_ports(schemes.len())) {
            let directory = directory.path();
            scope.spawn(move || {
                let stream = stream(scheme, port, directory);
                let frames = stream.sent["packets_sent"].as_u64().expect("a number");
                assert_eq!(stream.received["packets_received"], frames, "nothing is lost on loopback");
                for (file, sender) in [(&stream.sender, true), (&stream.receiver, false)] {
                    let packets = shown(file);
                    assert!(
                        packets.iter().all(|packet| packet.checksums.iter().all(|sum| *sum == 1)),
                        "{scheme}"
                    );
                    check_frames(&packets, scheme, frames, sender);
                    let over_ip = packets.iter().any(|packet| packet.interface.ends_with("-ip"));
                    assert_eq!(over_ip, ["sctp", "dccp", "xtp"].contains(&scheme), "{scheme}");
                    if over_ip {
                        check_bare(&packets, scheme);
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "needs tshark, and root for raw sockets; scripts/install-peers brings it"]
fn packets_directly_over_ip_are_dissected_and_shown_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::thread::scope(|scope| {
        for (scheme, port) in ["sctp", "dccp", "xtp"].into_iter().zip(free_ports(3)) {
            let directory = directory.path();
            scope.spawn(move || {
                let stream = stream_with(scheme, "?over=ip", port, directory);
                let frames = stream.sent["packets_sent"].as_u64().expect("a number");
                for (file, sender) in [(&stream.sender, true), (&stream.receiver, false)] {
                    let packets = shown(file);
                    check_known(&packets, scheme, scheme);
                    check_frames(&packets, scheme, frames, sender);
                    let all = [scheme.to_string(), format!("{scheme}-rtp")];
                    assert!(packets.iter().all(|packet| all.contains(&packet.interface)), "nothing twice");
                }
            });
        }
    });
}

/// Over a link that loses packets, transports retransmit; the RTP inside is shown only once. What waited for its congestion
/// control until it was too old never left, and isn't shown.
#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn a_comparison_shows_every_stream_once_whatever_was_repaired() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("all.pcapng");
    let name = file.display().to_string();
    let arguments = ["compare", "--link", "delay=5ms,loss=3%", "--seconds", "3s", "--out", "none", "--json"];
    let mut command = antiphon(arguments);
    command.args(["--transports", "sctp,dccp,srp,arq,xtp", "--capture", &name]);
    let ended = Child::start(&mut command, DEADLINE).succeed();
    let figures: Vec<serde_json::Value> =
        ended.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let packets = shown(&file);
    for scheme in ["sctp", "dccp", "srp", "arq", "xtp"] {
        let figure =
            figures.iter().find(|figure| figure["transport"] == scheme && figure["packets_sent"].is_u64());
        let figure = figure.unwrap_or_else(|| panic!("{scheme}: {}", ended.out));
        let count = |name: &str| figure[name].as_u64().expect("a number");
        let kept = count("expired") + count("refused");
        let numbers: Vec<u16> = packets
            .iter()
            .filter(|packet| packet.interface == format!("{scheme}-rtp"))
            .filter(|packet| packet.ports == Some((MESSAGE_PORT, PEER_MESSAGE_PORT)))
            .filter_map(|packet| packet.rtp)
            .collect();
        assert_eq!(numbers.len() as u64, count("packets_sent") - kept, "{scheme}");
        let steps = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        assert!(steps.clone().all(|step| (1..=1 + kept).contains(&u64::from(step))), "{scheme}: {numbers:?}");
        assert!(steps.map(|step| u64::from(step) - 1).sum::<u64>() <= kept, "{scheme}: {numbers:?}");
    }
    // Retransmissions are only on the wire. A transport without repairs shows that nothing else is counted here.
    for scheme in ["srp", "arq", "xtp"] {
        let (whole, frames) = sent_whole(&packets, scheme);
        assert!(whole > frames, "{scheme}: {whole} packets for {frames} messages, and 3 % were lost");
    }
    let (whole, frames) = sent_whole(&packets, "dccp");
    assert_eq!(whole, frames, "dccp");
}

/// Packets from us on the wire that are as long as one with a message, which acknowledgements are not, and what looks for the
/// path's size is not either; and the messages in them.
fn sent_whole(packets: &[Shown], scheme: &str) -> (usize, usize) {
    let inside = format!("{scheme}-rtp");
    let sound = packets.iter().filter(|packet| {
        packet.interface == inside
            && packet.ports == Some((MESSAGE_PORT, PEER_MESSAGE_PORT))
            && packet.rtp.is_some()
    });
    let lengths: Vec<usize> = sound.map(|packet| packet.length).collect();
    let (least, most) = (*lengths.iter().min().expect("frames"), *lengths.iter().max().expect("frames"));
    let mut wire = packets.iter().filter(|packet| packet.interface == scheme).peekable();
    // Who calls speaks first.
    let ours = wire.peek().expect("packets").ports;
    let whole =
        wire.filter(|packet| packet.ports == ours && (least..most + HEADERS).contains(&packet.length));
    (whole.count(), lengths.len())
}

/// More than any of our transports puts before a message, in bytes: DCCP's acknowledgements in data packets take 100 and some. It
/// looks for the path's size with packets that fill an Ethernet's, 400 bytes longer than a message.
const HEADERS: usize = 160;

/// A reflector that is ended by Ctrl-C has shown every packet there and back, over any transport.
#[test]
#[ignore = "needs tshark; scripts/install-peers brings it"]
fn a_reflectors_capture_is_dissected() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, port) = (directory.path().join("peers.pcapng"), crate::common::free_ports(30));
    let (name, at) = (file.display().to_string(), format!("127.0.0.1:{port}"));
    let schemes = ["tcp", "sctp", "dccp", "srp", "arq", "xtp"];
    let transports = schemes.join(",");
    let reflect = ["reflect", "--listen", &at, "--transports", &transports, "--json", "--capture", &name];
    let mut reflector = Child::start(&mut antiphon(reflect), DEADLINE);
    reflector.wait_for("Stop with Ctrl-C");
    let compare = ["compare", &at, "--transports", &transports, "--seconds", "2s", "--out", "none", "--json"];
    let compared = Child::start(&mut antiphon(compare), DEADLINE).succeed();
    reflector.interrupt();
    let told = reflector.end().summary()["notes"][0].as_str().expect("a note").to_string();
    assert!(told.starts_with("captured ") && told.contains(" 0 dropped"), "{told}");
    let packets = shown(&file);
    assert!(packets.iter().all(|packet| packet.checksums.iter().all(|sum| *sum == 1)), "checksums");
    let figures: Vec<serde_json::Value> =
        compared.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for scheme in schemes {
        let figure = figures.iter().find(|it| it["transport"] == scheme && it["packets_sent"].is_u64());
        let figure = figure.unwrap_or_else(|| panic!("{scheme}: {}", compared.out));
        let count = |ports: (u16, u16)| {
            let inside = format!("{scheme}-rtp");
            let numbers: Vec<u16> = packets
                .iter()
                .filter(|packet| packet.interface == inside && packet.ports == Some(ports))
                .filter_map(|packet| packet.rtp)
                .collect();
            let once: std::collections::BTreeSet<u16> = numbers.iter().copied().collect();
            assert_eq!(once.len(), numbers.len(), "{scheme}: shown once");
            numbers.len() as u64
        };
        let [there, back] = [(PEER_MESSAGE_PORT, MESSAGE_PORT), (MESSAGE_PORT, PEER_MESSAGE_PORT)]
            .map(|ports| Some(count(ports)));
        assert_eq!(
            (there, back),
            (figure["packets_sent"].as_u64(), figure["packets_sent"].as_u64()),
            "{scheme}"
        );
        if ["sctp", "dccp", "xtp"].contains(&scheme) {
            check_bare(&packets, scheme);
        }
    }
}
