//! The listener's door: what a Request costs, who is let in, and with what answers others are sent away.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Doorkeeper, Endpoint, Event, Frame, Instant, Meeting, PathId, Rng};
use antiphon_proto::Role;
use antiphon_proto::dccp::wire::{DccpOption, Header, Kind, OptionWriter, Packet, ResetCode, emit};
use antiphon_proto::dccp::{Checksum, RTP_AUDIO, Seq48};

use crate::hostile::{flush, header};
use crate::world::{datagram, endpoint};

const NOW: Instant = Instant::from_millis(1_000);
const HERE: PathId = PathId(3);

fn door(query: &str) -> Box<dyn Doorkeeper> {
    endpoint(query, Role::Listener, 1).doorkeeper(NOW).expect("DCCP has one")
}

/// What the door makes of a datagram: the answer, or what is handed on. No answer is longer than its question, except to
/// one who has asked before.
fn meet(door: &mut dyn Doorkeeper, now: Instant, path: PathId, bytes: &[u8]) -> (Meeting, Vec<u8>) {
    let mut answer = vec![0; 2048];
    let meeting = door.meet(now, path, bytes, &mut answer);
    let len = match meeting {
        Meeting::Answered { len } | Meeting::Vouched { len } => len,
        Meeting::Ignored | Meeting::Admitted => 0,
    };
    answer.truncate(len);
    (meeting, answer)
}

fn refused(door: &mut dyn Doorkeeper, now: Instant, path: PathId, bytes: &[u8]) -> ResetCode {
    let (meeting, answer) = meet(door, now, path, bytes);
    assert!(matches!(meeting, Meeting::Answered { len } if len <= bytes.len()), "{meeting:?}");
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

/// A caller, and its Ack to the door's answer.
fn knock(door: &mut dyn Doorkeeper, query: &str) -> (Box<dyn Endpoint>, Vec<u8>) {
    let mut caller = endpoint(query, Role::Caller, 20);
    let request = flush(&mut *caller, NOW).remove(0);
    let (meeting, response) = meet(door, NOW, HERE, &request);
    assert!(matches!(meeting, Meeting::Answered { len } if len <= request.len()), "{meeting:?} {query}");
    assert!(cookie(&response).is_some(), "{query}: a cookie was baked");
    caller.handle_input(NOW, datagram(&response, NOW));
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

/// Both talk for a while, at 20 ms; how many of the frames sent each way in every round came.
fn talk(ends: [&mut dyn Endpoint; 2], from: Instant, rounds: u32) -> [usize; 2] {
    let [caller, station] = ends;
    let (mut came, mut buf) = ([0; 2], vec![0; 65_536]);
    for n in 0..rounds {
        let now = from + Duration::from_millis(20) * n;
        caller.send(now, Frame::new(&[1; 100], None)).expect("room");
        station.send(now, Frame::new(&[2; 100], None)).expect("room");
        for packet in flush(caller, now) {
            station.handle_input(now, datagram(&packet, now));
        }
        for packet in flush(station, now) {
            caller.handle_input(now, datagram(&packet, now));
        }
        came[0] += std::iter::from_fn(|| station.poll_frame(&mut buf)).count();
        came[1] += std::iter::from_fn(|| caller.poll_frame(&mut buf)).count();
        assert!(!std::iter::from_fn(|| caller.poll_event()).any(|event| matches!(event, Event::Closed(_))));
    }
    came
}

#[test]
fn every_request_of_ours_pays_for_a_cookie() {
    let queries = ["", "ccid=2", "ccid=3", "coverage=1", "ccid=2&coverage=15"];
    for near in queries {
        for far in queries {
            knock(&mut *door(far), near);
        }
    }
}

#[test]
fn a_cookie_lets_in_once_whom_it_was_sent_to_for_a_minute() {
    let mut door = door("");
    let (_caller, ack) = knock(&mut *door, "");
    let head = header(&ack);
    let (cookie_at, fixed) = (cookie(&ack).expect("one"), head.kind.header_len());
    let sealed = 25 + 19 + 16;
    for at in fixed + cookie_at..fixed + cookie_at + sealed {
        let mut forged = ack.clone();
        forged[at] ^= 0x10;
        assert_eq!(refused(&mut *door, NOW, HERE, &forged), ResetCode::BAD_INIT_COOKIE, "byte {at}");
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
        // The option becomes one that nobody knows.
        ("without one", NOW, HERE, changed(fixed + cookie_at - 2, 64), ResetCode::NO_CONNECTION),
    ] {
        assert_eq!(refused(&mut *door, now, path, &packet), code, "{what}");
    }
    assert_eq!(meet(&mut *door, NOW, HERE, &changed(8, (3 ^ 7) << 1)).0, Meeting::Ignored, "a Reset");
    assert_eq!(meet(&mut *door, NOW, HERE, &ack).0, Meeting::Admitted);
    // The connection has come and gone; somebody has kept a copy.
    assert_eq!(refused(&mut *door, later - Duration::from_millis(2), HERE, &ack), ResetCode::NO_CONNECTION);
    assert_eq!(refused(&mut *door, NOW, PathId(4), &ack), ResetCode::BAD_INIT_COOKIE);
}

#[test]
fn whom_there_was_no_room_for_comes_again_with_the_same() {
    let mut door = door("");
    let (_caller, ack) = knock(&mut *door, "");
    let mut bare_caller = endpoint("ccid=3", Role::Caller, 21);
    let bare = without_padding(flush(&mut *bare_caller, NOW).remove(0));
    let (_, response) = meet(&mut *door, NOW, PathId(4), &bare);
    bare_caller.handle_input(NOW, datagram(&response, NOW));
    let bare_ack = flush(&mut *bare_caller, NOW).remove(0);
    for (path, packet) in [(HERE, &ack), (PathId(4), &bare_ack)] {
        let mut first = None;
        for _ in 0..3 {
            let met = meet(&mut *door, NOW, path, packet);
            assert!(matches!(met.0, Meeting::Admitted | Meeting::Vouched { .. }), "{met:?}");
            assert_eq!(first.get_or_insert(met.clone()), &met);
            door.turn_away();
        }
        meet(&mut *door, NOW, path, packet);
        assert_eq!(refused(&mut *door, NOW, path, packet), ResetCode::NO_CONNECTION, "there was room");
        // Nobody was let in just now.
        door.turn_away();
        assert_eq!(refused(&mut *door, NOW, path, packet), ResetCode::NO_CONNECTION);
    }
}

#[test]
fn an_endpoint_behind_the_door_takes_in_whom_it_admitted() {
    for query in ["ccid=2", "ccid=3", "coverage=1"] {
        let mut door = door(query);
        let (mut caller, ack) = knock(&mut *door, query);
        for (seed, taken) in [(2, false), (1, true)] {
            let mut station = endpoint(query, Role::Listener, seed);
            station.handle_input(NOW, datagram(&ack, NOW));
            let connected =
                std::iter::from_fn(|| station.poll_event()).any(|event| event == Event::Connected);
            assert_eq!(connected, taken, "{query}, seed {seed}: only of the same house");
            if taken {
                assert_eq!(talk([&mut *caller, &mut *station], NOW, 50), [50, 50], "{query}");
                assert_eq!(station.path_stats().counters.malformed, 0);
                assert_eq!(caller.path_stats().counters.malformed, 0);
            }
        }
    }
}

/// A handshake over a path of 30 ms back that loses the caller's packets of these numbers and these of the door's answers,
/// and keeps others for a second and a half; it must end in a connection that carries everything.
fn through(query: &str, lost: &[usize], lost_back: &[usize], late_back: &[usize]) {
    let mut door = door(query);
    let mut caller = endpoint(query, Role::Caller, 20);
    let mut station: Option<Box<dyn Endpoint>> = None;
    let (mut now, mut sent, mut back) = (NOW, 0, 0);
    let mut held: Vec<(Instant, Vec<u8>)> = Vec::new();
    let mut numbers = std::collections::BTreeSet::new();
    while !(station.is_some() && held.is_empty()) {
        now += Duration::from_millis(10);
        assert!(now < NOW + Duration::from_secs(20), "{query} {lost:?} {lost_back:?}: it comes about");
        for packet in flush(&mut *caller, now) {
            sent += 1;
            if lost.contains(&sent) {
                continue;
            }
            let (meeting, answer) = match &mut station {
                Some(station) => {
                    station.handle_input(now, datagram(&packet, now));
                    continue;
                }
                None => meet(&mut *door, now, HERE, &packet),
            };
            if meeting == Meeting::Admitted {
                let mut opened = endpoint(query, Role::Listener, 1);
                opened.handle_input(now, datagram(&packet, now));
                station = Some(opened);
            } else if !answer.is_empty() {
                back += 1;
                assert!(numbers.insert(header(&answer).seq.value()), "a Response of its own");
                let delay = if late_back.contains(&back) { 1_500 } else { 30 };
                if !lost_back.contains(&back) {
                    held.push((now + Duration::from_millis(delay), answer));
                }
            }
        }
        if let Some(station) = &mut station {
            for packet in flush(&mut **station, now) {
                assert!(numbers.insert(header(&packet).seq.value()), "a number is used once");
                held.push((now + Duration::from_millis(30), packet));
            }
        }
        held.sort_by_key(|(at, _)| *at);
        while held.first().is_some_and(|(at, _)| *at <= now) {
            let (_, packet) = held.remove(0);
            caller.handle_input(now, datagram(&packet, now));
        }
    }
    let mut station = station.expect("opened");
    assert_eq!(talk([&mut *caller, &mut *station], now, 50), [50, 50], "{query} {lost:?} {lost_back:?}");
    // Numbers that were left out are no losses: the rate is not that of a path with a loss in a handful of packets.
    let rate = station.path_stats().pacing_rate.map(|rate| rate.0);
    assert!(rate.is_none_or(|rate| rate > 80_000), "{query} {lost:?} {lost_back:?}: {rate:?} bit/s");
}

#[test]
fn what_is_lost_or_late_of_a_handshake_is_made_up_for() {
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
fn a_caller_that_knows_no_cookies_is_let_in() {
    for query in ["ccid=2", "ccid=3"] {
        let mut caller = endpoint(query, Role::Caller, 20);
        let request = without_padding(flush(&mut *caller, NOW).remove(0));
        let mut door = door(query);
        let (meeting, response) = meet(&mut *door, NOW, HERE, &request);
        assert!(matches!(meeting, Meeting::Answered { len } if len <= request.len()), "{meeting:?}");
        assert_eq!(cookie(&response), None, "there is no room for one");
        caller.handle_input(NOW, datagram(&response, NOW));
        let ack = flush(&mut *caller, NOW).remove(0);
        assert_eq!(cookie(&ack), None);
        // Not from elsewhere, not with a guess, not late.
        let mut guess = ack.clone();
        guess[23] ^= 1;
        let late = NOW + Duration::from_millis(10_001);
        for (now, path, packet) in [(NOW, PathId(4), &ack), (NOW, HERE, &guess), (late, HERE, &ack)] {
            assert_eq!(refused(&mut *door, now, path, packet), ResetCode::NO_CONNECTION);
        }
        let (meeting, vouched) = meet(&mut *door, NOW, HERE, &ack);
        assert!(matches!(meeting, Meeting::Vouched { .. }), "{meeting:?}");
        assert_eq!(refused(&mut *door, NOW, HERE, &ack), ResetCode::NO_CONNECTION, "once");
        let mut station = endpoint(query, Role::Listener, 1);
        station.handle_input(NOW, datagram(&vouched, NOW));
        assert_eq!(talk([&mut *caller, &mut *station], NOW, 50), [50, 50], "{query}");
        // And without a door before it.
        let mut caller = endpoint(query, Role::Caller, 20);
        let mut alone = endpoint(query, Role::Listener, 1);
        alone.handle_input(NOW, datagram(&without_padding(flush(&mut *caller, NOW).remove(0)), NOW));
        let response = flush(&mut *alone, NOW).remove(0);
        caller.handle_input(NOW, datagram(&response, NOW));
        assert_eq!(talk([&mut *caller, &mut *alone], NOW, 50), [50, 50], "{query}");
    }
}

/// A Request from a forged address: bare, with this or that to be negotiated and echoed, padded like ours or not.
fn forged(rng: &mut Rng) -> Vec<u8> {
    let kind = Kind::Request { service: RTP_AUDIO };
    let (source, seq) = (1 + rng.below(60_000) as u16, Seq48::random(rng));
    let head = Header { source, destination: 5004, ccval: 0, coverage: 0, kind, seq };
    let mut options = OptionWriter::default();
    for _ in 0..rng.below(6) {
        let (feature, value) = (rng.below(12) as u8, rng.next_u64().to_be_bytes());
        if rng.chance(0.2) {
            options.put(41, &[&value[..4]]);
        } else {
            options.put(32 + 2 * rng.below(2) as u8, &[&[feature], &value[..1 + rng.below(6) as usize]]);
        }
    }
    options.pad_to(rng.below(200) as usize);
    let mut buf = [0; 1452];
    let len = emit(&head, &options, &[], Checksum::Udp, &mut buf).expect("room");
    buf[..len].to_vec()
}

#[test]
fn through_a_flood_of_requests_callers_with_cookies_get_in_and_nobody_is_sent_more_than_came() {
    let (mut rng, mut door) = (Rng::fork(5, "flood"), door(""));
    // Bytes that came from each address, and went there.
    let mut account: BTreeMap<PathId, (usize, usize)> = BTreeMap::new();
    let mut caller = endpoint("", Role::Caller, 20);
    let (mut answered, mut admitted) = (0, false);
    for n in 0..100_000u32 {
        // 20 000 a second, from some 30 000 addresses.
        let now = NOW + Duration::from_micros(50) * n;
        let (path, packet) = (PathId(100 + rng.below(30_000)), forged(&mut rng));
        let (meeting, answer) = meet(&mut *door, now, path, &packet);
        assert!(matches!(meeting, Meeting::Ignored | Meeting::Answered { .. }), "{meeting:?}");
        answered += u32::from(!answer.is_empty());
        let (came, went) = account.entry(path).or_default();
        (*came, *went) = (*came + packet.len(), *went + answer.len());
        assert!(went <= came, "{went} bytes went where {came} came from");
        if n % 5_000 == 4_999 && !admitted {
            for packet in flush(&mut *caller, now) {
                let (meeting, answer) = meet(&mut *door, now, HERE, &packet);
                admitted |= meeting == Meeting::Admitted;
                if !answer.is_empty() {
                    caller.handle_input(now, datagram(&answer, now));
                }
            }
        }
    }
    assert!(admitted, "in the midst of it");
    assert!(answered > 50_000, "{answered} of the flood had answers");
}
