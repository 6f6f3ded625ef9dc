//! Streams in Medusa's framing, and what happens where only one side has it.

use antiphon_core::{Input, Instant, Participant, PathId};
use antiphon_media::StreamFormat;
use antiphon_proto::TRANSPORTS;
use antiphon_session::{Notice, PlayoutDelay, ReceiveError, Session, StreamFraming};

use crate::common::sending;
use crate::world::{
    MAX_DATAGRAM, WIRE, World, datagram, framed_stack, heard, ms, receiving, track_config, world_of,
};
use antiphon_testkit::{Kept, Noise, expected};

const END: Instant = Instant::from_millis(60_000);
/// Two seconds of stereo at 8 kHz.
const FRAMES: u64 = 16_000;

fn stereo() -> StreamFormat {
    StreamFormat::new(8000, 2).unwrap()
}

fn sender(scheme: &'static str, framing: StreamFraming) -> Session {
    let framed = framed_stack(scheme, framing);
    // As long as a datagram holds, framing included.
    let mut config = track_config(stereo(), 5);
    config.packet.max_packet = MAX_DATAGRAM - 60;
    sending(&*framed, Noise::new(stereo(), FRAMES), config, PlayoutDelay::Unbounded)
}

fn receiver(scheme: &'static str, framing: StreamFraming, ends: bool, kept: &Kept) -> Session {
    receiving(scheme, framing, None, kept.opener(), ends, Instant::ZERO)
}

fn world(
    scheme: &'static str,
    [near, far]: [StreamFraming; 2],
    ends: bool,
) -> (World<Session, Session>, Kept) {
    let kept = Kept::default();
    let (near, far) = (sender(scheme, near), receiver(scheme, far, ends, &kept));
    let transport = antiphon_proto::find(scheme).unwrap();
    (world_of(transport, near, far, ("delay=5ms", 1), (ms(5), 64 * 1024)), kept)
}

#[test]
fn medusas_framing_passes_every_transport() {
    for transport in TRANSPORTS {
        let (mut world, kept) = world(transport.scheme, [StreamFraming::Medusa; 2], true);
        world.run(END);
        assert!(heard(&world.far).error().is_none(), "{}", transport.scheme);
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{}: {}", transport.scheme, kept.len());
        assert_eq!(heard(&world.far).counters().malformed, 0, "{}", transport.scheme);
        assert!(world.near.last_report().is_some(), "{}: the way back is framed, too", transport.scheme);
    }
}

#[test]
fn the_other_framing_is_reported_over_every_transport() {
    use StreamFraming::{Medusa, Rtp};
    for transport in TRANSPORTS {
        for [near, far] in [[Rtp, Medusa], [Medusa, Rtp]] {
            let who = format!("{}, {} to {}", transport.scheme, near.name(), far.name());
            let (mut world, kept) = self::world(transport.scheme, [near, far], true);
            world.run(END);
            assert_eq!(heard(&world.far).error(), Some(&ReceiveError::OtherFraming { ours: far }), "{who}");
            assert!(far.mismatch().contains("--framing medusa") && kept.is_empty(), "{who}");
            // An endless receiver notices once, and receives the next sender.
            let (mut world, kept) = self::world(transport.scheme, [near, far], false);
            world.run_until(Instant::from_millis(1_500));
            let far_end = world.far.receive_track_mut().unwrap();
            let told: Vec<Notice> = std::iter::from_fn(|| far_end.poll_notice()).collect();
            assert_eq!(told, [Notice::OtherFraming { ours: far }], "{who}");
            assert!(heard(&world.far).error().is_none() && kept.is_empty(), "{who}");
        }
    }
}

/// Bytes cut out and bytes put in cost only the packets that they were in.
#[test]
fn garbage_and_gaps_in_a_tcp_stream_cost_the_packets_they_hit() {
    let (mut world, kept) = world("tcp", [StreamFraming::Medusa; 2], true);
    let taken = [40, 41, 60];
    world.up.taken = Some(Box::new(move |n, _| taken.contains(&n)));
    for (at, garbage) in [(300, &[0xa5; 777][..]), (700, b"MDSA\0\0\0\x01MDSBMDSA"), (900, &[0; 5000])] {
        world.run_until(Instant::from_millis(at));
        let now = world.now;
        let wire = world.far_wire();
        let input = Input::Stream { bytes: &mut garbage.to_vec(), received_at: now };
        world.far.handle_input(now, wire, input);
    }
    world.run(END);
    let counters = heard(&world.far).counters();
    let packets = world.near.sent().peers.accepted;
    // Three writes are missing, and what is put between two writes hits no packet, or one whose rest is still to come.
    let lost = packets - counters.packets;
    assert!((3..=6).contains(&lost), "{lost} of {packets}");
    assert_eq!(kept.len() as u64, 2 * FRAMES, "the sound goes on and is as long as it was");
    assert!(heard(&world.far).error().is_none());
}

#[test]
fn a_stray_datagram_in_the_other_framing_ends_nothing() {
    let (mut world, kept) = world("rtp", [StreamFraming::Medusa; 2], true);
    let now = world.now;
    for n in 0..7u8 {
        let stray = [&[0x80, 96, 0, n][..], &[0; 60]].concat();
        world.far.handle_input(now, WIRE, datagram(&mut stray.to_vec(), PathId(99), now));
    }
    world.run(END);
    assert!(heard(&world.far).error().is_none());
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}
