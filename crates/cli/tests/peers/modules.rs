//! The RTP modules of PulseAudio and PipeWire at one end, and files of ours at the other.

use std::path::Path;
use std::time::Duration;

use antiphon_testkit::Sine;
use serde_json::Value;

use crate::child::{Child, antiphon, antiphon_by, free_ports, program};
use crate::links::Netns;
use crate::pulse::{DEADLINE, EDGES, Kind, Server, until, write_tone};
use crate::tone::{FREQUENCY, LEVEL, arrives_whole};

/// A tone is played into the sink `to`, and what its module sends to `port` is recorded. Returns what the receiver says.
fn record(server: &Server, to: &str, port: u16, recording: &Path, send: impl FnOnce()) -> Value {
    let tone = recording.with_extension("raw");
    write_tone(&tone);
    let mut musician =
        server.client(program("pacat --playback --raw --format=float32le --rate=48000 --channels=2"));
    let musician = Child::start(musician.args(["-d", to]).arg(&tone), DEADLINE);
    until(|| server.control("list short sink-inputs").is_some_and(|inputs| !inputs.is_empty()));
    let address = format!("rtp://127.0.0.1:{port}");
    let file = format!("file:{}?overwrite=yes", recording.display());
    // A payload type of theirs says nothing: their announcement does.
    let format = ["--format", "l16/48000/2", "--payload-type", "127"];
    let arguments = ["receive", address.as_str(), file.as_str(), "--latency", "100ms", "--json"];
    let mut receiver = Child::start(&mut antiphon(arguments.into_iter().chain(format)), DEADLINE);
    receiver.wait_for("listening on");
    send();
    receiver.wait_until_played(6.0);
    receiver.interrupt();
    let ended = receiver.end();
    drop(musician);
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let summary = ended.summary();
    assert_eq!(summary["lost"], 0, "loopback loses nothing: {summary}");
    summary
}

/// Whether packets came too late: this machine held up one of the programs.
fn was_held_up(receiver: &Value) -> bool {
    receiver["concealed"] != 0 || receiver["late"] != 0
}

#[test]
#[ignore = "needs PulseAudio; scripts/install-peers brings it"]
fn we_record_what_pulseaudios_module_sends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("heard.wav");
    arrives_whole((&recording, 48_000, BEGINS), 1, || {
        let server = Server::start(Kind::PulseAudio);
        let port = free_ports(1)[0];
        let said = record(&server, "hall", port, &recording, || {
            let line = format!(
                "load-module module-rtp-send source=hall.monitor destination_ip=127.0.0.1 port={port}"
            );
            server.control(&line).expect("the module is loaded");
        });
        (was_held_up(&said), said.to_string())
    });
}

/// A program that runs one module of PipeWire's.
fn run_module(server: &mut Server, name: &str, arguments: &str) {
    let path = server.folder().join(format!("{name}.conf"));
    let text = format!(
        "context.spa-libs = {{ audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }}\n\
         context.modules = [ {{ name = libpipewire-module-protocol-native }} {{ name = libpipewire-module-client-node }}\n\
         {{ name = libpipewire-module-adapter }} {{ name = libpipewire-module-{name} args = {{ local.ifname = lo {arguments} }} }} ]\n"
    );
    std::fs::write(&path, text).expect("a temporary file");
    server.add(&format!("pipewire -c {}", path.display()));
}

#[test]
#[ignore = "needs PipeWire; scripts/install-peers brings it"]
fn we_record_what_pipewires_module_sends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("heard.wav");
    arrives_whole((&recording, 48_000, BEGINS), 1, || {
        let mut server = Server::start(Kind::PipeWire);
        let port = free_ports(1)[0];
        let arguments = format!(
            "destination.ip = 127.0.0.1 destination.port = {port} audio.format = S16BE audio.rate = 48000 audio.channels = 2 \
             stream.props = {{ node.name = away media.class = Audio/Sink }}"
        );
        run_module(&mut server, "rtp-sink", &arguments);
        until(|| server.control("list short sinks").is_some_and(|sinks| sinks.contains("\taway\t")));
        let said = record(&server, "away", port, &recording, || {});
        (was_held_up(&said), said.to_string())
    });
}

#[test]
#[ignore = "needs PipeWire; scripts/install-peers brings it"]
fn pipewires_module_finds_and_plays_what_we_announce() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("heard.wav");
    arrives_whole((&recording, 48_000, EDGES), 1, || {
        let mut server = Server::start(Kind::PipeWire);
        let arguments = format!(
            "sap.ip = {ANNOUNCED_AT} sess.latency.msec = 100 stream.props = {{ target.object = hall }}"
        );
        run_module(&mut server, "rtp-source", &arguments);
        let address = format!("rtp://239.7.7.10:{}?iface=lo", free_ports(1)[0]);
        let tone = format!("tone:{FREQUENCY}Hz?level=-6.0206dB&channels=2");
        // Their module does not read the extensions of an RTP header.
        let to = ["--plain", "--announce", "a tone", "--announce-to", ANNOUNCED_AT, "--iface", "lo"];
        let what = ["send", tone.as_str(), address.as_str(), "--format", "l16/48000/2", "--json"];
        let sender = Child::start(&mut antiphon(what.into_iter().chain(to)), DEADLINE);
        until(|| server.control("list sink-inputs").is_some_and(|inputs| inputs.contains("a tone")));
        let mut recorder = server.client(program(
            "parec --record --latency-msec=50 --file-format=wav --format=s16le --rate=48000 --channels=2",
        ));
        recorder.args(["-d", "hall.monitor"]).arg(&recording);
        let recorder = Child::start(&mut recorder, DEADLINE);
        until(|| recording.metadata().is_ok_and(|file| file.len() >= 5 * 48_000 * 4));
        recorder.interrupt();
        recorder.end();
        sender.interrupt();
        (false, sender.end().summary().to_string())
    });
}

/// PulseAudio's module plays payload types that RTP fixes (RFC 3551), and no others with the GStreamer that Debian builds it with. It brings its own
/// clock near the stream's by up to two parts in a thousand, and its server down where much waits for its sink: then it is tried again.
#[test]
#[ignore = "needs PulseAudio, and root for a network of its own; scripts/install-peers brings it"]
fn pulseaudios_module_finds_and_plays_what_we_announce() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("heard.raw");
    for _ in 0..ATTEMPTS {
        if played_by_pulseaudio(&recording) {
            return;
        }
    }
    panic!("{ATTEMPTS} times PulseAudio ended, or missed sound");
}

/// Whether three seconds of the tone are played without a gap.
fn played_by_pulseaudio(recording: &Path) -> bool {
    // The module joins groups where the system would send what goes there.
    let netns = Netns::new("module");
    Child::start(&mut netns.command("ip route add 224.0.0.0/4 dev lo"), DEADLINE).succeed();
    let server = Server::start_in(Kind::PulseAudio, Some(netns));
    // A recorder that asks for little latency makes the sink play in short pieces.
    let record =
        "parec --record --raw --latency-msec=10 --format=float32le --rate=48000 --channels=1 -d hall.monitor";
    let recorder = Child::start(server.client(program(record)).arg(recording), DEADLINE);
    server.control("load-module module-rtp-recv sink=hall latency_msec=100").expect("the module is loaded");
    let address = "rtp://239.7.7.11:5004?iface=lo";
    let tone = format!("tone:{FREQUENCY}Hz?level=-6.0206dB&rate=44.1kHz&channels=1");
    let to = ["--plain", "--announce", "a tone", "--announce-to", ANNOUNCED_AT, "--iface", "lo"];
    let what = ["send", tone.as_str(), address, "--format", "l16/44100/1", "--seconds", "7s"];
    let enter = server.netns().expect("its own").enter();
    Child::start(&mut antiphon_by(&enter, what.into_iter().chain(to)), DEADLINE).succeed();
    recorder.interrupt();
    recorder.end();
    let bytes = std::fs::read(recording).expect("a recording");
    let sound: Vec<f32> =
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect();
    let piece = 480;
    let is_whole = |part: &[f32]| {
        let turn = std::f64::consts::TAU * FREQUENCY / 48_000.0;
        (Sine::fit(part, 0, turn).level / LEVEL).log10().abs() < 1.0 / 20.0
    };
    let pieces: Vec<bool> = sound.chunks_exact(piece).map(is_whole).collect();
    let longest = pieces.split(|whole| !whole).map(<[bool]>::len).max().unwrap_or(0);
    longest >= 300
}

/// Of a server that may end.
const ATTEMPTS: u32 = 8;
/// Where PipeWire's modules announce and listen by themselves.
const ANNOUNCED_AT: &str = "224.0.0.56";
/// A sink may play silence before the tone begins.
const BEGINS: Duration = Duration::from_millis(1_000);
