//! Opus over real sockets: converted, decoded without being told, in its place; and what it can't be used for.

mod common;

use std::f64::consts::TAU;
use std::time::Duration;

use antiphon::core::BitRate;
use antiphon::media::Coding;
use antiphon::{CompleteOver, ErrorKind, ReceiveOptions, SendOptions, Stop, send};
use antiphon_testkit::{Sine, unless_held_up};
use common::{HELD_UP, free_port, listen, recorded, scratch};

#[test]
fn a_tone_of_any_rate_arrives_in_its_place() {
    unless_held_up(HELD_UP, || {
        for (scheme, rate, block_frames) in
            [("rtp", 48_000, None), ("rtp", 44_100, Some(240)), ("tcp", 32_000, Some(2880))]
        {
            let directory = scratch(&format!("opus-{scheme}-{rate}"));
            let got = directory.join("got.wav");
            let port = free_port();
            let at = if scheme == "tcp" { "@" } else { "" };
            let receiver = listen(ReceiveOptions {
                source: format!("{scheme}://{at}127.0.0.1:{port}"),
                sink: got.display().to_string(),
                length: Some(Duration::from_secs(20)),
                ..ReceiveOptions::default()
            });
            let sending = SendOptions {
                source: format!("tone:997Hz?seconds=1s&channels=2&rate={rate}Hz"),
                target: format!("{scheme}://127.0.0.1:{port}?format=opus&bitrate=128kbit/s"),
                block_frames,
                ..SendOptions::default()
            };
            let sent = send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
            let received = receiver.join().unwrap().expect("receiving ends with the stream");
            assert_eq!((received.status.lost, received.status.late, received.status.concealed), (0, 0, 0));
            assert_eq!(received.status.packets_received, sent.status.packets_sent);
            let sound = recorded(&got);
            std::fs::remove_dir_all(directory).unwrap();
            // Whole packets: the end of the sound and what the codec looked ahead.
            assert!(
                (48_000..48_000 + 2 * 2880).contains(&(sound.len() / 2)),
                "{} sample frames",
                sound.len() / 2
            );
            for channel in 0..2 {
                let sound: Vec<f32> =
                    sound.iter().skip(channel).step_by(2).map(|x| f32::from(*x) / 32_768.0).collect();
                let Sine { level, phase, .. } =
                    Sine::fit(&sound[2_000..46_000], 2_000, TAU * 997.0 / 48_000.0);
                // -20 dBFS; a sample frame is 7.5 degrees, and a conversion may be off by one, with samples as with Opus.
                let most = if rate == 48_000 { 1.0 } else { 8.0 };
                assert!((level / 0.1 - 1.0).abs() < 0.02, "{scheme} {rate}: {level}");
                assert!(phase.to_degrees().abs() < most, "{scheme} {rate}: {} degrees", phase.to_degrees());
            }
        }
    });
}

#[test]
fn what_opus_is_not_for_is_refused_before_anything_is_sent() {
    let refused = |options: SendOptions, why: &str| {
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err(why);
        assert!(error.kind == ErrorKind::Usage && error.message.contains(why), "{error}");
    };
    let opus = |source: &str| SendOptions {
        source: source.into(),
        target: "rtp://127.0.0.1:7710".into(),
        coding: Some(Coding::Opus),
        ..SendOptions::default()
    };
    refused(SendOptions { block_frames: Some(256), ..opus("clip:demo") }, "2.5, 5, 10, 20, 40 or 60 ms");
    refused(SendOptions { ptime: Some(Duration::from_millis(7)), ..opus("clip:demo") }, "2.5, 5, 10");
    refused(opus("tone:440Hz?channels=6"), "--groups 2");
    refused(SendOptions { rate: Some(44_100), ..opus("clip:demo") }, "48 kHz");
    refused(SendOptions { bit_rate: Some(BitRate(600_000)), ..opus("clip:demo") }, "16 to 510 kbit/s");
    refused(SendOptions { complete: Some(CompleteOver::SamePort), ..opus("clip:demo") }, "--complete");
    refused(SendOptions { target: "auto://127.0.0.1:7710".into(), ..opus("clip:demo") }, "auto://");
    let samples = SendOptions { coding: None, bit_rate: Some(BitRate(64_000)), ..opus("clip:demo") };
    refused(samples, "--format opus");
}
