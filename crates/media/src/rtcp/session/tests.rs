use super::membership::MAX_MEMBERS;
use super::*;
use crate::rtcp::{write_cname, write_report};
use antiphon_core::{BitRate, Epoch, NtpTime};

fn epoch() -> Epoch {
    Epoch { ntp_at_zero: NtpTime::from_unix(Duration::from_secs(1_700_000_000)) }
}

fn session(ssrc: u32, randomised: bool) -> RtcpSession {
    let config = RtcpConfig { randomised, ..RtcpConfig::new(ssrc, "a@b", 48_000, epoch()) };
    RtcpSession::new(config, u64::from(ssrc), Instant::ZERO)
}

fn events(session: &mut RtcpSession, now: Instant, bytes: &[u8]) -> Vec<RtcpEvent> {
    let mut events = Vec::new();
    session.handle(now, bytes, false, |event| events.push(event)).unwrap();
    events
}

#[test]
fn round_trip_and_loss_reach_the_sender() {
    let (mut sender, mut receiver) = (session(1, false), session(2, false));
    let mut buf = [0; 1500];
    let path = Duration::from_millis(30);
    for n in 0..50u32 {
        let now = Instant::from_millis(5 * u64::from(n));
        sender.on_sent(now, 1, 1000 + 240 * n, 960);
        if n % 10 != 9 {
            receiver.on_received(now + path, 1, n as u16, 1000 + 240 * n);
        }
    }
    let at = Instant::from_millis(250);
    let len = sender.poll_report(at, &mut buf).unwrap();
    let told = events(&mut receiver, at + path, &buf[..len]);
    let clock = SenderClock { ssrc: 1, ntp: epoch().ntp(at), rtp_timestamp: 1000 + 240 * 50 };
    assert_eq!(told, [RtcpEvent::Clock(clock)]);
    assert_eq!(receiver.sender_clock(), Some((clock, at + path)));

    let back = Instant::from_millis(400);
    let len = receiver.poll_report(back, &mut buf).unwrap();
    let told = events(&mut sender, back + path, &buf[..len]);
    let [RtcpEvent::Report(report)] = told[..] else { panic!("{told:?}") };
    // 49 expected, 45 received: the last one's loss shows only with its successor.
    assert_eq!((report.from, report.block.cumulative_lost, report.block.fraction_lost), (2, 4, 20));
    // Two roundings of 1/65536 s: a forgotten DLSR would be 120 ms off.
    let error = report.round_trip.unwrap().as_secs_f64() - 0.060;
    assert!(error.abs() < 35e-6, "{error}");
}

#[test]
fn a_repaired_report_measures_nothing_and_tells_the_rest() {
    let (mut sender, mut receiver) = (session(1, false), session(2, false));
    let (path, repair) = (Duration::from_millis(30), Duration::from_millis(80));
    let mut buf = [0; 1500];
    let mut round_trips = Vec::new();
    // The sender's second report is repaired, and the receiver's third.
    for (n, sr_takes, rr_takes) in [(0, path, path), (1, repair, path), (2, path, repair)] {
        let at = Instant::from_millis(1000 * n + 250);
        sender.on_sent(at, 1, n as u32, 960);
        receiver.on_received(at, 1, n as u16, n as u32);
        let len = sender.poll_report(at, &mut buf).unwrap();
        receiver.handle(at + sr_takes, &buf[..len], sr_takes == repair, |_| ()).unwrap();
        assert_eq!(receiver.sender_clock().unwrap().1, at + sr_takes, "clocks are clocks");
        let back = at + Duration::from_millis(400);
        let len = receiver.poll_report(back, &mut buf).unwrap();
        let each = |event| match event {
            RtcpEvent::Report(report) => round_trips.push(report.round_trip.map(|time| time.as_millis())),
            other => panic!("{other:?}"),
        };
        sender.handle(back + rr_takes, &buf[..len], rr_takes == repair, each).unwrap();
    }
    // The second answers the first sender report, as LSR says.
    assert_eq!(round_trips, [Some(60), Some(60), None]);
}

/// Of a report of the receiver's to `sender` at 400 ms: the wall clock was set to `set` after the first sender report, and a
/// second one followed with `again`; `lsr` may name another.
fn round_trip_with(set: Option<Epoch>, again: bool, lsr: Option<u32>) -> Option<Duration> {
    let (mut sender, mut receiver) = (session(1, false), session(2, false));
    let (path, mut buf) = (Duration::from_millis(30), [0; 1500]);
    for (n, wanted) in [(0, true), (1, again)] {
        let at = Instant::from_millis(1000 * n + 250);
        sender.on_sent(at, 1, n as u32, 960);
        receiver.on_received(at, 1, n as u16, n as u32);
        if wanted {
            let len = sender.poll_report(at, &mut buf).unwrap();
            receiver.handle(at + path, &buf[..len], false, |_| ()).unwrap();
        }
        set.into_iter().for_each(|set| sender.set_epoch(set));
    }
    let back = Instant::from_millis(1_650);
    let len = receiver.poll_report(back, &mut buf).unwrap();
    if let Some(lsr) = lsr {
        // Behind the report's header, its SSRC and the block's first 16 bytes.
        buf[24..28].copy_from_slice(&lsr.to_be_bytes());
    }
    let told = events(&mut sender, back + path, &buf[..len]);
    let [RtcpEvent::Report(report)] = told[..] else { panic!("{told:?}") };
    report.round_trip
}

#[test]
fn the_wall_clock_may_be_set_between_a_report_and_its_answer() {
    let hour = Duration::from_secs(3_600);
    let on = Epoch { ntp_at_zero: epoch().ntp_at_zero.plus(hour) };
    for (set, again) in [(None, true), (None, false), (Some(on), true), (Some(on), false)] {
        let error = round_trip_with(set, again, None).unwrap().as_secs_f64() - 0.060;
        assert!(error.abs() < 35e-6, "{set:?}: {error}");
    }
    // The second report has the time that was set.
    let mut sender = session(1, false);
    sender.set_epoch(on);
    sender.on_sent(Instant::ZERO, 1, 0, 960);
    let (mut buf, mut clock) = ([0; 1500], None);
    let len = sender.poll_report(Instant::from_millis(250), &mut buf).unwrap();
    session(2, false)
        .handle(Instant::ZERO, &buf[..len], false, |event| {
            if let RtcpEvent::Clock(heard) = event {
                clock = Some(heard.ntp);
            }
        })
        .unwrap();
    assert_eq!(clock, Some(on.ntp(Instant::from_millis(250))));
}

#[test]
fn an_answer_to_a_report_that_was_never_sent_measures_nothing() {
    let sent = epoch().ntp(Instant::from_millis(1_250)).middle_bits();
    assert!(round_trip_with(None, true, Some(sent)).is_some());
    for never in [0, 1, sent.wrapping_add(1), u32::MAX] {
        assert_eq!(round_trip_with(None, true, Some(never)), None, "{never:#x}");
    }
}

#[test]
fn reports_come_at_the_interval_and_not_before() {
    let mut session = session(1, false);
    let mut buf = [0; 1500];
    let mut times = Vec::new();
    for ms in 0..3000u64 {
        if session.poll_report(Instant::from_millis(ms), &mut buf).is_some() {
            times.push(ms);
        }
    }
    assert_eq!(times, [250, 750, 1250, 1750, 2250, 2750]);
}

#[test]
fn randomised_intervals_keep_their_mean() {
    let mut session = session(1, true);
    let (mut buf, mut now) = ([0; 1500], Instant::ZERO);
    while session.counters().sent < 2000 {
        now = session.poll_timeout().unwrap();
        session.poll_report(now, &mut buf);
    }
    // §6.3.1: reconsideration makes the mean come out at about the nominal half second; without the compensation
    // it would be 0.61 s.
    let mean = now.since(Instant::ZERO).as_secs_f64() / 2000.0;
    assert!((mean - 0.5).abs() < 0.05, "{mean}");
}

#[test]
fn a_session_says_goodbye_once() {
    let (mut a, mut b) = (session(1, true), session(2, true));
    let mut buf = [0; 1500];
    let len = a.close(Instant::ZERO, &mut buf).unwrap();
    assert_eq!(events(&mut b, Instant::ZERO, &buf[..len]), [RtcpEvent::Bye { ssrc: 1 }]);
    assert_eq!((a.close(Instant::ZERO, &mut buf), a.poll_timeout()), (None, None));
    assert_eq!(a.poll_report(Instant::from_millis(9000), &mut buf), None);
}

#[test]
fn own_packets_and_collisions_are_distinguished() {
    let (mut ours, mut buf) = (session(1, true), [0; 1500]);
    let mut same = session(1, true);
    let len = same.close(Instant::ZERO, &mut buf).unwrap();
    assert_eq!(events(&mut ours, Instant::ZERO, &buf[..len]), [RtcpEvent::OwnBye { ssrc: 1 }]);
    assert_eq!(ours.counters().looped, 1);
    let config = RtcpConfig::new(1, "other@host", 48_000, epoch());
    let mut other = RtcpSession::new(config, 1, Instant::ZERO);
    let len = other.close(Instant::ZERO, &mut buf).unwrap();
    assert_eq!(events(&mut ours, Instant::ZERO, &buf[..len]), [RtcpEvent::Collision]);
}

#[test]
fn unknown_sources_cost_no_memory_and_garbage_is_counted() {
    let (mut session, mut buf) = (session(1, true), [0; 100]);
    for ssrc in 2..3000 {
        let len = write_report(ssrc, None, &[], &mut buf).unwrap();
        events(&mut session, Instant::ZERO, &buf[..len]);
    }
    assert_eq!((session.members.len(), session.members.capacity()), (MAX_MEMBERS, MAX_MEMBERS));
    assert_eq!(session.counters().overlooked, 2998 - 1024);
    assert!(session.handle(Instant::ZERO, &[0x80, 200, 0, 9], false, |_| ()).is_err());
    assert_eq!(session.counters().malformed, 1);
}

#[test]
fn many_parties_slow_the_reports_down() {
    let (mut session, mut buf) = (session(1, false), [0; 100]);
    session.config.bandwidth = BitRate(64_000);
    for ssrc in 2..62 {
        let len = write_report(ssrc, None, &[], &mut buf).unwrap();
        events(&mut session, Instant::ZERO, &buf[..len]);
    }
    // 61 parties of some 36 bytes (8 + 28) share 400 bytes a second: 5.5 s, far more than the minimum of half a second.
    let interval = session.interval(Instant::ZERO).as_secs_f64();
    assert!((5.0..9.0).contains(&interval), "{interval}");
}

#[test]
fn time_stamps_map_to_the_senders_wall() {
    let clock = SenderClock { ssrc: 1, ntp: epoch().ntp_at_zero, rtp_timestamp: 100 };
    let later = clock.ntp_of(48_100, 48_000).signed_nanos_since(clock.ntp);
    let earlier = clock.ntp_of(100u32.wrapping_sub(24_000), 48_000).signed_nanos_since(clock.ntp);
    assert!((later - 1_000_000_000).abs() <= 1 && (earlier + 500_000_000).abs() <= 1, "{later} {earlier}");
}

#[test]
fn parties_that_fell_silent_are_forgotten() {
    let (mut session, mut buf) = (session(1, false), [0; 1500]);
    let len = write_report(2, None, &[], &mut buf).unwrap();
    events(&mut session, Instant::ZERO, &buf[..len]);
    session.poll_report(Instant::from_millis(20_000), &mut buf).unwrap();
    assert_eq!(session.members.len(), 1);
    // Five times five seconds (RFC 3550 §6.3.5).
    session.poll_report(Instant::from_millis(26_000), &mut buf).unwrap();
    assert_eq!(session.members.len(), 0);
}

#[test]
fn several_sources_report_together_on_one_clock() {
    let (mut sender, mut receiver) = (session(1, false), session(99, false));
    (2..4).for_each(|ssrc| sender.add_source(ssrc));
    let mut buf = [0; 1500];
    for n in 0..48u32 {
        let now = Instant::from_millis(5 * u64::from(n));
        for ssrc in 1..4 {
            sender.on_sent(now, ssrc, 500 + 240 * n, 960);
            if ssrc != 3 || n % 4 != 1 {
                receiver.on_received(now, ssrc, (n + 100 * ssrc) as u16, 500 + 240 * n);
            }
        }
    }
    let at = Instant::from_millis(250);
    let len = sender.poll_report(at, &mut buf).unwrap();
    let clock = |ssrc| {
        RtcpEvent::Clock(SenderClock { ssrc, ntp: epoch().ntp(at), rtp_timestamp: 500 + 48 * 240 + 480 })
    };
    assert_eq!(events(&mut receiver, at, &buf[..len]), [clock(1), clock(2), clock(3)]);
    let mut named = Vec::new();
    visit_compound(&buf[..len], |item| {
        if let RtcpItem::Cname { ssrc, name } = item {
            named.push((ssrc, name.to_vec()));
        }
    })
    .unwrap();
    assert_eq!(named, (1..4).map(|ssrc| (ssrc, b"a@b".to_vec())).collect::<Vec<_>>());

    let back = Instant::from_millis(400);
    let len = receiver.poll_report(back, &mut buf).unwrap();
    let lost: Vec<_> = events(&mut sender, back, &buf[..len])
        .iter()
        .map(|event| match event {
            RtcpEvent::Report(report) => (report.block.ssrc, report.block.cumulative_lost),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lost, [(1, 0), (2, 0), (3, 12)]);

    let len = sender.close(back, &mut buf).unwrap();
    let left = events(&mut receiver, back, &buf[..len]);
    let byes = left.iter().filter(|event| matches!(event, RtcpEvent::Bye { ssrc: 1..4 })).count();
    assert_eq!(byes, 3);
}

#[test]
fn sixty_four_sources_take_turns() {
    let (mut sender, mut receiver) = (session(1, false), session(99, false));
    (2..65).for_each(|ssrc| sender.add_source(ssrc));
    let (mut clocks, mut reports) = ([0; 65], [0; 65]);
    for round in 0..8u64 {
        let mut buf = [0; 1500];
        // Longer than any interval of so many parties.
        let now = Instant::from_millis(10_000 * (round + 1));
        for ssrc in 1..65 {
            sender.on_sent(now, ssrc, 0, 960);
            receiver.on_received(now, ssrc, round as u16, 0);
        }
        let len = sender.poll_report(now, &mut buf).unwrap();
        assert!(len <= MAX_REPORT, "{len}");
        for event in events(&mut receiver, now, &buf[..len]) {
            let RtcpEvent::Clock(clock) = event else { panic!("{event:?}") };
            clocks[clock.ssrc as usize] += 1;
        }
        let len = receiver.poll_report(now, &mut buf).unwrap();
        for event in events(&mut sender, now, &buf[..len]) {
            let RtcpEvent::Report(report) = event else { panic!("{event:?}") };
            reports[report.block.ssrc as usize] += 1;
        }
    }
    // No source is left out: 8 rounds of 31 blocks for 64 sources, and of 25 and more reports.
    assert!(clocks[1..].iter().all(|n| *n >= 2), "{clocks:?}");
    assert!(reports[1..].iter().all(|n| *n >= 3), "{reports:?}");
    // Sources of unknown senders cost no memory.
    for ssrc in 100..1000 {
        receiver.on_received(Instant::ZERO, ssrc, 0, 0);
    }
    assert_eq!(receiver.heard.len(), MAX_SOURCES);
    let mut buf = [0; 1500];
    let len = sender.close(Instant::from_millis(90_000), &mut buf).unwrap();
    let left = events(&mut receiver, Instant::ZERO, &buf[..len]);
    assert_eq!(left.iter().filter(|event| matches!(event, RtcpEvent::Bye { .. })).count(), 64);
}

#[test]
fn a_receiver_tells_its_sender_how_long_it_buffers() {
    for delay in [PlayoutDelay::Of(Duration::from_millis(80)), PlayoutDelay::Unbounded] {
        let (mut sender, mut receiver) = (session(1, false), session(2, false));
        let mut buf = [0; 1500];
        receiver.tell_playout(Some(delay));
        let len = receiver.poll_report(Instant::from_millis(250), &mut buf).unwrap();
        assert_eq!(
            events(&mut sender, Instant::from_millis(250), &buf[..len]),
            [],
            "nothing is buffered yet"
        );
        receiver.on_received(Instant::from_millis(300), 1, 7, 1000);
        let len = receiver.poll_report(Instant::from_millis(750), &mut buf).unwrap();
        let told = events(&mut sender, Instant::from_millis(760), &buf[..len]);
        assert_eq!(told.last(), Some(&RtcpEvent::Playout { from: 2, delay }), "{told:?}");
    }
}

#[test]
fn our_own_goodbye_is_known_when_it_comes_back() {
    let mut session = session(1, false);
    let (mut buf, mut goodbye) = ([0; 1500], Vec::new());
    session.close_each(Instant::from_millis(10), &mut buf, |_, bytes| goodbye = bytes.to_vec());
    assert_eq!(events(&mut session, Instant::from_millis(20), &goodbye), [RtcpEvent::OwnBye { ssrc: 1 }]);
    assert_eq!(session.counters().looped, 1);
}

#[test]
fn the_names_of_senders_are_kept_and_harmless() {
    let mut session = session(1, false);
    let mut buf = [0; 1500];
    session.begin_source(2, 48_000);
    session.begin_source(3, 44_100);
    let say = |session: &mut RtcpSession, ssrc: u32, name: &str, buf: &mut [u8]| {
        let mut len = write_report(ssrc, None, &[], buf).unwrap();
        len += write_cname(ssrc, name, &mut buf[len..]).unwrap();
        session.handle(Instant::from_millis(10), &buf[..len], false, |_| ()).unwrap();
    };
    say(&mut session, 2, "anna@studio", &mut buf);
    say(&mut session, 3, "\u{1b}[2J\nü", &mut buf);
    say(&mut session, 4, "nobody that we receive", &mut buf);
    let name = |ssrc: u32| session.cname_of(ssrc).map(|name| name.as_str().to_string());
    assert_eq!([2, 3, 4].map(name), [Some("anna@studio".into()), Some("?[2J???".into()), None]);
    assert_eq!(Cname::new(&[b'x'; 300]).as_str(), "x".repeat(64));
    session.forget_source(2);
    assert_eq!((session.cname_of(2), session.receptions().count()), (None, 1));
}

#[test]
fn one_of_several_senders_begins_again_and_the_others_go_on() {
    let mut session = session(1, false);
    for ssrc in [2, 3] {
        session.begin_source(ssrc, 48_000);
        (0..100).for_each(|n| session.on_received(Instant::ZERO, ssrc, n, u32::from(n) * 240));
    }
    session.begin_source(2, 48_000);
    session.on_received(Instant::ZERO, 2, 30_000, 0);
    let received: Vec<_> = session.receptions().map(|(ssrc, one)| (ssrc, one.received())).collect();
    assert_eq!(received, [(3, 100), (2, 1)]);
}
