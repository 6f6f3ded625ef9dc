//! Several associations with one peer: a stream that moves to another transport, and one that is sent over two.

use antiphon_core::{Input, Participant, PathId, WireId};
use antiphon_media::packet::{PacketKind, classify};
use antiphon_media::rtcp::{App, AppKind};
use antiphon_session::{Change, ChangeFailure, Joining};

use crate::wired::{FRAMES, TOKEN, Wired};
use crate::world::{heard, ms};

#[test]
fn a_stream_moves_through_all_transports_without_a_gap() {
    let path = "delay=10ms,jitter=1ms";
    let names = [("rtp", path), ("sctp", path), ("arq", path), ("srp", path), ("dccp", path), ("xtp", path)];
    for seed in 1..4 {
        let mut world = Wired::new(&names, ms(80), seed);
        world.run_for(ms(1500));
        for (wire, (name, _)) in (1..).zip(&names[1..]) {
            world.go_further(wire, name, Joining::Instead);
            world.run_for(ms(2000));
            let wire = WireId(wire);
            assert_eq!(world.changes, [Change::Joined(wire), Change::Moved(wire)], "{name}");
            world.changes.clear();
        }
        world.end_flawless();
        // Of rtp's 1.5 s and the overlap, at 1.6 Mbit/s.
        assert!(world.sent[&WireId(0)] < 450_000, "{:?}", world.sent);
    }
}

#[test]
fn a_move_to_a_slower_path_and_back_to_a_quicker_one_leaves_no_gap() {
    let names = [("rtp", "delay=5ms"), ("srp", "delay=35ms,jitter=3ms"), ("sctp", "delay=5ms")];
    let mut world = Wired::new(&names, ms(80), 3);
    world.run_for(ms(2000));
    world.go_further(1, "srp", Joining::Instead);
    world.run_for(ms(4000));
    world.go_further(2, "sctp", Joining::Instead);
    world.end();
    let moved = [1, 2].map(|wire| [Change::Joined(WireId(wire)), Change::Moved(WireId(wire))]);
    assert_eq!(world.changes, moved.concat());
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
}

#[test]
fn a_target_that_cannot_be_used_leaves_the_stream_as_it_is() {
    let cases = [
        // Nothing arrives there: neither a handshake nor a token.
        ("sctp", "loss=100%", ChangeFailure::NoConnection),
        ("rtp", "loss=100%", ChangeFailure::NotTaken),
        // It dies in the middle of the change: what it sends arrives, but no answer returns.
        ("srp", "down.loss=100%", ChangeFailure::NotTaken),
    ];
    for (name, link, why) in cases {
        let mut world = Wired::new(&[("rtp", "delay=10ms"), (name, link)], ms(80), 1);
        world.run_for(ms(1000));
        world.go_further(1, name, Joining::Instead);
        world.run_for(ms(6000));
        assert_eq!(world.changes, [Change::Failed(WireId(1), why)], "{name} over {link}");
        let before = world.sent[&WireId(1)];
        world.end();
        assert!(world.is_flawless(), "{name} over {link}: {:?}", heard(&world.far).playout());
        assert!(world.sent[&WireId(1)] < before + 500, "nothing is repeated towards it");
    }
    // Its messages are smaller than the packets of the stream.
    let mut world = Wired::new(&[("rtp", "delay=10ms"), ("dccp", "delay=10ms")], ms(80), 1);
    world.run_for(ms(1000));
    let small: antiphon_core::uri::Query = "".parse().unwrap();
    let args = antiphon_proto::StackArgs::new(&small, 1, 600, ms(80));
    let stack = (antiphon_proto::find("dccp").unwrap().stack)(&args).unwrap();
    world.near.call_further(world.now, WireId(1), &[PathId(0)], &stack, Joining::Instead, TOKEN);
    world.end();
    // Stereo of 256 sample frames, with its headers; 24 bytes of the datagrams are DCCP's.
    let small = ChangeFailure::TooSmall { most: 576, needed: 1056 };
    assert_eq!(world.changes, [Change::Failed(WireId(1), small)]);
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
}

#[test]
fn two_paths_with_losses_of_their_own_miss_the_product_and_cost_twice() {
    let lossy = "delay=10ms,up.loss=10%";
    let mut world = Wired::new(&[("rtp", lossy), ("rtp", lossy)], ms(80), 5);
    world.go_further(1, "rtp", Joining::Beside);
    world.end();
    let playout = heard(&world.far).playout().unwrap();
    let packets = FRAMES.div_ceil(256) as f64;
    let missing = playout.lost as f64 / packets;
    // 1 % ± 3 standard deviations of 2250 packets.
    assert!((0.003..0.0165).contains(&missing), "{missing}");
    let [one, two] = [0, 1].map(|wire| world.sent[&WireId(wire)] as f64);
    assert!((1.9..2.05).contains(&((one + two) / one)), "{one} {two}");
}

#[test]
fn a_stream_over_two_unlike_paths_survives_the_death_of_either() {
    for dying in [0, 1] {
        let mut world = Wired::new(&[("rtp", "delay=5ms"), ("srp", "delay=25ms,jitter=2ms")], ms(80), 4);
        world.run_for(ms(500));
        world.go_further(1, "srp", Joining::Beside);
        world.run_for(ms(3000));
        assert_eq!(world.changes, [Change::Joined(WireId(1))]);
        world.links.remove(&WireId(dying));
        world.end();
        assert!(world.is_flawless(), "wire {dying}: {:?}", heard(&world.far).playout());
    }
}

#[test]
fn a_forged_association_without_the_token_joins_nothing() {
    let mut world = Wired::new(&[("rtp", "delay=10ms"), ("rtp", "delay=10ms")], ms(80), 1);
    world.run_for(ms(1000));
    let ssrc = world.near.send_track().unwrap().packetiser().ssrc();
    for n in 0..500u64 {
        // It knows the stream's SSRC and its numbers, and guesses tokens.
        let mut token = [0; 16];
        token[..8].copy_from_slice(&n.to_be_bytes());
        let mut rtp = vec![0x80, 96, 0, n as u8, 0, 0, 0, 0];
        rtp.extend(ssrc.to_be_bytes());
        rtp.extend([0x7f; 1024]);
        assert_eq!(classify(&rtp), Some(PacketKind::Rtp));
        for mut bytes in [rtp, App { ssrc, kind: AppKind::Join, token }.to_bytes().to_vec()] {
            let (path, received_at) = (PathId(0), world.now);
            let input = Input::Datagram { path, bytes: &mut bytes, received_at };
            world.far.handle_input(world.now, WireId(1), input);
        }
        world.run_for(ms(5));
    }
    world.end_flawless();
    assert!(world.far.unknown_sources() >= 490, "{}", world.far.unknown_sources());
}

#[test]
fn without_the_first_the_other_goes_on() {
    // The first path ends for good in the middle of a move: the receiver's machine refuses it.
    let mut world = Wired::new(&[("sctp", "delay=10ms"), ("srp", "delay=10ms")], ms(80), 2);
    world.run_for(ms(1000));
    world.go_further(1, "srp", Joining::Beside);
    world.run_for(ms(1000));
    world.links.remove(&WireId(0));
    world.end_flawless();
    assert_eq!(world.changes, [Change::Joined(WireId(1))]);
}
