//! Contents of packets in the file.

use antiphon_proto::{TRANSPORTS, find};
use proptest::prelude::*;

use super::reader::Seen;
use super::*;

fn dissector_of(scheme: &str) -> Box<dyn Dissector> {
    (find(scheme).unwrap().dissector)()
}

fn on(read: &Read, interface: u32) -> Vec<&Seen> {
    read.packets.iter().filter(|packet| packet.interface == interface).collect()
}

/// An SCTP packet with a fragment: its TSN, its B and E bits, its data of four bytes.
fn sctp(tsn: u8, flags: u8, data: &[u8; 4]) -> Vec<u8> {
    let head = [0x13, 0x88, 0x13, 0x8c, 0, 0, 0, 9, 1, 2, 3, 4, 0, flags, 0, 20, 0, 0, 0, tsn];
    [&head[..], &[0; 8], data].concat()
}

#[test]
fn sctp_stands_beside_itself_out_of_udp_and_its_messages_once() {
    let calls = ends("192.0.2.1:40000", "198.51.100.7:9899");
    let steps = [
        (Direction::Sent, sctp(7, 2, b"half")),
        (Direction::Received, sctp(7, 3, b"back")),
        (Direction::Sent, sctp(8, 1, b"rest")),
        (Direction::Sent, sctp(7, 2, b"half")),
        (Direction::Sent, sctp(9, 2, b"left")),
    ];
    let (read, summary) = captured_with(dissector_of("sctp"), |tap| {
        for (n, (direction, bytes)) in steps.iter().enumerate() {
            tap.datagram(*direction, Instant::from_micros(n as u64), calls, bytes);
        }
    });
    assert_eq!(read.names, ["one", "one-ip", "one-rtp"]);
    let (wire, bare, frames) = (on(&read, 0), on(&read, 1), on(&read, 2));
    for ((wire, bare), (direction, bytes)) in wire.iter().zip(&bare).zip(&steps) {
        assert_eq!((wire.protocol, bare.protocol), (17, 132));
        assert_eq!((&wire.payload, &bare.payload), (bytes, bytes));
        assert_eq!((bare.nanos, bare.outgoing), (wire.nanos, *direction == Direction::Sent));
        assert_eq!((bare.from.ip(), bare.to.ip()), (wire.from.ip(), wire.to.ip()));
        assert_eq!((bare.from.port(), bare.to.port()), (0x1388, 0x138c));
    }
    let shown: Vec<_> = frames.iter().map(|p| format!("{} > {} {:?}", p.from, p.to, p.payload)).collect();
    let expected = [
        format!("198.51.100.7:50006 > 192.0.2.1:50004 {:?}", b"back"),
        format!("192.0.2.1:50004 > 198.51.100.7:50006 {:?}", b"halfrest"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(frames[1].nanos, wire[2].nanos, "when it was whole");
    // The message that began and did not end is missing from the messages' interface.
    assert_eq!(read.totals, [(5, 0), (5, 0), (3, 1)]);
    assert_eq!((summary.packets, summary.inside, summary.dropped, summary.incomplete), (12, 7, 0, 1));
}

#[test]
fn dccp_gets_the_checksum_of_its_addresses() {
    // A Data packet, CCVal 3, coverage 2; inside UDP its checksum is zero.
    let data: &[u8] =
        &[0x13, 0x89, 0x13, 0x8c, 4, 0x30, 0, 0, 5, 0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbd, b'h', b'i'];
    for calls in [ends("192.0.2.1:5", "192.0.2.2:6511"), ends("[2001:db8::1]:5", "[2001:db8::2]:6511")] {
        // The reader checks the sum.
        let read = captured_with(dissector_of("dccp"), |tap| {
            tap.datagram(Direction::Received, Instant::ZERO, calls, data);
            tap.datagram(Direction::Received, Instant::ZERO, calls, b"not DCCP");
        });
        assert_eq!(read.0.totals, [(2, 0), (1, 0), (1, 0)]);
        let (bare, frames) = (on(&read.0, 1), on(&read.0, 2));
        assert_eq!((bare[0].protocol, bare[0].from.port(), bare[0].to.port()), (33, 0x1389, 0x138c));
        assert_eq!((frames[0].payload.as_slice(), frames[0].to.port()), (&b"hi"[..], MESSAGE_PORT));
    }
}

#[test]
fn a_streams_frames_each_in_a_packet() {
    let frames = [vec![1; 300], vec![2; 5], vec![3; 2_000]];
    let stream: Vec<u8> =
        frames.iter().flat_map(|f| [&(f.len() as u16).to_be_bytes()[..], f].concat()).collect();
    let (read, summary) = captured_with(dissector_of("tcp"), |tap| {
        tap.opened(Direction::Sent, Instant::ZERO, ends("127.0.0.1:4", "127.0.0.1:5"));
        for part in stream.chunks(700) {
            tap.stream(Direction::Sent, Instant::ZERO, part);
            tap.stream(Direction::Received, Instant::ZERO, part);
        }
    });
    assert_eq!(read.names, ["one", "one-rtp"]);
    for outgoing in [true, false] {
        let shown: Vec<_> = on(&read, 1).into_iter().filter(|p| p.outgoing == outgoing).collect();
        assert!(shown.iter().map(|packet| &packet.payload).eq(&frames));
        assert_eq!(shown[0].from.port(), if outgoing { MESSAGE_PORT } else { PEER_MESSAGE_PORT });
    }
    assert_eq!((summary.inside, summary.incomplete), (6, 0));
}

#[test]
fn plain_rtp_has_nothing_inside() {
    let (read, summary) = captured_with(dissector_of("rtp"), |tap| {
        tap.datagram(Direction::Sent, Instant::ZERO, ends("127.0.0.1:4", "127.0.0.1:5"), &[0x80; 50]);
    });
    assert_eq!((read.names.len(), read.packets.len(), summary.inside), (1, 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any input from unknown sources: what crossed the socket is in the file, and the file is valid.
    #[test]
    fn hostile_packets_spoil_nothing(
        datagrams in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), 0u8..8, Just(0xd1), Just(64)], 0..400), 1..20),
    ) {
        for transport in TRANSPORTS {
            let (read, summary) = captured_with((transport.dissector)(), |tap| {
                let calls = ends("192.0.2.1:1", "192.0.2.2:2");
                tap.opened(Direction::Received, Instant::ZERO, calls);
                for bytes in &datagrams {
                    tap.datagram(Direction::Received, Instant::ZERO, calls, bytes);
                    tap.stream(Direction::Received, Instant::ZERO, bytes);
                }
            });
            let wire = on(&read, 0).into_iter().filter(|packet| packet.protocol == 17);
            prop_assert!(wire.map(|packet| &packet.payload).eq(&datagrams));
            prop_assert_eq!(read.packets.len() as u64, summary.packets);
        }
    }
}
