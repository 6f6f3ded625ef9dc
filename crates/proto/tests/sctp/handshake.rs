//! What waits when an association begins leaves with the COOKIE ECHO (RFC 9260 §5.1, C).

use antiphon_core::{Endpoint, Instant, Role};

use crate::common::ends::{flush, say};
use crate::common::hear;
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

fn deliver(packets: &[Vec<u8>], to: &mut dyn Endpoint, now: Instant) {
    packets.iter().for_each(|packet| hear(to, now, packet));
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
            say(&mut *caller, now, &[n; 100]);
        }
        let init = flush(&mut *caller, now);
        deliver(&init, &mut *listener, now);
        let ack = flush(&mut *listener, now);
        deliver(&ack, &mut *caller, now);
        let echo = flush(&mut *caller, now);
        assert_eq!(chunks(&echo[0]), [COOKIE_ECHO, DATA, DATA, DATA]);
        if !lost {
            deliver(&echo, &mut *listener, now);
        }
        for _ in 0..400 {
            let (up, down) = (flush(&mut *caller, now), flush(&mut *listener, now));
            deliver(&up, &mut *listener, now);
            deliver(&down, &mut *caller, now);
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
