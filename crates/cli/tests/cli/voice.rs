//! Voice channels between two programs over loopback.

use std::path::Path;
use std::thread;

use antiphon_testkit::unless_held_up;
use serde_json::Value;

use crate::common::{
    HELD_UP, HELD_UP_LONG, SCHEMES, antiphon, finish, free_ports, listening, recorded, run, source,
};

/// A file of mu-law with two channels, and the bytes of each. It has no negative zero, which is sent as zero.
fn two_channels(path: &Path, bytes: usize) -> [Vec<u8>; 2] {
    let byte = |n: usize, channel: usize| match (n * 31 + channel * 97 + n / 256) as u8 {
        0x7f => 0x7e,
        byte => byte,
    };
    let channels = [0, 1].map(|channel| (0..bytes).map(|n| byte(n, channel)).collect::<Vec<u8>>());
    let mut file = Vec::new();
    let data = 2 * bytes as u32;
    file.extend(b"RIFF");
    file.extend((4 + 8 + 18 + 8 + data).to_le_bytes());
    file.extend(b"WAVEfmt \x12\0\0\0\x07\0\x02\0");
    file.extend(8_000u32.to_le_bytes());
    file.extend(16_000u32.to_le_bytes());
    file.extend(b"\x02\0\x08\0\0\0data");
    file.extend(data.to_le_bytes());
    (0..bytes).for_each(|n| file.extend([channels[0][n], channels[1][n]]));
    std::fs::write(path, file).expect("a file");
    channels
}

/// Buffers long enough for a busy machine.
const PATIENT: [&str; 4] = ["--voice-size", "1280B", "--latency", "1s"];

#[test]
fn channels_are_recorded_byte_by_byte_over_every_transport() {
    thread::scope(|scope| {
        for scheme in SCHEMES {
            scope.spawn(move || unless_held_up(HELD_UP_LONG, || carried(scheme)));
        }
    });
}

fn carried(scheme: &str) {
    let (temporary, port) = (tempfile::tempdir().unwrap(), free_ports(1));
    let directory = temporary.path();
    let channels = two_channels(&directory.join("two.wav"), 12_000);
    let file = |name: &str| format!("file:{}", directory.join(name).display());
    let (call, back) = (format!("{scheme}-call.wav"), format!("{scheme}-back.wav"));
    let (sink, from) = (file(&call), file("two.wav"));
    let at = source(scheme, port);
    let receive = ["receive", "--voice", &at, &sink, "--voice-send", "3", "--voice-source", &from];
    let (mut listener, said) = listening(&[&receive[..], &PATIENT].concat(), "listening for voice");
    let (to, back_sink) = (format!("{scheme}://127.0.0.1:{port}"), file(&back));
    let send = ["send", "--voice", "5", &from, &to, "--voice-sink", &back_sink, "--json"];
    let sent = finish(antiphon().args([&send[..], &PATIENT].concat()));
    assert_eq!(sent.code, Some(0), "{scheme}: {}", sent.err);
    assert_eq!(listener.wait().expect("our child").code(), Some(0), "{scheme}");
    let said = said.join().expect("it was read");
    for number in 0..5 {
        let path = directory.join(format!("{scheme}-call-{:04}.wav", number + 1));
        assert!(recorded(&path) == channels[number % 2], "{scheme}: channel {number}; {said}");
    }
    // The caller leaves at its own end: of what comes back the last datum may be under way.
    for number in 0..3 {
        let heard = recorded(&directory.join(format!("{scheme}-back-{:04}.wav", number + 1)));
        assert!(heard.len() > 8_000 && channels[number % 2].starts_with(&heard), "{scheme}: {number}");
    }
    let summary: Value = serde_json::from_str(sent.out.lines().last().expect("a summary")).expect("JSON");
    assert_eq!(summary["sent"]["voice_bytes"], 60_000, "{scheme}: {summary}");
}

#[test]
fn channels_are_mixed_into_one_file() {
    unless_held_up(HELD_UP, || {
        let directory = tempfile::tempdir().unwrap();
        let mix = directory.path().join("mix.wav");
        let port = free_ports(1);
        let sink = format!("file:{}", mix.display());
        let at = source("xtp", port);
        let (mut listener, said) =
            listening(&["receive", "--voice", &at, &sink, "--mix"], "listening for voice");
        let to = format!("xtp://127.0.0.1:{port}");
        let sent = run(&["send", "--voice", "20", "tones:", &to, "--seconds", "1s", "--voice-size", "80B"]);
        assert_eq!(sent.code, Some(0), "{}", sent.err);
        assert_eq!(listener.wait().expect("our child").code(), Some(0), "{}", said.join().expect("read"));
        // Sixteen bits a sample, 8000 in a second, and what the playout delay adds.
        let heard = recorded(&mix);
        assert!((15_000..20_000).contains(&heard.len()), "{}", heard.len());
    });
}

#[test]
fn channels_in_opus_come_back_as_long() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let sink = format!("file:{}", directory.path().join("call.wav").display());
    let at = source("rtp", port);
    let (mut listener, said) =
        listening(&["receive", "--voice", &at, &sink, "--latency", "1s"], "listening for voice");
    let to = format!("rtp://127.0.0.1:{port}");
    let send = ["send", "--voice", "3", "tone:440Hz?seconds=1s", &to, "--opus=12kbit/s", "--latency", "1s"];
    let sent = run(&send);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    assert_eq!(listener.wait().expect("our child").code(), Some(0), "{}", said.join().expect("read"));
    for number in 1..=3 {
        assert_eq!(recorded(&directory.path().join(format!("call-000{number}.wav"))).len(), 8_000);
    }
}

fn refused(arguments: &[&str], words: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(2), "{arguments:?}: {}{}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{arguments:?} says nothing of {word}: {}", ran.err);
    }
}

#[test]
fn what_voice_channels_do_not_have_is_refused() {
    let to = "xtp://127.0.0.1:9";
    refused(&["send", "--voice", "0", to], &["1 to 131072"]);
    refused(&["send", "--voice", "131073", to], &["1 to 131072"]);
    refused(&["send", "--voice", "many", to], &["write a whole number of channels, such as 24"]);
    refused(&["send", "--voice", "4", to, "--voice-size", "160"], &["160B"]);
    refused(&["send", "--voice", "4", to, "--voice-size", "7B"], &["8B", "4096B"]);
    refused(&["send", "--voice", "4", to, "--fifo", "100B"], &["160B (a datum)"]);
    refused(&["send", "--voice", "4", to, "--silence=45"], &["dB"]);
    refused(&["send", "--voice", "4", to, "--opus", "--silence"], &["--opus", "--silence"]);
    refused(&["send", "--voice", "4", to, "--opus=5kbit/s"], &["6kbit/s"]);
    refused(&["send", "--voice", "4", to, "--opus", "--voice-size", "100B"], &["80B", "480B"]);
    refused(&["send", "--voice", "417", to, "--opus"], &["416"]);
    refused(&["send", "--voice", "4", to, "--voice-priority", "4-1=0"], &["1-8=0"]);
    refused(&["send", "--voice", "4", to, "--voice-clock", "100"], &["ppm"]);
    for [option, value] in
        [["--format", "l16"], ["--bitrate", "64kbit/s"], ["--most-receivers", "3"], ["--in-step", "80ms"]]
    {
        refused(&["send", "--voice", "4", to, option, value], &[option, "--voice"]);
    }
    refused(&["send", "--voice", "4", to, "--latency", "4s"], &["3s"]);
    refused(&["send", "--voice", "4", "xtp://127.0.0.1:9?latency=1h"], &["3s"]);
    for group in
        ["rtp://239.1.2.3:7710", "xtp://239.1.2.3:7710", "xtp://[ff15::1]:7710", "srp://239.1.2.3:7710"]
    {
        refused(&["send", "--voice", "4", group], &["one host"]);
        refused(&["receive", "--voice", group], &["one host"]);
    }
    refused(&["send", "--voice", "4", "auto://127.0.0.1"], &["xtp://"]);
    refused(&["send", "--voice", "4", "tone:440Hz", to], &["--seconds"]);
    refused(&["send", "--voice", "4", "xtp://127.0.0.1:9?ptime=1ms"], &["ptime"]);
    for sink in [&[][..], &["null:"]] {
        refused(&[&["receive", "--voice", "24", "xtp://:7710"], sink].concat(), &["takes no number"]);
    }
    refused(&["send", "tone:440Hz"], &["TARGET"]);
    refused(&["send", "tone:440Hz", to, "--silence"], &["--voice"]);
    refused(&["receive", "rtp://:7710"], &["SINK"]);
    refused(&["receive", "--voice", "rtp://127.0.0.1:7710", "-?format=s16le"], &["--mix"]);
    refused(&["receive", "--voice", "rtp://127.0.0.1:7710", "file:x.wav?number"], &["overwrite"]);
}

#[test]
fn options_that_would_mean_nothing_are_refused() {
    let to = "xtp://127.0.0.1:9";
    for option in ["--voice-size=80B", "--opus", "--voice-clock=100ppm", "--voice-priority=1=0"] {
        refused(&["send", "tone:440Hz", to, option], &["--voice"]);
    }
    let at = "xtp://127.0.0.1:7710?sort=on";
    refused(&["receive", "--voice", at, "--voice-source", "tones:"], &["--voice-send"]);
    for option in ["--voice-size=80B", "--silence", "--opus", "--voice-priority=1=0"] {
        refused(
            &["receive", "--voice", at, option],
            &[option.split('=').next().expect("a name"), "--voice-send 24"],
        );
    }
    for to in [to, "xtp://127.0.0.1:9?sort=off", "rtp://127.0.0.1:9", "srp://127.0.0.1:9?mode=as-published"] {
        refused(
            &["send", "--voice", "4", to, "--voice-priority", "1=0"],
            &["sort=on", "omit --voice-priority"],
        );
    }
    refused(&["send", "--voice", "4", to, "--voice-clock", "100001ppm"], &["100000ppm"]);
    refused(&["send", "--voice", "4", to, "--voice-clock", "0.4ppm"], &["0ppm"]);
    // Later calls would be added to the recording of the first.
    let receive = ["receive", "--voice", "xtp://127.0.0.1:7710", "--forever"];
    for sink in [&["file:x.wav"][..], &["file:x.wav?overwrite", "--mix"]] {
        refused(&[&receive[..], sink].concat(), &["--forever", "null:"]);
    }
    refused(
        &[&receive[..], &["--voice-send", "3", "--voice-source", "tone:440Hz?seconds=1s"]].concat(),
        &["--forever", "speech:"],
    );
}

#[test]
fn a_receiver_that_is_not_there_is_told() {
    for scheme in ["rtp", "xtp", "srp", "tcp"] {
        let to = format!("{scheme}://127.0.0.1:{}", free_ports(1));
        let sent = run(&["send", "--voice", "4", &to, "--seconds", "1s"]);
        assert_eq!(sent.code, Some(4), "{scheme}: {}", sent.err);
        assert!(sent.err.contains("cannot be reached"), "{scheme}: {}", sent.err);
    }
}

#[test]
fn a_receiver_that_leaves_before_the_end_is_told() {
    for scheme in ["rtp", "xtp", "tcp"] {
        let port = free_ports(1);
        let at = source(scheme, port);
        // It does not hear the end of it.
        let (mut listener, said) =
            listening(&["receive", "--voice", &at, "--seconds", "1s"], "listening for voice");
        let to = format!("{scheme}://127.0.0.1:{port}");
        let sent = run(&["send", "--voice", "4", &to, "--seconds", "3s"]);
        assert_eq!(listener.wait().expect("our child").code(), Some(0), "{}", said.join().expect("read"));
        assert!(matches!(sent.code, Some(1 | 4)), "{scheme}: {:?} {}", sent.code, sent.err);
        assert!(sent.err.contains("error: the receiver"), "{scheme}: {}", sent.err);
    }
}

#[test]
fn who_listens_does_not_decide_who_ends() {
    let directory = tempfile::tempdir().unwrap();
    let channels = two_channels(&directory.path().join("two.wav"), 8_000);
    let file = |name: &str| format!("file:{}", directory.path().join(name).display());
    let (port, from, sink) = (free_ports(1), file("two.wav"), file("call.wav"));
    let at = format!("tcp://127.0.0.1:{port}");
    let send = ["send", "--voice", "2", &from, &format!("tcp://@127.0.0.1:{port}")];
    let (mut sender, said) = listening(&[&send[..], &PATIENT].concat(), "listening for voice");
    let call = format!("{at}?role=caller");
    let receive = ["receive", "--voice", &call, &sink, "--voice-send", "1"];
    let received = run(&[&receive[..], &PATIENT].concat());
    assert_eq!(received.code, Some(0), "{}", received.err);
    assert_eq!(sender.wait().expect("our child").code(), Some(0), "{}", said.join().expect("read"));
    for (number, channel) in channels.iter().enumerate() {
        assert!(
            recorded(&directory.path().join(format!("call-000{}.wav", number + 1))) == *channel,
            "{number}"
        );
    }
}
