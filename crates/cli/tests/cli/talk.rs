//! Calls between two programs over loopback.

use std::f64::consts::TAU;
use std::path::Path;
use std::thread;

use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon_testkit::{Sine, unless_held_up};
use serde_json::Value;

use crate::common::{HELD_UP_LONG, SCHEMES, antiphon, finish, free_ports, listening, recorded, run};
use crate::json::verify;

/// The samples of the first channel of a recording of 16 bits.
fn first_channel(path: &Path, channels: usize) -> Vec<f32> {
    let sample = |frame: &[u8]| f32::from(i16::from_le_bytes([frame[0], frame[1]])) / 32_768.0;
    recorded(path).chunks_exact(2 * channels).map(sample).collect()
}

/// A tone of that frequency at that level has no gap and no other sound in it.
fn is_whole_tone(sound: &[f32], hertz: f64, level_db: f64, rate: f64, name: &str) {
    let Sine { level, .. } = Sine::fit(sound, 0, TAU * hertz / rate);
    let level = 20.0 * level.log10();
    // A missing packet in two seconds takes 0.02 dB; a wrong tone leaves nothing.
    assert!((level - level_db).abs() < 0.01, "{name}: {level} dB");
    // One missing packet, or a jump by one sample, would leave more than this. 16 bits leave -75 dB.
    let rest = Sine::fit(sound, 0, TAU * hertz / rate).rest_db();
    assert!(rest < -60.0, "{name}: the rest is at {rest} dB");
}

/// Buffers long enough for a busy machine.
const PATIENT: [&str; 2] = ["--latency", "400ms"];

#[test]
fn both_ends_record_the_other_over_every_transport() {
    // Not all at once: they share the processors with other tests.
    for schemes in SCHEMES.chunks(3) {
        thread::scope(|scope| {
            for scheme in schemes {
                scope.spawn(move || unless_held_up(HELD_UP_LONG, || both_ways(scheme)));
            }
        });
    }
}

fn both_ways(scheme: &str) {
    let (directory, port) = (tempfile::tempdir().unwrap(), free_ports(1));
    let path = |end: &str| directory.path().join(format!("{scheme}-{end}.wav"));
    let sink = |end: &str| format!("file:{}?format=l16", path(end).display());
    let (at, to) = (format!("{scheme}://@127.0.0.1:{port}"), format!("{scheme}://127.0.0.1:{port}"));
    // The listener has less to say, at another rate, in other blocks and channels.
    let (its, ours) =
        ("tone:440Hz?level=-20dB&seconds=2s&channels=1&rate=44.1kHz", "tone:660Hz?level=-6dB&seconds=3s");
    let listen = ["talk", &at, "--source", its, "--sink", &sink("listener"), "--block", "128"];
    let (mut listener, said) = listening(&[&listen[..], &PATIENT].concat(), "waiting for a call");
    let call = ["talk", &to, "--source", ours, "--sink", &sink("caller"), "--json"];
    let called = finish(antiphon().args([&call[..], &PATIENT].concat()));
    assert_eq!(called.code, Some(0), "{scheme}: {}", called.err);
    assert_eq!(listener.wait().expect("our child").code(), Some(0), "{scheme}");
    let said = said.join().expect("it was read");
    let summary: Value = serde_json::from_str(called.out.lines().last().expect("a summary")).expect("JSON");
    let name = format!("{scheme}: {said} {summary}");
    assert_eq!(
        (&summary["interrupted"], &summary["shortfall"]),
        (&Value::from(false), &Value::Null),
        "{name}"
    );
    let (heard, back) = (first_channel(&path("listener"), 2), first_channel(&path("caller"), 1));
    assert_eq!((heard.len(), back.len()), (144_000, 88_200), "{name}");
    is_whole_tone(&heard, 660.0, -6.0, 48_000.0, &name);
    is_whole_tone(&back, 440.0, -20.0, 44_100.0, &name);
    // Over loopback no assumption is needed.
    let delay = &summary["delay"];
    assert_eq!(delay["basis"], "round_trip", "{name}");
    let ms = |field: &str| delay[field].as_f64().expect("a number");
    assert!(ms("half_width_ms") <= 2.0, "{name}");
    for way in ["from_peer_ms", "to_peer_ms"] {
        assert!((400.0..450.0).contains(&ms(way)), "{name}");
    }
}

#[test]
fn the_directions_may_have_transports_of_their_own() {
    unless_held_up(HELD_UP_LONG, || {
        let directory = tempfile::tempdir().unwrap();
        let [there, back] = [free_ports(1), free_ports(1)];
        let path = |end: &str| directory.path().join(format!("{end}.wav"));
        let sink = |end: &str| format!("file:{}?format=l16", path(end).display());
        let uris = [
            (format!("tcp://127.0.0.1:{back}"), format!("srp://:{there}")),
            (format!("srp://127.0.0.1:{there}"), format!("tcp://:{back}")),
        ];
        let [one, other] = &uris;
        let (its, ours) = ("tone:440Hz?level=-20dB&seconds=2s", "tone:660Hz?level=-6dB&seconds=3s");
        let listen = ["talk", &one.0, "--back", &one.1, "--source", its, "--sink", &sink("one")];
        let (mut first, said) = listening(&[&listen[..], &PATIENT].concat(), "listening on");
        let call =
            ["talk", &other.0, "--back", &other.1, "--source", ours, "--sink", &sink("other"), "--json"];
        let called = finish(antiphon().args([&call[..], &PATIENT].concat()));
        assert_eq!((called.code, first.wait().unwrap().code()), (Some(0), Some(0)), "{}", called.err);
        let said = said.join().unwrap();
        is_whole_tone(&first_channel(&path("one"), 2), 660.0, -6.0, 48_000.0, &said);
        is_whole_tone(&first_channel(&path("other"), 2), 440.0, -20.0, 48_000.0, &called.err);
        assert_eq!(
            (first_channel(&path("one"), 2).len(), first_channel(&path("other"), 2).len()),
            (144_000, 96_000)
        );
    });
}

#[test]
fn a_call_ends_when_either_end_leaves() {
    for leaver in ["caller", "listener"] {
        let port = free_ports(1);
        let (at, to) = (format!("tcp://@127.0.0.1:{port}"), format!("tcp://127.0.0.1:{port}"));
        let limit = |end: &str| if end == leaver { "2s" } else { "60s" };
        let endless = ["--source", "tone:440Hz", "--sink", "null:", "--time-limit"];
        let mut command = antiphon();
        let listen = [&["talk", &at][..], &endless, &[limit("listener")]].concat();
        let mut listener = command.args(listen).stderr(std::process::Stdio::null()).spawn().unwrap();
        let call = [&["talk", &to, "--wait-for-peer"][..], &endless, &[limit("caller")]].concat();
        let called = run(&call);
        let codes = (called.code, listener.wait().unwrap().code());
        let expected = if leaver == "caller" { (Some(124), Some(0)) } else { (Some(0), Some(124)) };
        assert_eq!(codes, expected, "the {leaver} leaves: {}", called.err);
    }
}

#[test]
fn whom_a_call_does_not_reach_is_told() {
    let nobody = format!("127.0.0.1:{}", free_ports(1));
    for scheme in ["rtp", "tcp"] {
        let to = format!("{scheme}://{nobody}");
        let ran = run(&["talk", &to, "--source", "tone:440Hz", "--sink", "null:", "--time-limit", "20s"]);
        assert_eq!(ran.code, Some(4), "{scheme}: {}", ran.err);
    }
    let refused = [
        (&["talk", "auto://studio"][..], "auto:// chooses"),
        (&["talk", "srp://239.1.2.3"], "srp goes to one host: write rtp://239.1.2.3:7710"),
        (&["talk", "xtp://239.1.2.3"], "xtp has one sender for a group"),
        (&["talk", "rtp://239.1.2.3?source=192.0.2.7"], "source= hears one sender alone"),
        (&["talk", "rtp://239.1.2.3?channels=2&groups=1,1"], "omit --groups"),
        (&["talk", "rtp://239.1.2.3", "--framing", "medusa"], "omit the framing"),
        (&["talk", "rtp://239.1.2.3", "--monitor"], "--monitor"),
        (&["talk", "rtp://239.1.2.3", "--wait-for-peer"], "omit --wait-for-peer"),
        (&["talk", "rtp://239.1.2.3", "--back", "tcp://:7710"], "--back is for a call with one host"),
        (
            &["talk", "rtp://239.1.2.3", "--sink", "-?format=mkv"],
            "each party of a call over a group has its own",
        ),
        (&["talk", "tcp://127.0.0.1:9?role=caller"], "'role' is for 'receive'"),
    ];
    for (arguments, why) in refused {
        let sink: &[&str] = if arguments.contains(&"--sink") { &[] } else { &["--sink", "null:"] };
        let ran = run(&[arguments, &["--source", "tone:440Hz"], sink].concat());
        assert!(ran.code == Some(2) && ran.err.contains(why), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn without_a_device_the_error_names_the_options() {
    let mut command = antiphon();
    command.args(["talk", "127.0.0.1:9"]).env("JACK_DEFAULT_SERVER", "antiphon-no-such-server");
    let ran = finish(&mut command);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("--source"), "{}", ran.err);
}

#[test]
fn a_muted_end_is_silent() {
    let port = free_ports(1);
    let (at, to) = (format!("rtp://@127.0.0.1:{port}"), format!("127.0.0.1:{port}"));
    let ends = ["--source", "tone:440Hz?seconds=2s", "--sink", "null:"];
    let (mut listener, _) = listening(&[&["talk", &at, "--mute"][..], &ends].concat(), "waiting for a call");
    let called = finish(antiphon().args([&["talk", &to, "--json"][..], &ends].concat()));
    assert_eq!((called.code, listener.wait().unwrap().code()), (Some(0), Some(0)), "{}", called.err);
    let summary: Value = serde_json::from_str(called.out.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["received"]["peak_dbfs"], &summary["muted"]), (&Value::Null, &Value::from(false)));
    assert!(summary["received"]["packets_received"].as_u64().unwrap() > 200, "{summary}");
}

/// Levels in dB of these tones in a stretch of sound of 0.1 s, in which each has whole periods; then that of the rest.
fn tones(sound: &[f32], hertz: [f64; 3]) -> [f64; 4] {
    let mut rest = sound.to_vec();
    let level = |hertz: f64| {
        let turn = TAU * hertz / 48_000.0;
        let Sine { level, phase, .. } = Sine::fit(&rest, 0, turn);
        rest.iter_mut()
            .enumerate()
            .for_each(|(n, one)| *one -= (level * (turn * n as f64 + phase).sin()) as f32);
        20.0 * level.log10()
    };
    let [one, other, third] = hertz.map(level);
    let power = rest.iter().map(|one| f64::from(*one).powi(2)).sum::<f64>() / rest.len() as f64;
    [one, other, third, 10.0 * (2.0 * power).log10()]
}

#[test]
fn three_in_a_group_hear_one_another() {
    unless_held_up(HELD_UP_LONG, || {
        let directory = tempfile::tempdir().unwrap();
        let group = format!("rtp://239.61.7.31:{}?iface=127.0.0.1", free_ports(1));
        let path = |party: &str| directory.path().join(format!("{party}.wav"));
        let sink = |party: &str| format!("file:{}?format=l16", path(party).display());
        // Each on a level of its own; the third sends other blocks, and comes later.
        let [hertz, levels] = [[440.0, 550.0, 660.0], [-20.0, -14.0, -17.0]];
        let source = |at: usize, seconds: u32| {
            format!("tone:{}Hz?level={}dB&seconds={seconds}s&channels=2", hertz[at], levels[at])
        };
        let begin = |at: usize, name: &str| {
            let own = ["talk", &group, "--source", &source(at, 9), "--sink", &sink(name)];
            listening(&[&own[..], &PATIENT].concat(), "talking with everybody in")
        };
        let (first, second) = (begin(0, "first"), begin(1, "second"));
        let own =
            ["talk", &group, "--source", &source(2, 4), "--sink", &sink("third"), "--json", "--block", "64"];
        let third = finish(antiphon().args([&own[..], &PATIENT].concat()));
        assert_eq!(third.code, Some(0), "{}", third.err);
        for (mut party, said) in [first, second] {
            assert_eq!(party.wait().unwrap().code(), Some(0));
            let said = said.join().unwrap();
            assert!(said.contains("joined the call: 48000 Hz, 2 channels"), "{said}");
            assert!(said.contains("left the call"), "{said}");
        }
        for (at, name) in ["first", "second", "third"].into_iter().enumerate() {
            let sound = first_channel(&path(name), 2);
            let windows: Vec<[f64; 4]> = sound.chunks_exact(4_800).map(|part| tones(part, hertz)).collect();
            // A party that has just come is moved to its time by up to some 100 ppm: -50 dB. A packet of 64 that is missing leaves -36 dB.
            let both = |window: &&[f64; 4]| {
                (0..3).all(|tone| tone == at || (window[tone] - levels[tone]).abs() < 0.1)
                    && window[at] < -70.0
                    && window[3] < -42.0
            };
            // The third hears both from its beginning, less a playout delay; the others hear it as long.
            let heard = windows.iter().filter(both).count();
            assert!(heard >= 28, "{name}: both others in {heard} of {} tenths: {windows:.1?}", windows.len());
            let longest = windows.split(|window| !both(&window)).map(<[_]>::len).max();
            assert_eq!(longest, Some(heard), "{name}: without a gap: {windows:.1?}");
        }
        let summary: Value = serde_json::from_str(third.out.lines().last().unwrap()).unwrap();
        let parties = summary["parties"].as_array().expect("a list");
        assert_eq!(parties.len(), 2, "{summary}");
        for party in parties {
            assert_eq!(
                (&party["lost"], &party["late"], &party["concealed"]),
                (&0.into(), &0.into(), &0.into()),
                "{summary}"
            );
            assert!(party["rtt_ms"].as_f64().is_some_and(|ms| ms < 50.0), "{summary}");
            assert!(party["name"].as_str().is_some_and(|name| name.len() == 16), "{summary}");
        }
        assert!(summary.get("delay").is_none() && summary["received"]["lost"] == 0, "{summary}");
    });
}

/// Each sends a clip of its own, and records those of the others, each in a file.
#[test]
fn three_in_a_group_record_one_another_with_pictures() {
    let directory = tempfile::tempdir().unwrap();
    let group = format!("rtp://239.61.7.34:{}?iface=127.0.0.1", free_ports(1));
    let path = |name: &str| directory.path().join(name).display().to_string();
    let clips = [Clip::H264, Clip::Vp8, Clip::Av1];
    std::fs::write(path("sound.ogg"), antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
    clips.iter().for_each(|clip| std::fs::write(path(clip.name()), clip.file()).unwrap());
    let (sound, films) = (path("sound.ogg"), clips.map(|clip| path(clip.name())));
    let sinks = ["first.mkv", "second.mkv", "third.mkv"].map(path);
    let party = |at: usize, seconds: &'static str| {
        [
            "talk",
            &group,
            "--source",
            &sound,
            "--video",
            &films[at],
            "--sink",
            &sinks[at],
            "--seconds",
            seconds,
        ]
    };
    let begin = |at| listening(&[&party(at, "7s")[..], &PATIENT].concat(), "talking with everybody in");
    let (first, second) = (begin(0), begin(1));
    let third = finish(antiphon().args([&party(2, "4s")[..], &["--json"], &PATIENT].concat()));
    assert_eq!(third.code, Some(0), "{}", third.err);
    for ((mut party, said), file) in [(first, "first-2.mkv"), (second, "second-2.mkv")] {
        assert_eq!(party.wait().unwrap().code(), Some(0));
        let said = said.join().unwrap();
        assert!(said.contains("is recorded in '") && said.contains(file), "{said}");
    }
    verify("talk", &third.out, &["run", "interval", "summary"]);
    let summary: Value = serde_json::from_str(third.out.lines().last().unwrap()).unwrap();
    let (recordings, parties) = (&summary["recordings"], &summary["parties"]);
    assert_eq!([recordings, parties].map(|list| list.as_array().map(Vec::len)), [Some(2); 2], "{summary}");
    for (recording, party) in recordings.as_array().unwrap().iter().zip(parties.as_array().unwrap()) {
        assert_eq!((&recording["file"], &recording["ssrc"]), (&party["file"], &party["ssrc"]), "{summary}");
        assert_eq!(recording["missing_sample_frames"], 0, "{summary}");
        assert!(party["rtt_ms"].as_f64().is_some_and(|ms| ms < 50.0), "{summary}");
    }
    // In each file are the pictures of one other, as they were sent.
    for sink in &sinks {
        for number in [1, 2] {
            let file = std::fs::File::open(sink.replace(".mkv", &format!("-{number}.mkv"))).unwrap();
            let got = pictures(VideoReader::open(file, OpenOptions::default()).unwrap());
            let clip = clips.iter().find(|clip| clip.codec() == got[0].codec).expect("it was sent");
            let sent = pictures(clip.open().unwrap());
            let from = sent.iter().position(|one| one.data == got[0].data).expect("it was sent");
            assert!(got.iter().zip(&sent[from..]).all(|(got, sent)| got.data == sent.data));
            // A key frame comes each two seconds.
            assert!(got.len() >= 45, "{} pictures in {sink} of party {number}", got.len());
        }
    }
}

fn pictures(mut reader: VideoReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
}

#[test]
fn who_is_alone_in_a_group_waits_for_others() {
    let group = format!("rtp://@239.61.7.32:{}?iface=127.0.0.1", free_ports(1));
    let ran =
        run(&["talk", &group, "--source", "tone:440Hz", "--sink", "null:", "--time-limit", "3s", "--json"]);
    assert_eq!(ran.code, Some(124), "{}", ran.err);
    let summary: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["parties"], serde_json::json!([]), "{summary}");
    assert_eq!((&summary["received"]["packets_received"], &summary["shortfall"]), (&0.into(), &Value::Null));
    assert!(summary["sent"]["packets_sent"].as_u64().unwrap() > 300, "{summary}");
}
