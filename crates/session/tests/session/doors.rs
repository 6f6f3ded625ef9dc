//! Who gets the place of a listening session: whoever streams, not who came first or knocks most often.

use antiphon_core::{BrokenReason, Input, Instant, Participant, PathId, WireId};
use antiphon_media::packet::{PacketKind, classify};
use antiphon_session::{Reflector, ReflectorConfig, Session};
use antiphon_testkit::{Kept, expected, stereo};

use crate::reflectors::captured;
use crate::stream::packets;
use crate::world::{
    BLOCK_TIME, NEAR, SILENCE, WIRE, World, datagram, heard, linked, many, ms, piped, receive_session,
    reflector, send_session, stack,
};

/// A translator changes the sender's port again and again: the stream goes on, and is the same one.
#[test]
fn a_sender_whose_address_changes_is_heard_again_at_once() {
    for name in ["rtp", "arq", "srp"] {
        let (mut world, kept) =
            linked(name, send_session(name, stereo(), 480_000, 5), Some(ms(80)), "delay=10ms", 1);
        for n in 1..9 {
            world.run_until(Instant::from_millis(n * 1_000));
            let before = heard(&world.far).counters().packets;
            world.near_path = PathId(20 + n as u32);
            world.run_until(Instant::from_millis(n * 1_000 + 300));
            let came = heard(&world.far).counters().packets - before;
            // 56 in that time, and 19 of them within a tenth of a second, which arq and srp repeat.
            let all = if name == "rtp" { 30..=40 } else { 48..=60 };
            assert!(all.contains(&came), "{name} {n}: {came}");
        }
        world.run(Instant::from_millis(60_000));
        assert!(world.far.is_finished(), "{name}");
        assert_eq!(heard(&world.far).sources().streams, 1, "{name}");
        assert_eq!(kept.len(), 2 * 480_000, "{name}");
        let lost = heard(&world.far).playout().unwrap().lost;
        // Some repeats come too late.
        let most = if name == "rtp" { 8 * 21 } else { 8 * 8 };
        assert!(lost <= most, "{name}: {lost}");
        assert!(world.near.last_report().is_some(), "{name}: reports reach it");
    }
}

/// A stream is not moved by packets that were seen before, nor while it goes on.
#[test]
fn a_stream_that_goes_on_is_not_moved() {
    let kept = Kept::default();
    let mut session = receive_session("rtp", Some(ms(40)), &kept);
    let all = packets(1, 256 * 400);
    let mut now = Instant::from_millis(1);
    for (n, packet) in all.iter().enumerate() {
        now += BLOCK_TIME;
        session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
        for forged in [n.saturating_sub(3), n + 1, n + 40].into_iter().filter(|_| n > 3) {
            let mut forged = all[forged.min(399)].clone();
            forged[12..].fill(0xee);
            session.handle_input(now, WIRE, datagram(&mut forged, PathId(9), now));
        }
        session.advance(now);
    }
    session.stop(now);
    assert!(kept.samples() == expected(stereo(), 0, 256 * 400), "{} samples", kept.len());
    assert!(session.knows(WIRE, NEAR) && !session.knows(WIRE, PathId(9)));
}

/// Two packets and then one a second do not keep a sender out.
#[test]
fn a_stray_sender_does_not_keep_out_one_that_streams() {
    let kept = Kept::default();
    let mut session = receive_session("rtp", Some(ms(40)), &kept);
    let (stray, stream) = (packets(1, 256 * 20), packets(2, 256 * 1500));
    let mut now = Instant::from_millis(1);
    session.handle_input(now, WIRE, datagram(&mut stray[0].to_vec(), PathId(9), now));
    let mut taken = None;
    for (n, packet) in stream.iter().enumerate() {
        now += BLOCK_TIME;
        if n % 188 == 1 {
            let packet = &stray[n / 188 + 1];
            session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), PathId(9), now));
        }
        session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
        session.advance(now);
        if taken.is_none() && session.knows(WIRE, NEAR) {
            taken = Some(now);
        }
    }
    let taken = taken.expect("it is heard").since(Instant::from_millis(1));
    assert!(taken <= ms(2_300), "{taken:?}");
    assert!(session.knows(WIRE, NEAR), "and stays");
}

/// A connection that sends nothing, or no sound, gives way to one that does.
#[test]
fn an_idle_connection_keeps_nobody_out_of_a_receiver() {
    for rubbish in [&[][..], &[0, 3, 1, 2, 3], &[0, 40]] {
        let (mut world, kept) = piped(send_session("tcp", stereo(), 96_000, 5), None, ms(1), 2896);
        world.break_pipe();
        let mut idle = Vec::new();
        for _ in 0..100 {
            let wire = world.far.accept(world.now, WIRE).expect("it waits");
            world.far.handle_input(world.now, wire, Input::Connected);
            let input = Input::Stream { bytes: &mut rubbish.to_vec(), received_at: world.now };
            world.far.handle_input(world.now, wire, input);
            world.far.advance(world.now);
            idle.push(wire);
        }
        world.connect();
        world.run(Instant::from_millis(20_000));
        assert!(world.near.is_finished() && world.far.is_finished(), "{rubbish:?}");
        assert!(kept.samples() == expected(stereo(), 0, 96_000), "{rubbish:?}: {} samples", kept.len());
    }
}

/// A packet comes on a connection, behind its length (RFC 4571).
fn hand_in(session: &mut Session, now: Instant, wire: WireId, packet: &[u8]) {
    let mut bytes = [&(packet.len() as u16).to_be_bytes()[..], packet].concat();
    session.handle_input(now, wire, Input::Stream { bytes: &mut bytes, received_at: now });
}

fn connected(session: &mut Session, now: Instant) -> WireId {
    let wire = session.accept(now, WIRE).expect("there is a place to wait");
    session.handle_input(now, wire, Input::Connected);
    wire
}

/// One that streams keeps its place, whoever comes; one that is silent is replaced by the next that has sound.
#[test]
fn a_connection_that_streams_keeps_its_place_until_it_is_silent() {
    let kept = Kept::default();
    let mut session = receive_session("tcp", None, &kept);
    let (first, second) = (packets(1, 256 * 1000), packets(2, 256 * 1000));
    let mut now = Instant::from_millis(1);
    let one = connected(&mut session, now);
    let mut closed = Vec::new();
    for n in 0..500 {
        now += BLOCK_TIME;
        hand_in(&mut session, now, one, &first[n]);
        if n % 50 == 20 {
            let other = connected(&mut session, now);
            hand_in(&mut session, now, other, &second[n]);
        }
        session.advance(now);
        closed.extend(std::iter::from_fn(|| session.poll_close()));
    }
    assert_eq!((heard(&session).counters().packets, heard(&session).sources().streams), (500, 1));
    assert_eq!((closed.len(), closed.contains(&one), session.unknown_sources()), (10, false, 10));
    // It is silent, and its connection exists.
    now += SILENCE;
    let other = connected(&mut session, now);
    for packet in &second[..100] {
        hand_in(&mut session, now, other, packet);
        session.advance(now);
    }
    assert_eq!((heard(&session).counters().packets, heard(&session).sources().streams), (600, 2));
    assert_eq!(session.poll_close(), Some(one));
}

#[test]
fn idle_connections_keep_nobody_out_of_a_reflector() {
    let near = send_session("tcp", stereo(), 480_000, 5);
    let mut world = World::piped(near, reflector("tcp", many(64)), ms(1), 2896);
    world.break_pipe();
    let mut wires: Vec<WireId> = Vec::new();
    let mut knock = |world: &mut World<Session, Reflector>| {
        for _ in 0..100 {
            let Some(wire) = world.far.accept(world.now, WIRE) else { panic!("none is turned away") };
            world.far.handle_input(world.now, wire, Input::Connected);
            wires.push(wire);
        }
        world.far.advance(world.now);
    };
    knock(&mut world);
    world.connect();
    world.run_until(Instant::from_millis(2_000));
    let before = world.far.counters().returned;
    assert!(before > 300, "{before}");
    knock(&mut world);
    assert!(world.far.associations().iter().count() <= 33);
    world.run_until(Instant::from_millis(4_000));
    assert!(world.far.counters().returned - before > 300, "it stays");
    let wire = world.far_wire();
    world.far.handle_input(world.now, wire, Input::Broken(BrokenReason::EndOfStream));
    world.far.advance(world.now);
    assert!(std::iter::from_fn(|| world.far.poll_close()).any(|closed| closed == wire));
}

/// What a forged packet's owner gets: no more than was forged, and nothing after a while.
#[test]
fn reports_to_an_address_that_proved_nothing_stop() {
    for (name, count) in [("rtp", 1), ("arq", 1), ("srp", 1), ("rtp", 200), ("arq", 200), ("srp", 200)] {
        let kept = Kept::default();
        let mut session = receive_session(name, None, &kept);
        let mut near = send_session(name, stereo(), 480_000, 5);
        let (mut now, mut buf, mut taken, mut sent, mut last) =
            (Instant::from_millis(1), [0; 2048], 0, 0, Instant::ZERO);
        let mut left = count;
        while now < Instant::from_millis(300_000) {
            near.advance(now);
            while let Some(out) = near.poll_transmit(now, WIRE, &mut buf).filter(|_| left > 0) {
                if name != "rtp" || classify(&buf[..out.len]) == Some(PacketKind::Rtp) {
                    session.handle_input(now, WIRE, datagram(&mut buf[..out.len], NEAR, now));
                    (taken, left) = (taken + out.len, left - 1);
                }
            }
            session.advance(now);
            while let Some(out) = session.poll_transmit(now, WIRE, &mut buf) {
                (sent, last) = (sent + out.len, now);
            }
            now += ms(if left > 0 { 5 } else { 100 });
        }
        assert!(left == 0 && sent <= taken, "{name} {count}: {sent} bytes for {taken}");
        assert!(last < Instant::from_millis(60_000), "{name} {count}: still at {last:?}");
    }
}

/// A hundred forged openings a second, from addresses that are used once or come again, for as long as they like: who calls
/// is served at once.
#[test]
fn forged_openings_keep_no_caller_out_of_a_reflector() {
    for (name, addresses) in ["rtp", "arq", "srp"].into_iter().flat_map(|name| [(name, 1 << 30), (name, 80)])
    {
        let config = ReflectorConfig { marks: true, ..ReflectorConfig::default() };
        let far = Reflector::new(Instant::ZERO, WIRE, stack(name), many(64), config);
        let near = send_session(name, stereo(), 480_000, 5);
        let opening = captured(name)[0].clone();
        let mut world = World::linked(near, far, "delay=5ms", 1);
        let mut rng = antiphon_core::Rng::fork(3, "openings");
        // The caller begins when the places of the unproved have been taken.
        let mut waiting = Some(std::mem::replace(&mut world.near, send_session(name, stereo(), 0, 9)));
        let (mut began, mut served) = (None, None);
        for n in 0..1_200 {
            if n == 400 {
                world.near = waiting.take().expect("it begins once");
                began = Some(world.now);
            }
            world.run_until(Instant::from_millis(10 * n + 10));
            let path = PathId(1_000 + rng.below(addresses));
            for _ in 0..1 + n % 3 {
                world.far.handle_input(world.now, WIRE, datagram(&mut opening.clone(), path, world.now));
            }
            world.far.advance(world.now);
            if began.is_some() && world.far.knows(WIRE, NEAR) {
                served.get_or_insert(world.now);
            } else {
                assert!(served.is_none(), "{name}: it was thrown out after {:?}", world.now);
            }
        }
        let waited = served.expect("it is served").since(began.expect("it began"));
        assert!(waited <= ms(100), "{name}: {waited:?}");
    }
}
