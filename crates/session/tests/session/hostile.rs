//! Any byte from the network may be forged: it changes counters and nothing else.

use antiphon_core::{Input, Instant, Participant, PathId, Rng};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::associations::hub;
use crate::common::{Comparison, comparing};
use crate::log::Log;
use crate::stream::packets;
use crate::world::{
    BLOCK_TIME, NEAR, WIRE, World, datagram, heard, ms, piped, receive_session, send_session,
};

const END: Instant = Instant::from_millis(60_000);

/// Random bytes; or bytes that begin like RTP or RTCP; or one of `good`, cut off or with bytes changed.
fn rubbish(rng: &mut Rng, good: &[Vec<u8>]) -> Vec<u8> {
    let len = rng.below(80) as usize;
    let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
    match rng.below(3) {
        0 => {}
        1 if len > 1 => {
            bytes[0] = 0x80 | bytes[0] & 0x3f;
            bytes[1] = [96, 200, 201, 203, 0][rng.below(5) as usize];
        }
        _ => {
            bytes = good[rng.below(good.len() as u32) as usize].clone();
            // Never the whole packet: that would be a duplicate, not garbage.
            bytes.truncate(rng.below(bytes.len() as u32) as usize);
        }
    }
    bytes
}

#[test]
fn garbage_between_packets_changes_no_sample() {
    let kept = Kept::default();
    let mut session = receive_session("rtp", Some(ms(40)), &kept);
    let all = packets(1, 256_000);
    let (mut rng, mut now, mut offered) = (Rng::fork(3, "rubbish"), Instant::from_millis(1), 0);
    for (n, packet) in all.iter().enumerate() {
        now += BLOCK_TIME;
        session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
        for _ in 0..20 {
            // Half of it under our peer's address. The whole of what is cut off was received before.
            let path = if rng.chance(0.5) { NEAR } else { PathId(9 + rng.below(1000)) };
            let past = &all[n.saturating_sub(5)..=n];
            session.handle_input(now, WIRE, datagram(&mut rubbish(&mut rng, past).to_vec(), path, now));
            offered += 1;
        }
        session.advance(now);
    }
    session.stop(now);
    assert!(kept.samples() == expected(stereo(), 0, 256_000), "{} samples", kept.len());
    let (counters, playout) = (heard(&session).counters(), heard(&session).playout().unwrap());
    assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0));
    assert!(session.unknown_sources() > offered / 3 && counters.malformed > offered / 20, "{counters:?}");
    assert!(counters.duplicates > 100, "cut-off copies are known by their number: {counters:?}");
    assert!(!session.is_finished(), "no forged goodbye was believed");
}

#[test]
fn after_rubbish_alone_the_stream_is_still_taken() {
    let kept = Kept::default();
    let mut session = receive_session("rtp", None, &kept);
    let (mut rng, mut now) = (Rng::fork(4, "rubbish"), Instant::from_millis(1));
    for _ in 0..20_000 {
        now += std::time::Duration::from_micros(100);
        let bytes: Vec<u8> = (0..rng.below(100)).map(|_| rng.next_u32() as u8).collect();
        session.handle_input(now, WIRE, datagram(&mut bytes.to_vec(), PathId(rng.below(5000)), now));
        session.advance(now);
    }
    assert_eq!(kept.len(), 0);
    let mut world = World::linked(send_session("rtp", stereo(), 480_000, 1), session, "delay=1ms", 1);
    world.now = now + ms(2500);
    world.near.advance(world.now);
    world.run(END);
    assert!(world.far.is_finished());
    assert!(kept.samples() == expected(stereo(), 0, 480_000), "{} samples", kept.len());
}

#[test]
fn a_sender_and_a_caller_take_no_harm_from_what_comes_back() {
    let mut rng = Rng::fork(5, "rubbish");
    let (good, kept) = (packets(5, 25_600), Kept::default());
    let mut sender = send_session("rtp", stereo(), 48_000, 5);
    let setting = Comparison::new(stereo(), ms(40));
    let mut caller = comparing("rtp", Noise::new(stereo(), 48_000), kept.opener(), setting);
    let log = Log::of(&mut caller, 1_000, None);
    let mut world = World::linked(caller, hub("rtp", 1), "delay=3ms", 1);
    let mut offered = 0;
    while !world.near.is_finished() && world.now < END {
        let next = world.now + ms(5);
        world.run_until(next);
        for _ in 0..10 {
            let bytes = rubbish(&mut rng, &good);
            // A forged packet with the caller's own SSRC looks like a reflected one; no other does.
            let forged = bytes.len() >= 12 && bytes[8..12] == good[0][8..12];
            if !forged && !world.near.is_finished() {
                world.near.handle_input(world.now, WIRE, datagram(&mut bytes.to_vec(), PathId(0), world.now));
                offered += u64::from(!bytes.is_empty());
            }
            sender.handle_input(world.now, WIRE, datagram(&mut bytes.to_vec(), PathId(0), world.now));
            sender.advance(world.now);
        }
    }
    log.finish(&world.near);
    assert_eq!((world.near.foreign(), log.get().tallies().unknown), (offered, 0));
    assert!(kept.samples() == expected(stereo(), 0, 48_000), "{} samples", kept.len());
    assert_eq!(log.get().counts().arrived(), 188);
    assert_eq!(sender.sent().peers.refused, 0);
}

#[test]
fn rubbish_on_a_byte_stream_spoils_no_later_connection() {
    let (mut world, kept) = piped(send_session("tcp", stereo(), 96_000, 5), None, ms(1), 2896);
    let mut rng = Rng::fork(6, "rubbish");
    let mut bytes: Vec<u8> = (0..200_000).map(|_| rng.next_u32() as u8).collect();
    for piece in bytes.chunks_mut(997) {
        let (wire, input) = (world.far_wire(), Input::Stream { bytes: piece, received_at: world.now });
        world.far.handle_input(world.now, wire, input);
        world.far.advance(world.now);
    }
    assert!(heard(&world.far).counters().malformed > 0 && kept.is_empty());
    world.break_pipe();
    world.connect();
    world.run(END);
    assert!(kept.samples() == expected(stereo(), 0, 96_000), "{} samples", kept.len());
}
