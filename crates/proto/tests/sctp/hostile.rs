//! Attacks by unknown sources and broken peers.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, PathId, Rng, Role, Tag, Validator, Verdict};
use proptest::prelude::*;

use crate::common::ends::{exchange, fetched, has_ended, hear_on, packets, pass, reply, say, validate};
use crate::common::{hear, stack};
use crate::world::endpoint;

pub const NOW: Instant = Instant::from_millis(1000);

fn crc_32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

/// Corrects the checksum after a change.
pub fn repaired(mut packet: Vec<u8>) -> Vec<u8> {
    packet[8..12].fill(0);
    let crc = crc_32c(&packet);
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
    packet
}

pub fn validator(seed: u64) -> Box<dyn Validator> {
    stack("sctp", seed).validator(NOW)
}

/// A caller, its INIT and the COOKIE ECHO with which it returns the validator's cookie.
pub fn cookie_echo(validator: &mut dyn Validator, path: PathId) -> (Box<dyn Endpoint>, Vec<u8>) {
    let mut caller = endpoint("", Role::Caller, 20);
    let init = packets(&mut *caller, NOW).remove(0);
    let answer = reply(validator, NOW, path, &init);
    assert!(answer.len() <= init.len(), "{} bytes of answer to {} of question", answer.len(), init.len());
    hear(&mut *caller, NOW, &answer);
    // After an INIT that the wait caused it to repeat.
    let echo = packets(&mut *caller, NOW).pop().unwrap();
    (caller, echo)
}

/// Both ends of an established association.
pub fn connected() -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
    let (mut caller, mut listener) = (endpoint("", Role::Caller, 20), endpoint("", Role::Listener, 21));
    connect(&mut *caller, &mut *listener);
    (caller, listener)
}

fn connect(caller: &mut dyn Endpoint, listener: &mut dyn Endpoint) {
    (0..3).for_each(|_| exchange(caller, listener, NOW));
}

pub fn carries_a_message(caller: &mut dyn Endpoint, listener: &mut dyn Endpoint) -> bool {
    say(caller, NOW, b"hello");
    pass(caller, listener, NOW);
    fetched(listener).iter().any(|message| message.len() == 5)
}

/// The first packet after a message.
pub fn packet_with(endpoint: &mut dyn Endpoint, message: &[u8]) -> Vec<u8> {
    say(endpoint, NOW, message);
    packets(endpoint, NOW).remove(0)
}

#[test]
fn a_flood_of_inits_leaves_no_state_and_amplifies_nothing() {
    let mut validator = validator(1);
    let init = packets(&mut *endpoint("", Role::Caller, 20), NOW).remove(0);
    // As other stacks write it: without the padding.
    let mut bare = init.clone();
    bare.truncate(12 + 20 + 4 + 8);
    bare[14..16].copy_from_slice(&32u16.to_be_bytes());
    let bare = repaired(bare);
    let (mut asked, mut answered, mut bare_answers) = (0, 0, 0);
    let mut meet = |now, n, init: &[u8]| validate(&mut *validator, now, PathId(n), init);
    for n in 0..10_000u32 {
        if let (Verdict::Reply { len }, _) = meet(NOW, n, &init) {
            (asked, answered) = (asked + init.len(), answered + len);
        }
        bare_answers += u32::from(meet(NOW, n, &bare).0 != Verdict::Ignore);
    }
    assert!(answered > 0 && answered <= asked, "{answered} bytes sent for {asked}");
    assert_eq!(bare_answers, 100, "short calls are answered to a bound");
    let later = NOW + Duration::from_millis(100);
    let again = (0..1000).filter(|n| meet(later, *n, &bare).0 != Verdict::Ignore);
    assert_eq!(again.count(), 10, "a hundred per second");
}

#[test]
fn many_unknown_parameters_are_answered_in_one_packet() {
    let init = packets(&mut *endpoint("", Role::Caller, 20), NOW).remove(0);
    let mut long = init[..32].to_vec();
    // A parameter to be skipped and reported (0xc000), 1500 times.
    (0..1500).for_each(|_| long.extend_from_slice(&[0xc0, 0x77, 0, 4]));
    let len = long.len() as u16 - 12;
    long[14..16].copy_from_slice(&len.to_be_bytes());
    let long = repaired(long);
    let len = reply(&mut *validator(1), NOW, PathId(1), &long).len();
    assert!((1400..=1452).contains(&len), "as much as there is room for: {len}");
    let mut listener = endpoint("", Role::Listener, 21);
    hear(&mut *listener, NOW, &long);
    assert_eq!(packets(&mut *listener, NOW).iter().map(Vec::len).collect::<Vec<_>>(), [len]);
}

/// The address parameters of the INIT or INIT ACK in a packet.
fn listed(packet: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut addresses) = (12 + 20, Vec::new());
    while at + 4 <= packet.len() {
        let len = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        if matches!(packet[at + 1], 5 | 6) && packet[at] == 0 {
            addresses.push(packet[at + 4..at + len].to_vec());
        }
        at += len.next_multiple_of(4);
    }
    addresses
}

#[test]
fn listed_addresses_do_not_amplify_short_inits() {
    let ours = "addresses=192.0.2.1,2001:db8::1";
    let mut v6 = [0; 16];
    (v6[0], v6[1], v6[2], v6[3], v6[15]) = (0x20, 0x01, 0x0d, 0xb8, 1);
    let expected = [vec![192, 0, 2, 1], v6.to_vec()];
    let init = |query: &str| packets(&mut *endpoint(query, Role::Caller, 20), NOW).remove(0);
    assert_eq!(listed(&init(ours)), expected);
    assert_eq!(listed(&init("")), [[0; 0]; 0], "nothing that was not named");
    let mut validator = stack(&format!("sctp?{ours}"), 1).validator(NOW);
    assert_eq!(listed(&reply(&mut *validator, NOW, PathId(1), &init(""))), expected);
    // The answer is longer than this INIT, so it counts against the limit.
    let mut answers = |n, init: &[u8]| validate(&mut *validator, NOW, PathId(n), init).0 != Verdict::Ignore;
    assert_eq!((0..1000).filter(|n| answers(*n, &init(""))).count(), 99);
    // An INIT with a list of the same length is always answered.
    let long = init("addresses=192.0.2.1,192.0.2.2,192.0.2.3,2001:db8::1");
    assert!((0..1000).all(|n| answers(n, &long)));
}

#[test]
fn an_abort_from_an_unproved_address_ends_no_association() {
    let (mut caller, mut listener) = connected();
    let theirs = packet_with(&mut *caller, b"hello");
    // An ABORT for an out-of-the-blue packet: it reflects that packet's tag.
    let mut abort = packet_with(&mut *listener, b"other")[..12].to_vec();
    let (source, destination) = ([theirs[0], theirs[1]], [theirs[2], theirs[3]]);
    abort[..2].copy_from_slice(&source);
    abort[2..4].copy_from_slice(&destination);
    abort.extend_from_slice(&[6, 1, 0, 4]);
    let abort = repaired(abort);
    hear_on(&mut *listener, NOW, PathId(7), &abort);
    assert!(carries_a_message(&mut *caller, &mut *listener), "from elsewhere it says nothing");
    assert_eq!(listener.stats().counters.malformed, 0, "a peer that does not know us there may say so");
    hear(&mut *listener, NOW, &abort);
    assert!(has_ended(&mut *listener), "on the path that both know it is the end");
}

#[test]
fn a_cookie_is_valid_for_its_address_and_a_minute() {
    let mut validator = validator(1);
    let (_caller, echo) = cookie_echo(&mut *validator, PathId(3));
    let mut meet = |now, path, packet: &[u8]| validate(&mut *validator, now, path, packet);
    assert_eq!(meet(NOW, PathId(3), &echo).0, Verdict::Accept);
    assert_eq!(meet(NOW, PathId(4), &echo).0, Verdict::Ignore, "from elsewhere");
    for at in 16..16 + 64 {
        let mut forged = echo.clone();
        forged[at] ^= 0x10;
        assert_eq!(meet(NOW, PathId(3), &repaired(forged)).0, Verdict::Ignore, "byte {at}");
    }
    let error = reply(&mut *validator, NOW + Duration::from_millis(60_500), PathId(3), &echo);
    assert_eq!((error[12], &error[16..20]), (9, &[0, 3, 0, 8][..]), "ERROR, stale cookie");
    assert_eq!(u32::from_be_bytes(error[20..24].try_into().unwrap()), 500_000, "by so many microseconds");
    assert!(error.len() <= echo.len());
}

#[test]
fn an_endpoint_behind_the_door_takes_in_whom_it_admitted() {
    let mut validator = validator(1);
    let (mut caller, echo) = cookie_echo(&mut *validator, PathId(3));
    for (seed, taken) in [(1, true), (2, false)] {
        let mut listener = endpoint("", Role::Listener, seed);
        hear(&mut *listener, NOW, &echo);
        let answers = packets(&mut *listener, NOW);
        assert_eq!(answers.len(), usize::from(taken), "seed {seed}: only of the same seed");
        if taken {
            // The acknowledgement was lost, and the caller repeats its cookie.
            hear(&mut *listener, NOW, &echo);
            let again = packets(&mut *listener, NOW);
            assert_eq!(again, answers);
            hear(&mut *caller, NOW, &again[0]);
            assert!(carries_a_message(&mut *caller, &mut *listener));
        }
    }
}

#[test]
fn wrong_tags_and_blind_resets_are_counted_and_change_nothing() {
    let (mut caller, mut listener) = connected();
    let good = packet_with(&mut *caller, b"other");
    let before = listener.stats().counters.malformed;
    let mut tried = 0;
    // ABORT with and without the reflected tag, SHUTDOWN, SHUTDOWN ACK, SHUTDOWN COMPLETE, DATA, all with guessed tags.
    for (kind, flags) in [(6, 0), (6, 1), (7, 0), (8, 0), (14, 0), (14, 1), (0, 3)] {
        for tag in [0u32, 1, 0xdead_beef] {
            let mut packet = good[..12].to_vec();
            packet[4..8].copy_from_slice(&tag.to_be_bytes());
            let value = match kind {
                0 => 13,
                7 => 4,
                _ => 0,
            };
            packet.extend_from_slice(&[kind, flags, 0, 4 + value]);
            packet.resize(packet.len() + usize::from(value).next_multiple_of(4), 0);
            hear(&mut *listener, NOW, &repaired(packet));
            tried += 1;
        }
    }
    // Wrong ports or a wrong checksum.
    for at in [0, 2, 8] {
        let mut packet = good.clone();
        packet[at] ^= 1;
        let packet = if at == 8 { packet } else { repaired(packet) };
        hear(&mut *listener, NOW, &packet);
        tried += 1;
    }
    assert_eq!(listener.stats().counters.malformed - before, tried);
    assert!(carries_a_message(&mut *caller, &mut *listener));
}

#[test]
fn high_bits_of_unknown_chunks_decide_skip_stop_report() {
    let (mut caller, mut listener) = connected();
    for (kind, reported, goes_on) in
        [(0x3f, false, false), (0x7f, true, false), (0xbf, false, true), (0xff, true, true)]
    {
        let data = packet_with(&mut *caller, b"hello");
        let mut packet = data[..12].to_vec();
        packet.extend_from_slice(&[kind, 0, 0, 8, 1, 2, 3, 4]);
        packet.extend_from_slice(&data[12..]);
        hear(&mut *listener, NOW, &repaired(packet));
        assert_eq!(fetched(&mut *listener).len(), usize::from(goes_on), "{kind:#x}");
        let answers = packets(&mut *listener, NOW);
        // ERROR (9) with the cause "unrecognised chunk type" (6) and the chunk.
        let errors = answers.iter().filter(|p| p[12] == 9 && p[16..22] == [0, 6, 0, 12, kind, 0]).count();
        assert_eq!(errors, usize::from(reported), "{kind:#x}: {answers:?}");
        // Chunks not read are repeated, or the test's next message would wait for them.
        hear(&mut *listener, NOW, &data);
        fetched(&mut *listener);
        packets(&mut *listener, NOW);
    }
}

/// A FORWARD TSN for a stream that was never negotiated would make the receiver keep a number for each stream below it:
/// 256 KiB for the highest.
#[test]
fn skips_in_unknown_streams_are_reported_and_not_kept() {
    for (stream, reported) in [(0u16, false), (255, false), (256, true), (u16::MAX, true)] {
        let mut caller = endpoint("streams=256", Role::Caller, 20);
        let mut listener = endpoint("", Role::Listener, 21);
        connect(&mut *caller, &mut *listener);
        let data = packet_with(&mut *caller, b"hello");
        assert_eq!(data[12], 0, "DATA");
        let mut forward = data[..12].to_vec();
        forward.extend_from_slice(&[192, 0, 0, 16]);
        forward.extend_from_slice(&data[16..20]);
        // First a known one: those after it must still be reported.
        forward.extend_from_slice(&[0, 0, 0, 0]);
        forward.extend_from_slice(&stream.to_be_bytes());
        forward.extend_from_slice(&[0, 0]);
        hear(&mut *listener, NOW, &repaired(forward));
        let [high, low] = stream.to_be_bytes();
        let told = [9, 0, 0, 12, 0, 1, 0, 8, high, low, 0, 0];
        let answers = packets(&mut *listener, NOW);
        let errors = answers.iter().filter(|packet| packet[12..].starts_with(&told)).count();
        assert_eq!(errors, usize::from(reported), "{stream}: {answers:?}");
        // The sent message is given up, and the next continues.
        assert!(carries_a_message(&mut *caller, &mut *listener), "{stream}");
    }
}

#[test]
fn a_packet_out_of_the_blue_is_answered_by_an_abort_no_larger() {
    let mut validator = validator(1);
    let (mut caller, _listener) = connected();
    let data = packet_with(&mut *caller, b"hello");
    let answer = reply(&mut *validator, NOW, PathId(1), &data);
    assert_eq!((answer.len(), answer[12], answer[13]), (16, 6, 1));
    hear(&mut *caller, NOW, &answer);
    assert!(has_ended(&mut *caller), "the caller learns that its association is unknown");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changed, cut and foreign packets with correct checksums, for a validator and for both ends of an association.
    #[test]
    fn nothing_that_arrives_makes_it_panic(seed in any::<u64>()) {
        let (mut rng, mut validator) = (Rng::new(seed), validator(1));
        let (mut caller, mut listener) = connected();
        let mut seen = vec![packets(&mut *endpoint("", Role::Caller, 20), NOW).remove(0)];
        seen.push(cookie_echo(&mut *validator, PathId(1)).1);
        let mut now = NOW;
        for n in 0..60u32 {
            now += Duration::from_millis(u64::from(rng.below(30)));
            let _full_or_closed = caller.send(now, Message::new(Tag::NONE, &n.to_be_bytes(), None));
            for side in [&mut caller, &mut listener] {
                side.handle_timeout(now);
                seen.extend(packets(&mut **side, now));
            }
            let mut packet = seen[rng.below(seen.len() as u32) as usize].clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(packet.len() as u32) as usize;
                packet[at] = rng.next_u32() as u8;
            }
            if rng.chance(0.3) {
                packet.truncate(16 + rng.below(packet.len() as u32 - 15) as usize);
            }
            let packet = if rng.chance(0.9) { repaired(packet) } else { packet };
            if let Verdict::Reply { len } = validate(&mut *validator, now, PathId(rng.below(2)), &packet).0 {
                prop_assert!(len <= packet.len() || packet[12] == 1, "{} for {}", len, packet.len());
            }
            let side = if rng.chance(0.5) { &mut caller } else { &mut listener };
            hear(&mut **side, now, &packet);
            while side.poll_event().is_some() {}
        }
    }
}
