//! A peer that comes in the middle of a film, or asks for a key frame, is sent what came since the last one.

use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::rtcp::PictureLoss;
use antiphon_session::{SharedPath, SharedPaths};
use antiphon_testkit::{Kept, expected, stereo};

use crate::common::WIRE;
use crate::hall::Hall;
use crate::video::{Pictures, Shared, with_pictures, with_track};
use crate::world::{World, datagram, datagram_transports, ms, receive_session, send_session};

/// From one key frame to the next, as in many files.
const KEYS: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(40);

/// A receiver that joins, and sees pictures.
fn join(hall: &mut Hall) -> (usize, Shared) {
    let number = hall.join(0.0, Duration::ZERO);
    let seen = Shared::default();
    hall.listeners[number].session.set_video_sink(Box::new(seen.clone()));
    (number, seen)
}

/// The units that came, in the order of coming, each once.
fn units(seen: &Shared) -> Vec<u8> {
    let mut order = seen.0.lock().unwrap().order.clone();
    order.dedup();
    order
}

fn assert_in_order(seen: &Shared, name: &str) {
    let seen = seen.0.lock().unwrap();
    let follows = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
    assert!(seen.numbers.windows(2).all(follows), "{name}: no number is missing or there twice");
}

#[test]
fn who_comes_later_has_the_picture_of_the_moment_within_half_a_second() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let mut hall = Hall::new(name, "delay=10ms,rate=20Mbit/s", 10 * 48_000, 5, None);
        hall.sender = with_pictures(hall.sender, Pictures::new(INTERVAL, 4, 220).keys(KEYS));
        hall.run_until(hall.at(500));
        let (_, first) = join(&mut hall);
        let mut later = Vec::new();
        // The stream begins with the first receiver, at 0.5 s; key frames are due at 0, 2 and 4 s of it.
        for joins in [2_700, 4_350, 5_400] {
            hall.run_until(hall.at(joins));
            let (number, seen) = join(&mut hall);
            hall.run_until(hall.at(joins + 500));
            // It is on its way for 20 ms, as is the question, and its packets are spread over 20 ms.
            let unit = |millis: u64| ((millis - 500 - 60) / 40) as u8;
            let (due, key) = (unit(joins + 480), unit(joins) / KEYS as u8 * KEYS as u8);
            let came = units(&seen);
            assert_eq!(came[0], key, "{name}, {joins}: it begins with the key frame, {came:?}");
            assert!(came.contains(&due), "{name}, {joins}: {due} is not in {came:?}");
            // A key frame that is due meanwhile ends it.
            let follows = |pair: &[u8]| pair[1] == pair[0] + 1 || u64::from(pair[1]) % KEYS == 0;
            assert!(came.windows(2).all(follows), "{name}, {joins}: {came:?}");
            assert_in_order(&seen, name);
            later.push((number, seen));
        }
        hall.run_until(hall.at(11_000));
        assert_eq!(first.whole(4).len(), 220, "{name}");
        for (number, seen) in later {
            let (came, whole) = (units(&seen), seen.whole(4).len());
            let is_cut = came.windows(2).any(|pair| pair[1] != pair[0] + 1);
            assert!(came.len() - whole <= usize::from(is_cut), "{name} {number}: {whole} of {came:?}");
            let packets = seen.0.lock().unwrap().numbers.len();
            assert!((4 * whole..=4 * came.len()).contains(&packets), "{name} {number}: each once");
            assert_eq!(came.last(), Some(&219), "{name} {number}");
            assert_in_order(&seen, name);
            let playout = hall.listeners[number].session.receive_track().unwrap().playout().unwrap();
            assert_eq!((playout.lost, playout.late), (0, 0), "{name}: the sound is not held up");
        }
        assert_eq!(hall.sender.video_sent().next().unwrap().caught_up, 3, "{name}");
    }
}

/// It is sent at five times the rate of the film, and not at once.
#[test]
fn what_is_sent_again_is_spread() {
    let mut hall = Hall::new("rtp", "delay=10ms", 10 * 48_000, 5, None);
    hall.sender = with_pictures(hall.sender, Pictures::new(INTERVAL, 4, 220).keys(KEYS));
    let _ = join(&mut hall);
    hall.run_until(hall.at(1_900));
    let (_, seen) = join(&mut hall);
    let (mut most, mut before) = (0, 0);
    for step in 1..60 {
        hall.run_until(hall.at(1_900 + 10 * step));
        let came = seen.0.lock().unwrap().numbers.len();
        (most, before) = (most.max(came - before), came);
    }
    // 13 of them at first, with what their headers take, and 190 in 400 ms.
    assert!((13..=19).contains(&most), "{most} packets of 1000 bytes in 10 ms");
}

/// A receiver that was started again asks for a key frame. It is answered twice, and so is nobody else.
#[test]
fn a_question_for_a_key_frame_is_answered_twice() {
    let pictures = Pictures::new(INTERVAL, 2, 95).keys(1_000);
    let near = with_pictures(send_session("rtp", stereo(), 4 * 48_000, 5), pictures);
    let (kept, seen) = (Kept::default(), Shared::default());
    seen.0.lock().unwrap().wants_after = Some(50);
    let mut far = receive_session("rtp", None, &kept);
    far.set_video_sink(Box::new(seen.clone()));
    let mut world = World::linked(near, far, "delay=10ms", 3);
    world.run(Instant::from_millis(60_000));
    let sent = world.near.video_sent().next().unwrap();
    assert_eq!((sent.units, sent.caught_up), (95, 2));
    let order = units(&seen);
    let begins = order.iter().filter(|unit| **unit == 0).count();
    assert_eq!((begins, order.last()), (3, Some(&94)), "{order:?}");
    assert_in_order(&seen, "rtp");
    assert!(kept.samples() == expected(stereo(), 0, 4 * 48_000));
}

/// Who names other pictures, or asks under ever new names, does not get more.
#[test]
fn questions_without_end_cost_two_answers_in_ten_seconds() {
    let mut hall = Hall::new("rtp", "delay=1ms", 10 * 48_000, 5, None);
    hall.sender = with_pictures(hall.sender, Pictures::new(INTERVAL, 4, 220).keys(KEYS));
    let (_, seen) = join(&mut hall);
    hall.run_until(hall.at(1_000));
    let ask = |hall: &mut Hall, ssrc: u32, pictures: u32, path: u32| {
        let mut bytes = PictureLoss { ssrc, pictures }.to_bytes();
        let now = hall.now;
        hall.sender.handle_input(now, WIRE, datagram(&mut bytes, PathId(path), now));
    };
    let right = seen.0.lock().unwrap().ssrc;
    for n in 0..400 {
        ask(&mut hall, n, right ^ 1, 0);
        // An address that has never called.
        ask(&mut hall, n, right, 9);
        hall.run_until(hall.now + ms(5));
    }
    assert_eq!(hall.sender.video_sent().next().unwrap().caught_up, 0);
    for n in 0..600 {
        ask(&mut hall, n, right, 0);
        hall.run_until(hall.now + ms(5));
    }
    let answers = hall.sender.video_sent().next().unwrap().caught_up;
    assert_eq!(answers, 2, "in 3 s");
    hall.run_until(hall.at(11_000));
    assert_eq!(units(&seen).last(), Some(&219));
}

/// Where the path has room for little more than the film, the next key frame is waited for.
#[test]
fn a_narrow_path_is_not_filled_with_what_is_over() {
    // The sound takes 1.6 Mbit/s, the pictures 0.4.
    for (rate, answers) in [("1.9Mbit/s", 0), ("10Mbit/s", 2)] {
        let pictures = Pictures::new(INTERVAL, 2, 95).keys(1_000);
        let near = with_track(send_session("rtp", stereo(), 4 * 48_000, 5), pictures);
        let (kept, seen) = (Kept::default(), Shared::default());
        seen.0.lock().unwrap().wants_after = Some(50);
        let mut far = receive_session("rtp", None, &kept);
        far.set_video_sink(Box::new(seen.clone()));
        let mut world = World::linked(near, far, &format!("delay=10ms,rate={rate}"), 3);
        world.near.set_congestion_manager(Box::new(SharedPath::new(2)));
        world.run(Instant::from_millis(60_000));
        assert_eq!(world.near.video_sent().next().unwrap().caught_up, answers, "{rate}");
    }
}

/// Three receivers on paths of their own, one of which has room for a third of the pictures: it gets whole ones that can be decoded, its sound waits no longer than for one of
/// them, and the others get all.
#[test]
fn each_of_several_receivers_gets_what_its_path_carries() {
    for is_shared in [true, false] {
        let mut hall = Hall::new("rtp", "delay=10ms,rate=20Mbit/s", 20 * 48_000, 5, None);
        // 1 Mbit/s beside sound of 0.9.
        hall.sender = with_pictures(hall.sender, Pictures::new(INTERVAL, 5, 480).keys(10));
        if is_shared {
            hall.sender.set_congestion_manager(Box::new(SharedPaths::new(2)));
        }
        let mut seen = Vec::new();
        for link in
            ["delay=10ms,rate=20Mbit/s", "delay=10ms,rate=1.3Mbit/s,queue=200kB", "delay=40ms,rate=5Mbit/s"]
        {
            hall.link = link;
            seen.push(join(&mut hall));
        }
        hall.run_until(hall.at(21_000));
        let whole: Vec<usize> = seen.iter().map(|(_, seen)| seen.whole(5).len()).collect();
        let late: Vec<u64> = seen
            .iter()
            .map(|(number, _)| hall.listeners[*number].session.receive_track().unwrap().playout().unwrap())
            .map(|playout| playout.late + playout.lost)
            .collect();
        assert_eq!((whole[0], late[0], late[2]), (480, 0, 0), "{whole:?}, {late:?}");
        if !is_shared {
            // All that is sent stands in the queue of the slow path, in front of its sound.
            assert!(whole[1] < 100 && late[1] > 300, "{whole:?}, {late:?}");
            continue;
        }
        assert!(late[1] == 0 && whole[1] > 120 && whole[2] > 460, "{whole:?}, {late:?}");
        let came = units(&seen[1].1);
        // Numbers of units are told modulo 256, which 10 does not divide: a key frame is told by what follows from it.
        let chains = came.windows(2).filter(|pair| pair[1] != pair[0].wrapping_add(1)).count();
        assert!(
            came.len() == whole[1] && chains <= 48,
            "each is whole, and of each key frame's only the first come: {came:?}"
        );
        assert_in_order(&seen[1].1, "left out");
    }
}
