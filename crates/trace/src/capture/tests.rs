//! Files read back by an independent library, checksums recomputed separately.

use std::io::Write;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

use super::*;
use crate::headers::flag;
use crate::pcapng::Stream;

/// Interface, nanoseconds since 1970, `epb_flags`, packet.
type Seen = (u32, u64, u32, Vec<u8>);

/// Names, packets, and packets by interface according to the totals; empty if the file lacks them.
fn read(bytes: &[u8]) -> (Vec<String>, Vec<Seen>, Vec<u64>) {
    let (mut names, mut packets, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = PcapNgReader::new(bytes).expect("a section header");
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(block) => {
                names.extend(block.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(block) => {
                let [EnhancedPacketOption::Flags(way)] = block.options[..] else { panic!("{block:?}") };
                let nanos = block.timestamp.as_nanos() as u64;
                packets.push((block.interface_id, nanos, way, block.data.to_vec()));
            }
            Block::InterfaceStatistics(block) => {
                totals.extend(block.options.iter().filter_map(|option| match option {
                    InterfaceStatisticsOption::IsbIfRecv(packets) => Some(*packets),
                    _ => None,
                }));
            }
            other => panic!("{other:?}"),
        }
    }
    (names, packets, totals)
}

/// Whether IPv4 and transport checksums of an IPv4 packet are correct.
fn sums_are_good(packet: &[u8]) -> bool {
    let good = |bytes: &[u8]| {
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) * 256 + word.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    };
    let len = (packet.len() as u16 - 20).to_be_bytes();
    let pseudo = [&packet[12..20], &[0, packet[9]], &len, &packet[20..]].concat();
    good(&packet[..20]) && good(&pseudo)
}

fn ends() -> (SocketAddr, SocketAddr) {
    ("10.0.0.1:5004".parse().unwrap(), "10.0.0.2:6000".parse().unwrap())
}

#[test]
fn segments_say_what_they_were_told() {
    let (from, to) = ends();
    let mut capture = CaptureWriter::begin(Vec::new(), "a test", 5).unwrap();
    let link = capture.interface("up", "one way").unwrap();
    // A time stamp (RFC 7323 §3.2) after two pads.
    let options = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    let segment = Segment {
        seq: 0x0102_0304,
        ack: 0xa1a2_a3a4,
        flags: flag::PSH | flag::ACK,
        window: 0x1234,
        options: &options,
    };
    capture.tcp(link, Instant::from_nanos(37), Way::Unknown, from, to, segment, b"xyz").unwrap();
    let (names, packets, totals) = read(&capture.finish().unwrap());
    assert_eq!((names, totals), (vec!["up".to_owned()], vec![1]));
    let (interface, nanos, way, packet) = &packets[0];
    assert_eq!((*interface, *nanos, *way, packets.len()), (0, 42, 0, 1));
    assert!(sums_are_good(packet));
    let tcp = &packet[20..];
    let header = [0x13, 0x8c, 0x17, 0x70, 1, 2, 3, 4, 0xa1, 0xa2, 0xa3, 0xa4, 8 << 4, 0x18, 0x12, 0x34];
    assert_eq!(tcp[..16], header);
    assert_eq!((&tcp[20..32], &tcp[32..]), (&options[..], &b"xyz"[..]));
}

#[test]
fn what_does_not_fit_leaves_the_file_as_it_was() {
    let (from, to) = ends();
    let mut capture = CaptureWriter::begin(Vec::new(), "a test", 0).unwrap();
    let link = capture.interface("up", "").unwrap();
    let mut offer = |len| capture.udp(link, Instant::ZERO, Way::Inbound, from, to, &vec![0; len]);
    let refused = offer(65_508).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("split"), "{refused}");
    offer(65_507).unwrap();
    let (_, packets, totals) = read(&capture.finish().unwrap());
    assert_eq!((packets[0].3.len(), totals), (65_535, vec![1]));
}

/// Takes this many bytes and no more; may support truncation or not.
struct Disk(Vec<u8>, usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.1 - self.0.len());
        self.0.extend_from_slice(&bytes[..n]);
        if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for &mut Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.truncate(len as usize);
        Ok(())
    }
}

/// Writes packets of 1 kB until an error; every later call returns it again.
fn fill<M: Medium>(medium: M) -> io::ErrorKind {
    let (from, to) = ends();
    let mut capture = CaptureWriter::begin(medium, "a test", 0).unwrap();
    let link = capture.interface("up", "").unwrap();
    let mut write = || capture.udp(link, Instant::ZERO, Way::Outbound, from, to, &[7; 1000]);
    let error = (0..10_000).find_map(|_| write().err()).expect("the disk is full some time");
    assert_eq!(write().unwrap_err().kind(), error.kind());
    assert_eq!(capture.interface("down", "").unwrap_err().kind(), error.kind());
    assert_eq!(capture.finish().err().map(|error| error.kind()), Some(error.kind()));
    error.kind()
}

#[test]
fn a_full_disk_is_reported_and_leaves_whole_packets() {
    let mut disk = Disk(Vec::new(), 1_000_001);
    assert_eq!(fill(&mut disk), io::ErrorKind::StorageFull);
    let (_, packets, _) = read(&disk.0);
    // Three buffers of 256 KiB fit, at 1072 bytes a block; all of the fourth is lost.
    assert_eq!(packets.len(), 3 * (crate::pcapng::BUFFER / 1072 + 1));
    assert!(packets.iter().all(|packet| packet.3.len() == 1028));
    // A medium that can't be truncated keeps its half block; the error is that of writing, not of truncating.
    let mut pipe = Disk(Vec::new(), 1_000_001);
    assert_eq!(fill(Stream(&mut pipe)), io::ErrorKind::StorageFull);
    assert_eq!(pipe.0.len(), 1_000_001);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Everything that crosses the links is in the file, in order, with its time and correct checksums.
    #[test]
    fn datagrams_come_back(
        sent in proptest::collection::vec((0..3u32, 0..1u64 << 60, proptest::collection::vec(any::<u8>(), 0..2_000)), 0..50)
    ) {
        let (from, to) = ends();
        let mut capture = CaptureWriter::begin(Vec::new(), "a test", 1_000).unwrap();
        let links: Vec<_> = ["a", "b", "c"].iter().map(|name| capture.interface(name, "").unwrap()).collect();
        for (link, at, payload) in &sent {
            let at = Instant::from_nanos(*at);
            capture.udp(links[*link as usize], at, Way::Outbound, from, to, payload).unwrap();
        }
        let (names, packets, totals) = read(&capture.finish().unwrap());
        prop_assert_eq!(names, ["a", "b", "c"]);
        prop_assert_eq!(totals.iter().sum::<u64>(), sent.len() as u64);
        prop_assert_eq!(packets.len(), sent.len());
        for (seen, (link, at, payload)) in packets.iter().zip(&sent) {
            prop_assert_eq!((seen.0, seen.1, seen.2), (*link, at + 1_000, 2));
            prop_assert_eq!(&seen.3[28..], &payload[..]);
            prop_assert!(sums_are_good(&seen.3));
        }
    }
}
