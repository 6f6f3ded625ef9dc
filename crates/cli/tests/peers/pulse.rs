//! PulseAudio and PipeWire at both ends: private servers without hardware, `pacat` as the musician and `parec` as the listener.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::child::{Child, Ended, antiphon, free_ports, program};
use crate::links::Netns;
use crate::tone::{FREQUENCY, LEVEL, arrives_whole};

/// Whose server it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    PulseAudio,
    PipeWire,
}

/// A server of a test's own with the sink `hall`, its default, ended when dropped.
pub struct Server {
    kind: Kind,
    /// Where it is run, if it is to have a network of its own.
    netns: Option<Netns>,
    folder: TempDir,
    /// The last one started ends first.
    programs: Vec<Child>,
}

impl Server {
    pub fn start(kind: Kind) -> Self {
        Self::start_in(kind, None)
    }

    /// The same in a network namespace.
    pub fn start_in(kind: Kind, netns: Option<Netns>) -> Self {
        let folder = tempfile::Builder::new().prefix("antiphon-pulse").tempdir().expect("a temporary folder");
        let mut server = Server { kind, netns, folder, programs: Vec::new() };
        server.run();
        server
    }

    fn run(&mut self) {
        match self.kind {
            Kind::PulseAudio => self.add(&format!(
                "pulseaudio -n --daemonize=no --exit-idle-time=-1 --disable-shm=yes --realtime=no --high-priority=no \
                 --use-pid-file=no --log-target=stderr -F {}",
                self.script().display()
            )),
            Kind::PipeWire => {
                let bus = self.folder.path().join("bus");
                let address = bus.display().to_string();
                self.add(&format!("dbus-daemon --session --nofork --nopidfile --address=unix:path={address}"));
                until(|| bus.exists());
                self.add("pipewire");
                until(|| self.folder.path().join("pipewire-0").exists());
                self.add("wireplumber");
                self.add("pipewire-pulse");
            }
        }
        until(|| self.control("info").is_some());
        self.load_sink("hall", 48_000, 2);
        // WirePlumber takes it once it is ready itself.
        until(|| self.control("set-default-sink hall").is_some());
        until(|| self.control("info").is_some_and(|info| info.contains("Default Sink: hall")));
    }

    /// What PulseAudio loads: only what listens.
    fn script(&self) -> PathBuf {
        let path = self.folder.path().join("pulse.pa");
        let line = format!("load-module module-native-protocol-unix socket={}\n", self.socket().display());
        std::fs::write(&path, line).expect("a temporary file");
        path
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("pulse/native")
    }

    /// Starts a program beside it, which ends before it.
    pub fn add(&mut self, line: &str) {
        std::fs::create_dir_all(self.folder.path().join("pulse")).expect("a temporary folder");
        let command = self.netns.as_ref().map_or_else(|| program(line), |netns| netns.command(line));
        let child = Child::start(&mut self.client(command), DEADLINE);
        self.programs.push(child);
    }

    fn load_sink(&self, name: &str, rate: u32, channels: u32) -> String {
        let line = format!("load-module module-null-sink sink_name={name} rate={rate} channels={channels}");
        let number = self.control(&line).expect("a sink");
        // PipeWire makes it a moment later.
        until(|| {
            self.control("list short sinks").is_some_and(|sinks| sinks.contains(&format!("\t{name}\t")))
        });
        number.trim().into()
    }

    /// What `pactl` answers, if it succeeds.
    pub fn control(&self, line: &str) -> Option<String> {
        let mut command = self.client(program(&format!("pactl {line}")));
        let output = command.stdin(Stdio::null()).output().expect("pactl; scripts/install-peers brings it");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Its network namespace, if it has one.
    pub fn netns(&self) -> Option<&Netns> {
        self.netns.as_ref()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, as a crash would.
    fn kill(&mut self) {
        self.programs.clear();
    }

    /// A program that uses this server.
    pub fn client(&self, mut command: Command) -> Command {
        let folder = self.folder.path();
        for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env(name, folder);
        }
        command
            .env("PULSE_SERVER", format!("unix:{}", self.socket().display()))
            .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", folder.join("bus").display()))
            .env_remove("PULSE_COOKIE")
            .env_remove("PULSE_RUNTIME_PATH")
            .env_remove("DISPLAY");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        while let Some(program) = self.programs.pop() {
            program.terminate();
        }
    }
}

/// Asks again and again, as these servers tell nobody when they are ready. Each question takes a moment.
pub fn until(is_so: impl Fn() -> bool) {
    let clock = antiphon::net::OsClock::new();
    while !is_so() {
        assert!(clock.now() < antiphon::core::Instant::ZERO + DEADLINE, "not within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A minute of the tone, in floating point.
pub fn write_tone(path: &Path) {
    let turn = std::f64::consts::TAU * FREQUENCY / 48_000.0;
    let samples = (0..48_000 * 60).map(|n| (LEVEL * (turn * f64::from(n)).sin()) as f32);
    let bytes: Vec<u8> = samples.flat_map(|sample| [sample.to_le_bytes(); 2].concat()).collect();
    std::fs::write(path, bytes).expect("a temporary file");
}

/// A tone is played into a server, sent over loopback and played into another server, where a client records it.
/// Returns what both ends say at the end, and whether all was played that should have been.
fn carry(from: &Server, to: &Server, recording: &Path) -> ((Value, Value), bool) {
    let tone = recording.with_extension("raw");
    write_tone(&tone);
    let mut musician =
        from.client(program("pacat --playback --raw --format=float32le --rate=48000 --channels=2"));
    musician.args(["-d", "hall"]).arg(&tone);
    let musician = Child::start(&mut musician, DEADLINE);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let mut receiver =
        to.client(antiphon(["receive", address.as_str(), "pulse:hall", "--latency", "60ms", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    let source = "pulse:hall.monitor";
    let mut sender = from.client(antiphon(["send", source, address.as_str(), "--seconds", "8s", "--json"]));
    let sender = Child::start(&mut sender, DEADLINE);
    receiver.wait_until_played(1.5);
    let mut recorder = to.client(program(
        "parec --record --latency-msec=50 --file-format=wav --format=s16le --rate=48000 --channels=2",
    ));
    recorder.args(["-d", "hall.monitor"]).arg(recording);
    let recorder = Child::start(&mut recorder, DEADLINE);
    let played = receiver.plays(6.0);
    recorder.interrupt();
    recorder.end();
    let ends = (sender.succeed().summary(), receiver.succeed().summary());
    drop(musician);
    (ends, played)
}

/// Whether a run says of itself that the machine, or its servers, had no time for it.
fn was_held_up((sender, receiver): &(Value, Value)) -> bool {
    let counts = ["xruns", "underruns", "dropped_frames"]
        .map(|name| [&sender["device"][name], &receiver["device"][name]]);
    counts.as_flattened().iter().any(|count| count.as_u64() != Some(0))
}

fn tone_passes(from: Kind, to: Kind) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("heard.wav");
    let (from, to) = (Server::start(from), Server::start(to));
    // PipeWire tells its clients nothing of a cycle that it has missed itself; a fault of ours would come again.
    arrives_whole((&recording, 48_000, EDGES), 1, || {
        let (ends, played) = carry(&from, &to, &recording);
        let (sender, receiver) = &ends;
        // A server that loses cycles sends less.
        assert!(played || was_held_up(&ends), "the stream ended early: {sender} {receiver}");
        assert_eq!(receiver["lost"], 0, "loopback loses nothing: {receiver}");
        assert_eq!(receiver["device"]["server"], "PulseAudio");
        assert_eq!(receiver["device"]["rate_hz"], 48_000);
        let latency = receiver["device"]["latency_ms"].as_f64().expect("the server tells its latency");
        assert!((1.0..150.0).contains(&latency), "{latency} ms in the server");
        (was_held_up(&ends), format!("{sender} {receiver}"))
    });
}

#[test]
#[ignore = "needs PulseAudio and PipeWire; scripts/install-peers brings them"]
fn a_tone_passes_from_pulseaudio_to_pipewire() {
    tone_passes(Kind::PulseAudio, Kind::PipeWire);
}

#[test]
#[ignore = "needs PulseAudio and PipeWire; scripts/install-peers brings them"]
fn a_tone_passes_from_pipewire_to_pulseaudio() {
    tone_passes(Kind::PipeWire, Kind::PulseAudio);
}

#[test]
#[ignore = "needs PulseAudio; scripts/install-peers brings it"]
fn a_server_that_was_killed_and_a_sink_that_was_unloaded_are_found_again() {
    let mut server = Server::start(Kind::PulseAudio);
    let stage = server.load_sink("stage", 44_100, 2);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let mut receiver = server.client(antiphon(["receive", &address, "pulse:stage?name=one", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    // Streams may have the same name.
    let mut sender = server.client(antiphon(["send", "pulse:hall.monitor?name=one", &address, "--json"]));
    let mut sender = Child::start(&mut sender, DEADLINE);
    receiver.wait_for("sound begins");
    server.kill();
    for one in [&mut receiver, &mut sender] {
        one.wait_for("the PulseAudio server is gone");
    }
    server.run();
    sender.wait_for("source 'hall.monitor' is there again");
    receiver.wait_for("the PulseAudio server has no sink 'stage'");
    server.load_sink("stage", 48_000, 2);
    receiver.wait_for("sink 'stage' is there again");
    drop(stage);
    sender.interrupt();
    let check = |ended: Ended, codes: &[i32]| {
        assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{}{}", ended.out, ended.err);
        let device = &ended.summary()["device"];
        assert_eq!(device["lost_servers"], 1, "{device}");
        assert_eq!(device["connected"], true, "{device}");
    };
    check(sender.end(), &[130]);
    check(receiver.end(), &[0]);
}

#[test]
#[ignore = "needs PulseAudio; scripts/install-peers brings it"]
fn a_sink_that_is_unplugged_is_waited_for() {
    let server = Server::start(Kind::PulseAudio);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let stage = server.load_sink("stage", 48_000, 2);
    let mut receiver = server.client(antiphon(["receive", &address, "pulse:stage", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    let sender = Child::start(&mut antiphon(["send", "tone:440Hz", &address, "--json"]), DEADLINE);
    receiver.wait_for("sound begins");
    let unload = |module: &str| server.control(&format!("unload-module {module}")).expect("it was loaded");
    unload(&stage);
    receiver.wait_for("PulseAudio plays to the sink 'hall' now");
    unload("module-null-sink");
    receiver.wait_for("the sink 'stage' of PulseAudio is gone");
    server.load_sink("hall", 48_000, 2);
    receiver.wait_for("the PulseAudio server has no sink 'stage': use one of: hall");
    server.load_sink("stage", 48_000, 2);
    receiver.wait_for("sink 'stage' is there again");
    receiver.wait_until_played(1.0);
    sender.interrupt();
    sender.end();
    assert_eq!(receiver.succeed().summary()["device"]["lost_servers"], 1);
}

#[test]
#[ignore = "needs PulseAudio and PipeWire; scripts/install-peers brings them"]
fn devices_lists_sinks_and_sources() {
    for kind in [Kind::PulseAudio, Kind::PipeWire] {
        let server = Server::start(kind);
        server.load_sink("surround", 44_100, 6);
        let shown = Child::start(&mut server.client(antiphon(["devices", "--json"])), DEADLINE).succeed();
        let devices = shown.records("device");
        let named = |name: &str| devices.iter().find(|device| device["name"] == name).expect(name);
        let hall = named("pulse:hall");
        assert_eq!(
            [&hall["rate_hz"], &hall["channels"], &hall["default"]],
            [&48_000.into(), &2.into(), &Value::Bool(true)]
        );
        assert_eq!([&hall["sink"], &hall["source"]], [&Value::from("pulse:hall"), &Value::Null]);
        let surround = named("pulse:surround.monitor");
        assert_eq!([&surround["rate_hz"], &surround["channels"]], [&Value::from(44_100), &6.into()]);
        assert_eq!(
            [&surround["default"], &surround["source"]],
            [&Value::Bool(false), &"pulse:surround.monitor".into()]
        );
        assert_eq!(named("pulse")["available"], true);
        let refused = |arguments: [&str; 3], texts: [&str; 2]| {
            let ended = Child::start(&mut server.client(antiphon(arguments)), DEADLINE).end();
            assert_eq!(ended.code, Some(2), "{}", ended.err);
            assert!(texts.iter().all(|text| ended.err.contains(text)), "{kind:?}: {}", ended.err);
        };
        refused(["send", "pulse:nobody", "rtp://127.0.0.1:9"], ["no source 'nobody'", "hall.monitor"]);
        refused(["receive", "rtp://127.0.0.1:9", "pulse:nobody"], ["no sink 'nobody'", "surround"]);
    }
}

/// What a recorder is still setting up, or no longer writes.
pub const EDGES: Duration = Duration::from_millis(200);
/// Twelve seconds of sound, and three times as much for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
