//! Channel groups on streams of their own, and what losses on one cost the others.

use std::cell::Cell;
use std::rc::Rc;

use antiphon_core::Instant;
use antiphon_media::StreamFormat;
use antiphon_session::{SendTrackConfig, Session};
use antiphon_testkit::{Noise, expected};

use crate::groups::{channels, config};
use crate::world::{heard, linked, ms, send_session_with, track_config};

const END: Instant = Instant::from_millis(60_000);

#[test]
fn a_goodbye_does_not_cut_off_a_group_that_is_behind() {
    let scheme = "sctp?order=ordered&streams=3&reliability=full";
    // Repetitions take longer than the receiver waits for stragglers after a goodbye, 100 ms.
    let (mut world, kept) = linked(scheme, slow(scheme), None, "delay=150ms", 1);
    let (lost, last) = (Rc::new(Cell::new(0)), (SLOW_FRAMES / 256 - 1) as u16);
    let counted = Rc::clone(&lost);
    world.up.taken = Some(Box::new(move |_, packet| {
        // DATA on stream 2 with the number of the last block of the second group (RFC 9260 §3.3.1), twice.
        let is_last = packet.len() > 400
            && packet[12] == 0
            && packet[20..22] == [0, 2]
            && packet[22..24] == last.to_be_bytes();
        counted.set(counted.get() + u32::from(is_last));
        is_last && counted.get() <= 2
    }));
    world.run(END);
    assert_eq!(lost.get(), 3, "sent three times");
    assert!(kept.samples() == expected(slow_format(), 0, SLOW_FRAMES), "{} samples", kept.len());
    assert_eq!(heard(&world.far).playout().unwrap().concealed_frames, 0);
}

/// Whether a packet holds nothing but DATA on stream 0 (RFC 9260 §3.3.1).
fn is_of_stream_0(packet: &[u8]) -> bool {
    packet.len() > 400 && packet[12] == 0 && packet[20..22] == [0, 0]
}

/// A stream of so little sound that no congestion window holds it back, in packets that don't share a datagram: four channels
/// at 8 kHz for twenty seconds.
fn slow(scheme: &str) -> Session {
    let config = SendTrackConfig { groups: config(4, "2").groups, ..track_config(slow_format(), 5) };
    send_session_with(scheme, Noise::new(slow_format(), SLOW_FRAMES), config)
}

/// Whole blocks.
const SLOW_FRAMES: u64 = 625 * 256;

fn slow_format() -> StreamFormat {
    StreamFormat::new(8_000, 4).unwrap()
}

#[test]
fn losses_of_a_group_on_its_own_stream_delay_no_other_group() {
    let run = |scheme: &'static str| {
        // A repetition takes longer than the playout delay: a round trip of 30 ms, and a quarter of it for reordering.
        let (mut world, kept) = linked(scheme, slow(scheme), Some(ms(30)), "delay=15ms", 1);
        let mut sent = 0u64;
        world.up.taken = Some(Box::new(move |_, packet| {
            // One in twenty of stream 0, from the second second on: the first group's only, or those of all groups.
            let ours = is_of_stream_0(packet);
            sent += u64::from(ours);
            ours && sent > 40 && sent % 20 == 1
        }));
        world.run(END);
        assert!(world.near.stats().counters.retransmitted > 20);
        let groups: Vec<_> = heard(&world.far).groups().map(|group| group.playout).collect();
        (groups, kept.samples())
    };
    let (groups, samples) = run("sctp?order=ordered&reliability=full&streams=3");
    assert!(groups[0].late > 20 && groups[0].concealments > 20, "{groups:?}");
    assert_eq!((groups[1].late, groups[1].lost, groups[1].concealed_frames), (0, 0, 0));
    assert!(channels(&samples, 4, 2..4) == channels(&expected(slow_format(), 0, SLOW_FRAMES), 4, 2..4));

    // On one stream the second waits with the first.
    let (groups, _) = run("sctp?order=ordered&reliability=full");
    assert!(groups[1].late > 20 && groups[1].concealments > 20, "{groups:?}");
}

#[test]
fn through_mixed_losses_whatever_comes_is_in_its_place() {
    for (scheme, link) in [
        ("rtp", "delay=5ms,jitter=8ms,loss=8%"),
        ("sctp?streams=3", "delay=10ms,jitter=3ms,loss=5%"),
        ("sctp?streams=3&order=ordered&retransmissions=0", "delay=10ms,loss=5%"),
        ("dccp", "delay=10ms,loss=5%"),
        ("arq", "delay=10ms,loss=5%"),
    ] {
        let (mut world, kept) = linked(scheme, slow(scheme), Some(ms(40)), link, 21);
        world.run(END);
        let (samples, whole) = (kept.samples(), expected(slow_format(), 0, SLOW_FRAMES));
        // The last packets may be among the lost.
        let len = samples.len();
        assert!(len <= whole.len() && len + 4 * 2560 > whole.len(), "{scheme}: {len}");
        for (group, playout) in heard(&world.far).groups().map(|group| group.playout).enumerate() {
            let blocks = samples.len() / 1024;
            let is_exact = |n: usize| {
                let part =
                    |samples: &[f32]| channels(&samples[n * 1024..][..1024], 4, 2 * group..2 * group + 2);
                part(&samples) == part(&whole)
            };
            let exact = (0..blocks).filter(|n| is_exact(*n)).count() as u64;
            let missed = playout.lost + playout.late;
            // What differs is the missing blocks, and the block after each hole, which is faded in. A shifted sample
            // would make all differ.
            assert!(exact + 2 * missed + 2 >= blocks as u64, "{scheme}: {exact} of {blocks}, {playout:?}");
            assert!(exact * 100 > blocks as u64 * 75, "{scheme}: {exact} of {blocks}, {playout:?}");
        }
        let up = world.link().up.counters();
        assert!(up.lost > 20, "{up:?}");
    }
}
