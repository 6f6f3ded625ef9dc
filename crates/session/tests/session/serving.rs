//! A sender that receivers call.

use std::time::Duration;

use antiphon_core::{CloseReason, Instant, Participant, PathId, Rng};
use antiphon_media::rtcp::{App, AppKind, ClockAnswer, ClockQuestion, ClockWord, Hearing};
use antiphon_session::PeerEnd;
use antiphon_testkit::{Sent, Skew};

use crate::common::WIRE;
use crate::hall::{Hall, IDLE};
use crate::world::{datagram, datagram_transports, ms};

const ALIKE: Skew = Skew { ppm: 0.0, ahead: Duration::ZERO };

fn join(hall: &mut Hall) -> usize {
    hall.join(ALIKE.ppm, ALIKE.ahead)
}

/// All that a listener played is one piece of the stream.
fn assert_whole(hall: &Hall, number: usize, name: &str) {
    let one = &hall.listeners[number];
    let playout = one.session.receive_track().unwrap().playout().unwrap();
    assert_eq!((playout.lost, playout.late, playout.concealments), (0, 0, 0), "{name} {number}");
}

#[test]
fn receivers_come_and_go_over_every_transport_and_nobody_else_hears_it() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let mut hall = Hall::new(name, "delay=1ms", 12 * 48_000, 5, None);
        hall.run_until(hall.at(300));
        assert_eq!(hall.sender.sent().track.blocks, 0, "{name}: a file waits for the first");
        for joins in [500, 1_000, 2_000] {
            hall.run_until(hall.at(joins));
            join(&mut hall);
        }
        hall.run_until(hall.at(3_000));
        assert_eq!(hall.sender.served().present, 3, "{name}");
        // One says goodbye, and one is switched off.
        let now = hall.now;
        hall.listeners[0].session.stop(now);
        hall.listeners[1].dead = true;
        hall.run_until(hall.at(4_000));
        assert!(hall.listeners[0].session.is_finished(), "{name}");
        assert_eq!((hall.sender.served().present, hall.sender.served().left), (2, 1), "{name}");
        join(&mut hall);
        hall.run_until(hall.at(3_000) + IDLE + ms(1_500));
        let served = hall.sender.served();
        assert_eq!((served.present, served.left, served.silent), (2, 1, 1), "{name}: {served:?}");
        hall.run_until(hall.at(16_000));
        assert!(hall.sender.is_finished(), "{name}");
        for number in [2, 3] {
            let one = &hall.listeners[number];
            assert!(one.session.is_finished(), "{name} {number}");
            assert_whole(&hall, number, name);
            let (_, first) = one.played.lock().unwrap()[0];
            // The playout delay is 80 ms of it.
            assert!(first.since(one.joined) <= ms(200), "{name} {number}: {:?}", first.since(one.joined));
            let (last, _) = *one.played.lock().unwrap().last().unwrap();
            assert!(last + 256 >= 12 * 48_000, "{name} {number}: to the end, {last}");
        }
        let gone: Vec<_> = hall.sender.receivers().collect();
        assert_eq!(gone.len(), 4, "{name}");
        assert!(gone.iter().all(|one| one.gone.is_some() && one.sent.accepted > 0), "{name}");
    }
}

#[test]
fn who_forges_an_address_has_nothing_sent_there_but_as_much_as_it_sends() {
    for name in ["rtp", "srp", "arq"] {
        let mut hall = Hall::new(name, "delay=1ms", 480_000, 5, None);
        join(&mut hall);
        hall.run_until(hall.at(1_000));
        let asks = |token| {
            let mut sender = question(name, token);
            sender.remove(0)
        };
        let victim = PathId(77);
        let (mut there, mut back) = (0, 0);
        for n in 0..100_u8 {
            let mut bytes = asks([n; 16]);
            there += bytes.len();
            let now = hall.now;
            hall.sender.handle_input(now, WIRE, datagram(&mut bytes, victim, now));
            let sent = Sent::of(&mut hall.sender, now).datagrams;
            back += sent
                .iter()
                .filter(|(_, path, _)| *path == victim)
                .map(|(_, _, bytes)| bytes.len())
                .sum::<usize>();
            hall.run_until(hall.now + ms(20));
        }
        assert!(back > 0 && back <= there, "{name}: {back} bytes for {there}");
        assert_eq!(hall.sender.served().joined, 1, "{name}");
        assert_whole(&hall, 0, name);
    }
}

/// What a receiver's question looks like on the wire.
fn question(name: &str, token: [u8; 16]) -> Vec<Vec<u8>> {
    use antiphon_core::{Message, Role, Tag};
    let now = Instant::from_millis(1);
    let mut endpoint = crate::common::stack_of(name, 9).open(now, Role::Caller);
    let bytes = App { ssrc: 9, kind: AppKind::Ask, token }.to_bytes();
    endpoint.send(now, Message::new(Tag::NONE, &bytes, None)).unwrap();
    let mut buf = vec![0; 2048];
    std::iter::from_fn(|| endpoint.poll_transmit(now, &mut buf).map(|one| buf[..one.len].to_vec())).collect()
}

#[test]
fn one_too_many_is_told_so() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let mut hall = Hall::new(name, "delay=1ms", 4 * 48_000, 2, None);
        for _ in 0..3 {
            join(&mut hall);
            hall.run_until(hall.now + ms(500));
        }
        hall.run_until(hall.at(2_500));
        let refused = &hall.listeners[2].session;
        assert_eq!(refused.peer_end(), Some(PeerEnd::Closed(CloseReason::Refused)), "{name}");
        assert!(refused.is_finished() && hall.listeners[2].played.lock().unwrap().is_empty(), "{name}");
        let served = hall.sender.served();
        assert_eq!((served.present, served.refused), (2, 1), "{name}");
        // When one leaves there is room.
        let now = hall.now;
        hall.listeners[0].session.stop(now);
        hall.run_until(now + ms(300));
        join(&mut hall);
        hall.run_until(now + ms(800));
        let served = hall.sender.served();
        let last = hall.listeners[3].session.peer_end();
        assert_eq!(served.present, 2, "{name}: {served:?}, {last:?}");
        assert!(!hall.listeners[3].played.lock().unwrap().is_empty(), "{name}");
        assert_whole(&hall, 1, name);
    }
}

#[test]
fn lost_questions_and_answers_only_delay_the_beginning() {
    let mut hall = Hall::new("rtp", "delay=5ms,loss=30%", 480_000, 40, None);
    for _ in 0..40 {
        join(&mut hall);
    }
    hall.run_until(hall.at(5_000));
    assert_eq!(hall.sender.served().present, 40);
}

/// Packets about associations and clocks, with anything in them.
fn hostile(rng: &mut Rng, [sender, receiver]: [u32; 2]) -> Vec<u8> {
    let mut any = [0; 16];
    rng.fill(&mut any);
    // Numbers of the parties that are there, times that are near, and others.
    let ssrc = [sender, sender, receiver, rng.next_u32()][rng.below(4) as usize];
    let mut time = || Instant::from_nanos(rng.next_u64() >> (rng.next_u32() % 62));
    let (asked, told, captured) = (time(), time(), time());
    let kinds = [AppKind::Ask, AppKind::Challenge, AppKind::Full, AppKind::Leave, AppKind::Announce];
    let mut bytes = match rng.below(3) {
        0 => App { ssrc, kind: kinds[rng.below(5) as usize], token: any }.to_bytes().to_vec(),
        1 => ClockQuestion { ssrc, asked, heard: Hearing { lost: rng.next_u32(), ..Hearing::default() } }
            .to_bytes()
            .to_vec(),
        _ => {
            let delay = Some(Duration::from_micros(rng.next_u32().into()));
            let word = ClockWord { ssrc, told, timestamp: rng.next_u32(), captured, delay };
            let answers: Vec<_> =
                (0..rng.below(4)).map(|_| ClockAnswer { ssrc: receiver, asked, came: captured }).collect();
            let mut buf = [0; ClockWord::MOST];
            let len = word.write(&answers, &mut buf);
            buf[..len].to_vec()
        }
    };
    if rng.chance(0.2) {
        let at = rng.below(bytes.len() as u32) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
    bytes
}

#[test]
fn hostile_packets_end_nothing_at_the_sender_and_panic_nobody() {
    let mut hall = Hall::new("rtp", "ethernet", u64::MAX, 3, Some(ms(80)));
    join(&mut hall);
    hall.run_until(hall.at(500));
    let mut rng = Rng::new(11);
    let listener = &hall.listeners[0].session;
    let receiver = listener.peers().next().expect("it called").rtcp().ssrc();
    let known = [listener.receive_track().and_then(|track| track.followed()).expect("it hears"), receiver];
    for _ in 0..5_000 {
        let now = hall.now;
        let (mut bytes, path) = (hostile(&mut rng, known), PathId(10 + rng.below(6)));
        hall.sender.handle_input(now, WIRE, datagram(&mut bytes, path, now));
        hall.run_until(now + Duration::from_micros(rng.below(2_000).into()));
    }
    assert_eq!(hall.sender.served().joined, 1, "nobody guesses a token");
    assert_whole(&hall, 0, "rtp");
    // A sender may do to its receiver what it likes, but for a panic.
    for _ in 0..5_000 {
        let now = hall.now;
        let mut bytes = hostile(&mut rng, known);
        let one = &mut hall.listeners[0];
        let local = one.clock.local(now);
        one.session.handle_input(local, WIRE, datagram(&mut bytes, PathId(0), local));
        hall.run_until(now + Duration::from_micros(rng.below(2_000).into()));
    }
}
