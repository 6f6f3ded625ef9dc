//! Receivers of one sender play the same sample frame at the same time.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_session::SharedClock;

use crate::hall::Hall;
use crate::world::ms;

/// Receivers with clocks up to 100 ppm off, which come one after the other.
fn play(name: &'static str, link: &'static str, receivers: usize, seconds: u64, delay: Duration) -> Hall {
    let mut hall = Hall::new(name, link, (seconds + 1) * 48_000, 20, Some(delay));
    listen(&mut hall, receivers, seconds);
    hall
}

fn listen(hall: &mut Hall, receivers: usize, seconds: u64) {
    for n in 0..receivers {
        let ppm = [100.0, -100.0, 37.0, -60.0, 0.0, 88.0, -5.0, 60.0][n % 8];
        hall.join(ppm, Duration::from_millis(1 + 977 * n as u64));
        hall.run_until(hall.now + ms(if n == 0 { 900 } else { 350 }));
    }
    hall.run_until(hall.at(1_000 * seconds));
}

/// By how much the receivers differ in playing a sample frame, in milliseconds, sorted; one sample frame in so many.
fn differences(hall: &Hall, from: u64, to: u64) -> Vec<f64> {
    let mut all: Vec<f64> = (from..to)
        .step_by(997)
        .map(|frame| {
            let at = hall.listeners.iter().filter_map(|one| one.played_at(frame));
            let (least, most) =
                at.fold((f64::MAX, f64::MIN), |(least, most), at| (least.min(at), most.max(at)));
            (most - least) * 1e3
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

#[test]
fn eight_receivers_with_other_clocks_play_within_a_fifth_of_a_millisecond() {
    for receivers in [2, 8] {
        let hall = play("rtp", "ethernet", receivers, 40, ms(80));
        let all = differences(&hall, 14 * 48_000, 39 * 48_000);
        assert!(all.len() > 1_000);
        let (p99, worst) = (percentile(&all, 0.99), percentile(&all, 1.0));
        println!("{receivers}: p99 {p99:.4} ms, worst {worst:.4} ms");
        assert!(p99 <= 0.2 && worst <= 0.25, "{receivers}: {p99} ms, worst {worst} ms");
        for (n, one) in hall.listeners.iter().enumerate() {
            let now = one.clock.local(hall.now);
            let step = one.session.in_step(now).expect("the clock is known");
            assert!(
                step.kept && step.error.is_some_and(|error| error < Duration::from_micros(100)),
                "{n}: {step:?}"
            );
            let off = step.delay.as_secs_f64() * 1e3 - 80.0;
            assert!(off.abs() < 0.2, "{n}: {off} ms off the picture");
            let playout = one.session.receive_track().unwrap().playout().unwrap();
            assert_eq!((playout.lost, playout.late), (0, 0), "{n}");
        }
        // What each tells the sender.
        for receiver in hall.sender.receivers() {
            let heard = receiver.member.and_then(|member| member.hearing).expect("it tells how it fares");
            assert!(heard.received > 5_000 && heard.late == 0, "{heard:?}");
            assert!((heard.delay.unwrap().as_secs_f64() - 0.08).abs() < 0.0005, "{heard:?}");
        }
    }
}

/// What nobody sets adapts; the sender's wish is stronger.
#[test]
fn receivers_whose_delay_adapts_play_in_step_where_the_sender_wishes_it() {
    let auto = "auto".parse().expect("a playout delay");
    let mut hall = Hall::new("rtp", "ethernet", 31 * 48_000, 20, Some(ms(80)));
    hall.latency = auto;
    listen(&mut hall, 4, 30);
    let all = differences(&hall, 14 * 48_000, 29 * 48_000);
    let (p99, worst) = (percentile(&all, 0.99), percentile(&all, 1.0));
    println!("adapting: p99 {p99:.4} ms, worst {worst:.4} ms");
    assert!(all.len() > 700 && p99 <= 0.2 && worst <= 0.25, "{p99} ms, worst {worst} ms");
    for one in &hall.listeners {
        let step = one.session.in_step(one.clock.local(hall.now)).expect("the clock is known");
        let off = step.delay.as_secs_f64() * 1e3 - 80.0;
        assert!(step.kept && off.abs() < 0.2, "{step:?}");
        assert_eq!(one.session.receive_track().unwrap().adapted(), None, "nothing adapts meanwhile");
    }
    let mut hall = Hall::new("rtp", "ethernet", 31 * 48_000, 20, None);
    hall.latency = auto;
    listen(&mut hall, 2, 30);
    for one in &hall.listeners {
        let adapted = one.session.receive_track().unwrap().adapted().expect("it adapts");
        assert!(adapted.in_force < ms(10), "{adapted:?}");
    }
}

/// By the arrivals of packets they would differ by ten milliseconds.
#[test]
fn receivers_at_other_distances_play_in_step_too() {
    let mut hall = Hall::new("rtp", "ethernet", 31 * 48_000, 20, Some(ms(80)));
    for (link, ppm) in [
        ("ethernet", 100.0),
        ("delay=2ms,jitter=50us/exponential", -100.0),
        ("delay=10ms,jitter=50us/exponential", 50.0),
    ] {
        hall.link = link;
        hall.join(ppm, ms(5));
    }
    hall.run_until(hall.at(30_000));
    let all = differences(&hall, 10 * 48_000, 29 * 48_000);
    let (p99, worst) = (percentile(&all, 0.99), percentile(&all, 1.0));
    println!("at other distances: p99 {p99:.4} ms, worst {worst:.4} ms");
    assert!(all.len() > 900 && p99 <= 0.2 && worst <= 0.25, "{p99} ms, worst {worst} ms");
}

#[test]
fn members_of_a_group_play_in_step_too() {
    let mut hall = Hall::group("ethernet", 26 * 48_000, ms(80));
    listen(&mut hall, 6, 25);
    let all = differences(&hall, 14 * 48_000, 24 * 48_000);
    let (p99, worst) = (percentile(&all, 0.99), percentile(&all, 1.0));
    println!("group: p99 {p99:.4} ms, worst {worst:.4} ms");
    assert!(all.len() > 450 && p99 <= 0.2 && worst <= 0.25, "{p99} ms, worst {worst} ms");
    let heard = hall.sender.members().iter().filter_map(|member| member.hearing);
    assert_eq!(heard.filter(|heard| heard.delay.is_some() && heard.late == 0).count(), 6);
}

/// Time of the clock that all hosts follow, at the world's beginning.
const SHARED: Duration = Duration::from_secs(1_795_824_037);

/// Runs for so many seconds; four times in each, receivers whose clocks are steered read the shared one, which is `off` for the last of them.
fn follow(hall: &mut Hall, seconds: u64, off: Duration) {
    for _ in 0..4 * seconds {
        let last = hall.listeners.len() - 1;
        for (n, one) in hall.listeners.iter_mut().enumerate() {
            let time = SHARED + Duration::from_nanos(hall.now.as_nanos());
            let time = if n == last { time + off } else { time };
            let at = one.clock.local(hall.now);
            one.session.set_shared_time(|| (at, time));
        }
        hall.run_until(hall.now + ms(250));
    }
}

/// Receivers of a sender whose time stamps count a clock that they have, too; it wishes nothing.
fn by_shared_clock(off: Duration) -> Hall {
    let mut hall = Hall::new("rtp", "ethernet", 31 * 48_000, 20, None);
    for (link, ppm) in [
        ("ethernet", 100.0),
        ("delay=2ms,jitter=50us/exponential", -100.0),
        ("ethernet", 0.0),
        ("delay=10ms,jitter=50us/exponential", 50.0),
    ] {
        hall.link = link;
        hall.join(ppm, ms(977));
    }
    while hall.first_packet.is_none() {
        hall.run_until(hall.now + ms(1));
    }
    let (stamp, sent) = hall.first_packet.expect("it has left");
    let frames = (SHARED + Duration::from_nanos(sent.as_nanos())).as_nanos() * 48_000 / 1_000_000_000;
    let clock = SharedClock { offset: stamp.wrapping_sub(frames as u32), delay: ms(40) };
    hall.listeners.iter_mut().for_each(|one| one.session.follow_shared_clock(clock));
    follow(&mut hall, 28, off);
    hall
}

#[test]
fn receivers_play_in_step_by_a_clock_that_time_stamps_count() {
    let hall = by_shared_clock(Duration::ZERO);
    let all = differences(&hall, 3 * 48_000, 27 * 48_000);
    let (p99, worst) = (percentile(&all, 0.99), percentile(&all, 1.0));
    println!("by a shared clock: p99 {p99:.4} ms, worst {worst:.4} ms");
    assert!(all.len() > 900 && p99 <= 0.2 && worst <= 0.25, "{p99} ms, worst {worst} ms");
    for one in &hall.listeners {
        let step = one.session.in_step(one.clock.local(hall.now)).expect("the clock is known");
        let off = step.delay.as_secs_f64() * 1e3 - 40.0;
        assert!(step.kept && off.abs() < 0.2 && step.error.is_none() && step.apart.is_none(), "{step:?}");
        let playout = one.session.receive_track().unwrap().playout().unwrap();
        assert_eq!((playout.lost, playout.late), (0, 0));
    }
}

#[test]
fn a_clock_that_is_not_the_senders_is_not_followed() {
    let hall = by_shared_clock(Duration::from_secs(37));
    for (n, one) in hall.listeners.iter().enumerate() {
        let step = one.session.in_step(one.clock.local(hall.now)).expect("a clock was read");
        let is_other = n + 1 == hall.listeners.len();
        assert_eq!((step.kept, step.apart.is_some()), (!is_other, is_other), "{step:?}");
        if let Some(apart) = step.apart {
            assert!(apart.abs_diff(Duration::from_secs(37)) < ms(200), "{apart:?}");
        }
        // It plays by its packets.
        let playout = one.session.receive_track().unwrap().playout().unwrap();
        assert_eq!((playout.lost, playout.late), (0, 0), "{n}");
        assert!(one.played.lock().unwrap().len() > 1_000, "{n}");
    }
}

/// A process that does not follow a shared clock does not pay for reading it once a second.
#[test]
fn a_shared_clock_that_nobody_follows_is_not_read() {
    let mut hall = Hall::new("rtp", "ethernet", 48_000, 20, None);
    hall.join(0.0, ms(1));
    let session = &mut hall.listeners[0].session;
    session.set_shared_time(|| unreachable!("nobody follows it"));
    session.follow_shared_clock(SharedClock { offset: 0, delay: ms(40) });
    let mut reads = 0;
    session.set_shared_time(|| {
        reads += 1;
        (Instant::ZERO, SHARED)
    });
    assert_eq!(reads, 1);
}

#[test]
fn the_first_sample_is_played_in_step_already() {
    let hall = play("rtp", "ethernet", 4, 6, ms(80));
    for one in &hall.listeners {
        let (first, at) = one.played.lock().unwrap()[0];
        // The stream began with the first receiver.
        let other = hall.listeners[0].played_at(first).expect("the first one plays it, too");
        let off = (at.as_nanos() as f64 / 1e9 - other).abs() * 1e3;
        assert!(off < 0.5, "{off} ms");
    }
}

#[test]
fn without_the_senders_wish_receivers_stand_by_the_packets_that_came() {
    let mut hall = Hall::new("rtp", "ethernet", 480_000, 20, None);
    for n in 0..2 {
        hall.join(0.0, ms(n));
    }
    hall.run_until(hall.at(3_000));
    let now = hall.now;
    let step = hall.listeners[0].session.in_step(hall.listeners[0].clock.local(now));
    assert!(step.is_some_and(|step| !step.kept), "{step:?}");
}
