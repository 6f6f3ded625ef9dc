//! Voice channels between two programs over loopback.

use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::common::{SCHEMES, antiphon, finish, free_ports, listening, run, source};

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

/// The samples of a recording.
fn recorded(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let at = file.windows(4).position(|name| name == b"data").expect("a data chunk") + 8;
    let len = u32::from_le_bytes(file[at - 4..at].try_into().expect("four bytes")) as usize;
    file[at..at + len].to_vec()
}

/// Buffers that bear a busy machine.
const PATIENT: [&str; 4] = ["--voice-size", "1280B", "--latency", "1s"];

#[test]
fn channels_are_recorded_byte_by_byte_over_every_transport() {
    let directory = tempfile::tempdir().unwrap();
    let channels = two_channels(&directory.path().join("two.wav"), 12_000);
    thread::scope(|scope| {
        for scheme in SCHEMES {
            let (directory, channels) = (directory.path(), &channels);
            scope.spawn(move || carried(scheme, directory, channels));
        }
    });
}

fn carried(scheme: &str, directory: &Path, channels: &[Vec<u8>; 2]) {
    let port = free_ports(1);
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
    let directory = tempfile::tempdir().unwrap();
    let mix = directory.path().join("mix.wav");
    let port = free_ports(1);
    let sink = format!("file:{}", mix.display());
    let at = source("xtp", port);
    let (mut listener, said) = listening(&["receive", "--voice", &at, &sink, "--mix"], "listening for voice");
    let to = format!("xtp://127.0.0.1:{port}");
    let sent = run(&["send", "--voice", "20", "tones:", &to, "--seconds", "1s", "--voice-size", "80B"]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    assert_eq!(listener.wait().expect("our child").code(), Some(0), "{}", said.join().expect("read"));
    // Sixteen bits a sample, 8000 in a second, and what the playout delay adds.
    let heard = recorded(&mix);
    assert!((15_000..20_000).contains(&heard.len()), "{}", heard.len());
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

#[test]
fn what_voice_channels_do_not_have_is_refused() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}{}", ran.out, ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{arguments:?} says nothing of {word}: {}", ran.err);
        }
    };
    let to = "xtp://127.0.0.1:9";
    refused(&["send", "--voice", "0", to], &["1 to 65536"]);
    refused(&["send", "--voice", "65537", to], &["1 to 65536"]);
    refused(&["send", "--voice", "4", to, "--voice-size", "160"], &["160B"]);
    refused(&["send", "--voice", "4", to, "--voice-size", "7B"], &["8B", "4096B"]);
    refused(&["send", "--voice", "4", to, "--fifo", "100B"], &["160B (a datum)"]);
    refused(&["send", "--voice", "4", to, "--silence=45"], &["dB"]);
    refused(&["send", "--voice", "4", to, "--opus", "--silence"], &["--opus", "--silence"]);
    refused(&["send", "--voice", "4", to, "--opus=5kbit/s"], &["6kbit/s"]);
    refused(&["send", "--voice", "4", to, "--opus", "--voice-size", "100B"], &["80B", "480B"]);
    refused(&["send", "--voice", "513", to, "--opus"], &["512"]);
    refused(&["send", "--voice", "4", to, "--voice-priority", "4-1=0"], &["1-8=0"]);
    refused(&["send", "--voice", "4", to, "--voice-clock", "100"], &["ppm"]);
    refused(&["send", "--voice", "4", to, "--format", "l16"], &["--format", "--voice"]);
    refused(&["send", "--voice", "4", to, "--latency", "4s"], &["3s"]);
    refused(&["send", "--voice", "4", "rtp://239.1.2.3:7710"], &["one host"]);
    refused(&["send", "--voice", "4", "auto://127.0.0.1"], &["xtp://"]);
    refused(&["send", "--voice", "4", "tone:440Hz", to], &["--seconds"]);
    refused(&["send", "--voice", "4", "xtp://127.0.0.1:9?ptime=1ms"], &["ptime"]);
    refused(&["send", "tone:440Hz"], &["TARGET"]);
    refused(&["send", "tone:440Hz", to, "--silence"], &["--voice"]);
    refused(&["receive", "rtp://:7710"], &["SINK"]);
    refused(&["receive", "--voice", "rtp://127.0.0.1:7710", "-?format=s16le"], &["--mix"]);
    refused(&["receive", "--voice", "rtp://127.0.0.1:7710", "file:x.wav?number"], &["overwrite"]);
}
