//! A peer by hand, which does what Linux 6.1 was seen to do.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, Role, SendError, Tag, handle_due};
use antiphon_proto::dccp::wire::{DccpOption, Header, Kind, OptionWriter, Packet, emit};
use antiphon_proto::dccp::{Checksum, Seq48};

use crate::common::ends::say;
use crate::world::{datagram, endpoint};

/// The next packet of `endpoint`.
fn next(endpoint: &mut dyn Endpoint, now: Instant) -> Option<Vec<u8>> {
    let mut buf = [0; 1452];
    handle_due(endpoint, now);
    endpoint.poll_transmit(now, &mut buf).map(|sent| buf[..sent.len].to_vec())
}

/// The stamp that a packet echoes, and how long it was kept, in 10 µs.
fn echo(bytes: &[u8]) -> Option<(u32, u32)> {
    let packet = Packet::parse(bytes, Checksum::Udp).expect("a packet");
    packet.options().find_map(|option| match option.read() {
        DccpOption::TimestampEcho { stamp, elapsed } => Some((stamp, elapsed)),
        _ => None,
    })
}

/// A server knows its round trip from the echo in the first packet that reaches it. One that knows none begins with a
/// packet a second (RFC 5348 §4.2), and Linux holds to that whatever it learns in this second.
#[test]
fn packets_echo_the_time_stamp_until_the_server_is_heard() {
    let mut now = Instant::from_millis(1);
    let mut client = endpoint("ccid=3", Role::Caller, 1);
    let request = next(&mut *client, now).expect("a Request");
    let Header { source, destination, seq, .. } =
        Packet::parse(&request, Checksum::Udp).expect("a packet").header;
    let mut options = OptionWriter::default();
    // A Timestamp (RFC 4340 §13.1).
    options.put(41, &[&77u32.to_be_bytes()]);
    let answer = |kind, number| Header::new((destination, source), kind, Seq48::new(number));
    let response = answer(Kind::Response { ack: seq, service: u32::from_be_bytes(*b"RTPA") }, 500);
    let mut buf = [0; 1452];
    let len = emit(&response, &options, &[], Checksum::Udp, &mut buf).expect("room");
    client.handle_input(now, datagram(&mut buf[..len], now));

    let mut echoes = Vec::new();
    let mut last = seq;
    for _ in 0..3 {
        let ack = next(&mut *client, now).expect("an Ack, again and again");
        last = Packet::parse(&ack, Checksum::Udp).expect("a packet").header.seq;
        echoes.push(echo(&ack).expect("an echo"));
        now = client.poll_timeout().expect("a repetition").max(now + Duration::from_millis(1));
    }
    assert!(echoes.iter().all(|(stamp, _)| *stamp == 77), "{echoes:?}");
    assert!(echoes[0].1 == 0 && echoes[1].1 >= 20_000 && echoes[2].1 > echoes[1].1, "10 µs each: {echoes:?}");

    // Once the server has been heard, this ends.
    let heard = answer(Kind::DataAck { ack: last }, 501);
    let len = emit(&heard, &OptionWriter::default(), &[7; 200], Checksum::Udp, &mut buf).expect("room");
    client.handle_input(now, datagram(&mut buf[..len], now));
    say(&mut *client, now, &[7; 200]);
    let mut later = 0;
    for _ in 0..20 {
        now += Duration::from_millis(50);
        while let Some(packet) = next(&mut *client, now) {
            assert_eq!(echo(&packet), None);
            later += 1;
        }
    }
    assert!(later > 0);
}

/// `dccp_sendmsg` fails as soon as `sysctl_dccp_tx_qlen` packets wait, five by default (`qpolicy_simple_full` of
/// `net/dccp/qpolicy.c` in Linux 3.2 and 3.4), and waits for nothing; what waits already stays.
#[test]
fn a_queue_of_five_refuses_the_sixth_message() {
    let now = Instant::from_millis(1);
    for (query, room) in [("queue=5", 5), ("queue=1", 1), ("", 1024)] {
        let mut client = endpoint(query, Role::Caller, 1);
        let mut send = || client.send(now, Message::new(Tag::NONE, &[7; 100], None));
        let taken = (0..2000).take_while(|_| send().is_ok()).count();
        assert_eq!(taken, room, "{query}");
        assert_eq!(send(), Err(SendError::Blocked { queued: room }), "{query}");
    }
}
