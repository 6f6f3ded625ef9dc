//! A sender with several programmes, and receivers that choose among them.

use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::rtcp::{ProgrammeAnswer, ProgrammeQuestion};
use antiphon_session::{Notice, ProgrammeList, ProgrammesError, SendTrack, Session};
use antiphon_testkit::{Noise, Sent};

use crate::common::{WIRE, session_config, track_config};
use crate::hall::{Hall, format};
use crate::world::{datagram, datagram_transports, ms};

const SECOND: u64 = 48_000;

fn join(hall: &mut Hall, wish: Option<&'static str>) -> usize {
    hall.wish = wish;
    hall.join(0.0, Duration::ZERO)
}

/// What a listener played from `from` to `to`, each programme once.
fn played(hall: &Hall, number: usize, from: Instant, to: Instant) -> Vec<u8> {
    let programmes = hall.listeners[number].programmes.lock().unwrap();
    let mut played: Vec<u8> = programmes
        .iter()
        .filter(|(_, at)| (from..to).contains(at))
        .map(|(programme, _)| *programme)
        .collect();
    played.retain(|programme| *programme != 0);
    played.dedup();
    played
}

fn list(hall: &mut Hall, number: usize) -> ProgrammeList {
    hall.listeners[number].session.programme_list().expect("the list has come").clone()
}

/// When a listener first played `programme` after `since`, as a time from then on.
fn first(hall: &Hall, number: usize, programme: u8, since: Instant) -> Duration {
    let programmes = hall.listeners[number].programmes.lock().unwrap();
    let heard = programmes.iter().find(|(which, at)| *which == programme && *at >= since);
    heard.expect("it is heard").1.since(since)
}

fn lost(hall: &Hall, number: usize) -> (u64, u64, u64) {
    let playout = hall.listeners[number].session.receive_track().unwrap().playout().unwrap();
    (playout.lost, playout.late, playout.concealments)
}

#[test]
fn receivers_choose_over_every_transport_and_nobody_else_hears_it() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let mut hall = Hall::with_programmes(name, "delay=1ms", [12 * SECOND, 12 * SECOND], None);
        join(&mut hall, None);
        join(&mut hall, Some(""));
        hall.run_until(hall.at(1_000));
        let film = join(&mut hall, Some("film"));
        hall.run_until(hall.at(3_000));
        // From the first sound on, by the name in other letters' case.
        assert_eq!(played(&hall, film, hall.at(0), hall.at(3_000)), [2], "{name}");
        let joined = hall.listeners[film].joined;
        assert!(first(&hall, film, 2, joined) <= ms(200), "{name}: {:?}", first(&hall, film, 2, joined));
        let told = list(&mut hall, film);
        let names: Vec<_> =
            told.programmes.iter().map(|one| (one.name.as_str(), one.channels, one.rate)).collect();
        assert_eq!((names, told.current), (vec![("News", 1, 48_000), ("Film", 1, 48_000)], 1), "{name}");
        assert_eq!(list(&mut hall, 1).current, 0, "{name}: who wishes nothing gets the first");

        // A change while it plays: to the other one by its number.
        let now = hall.now;
        hall.listeners[film].session.choose_programme(now, "1");
        hall.run_until(hall.at(5_000));
        let heard = first(&hall, film, 1, now);
        assert!(heard <= ms(200), "{name}: {heard:?} after the wish");
        assert_eq!(played(&hall, film, now + heard, hall.at(5_000)), [1], "{name}");
        assert_eq!(list(&mut hall, film).current, 0, "{name}");
        let track = hall.listeners[film].session.receive_track_mut().unwrap();
        let notices: Vec<_> = std::iter::from_fn(|| track.poll_notice()).collect();
        assert!(matches!(notices[..], [Notice::Began(..)]), "{name}: it is no other sender, {notices:?}");
        let receivers: Vec<_> = hall.sender.served_programmes().map(|one| one.receivers).collect();
        assert_eq!(receivers, [3, 0], "{name}");

        hall.run_until(hall.at(16_000));
        assert!(hall.sender.is_finished(), "{name}");
        for other in [0, 1] {
            assert_eq!(lost(&hall, other), (0, 0, 0), "{name} {other}");
            assert_eq!(played(&hall, other, hall.at(0), hall.at(16_000)), [1], "{name} {other}");
            let one = &hall.listeners[other];
            let (last, _) = *one.played.lock().unwrap().last().unwrap();
            assert!(
                last + 256 >= 12 * SECOND && one.session.is_finished(),
                "{name} {other}: to the end, {last}"
            );
        }
    }
}

#[test]
fn a_wish_gets_through_losses_and_receivers_stay_in_step() {
    let mut hall =
        Hall::with_programmes("rtp", "delay=5ms,loss=20%", [20 * SECOND, 20 * SECOND], Some(ms(80)));
    for _ in 0..3 {
        join(&mut hall, Some("Film"));
    }
    hall.run_until(hall.at(4_000));
    for turn in 0..6_u64 {
        let now = hall.now;
        let (wish, programme) = if turn % 2 == 0 { ("News", 1) } else { ("Film", 2) };
        hall.listeners[0].session.choose_programme(now, wish);
        hall.run_until(now + ms(2_000));
        let heard = first(&hall, 0, programme, now);
        assert!(heard <= ms(1_000), "turn {turn}: {heard:?}");
        assert_eq!(played(&hall, 1, now, hall.now), [2], "others go on");
    }
    let step = hall.listeners[0].session.in_step(hall.now).expect("it follows its sender's clock");
    assert!(step.kept && step.delay.abs_diff(ms(80)) < ms(1), "{step:?}");
}

#[test]
fn a_name_that_is_none_changes_nothing_and_is_told_with_the_list() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [4 * SECOND, 4 * SECOND], None);
    join(&mut hall, Some("Sport"));
    hall.run_until(hall.at(1_000));
    let told = list(&mut hall, 0);
    assert_eq!((told.refused.as_deref(), told.current, told.programmes.len()), (Some("Sport"), 0, 2));
    assert_eq!(played(&hall, 0, hall.at(0), hall.at(1_000)), [1]);
    // A later wish that there is takes its place.
    let now = hall.now;
    hall.listeners[0].session.choose_programme(now, "Film");
    hall.run_until(now + ms(1_000));
    let told = list(&mut hall, 0);
    assert_eq!((told.refused, told.current), (None, 1));
    assert_eq!(lost(&hall, 0), (0, 0, 0));
}

#[test]
fn the_end_of_a_programme_ends_no_other() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [SECOND, 4 * SECOND], None);
    join(&mut hall, Some(""));
    join(&mut hall, Some("Film"));
    hall.run_until(hall.at(2_000));
    let now = hall.now;
    assert!(!hall.sender.is_finished());
    hall.listeners[0].session.choose_programme(now, "Film");
    hall.run_until(now + ms(1_000));
    assert!(first(&hall, 0, 2, now) <= ms(200));
    assert!(list(&mut hall, 0).programmes[0].ended, "the list is read anew with a wish");
    hall.run_until(hall.at(6_000));
    assert!(hall.sender.is_finished() && hall.listeners.iter().all(|one| one.session.is_finished()));
    assert_eq!(lost(&hall, 1), (0, 0, 0));
}

#[test]
fn a_sender_without_programmes_is_not_asked_for_ever() {
    let mut hall = Hall::new("rtp", "delay=1ms", 30 * SECOND, 2, None);
    join(&mut hall, Some("Film"));
    hall.run_until(hall.at(12_000));
    let receiver = &mut hall.listeners[0].session;
    assert!(receiver.tells_no_programmes() && receiver.programme_list().is_none());
    assert_eq!(played(&hall, 0, hall.at(0), hall.at(12_000)), [1]);
    assert_eq!(lost(&hall, 0), (0, 0, 0));
}

#[test]
fn who_has_not_proved_its_address_is_told_nothing_of_programmes() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [4 * SECOND, 4 * SECOND], None);
    join(&mut hall, None);
    hall.run_until(hall.at(500));
    let (now, forged) = (hall.now, PathId(9));
    let mut buf = [0; ProgrammeQuestion::MOST];
    let question = ProgrammeQuestion { ssrc: 5, from: 0, id: 1, wish: Some("Film".into()) };
    let len = question.write(&mut buf);
    for _ in 0..100 {
        hall.sender.handle_input(now, WIRE, datagram(&mut buf[..len], forged, now));
    }
    let sent = Sent::of(&mut hall.sender, now).datagrams;
    assert!(sent.iter().all(|(_, path, _)| *path != forged), "nothing is sent to a forged address");
}

#[test]
fn answers_of_others_and_senseless_ones_change_nothing() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [4 * SECOND, 4 * SECOND], None);
    join(&mut hall, Some("Film"));
    hall.run_until(hall.at(1_000));
    let before = list(&mut hall, 0);
    let now = hall.now;
    let answer = ProgrammeAnswer { ssrc: 7, current: 9, count: 2, ..ProgrammeAnswer::default() };
    let many = ProgrammeAnswer { current: 0, count: 60_000, ..answer.clone() };
    for (answer, path) in [(&answer, PathId(0)), (&many, PathId(0)), (&many, PathId(3))] {
        let mut buf = [0; ProgrammeAnswer::MOST];
        let len = answer.write(&mut buf);
        hall.listeners[0].session.handle_input(now, WIRE, datagram(&mut buf[..len], path, now));
    }
    hall.run_until(hall.at(3_000));
    assert!(hall.listeners[0].session.programme_list().is_none(), "nothing has changed");
    assert_eq!(before.current, 1);
    assert_eq!(played(&hall, 0, hall.at(0), hall.at(3_000)), [2]);
    assert_eq!(lost(&hall, 0), (0, 0, 0));
}

#[test]
fn an_answer_to_an_earlier_wish_is_passed_over() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [6 * SECOND, 6 * SECOND], None);
    join(&mut hall, Some("Film"));
    hall.run_until(hall.at(1_000));
    let ssrc = hall.sender.send_track().unwrap().packetiser().ssrc();
    let now = hall.now;
    hall.listeners[0].session.choose_programme(now, "Film");
    // It comes late: the first wish was for the other one.
    let late = ProgrammeAnswer { ssrc, current: 0, count: 2, id: 0, ..ProgrammeAnswer::default() };
    let mut buf = [0; ProgrammeAnswer::MOST];
    let len = late.write(&mut buf);
    hall.listeners[0].session.handle_input(now, WIRE, datagram(&mut buf[..len], PathId(0), now));
    hall.run_until(hall.at(3_000));
    assert_eq!(played(&hall, 0, hall.at(0), hall.at(3_000)), [2]);
    assert_eq!((list(&mut hall, 0).current, lost(&hall, 0)), (1, (0, 0, 0)));
}

#[test]
fn who_asks_too_often_is_answered_now_and_then() {
    let mut hall = Hall::with_programmes("rtp", "delay=1ms", [4 * SECOND, 4 * SECOND], None);
    join(&mut hall, None);
    hall.run_until(hall.at(500));
    let (began, mut sent) = (hall.now, 0);
    let mut buf = [0; ProgrammeQuestion::MOST];
    for n in 0..1_000_u16 {
        let now = began + Duration::from_micros(100) * u32::from(n);
        let wish = Some(if n % 2 == 0 { "Film" } else { "News" }.to_string());
        let len = ProgrammeQuestion { ssrc: 5, from: 0, id: n, wish }.write(&mut buf);
        hall.sender.handle_input(now, WIRE, datagram(&mut buf[..len], PathId(0), now));
        let datagrams = Sent::of(&mut hall.sender, now).datagrams;
        sent += datagrams.iter().filter(|(_, _, bytes)| ProgrammeAnswer::parse(bytes).is_some()).count();
    }
    // Within a tenth of a second.
    assert!((5..=11).contains(&sent), "{sent} answers");
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    let mut session = Session::new(session_config("sender", 1), Instant::ZERO);
    let track = |seed| SendTrack::new(Noise::new(format(), SECOND), track_config(format(), seed)).unwrap();
    session.set_send_track(track(1));
    let mut named =
        |first: &str, second: &str| session.set_programmes(first, vec![(second.into(), track(2))]);
    assert_eq!(named("News", "news"), Err(ProgrammesError::Twice { number: 2 }));
    assert_eq!(named("", "News"), Err(ProgrammesError::Name { number: 1 }));
    assert_eq!(named("News", "a\u{1b}b"), Err(ProgrammesError::Name { number: 2 }));
    assert_eq!(named("News", &"x".repeat(65)), Err(ProgrammesError::Name { number: 2 }));
    let many = (0..64_u64).map(|n| (format!("{n}"), track(n))).collect();
    assert_eq!(session.set_programmes("News", many), Err(ProgrammesError::TooMany { count: 65 }));
}
