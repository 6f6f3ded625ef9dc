//! The file read by an independent library, and every packet checked by the rules of its protocol.

mod inside;
mod reader;

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use antiphon_core::Instant;
use proptest::prelude::*;

use super::*;
use crate::capture::tap::RING;
use reader::{Read, Streams, conversations, read};

/// A file in memory with room for so many bytes.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&buf[..n]);
        if n == 0 && !buf.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.bytes.truncate(len as usize);
        Ok(())
    }
}

fn ends(local: &str, peer: &str) -> Ends {
    Ends { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
}

/// Runs `work` on a tap of a file in memory, and reads the result.
fn captured(work: impl FnOnce(&mut Tap)) -> Read {
    captured_with(Box::new(Plain), work).0
}

/// The same with the contents of packets.
fn captured_with(dissector: Box<dyn Dissector>, work: impl FnOnce(&mut Tap)) -> (Read, CaptureSummary) {
    let clock = OsClock::new();
    let file = PcapngFile::begin(Disk { bytes: Vec::new(), room: usize::MAX }, COMMENT).unwrap();
    let (sender, orders) = mpsc::channel();
    let (mut tap, drain) = Tap::new(clock);
    sender.send(Order::Tap { name: "one".into(), dissector, drain }).unwrap();
    work(&mut tap);
    drop(tap);
    sender.send(Order::Finish).unwrap();
    let mut writer = Writer::new(file, clock);
    let summary = writer.run(&orders).expect("memory takes all");
    (read(&writer.into_medium().bytes), summary)
}

#[test]
fn datagrams_of_both_families_with_their_times_and_ways() {
    let clock = OsClock::new();
    let before = clock.epoch();
    let cases = [
        (Direction::Sent, ends("192.0.2.1:5004", "198.51.100.7:6000"), &b"to them"[..]),
        (Direction::Received, ends("[2001:db8::1]:5004", "[2001:db8::2]:6000"), b"odd"),
        // Mapped addresses are IPv4 on the wire.
        (Direction::Received, ends("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2"), b""),
    ];
    let read = captured(|tap| {
        for (n, (direction, ends, bytes)) in cases.iter().enumerate() {
            tap.datagram(*direction, Instant::from_nanos(n as u64 * 1_000_000_001), *ends, bytes);
        }
    });
    assert_eq!(read.names, ["one"]);
    assert_eq!(read.totals, [(3, 0)]);
    let shown: Vec<_> = read.packets.iter().map(|p| format!("{} > {}", p.from, p.to)).collect();
    let expected = [
        "192.0.2.1:5004 > 198.51.100.7:6000",
        "[2001:db8::2]:6000 > [2001:db8::1]:5004",
        "192.0.2.2:2 > 192.0.2.1:1",
    ];
    assert_eq!(shown, expected);
    for (packet, (direction, _, bytes)) in read.packets.iter().zip(cases) {
        assert_eq!((&packet.payload[..], packet.outgoing), (bytes, direction == Direction::Sent));
    }
    // Exact to the nanosecond relative to each other; and of this hour, not of 1970 or 1900.
    let nanos: Vec<u64> = read.packets.iter().map(|p| p.nanos - read.packets[0].nanos).collect();
    assert_eq!(nanos, [0, 1_000_000_001, 2_000_000_002]);
    let seconds = (before.ntp_at_zero.to_bits() >> 32) - antiphon_core::NtpTime::UNIX_OFFSET_SECONDS;
    assert!(seconds.abs_diff(read.packets[0].nanos / 1_000_000_000) <= 1);
}

#[test]
fn a_connection_from_handshake_to_fin() {
    let at = Instant::from_nanos;
    let read = captured(|tap| {
        tap.opened(Direction::Received, at(1), ends("[::1]:5004", "[::1]:40000"));
        tap.stream(Direction::Received, at(2), &[1; 3000]);
        tap.stream(Direction::Sent, at(3), &[2; 10]);
        tap.closed(Ending::Finished(Direction::Received), at(4));
    });
    let shown: Vec<_> =
        read.packets.iter().map(|p| (p.outgoing, p.tcp.unwrap().2, p.payload.len())).collect();
    let expected = [
        (false, 0x02, 0),
        (true, 0x12, 0),
        (false, 0x10, 0),
        (false, 0x18, 1448),
        (false, 0x18, 1448),
        (false, 0x18, 104),
        (true, 0x18, 10),
        (false, 0x11, 0),
        (true, 0x11, 0),
        (false, 0x10, 0),
    ];
    assert_eq!(shown, expected);
    assert_eq!(conversations(&read.packets), [(vec![2; 10], vec![1; 3000])]);
}

#[test]
fn a_dropped_stretch_leaves_a_gap_of_its_size() {
    let read = captured(|tap| {
        tap.opened(Direction::Sent, Instant::ZERO, ends("127.0.0.1:1", "127.0.0.1:2"));
        // The ring is full when the second stretch comes: no room for its bytes.
        let datagram = vec![3; (RING - 100) / 17];
        tap.stream(Direction::Sent, Instant::ZERO, &[1; 10]);
        for _ in 0..17 {
            tap.datagram(Direction::Sent, Instant::ZERO, ends("127.0.0.1:3", "127.0.0.1:4"), &datagram);
        }
        tap.stream(Direction::Sent, Instant::ZERO, &[2; 5000]);
        tap.stream(Direction::Sent, Instant::ZERO, &[4; 1]);
    });
    assert_eq!(read.totals[0].1, 1);
    let data: Vec<_> = read.packets.iter().filter(|p| p.tcp.is_some() && !p.payload.is_empty()).collect();
    assert_eq!(data.len(), 2);
    assert_eq!(data[1].tcp.unwrap().0.wrapping_sub(data[0].tcp.unwrap().0), 10 + 5000);
}

#[test]
fn long_silence_of_one_side_does_not_fill_the_window() {
    let read = captured(|tap| {
        tap.opened(Direction::Sent, Instant::ZERO, ends("127.0.0.1:1", "127.0.0.1:2"));
        for _ in 0..55 {
            tap.stream(Direction::Sent, Instant::ZERO, &[0; 16_384]);
        }
    });
    let (mut acked, mut worst) = (None, 0);
    for packet in &read.packets {
        let (seq, ack, _) = packet.tcp.unwrap();
        if packet.outgoing {
            let first = *acked.get_or_insert(seq.wrapping_add(1));
            worst = worst.max(seq.wrapping_add(packet.payload.len() as u32).wrapping_sub(first) as i32);
        } else {
            acked = Some(ack);
        }
    }
    // The window is 65 535 shifted by 4; without acknowledgements 901 120 bytes would be in flight.
    assert!((500_000..600_000).contains(&worst), "{worst}");
}

#[test]
fn interfaces_are_separate_and_their_times_interleave() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two.pcapng");
    let capture = Capture::create(&path, OsClock::new()).unwrap();
    let (mut wire, mut inner) = (capture.tap("wire"), capture.tap("inner RTP"));
    for n in 0..10 {
        let tap = if n % 2 == 0 { &mut wire } else { &mut inner };
        let to = ends("127.0.0.1:1", "127.0.0.1:2");
        tap.datagram(Direction::Sent, Instant::from_nanos(n), to, &[n as u8]);
    }
    let summary = capture.finish().unwrap();
    assert_eq!(summary, CaptureSummary { packets: 10, bytes: 10 * 29, ..Default::default() });
    let read = read(&std::fs::read(&path).unwrap());
    assert_eq!(read.names, ["wire", "inner RTP"]);
    assert_eq!(read.totals, [(5, 0), (5, 0)]);
    for packet in &read.packets {
        assert_eq!(packet.interface, u32::from(packet.payload[0]) % 2);
    }
    // The writer may have run in between, but each round is sorted: both interfaces' first packets are first.
    assert_eq!(read.packets.len(), 10);
}

#[test]
fn a_full_disk_leaves_whole_blocks_and_a_clear_error() {
    let to = ends("127.0.0.1:1", "127.0.0.1:2");
    let mut cut = 0;
    for room in (1_000..4_000).step_by(97) {
        let clock = OsClock::new();
        let mut writer =
            Writer::new(PcapngFile::begin(Disk { bytes: Vec::new(), room }, COMMENT).unwrap(), clock);
        let (mut tap, drain) = Tap::new(clock);
        writer.add("one", Box::new(Plain), drain);
        let mut failed = None;
        for n in 0..40u64 {
            tap.datagram(Direction::Sent, Instant::from_nanos(n), to, &[n as u8; 100]);
            failed = writer.round().err();
            if failed.is_some() {
                break;
            }
        }
        assert_eq!(failed.expect("40 packets do not fit").kind(), io::ErrorKind::StorageFull);
        let packets = writer.safe();
        let left = writer.into_medium().bytes;
        cut += usize::from(left.len() < room);
        let read = read(&left);
        assert_eq!(read.packets.len() as u64, packets);
        assert!(read.packets.iter().enumerate().all(|(n, p)| p.payload == [n as u8; 100]));
    }
    assert!(cut > 25, "the room ended in the middle of a block {cut} times");
}

#[test]
fn errors_say_what_to_do() {
    let create = |path: &str| Capture::create(path, OsClock::new()).err().unwrap().to_string();
    assert!(create("/nowhere/at/all.pcapng").contains("directory that can be written to"));
    // A device that is always full.
    assert!(create("/dev/full").contains("cannot create the capture file '/dev/full'"));
    let full = Disk { bytes: Vec::new(), room: 700 };
    let capture = Capture::on(full, Path::new("here.pcapng"), OsClock::new()).unwrap();
    let mut tap = capture.tap("one");
    tap.datagram(Direction::Sent, Instant::ZERO, ends("127.0.0.1:1", "127.0.0.1:2"), &[0; 2_000]);
    let error = capture.finish().unwrap_err().to_string();
    assert!(
        error.contains("'here.pcapng' ends early, after 0 packets") && error.contains("free some space"),
        "{error}"
    );
}

/// Events at a socket.
#[derive(Clone, Debug)]
enum Step {
    Datagram(bool, SocketAddr, SocketAddr, Vec<u8>),
    Open(bool, SocketAddr, SocketAddr),
    Stream(bool, Vec<u8>),
    Close(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let v4 = any::<(u32, u32, u16, u16)>().prop_map(|(a, b, p, q)| {
        (SocketAddr::new(Ipv4Addr::from(a | 1).into(), p), SocketAddr::new(Ipv4Addr::from(b).into(), q))
    });
    let v6 = any::<(u128, u128, u16, u16)>().prop_map(|(a, b, p, q)| {
        (SocketAddr::new(Ipv6Addr::from(a | 1).into(), p), SocketAddr::new(Ipv6Addr::from(b).into(), q))
    });
    let pair = prop_oneof![v4, v6]
        .prop_filter("a group sends nothing", |(a, _)| !a.ip().is_multicast())
        .prop_filter("one family", |(a, b)| {
            a.ip().to_canonical().is_ipv4() == b.ip().to_canonical().is_ipv4()
        });
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        (any::<bool>(), pair.clone(), bytes(3_000)).prop_map(|(s, (a, b), d)| Step::Datagram(s, a, b, d)),
        (any::<bool>(), pair).prop_map(|(s, (a, b))| Step::Open(s, a, b)),
        (any::<bool>(), bytes(9_000)).prop_map(|(s, d)| Step::Stream(s, d)),
        (0..3u8).prop_map(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// All bytes that cross the sockets can be read back from the file.
    #[test]
    fn everything_comes_back(steps in proptest::collection::vec(step(), 0..40)) {
        let way = |sent: bool| if sent { Direction::Sent } else { Direction::Received };
        let (mut datagrams, mut streams) = (Vec::new(), Vec::<Streams>::new());
        let (mut open, mut homeless) = (false, 0);
        let read = captured(|tap| {
            for (n, step) in steps.iter().enumerate() {
                let at = Instant::from_micros(n as u64);
                match step {
                    Step::Datagram(sent, local, peer, bytes) => {
                        tap.datagram(way(*sent), at, Ends { local: *local, peer: *peer }, bytes);
                        let (from, to) = if *sent { (local, peer) } else { (peer, local) };
                        datagrams.push((*from, *to, bytes.clone()));
                    }
                    Step::Open(caller, local, peer) => {
                        tap.opened(way(*caller), at, Ends { local: *local, peer: *peer });
                        streams.push(Default::default());
                        open = true;
                    }
                    Step::Stream(sent, bytes) => {
                        tap.stream(way(*sent), at, bytes);
                        homeless += u64::from(!open);
                        if let Some((to, from)) = streams.last_mut().filter(|_| open) {
                            if *sent { to.extend(bytes) } else { from.extend(bytes) }
                        }
                    }
                    Step::Close(how) => {
                        let endings = [Ending::Reset, Ending::Finished(way(true)), Ending::Finished(way(false))];
                        tap.closed(endings[usize::from(*how)], at);
                        open = false;
                    }
                }
            }
        });
        let seen: Vec<_> = read.packets.iter().filter(|p| p.tcp.is_none())
            .map(|p| (p.from, p.to, p.payload.clone())).collect();
        prop_assert_eq!(seen, datagrams);
        prop_assert_eq!(conversations(&read.packets), streams);
        prop_assert_eq!(&read.totals, &[(read.packets.len() as u64 + homeless, homeless)]);
    }
}
