//! Captures of virtual media can be opened in analysers: every packet is whole, its checksums are right, and none is
//! missing.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_lab::figures::RunFigures;
use antiphon_lab::setup::{
    Content, MediumKind, MediumSpec, NodeId, NodeSpec, Setup, StreamSpec, TrafficKind, TrafficSpec,
};
use antiphon_lab::tcp::Profile;
use antiphon_lab::world::{TapError, World};
use pcap_file::pcapng::{Block, PcapNgReader};

/// A file in memory that the test can read while the world writes it.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk with limited space.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All kinds of packets over one line with losses.
fn setup() -> Setup {
    let stream = |name: &str, transport: &str, content| {
        StreamSpec::new(name, transport, [NodeId(0), NodeId(1)], content)
    };
    let packets = Content::Packets { frame: 1300, interval: Duration::from_micros(7_400), count: None };
    let sound = Content::default();
    let traffic = |name: &str, kind| TrafficSpec::new(name, [NodeId(1), NodeId(0)], kind);
    let interval = Duration::from_millis(100);
    let tcp = Profile { window_scale: None, timestamps: false, ..Profile::linux_2_4() };
    let spec = Box::new("rate=8Mbit/s,queue=30packets,delay=10ms,loss=1%".parse().expect("a link"));
    let kind = MediumKind::Link { between: [NodeId(0), NodeId(1)], spec };
    Setup {
        duration: Duration::from_secs(5),
        drain: Duration::from_secs(2),
        ends_with_streams: false,
        media_seed: None,
        nodes: ["near", "far"].map(NodeSpec::new).to_vec(),
        media: vec![MediumSpec::new("line", kind)],
        traffic: vec![
            traffic("load", TrafficKind::Constant { rate: BitRate(1_000_000), payload: 1470 }),
            traffic("ping", TrafficKind::Ping { interval, payload: 56, count: 20 }),
            traffic("greedy", TrafficKind::GreedyTcp { profile: tcp }),
        ],
        streams: vec![
            stream("udp", "rtp", packets.clone()),
            stream("tcp", "tcp", packets),
            stream("sound", "rtp", sound),
        ],
    }
}

fn counter(figures: &RunFigures, name: &str) -> f64 {
    let counters = &figures.media[0].counters;
    counters.iter().find(|(other, _)| *other == name).expect("a counter of that name").1
}

/// The sum over 16-bit words with its carries folded in; all ones if a checksum within is right (RFC 1071).
fn sum(parts: &[&[u8]]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn check(packet: &[u8]) {
    assert_eq!((packet[0], sum(&[&packet[..20]])), (0x45, 0xffff), "an IPv4 header");
    assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
    let pseudo = [&packet[12..20], &[0, packet[9]], &((packet.len() - 20) as u16).to_be_bytes()];
    match packet[9] {
        1 => assert_eq!(sum(&[&packet[20..]]), 0xffff, "ICMP"),
        6 | 17 => assert_eq!(sum(&[pseudo[0], pseudo[1], pseudo[2], &packet[20..]]), 0xffff, "TCP, UDP"),
        other => panic!("protocol {other}"),
    }
}

#[test]
fn a_capture_holds_every_packet_with_right_checksums() {
    let memory = Memory::default();
    let mut world = World::new(&setup(), 1).expect("a world");
    world.capture("line", Some("far"), Box::new(memory.clone())).expect("a capture");
    world.run_to_end();
    world.finish_captures().expect("memory is never full");
    let bytes = memory.0.borrow().clone();
    let mut reader = PcapNgReader::new(&bytes[..]).expect("a pcapng file");
    let (mut packets, mut last, mut protocols) = (0, Duration::ZERO, Vec::new());
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a block") {
            check(&packet.data);
            protocols.push(packet.data[9]);
            assert!(packet.timestamp >= last, "in the order of time");
            (packets, last) = (packets + 1, packet.timestamp);
        }
    }
    // Packets received at the far node, and packets that it sent.
    let figures = world.figures();
    let seen = counter(&figures, "up_delivered") + counter(&figures, "down_offered");
    assert_eq!(f64::from(packets), seen);
    assert!([1, 6, 17].iter().all(|protocol| protocols.contains(protocol)));
    if let Ok(path) = std::env::var("LAB_CAPTURE") {
        std::fs::write(path, &bytes).expect("a file for an analyser");
    }
}

#[test]
fn a_capture_changes_nothing_and_a_full_disk_neither() {
    let mut plain = World::new(&setup(), 1).expect("a world");
    let mut captured = World::new(&setup(), 1).expect("a world");
    captured.capture("line", None, Box::new(Full(100_000))).expect("a capture");
    plain.run_to_end();
    captured.run_to_end();
    assert_eq!(captured.figures(), plain.figures());
    let error = captured.finish_captures().expect_err("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn what_cannot_be_captured_is_named() {
    let mut world = World::new(&setup(), 1).expect("a world");
    let refused = |result: Result<(), TapError>| result.expect_err("nothing to capture").to_string();
    let error = refused(world.capture("lime", None, Box::new(io::sink())));
    assert_eq!(error, "there is no medium 'lime', did you mean 'line'?");
    let error = refused(world.capture("line", Some("fat"), Box::new(io::sink())));
    assert_eq!(error, "node 'fat' is not on medium 'line', did you mean 'far'?");
}
