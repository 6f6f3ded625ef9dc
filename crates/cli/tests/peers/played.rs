//! Others play ours, from the SDP that `send --sdp` writes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon::media::SampleFormat;
use antiphon_testkit::unless_held_up;

use crate::child::{Child, antiphon, free_ports, program};
use crate::common::HELD_UP;
use crate::sound::{SOUNDS, Sound};

/// Plays every sound at once and checks that what the player wrote is what was sent. The player joins a stream that
/// runs already, as players do, so it misses its beginning; the sender's BYE ends it.
fn plays(whose: &str, player: impl Fn(&Sound, &Path, &Path) -> Command) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |sound: &Sound, kind: &str| directory.path().join(format!("{}.{kind}", sound.name()));
    let ports = free_ports(SOUNDS.len());
    let streams = SOUNDS.iter().zip(ports).map(|((sound, payload_type), port)| {
        let sdp = path(sound, "sdp");
        let target = format!("rtp://127.0.0.1:{port}");
        let name = sdp.display().to_string();
        let arguments = ["send", &sound.uri(), &target, "--sdp", &name, "--wait-for-peer"];
        let mut sender = Child::start(&mut antiphon(arguments), DEADLINE);
        sender.wait_for("wrote");
        let player = Child::start(&mut player(sound, &sdp, &path(sound, "raw")), DEADLINE);
        let text = std::fs::read_to_string(&sdp).expect("the sender wrote it");
        let media = format!("m=audio {port} RTP/AVP {}", payload_type.unwrap_or(96));
        assert!(text.lines().any(|line| line == media), "{media} is not in:\n{text}");
        (sound, sender, player)
    });
    for (sound, sender, player) in streams.collect::<Vec<_>>() {
        sender.succeed();
        player.succeed();
        // A dropped packet would be a gap of 5 ms, a wrong byte order or channel would differ at once.
        let heard = sound.read_raw(&path(sound, "raw"));
        let (before, after) = sound.assert_stretch(&heard, 4, whose);
        eprintln!("{whose}, {}: {before} frames before, {after} after", sound.name());
        assert!(after <= (sound.rate / 4) as usize, "{whose} stopped {after} frames early, {sound:?}");
    }
}

#[test]
#[ignore = "needs ffmpeg; scripts/install-peers brings it"]
fn ffmpeg_plays_what_we_send() {
    unless_held_up(HELD_UP, || {
        plays("ffmpeg", |sound, sdp, raw| {
            let mut command =
                program("ffmpeg -hide_banner -nostdin -nostats -protocol_whitelist file,udp,rtp -i");
            let wide = if sound.bits() == 24 { "s24le" } else { "s16le" };
            command.arg(sdp).args(["-f", wide, "-c:a", &format!("pcm_{wide}"), "-y"]).arg(raw);
            command
        });
    });
}

#[test]
#[ignore = "needs GStreamer; scripts/install-peers brings it"]
fn gstreamer_plays_what_we_send() {
    unless_held_up(HELD_UP, || {
        plays("GStreamer", |sound, sdp, raw| {
            let (depay, wide) = match sound.sample {
                SampleFormat::L24 => ("rtpL24depay", "S24LE"),
                SampleFormat::MuLaw => ("rtppcmudepay ! mulawdec", "S16LE"),
                SampleFormat::ALaw => ("rtppcmadepay ! alawdec", "S16LE"),
                _ => ("rtpL16depay", "S16LE"),
            };
            let (sdp, raw) = (sdp.display(), raw.display());
            program(&format!(
                "gst-launch-1.0 filesrc location={sdp} ! sdpdemux ! {depay} ! audioconvert ! audio/x-raw,format={wide} \
             ! filesink location={raw}"
            ))
        });
    });
}

/// Eight seconds of sound, and as much again for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
