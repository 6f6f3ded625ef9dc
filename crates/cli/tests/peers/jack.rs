//! JACK at both ends: private dummy servers, GStreamer as the musician and `jack_rec` as the listener.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon_testkit::{longest_hold_up, unless_held_up};
use serde_json::Value;

use crate::child::{Child, Ended, antiphon, antiphon_by, free_ports, program};
use crate::tone::{FREQUENCY, LEVEL, Steadiness, arrives_whole, arrives_whole_at, steadiness};
use crate::wall_clock::{faketime, remove_left};

/// A JACK server of a test's own, without hardware, ended when dropped. One that is killed keeps one of the eight places that
/// a machine has for servers until another one of the same name ends.
struct Server {
    name: String,
    jackd: Option<Child>,
    /// How much faster than this machine's clock it runs, in ppm.
    faster: i32,
}

impl Server {
    fn start(name: &str, rate: u32, period: u32) -> Self {
        Server::start_faster(name, rate, period, 0)
    }

    /// One whose clock is off: libfaketime tells it another time, and it waits by that. The dummy driver's own `--wait` changes nothing.
    fn start_faster(name: &str, rate: u32, period: u32, faster: i32) -> Self {
        let name = format!("antiphon-{}-{name}", std::process::id());
        let mut server = Server { name, jackd: None, faster };
        server.run(rate, period);
        server
    }

    fn run(&mut self, rate: u32, period: u32) {
        let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let scheduling = if root { "-R" } else { "-r" };
        let name = &self.name;
        let jackd = format!("jackd -n {name} {scheduling} -S -d dummy -r {rate} -p {period} -C 2 -P 2");
        let mut command = program(&jackd);
        if self.faster != 0 {
            // The program `faketime` would stay between us and the server.
            command.env("LD_PRELOAD", faketime());
            command.env("FAKETIME", format!("+0 x{:.6}", 1.0 + f64::from(self.faster) / 1e6));
        }
        command.env("JACK_NO_AUDIO_RESERVATION", "1");
        self.jackd = Some(Child::start(&mut command, DEADLINE));
        Child::start(&mut program(&format!("jack_wait -w -t 10 -s {}", self.name)), DEADLINE).succeed();
    }

    /// Kills it, as a crash would.
    fn kill(&mut self) {
        self.jackd = None;
    }

    /// A program that uses this server.
    fn client(&self, mut command: Command) -> Command {
        command.env("JACK_DEFAULT_SERVER", &self.name).env("JACK_NO_START_SERVER", "1");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(jackd) = self.jackd.take() {
            let id = jackd.id();
            jackd.terminate();
            remove_left(id);
        }
        // Of one that was killed.
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().contains(&format!("_{}_", self.name)) {
                let _may_be_gone_already = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// A tone that is played into a server, as by a client `tone`.
fn tone_into(server: &Server, deadline: Duration) -> Child {
    let mut tone = server.client(program(&format!(
        "gst-launch-1.0 audiotestsrc freq={FREQUENCY} volume={LEVEL} ! audio/x-raw,channels=2 ! jackaudiosink connect=0 \
         client-name=tone"
    )));
    let mut tone = Child::start(&mut tone, deadline);
    tone.wait_for("New clock");
    tone
}

/// A tone that is played into a server, and a receiver into another one which listens on the address returned.
fn tone_and_listener(from: &Server, to: &Server, deadline: Duration) -> (Child, Child, String) {
    let tone = tone_into(from, deadline);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let sink = "jack:?name=listener&connect=no";
    let mut receiver =
        to.client(antiphon(["receive", address.as_str(), sink, "--latency", "60ms", "--json"]));
    let mut receiver = Child::start(&mut receiver, deadline);
    receiver.wait_for("listening on");
    (tone, receiver, address)
}

/// A tone is played into a server, sent over loopback and played into another server, where a client records it.
/// Returns what both ends say at the end.
fn carry(periods: (u32, u32), rates: (u32, u32), recording: &Path) -> (Value, Value) {
    let from = Server::start("from", rates.0, periods.0);
    let to = Server::start("to", rates.1, periods.1);
    let (tone, mut receiver, address) = tone_and_listener(&from, &to, DEADLINE);
    let source = "jack:?name=musician&connect=tone:.*";
    let mut sender = from.client(antiphon(["send", source, address.as_str(), "--seconds", "9s", "--json"]));
    let sender = Child::start(&mut sender, DEADLINE);
    receiver.wait_until_played(1.0);
    let mut recorder = to.client(program("jack_rec -d 4 -b 16 -f"));
    recorder.arg(recording).args(["listener:out_1", "listener:out_2"]);
    Child::start(&mut recorder, DEADLINE).succeed();
    let ends = (sender.succeed().summary(), receiver.succeed().summary());
    tone.interrupt();
    tone.end();
    ends
}

/// Whether a run says of itself that the machine, or its servers, had no time for it.
fn was_held_up((sender, receiver): &(Value, Value)) -> bool {
    let counts = [&sender["device"]["xruns"], &sender["device"]["underruns"], &receiver["device"]["xruns"]];
    counts.iter().any(|count| count.as_u64() != Some(0))
}

fn tone_passes(periods: (u32, u32), rates: (u32, u32)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let recording = directory.path().join("heard.wav");
    arrives_whole((&recording, rates.1, Duration::ZERO), 0, || {
        let ends = carry(periods, rates, &recording);
        let (sender, receiver) = &ends;
        assert_eq!(receiver["lost"], 0, "loopback loses nothing: {receiver}");
        assert_eq!(receiver["device"]["period_frames"], periods.1);
        assert_eq!(receiver["device"]["rate_hz"], rates.1);
        (was_held_up(&ends), format!("{sender} {receiver}"))
    });
}

#[test]
#[ignore = "needs jackd and GStreamer; scripts/install-peers brings them"]
fn a_tone_passes_from_jack_to_jack() {
    // Shorter periods are for machines with more processors than a dummy server, a musician, two ends and a listener share here.
    tone_passes((256, 512), (48_000, 48_000));
}

#[test]
#[ignore = "needs jackd and GStreamer; scripts/install-peers brings them"]
fn a_tone_passes_between_servers_of_other_rates() {
    tone_passes((1024, 240), (44_100, 48_000));
}

/// The sender's server is 300 ppm slower than this machine and the receiver's 200 ppm faster; only the first is drift of the sender's clock to the
/// receiver, which follows the second by its device. After three quarters of a minute the resampler still takes back, as fast as it may, what was lost before
/// the clocks were known. With `ANTIPHON_DRIFT_SECONDS` (300 for five minutes) the sound is judged for so long once that is done, and its delay is steady.
#[test]
#[ignore = "needs jackd, faketime and GStreamer; scripts/install-peers brings them"]
fn two_servers_500_ppm_apart_keep_their_delay() {
    // A hold-up moves the estimates of both clocks, too.
    unless_held_up(BEARS, two_servers_500_ppm_apart);
}

fn two_servers_500_ppm_apart() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let recording = directory.path().join("heard.wav");
    let asked = std::env::var("ANTIPHON_DRIFT_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let (seconds, settled) = asked.map_or((15, HEARD_CLOCKS), |seconds| (seconds, SETTLED));
    let heard = FREQUENCY * (1.0 - 500e-6);
    // A defect of a busy machine moves the delay, so what is judged has none.
    let whole = arrives_whole_at(heard, (&recording, 48_000, Duration::ZERO), (3, LEAST_WHOLE), || {
        let (ends, late) = longest_hold_up(|| carry_drifting((settled, seconds), &recording));
        let (sender, receiver) = &ends;
        let was_held_up = late >= BEARS;
        assert_eq!(receiver["lost"], 0, "loopback loses nothing: {receiver}");
        assert!(was_held_up || receiver["late"] == 0, "a thread was {late:?} late at most: {receiver}");
        // The estimate of a minute, and what the dummy driver's own timing adds.
        let drift = receiver["drift_ppm"].as_f64().expect("it is known");
        assert!((drift + 300.0).abs() < 20.0, "{drift} ppm: {receiver}");
        (was_held_up, format!("a thread was {late:?} late: {sender} {receiver}"))
    });
    let Steadiness { speed_ppm, off } = steadiness(&whole, 48_000);
    println!("the tone is heard {speed_ppm:.1} ppm off, its delay within {off:?}");
    let takes_back = if asked.is_some() { 10.0 } else { 201.0 };
    assert!((speed_ppm + 500.0).abs() < takes_back, "{speed_ppm} ppm");
    assert!(off <= Duration::from_micros(500), "{off:?}");
}

/// The same as [`carry`] after a time, between servers whose clocks differ.
fn carry_drifting((settled, seconds): (Duration, u32), recording: &Path) -> (Value, Value) {
    let deadline = settled * 2 + Duration::from_secs(u64::from(seconds) * 2);
    let from = Server::start_faster("slow", 48_000, 1024, -300);
    let to = Server::start_faster("fast", 48_000, 1024, 200);
    let (tone, mut receiver, address) = tone_and_listener(&from, &to, deadline);
    let mut sender =
        from.client(antiphon(["send", "jack:?name=musician&connect=tone:.*", &address, "--json"]));
    let sender = Child::start(&mut sender, deadline);
    receiver.wait_until_played(settled.as_secs_f64());
    let mut recorder = to.client(program(&format!("jack_rec -d {seconds} -b 16 -f")));
    recorder.arg(recording).args(["listener:out_1", "listener:out_2"]);
    Child::start(&mut recorder, deadline).succeed();
    sender.interrupt();
    let ends = (sender.end().summary(), receiver.succeed().summary());
    tone.interrupt();
    tone.end();
    ends
}

/// A device whose time stamps count a PTP clock, by which the receiver plays: this machine's clock stands for a steered one, and the sender's server is 200 ppm
/// faster than it.
#[test]
#[ignore = "needs jackd, faketime and GStreamer; scripts/install-peers brings them"]
fn a_capture_that_counts_a_ptp_clock_is_played_by_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (recording, sdp) = (directory.path().join("heard.wav"), directory.path().join("stage.sdp"));
    let heard = FREQUENCY * (1.0 + 200e-6);
    arrives_whole_at(heard, (&recording, 48_000, Duration::ZERO), (1, LEAST_WHOLE), || {
        let ends = carry_by_ptp(&recording, &sdp);
        let (sender, receiver) = &ends;
        assert_eq!(receiver["lost"], 0, "loopback loses nothing: {receiver}");
        assert_eq!(receiver["step"]["in_step"], true, "{receiver}");
        let after = receiver["step"]["capture_to_playout_ms"].as_f64().expect("it is known");
        // The resampler follows a server that is held up by and by.
        assert!((after - 60.0).abs() < 5.0, "{after} ms: {receiver}");
        (was_held_up(&ends), format!("{sender} {receiver}"))
    });
}

fn carry_by_ptp(recording: &Path, sdp: &Path) -> (Value, Value) {
    let from = Server::start_faster("captured", 48_000, 256, 200);
    let to = Server::start("stage", 48_000, 256);
    let tone = tone_into(&from, DEADLINE);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let source = "jack:?name=musician&connect=tone:.*";
    let mut sender =
        from.client(antiphon(["send", source, &address, "--ptp", "traceable", "--format", "l24"]));
    sender.args(["--ptime", "1ms", "--wait-for-peer", "--json", "--sdp"]).arg(sdp);
    let mut sender = Child::start(&mut sender, DEADLINE);
    sender.wait_for("wrote");
    let mut receiver = to.client(antiphon(["receive"]));
    receiver.arg(sdp).args(["jack:?name=listener&connect=no", "--in-step", "60ms", "--json"]);
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_until_played(8.0);
    let mut recorder = to.client(program("jack_rec -d 4 -b 16 -f"));
    recorder.arg(recording).args(["listener:out_1", "listener:out_2"]);
    Child::start(&mut recorder, DEADLINE).succeed();
    sender.interrupt();
    let ends = (sender.end().summary(), receiver.end().summary());
    tone.interrupt();
    tone.end();
    std::fs::remove_file(sdp).expect("it was written");
    ends
}

#[test]
#[ignore = "needs jackd; scripts/install-peers brings it"]
fn a_server_that_was_killed_is_found_again() {
    let mut server = Server::start("again", 48_000, 128);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let mut receiver = server.client(antiphon(["receive", &address, "jack:?name=one", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    let mut sender = server.client(antiphon(["send", "jack:?name=one", &address, "--json"]));
    let mut sender = Child::start(&mut sender, DEADLINE);
    receiver.wait_for("sound begins");
    server.kill();
    for one in [&mut receiver, &mut sender] {
        one.wait_for("the JACK server is gone");
    }
    // At another rate, sound is converted.
    server.run(44_100, 256);
    for one in [&mut receiver, &mut sender] {
        one.wait_for("it runs at 44100 Hz now, so sound is converted");
        one.wait_for("\"rate_hz\":44100");
    }
    server.kill();
    server.run(48_000, 256);
    let names = [&mut receiver, &mut sender].map(|one| one.wait_for("runs again after"));
    // Both ask for the same name: one gets it, and the other one with a number.
    assert!(names.iter().any(|line| line.ends_with("'one'")), "{names:?}");
    assert!(names.iter().any(|line| line.ends_with("'one-01'")), "{names:?}");
    sender.interrupt();
    let check = |ended: Ended, codes: &[i32]| {
        assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{}{}", ended.out, ended.err);
        let device = &ended.summary()["device"];
        assert_eq!(device["lost_servers"], 2, "{device}");
        assert_eq!(device["connected"], true, "{device}");
        assert_eq!(device["period_frames"], 256, "{device}");
    };
    check(sender.end(), &[130]);
    check(receiver.end(), &[0]);
}

/// A program that hangs holds up those that get its sound: JACK calls them no more, and lives. The new client has the connections that a patch bay made, too.
#[test]
#[ignore = "needs jackd and GStreamer; scripts/install-peers brings them"]
fn a_client_that_the_server_calls_no_more_connects_again() {
    let server = Server::start("hang", 48_000, 256);
    let (tone, mut receiver, address) = tone_and_listener(&server, &server, DEADLINE);
    let ports = Child::start(&mut server.client(program("jack_lsp tone:")), DEADLINE).end().out;
    let [left, right] = ports.lines().collect::<Vec<_>>()[..] else {
        panic!("two ports of the tone: {ports}")
    };
    // A pattern of one port's name: the other is connected by hand.
    let number = left.chars().last().expect("a name");
    let source = format!("jack:?name=musician&connect=tone:.*{number}$");
    let mut sender = server.client(antiphon(["send", source.as_str(), &address, "--json"]));
    let mut sender = Child::start(&mut sender, DEADLINE);
    receiver.wait_until_played(1.0);
    let patch = program(&format!("jack_connect {right} musician:in_2"));
    Child::start(&mut server.client(patch), DEADLINE).succeed();
    // Long enough to be noticed.
    receiver.wait_until_played(2.0);
    tone.signal("STOP");
    sender.wait_for("the JACK server runs, but calls this program no longer");
    sender.wait_for("\"lost_servers\":1");
    let silent = serde_json::from_str::<Value>(&sender.wait_for("\"record\"")).expect("a record");
    sender.wait_until("silence that is sent", |line| {
        let sent = serde_json::from_str::<Value>(line).ok().and_then(|record| record["sent_s"].as_f64());
        sent.zip(silent["sent_s"].as_f64()).is_some_and(|(now, then)| now > then + 0.5)
    });
    tone.signal("CONT");
    sender.wait_for("connected as 'musician'");
    sender.wait_for(&format!("'musician' is connected with {right} again"));
    sender.interrupt();
    let device = &sender.end().summary()["device"];
    assert_eq!((&device["lost_servers"], &device["connected"]), (&1.into(), &true.into()), "{device}");
    receiver.succeed();
    tone.interrupt();
    tone.end();
}

#[test]
#[ignore = "needs jackd; scripts/install-peers brings it"]
fn a_client_name_in_use_is_told() {
    let server = Server::start("names", 48_000, 128);
    let target = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let start = || {
        let mut sender = server.client(antiphon(["send", "jack:?name=one&connect=no", &target]));
        Child::start(&mut sender, DEADLINE)
    };
    let mut first = start();
    first.wait_for("sending");
    let mut second = start();
    second.wait_for("the JACK client name 'one' is in use: this one is 'one-01'");
    for sender in [first, second] {
        sender.interrupt();
        sender.end();
    }
}

#[test]
#[ignore = "needs jackd; scripts/install-peers brings it"]
fn period_and_freewheeling_may_change_while_a_stream_plays() {
    let server = Server::start("period", 48_000, 128);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let mut receiver = server.client(antiphon(["receive", &address, "jack:?name=one", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    let sender = Child::start(&mut antiphon(["send", "tone:440Hz", &address, "--json"]), DEADLINE);
    receiver.wait_for("sound begins");
    for period in ["512", "16", "4096"] {
        let mut set = server.client(program("jack_bufsize"));
        Child::start(set.arg(period), DEADLINE).succeed();
        receiver.wait_for(&format!("\"period_frames\":{period},"));
    }
    for (freewheels, told) in [("y", "JACK runs without a clock"), ("n", "JACK runs with its clock again")] {
        let mut set = server.client(program("jack_freewheel"));
        Child::start(set.arg(freewheels), DEADLINE).succeed();
        receiver.wait_for(told);
    }
    // What waits in the sink is told to the graph.
    let ports = Child::start(&mut server.client(program("jack_lsp -l one:out_1")), DEADLINE).succeed();
    let told = ports.out.lines().find(|line| line.contains("capture latency")).expect(&ports.out);
    let waits = told.split(['[', ' ']).filter_map(|word| word.parse::<u32>().ok()).next();
    assert!(waits.is_some_and(|frames| frames > 0), "{}", ports.out);
    sender.interrupt();
    sender.end();
    let summary = receiver.succeed().summary();
    assert_eq!((&summary["lost"], &summary["device"]["lost_servers"]), (&0.into(), &0.into()), "{summary}");
}

/// A server needs a tenth of a second and more to register 64 ports, in which 700 packets come. The stream begins when that is done, so that none is lost or late.
#[test]
#[ignore = "needs jackd; scripts/install-peers brings it"]
fn nothing_is_lost_while_many_ports_are_registered() {
    unless_held_up(BEARS, many_ports_are_registered);
}

fn many_ports_are_registered() {
    let server = Server::start("many", 48_000, 256);
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let sink = "jack:?name=listener&connect=no";
    let mut receiver =
        server.client(antiphon(["receive", address.as_str(), sink, "--latency", "60ms", "--json"]));
    let mut receiver = Child::start(&mut receiver, DEADLINE);
    receiver.wait_for("listening on");
    let tone = "tone:noise?channels=64";
    let sender = antiphon(["send", tone, address.as_str(), "--format", "l24", "--seconds", "3s", "--json"]);
    Child::start(&mut { sender }, DEADLINE).succeed();
    let ended = receiver.succeed().summary();
    assert_eq!(
        (&ended["lost"], &ended["late"], &ended["concealed"]),
        (&0.into(), &0.into(), &0.into()),
        "{ended}"
    );
    assert!(ended["played_s"].as_f64().is_some_and(|played| played > 1.5), "{ended}");
}

#[test]
#[ignore = "needs setpriv and prlimit of util-linux, and root, whose right to real-time scheduling is taken away"]
fn a_stream_without_the_right_to_real_time_scheduling_plays_and_says_what_to_do() {
    let may_not =
        ["prlimit", "--rtprio=0", "--nice=0", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"];
    let address = format!("rtp://127.0.0.1:{}", free_ports(1)[0]);
    let mut receiver =
        Child::start(&mut antiphon_by(&may_not, ["receive", &address, "null:", "-v"]), DEADLINE);
    receiver.wait_for("listening on");
    let send = ["send", "tone:440Hz", &address, "--seconds", "1s", "-v"];
    let sender = Child::start(&mut antiphon_by(&may_not, send), DEADLINE).succeed();
    let receiver = receiver.succeed();
    for end in [sender, receiver] {
        assert!(end.err.contains("media thread: ordinary ("), "{}", end.err);
        assert!(end.err.contains("ulimit -r 80"), "{}", end.err);
    }
}

#[test]
#[ignore = "needs jackd; scripts/install-peers brings it"]
fn devices_shows_the_server() {
    let server = Server::start("shown", 96_000, 32);
    let shown = Child::start(&mut server.client(antiphon(["devices", "--json"])), DEADLINE).succeed();
    let jack = shown.records("device").into_iter().find(|device| device["name"] == "jack").expect("a record");
    let about = jack["about"].as_str().expect("a text");
    assert_eq!(jack["available"], true, "{about}");
    for word in ["96000 Hz", "32 sample frames", "system:capture_1", "system:playback_2"] {
        assert!(about.contains(word), "{word} is not in: {about}");
    }
    let mut wrong = server.client(antiphon(["send", "jack:?connect=nobody:.*", "rtp://127.0.0.1:9"]));
    let ended = Child::start(&mut wrong, DEADLINE).end();
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("connect=nobody:.* matches no output of JACK"), "{}", ended.err);
    assert!(ended.err.contains("system:capture_1"), "{}", ended.err);
}

/// When the difference of the clocks is known: its estimate begins with ten seconds and changes by 10 ppm a second.
const HEARD_CLOCKS: Duration = Duration::from_secs(45);
/// When what 500 ppm cost until then has been taken back, at 200 ppm, and the control has come to rest.
const SETTLED: Duration = Duration::from_secs(150);
/// Ten seconds of sound, and three times as much for a busy machine.
const DEADLINE: Duration = Duration::from_secs(40);
/// A thread that is this late may have sound come too late: 60 ms of playout delay, less a cycle of 1024 at each end, are 17 ms.
const BEARS: Duration = Duration::from_millis(10);
/// So long without a defect, the delay can be judged where the machine had no time for all of the recording.
const LEAST_WHOLE: Duration = Duration::from_secs(3);
