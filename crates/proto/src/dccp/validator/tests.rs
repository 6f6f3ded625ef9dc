//! What the validator keeps, and for how long.

use super::*;

const NOW: Instant = Instant::from_millis(1);

fn validator() -> DccpValidator {
    DccpValidator::new(Settings::default(), Checksum::Udp, &antiphon_core::Secret::for_laboratory(1))
}

fn request(source: u16, seq: u64) -> Packet<'static> {
    let kind = Kind::Request { service: Settings::default().service };
    let header = Header::new((source, Settings::default().port), kind, Seq48::new(seq));
    Packet { header, raw_options: &[], data: &[] }
}

/// The packet that answers a Response.
fn ack(response: &[u8], ahead: i64) -> Header {
    let header = Packet::parse(response, Checksum::Udp).expect("a Response").header;
    let Kind::Response { ack, .. } = header.kind else { panic!("{header:?}") };
    header.answer(Kind::Ack { ack: header.seq }, ack.plus(ahead))
}

#[test]
fn what_is_kept_of_unknown_sources_is_bounded() {
    let (mut validator, mut out) = (validator(), [0; 200]);
    for n in 0..100_000 {
        let now = NOW + Duration::from_micros(10) * n;
        validator.validate_packet(now, PathId(n), &request(5, n.into()), 40, &mut out);
    }
    assert_eq!(
        (validator.pending.len(), validator.pending[0].path),
        (MOST_PENDING, PathId(100_000 - MOST_PENDING as u32))
    );
    assert!(size_of::<Pending>() <= 256 && validator.pending.capacity() <= 2 * MOST_PENDING);
    // A caller that asks again keeps one entry; entries that are too old are removed.
    for n in 0..1000 {
        validator.validate_packet(NOW + Duration::from_secs(20), PathId(7), &request(5, n), 40, &mut out);
    }
    assert_eq!((validator.pending.len(), validator.pending[0].credit), (1, 1000 * (40 - 28)));
    // Used cookies, too, are remembered up to a bound and for their lifetime.
    for n in 0..2000 {
        let mut response = [0; 200];
        let path = PathId(n);
        validator.validate_packet(NOW, path, &request(5, n.into()), 200, &mut response);
        let answered = Packet::parse(&response[..], Checksum::Udp).expect("a Response");
        let (header, cookie) = (ack(&response, 1), cookie_of(&answered).expect("a cookie"));
        let mut options = OptionWriter::default();
        options.write(DccpOption::InitCookie(cookie));
        let packet = Packet { header, raw_options: options.padded(), data: &[] };
        assert_eq!(validator.validate_packet(NOW, path, &packet, 200, &mut out), Verdict::Accept);
    }
    assert!(validator.used.len() == MOST_USED && validator.used.capacity() <= 2 * MOST_USED);
    assert!(validator.note_use(NOW + COOKIE_LIFE + Duration::from_nanos(1), &[0; 16], Duration::ZERO));
    assert_eq!(validator.used.len(), 1);
}

#[test]
fn a_caller_without_cookie_survives_a_flood_below_the_bound() {
    let (mut validator, mut out, mut response) = (validator(), [0; 200], [0; 200]);
    for (flood, let_in) in [(MOST_PENDING - 1, true), (MOST_PENDING, false)] {
        validator.validate_packet(NOW, PathId(1), &request(5, 9), 40, &mut response);
        for n in 0..flood as u32 {
            validator.validate_packet(NOW, PathId(100 + n), &request(5, 9), 40, &mut out);
        }
        let packet = Packet { header: ack(&response, 1), raw_options: &[], data: &[] };
        let meeting = validator.validate_packet(NOW, PathId(1), &packet, 28, &mut out);
        assert_eq!(matches!(meeting, Verdict::AcceptWith { .. }), let_in, "{flood}: {meeting:?}");
    }
}

#[test]
fn any_repeated_request_may_be_the_one_answered() {
    for answered in 0..3 {
        let (mut validator, mut out, mut responses) = (validator(), [0; 200], [[0; 200]; 3]);
        for (n, response) in responses.iter_mut().enumerate() {
            let asks = request(5, (1 << 48) - 2 + n as u64);
            validator.validate_packet(NOW, PathId(1), &asks, 40, response);
        }
        let header = ack(&responses[answered], 3 - answered as i64);
        let packet = Packet { header, raw_options: &[], data: &[] };
        let Verdict::AcceptWith { len } = validator.validate_packet(NOW, PathId(1), &packet, 28, &mut out)
        else {
            panic!("answer {answered}")
        };
        let completed = Packet::parse(&out[..len], Checksum::Udp).expect("a packet");
        let cookie = cookie_of(&completed).expect("with a cookie");
        let (opened, ahead) = validator.open(NOW, PathId(1), &completed.header, cookie).expect("a good one");
        assert_eq!((ahead, opened.tcb.told_all), (3, false));
    }
}

#[test]
fn features_left_out_of_a_response_are_negotiated_later() {
    let validator = validator();
    let asked = Packet { raw_options: &[32, 5, 1, 2, 3, 34, 5, 1, 2, 3], ..request(5, 9) };
    let asked = Asked::of(&asked).expect("not too much");
    for told_all in [true, false] {
        let tcb = Tcb { isr: Seq48::new(9), iss: Seq48::new(70), told_all, asked };
        let features = validator.agreed(NOW, &tcb);
        // The server's order counts: CCID 3 first.
        let ccids = [Location::Local, Location::Remote].map(|at| features.value(at, features::CCID));
        assert_eq!((ccids, features.is_news()), ([3, 3], !told_all));
    }
}

#[test]
fn unused_credit_pays_for_the_next_answer_to_an_address() {
    // What Linux 6.1 asks for that has no wish of its own: 48 bytes in all, with a time stamp.
    let raw: &[u8] =
        &[0, 0, 41, 6, 0, 8, 110, 67, 32, 5, 1, 2, 3, 34, 5, 1, 2, 3, 1, 32, 4, 2, 0, 1, 32, 4, 4, 1];
    let echoes = |packet: &[u8]| {
        let packet = Packet::parse(packet, Checksum::Udp).expect("a Response");
        packet.options().any(|option| matches!(option.read(), DccpOption::TimestampEcho { .. }))
    };
    for (refused_from, echoed) in [(None, false), (Some(1), true), (Some(2), false)] {
        let (mut validator, mut out) = (validator(), [0; 200]);
        let mut went = 0;
        if let Some(path) = refused_from {
            let mut other = request(6, 9);
            other.header.kind = Kind::Request { service: 0 };
            let met = validator.validate_packet(NOW, PathId(path), &other, 48, &mut out);
            assert_eq!(met, Verdict::Reply { len: 28 });
            went += 28;
        }
        let asks = Packet { raw_options: raw, ..request(5, 9) };
        let Verdict::Reply { len } = validator.validate_packet(NOW, PathId(1), &asks, 48, &mut out) else {
            panic!("it is answered at once")
        };
        assert_eq!(echoes(&out[..len]), echoed, "refused from {refused_from:?}");
        assert!(went + len <= if refused_from == Some(1) { 96 } else { 48 + went });
        // A refused call has no connection.
        let header = Header { source: 6, seq: Seq48::new(10), ..ack(&out[..len], 1) };
        let stray = Packet { header, raw_options: &[], data: &[] };
        let path = PathId(refused_from.unwrap_or(1));
        assert_eq!(
            validator.validate_packet(NOW, path, &stray, 28, &mut [0; 200]),
            Verdict::Reply { len: 28 }
        );
    }
}
