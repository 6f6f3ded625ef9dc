//! Streams in Medusa's framing, and what happens where only one side has it.

use antiphon_core::{Endpoint, Input, Instant};
use antiphon_media::StreamFormat;
use antiphon_proto::{Beneath, Role, TRANSPORTS};
use antiphon_session::{Notice, OpenSink, ReceiveError, ReceiveStation, SendStation, Station, StreamFraming};

use crate::sound::{Kept, Noise, expected};
use crate::world::{MAX_DATAGRAM, World, endpoint, ms, receive_station_in, send_station_in, sender_config};

const END: Instant = Instant::from_millis(60_000);
/// Two seconds of stereo at 8 kHz.
const FRAMES: u64 = 16_000;

fn stereo() -> StreamFormat {
    StreamFormat::new(8000, 2).unwrap()
}

/// A TCP in Medusa's framing has no lengths, as the facade opens it.
fn scheme_in(scheme: &'static str, framing: StreamFraming) -> &'static str {
    match (scheme, framing) {
        ("tcp", StreamFraming::Medusa) => "tcp?lengths=no",
        _ => scheme,
    }
}

fn sender(scheme: &'static str, framing: StreamFraming) -> SendStation {
    let framed: Box<dyn Endpoint> =
        framing.around(endpoint(scheme_in(scheme, framing), Role::Caller, Instant::ZERO));
    // As long as a datagram holds with what stands around it.
    let mut config = sender_config(stereo(), None, 5);
    config.packet.max_packet = MAX_DATAGRAM - 60;
    send_station_in(framed, Noise::new(stereo(), FRAMES), config)
}

fn receiver(scheme: &'static str, framing: StreamFraming, ends: bool, kept: &Kept) -> ReceiveStation {
    let kept = kept.clone();
    let open_sink: OpenSink = Box::new(move |format, _| Ok(kept.sink(format)));
    receive_station_in(scheme_in(scheme, framing), framing, None, open_sink, ends, Instant::ZERO)
}

fn world(
    scheme: &'static str,
    [near, far]: [StreamFraming; 2],
    ends: bool,
) -> (World<SendStation, ReceiveStation>, Kept) {
    let kept = Kept::default();
    let (near, far) = (sender(scheme, near), receiver(scheme, far, ends, &kept));
    let datagrams = antiphon_proto::find(scheme).unwrap().beneath == Beneath::Udp;
    let world = match datagrams {
        true => World::linked(near, far, "delay=5ms", 1),
        false => World::piped(near, far, ms(5), 64 * 1024),
    };
    (world, kept)
}

#[test]
fn in_medusas_framing_sound_and_reports_arrive_over_every_transport() {
    for transport in TRANSPORTS {
        let (mut world, kept) = world(transport.scheme, [StreamFraming::Medusa; 2], true);
        world.run(END);
        assert!(world.far.receiver().error().is_none(), "{}", transport.scheme);
        assert!(kept.samples() == expected(stereo(), 0, FRAMES), "{}: {}", transport.scheme, kept.len());
        assert_eq!(world.far.receiver().counters().malformed, 0, "{}", transport.scheme);
        assert!(world.near.last_report().is_some(), "{}: the way back is framed, too", transport.scheme);
    }
}

#[test]
fn the_other_framing_is_told_with_the_remedy_over_every_transport() {
    use StreamFraming::{Medusa, Rtp};
    for transport in TRANSPORTS {
        for [near, far] in [[Rtp, Medusa], [Medusa, Rtp]] {
            let who = format!("{}, {} to {}", transport.scheme, near.name(), far.name());
            let (mut world, kept) = self::world(transport.scheme, [near, far], true);
            world.run(END);
            assert_eq!(
                world.far.receiver().error(),
                Some(&ReceiveError::OtherFraming { ours: far }),
                "{who}"
            );
            assert!(far.mismatch().contains("--framing medusa") && kept.len() == 0, "{who}");
            // One who listens on and on says so once, and hears the next sender.
            let (mut world, kept) = self::world(transport.scheme, [near, far], false);
            world.run_until(Instant::from_millis(1_500));
            let far_end = world.far.receiver_mut();
            let told: Vec<Notice> = std::iter::from_fn(|| far_end.poll_notice()).collect();
            assert_eq!(told, [Notice::OtherFraming { ours: far }], "{who}");
            assert!(world.far.receiver().error().is_none() && kept.len() == 0, "{who}");
        }
    }
}

/// What was cut out and what was put in costs the packets that it was in.
#[test]
fn garbage_and_gaps_in_a_tcp_stream_cost_the_packets_they_hit() {
    let (mut world, kept) = world("tcp", [StreamFraming::Medusa; 2], true);
    let taken = [40, 41, 60];
    world.drop_up = Some(Box::new(move |n, _| taken.contains(&n)));
    for (at, garbage) in [(300, &[0xa5; 777][..]), (700, b"MDSA\0\0\0\x01MDSBMDSA"), (900, &[0; 5000])] {
        world.run_until(Instant::from_millis(at));
        let now = world.now;
        world.far.handle_input(now, Input::Stream { bytes: garbage, received_at: now });
    }
    world.run(END);
    let counters = world.far.receiver().counters();
    let packets = world.near.counters().accepted;
    // Three writes are gone, and what is put between two writes hits no packet, or one whose rest is still to come.
    let lost = packets - counters.packets;
    assert!((3..=6).contains(&lost), "{lost} of {packets}");
    assert_eq!(kept.len() as u64, 2 * FRAMES, "the sound goes on and is as long as it was");
    assert!(world.far.receiver().error().is_none());
}

#[test]
fn a_stray_datagram_in_the_other_framing_ends_nothing() {
    let (mut world, kept) = world("rtp", [StreamFraming::Medusa; 2], true);
    let now = world.now;
    for n in 0..7u8 {
        let stray = [&[0x80, 96, 0, n][..], &[0; 60]].concat();
        world.far.handle_input(now, crate::world::datagram(&stray, antiphon_core::PathId(99), now));
    }
    world.run(END);
    assert!(world.far.receiver().error().is_none());
    assert!(kept.samples() == expected(stereo(), 0, FRAMES));
}
