//! Peers that restart, call at the same time, repeat packets, accept no data, or violate the protocol.

use std::time::Duration;

use antiphon_core::{CloseReason, Endpoint, Event, Instant, Message, Outcome, PathId, Role, Tag, Verdict};

use crate::common::ends::{events, fetched, has_ended, packets, pass, reply, say, validate};
use crate::common::hear;
use crate::hostile::{NOW, carries_a_message, connected, cookie_echo, packet_with, repaired, validator};
use crate::world::endpoint;

/// The packet with other ports.
fn between(packet: &[u8], source: u16, destination: u16) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[..2].copy_from_slice(&source.to_be_bytes());
    packet[2..4].copy_from_slice(&destination.to_be_bytes());
    repaired(packet)
}

fn source(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[0], packet[1]])
}

/// Hands all packets of one end to the other, which knows that end by port `from` and has port `to`.
fn pass_between(one: &mut dyn Endpoint, other: &mut dyn Endpoint, from: u16, to: u16) {
    packets(one, NOW).iter().for_each(|packet| hear(other, NOW, &between(packet, from, to)));
}

/// Exchanges all packets of two ends with these ports, each of which called port 5004.
fn converse([one, other]: [&mut dyn Endpoint; 2], own: [u16; 2], rounds: usize) {
    for _ in 0..rounds {
        pass_between(one, other, 5004, own[1]);
        pass_between(other, one, 5004, own[0]);
    }
}

#[test]
fn a_restarted_peer_is_accepted_and_outcomes_are_reported() {
    let (mut old, mut listener) = connected();
    let port = source(&packet_with(&mut *old, b"x"));
    say(&mut *listener, NOW, b"never acknowledged");
    packets(&mut *listener, NOW);
    events(&mut *listener);

    let mut new = endpoint("", Role::Caller, 30);
    let init = packets(&mut *new, NOW).remove(0);
    let new_port = source(&init);
    hear(&mut *listener, NOW, &between(&init, port, 5004));
    assert_eq!(events(&mut *listener), [], "an INIT changes nothing");
    pass_between(&mut *listener, &mut *new, 5004, new_port);
    pass_between(&mut *new, &mut *listener, port, 5004);
    let told = events(&mut *listener);
    assert!(matches!(told[0], Event::Outcome { outcome: Outcome::Aborted, .. }), "{told:?}");
    // Its tag is a new one.
    assert!(
        matches!(told[1..], [Event::Connected, Event::IdRetired(old), Event::IdAdded(new)] if old != new),
        "{told:?}"
    );
    // The new association carries messages both ways; the old one's tag is invalid.
    pass_between(&mut *listener, &mut *new, 5004, new_port);
    say(&mut *new, NOW, b"new!");
    pass_between(&mut *new, &mut *listener, port, 5004);
    assert_eq!(fetched(&mut *listener), [b"new!"]);
    let before = listener.stats().counters.malformed;
    say(&mut *old, NOW, b"old");
    pass(&mut *old, &mut *listener, NOW);
    assert!(listener.stats().counters.malformed > before && fetched(&mut *listener).is_empty());
}

#[test]
fn two_that_call_each_other_at_once_get_one_association() {
    let (mut one, mut other) = (endpoint("", Role::Caller, 40), endpoint("", Role::Caller, 41));
    let inits = [packets(&mut *one, NOW).remove(0), packets(&mut *other, NOW).remove(0)];
    let own = [source(&inits[0]), source(&inits[1])];
    // Each called port 5004, and receives from the other's 5004.
    hear(&mut *other, NOW, &between(&inits[0], 5004, own[1]));
    hear(&mut *one, NOW, &between(&inits[1], 5004, own[0]));
    converse([&mut *one, &mut *other], own, 4);
    for end in [&mut one, &mut other] {
        let told = events(&mut **end);
        let (ids, told): (Vec<Event>, Vec<Event>) =
            told.into_iter().partition(|event| matches!(event, Event::IdAdded(_)));
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert!(!told.is_empty() && told.iter().all(|event| *event == Event::Connected), "{told:?}");
        say(&mut **end, NOW, b"both");
    }
    converse([&mut *one, &mut *other], own, 2);
    for end in [&mut one, &mut other] {
        assert_eq!(fetched(&mut **end), [b"both"]);
        assert_eq!(end.stats().counters.malformed, 0);
    }
}

#[test]
fn repeated_inits_change_nothing() {
    let (mut caller, mut listener) = (endpoint("", Role::Caller, 20), endpoint("", Role::Listener, 21));
    let mut said: [Vec<Vec<u8>>; 2] = Default::default();
    for _ in 0..3 {
        for packet in packets(&mut *caller, NOW) {
            hear(&mut *listener, NOW, &packet);
            said[0].push(packet);
        }
        for packet in packets(&mut *listener, NOW) {
            hear(&mut *caller, NOW, &packet);
            said[1].push(packet);
        }
    }
    events(&mut *caller);
    events(&mut *listener);
    for _ in 0..3 {
        // INIT and COOKIE ECHO; INIT ACK and COOKIE ACK; also in reverse order.
        said.iter_mut().for_each(|said| said.reverse());
        said[0].iter().for_each(|packet| hear(&mut *listener, NOW, packet));
        said[1].iter().for_each(|packet| hear(&mut *caller, NOW, packet));
        assert_eq!((events(&mut *caller), events(&mut *listener)), (vec![], vec![]));
        // The cookie is acknowledged again, the INIT answered with another cookie.
        let kinds: Vec<u8> = packets(&mut *listener, NOW).iter().map(|packet| packet[12]).collect();
        assert_eq!(kinds, [2, 11]);
        assert!(carries_a_message(&mut *caller, &mut *listener));
    }
}

#[test]
fn a_stale_cookie_is_replaced_by_a_new_one() {
    let mut validator = validator(1);
    let (mut caller, echo) = cookie_echo(&mut *validator, PathId(0));
    let late = NOW + Duration::from_secs(61);
    hear(&mut *caller, late, &reply(&mut *validator, late, PathId(0), &echo));
    let init = packets(&mut *caller, late).remove(0);
    assert_eq!(init[12], 1, "INIT");
    let preservative = init.windows(4).any(|bytes| bytes == [0, 9, 0, 8]);
    assert!(preservative, "with the wish for a longer life");
    hear(&mut *caller, late, &reply(&mut *validator, late, PathId(0), &init));
    let echo = packets(&mut *caller, late).remove(0);
    assert_eq!(validate(&mut *validator, late, PathId(0), &echo).0, Verdict::Accept);
}

#[test]
fn a_peer_that_fetches_nothing_is_not_overrun() {
    let query = "reliability=full&order=ordered";
    let (mut caller, mut listener) = (endpoint(query, Role::Caller, 20), endpoint(query, Role::Listener, 21));
    let (mut now, mut sent) = (NOW, 0u32);
    let mut step = |now: &mut Instant, send: bool, fetch: bool| {
        *now += Duration::from_millis(5);
        let mut message = vec![0; 3000];
        message[..4].copy_from_slice(&sent.to_be_bytes());
        if send && caller.send(*now, Message::new(Tag::NONE, &message, None)).is_ok() {
            sent += 1;
        }
        for side in [&mut caller, &mut listener] {
            side.handle_timeout(*now);
            events(&mut **side);
        }
        pass(&mut *caller, &mut *listener, *now);
        let came = if fetch { fetched(&mut *listener) } else { Vec::new() };
        pass(&mut *listener, &mut *caller, *now);
        let number = |bytes: Vec<u8>| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        (sent, came.into_iter().map(number).collect::<Vec<u32>>())
    };
    let mut before = 0;
    for _ in 0..4000 {
        before = step(&mut now, true, false).0;
    }
    // 1 MiB here, 1 MiB there, and the bytes in flight.
    assert!((600..800).contains(&before), "{before} messages of 3000 bytes are accepted");
    let mut came = Vec::new();
    for n in 0..2000 {
        came.extend(step(&mut now, n < 1000, true).1);
    }
    let sent = step(&mut now, false, true).0;
    assert!(sent > before + 800, "and it goes on: {sent}");
    assert_eq!(came, (0..sent).collect::<Vec<_>>(), "in order, none lost");
    assert!(!has_ended(&mut *caller));
}

/// A chunk in a packet of the caller.
fn forged(like: &[u8], kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut packet = like[..12].to_vec();
    packet.extend_from_slice(&[kind, flags]);
    packet.extend_from_slice(&(4 + value.len() as u16).to_be_bytes());
    packet.extend_from_slice(value);
    packet.resize(packet.len().next_multiple_of(4), 0);
    repaired(packet)
}

#[test]
fn a_peer_that_breaks_the_rules_is_aborted() {
    // Name, chunk type, flags, value after the first TSN, cause.
    let tsn_ahead = [0xff, 0xff, 0xff, 0xff];
    let cases: [(&str, u8, u8, &[u8], u8); 4] = [
        ("DATA without data", 0, 3, &[0; 8], 9),
        ("I-DATA that was not agreed on", 64, 3, &[0; 13], 13),
        ("I-FORWARD TSN that was not agreed on", 194, 0, &[], 13),
        ("an acknowledgement of what was never sent", 3, 0, &[0, 0, 5, 220, 0, 0, 0, 0], 13),
    ];
    for (what, kind, flags, rest, cause) in cases {
        let (mut caller, mut listener) = connected();
        let like = packet_with(&mut *caller, b"like");
        let data = packet_with(&mut *listener, b"its fate is told");
        let tsn: [u8; 4] = match kind {
            // Half the number space less one, beyond what was sent.
            3 => {
                let at = data.windows(4).position(|bytes| bytes == [0, 7, 0, 32]).unwrap() + 4;
                let sent = u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
                sent.wrapping_add(u32::from_be_bytes(tsn_ahead) / 4).to_be_bytes()
            }
            _ => like[16..20].try_into().unwrap(),
        };
        hear(&mut *listener, NOW, &forged(&like, kind, flags, &[&tsn[..], rest].concat()));
        let answer = packets(&mut *listener, NOW).pop().unwrap();
        assert_eq!((answer[12], &answer[16..18]), (6, &[0, cause][..]), "{what}: ABORT with its cause");
        let told = events(&mut *listener);
        assert!(
            matches!(
                told[..],
                [
                    ..,
                    Event::Outcome { outcome: Outcome::Aborted, .. },
                    Event::IdRetired(_),
                    Event::Closed(CloseReason::Protocol)
                ]
            ),
            "{what}: {told:?}"
        );
        hear(&mut *caller, NOW, &answer);
        assert_eq!(events(&mut *caller).pop(), Some(Event::Closed(CloseReason::Peer)), "{what}");
    }
}

#[test]
fn a_message_without_end_does_not_fill_memory_for_ever() {
    let (mut caller, mut listener) = connected();
    let like = packet_with(&mut *caller, b"like");
    let first = u32::from_be_bytes(like[16..20].try_into().unwrap());
    let mut ended = 0;
    for n in 0..10_000u32 {
        let mut value = first.wrapping_add(n).to_be_bytes().to_vec();
        value.extend_from_slice(&[0; 1400]);
        // The first begins a message without an end.
        hear(&mut *listener, NOW, &forged(&like, 0, if n == 0 { 2 } else { 0 }, &value));
        packets(&mut *listener, NOW);
        if has_ended(&mut *listener) {
            ended = n;
            break;
        }
    }
    assert!((1..1000).contains(&ended), "the association ends before a window is full twice: {ended}");
}

#[test]
fn messages_that_fit_a_packet_are_never_fragmented() {
    let (mut caller, mut listener) = connected();
    // 1452 bytes less common and DATA headers are 1424: a first window has no room for two such messages whole.
    for len in [1424, 1000, 1423, 700, 1424, 1424, 1424, 1424].iter().cycle().take(80) {
        caller.send(NOW, Message::new(Tag::NONE, &vec![7; *len], None)).unwrap();
    }
    let (mut rounds, mut chunks) = (0, 0);
    while chunks < 80 {
        rounds += 1;
        assert!(rounds < 40, "{chunks} chunks");
        for packet in packets(&mut *caller, NOW) {
            let mut at = 12;
            while at < packet.len() {
                let len = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
                if packet[at] == 0 {
                    assert_eq!(packet[at + 1] & 3, 3, "beginning and end in one chunk of {len} bytes");
                    chunks += 1;
                }
                at += len.next_multiple_of(4);
            }
            hear(&mut *listener, NOW, &packet);
        }
        pass(&mut *listener, &mut *caller, NOW);
        fetched(&mut *listener);
    }
    assert!(rounds > 5, "the window was what limited it: {rounds} rounds");
    // A larger one is cut into full packets.
    caller.send(NOW, Message::new(Tag::NONE, &vec![7; 10 * 1424], None)).unwrap();
    let sizes: Vec<usize> = packets(&mut *caller, NOW).iter().map(Vec::len).collect();
    assert!(sizes.len() > 3 && sizes.iter().all(|size| *size == 1452), "{sizes:?}");
}
