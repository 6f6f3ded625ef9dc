//! What a reflector's capture holds: every peer's packets, and the messages inside them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::net::capture::{MESSAGE_PORT, PEER_MESSAGE_PORT};
use antiphon::net::netns::{Means, Namespace, probe};
use antiphon::{CompareOptions, ReflectOptions, SendOptions, Stop, compare, reflect, send};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};

/// RTP packets of an interface: inbound or not, by source, how often each number.
type Frames = BTreeMap<(bool, u32), BTreeMap<u16, u32>>;

#[derive(Default)]
struct Read {
    names: Vec<String>,
    frames: BTreeMap<String, Frames>,
    /// IP protocols seen.
    protocols: BTreeMap<String, BTreeSet<u8>>,
    dropped: u64,
}

fn read(path: &Path) -> Read {
    let mut read = Read::default();
    let mut reader =
        PcapNgReader::new(std::fs::File::open(path).expect("the capture is there")).expect("pcapng");
    while let Some(block) = reader.next_block() {
        match block.expect("whole blocks") {
            Block::InterfaceDescription(block) => {
                read.names.extend(block.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let name = read.names[packet.interface_id as usize].clone();
                read.protocols.entry(name.clone()).or_default().insert(packet.data[9]);
                if let Some((inbound, source, number)) = frame(&name, &packet.data) {
                    let frames = read.frames.entry(name).or_default().entry((inbound, source)).or_default();
                    *frames.entry(number).or_default() += 1;
                }
            }
            Block::InterfaceStatistics(block) => {
                read.dropped += block.options.iter().map(dropped).sum::<u64>();
            }
            other => panic!("{other:?}"),
        }
    }
    read
}

fn dropped(option: &InterfaceStatisticsOption<'_>) -> u64 {
    if let InterfaceStatisticsOption::IsbIfDrop(dropped) = option { *dropped } else { 0 }
}

/// Of an RTP packet in UDP: whether it came from the peer, its source and its number. `None` for RTCP (RFC 5761 §4).
fn frame(name: &str, packet: &[u8]) -> Option<(bool, u32, u16)> {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (from, to) = (word(20), word(22));
    let ours = if name.ends_with("-rtp") { MESSAGE_PORT } else { PORT };
    let wanted = name == "rtp" || [from, to].contains(&PEER_MESSAGE_PORT);
    let rtp = wanted && packet[28] >> 6 == 2 && !(192..=223).contains(&packet[29]);
    rtp.then(|| (to == ours, u32::from(word(36)) << 16 | u32::from(word(38)), word(30)))
}

/// Over UDP, over TCP in two connections at once, inside UDP and directly over IP.
#[test]
fn a_reflectors_capture_shows_all_that_its_peers_sent_and_got_back() {
    if let Means::Forbidden(why) = probe() {
        return antiphon_testkit::skip_without_namespace(&why);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("peers.pcapng");
    // A namespace of its own, since raw sockets receive all of a machine's SCTP, and for the ports.
    let namespace = Namespace::private().expect("probed");
    let sent = namespace.run(|| session(&path)).expect("ours");
    let read = read(&path);
    let has = |name: &str| read.names.iter().any(|known| known == name);
    for name in ["rtp", "tcp", "tcp-2", "sctp", "sctp-rtp", "dccp", "dccp-ip", "dccp-rtp"] {
        assert!(has(name), "no {name} among {:?}", read.names);
    }
    assert!(!has("sctp-ip"), "it is over IP already: {:?}", read.names);
    for (name, protocol) in [("rtp", 17), ("tcp", 6), ("sctp", 132), ("dccp", 17), ("dccp-ip", 33)] {
        assert_eq!(read.protocols[name], BTreeSet::from([protocol]), "{name}");
    }
    assert_eq!(read.dropped, 0);
    let inside = |scheme: &str| match scheme {
        "rtp" => read.frames["rtp"].clone(),
        // Which of them each connection used is not fixed.
        "tcp" => {
            let inside = |name: &&String| name.starts_with("tcp") && name.ends_with("-rtp");
            let pages = read.names.iter().filter(inside).filter_map(|name| read.frames.get(name)).flatten();
            pages.map(|(key, frames)| (*key, frames.clone())).collect()
        }
        other => read.frames[&format!("{other}-rtp")].clone(),
    };
    for scheme in ["rtp", "tcp", "sctp", "dccp"] {
        let frames = inside(scheme);
        for inbound in [true, false] {
            let of: Vec<_> = frames.iter().filter(|((way, _), _)| *way == inbound).map(|(_, f)| f).collect();
            // Two peers, each with a source of its own, which is returned unchanged.
            assert_eq!(of.len(), 2, "{scheme}, inbound {inbound}");
            assert_eq!(of.iter().map(|frames| frames.len() as u64).sum::<u64>(), sent[scheme], "{scheme}");
            assert!(of.iter().all(|frames| frames.values().all(|times| *times == 1)), "{scheme}: shown once");
        }
    }
}

/// Two peers at a reflector, and a third that only holds a connection; returns how many frames they sent.
fn session(path: &Path) -> BTreeMap<String, u64> {
    let transports = ["rtp", "tcp", "sctp?over=ip", "dccp"].map(String::from).to_vec();
    let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
    let options = ReflectOptions {
        listen: ([127, 0, 0, 1], PORT).into(),
        transports: transports.clone(),
        capture: Some(path.into()),
        ..ReflectOptions::default()
    };
    let reflecting = stop.clone();
    let reflector = std::thread::spawn(move || {
        reflect(&options, &reflecting, &mut |status| {
            // The first call reports the address; by the last, the test may have ended.
            let _only_the_first_is_waited_for = tell.send(status.transports.clone());
        })
    });
    let listening = told.recv_timeout(Duration::from_secs(10)).expect("it listens");
    let tcp = &listening.iter().find(|one| one.transport == "tcp").expect("asked for").address;
    let held = TcpStream::connect(tcp.as_str()).expect("it listens");
    let mut sent = BTreeMap::new();
    for seed in [1, 2] {
        let options = CompareOptions {
            peer: Some(format!("127.0.0.1:{PORT}")),
            transports: transports.clone(),
            length: Some(Duration::from_millis(400)),
            out: None,
            seed,
            ..CompareOptions::default()
        };
        let result = compare(&options, &Stop::new(), &mut |_| {}).expect("it reflects");
        assert_eq!(result.failures, []);
        for figures in &result.figures {
            assert_eq!(figures.packets_received, figures.packets_sent, "{}", figures.transport);
            let scheme = figures.transport.split('?').next().expect("a name");
            *sent.entry(scheme.to_string()).or_default() += figures.packets_sent;
        }
    }
    stop.ask();
    let status = reflector.join().expect("no panic").expect("it ends in order");
    drop(held);
    assert!(status.notes.iter().any(|note| note.starts_with("captured ")), "{:?}", status.notes);
    sent
}

/// An incomplete capture is reported, and the stream goes on: here into a pipe whose reader closes it.
#[test]
fn an_incomplete_capture_is_reported() {
    let directory = std::env::temp_dir().join(format!("antiphon-capture-breaks-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let pipe = directory.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::File::open(pipe).and_then(|mut pipe| pipe.read_exact(&mut [0; 4]))
    });
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let options = SendOptions {
        source: "tone:440Hz?seconds=1s".into(),
        target: format!("rtp://{}", peer.local_addr().expect("bound")),
        capture: Some(pipe),
        ..SendOptions::default()
    };
    let mut told = Vec::new();
    let summary = send(&options, &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {});
    assert!(summary.expect("it streams").status.packets_sent > 180);
    reader.join().expect("no panic").expect("the capture began");
    assert!(told.iter().any(|sentence| sentence.starts_with("the capture is incomplete: ")), "{told:?}");
    std::fs::remove_dir_all(directory).expect("ours");
}

/// The test itself, in a network namespace of its own.
const PORT: u16 = 7710;
