//! Recordings: every packet that comes, in order, up to the goodbye.

use antiphon_core::{Instant, Participant, PathId};
use antiphon_session::Notice;

use crate::stream::{notices, packets};
use crate::world::{
    BLOCK_TIME, NEAR, WIRE, datagram, feed, goodbye, heard, is_rtcp, linked, ms, receive_session,
    send_session,
};
use antiphon_testkit::{Kept, expected, sent_on, stereo};

const END: Instant = Instant::from_millis(60_000);

#[test]
fn a_goodbye_ends_a_recording_and_lost_ones_are_tolerated() {
    for lost in 0..3 {
        let (mut world, kept) = linked("rtp", send_session("rtp", stereo(), 24_001, 5), None, "delay=5ms", 1);
        let mut after = 0;
        world.up.taken = Some(Box::new(move |n, bytes| {
            // The reports after the 94th packet are the goodbyes.
            after += u64::from(n >= 94 && is_rtcp(bytes) && after < u64::MAX);
            n >= 94 && is_rtcp(bytes) && after <= lost
        }));
        world.run(END);
        assert!(world.far.is_finished(), "{lost} lost goodbyes");
        assert!(kept.samples() == expected(stereo(), 0, 24_001), "{lost} lost goodbyes: {}", kept.len());
        assert!(notices(&mut world.far).contains(&Notice::Bye));
    }
}

#[test]
fn without_any_goodbye_stopping_writes_what_is_there() {
    let (mut world, kept) = linked("rtp", send_session("rtp", stereo(), 24_000, 5), None, "delay=5ms", 1);
    world.up.taken = Some(Box::new(|_, bytes| is_rtcp(bytes)));
    world.run(Instant::from_millis(10_000));
    assert!(world.near.is_finished() && !world.far.is_finished());
    world.far.stop(world.now);
    world.run(END);
    assert!(world.far.is_finished() && kept.samples() == expected(stereo(), 0, 24_000));
}

#[test]
fn a_goodbye_that_overtakes_sound_costs_nothing() {
    for latency in [None, Some(ms(40))] {
        let kept = Kept::default();
        let mut session = receive_session("rtp", latency, &kept);
        let all = packets(5, 25_600);
        let mut now = Instant::from_millis(1);
        feed(&mut session, &mut now, NEAR, 1, &all[..90]);
        session.handle_input(now, WIRE, datagram(&mut goodbye(&all[0][8..12]), NEAR, now));
        for packet in &all[90..] {
            session.advance(now);
            now += ms(2);
            session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
        }
        let mut rounds = 0;
        while !session.is_finished() && rounds < 1000 {
            session.advance(now);
            sent_on(&mut session, now, WIRE);
            now = session.poll_timeout().unwrap_or(now).max(now);
            rounds += 1;
        }
        assert!(session.is_finished() && rounds < 100, "ended by the one goodbye, {rounds} rounds");
        assert!(kept.samples() == expected(stereo(), 0, 25_600), "{latency:?}: {}", kept.len());
    }
}

#[test]
fn reordering_and_duplicates_do_not_reach_a_recording() {
    let link = "delay=5ms,duplicate=3%,reorder=3%/60ms";
    let (mut world, kept) = linked("rtp", send_session("rtp", stereo(), 240_000, 5), None, link, 2);
    world.run(END);
    let up = world.link().up.counters();
    let playout = heard(&world.far).playout().unwrap();
    assert!(up.held_back > 10 && up.duplicated > 10);
    assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0));
    assert!(playout.reordered > 10 && heard(&world.far).counters().duplicates > 10);
    assert!(kept.samples() == expected(stereo(), 0, 240_000), "{} samples", kept.len());
}

#[test]
fn losses_in_a_recording_are_filled_in_place() {
    let (mut world, kept) = linked("rtp", send_session("rtp", stereo(), 240_000, 5), None, "delay=5ms", 2);
    world.up.taken = Some(Box::new(|n, bytes| !is_rtcp(bytes) && n % 50 == 25));
    world.run(END);
    let playout = heard(&world.far).playout().unwrap();
    assert!(playout.lost > 15);
    assert_eq!((kept.len(), playout.concealed_frames), (480_000, playout.lost * 256));
}

/// RFC 3550 §11 gives RTCP a port of its own: the SSRC identifies its sender, not its address.
#[test]
fn reports_from_another_port_are_known_by_their_ssrc() {
    let (kept, all, beside) = (Kept::default(), packets(5, 25_600), PathId(8));
    let mut session = receive_session("rtp", None, &kept);
    let ssrc = &all[0][8..12];
    let mut now = Instant::from_millis(1);
    // Before any sound: neither the sender on that port nor an unknown source.
    session.handle_input(now, WIRE, datagram(&mut goodbye(ssrc)[..8], beside, now));
    feed(&mut session, &mut now, NEAR, 1, &all);
    assert_eq!(session.unknown_sources(), 0);
    session.handle_input(now, WIRE, datagram(&mut goodbye(b"else"), beside, now));
    session.advance(now);
    assert_eq!((session.unknown_sources(), notices(&mut session).contains(&Notice::Bye)), (1, false));
    session.handle_input(now, WIRE, datagram(&mut goodbye(ssrc), beside, now));
    session.advance(now);
    assert!(!notices(&mut session).contains(&Notice::Bye), "it may be forged");
    now = session.poll_timeout().expect("it looks whether more comes");
    while !notices(&mut session).contains(&Notice::Bye) {
        session.advance(now);
        now = session.poll_timeout().expect("it ends").max(now);
        assert!(now < Instant::from_millis(2_000), "no media comes any more");
    }
    assert_eq!(session.unknown_sources(), 1);
}

/// From a third address, and with the sender's own address forged: the sound shows that they are not the sender's.
#[test]
fn a_forged_goodbye_ends_no_recording() {
    for from in [PathId(99), NEAR] {
        let (kept, all) = (Kept::default(), packets(5, 51_200));
        let mut session = receive_session("rtp", None, &kept);
        let mut bye = goodbye(&all[0][8..12]);
        let mut now = Instant::from_millis(1);
        for (n, packet) in all.iter().enumerate() {
            now += BLOCK_TIME;
            session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
            if n % 60 == 30 {
                session.handle_input(now, WIRE, datagram(&mut bye, from, now));
            }
            session.advance(now);
        }
        assert!(!session.is_finished(), "{from:?}");
        session.stop(now);
        session.advance(now);
        assert!(kept.samples() == expected(stereo(), 0, 51_200), "{from:?}: {} samples", kept.len());
        assert_eq!(heard(&session).sources().streams, 1);
    }
}
