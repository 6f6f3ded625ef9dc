//! Streams in Opus: what is captured is heard at its place, over any transport.

use antiphon_core::Instant;
use antiphon_media::{ChannelGroups, Coding, StreamFormat};
use antiphon_session::{Notice, SendTrackConfig};
use antiphon_testkit::{Noise, Sine};

use crate::common::opus_config;
use crate::stream::notices;
use crate::world::{heard, is_rtcp, linked, ms, piped, send_session_with};

const END: Instant = Instant::from_millis(60_000);
/// 997 Hz at 48 kHz.
const TURN: f64 = std::f64::consts::TAU * 997.0 / 48_000.0;
/// A click shortly before the end of the source, of which the last packet holds the rest.
const FRAMES: u64 = 143_000;
const CLICK: u64 = FRAMES - 30;

fn mono() -> StreamFormat {
    StreamFormat::new(48_000, 1).unwrap()
}

fn source(format: StreamFormat, frames: u64) -> Box<Noise> {
    let level = |channel: usize| 0.4 / (channel + 1) as f64;
    Noise::like(format, frames, move |frame, channel| match frame {
        CLICK => 0.9,
        140_000.. => 0.0,
        _ => (level(channel) * (TURN * frame as f64).sin()) as f32,
    })
}

/// The click is where it was to a sample frame, and the tone as loud, in its place and with nothing missing.
fn assert_whole(sound: &[f32], channels: usize, whose: &str) {
    for channel in 0..channels {
        let sound: Vec<f32> = sound.iter().skip(channel).step_by(channels).copied().collect();
        assert!(
            sound.len() as u64 >= FRAMES && (sound.len() as u64) < FRAMES + 960 + 480,
            "{whose}: {}",
            sound.len()
        );
        let sine = Sine::fit(&sound[1_000..139_000], 1_000, TURN);
        let (level, degrees) = (sine.level * (channel + 1) as f64 / 0.4, sine.phase.to_degrees());
        assert!(
            (level - 1.0).abs() < 0.03 && degrees.abs() < 0.75 && sine.rest_db() < -25.0,
            "{whose}: {sine:?}"
        );
        let tail = &sound[141_000..];
        let highest = (0..tail.len()).max_by(|a, b| tail[*a].abs().total_cmp(&tail[*b].abs())).unwrap();
        assert!((141_000 + highest as u64).abs_diff(CLICK) <= 1, "{whose}: click at {highest}");
    }
}

#[test]
fn a_recording_over_any_transport_is_whole_to_the_last_click() {
    for block in [480, 960] {
        let near = |name| send_session_with(name, source(mono(), FRAMES), opus_config(mono(), block, 5));
        for (name, latency) in [("rtp", None), ("rtp", Some(ms(40))), ("srp", Some(ms(60))), ("sctp", None)] {
            let (mut world, kept) = linked(name, near(name), latency, "delay=5ms,jitter=3ms", 11);
            world.run(END);
            let playout = heard(&world.far).playout().unwrap();
            assert_eq!((playout.lost, playout.late, playout.concealed_frames), (0, 0, 0), "{name}");
            assert_whole(&kept.samples(), 1, name);
            assert_eq!(notices(&mut world.far).first(), Some(&Notice::Began(mono(), Coding::Opus)));
        }
        let (mut world, kept) = piped(near("tcp"), None, ms(5), 20_000);
        world.run(END);
        assert_whole(&kept.samples(), 1, "tcp");
    }
}

#[test]
fn channel_groups_of_opus_stay_in_step() {
    let format = StreamFormat::new(48_000, 3).unwrap();
    let groups = ChannelGroups::parse(3, "2,1").unwrap();
    let config = SendTrackConfig { groups, ..opus_config(format, 960, 5) };
    let near = send_session_with("rtp", source(format, FRAMES), config);
    let (mut world, kept) = linked("rtp", near, Some(ms(60)), "delay=5ms,jitter=3ms", 11);
    world.run(END);
    assert_eq!(heard(&world.far).playout().unwrap().concealed_frames, 0);
    assert_whole(&kept.samples(), 3, "groups");
}

#[test]
fn losses_are_counted_and_made_up() {
    let near = send_session_with("rtp", source(mono(), FRAMES), opus_config(mono(), 960, 5));
    let (mut world, kept) = linked("rtp", near, Some(ms(40)), "delay=5ms", 11);
    world.up.taken = Some(Box::new(|n, bytes| !is_rtcp(bytes) && n > 5 && n < 140 && n % 20 == 10));
    world.run(END);
    let playout = heard(&world.far).playout().unwrap();
    assert!(playout.lost >= 6, "{playout:?}");
    assert_eq!((playout.concealed_frames, playout.late), (playout.lost * 960, 0));
    // No 10 ms of the tone are silent.
    let sound = kept.samples();
    let power = |part: &[f32]| part.iter().map(|x| x * x).sum::<f32>() / part.len() as f32;
    let least = sound[480..139_000].chunks_exact(480).map(power).fold(f32::MAX, f32::min);
    assert!(10.0 * (least / 0.08).log10() > -6.0, "{least}");
}

#[test]
fn the_sender_tells_what_it_sends() {
    let near = send_session_with("rtp", source(mono(), 96_000), opus_config(mono(), 960, 5));
    let (mut world, _kept) = linked("rtp", near, Some(ms(40)), "delay=5ms", 11);
    world.run(END);
    let sent = world.near.sent();
    // 64 kbit/s in two seconds of 101 packets, and what sudden sound takes.
    assert!((12_000..22_000).contains(&sent.track.media_bytes), "{:?}", sent.track);
    assert_eq!((sent.track.messages, sent.peers.accepted), (101, 101));
    assert_eq!(world.near.last_report().map(|report| report.block.cumulative_lost), Some(0));
}
