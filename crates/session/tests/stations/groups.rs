//! Channel groups from end to end: each an RTP stream of its own, all on one clock, and one block comes out.

use std::cell::Cell;
use std::rc::Rc;

use antiphon_core::Instant;
use antiphon_media::packet::{ExtensionIds, parse_rtp};
use antiphon_media::{ChannelGroups, StreamFormat};
use antiphon_session::{Notice, OpenSink, ReceiveStation, SendStation, SenderConfig, Station};

use crate::sound::{Kept, Noise, expected, stereo};
use crate::stream::notices;
use crate::world::{
    NEAR, World, datagram, ms, receive_station, receive_station_with, send_station, send_station_with,
    sender_config,
};

const END: Instant = Instant::from_millis(60_000);
const FRAMES: u64 = 480_017;

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).unwrap()
}

fn config(channels: u32, groups: &str) -> SenderConfig {
    let groups = ChannelGroups::parse(channels as usize, groups).unwrap();
    SenderConfig { groups, ..sender_config(format(channels), None, 5) }
}

fn sending(scheme: &str, channels: u32, groups: &str) -> SendStation {
    send_station_with(scheme, Noise::new(format(channels), FRAMES), config(channels, groups))
}

/// The samples of some channels.
fn channels(samples: &[f32], of: usize, which: std::ops::Range<usize>) -> Vec<f32> {
    samples.chunks_exact(of).flat_map(|frame| frame[which.clone()].to_vec()).collect()
}

/// The SSRC of an RTP packet that crosses bare UDP; `None` for RTCP.
fn ssrc(bytes: &[u8]) -> Option<u32> {
    let sound = !(200..=204).contains(&bytes[1]);
    sound.then(|| u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
}

#[test]
fn groups_arrive_sample_exact_over_every_transport() {
    for (scheme, latency) in [
        ("rtp", Some(60)),
        ("rtp", None),
        ("sctp?streams=3&order=ordered", Some(60)),
        ("sctp?streams=3&reliability=full&order=ordered", None),
        ("sctp?streams=2", Some(60)),
        ("sctp", Some(60)),
        ("dccp?ccid=2", Some(60)),
        ("srp", Some(120)),
        ("arq", Some(60)),
    ] {
        for (count, groups) in [(4, "2,2"), (3, "1,2")] {
            let kept = Kept::default();
            let far = receive_station(scheme, latency.map(ms), &kept);
            let near = sending(scheme, count, groups);
            let mut world = World::linked(near, far, "delay=5ms,jitter=4ms", 11);
            world.run(END);
            let playout = world.far.receiver().playout().unwrap();
            let case = format!("{scheme} {groups}: {playout:?}");
            assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0), "{case}");
            assert!(kept.samples() == expected(format(count), 0, FRAMES), "{case}: {} samples", kept.len());
            assert_eq!(world.far.receiver().counters().packets, world.near.counters().accepted);
            // Reports speak of each group.
            let reports = world.near.reports();
            assert_eq!(reports.len(), 2);
            assert!(reports.iter().all(|r| r.is_some_and(|r| r.block.cumulative_lost == 0)), "{reports:?}");
            assert_eq!(world.far.receiver().sources().strangers, 0, "{case}");
        }
    }
}

#[test]
fn groups_arrive_sample_exact_over_a_byte_stream() {
    let kept = Kept::default();
    let mut world =
        World::piped(sending("tcp", 8, "2,2,4"), receive_station("tcp", None, &kept), ms(5), 60_000);
    world.run(END);
    assert!(kept.samples() == expected(format(8), 0, FRAMES), "{} samples", kept.len());
    assert_eq!(world.far.receiver().groups().map(|g| g.channels).collect::<Vec<_>>(), [0..2, 2..4, 4..8]);
}

/// Sixty-four channels, each by itself: the most there may be.
#[test]
fn sixty_four_groups_are_one_stream() {
    let kept = Kept::default();
    let config =
        SenderConfig { groups: ChannelGroups::parse(64, "1").unwrap(), ..sender_config(format(64), None, 5) };
    let near = send_station_with("rtp", Noise::new(format(64), 192_000), config);
    let mut world = World::linked(near, receive_station("rtp", Some(ms(40)), &kept), "delay=5ms", 3);
    world.run(END);
    assert!(kept.samples() == expected(format(64), 0, 192_000), "{} samples", kept.len());
    assert_eq!(world.near.reports().iter().flatten().count(), 64);
}

#[test]
fn one_group_is_the_stream_as_it_ever_was() {
    let bytes = |config: SenderConfig| {
        crossing(send_station_with("rtp", Noise::new(stereo(), 48_000), config), |_| true)
    };
    let whole = bytes(config(2, "2"));
    assert!(whole == bytes(sender_config(stereo(), None, 5)) && whole.len() > 180);
    // 12 bytes of RTP and 20 of extensions: none of them of groups.
    let view = parse_rtp(&whole[0], ExtensionIds::default()).unwrap();
    assert_eq!((view.group, whole[0].len()), (None, 32 + 256 * 4));
}

#[test]
fn what_one_group_loses_the_others_keep() {
    let kept = Kept::default();
    let near = sending("rtp", 4, "2,2");
    let second = near.sender().ssrcs().nth(1);
    let mut world =
        World::linked(near, receive_station("rtp", Some(ms(40)), &kept), "delay=5ms,jitter=5ms", 1);
    // Seeded by the packet's number: one in ten, and none at the ends.
    world.drop_up = Some(Box::new(move |n, bytes| {
        ssrc(bytes) == second && (40..3_600).contains(&n) && n * 7919 % 101 < 10
    }));
    world.run(END);
    let groups: Vec<_> = world.far.receiver().groups().map(|group| group.playout).collect();
    assert!(groups[1].lost > 100 && groups[0].lost == 0, "{groups:?}");
    assert_eq!((groups[0].concealed_frames, groups[1].concealed_frames), (0, groups[1].lost * 256));
    assert_eq!(world.far.receiver().playout().unwrap().lost, groups[1].lost);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, FRAMES));
    assert_eq!(samples.len(), whole.len());
    assert!(channels(&samples, 4, 0..2) == channels(&whole, 4, 0..2));
    // In the other, each hole and the packet behind it, which is faded in, are all that differs: no sample moved.
    let differs =
        |at: usize| channels(&samples[at * 4..][..4], 4, 2..4) != channels(&whole[at * 4..][..4], 4, 2..4);
    let wrong = (0..FRAMES as usize / 256).filter(|n| (0..256).any(|i| differs(n * 256 + i))).count() as u64;
    assert!((groups[1].lost..=2 * groups[1].lost).contains(&wrong), "{wrong}");
    let reports = world.near.reports();
    assert_eq!(reports[0].unwrap().block.cumulative_lost, 0);
    assert!(reports[1].unwrap().block.cumulative_lost > 80);
}

/// What a sender puts on bare UDP in four seconds, of what is wanted.
fn crossing(mut station: SendStation, wanted: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let (mut now, mut all, mut buf) = (Instant::ZERO, Vec::new(), vec![0; 1500]);
    while now < Instant::from_millis(3_900) {
        station.advance(now);
        while let Some(transmit) = station.poll_transmit(now, &mut buf) {
            if wanted(&buf[..transmit.len]) {
                all.push(buf[..transmit.len].to_vec());
            }
        }
        let Some(next) = station.poll_timeout() else { break };
        now = now.max(next);
    }
    all
}

/// Packets of a divided stream, without RTCP.
fn packets(groups: &str, seed: u64) -> Vec<Vec<u8>> {
    let config = SenderConfig { seed, ..config(4, groups) };
    let station = send_station_with("rtp", Noise::new(format(4), 192_000), config);
    crossing(station, |packet| ssrc(packet).is_some())
}

/// An endless receiver with a playout target.
fn listening(kept: &Kept) -> ReceiveStation {
    let kept = kept.clone();
    let open_sink: OpenSink = Box::new(move |format, _| Ok(kept.sink(format)));
    receive_station_with("rtp", Some(ms(40)), open_sink, false, Instant::ZERO)
}

/// Hands over the packets of a block every 256/48 000 s.
fn feed(station: &mut ReceiveStation, now: &mut Instant, per_block: usize, packets: &[Vec<u8>]) {
    for block in packets.chunks(per_block) {
        *now += std::time::Duration::from_nanos(5_333_333);
        for packet in block {
            station.handle_input(*now, datagram(packet, NEAR, *now));
        }
        station.advance(*now);
    }
}

#[test]
fn a_receiver_that_comes_in_the_middle_has_all_groups_within_sixteen_blocks() {
    let kept = Kept::default();
    let (mut station, mut now) = (listening(&kept), Instant::from_millis(1));
    // Five in the first block that is heard is odd: the first packet heard is of the second group.
    let all = packets("2,2", 5);
    feed(&mut station, &mut now, 2, &all[2 * 100 + 1..]);
    station.stop(now);
    let whole = expected(format(4), 0, 192_000);
    let samples = kept.samples();
    // Sound begins with the first announcement, in block 112 at the latest.
    let first = samples.chunks_exact(4).position(|frame| frame.iter().all(|s| *s != 0.0)).unwrap();
    let from = whole.chunks_exact(4).position(|frame| *frame == samples[first * 4..][..4]).unwrap();
    assert!((100 * 256..=113 * 256).contains(&from), "{from}");
    let len = samples.len() - first * 4;
    assert!(samples[first * 4..] == whole[from * 4..][..len], "aligned to the sample from the beginning");
    assert!(len > 150_000 && station.receiver().playout().unwrap().concealed_frames == 0);
    assert!(notices(&mut station).iter().all(|notice| matches!(notice, Notice::Began(..))));
    assert_eq!(station.receiver().sources().strangers, 0);
}

#[test]
fn a_group_that_falls_silent_is_concealed_and_comes_back() {
    let kept = Kept::default();
    let (mut station, mut now) = (listening(&kept), Instant::from_millis(1));
    let all = packets("2,2", 5);
    let second = ssrc(&all[1]);
    let heard: Vec<Vec<u8>> = all
        .iter()
        .enumerate()
        .filter(|(n, packet)| !(400..900).contains(n) || ssrc(packet) != second)
        .map(|(_, packet)| packet.clone())
        .collect();
    feed(&mut station, &mut now, 2, &heard[..400]);
    feed(&mut station, &mut now, 1, &heard[400..650]);
    feed(&mut station, &mut now, 2, &heard[650..]);
    station.stop(now);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame[0] != 0.0).unwrap() * 4;
    let samples = &samples[begin..];
    assert!(channels(samples, 4, 0..2) == channels(&whole[..samples.len()], 4, 0..2));
    let after = 452 * 256 * 4;
    assert!(samples[after..] == whole[after..samples.len()], "aligned when it is back");
    let groups: Vec<_> = station.receiver().groups().map(|group| group.playout).collect();
    assert_eq!((groups[0].lost, groups[1].lost, groups[1].concealed_frames), (0, 250, 250 * 256));
}

#[test]
fn strangers_cannot_take_a_group_nor_cost_memory() {
    let kept = Kept::default();
    let (mut station, mut now) = (listening(&kept), Instant::from_millis(1));
    let all = packets("2,2", 5);
    // Everyone after the other claims to be the second group of our sender, with an SSRC and numbers of his own; then each
    // names himself a sender of groups.
    let forged = |n: u32, packet: &[u8], own: bool| {
        let mut packet = packet.to_vec();
        packet[8..12].copy_from_slice(&(n | 1 << 31).to_be_bytes());
        if own && let Some(at) = packet.windows(2).position(|w| w == [0x3d, 0x01]) {
            packet[at + 3..at + 7].copy_from_slice(&(n | 1 << 31).to_be_bytes());
        }
        packet
    };
    feed(&mut station, &mut now, 2, &all[..8]);
    let (mut before, mut attempts) = (0, 0);
    for (n, block) in all[8..].chunks(2).enumerate() {
        for k in 0..20 {
            // Announced ones are the first 32 of each group.
            let packet = forged((n * 20 + k) as u32, &all[1 + 2 * (k % 30)], k % 2 == 0);
            station.handle_input(now, datagram(&packet, NEAR, now));
            attempts += 1;
        }
        feed(&mut station, &mut now, 2, block);
        if n == 100 {
            before = station.receiver().groups().count();
        }
    }
    station.stop(now);
    assert_eq!((before, station.receiver().groups().count()), (2, 2));
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame.iter().all(|s| *s != 0.0)).unwrap() * 4;
    assert!(samples[begin..] == whole[..samples.len() - begin], "not one sample of a stranger's");
    let sources = station.receiver().sources();
    assert_eq!((sources.strangers, sources.streams), (attempts, 1));
    assert!(station.receiver().rtcp().receptions().count() == 2);
}

#[test]
fn another_division_of_the_same_channels_is_followed() {
    let kept = Kept::default();
    let (mut station, mut now) = (listening(&kept), Instant::from_millis(1));
    feed(&mut station, &mut now, 2, &packets("2,2", 5)[..600]);
    now += ms(2_500);
    feed(&mut station, &mut now, 3, &packets("1,1,2", 6)[..900]);
    now += ms(2_500);
    feed(&mut station, &mut now, 2, &packets("4", 7)[..600]);
    station.stop(now);
    let playout = station.receiver().playout().unwrap();
    assert_eq!(station.receiver().groups().count(), 1);
    // 600 and 900 packets of the divided ones; not the stranger's first that proves him.
    assert!(playout.played > 1_900 && playout.late == 0, "{playout:?}");
    let began = notices(&mut station);
    assert_eq!(began.iter().filter(|n| matches!(n, Notice::NewStream { .. })).count(), 2, "{began:?}");
}

#[test]
fn a_goodbye_does_not_cut_off_a_group_that_is_behind() {
    let scheme = "sctp?order=ordered&streams=3&reliability=full";
    let kept = Kept::default();
    // Repetitions take longer than the receiver waits for stragglers after a goodbye, 100 ms.
    let mut world = World::linked(slow(scheme), receive_station(scheme, None, &kept), "delay=150ms", 1);
    let (lost, last) = (Rc::new(Cell::new(0)), (SLOW_FRAMES / 256 - 1) as u16);
    let counted = Rc::clone(&lost);
    world.drop_up = Some(Box::new(move |_, packet| {
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
    assert_eq!(world.far.receiver().playout().unwrap().concealed_frames, 0);
}

#[test]
fn a_group_whose_numbers_begin_anew_goes_on_in_its_place() {
    let kept = Kept::default();
    let (mut station, mut now) = (listening(&kept), Instant::from_millis(1));
    let mut all = packets("2,2", 5);
    // From block 100 on, the second group counts from far behind: without its knowledge all of it would be too old.
    for packet in all[200..].iter_mut().skip(1).step_by(2) {
        let sequence = u16::from_be_bytes([packet[2], packet[3]]).wrapping_sub(20_000);
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
    }
    feed(&mut station, &mut now, 2, &all);
    station.stop(now);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame[0] != 0.0).unwrap() * 4;
    let samples = &samples[begin..];
    assert!(channels(samples, 4, 0..2) == channels(&whole[..samples.len()], 4, 0..2));
    // The first packet of the new numbers proves nothing and is dropped; the one behind it is faded in.
    let after = 102 * 1024;
    assert!(samples[after..] == whole[after..samples.len()]);
    let second = station.receiver().groups().nth(1).unwrap().playout;
    assert_eq!((second.concealed_frames, second.lost, second.discarded), (256, 0, 0), "{second:?}");
}

#[test]
fn a_stream_that_is_not_divided_ignores_what_is() {
    // Told by our sender's SSRC alone, somebody who sends groups is a stranger.
    let kept = Kept::default();
    let mut station = listening(&kept);
    let ours = crossing(send_station("rtp", stereo(), 96_000, 9), |packet| ssrc(packet).is_some());
    let (mut now, theirs) = (Instant::from_millis(1), packets("2,2", 5));
    for (our, their) in ours.iter().zip(&theirs) {
        feed(&mut station, &mut now, 1, std::slice::from_ref(our));
        station.handle_input(now, datagram(their, NEAR, now));
    }
    station.stop(now);
    assert!(kept.samples().windows(2_000).any(|part| *part == expected(stereo(), 0, 1_000)));
    let n = ours.len();
    // Those that say no format are not even strangers.
    let unknown = station.receiver().counters().unknown_format;
    let strangers = station.receiver().sources().strangers;
    assert!(n > 300 && strangers > 64 && strangers + unknown == n as u64, "{strangers} {unknown}");
    let strangers = notices(&mut station);
    assert_eq!(strangers.iter().filter(|n| matches!(n, Notice::Stranger { .. })).count(), 1, "{strangers:?}");
}

/// Whether a packet holds nothing but DATA on stream 0 (RFC 9260 §3.3.1).
fn is_of_stream_0(packet: &[u8]) -> bool {
    packet.len() > 400 && packet[12] == 0 && packet[20..22] == [0, 0]
}

/// A stream of so little sound that no congestion window holds it back, in packets that don't share a datagram: four channels
/// at 8 kHz for twenty seconds.
fn slow(scheme: &str) -> SendStation {
    let config = SenderConfig { groups: config(4, "2").groups, ..sender_config(slow_format(), None, 5) };
    send_station_with(scheme, Noise::new(slow_format(), SLOW_FRAMES), config)
}

/// Whole blocks.
const SLOW_FRAMES: u64 = 625 * 256;

fn slow_format() -> StreamFormat {
    StreamFormat::new(8_000, 4).unwrap()
}

#[test]
fn losses_of_one_group_hold_up_none_of_the_others_where_each_has_a_stream() {
    let run = |scheme: &'static str| {
        let kept = Kept::default();
        // A repetition takes longer than the playout target: two round trips of 30 ms. What a window of one packet after it
        // holds back, one round trip, does not.
        let far = receive_station(scheme, Some(ms(45)), &kept);
        let mut world = World::linked(slow(scheme), far, "delay=15ms", 1);
        let mut sent = 0u64;
        world.drop_up = Some(Box::new(move |_, packet| {
            // One in twenty of stream 0, from the second second on: the first group's, or everybody's.
            let ours = is_of_stream_0(packet);
            sent += u64::from(ours);
            ours && sent > 40 && sent % 20 == 1
        }));
        world.run(END);
        assert!(world.near.path_stats().counters.retransmitted > 20);
        let groups: Vec<_> = world.far.receiver().groups().map(|group| group.playout).collect();
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
        let kept = Kept::default();
        let far = receive_station(scheme, Some(ms(40)), &kept);
        let mut world = World::linked(slow(scheme), far, link, 21);
        world.run(END);
        let (samples, whole) = (kept.samples(), expected(slow_format(), 0, SLOW_FRAMES));
        // The last packets may be among the lost.
        let len = samples.len();
        assert!(len <= whole.len() && len + 4 * 2560 > whole.len(), "{scheme}: {len}");
        for (group, playout) in world.far.receiver().groups().map(|group| group.playout).enumerate() {
            let blocks = samples.len() / 1024;
            let is_exact = |n: usize| {
                let part =
                    |samples: &[f32]| channels(&samples[n * 1024..][..1024], 4, 2 * group..2 * group + 2);
                part(&samples) == part(&whole)
            };
            let exact = (0..blocks).filter(|n| is_exact(*n)).count() as u64;
            let missed = playout.lost + playout.late;
            // What is missing, and the block behind each hole, which is faded in. A sample out of place would leave nothing.
            assert!(exact + 2 * missed + 2 >= blocks as u64, "{scheme}: {exact} of {blocks}, {playout:?}");
            assert!(exact * 100 > blocks as u64 * 75, "{scheme}: {exact} of {blocks}, {playout:?}");
        }
        let up = world.link().up.counters();
        assert!(up.lost > 20, "{up:?}");
    }
}
