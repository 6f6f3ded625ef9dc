//! A member of a group that comes in the middle of a film asks for what came since the last key frame, and all get it once, beside what is due.

use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId};
use antiphon_media::rtcp::PictureLoss;
use antiphon_session::{GroupPaths, Latency, Session};

use crate::common::{WIRE, session_config};
use crate::hall::Hall;
use crate::transits::Transits;
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{datagram, heard, ms};

/// From one key frame to the next, as in many files.
const KEYS: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(40);
const PARTS: u32 = 4;
/// Bytes a second of the pictures.
const RATE: u64 = 25 * PARTS as u64 * 1_044;

fn film(link: &'static str, seconds: u64) -> Hall {
    with_film(
        Hall::group(link, seconds * 48_000, ms(80)),
        Pictures::new(INTERVAL, PARTS, 25 * seconds).keys(KEYS),
    )
}

pub fn with_film(mut hall: Hall, pictures: Box<Pictures>) -> Hall {
    let nobody = Session::new(session_config("nobody", 1), Instant::ZERO);
    let sender = std::mem::replace(&mut hall.sender, nobody);
    hall.sender = with_pictures(sender, pictures);
    hall
}

/// A member that joins, and can decode nothing before a key frame comes.
fn join(hall: &mut Hall) -> (usize, Shared) {
    let number = hall.join(0.0, Duration::ZERO);
    let seen = Shared::default();
    seen.0.lock().unwrap().wants_repeats = true;
    hall.listeners[number].session.set_group();
    hall.listeners[number].session.set_video_sink(Box::new(seen.clone()));
    (number, seen)
}

fn caught_up(hall: &Hall) -> u64 {
    hall.sender.video_sent().next().unwrap().caught_up
}

/// All that came of each picture, by what was sent again and what was due: from which unit to which without a gap, and when that was so.
fn whole_from(seen: &Shared) -> (u8, u8, Option<Instant>) {
    let seen = seen.0.lock().unwrap();
    let first_due = seen.numbers[0];
    let again = seen.again.iter().take_while(|(number, ..)| *number != first_due).collect::<Vec<_>>();
    let follows = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
    let all: Vec<u16> =
        again.iter().map(|(number, ..)| *number).chain(seen.numbers.iter().copied()).collect();
    assert!(all.windows(2).all(follows), "a number is missing, or there twice");
    let first = again.first().map_or(seen.order[0], |(_, unit, _)| *unit);
    (first, *seen.order.last().unwrap(), again.last().map(|(.., at)| *at))
}

#[test]
fn a_late_member_of_a_group_has_a_picture_within_a_second() {
    for is_managed in [false, true] {
        let mut hall = film("delay=10ms,rate=20Mbit/s", 12);
        if is_managed {
            hall.sender.set_congestion_manager(Box::new(GroupPaths::new(2)));
        }
        let (_, first) = join(&mut hall);
        first.0.lock().unwrap().wants_repeats = false;
        let mut later = Vec::new();
        for joins in [3_100, 5_900, 8_500] {
            hall.run_until(hall.at(joins));
            let (number, seen) = join(&mut hall);
            hall.run_until(hall.at(joins + 900));
            later.push((number, seen, joins));
        }
        hall.run_until(hall.at(13_000));
        for (number, seen, joins) in &later {
            // The next key frame comes before the last one has been sent again.
            if joins / 40 % KEYS > KEYS - 4 {
                let came = seen.0.lock().unwrap().order.clone();
                assert!(came.iter().position(|unit| u64::from(*unit) % KEYS == 0) < Some(16), "{came:?}");
                continue;
            }
            let (unit, last, since) = whole_from(seen);
            assert_eq!(u64::from(unit), joins / 40 / KEYS * KEYS, "{joins}");
            assert_eq!(u64::from(last), (12 * 25 - 1) & 255, "{joins}");
            let took = since.map(|at| at.since(hall.listeners[*number].joined));
            assert!(took.is_some_and(|took| took < ms(700)), "{joins}: {took:?}");
            println!("managed {is_managed}, {joins}: after {took:?}");
        }
        // The one that was there loses nothing, and gets nothing twice.
        let playout = heard(&hall.listeners[0].session).playout().expect("it played");
        assert_eq!((playout.lost, playout.late), (0, 0));
        let seen = first.0.lock().unwrap();
        let sent = hall.sender.video_sent().next().unwrap();
        assert_eq!((sent.units, sent.left_out, sent.expired), (300, 0, 0), "managed {is_managed}");
        assert_eq!((seen.numbers.len() as u64, seen.again.len()), (300 * u64::from(PARTS), 0));
        assert!((2..=3).contains(&caught_up(&hall)), "{}", caught_up(&hall));
    }
}

/// The clip of 264 kbit/s: pictures of 12 kB, with a key frame every 2.2 s.
pub fn clip(seconds: u64) -> Box<Pictures> {
    Pictures::of_parts(Duration::from_micros(363_636), 18, seconds * 11 / 4, 668)
}

/// However many members there are, the first key frame is sent whole, so that it can be sent again.
#[test]
fn one_that_joins_in_the_first_second_need_not_wait_for_the_second_key_frame() {
    for (there, joins) in [0, 1, 3, 16].into_iter().flat_map(|there| [350, 700, 1_100].map(|at| (there, at)))
    {
        for is_clip in [true, false] {
            let hall = Hall::group("delay=10ms,rate=20Mbit/s", 6 * 48_000, ms(80));
            let pictures = if is_clip { clip(6) } else { Pictures::new(INTERVAL, PARTS, 150).keys(KEYS) };
            let mut hall = with_film(hall, pictures);
            hall.sender.set_congestion_manager(Box::new(GroupPaths::new(2)));
            let members: Vec<_> = (0..there).map(|_| join(&mut hall)).collect();
            members.iter().for_each(|(_, seen)| seen.0.lock().unwrap().wants_repeats = false);
            hall.run_until(hall.at(joins));
            let (number, seen) = join(&mut hall);
            hall.run_until(hall.at(joins + 1_000));
            let (unit, _, since) = whole_from(&seen);
            let took = since.map(|at| at.since(hall.listeners[number].joined));
            let sent = hall.sender.video_sent().next().unwrap();
            println!("{there} there, {joins} ms, clip {is_clip}: unit {unit} after {took:?}, {sent:?}");
            assert_eq!((unit, sent.left_out), (0, 0), "{there} there, {joins} ms, clip {is_clip}");
            assert!(took.is_some_and(|took| took < ms(900)), "{took:?}");
            for (number, seen) in members {
                let playout = heard(&hall.listeners[number].session).playout().expect("it played");
                assert_eq!((playout.lost, playout.late), (0, 0));
                let seen = seen.0.lock().unwrap();
                assert!(seen.order[0] == 0 && seen.again.is_empty());
            }
        }
    }
}

/// A slow path has no room for the first key frame in that time. Until that is known, little is sent: no sound is later than a playout delay of 240 ms, the bound of
/// pictures to one receiver on such a path.
#[test]
fn the_first_key_frame_delays_no_sound_on_a_slow_path() {
    let (slow, fast) = ("delay=10ms,rate=100kbit/s,queue=100kB", "delay=10ms,rate=20Mbit/s");
    for links in [vec![slow], vec![slow; 3], vec![fast, slow, fast], vec![slow; 16]] {
        let mut hall = with_film(Hall::thin_group(fast, 4 * 48_000), clip(4));
        hall.latency = Latency::Of(ms(240));
        hall.sender.set_congestion_manager(Box::new(GroupPaths::new(2)));
        let mut waits = Vec::new();
        for (number, link) in links.iter().chain([&slow]).enumerate() {
            // The last one joins later, and asks for what came since the last key frame.
            let is_last = number == links.len();
            if is_last {
                hall.run_until(hall.at(1_100));
            }
            hall.link = link;
            let (number, seen) = join(&mut hall);
            seen.0.lock().unwrap().wants_repeats = is_last;
            waits.push((*link, Transits::of(&mut hall.listeners[number].session)));
        }
        hall.run_until(hall.at(4_000));
        println!("{} members: {:?}", links.len(), hall.sender.video_sent().next().unwrap());
        for (link, waits) in waits {
            let (count, wait) = (waits.count(), waits.waited(1.0));
            println!("{link}: {count} packets, waited {wait:?}");
            assert!(count >= 40 && wait < ms(240), "{link}: {count} packets, waited {wait:?}");
        }
    }
}

/// They ask at a random time each, and not when they hear the answer of another's question.
#[test]
fn a_hundred_members_that_all_ask_get_one_answer() {
    let mut hall = film("delay=10ms,rate=20Mbit/s", 6);
    let (_, first) = join(&mut hall);
    first.0.lock().unwrap().wants_repeats = false;
    hall.run_until(hall.at(1_100));
    let late: Vec<_> = (0..100).map(|_| join(&mut hall)).collect();
    hall.run_until(hall.at(2_100));
    assert_eq!(caught_up(&hall), 1);
    for (number, seen) in &late {
        let (unit, _, since) = whole_from(seen);
        assert_eq!(unit, 0, "{number}");
        assert!(since.is_some_and(|at| at.since(hall.listeners[*number].joined) < ms(900)), "{since:?}");
    }
    hall.run_until(hall.at(7_000));
    let sent = hall.sender.video_sent().next().unwrap();
    assert!(sent.bytes < RATE * 6 + RATE * 3 / 2, "{sent:?}");
    assert_eq!(first.0.lock().unwrap().numbers.len(), 600);
}

/// Questions under ever new names, from anywhere, cost five answers in ten seconds; those that name other pictures, nothing.
#[test]
fn questions_without_end_are_bounded_in_a_group() {
    let mut hall = film("delay=1ms", 24);
    let (_, seen) = join(&mut hall);
    seen.0.lock().unwrap().wants_repeats = false;
    hall.run_until(hall.at(1_000));
    let right = seen.0.lock().unwrap().ssrc;
    let ask = |hall: &mut Hall, ssrc: u32, pictures: u32| {
        let mut bytes = PictureLoss { ssrc, pictures }.to_bytes();
        let now = hall.now;
        hall.sender.handle_input(now, WIRE, datagram(&mut bytes, PathId(ssrc % 7), now));
    };
    for n in 0..200 {
        ask(&mut hall, n, right ^ 1);
        hall.run_until(hall.now + ms(5));
    }
    assert_eq!(caught_up(&hall), 0);
    for n in 0..4_000 {
        ask(&mut hall, n, right);
        hall.run_until(hall.now + ms(5));
    }
    assert!((9..=11).contains(&caught_up(&hall)), "{} in 20 s", caught_up(&hall));
    hall.run_until(hall.at(25_000));
    let sent = hall.sender.video_sent().next().unwrap();
    // All that could be: two seconds of the film each time.
    assert!(sent.bytes < RATE * (24 + 2 * 11), "{sent:?}");
    assert_eq!(seen.0.lock().unwrap().numbers.len(), 2_400, "the film goes on");
}
