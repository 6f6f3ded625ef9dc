//! The validator of a listener: what a Request costs, which packets are accepted, and how others are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Endpoint, Event, Input, Instant, PathId, Rng, Role, Validator, Verdict};
use antiphon_proto::dccp::wire::{DccpOption, Header, Kind, OptionWriter, Packet, ResetCode, emit};
use antiphon_proto::dccp::{Checksum, RTP_AUDIO, Seq48};

use crate::common::ends::{events, fetched, flush, has_ended, say, validate};
use crate::common::{hear, stack};
use crate::hostile::{header, wish};
use crate::world::endpoint;

const NOW: Instant = Instant::from_millis(1_000);
const HERE: PathId = PathId(3);

fn validator(query: &str) -> Box<dyn Validator> {
    stack(&format!("dccp?{query}"), 1).validator(NOW)
}

fn refused(validator: &mut dyn Validator, now: Instant, path: PathId, bytes: &[u8]) -> ResetCode {
    let (verdict, answer) = validate(validator, now, path, bytes);
    assert!(matches!(verdict, Verdict::Reply { len } if len <= bytes.len()), "{verdict:?}");
    let (reset, question) = (header(&answer), header(bytes));
    let Kind::Reset { ack, code, .. } = reset.kind else { panic!("{reset:?}") };
    // RFC 4340 §8.3.1.
    assert_eq!(ack, question.seq);
    assert_eq!(reset.seq, question.kind.ack().map_or(Seq48::new(0), Seq48::next));
    code
}

fn cookie(packet: &[u8]) -> Option<usize> {
    let packet = Packet::parse(packet, Checksum::Udp).expect("a packet");
    packet.options().find_map(|option| match option.read() {
        DccpOption::InitCookie(cookie) => Some(cookie.as_ptr().addr() - packet.raw_options.as_ptr().addr()),
        _ => None,
    })
}

/// A caller, and its Ack to the validator's answer.
fn ack_with_cookie(validator: &mut dyn Validator, query: &str) -> (Box<dyn Endpoint>, Vec<u8>) {
    let mut caller = endpoint(query, Role::Caller, 20);
    let request = flush(&mut *caller, NOW).remove(0);
    let (verdict, response) = validate(validator, NOW, HERE, &request);
    assert!(matches!(verdict, Verdict::Reply { len } if len <= request.len()), "{verdict:?} {query}");
    assert!(cookie(&response).is_some(), "{query}: a cookie was sealed");
    hear(&mut *caller, NOW, &response);
    let ack = flush(&mut *caller, NOW).remove(0);
    assert!(cookie(&ack).is_some(), "and comes back");
    (caller, ack)
}

/// As another stack calls: without padding.
fn without_padding(mut request: Vec<u8>) -> Vec<u8> {
    let len = request.iter().rposition(|byte| *byte > 0).map_or(0, |last| (last + 1).next_multiple_of(4));
    request.truncate(len);
    request[4] = (len / 4) as u8;
    request
}

/// Both talk for a while, at 20 ms; how many of the messages sent each way in every round came.
fn talk(ends: [&mut dyn Endpoint; 2], from: Instant, rounds: u32) -> [usize; 2] {
    let [caller, listener] = ends;
    let mut came = [0; 2];
    for n in 0..rounds {
        let now = from + Duration::from_millis(20) * n;
        say(caller, now, &[1; 100]);
        say(listener, now, &[2; 100]);
        flush(caller, now).iter().for_each(|packet| hear(listener, now, packet));
        flush(listener, now).iter().for_each(|packet| hear(caller, now, packet));
        came[0] += fetched(listener).len();
        came[1] += fetched(caller).len();
        assert!(!has_ended(caller));
    }
    came
}

#[test]
fn every_request_of_ours_pays_for_a_cookie() {
    let queries = ["", "ccid=2", "ccid=3", "coverage=1", "ccid=2&coverage=15"];
    for near in queries {
        for far in queries {
            ack_with_cookie(&mut *validator(far), near);
        }
    }
}

#[test]
fn a_cookie_is_valid_once_for_its_address_for_a_minute() {
    let mut validator = validator("");
    let (_caller, ack) = ack_with_cookie(&mut *validator, "");
    let head = header(&ack);
    let (cookie_at, fixed) = (cookie(&ack).expect("one"), head.kind.header_len());
    let sealed = 25 + 19 + 16;
    for at in fixed + cookie_at..fixed + cookie_at + sealed {
        let mut forged = ack.clone();
        forged[at] ^= 0x10;
        assert_eq!(refused(&mut *validator, NOW, HERE, &forged), ResetCode::BAD_INIT_COOKIE, "byte {at}");
    }
    let changed = |at: usize, by: u8| {
        let mut changed = ack.clone();
        changed[at] ^= by;
        changed
    };
    let later = NOW + Duration::from_millis(60_001);
    for (what, now, path, packet, code) in [
        ("from elsewhere", NOW, PathId(4), ack.clone(), ResetCode::BAD_INIT_COOKIE),
        ("stale", later, HERE, ack.clone(), ResetCode::BAD_INIT_COOKIE),
        ("from another port", NOW, HERE, changed(1, 1), ResetCode::BAD_INIT_COOKIE),
        ("of another number", NOW, HERE, changed(11, 1), ResetCode::BAD_INIT_COOKIE),
        ("acknowledging another", NOW, HERE, changed(23, 1), ResetCode::BAD_INIT_COOKIE),
        ("to another port", NOW, HERE, changed(3, 1), ResetCode::NO_CONNECTION),
        ("a Close", NOW, HERE, changed(8, (3 ^ 6) << 1), ResetCode::NO_CONNECTION),
        // The option becomes an unknown one.
        ("without one", NOW, HERE, changed(fixed + cookie_at - 2, 64), ResetCode::NO_CONNECTION),
    ] {
        assert_eq!(refused(&mut *validator, now, path, &packet), code, "{what}");
    }
    assert_eq!(validate(&mut *validator, NOW, HERE, &changed(8, (3 ^ 7) << 1)).0, Verdict::Ignore, "a Reset");
    assert_eq!(validate(&mut *validator, NOW, HERE, &ack).0, Verdict::Accept);
    // The connection has come and gone; a copy was kept.
    assert_eq!(
        refused(&mut *validator, later - Duration::from_millis(2), HERE, &ack),
        ResetCode::NO_CONNECTION
    );
    assert_eq!(refused(&mut *validator, NOW, PathId(4), &ack), ResetCode::BAD_INIT_COOKIE);
}

#[test]
fn whom_there_was_no_room_for_comes_again_with_the_same() {
    let mut validator = validator("");
    let (_caller, ack) = ack_with_cookie(&mut *validator, "");
    let mut bare_caller = endpoint("ccid=3", Role::Caller, 21);
    let bare = without_padding(flush(&mut *bare_caller, NOW).remove(0));
    let (_, response) = validate(&mut *validator, NOW, PathId(4), &bare);
    hear(&mut *bare_caller, NOW, &response);
    let bare_ack = flush(&mut *bare_caller, NOW).remove(0);
    for (path, packet) in [(HERE, &ack), (PathId(4), &bare_ack)] {
        let mut first = None;
        for _ in 0..3 {
            let met = validate(&mut *validator, NOW, path, packet);
            assert!(matches!(met.0, Verdict::Accept | Verdict::AcceptWith { .. }), "{met:?}");
            assert_eq!(first.get_or_insert(met.clone()), &met);
            validator.release();
        }
        validate(&mut *validator, NOW, path, packet);
        assert_eq!(refused(&mut *validator, NOW, path, packet), ResetCode::NO_CONNECTION, "there was room");
        // Nothing was accepted just now.
        validator.release();
        assert_eq!(refused(&mut *validator, NOW, path, packet), ResetCode::NO_CONNECTION);
    }
}

#[test]
fn an_endpoint_behind_the_door_takes_in_whom_it_admitted() {
    for query in ["ccid=2", "ccid=3", "coverage=1"] {
        let mut validator = validator(query);
        let (mut caller, ack) = ack_with_cookie(&mut *validator, query);
        for (seed, taken) in [(2, false), (1, true)] {
            let mut listener = endpoint(query, Role::Listener, seed);
            hear(&mut *listener, NOW, &ack);
            let connected = events(&mut *listener);
            assert_eq!(
                connected.contains(&Event::Connected),
                taken,
                "{query}, seed {seed}: only of the same seed"
            );
            if taken {
                assert_eq!(talk([&mut *caller, &mut *listener], NOW, 50), [50, 50], "{query}");
                assert_eq!(listener.stats().counters.malformed, 0);
                assert_eq!(caller.stats().counters.malformed, 0);
            }
        }
    }
}

/// A handshake over a path of 30 ms back that loses the caller's packets of these numbers and these of the validator's answers,
/// and keeps others for a second and a half; it must end in a connection that carries everything.
fn through(query: &str, lost: &[usize], lost_back: &[usize], late_back: &[usize]) {
    let mut validator = validator(query);
    let mut caller = endpoint(query, Role::Caller, 20);
    let mut listener: Option<Box<dyn Endpoint>> = None;
    let (mut now, mut sent, mut back) = (NOW, 0, 0);
    let mut held: Vec<(Instant, Vec<u8>)> = Vec::new();
    let mut numbers = std::collections::BTreeSet::new();
    while !(listener.is_some() && held.is_empty()) {
        now += Duration::from_millis(10);
        assert!(now < NOW + Duration::from_secs(20), "{query} {lost:?} {lost_back:?}: it comes about");
        for packet in flush(&mut *caller, now) {
            sent += 1;
            if lost.contains(&sent) {
                continue;
            }
            let (verdict, answer) = match &mut listener {
                Some(listener) => {
                    hear(&mut **listener, now, &packet);
                    continue;
                }
                None => validate(&mut *validator, now, HERE, &packet),
            };
            if verdict == Verdict::Accept {
                let mut opened = endpoint(query, Role::Listener, 1);
                hear(&mut *opened, now, &packet);
                listener = Some(opened);
            } else if !answer.is_empty() {
                back += 1;
                assert!(numbers.insert(header(&answer).seq.value()), "a Response of its own");
                let delay = if late_back.contains(&back) { 1_500 } else { 30 };
                if !lost_back.contains(&back) {
                    held.push((now + Duration::from_millis(delay), answer));
                }
            }
        }
        if let Some(listener) = &mut listener {
            for packet in flush(&mut **listener, now) {
                assert!(numbers.insert(header(&packet).seq.value()), "a number is used once");
                held.push((now + Duration::from_millis(30), packet));
            }
        }
        held.sort_by_key(|(at, _)| *at);
        while held.first().is_some_and(|(at, _)| *at <= now) {
            let (_, packet) = held.remove(0);
            hear(&mut *caller, now, &packet);
        }
    }
    let mut listener = listener.expect("opened");
    assert_eq!(talk([&mut *caller, &mut *listener], now, 50), [50, 50], "{query} {lost:?} {lost_back:?}");
    // Numbers that were left out are no losses: the rate is not that of a path with a loss in a handful of packets.
    let rate = listener.stats().pacing_rate.map(|rate| rate.0);
    assert!(rate.is_none_or(|rate| rate > 80_000), "{query} {lost:?} {lost_back:?}: {rate:?} bit/s");
}

#[test]
fn lost_or_late_handshake_packets_are_repaired() {
    for query in ["ccid=2", "ccid=3"] {
        through(query, &[], &[], &[]);
        // The first Request, the first Response, the first Ack, the first three Acks.
        through(query, &[1], &[], &[]);
        through(query, &[], &[1], &[]);
        through(query, &[2], &[], &[]);
        through(query, &[2, 3, 4], &[], &[]);
        // The first Response is so late that the Request was repeated: two of them are on their way.
        through(query, &[], &[], &[1]);
        through(query, &[3], &[], &[1]);
        // The answer to the first Request is taken while that to the second is still to come.
        through(query, &[], &[], &[1, 2]);
    }
}

#[test]
fn a_caller_without_cookies_is_admitted() {
    for query in ["ccid=2", "ccid=3"] {
        let mut caller = endpoint(query, Role::Caller, 20);
        let request = without_padding(flush(&mut *caller, NOW).remove(0));
        let mut validator = validator(query);
        let (verdict, response) = validate(&mut *validator, NOW, HERE, &request);
        assert!(matches!(verdict, Verdict::Reply { len } if len <= request.len()), "{verdict:?}");
        assert_eq!(cookie(&response), None, "there is no room for one");
        hear(&mut *caller, NOW, &response);
        let ack = flush(&mut *caller, NOW).remove(0);
        assert_eq!(cookie(&ack), None);
        // Not from elsewhere, not with a guess, not late.
        let mut guess = ack.clone();
        guess[23] ^= 1;
        let late = NOW + Duration::from_millis(10_001);
        for (now, path, packet) in [(NOW, PathId(4), &ack), (NOW, HERE, &guess), (late, HERE, &ack)] {
            assert_eq!(refused(&mut *validator, now, path, packet), ResetCode::NO_CONNECTION);
        }
        let (verdict, completed) = validate(&mut *validator, NOW, HERE, &ack);
        assert!(matches!(verdict, Verdict::AcceptWith { .. }), "{verdict:?}");
        assert_eq!(refused(&mut *validator, NOW, HERE, &ack), ResetCode::NO_CONNECTION, "once");
        let mut listener = endpoint(query, Role::Listener, 1);
        listener.handle_input(NOW, Input::Accepted { path: PathId::default(), block: &completed });
        assert_eq!(talk([&mut *caller, &mut *listener], NOW, 50), [50, 50], "{query}");
        // And without a validator before it.
        let mut caller = endpoint(query, Role::Caller, 20);
        let mut alone = endpoint(query, Role::Listener, 1);
        hear(&mut *alone, NOW, &without_padding(flush(&mut *caller, NOW).remove(0)));
        let response = flush(&mut *alone, NOW).remove(0);
        hear(&mut *caller, NOW, &response);
        assert_eq!(talk([&mut *caller, &mut *alone], NOW, 50), [50, 50], "{query}");
    }
}

/// A Request from a forged address: bare, with this or that to be negotiated and echoed, padded like ours or not.
fn forged(rng: &mut Rng) -> Vec<u8> {
    let kind = Kind::Request { service: RTP_AUDIO };
    let (source, seq) = (1 + rng.below(60_000) as u16, Seq48::random(rng));
    let head = Header::new((source, 5004), kind, seq);
    let mut options = OptionWriter::default();
    for _ in 0..rng.below(6) {
        let (feature, value) = (rng.below(12) as u8, rng.next_u64().to_be_bytes());
        wish(&mut options, rng, 0.2, feature, &value, 6);
    }
    options.pad_to(rng.below(200) as usize);
    let mut buf = [0; 1452];
    let len = emit(&head, &options, &[], Checksum::Udp, &mut buf).expect("room");
    buf[..len].to_vec()
}

#[test]
fn callers_with_cookies_get_through_a_flood() {
    let (mut rng, mut validator) = (Rng::fork(5, "flood"), validator(""));
    // Bytes that came from each address, and went there.
    let mut account: BTreeMap<PathId, (usize, usize)> = BTreeMap::new();
    let mut caller = endpoint("", Role::Caller, 20);
    let (mut answered, mut admitted) = (0, false);
    for n in 0..100_000u32 {
        // 20 000 a second, from some 30 000 addresses.
        let now = NOW + Duration::from_micros(50) * n;
        let (path, packet) = (PathId(100 + rng.below(30_000)), forged(&mut rng));
        let (verdict, answer) = validate(&mut *validator, now, path, &packet);
        assert!(matches!(verdict, Verdict::Ignore | Verdict::Reply { .. }), "{verdict:?}");
        answered += u32::from(!answer.is_empty());
        let (came, went) = account.entry(path).or_default();
        (*came, *went) = (*came + packet.len(), *went + answer.len());
        assert!(went <= came, "{went} bytes went where {came} came from");
        if n % 5_000 == 4_999 && !admitted {
            for packet in flush(&mut *caller, now) {
                let (verdict, answer) = validate(&mut *validator, now, HERE, &packet);
                admitted |= verdict == Verdict::Accept;
                if !answer.is_empty() {
                    hear(&mut *caller, now, &answer);
                }
            }
        }
    }
    assert!(admitted, "in the midst of it");
    assert!(answered > 50_000, "{answered} of the flood had answers");
}
