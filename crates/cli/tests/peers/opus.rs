//! Opus from and to other programs: a tone comes at its level and without a gap.

use std::f64::consts::TAU;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon::media::Pull;
use antiphon::sound::open_source;
use antiphon_testkit::{Sine, unless_held_up};

use crate::child::{Child, antiphon, free_ports, program};
use crate::common::HELD_UP;

const RATE: usize = 48_000;
const FREQUENCY: f64 = 997.0;
/// -20 dBFS, as `tone:` has it.
const LEVEL: f64 = 0.1;
/// Six seconds, so that a player which takes two to start still plays four.
const SECONDS: usize = 6;
/// At both ends: what is not judged.
const EDGE: usize = RATE / 5;

/// Checks every 20 ms of every channel but at the edges.
fn assert_tone(sound: &[f32], channels: usize, at_least_seconds: usize, whose: &str) {
    let frames = sound.len() / channels;
    assert!(frames >= at_least_seconds * RATE, "{whose}: {frames} sample frames");
    for channel in 0..channels {
        let sound: Vec<f32> = sound.iter().skip(channel).step_by(channels).copied().collect();
        let judged = &sound[EDGE..frames - EDGE];
        for (n, piece) in judged.chunks_exact(960).enumerate() {
            let sine = Sine::fit(piece, 0, TAU * FREQUENCY / RATE as f64);
            // A gap of 2.5 ms takes 1.2 dB of a piece and leaves 9 dB less; the codec takes a tenth of that and leaves 16 dB less, where
            // it goes from one of its modes to another.
            let db = 20.0 * (sine.level / LEVEL).log10();
            assert!(
                db.abs() < 0.5 && sine.rest_db() < -12.0,
                "{whose}, piece {n}: {db} dB, {} dB",
                sine.rest_db()
            );
        }
    }
}

/// A file of the tone as ffmpeg's `s16le`.
fn write_tone(path: &Path, channels: usize) {
    let sample = |frame: usize| {
        let value = LEVEL * (TAU * FREQUENCY * frame as f64 / RATE as f64).sin();
        ((value * 32_768.0) as i16).to_le_bytes().repeat(channels)
    };
    std::fs::write(path, (0..SECONDS * RATE).flat_map(sample).collect::<Vec<u8>>())
        .expect("a temporary file");
}

fn read_raw(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).expect("the player wrote a file");
    bytes.chunks_exact(2).map(|two| f32::from(i16::from_le_bytes([two[0], two[1]])) / 32_768.0).collect()
}

fn read_wav(path: &Path, channels: usize) -> Vec<f32> {
    let mut source = open_source(&path.display().to_string()).expect("a recording").source;
    assert_eq!((source.format().rate() as usize, source.format().channels()), (RATE, channels));
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 1024 * channels]);
    loop {
        match source.pull(&mut block) {
            Pull::Frames(frames) => all.extend(&block[..frames * channels]),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return all,
        }
    }
}

/// We take a stream of another program. It ends by a BYE, or when all of it has been played.
fn takes(sender: Command, port: u16, told: &[&str], says_bye: bool, channels: usize, whose: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let recording = directory.path().join("heard.wav");
    let source = format!("rtp://127.0.0.1:{port}");
    let mut command = antiphon(["receive", &source, "--json"]);
    command.arg(&recording).args(told);
    let mut receiver = Child::start(&mut command, DEADLINE);
    receiver.wait_for("listening on");
    let mut sender = sender;
    Child::start(&mut sender, DEADLINE).succeed();
    if !says_bye {
        receiver.wait_until_played(SECONDS as f64 - 0.1);
        receiver.interrupt();
    }
    let summary = receiver.end().summary();
    for count in ["lost", "late", "duplicate", "concealed", "malformed"] {
        assert_eq!(summary[count], 0, "{count} from {whose}: {summary}");
    }
    assert_tone(&read_wav(&recording, channels), channels, SECONDS - 1, whose);
}

#[test]
#[ignore = "needs ffmpeg with libopus; scripts/install-peers brings it"]
fn we_take_opus_of_ffmpeg() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (raw, sdp) = (directory.path().join("tone.raw"), directory.path().join("ours.sdp"));
        write_tone(&raw, 2);
        let ffmpeg = |port: u16, more: &[&str]| {
            let mut command =
                program("ffmpeg -hide_banner -nostdin -nostats -re -f s16le -ar 48000 -ac 2 -i");
            command.arg(&raw).args("-c:a libopus -b:a 96k -f rtp -rtpflags send_bye".split(' '));
            command.args(more).arg(format!("rtp://127.0.0.1:{port}?rtcpport={port}"));
            command
        };
        let [port, other] = free_ports(2)[..] else { panic!("two ports") };
        let named = sdp.display().to_string();
        Child::start(&mut ffmpeg(other, &["-t", "0.1", "-sdp_file", &named]), DEADLINE).succeed();
        takes(ffmpeg(port, &[]), port, &["--sdp", &named], true, 2, "ffmpeg");
    });
}

#[test]
#[ignore = "needs GStreamer; scripts/install-peers brings it"]
fn we_take_opus_of_gstreamer() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let raw = directory.path().join("tone.raw");
        write_tone(&raw, 1);
        let port = free_ports(1)[0];
        // With the speech codec's forward error correction, as in calls.
        let sender = program(&format!(
            "gst-launch-1.0 filesrc location={} ! rawaudioparse format=pcm pcm-format=s16le sample-rate=48000 num-channels=1 \
         ! audioconvert ! audioresample ! opusenc bitrate=64000 inband-fec=true packet-loss-percentage=5 ! rtpopuspay \
         ! udpsink host=127.0.0.1 port={port}",
            raw.display()
        ));
        takes(sender, port, &["--format", "opus/48000"], false, 1, "GStreamer");
    });
}

/// Another program plays ours, from our SDP.
fn plays(channels: usize, more: &[&str], whose: &str, player: impl Fn(&Path, &Path) -> Command) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (sdp, raw) = (directory.path().join("ours.sdp"), directory.path().join("heard.raw"));
    let source = format!("tone:{FREQUENCY}Hz?channels={channels}&seconds={SECONDS}s");
    let target = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let named = sdp.display().to_string();
    let mut command =
        antiphon(["send", &source, &target, "--format", "opus", "--sdp", &named, "--wait-for-peer"]);
    command.args(more);
    let mut sender = Child::start(&mut command, DEADLINE);
    sender.wait_for("wrote");
    let player = Child::start(&mut player(&sdp, &raw), DEADLINE);
    sender.succeed();
    player.succeed();
    assert_tone(&read_raw(&raw), channels, 3, whose);
}

#[test]
#[ignore = "needs ffmpeg with libopus; scripts/install-peers brings it"]
fn ffmpeg_plays_our_opus() {
    unless_held_up(HELD_UP, || {
        plays(2, &[], "ffmpeg", |sdp, raw| {
            let mut command =
                program("ffmpeg -hide_banner -nostdin -nostats -protocol_whitelist file,udp,rtp -i");
            command.arg(sdp).args(["-f", "s16le", "-c:a", "pcm_s16le", "-y"]).arg(raw);
            command
        });
    });
}

#[test]
#[ignore = "needs GStreamer; scripts/install-peers brings it"]
fn gstreamer_plays_our_opus() {
    unless_held_up(HELD_UP, || {
        plays(1, &["--ptime", "10ms"], "GStreamer", |sdp, raw| {
            program(&format!(
                "gst-launch-1.0 filesrc location={} ! sdpdemux ! rtpopusdepay ! opusdec ! audioconvert \
             ! audio/x-raw,format=S16LE,channels=1 ! filesink location={}",
                sdp.display(),
                raw.display()
            ))
        });
    });
}

/// Six seconds of sound, and as much again for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
