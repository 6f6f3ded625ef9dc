//! What waits when an association begins leaves with the COOKIE ECHO (RFC 9260 §5.1, C).

use antiphon_core::{Endpoint, Instant, Message, PathId, Role, Tag, handle_due};
use antiphon_testkit::datagram;

use crate::world::endpoint;

/// Chunk types of a packet (RFC 9260 §3).
fn chunks(packet: &[u8]) -> Vec<u8> {
    let (mut types, mut rest) = (Vec::new(), &packet[12..]);
    while let [kind, _, high, low, ..] = *rest {
        types.push(kind);
        let len = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
        rest = rest.get(len..).unwrap_or_default();
    }
    types
}

fn packets(from: &mut dyn Endpoint, now: Instant) -> Vec<Vec<u8>> {
    handle_due(from, now);
    let mut buf = [0; 1452];
    std::iter::from_fn(|| from.poll_transmit(now, &mut buf).map(|sent| buf[..sent.len].to_vec())).collect()
}

fn deliver(mut packets: Vec<Vec<u8>>, to: &mut dyn Endpoint, now: Instant) {
    for packet in &mut packets {
        to.handle_input(now, datagram(packet, PathId::default(), now));
    }
}

const COOKIE_ECHO: u8 = 10;
const DATA: u8 = 0;

#[test]
fn what_waits_leaves_with_the_cookie_and_comes_once_whether_that_is_lost_or_not() {
    for lost in [false, true] {
        let mut caller = endpoint("style=many", Role::Caller, 1);
        let mut listener = endpoint("style=many", Role::Listener, 2);
        let (mut now, mut got) = (Instant::from_millis(1), Vec::new());
        for n in 0..3_u8 {
            caller.send(now, Message::new(Tag(n.into()), &[n; 100], None)).expect("room");
        }
        let init = packets(&mut *caller, now);
        deliver(init, &mut *listener, now);
        let ack = packets(&mut *listener, now);
        deliver(ack, &mut *caller, now);
        let echo = packets(&mut *caller, now);
        assert_eq!(chunks(&echo[0]), [COOKIE_ECHO, DATA, DATA, DATA]);
        if !lost {
            deliver(echo, &mut *listener, now);
        }
        for _ in 0..400 {
            let (up, down) = (packets(&mut *caller, now), packets(&mut *listener, now));
            deliver(up, &mut *listener, now);
            deliver(down, &mut *caller, now);
            let mut buf = [0; 65_535];
            while let Some(received) = listener.poll_message(&mut buf) {
                got.push((buf[0], received.received_at));
            }
            now += std::time::Duration::from_millis(5);
        }
        let mut numbers: Vec<u8> = got.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2], "lost: {lost}");
        assert!(lost || got.iter().all(|(_, at)| *at == Instant::from_millis(1)), "{got:?}");
        assert_eq!(caller.stats().counters.retransmitted > 0, lost);
    }
}
