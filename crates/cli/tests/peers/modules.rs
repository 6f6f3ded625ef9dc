//! The RTP modules of PulseAudio and PipeWire at one end, and files of ours at the other.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::child::{Child, antiphon, free_ports, program};
use crate::pulse::{DEADLINE, EDGES, Kind, Server, until, write_tone};
use crate::tone::{FREQUENCY, arrives_whole};

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

/// Where PipeWire's modules announce and listen by themselves.
const ANNOUNCED_AT: &str = "224.0.0.56";
/// A sink may play silence before the tone begins.
const BEGINS: Duration = Duration::from_millis(1_000);
