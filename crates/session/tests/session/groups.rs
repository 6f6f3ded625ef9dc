//! Channel groups from end to end: each an RTP stream of its own, all on one clock, joined to one block at the
//! receiver.

use antiphon_core::{Instant, Participant};
use antiphon_media::packet::{ExtensionIds, parse_rtp};
use antiphon_media::{ChannelGroups, StreamFormat};
use antiphon_session::{Notice, SendTrackConfig, Session};

use crate::stream::notices;
use crate::world::{
    NEAR, WIRE, datagram, feed, heard, is_rtcp, linked, listening, ms, piped, send_session,
    send_session_with, track_config,
};
use antiphon_testkit::{Kept, Noise, expected, sent_on, stereo};

const END: Instant = Instant::from_millis(60_000);
const FRAMES: u64 = 480_017;

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).unwrap()
}

pub fn config(channels: u32, groups: &str) -> SendTrackConfig {
    let groups = ChannelGroups::parse(channels as usize, groups).unwrap();
    SendTrackConfig { groups, ..track_config(format(channels), 5) }
}

fn sending(scheme: &str, channels: u32, groups: &str) -> Session {
    send_session_with(scheme, Noise::new(format(channels), FRAMES), config(channels, groups))
}

/// The samples of some channels.
pub fn channels(samples: &[f32], of: usize, which: std::ops::Range<usize>) -> Vec<f32> {
    samples.chunks_exact(of).flat_map(|frame| frame[which.clone()].to_vec()).collect()
}

/// The SSRC of an RTP packet that crosses bare UDP; `None` for RTCP.
fn ssrc(bytes: &[u8]) -> Option<u32> {
    (!is_rtcp(bytes)).then(|| u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
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
            let near = sending(scheme, count, groups);
            let (mut world, kept) = linked(scheme, near, latency.map(ms), "delay=5ms,jitter=4ms", 11);
            world.run(END);
            let playout = heard(&world.far).playout().unwrap();
            let case = format!("{scheme} {groups}: {playout:?}");
            assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0), "{case}");
            assert!(kept.samples() == expected(format(count), 0, FRAMES), "{case}: {} samples", kept.len());
            assert_eq!(heard(&world.far).counters().packets, world.near.sent().peers.accepted);
            // Reports cover each group.
            let reports = world.near.reports();
            assert_eq!(reports.len(), 2);
            assert!(reports.iter().all(|r| r.is_some_and(|r| r.block.cumulative_lost == 0)), "{reports:?}");
            assert_eq!(heard(&world.far).sources().unknown_sources, 0, "{case}");
        }
    }
}

#[test]
fn groups_arrive_sample_exact_over_a_byte_stream() {
    let (mut world, kept) = piped(sending("tcp", 8, "2,2,4"), None, ms(5), 60_000);
    world.run(END);
    assert!(kept.samples() == expected(format(8), 0, FRAMES), "{} samples", kept.len());
    assert_eq!(heard(&world.far).groups().map(|g| g.channels).collect::<Vec<_>>(), [0..2, 2..4, 4..8]);
}

/// Sixty-four channels, each a group: the maximum.
#[test]
fn sixty_four_groups_are_one_stream() {
    let config =
        SendTrackConfig { groups: ChannelGroups::parse(64, "1").unwrap(), ..track_config(format(64), 5) };
    let near = send_session_with("rtp", Noise::new(format(64), 192_000), config);
    let (mut world, kept) = linked("rtp", near, Some(ms(40)), "delay=5ms", 3);
    world.run(END);
    assert!(kept.samples() == expected(format(64), 0, 192_000), "{} samples", kept.len());
    assert_eq!(world.near.reports().iter().flatten().count(), 64);
}

#[test]
fn one_group_is_the_stream_as_it_ever_was() {
    let bytes = |config: SendTrackConfig| {
        crossing(send_session_with("rtp", Noise::new(stereo(), 48_000), config), |_| true)
    };
    let whole = bytes(config(2, "2"));
    assert!(whole == bytes(track_config(stereo(), 5)) && whole.len() > 180);
    // 12 bytes of RTP and 20 of extensions, with no field for groups.
    let view = parse_rtp(&whole[0], ExtensionIds::default()).unwrap();
    assert_eq!((view.group, whole[0].len()), (None, 32 + 256 * 4));
}

#[test]
fn losses_of_a_group_do_not_affect_the_others() {
    let near = sending("rtp", 4, "2,2");
    let second = near.send_track().unwrap().ssrcs().nth(1);
    let (mut world, kept) = linked("rtp", near, Some(ms(40)), "delay=5ms,jitter=5ms", 1);
    // Seeded by the packet's number: one in ten, and none at the ends.
    world.up.taken = Some(Box::new(move |n, bytes| {
        ssrc(bytes) == second && (40..3_600).contains(&n) && n * 7919 % 101 < 10
    }));
    world.run(END);
    let groups: Vec<_> = heard(&world.far).groups().map(|group| group.playout).collect();
    assert!(groups[1].lost > 100 && groups[0].lost == 0, "{groups:?}");
    assert_eq!((groups[0].concealed_frames, groups[1].concealed_frames), (0, groups[1].lost * 256));
    assert_eq!(heard(&world.far).playout().unwrap().lost, groups[1].lost);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, FRAMES));
    assert_eq!(samples.len(), whole.len());
    assert!(channels(&samples, 4, 0..2) == channels(&whole, 4, 0..2));
    // In the other, only each hole and the packet after it, which is faded in, differ: no sample moved.
    let differs =
        |at: usize| channels(&samples[at * 4..][..4], 4, 2..4) != channels(&whole[at * 4..][..4], 4, 2..4);
    let wrong = (0..FRAMES as usize / 256).filter(|n| (0..256).any(|i| differs(n * 256 + i))).count() as u64;
    assert!((groups[1].lost..=2 * groups[1].lost).contains(&wrong), "{wrong}");
    let reports = world.near.reports();
    assert_eq!(reports[0].unwrap().block.cumulative_lost, 0);
    assert!(reports[1].unwrap().block.cumulative_lost > 80);
}

/// The wanted part of what a sender sends on bare UDP in four seconds.
fn crossing(mut session: Session, wanted: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    while now < Instant::from_millis(3_900) {
        session.advance(now);
        let sent = sent_on(&mut session, now, WIRE).into_iter().map(|(_, bytes)| bytes);
        all.extend(sent.filter(|bytes| wanted(bytes)));
        let Some(next) = session.poll_timeout() else { break };
        now = now.max(next);
    }
    all
}

/// Packets of a divided stream, without RTCP.
fn packets(groups: &str, seed: u64) -> Vec<Vec<u8>> {
    let config = SendTrackConfig { seed, ..config(4, groups) };
    let session = send_session_with("rtp", Noise::new(format(4), 192_000), config);
    crossing(session, |packet| ssrc(packet).is_some())
}

#[test]
fn a_late_receiver_has_all_groups_within_sixteen_blocks() {
    let kept = Kept::default();
    let (mut session, mut now) = (listening(&kept), Instant::from_millis(1));
    // Block 5 is odd: the first packet received is of the second group.
    let all = packets("2,2", 5);
    feed(&mut session, &mut now, NEAR, 2, &all[2 * 100 + 1..]);
    session.stop(now);
    let whole = expected(format(4), 0, 192_000);
    let samples = kept.samples();
    // Sound begins with the first announcement, in block 112 at the latest.
    let first = samples.chunks_exact(4).position(|frame| frame.iter().all(|s| *s != 0.0)).unwrap();
    let from = whole.chunks_exact(4).position(|frame| *frame == samples[first * 4..][..4]).unwrap();
    assert!((100 * 256..=113 * 256).contains(&from), "{from}");
    let len = samples.len() - first * 4;
    assert!(samples[first * 4..] == whole[from * 4..][..len], "aligned to the sample from the beginning");
    assert!(len > 150_000 && heard(&session).playout().unwrap().concealed_frames == 0);
    assert!(notices(&mut session).iter().all(|notice| matches!(notice, Notice::Began(..))));
    assert_eq!(heard(&session).sources().unknown_sources, 0);
}

#[test]
fn a_group_that_falls_silent_is_concealed_and_comes_back() {
    let kept = Kept::default();
    let (mut session, mut now) = (listening(&kept), Instant::from_millis(1));
    let all = packets("2,2", 5);
    let second = ssrc(&all[1]);
    let came: Vec<Vec<u8>> = all
        .iter()
        .enumerate()
        .filter(|(n, packet)| !(400..900).contains(n) || ssrc(packet) != second)
        .map(|(_, packet)| packet.clone())
        .collect();
    feed(&mut session, &mut now, NEAR, 2, &came[..400]);
    feed(&mut session, &mut now, NEAR, 1, &came[400..650]);
    feed(&mut session, &mut now, NEAR, 2, &came[650..]);
    session.stop(now);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame[0] != 0.0).unwrap() * 4;
    let samples = &samples[begin..];
    assert!(channels(samples, 4, 0..2) == channels(&whole[..samples.len()], 4, 0..2));
    let after = 452 * 256 * 4;
    assert!(samples[after..] == whole[after..samples.len()], "aligned when it is back");
    let groups: Vec<_> = heard(&session).groups().map(|group| group.playout).collect();
    assert_eq!((groups[0].lost, groups[1].lost, groups[1].concealed_frames), (0, 250, 250 * 256));
}

#[test]
fn unknown_sources_can_neither_take_a_group_nor_cost_memory() {
    let kept = Kept::default();
    let (mut session, mut now) = (listening(&kept), Instant::from_millis(1));
    let all = packets("2,2", 5);
    // In turn, each unknown source claims to be the second group of our sender, with an SSRC and numbers of its own;
    // then each claims to be a sender of groups.
    let forged = |n: u32, packet: &[u8], own: bool| {
        let mut packet = packet.to_vec();
        packet[8..12].copy_from_slice(&(n | 1 << 31).to_be_bytes());
        if own && let Some(at) = packet.windows(2).position(|w| w == [0x3d, 0x01]) {
            packet[at + 3..at + 7].copy_from_slice(&(n | 1 << 31).to_be_bytes());
        }
        packet
    };
    feed(&mut session, &mut now, NEAR, 2, &all[..8]);
    let (mut before, mut attempts) = (0, 0);
    for (n, block) in all[8..].chunks(2).enumerate() {
        for k in 0..20 {
            // Announced ones are the first 32 of each group.
            let packet = forged((n * 20 + k) as u32, &all[1 + 2 * (k % 30)], k % 2 == 0);
            session.handle_input(now, WIRE, datagram(&mut packet.to_vec(), NEAR, now));
            attempts += 1;
        }
        feed(&mut session, &mut now, NEAR, 2, block);
        if n == 100 {
            before = heard(&session).groups().count();
        }
    }
    session.stop(now);
    assert_eq!((before, heard(&session).groups().count()), (2, 2));
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame.iter().all(|s| *s != 0.0)).unwrap() * 4;
    assert!(samples[begin..] == whole[..samples.len() - begin], "not one sample of an unknown source's");
    let sources = heard(&session).sources();
    assert_eq!((sources.unknown_sources, sources.streams), (attempts, 1));
    assert!(session.peers().next().unwrap().rtcp().receptions().count() == 2);
}

#[test]
fn another_division_of_the_same_channels_is_followed() {
    let kept = Kept::default();
    let (mut session, mut now) = (listening(&kept), Instant::from_millis(1));
    feed(&mut session, &mut now, NEAR, 2, &packets("2,2", 5)[..600]);
    now += ms(2_500);
    feed(&mut session, &mut now, NEAR, 3, &packets("1,1,2", 6)[..900]);
    now += ms(2_500);
    feed(&mut session, &mut now, NEAR, 2, &packets("4", 7)[..600]);
    session.stop(now);
    let playout = heard(&session).playout().unwrap();
    assert_eq!(heard(&session).groups().count(), 1);
    // 600 and 900 packets of the divided ones; not the unknown source's first that proves it.
    assert!(playout.played > 1_900 && playout.late == 0, "{playout:?}");
    let began = notices(&mut session);
    assert_eq!(began.iter().filter(|n| matches!(n, Notice::NewStream { .. })).count(), 2, "{began:?}");
}

#[test]
fn a_group_whose_numbers_begin_anew_goes_on_in_its_place() {
    let kept = Kept::default();
    let (mut session, mut now) = (listening(&kept), Instant::from_millis(1));
    let mut all = packets("2,2", 5);
    // From block 100 on, the second group numbers from far behind: without the restart rule all of it would be too old.
    for packet in all[200..].iter_mut().skip(1).step_by(2) {
        let sequence = u16::from_be_bytes([packet[2], packet[3]]).wrapping_sub(20_000);
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
    }
    feed(&mut session, &mut now, NEAR, 2, &all);
    session.stop(now);
    let (samples, whole) = (kept.samples(), expected(format(4), 0, 192_000));
    let begin = samples.chunks_exact(4).position(|frame| frame[0] != 0.0).unwrap() * 4;
    let samples = &samples[begin..];
    assert!(channels(samples, 4, 0..2) == channels(&whole[..samples.len()], 4, 0..2));
    // The first packet of the new numbers is dropped, as one proves nothing; the one after it is faded in.
    let after = 102 * 1024;
    assert!(samples[after..] == whole[after..samples.len()]);
    let second = heard(&session).groups().nth(1).unwrap().playout;
    assert_eq!((second.concealed_frames, second.lost, second.discarded), (256, 0, 0), "{second:?}");
}

#[test]
fn a_stream_that_is_not_divided_ignores_what_is() {
    // Known by our sender's SSRC alone, a source that sends groups is an unknown source.
    let kept = Kept::default();
    let mut session = listening(&kept);
    let ours = crossing(send_session("rtp", stereo(), 96_000, 9), |packet| ssrc(packet).is_some());
    let (mut now, theirs) = (Instant::from_millis(1), packets("2,2", 5));
    for (our, their) in ours.iter().zip(&theirs) {
        feed(&mut session, &mut now, NEAR, 1, std::slice::from_ref(our));
        session.handle_input(now, WIRE, datagram(&mut their.to_vec(), NEAR, now));
    }
    session.stop(now);
    assert!(kept.samples().windows(2_000).any(|part| *part == expected(stereo(), 0, 1_000)));
    let n = ours.len();
    // Sources that tell no format are not even counted as unknown sources.
    let unknown = heard(&session).counters().unknown_format;
    let unknown_sources = heard(&session).sources().unknown_sources;
    assert!(
        n > 300 && unknown_sources > 64 && unknown_sources + unknown == n as u64,
        "{unknown_sources} {unknown}"
    );
    let unknown_sources = notices(&mut session);
    assert_eq!(
        unknown_sources.iter().filter(|n| matches!(n, Notice::UnknownSource { .. })).count(),
        1,
        "{unknown_sources:?}"
    );
}
