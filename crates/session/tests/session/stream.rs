//! From a sender to a receiver: nothing is added, nothing is left out, no other sender is heard.

use crate::world::{
    NEAR, SILENCE, WIRE, World, datagram, datagram_transports, feed, heard, is_rtcp, linked, listening, ms,
    receive_session, send_session, send_session_with, track_config,
};
use antiphon_core::{Instant, MediaTime, Participant, PathId};
use antiphon_media::StreamFormat;
use antiphon_session::{Notice, Session};
use antiphon_testkit::{Kept, Noise, expected, sent_on, stereo};

const END: Instant = Instant::from_millis(60_000);

/// Half a minute of datagrams as a sender with that seed makes them.
pub fn packets(seed: u64, frames: u64) -> Vec<Vec<u8>> {
    let mut session = send_session("rtp", stereo(), frames, seed);
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    while all.len() < (frames / 256) as usize {
        session.advance(now);
        // RTCP goes beside it; only sound is wanted here.
        let sent = sent_on(&mut session, now, WIRE).into_iter().map(|(_, bytes)| bytes);
        all.extend(sent.filter(|bytes| !is_rtcp(bytes)));
        now = session.poll_timeout().expect("a sender has a schedule");
    }
    all
}

pub fn notices(session: &mut Session) -> Vec<Notice> {
    std::iter::from_fn(|| session.receive_track_mut().unwrap().poll_notice()).collect()
}

#[test]
fn jitter_below_the_playout_delay_changes_no_sample() {
    for (rate, channels, latency) in [(48_000, 2, 40), (44_100, 1, 25), (8_000, 1, 80), (96_000, 6, 40)] {
        let format = StreamFormat::new(rate, channels).unwrap();
        for link in ["ideal", "delay=5ms,jitter=10ms", "delay=80ms,up.jitter=8ms/normal"] {
            let frames = u64::from(rate) * 3 + 17;
            let (mut world, kept) =
                linked("rtp", send_session("rtp", format, frames, 5), Some(ms(latency)), link, 11);
            world.run(END);
            let (playout, samples) = (heard(&world.far).playout().unwrap(), kept.samples());
            assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0), "{format} {link}");
            assert!(
                samples == expected(format, 0, frames),
                "{format} over {link}: {} samples",
                samples.len()
            );
            let counters = (world.near.sent().peers, heard(&world.far).counters());
            assert_eq!(counters.0.accepted, counters.1.packets);
            assert_eq!((counters.1.malformed, world.far.unknown_sources()), (0, 0));
            assert!(world.near.last_report().is_some_and(|report| report.block.cumulative_lost == 0));
        }
    }
}

/// Includes calls that a validator answers.
#[test]
fn nothing_of_a_call_is_an_unknown_sources() {
    for transport in datagram_transports() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let near = send_session(transport.scheme, format, 48_000, 5);
        let (mut world, _kept) = linked(transport.scheme, near, Some(ms(40)), "delay=5ms", 11);
        world.run(END);
        let far = (heard(&world.far).counters().packets > 0, world.far.unknown_sources());
        assert_eq!(far, (true, 0), "{}", transport.scheme);
    }
}

#[test]
fn losses_are_counted_and_filled_and_the_rest_is_exact() {
    let (mut world, kept) =
        linked("rtp", send_session("rtp", stereo(), 480_000, 5), Some(ms(40)), "delay=5ms", 1);
    world.up.taken = Some(Box::new(|n, bytes| !is_rtcp(bytes) && n % 20 == 10));
    world.run(END);
    let playout = heard(&world.far).playout().unwrap();
    assert!(playout.lost > 80, "{playout:?}");
    assert_eq!((playout.concealed_frames, playout.late), (playout.lost * 256, 0));
    let (samples, whole) = (kept.samples(), expected(stereo(), 0, 480_000));
    assert_eq!(samples.len(), whole.len());
    let wrong = samples.chunks(512).zip(whole.chunks(512)).filter(|(got, want)| got != want).count() as u64;
    // The packet after a hole is faded in.
    assert_eq!(wrong, 2 * playout.lost);
    // RTCP reports the same to the sender.
    let report = world.near.last_report().unwrap();
    assert!(report.block.cumulative_lost as u64 <= playout.lost && report.block.cumulative_lost > 70);
}

#[test]
fn another_ssrc_on_the_same_path_is_noticed_and_not_mixed_in() {
    let kept = Kept::default();
    let mut session = listening(&kept);
    let (ours, theirs) = (packets(1, 48_000), packets(2, 48_000));
    let mut now = Instant::from_millis(1);
    for (mine, yours) in ours.iter().zip(&theirs) {
        feed(&mut session, &mut now, NEAR, 1, std::slice::from_ref(mine));
        session.handle_input(now, WIRE, datagram(&mut yours.to_vec(), NEAR, now));
    }
    session.stop(now);
    let counters = heard(&session).counters();
    assert_eq!((heard(&session).sources().unknown_sources, counters.unknown_format), (187, 0));
    let said = notices(&mut session);
    assert_eq!(said.iter().filter(|n| matches!(n, Notice::UnknownSource { .. })).count(), 1, "{said:?}");
    assert!(kept.samples() == expected(stereo(), 0, 187 * 256));
}

#[test]
fn a_datagram_from_another_path_never_reaches_the_stream() {
    let kept = Kept::default();
    let mut session = listening(&kept);
    let (ours, theirs) = (packets(1, 48_000), packets(2, 48_000));
    let mut now = Instant::from_millis(1);
    feed(&mut session, &mut now, NEAR, 1, &ours[..2]);
    for (n, (mine, yours)) in ours[2..].iter().zip(&theirs).enumerate() {
        feed(&mut session, &mut now, NEAR, 1, std::slice::from_ref(mine));
        // An unknown source with its own packets, and one that repeats what our peer sends a moment earlier.
        session.handle_input(now, WIRE, datagram(&mut yours.to_vec(), PathId(8), now));
        session.handle_input(
            now,
            WIRE,
            datagram(&mut ours.get(n + 3).unwrap_or(mine).to_vec(), PathId(9), now),
        );
    }
    session.stop(now);
    assert_eq!(session.unknown_sources(), 2 * 185);
    assert_eq!(heard(&session).playout().unwrap().duplicate, 0);
    assert!(kept.samples() == expected(stereo(), 0, 187 * 256));
    assert!(session.knows(WIRE, NEAR) && !session.knows(WIRE, PathId(8)));
}

/// One stray datagram, such as a port scan's, must not keep the real sender out.
#[test]
fn a_stray_datagram_does_not_take_the_place_of_the_first_sender() {
    let kept = Kept::default();
    let mut session = receive_session("rtp", None, &kept);
    let stray = packets(2, 256);
    let mut now = Instant::from_millis(1);
    session.handle_input(now, WIRE, datagram(&mut stray[0].to_vec(), PathId(3), now));
    session.advance(now);
    let near = send_session("rtp", stereo(), 24_000, 1);
    let mut world = World::linked(near, session, "delay=1ms", 1);
    now = END;
    world.run(now);
    assert!(world.far.is_finished(), "the recording ends with its sender");
    let samples = kept.samples();
    // At most the stray packet and the first one of the stream are lost.
    let from = samples.len() - 2 * (24_000 - 256);
    assert!(samples[from..] == expected(stereo(), 256, 24_000 - 256), "{} samples", samples.len());
}

#[test]
fn a_sender_that_restarts_is_taken_up_after_silence() {
    let kept = Kept::default();
    let mut session = listening(&kept);
    let mut now = Instant::from_millis(1);
    feed(&mut session, &mut now, NEAR, 1, &packets(1, 25_600));
    let other = packets(2, 256_000);
    // Another port, another SSRC, other numbers: refused until the first has been silent for two seconds.
    let silent_since = now;
    feed(&mut session, &mut now, PathId(8), 1, &other[..370]);
    assert!(now.since(silent_since) < SILENCE);
    assert_eq!((session.unknown_sources(), kept.len() as u64 % 512), (370, 0));
    let begun = kept.len();
    feed(&mut session, &mut now, PathId(8), 1, &other[370..800]);
    assert!(session.knows(WIRE, PathId(8)));
    let said = notices(&mut session);
    assert!(said.iter().any(|n| matches!(n, Notice::NewStream { .. })), "{said:?}");
    session.stop(now);
    let samples = kept.samples();
    assert!(samples[..51_200] == expected(stereo(), 0, 25_600) && begun >= 51_200);
    let tail = expected(stereo(), 500 * 256, 300 * 256);
    assert!(samples[samples.len() - tail.len()..] == tail, "the new stream plays to its end");
}

#[test]
fn after_a_goodbye_the_next_sender_need_not_wait() {
    let kept = Kept::default();
    let near = send_session("rtp", stereo(), 24_000, 1);
    let mut world = World::linked(near, listening(&kept), "delay=1ms", 1);
    world.run_while(END, |world| !world.near.is_finished());
    let at = world.now + ms(50);
    world.run_until(at);
    let (mut now, mut session) = (world.now, world.far);
    assert_eq!(kept.len(), 48_000);
    feed(&mut session, &mut now, PathId(8), 1, &packets(2, 25_600));
    session.stop(now);
    let samples = kept.samples();
    assert!(samples[samples.len() - 51_200..] == expected(stereo(), 0, 25_600), "{}", samples.len());
    assert_eq!(session.unknown_sources(), 0);
}

#[test]
fn a_restarted_receiver_takes_the_stream_up_in_the_middle() {
    let near: Session = send_session("rtp", stereo(), 480_000, 5);
    let first = Kept::default();
    let mut world = World::linked(near, receive_session("rtp", Some(ms(40)), &first), "delay=5ms", 1);
    world.run_until(Instant::from_millis(3000));
    let second = Kept::default();
    world.far = receive_session("rtp", Some(ms(40)), &second);
    world.run(END);
    let samples = second.samples();
    let whole = expected(stereo(), 0, 480_000);
    assert!(samples.len() > 2 * 48_000 * 6 && whole.ends_with(&samples));
    assert_eq!(heard(&world.far).playout().unwrap().concealed_frames, 0);
}

#[test]
fn a_long_outage_is_counted_as_loss() {
    for missing in [4_000, 40_000, 70_000] {
        let kept = Kept::default();
        let mut session = listening(&kept);
        let all = packets(1, (missing + 400) * 256);
        let mut now = Instant::from_millis(1);
        feed(&mut session, &mut now, NEAR, 1, &all[..200]);
        // More than RFC 3550 A.1 takes for a loss, and more than sequence numbers show: the time stamps tell.
        now += MediaTime::new(missing * 256, 48_000).duration();
        session.advance(now);
        feed(&mut session, &mut now, NEAR, 1, &all[200 + missing as usize..]);
        session.stop(now);
        let (playout, sources) = (heard(&session).playout().unwrap(), heard(&session).sources());
        assert_eq!((sources.jumps, sources.streams, playout.lost), (0, 1, missing));
        assert!(!notices(&mut session).iter().any(|notice| matches!(notice, Notice::NewStream { .. })));
        let samples = kept.samples();
        // Concealment blends the first packets after the gap.
        let tail = expected(stereo(), (204 + missing) * 256, 196 * 256);
        assert!(samples[samples.len() - tail.len()..] == tail, "{missing}");
        // What the sender's clock says is missing was played in its time.
        assert_eq!(samples.len() as u64, (missing + 400) * 512);
        assert!(samples[..200 * 512] == expected(stereo(), 0, 200 * 256));
    }
}

#[test]
fn a_jump_of_the_sequence_alone_is_followed_and_not_counted_as_loss() {
    let kept = Kept::default();
    let mut session = listening(&kept);
    let mut all = packets(1, 400 * 256);
    for packet in &mut all[200..] {
        let sequence = u16::from_be_bytes([packet[2], packet[3]]).wrapping_add(4_000);
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
    }
    let mut now = Instant::from_millis(1);
    feed(&mut session, &mut now, NEAR, 1, &all);
    session.stop(now);
    let (playout, sources) = (heard(&session).playout().unwrap(), heard(&session).sources());
    assert_eq!((sources.jumps, sources.streams), (1, 2));
    assert!(playout.lost <= 1, "{playout:?}");
    let samples = kept.samples();
    let tail = expected(stereo(), 201 * 256, 199 * 256);
    assert!(samples[samples.len() - tail.len()..] == tail);
    assert!(samples[..200 * 512] == expected(stereo(), 0, 200 * 256));
}

#[test]
fn a_live_source_that_pauses_costs_silence_not_order() {
    let source = Noise::starving(stereo(), 48_000, 24_064, 300);
    let (mut world, kept) =
        linked("rtp", send_session_with("rtp", source, track_config(stereo(), 5)), None, "delay=5ms", 1);
    world.run(END);
    assert!(kept.samples() == expected(stereo(), 0, 48_000), "a recording has all of it and nothing more");
}
