//! Two SRP endpoints under forged packets, floods, restarts, silence, congestion and clocks that jump.

mod jumps;
mod world;

use std::time::Duration;

use antiphon_core::{CloseMode, Event, Instant, Message, Outcome, Role, Tag};
use antiphon_proto::srp::Mode;
use antiphon_proto::srp::wire::Packet;
use antiphon_proto::srp::wire::extended::{Extended, Nack, Report, Wanted};

use crate::world::{Pair, hear, identity, open};

fn packet(extended: &Extended<'_>) -> Vec<u8> {
    let mut buf = [0; 200];
    let len = extended.emit(&mut buf).expect("room");
    buf[..len].to_vec()
}

#[test]
fn the_last_message_before_a_close_is_repaired() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(20, false);
    pair.lose(1);
    pair.send(0, &[99; 200]);
    let now = pair.world.now;
    pair.side(0).endpoint.close(now, CloseMode::Graceful);
    pair.run(Duration::from_millis(300));
    assert_eq!(pair.got().last(), Some(&&[99; 200][..]));
    assert!(pair.side(0).closed == 1);
}

#[test]
fn silence_costs_nothing() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(100, true);
    pair.run(Duration::from_secs(2));
    let before = pair.sent();
    assert_eq!([0, 1].map(|at| pair.side(at).endpoint.poll_timeout()), [None, None]);
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.sent(), before, "no probe, no request while nothing comes");
}

#[test]
fn a_vanished_client_gets_less_until_it_is_back() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(100, true);
    pair.lose(usize::MAX);
    let before = pair.sent();
    for _ in 0..20 {
        pair.stream(100, false);
    }
    // 50 messages of 216 bytes a second for five seconds and up to one more, then half of that, a quarter, an eighth, and
    // 3.1 a second for the other half minute; a few requests and probes. Without the guard it would be 432 kB.
    let sent = pair.sent()[0] - before[0];
    assert!((80_000..110_000).contains(&sent), "{sent}");
    pair.lose(0);
    pair.stream(50, false);
    pair.side(1).messages.clear();
    pair.stream(100, false);
    pair.run(Duration::from_millis(20));
    assert_eq!(pair.got().len(), 100);
}

#[test]
fn forged_probes_never_go_round_for_ever() {
    for (mode, forged) in [
        (Mode::AsPublished, Packet::Probe { time: 5 }),
        (Mode::AsPublished, Packet::Probe { time: 1 << 31 | 5 }),
    ] {
        for both_ways in [false, true] {
            let mut pair = Pair::new(mode);
            pair.stream(10, both_ways);
            let mut buf = [0; 8];
            forged.emit(&mut buf).expect("room");
            let before = pair.sent();
            (0..1000).for_each(|n| pair.inject(n % 2, &buf));
            pair.run(Duration::from_millis(500));
            // The published client's usual requests, 24 bytes every 20 ms at most, and some probes of 8 bytes.
            let sent: u64 = pair.sent().iter().sum::<u64>() - before.iter().sum::<u64>();
            assert!(sent < 2 * 25 * 24 + 100 * 8, "{sent} bytes");
        }
    }
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(10, true);
    let before = pair.sent();
    let probe =
        packet(&Extended::Probe { epoch: 3, time: 9, report: Report::default(), wanted: Wanted::default() });
    (0..1000).for_each(|n| pair.inject(n % 2, &probe));
    pair.run(Duration::from_secs(1));
    let sent: u64 = pair.sent().iter().sum::<u64>() - before.iter().sum::<u64>();
    assert!(sent < 300, "an echo each, and the requests for what is overdue: {sent} bytes");
}

#[test]
fn a_flood_of_requests_costs_no_more_than_was_sent() {
    for (mode, multiple) in [(Mode::Improved, 1), (Mode::AsPublished, 16)] {
        let mut pair = Pair::new(mode);
        pair.stream(100, false);
        let before = pair.sent()[0];
        let (known, first) = identity(1);
        for n in 0..20_000u32 {
            let mut nack = [0; 200];
            let len = match mode {
                Mode::AsPublished => Packet::Nack { time: n, status: 0, id: n % 150 }.emit(&mut nack),
                Mode::Improved => {
                    let (epoch, first) = (known + n % 128, first.wrapping_add(n % 150));
                    Extended::Nack(Nack { epoch, time: n, first, more: &[0xff; 32] }).emit(&mut nack)
                }
            };
            pair.inject(0, &nack[..len.expect("room")]);
            if n % 20 == 0 {
                pair.run(Duration::from_millis(1));
            }
        }
        let repairs = pair.sent()[0] - before;
        assert!(repairs <= multiple * before + 16_000, "{mode:?}: {repairs} bytes for {before}");
        assert!(repairs > before / 2, "{mode:?}: what is asked for is sent: {repairs} bytes for {before}");
    }
}

/// The known stream must have been silent for a second, so that no forged packet ends it.
#[test]
fn a_restarted_sender_is_heard_within_1_2_seconds() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(50, false);
    pair.side(0).endpoint = open(Mode::Improved, Role::Caller, 2, pair.world.now);
    pair.side(1).messages.clear();
    pair.stream(100, false);
    pair.run(Duration::from_millis(200));
    let mut numbers: Vec<u8> = pair.got().iter().map(|message| message[0]).collect();
    numbers.sort_unstable();
    let first = numbers[0];
    assert!((45..60).contains(&first), "{first} messages of 20 ms passed");
    assert_eq!(numbers, (first..100).collect::<Vec<u8>>(), "all from then on");
}

/// One that begins when the old one has ended long ago is heard from its first message.
#[test]
fn a_sender_restarted_later_is_heard_from_the_beginning() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(50, false);
    pair.run(Duration::from_secs(2));
    pair.side(0).endpoint = open(Mode::Improved, Role::Caller, 2, pair.world.now);
    pair.side(1).messages.clear();
    pair.stream(50, false);
    pair.run(Duration::from_millis(200));
    let mut numbers: Vec<u8> = pair.got().iter().map(|message| message[0]).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<u8>>());
}

#[test]
fn congestion_that_the_peer_reports_is_one_event() {
    let mut pair = Pair::new(Mode::Improved);
    pair.stream(3, false);
    let congested = |pair: &mut Pair| pair.side(0).congested + pair.side(1).congested;
    let before = congested(&mut pair);
    let (epoch, _) = identity(1);
    for n in 0..5 {
        let report = Report { highest: n, settled: n, received: 80 * n, lost: 20 * n, queueing_us: 300_000 };
        pair.inject(0, &packet(&Extended::Probe { epoch, time: n, report, wanted: Wanted::default() }));
        pair.run(Duration::from_millis(5));
    }
    let told = congested(&mut pair) - before;
    assert_eq!(told, 1, "{:?}", pair.side(0).events);
}

#[test]
fn the_other_mode_is_counted_as_malformed_and_not_answered() {
    for (mode, other) in [(Mode::Improved, Mode::AsPublished), (Mode::AsPublished, Mode::Improved)] {
        let mut pair = Pair::new(mode);
        pair.side(0).endpoint = open(other, Role::Caller, 1, Instant::ZERO);
        pair.stream(20, false);
        assert_eq!(pair.side(1).counters().malformed, 20);
        assert_eq!((pair.sent()[1], pair.got().len()), (0, 0));
    }
}

/// Another client may choose its times freely: they may have our mark.
#[test]
fn a_pure_sender_returns_every_probe() {
    for time in [5, 1 << 31 | 5] {
        for role in [Role::Caller, Role::Listener] {
            let mut side = open(Mode::AsPublished, role, 1, Instant::ZERO);
            side.send(Instant::ZERO, Message::new(Tag::NONE, b"x", None)).expect("accepted");
            let mut buf = [0; 1500];
            side.poll_transmit(Instant::ZERO, &mut buf).expect("a message");
            let mut probe = [0; 8];
            Packet::Probe { time }.emit(&mut probe).expect("room");
            hear(&mut *side, Instant::from_millis(500), &probe);
            let answer = side.poll_transmit(Instant::from_millis(500), &mut buf).expect("an answer");
            assert_eq!(buf[..answer.len], probe);
        }
    }
}

#[test]
fn the_rest_of_a_long_message_is_not_sent_after_its_deadline() {
    let mut side = open(Mode::Improved, Role::Caller, 1, Instant::ZERO);
    let deadline = Some(Instant::from_millis(20));
    let tag = Tag(7);
    side.send(Instant::ZERO, Message::new(tag, &[1; 6000], deadline)).expect("accepted");
    let mut buf = [0; 1500];
    for ms in [0, 20] {
        assert!(side.poll_transmit(Instant::from_millis(ms), &mut buf).is_some());
    }
    assert_eq!(side.poll_transmit(Instant::from_millis(21), &mut buf), None);
    let outcome = Outcome::Expired { maybe_received: true };
    let events: Vec<Event> = std::iter::from_fn(|| side.poll_event()).collect();
    assert_eq!(events, [Event::Connected, Event::Outcome { tag, outcome }]);
}
