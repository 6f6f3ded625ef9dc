//! Devices of the system: ALSA's, before a private PulseAudio server whose null sink keeps time. `cargo test -p antiphon-sound
//! --features cpal --test card -- --ignored`.

#![cfg(all(feature = "cpal", target_os = "linux"))]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use antiphon_media::{Pull, SampleFormat, StreamFormat};
use antiphon_sound::{devices, open_sink, open_source};
use antiphon_testkit::Sine;

/// `default` is the server; `nothing` takes and gives sound without a clock.
const CONFIGURATION: &str = "pcm.!default { type pulse }\npcm.nothing { type null }\n";
const TURN: f64 = std::f64::consts::TAU * 440.0 / 48_000.0;
const SECONDS: usize = 4;

/// Not a test but the other process, for which ALSA is configured.
#[test]
#[ignore = "run by the other test, in a process of its own"]
fn child() {
    if std::env::var_os("CARD_CHILD").is_none() {
        return;
    }
    let all = devices();
    let defaults = all.iter().find(|device| device.name == "alsa").expect("it is listed");
    assert!(defaults.available && defaults.source.is_some() && defaults.sink.is_some(), "{defaults:?}");
    let stereo = StreamFormat::new(48_000, 2).expect("a usual format");
    let refused = |uri: &str| match open_sink(uri, stereo, SampleFormat::L16) {
        Ok(_) => panic!("{uri} can be opened"),
        Err(error) => error.to_string(),
    };
    assert!(refused("alsa:nothing").contains("has no clock"), "{}", refused("alsa:nothing"));
    assert!(refused("alsa:null").contains("has no clock"));
    assert!(refused("alsa:missing").contains("antiphon devices"), "{}", refused("alsa:missing"));
    play_and_capture(stereo);
    println!("{DONE}");
}

/// A tone comes back from the server's monitor without a gap.
fn play_and_capture(stereo: StreamFormat) {
    let mut sink = open_sink("alsa:", stereo, SampleFormat::L16).unwrap_or_else(|error| panic!("{error}"));
    let mut source = open_source("alsa:?channels=2").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((sink.sink.format(), source.source.format()), (stereo, stereo));
    let (mut played, mut captured) = (0, Vec::new());
    let mut block = vec![0.0; 2 * 4_800];
    while captured.len() < SECONDS * 48_000 {
        let frames = sink.sink.wants().expect("it has a clock").frames.min(4_800);
        for frame in block[..2 * frames].chunks_exact_mut(2) {
            frame.fill((TURN * f64::from(played)).sin() as f32 * 0.5);
            played += 1;
        }
        sink.sink.push(&block[..2 * frames]).expect("there is room");
        while let Pull::Frames(frames) = source.source.pull(&mut block) {
            captured.extend(block[..2 * frames].iter().step_by(2));
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    // The test's own thread may be held up and give nothing for a moment, which is an underrun: half a second without one is
    // enough, as a wrong rate, another channel or a stretch of sound would show in each.
    let fits = captured.chunks_exact(24_000).map(|half| Sine::fit(half, 0, TURN));
    let sine = fits.min_by(|one, other| one.rest_db().total_cmp(&other.rest_db())).expect("some seconds");
    let figures = [sink.device, source.device].map(|meter| meter.expect("a device").figures());
    println!("{sine:?} {:.1} dB {figures:?}", sine.rest_db());
    assert!((sine.level - 0.5).abs() < 0.01 && sine.rest_db() < -50.0, "{sine:?} {figures:?}");
    assert!(figures.iter().all(|figures| figures.connected && figures.rate == 48_000), "{figures:?}");
}

#[test]
#[ignore = "needs pulseaudio and ALSA's plugin for it (libasound2-plugins)"]
fn a_tone_goes_through_the_default_device_and_back() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let configuration = place.path().join("asound.conf");
    std::fs::write(&configuration, CONFIGURATION).expect("a file");
    let server = Server::start(place.path());
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("CARD_CHILD", "1")
        .env("ALSA_CONFIG_PATH", format!("/usr/share/alsa/alsa.conf:{}", configuration.display()))
        .env("PULSE_SERVER", format!("unix:{}", server.socket))
        .env("HOME", place.path())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success() && text.contains(DONE), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A private PulseAudio server with a null sink.
struct Server {
    process: Child,
    socket: String,
}

impl Server {
    fn start(place: &Path) -> Self {
        let socket = place.join("native").display().to_string();
        let process = Command::new("pulseaudio")
            .args(["-n", "--daemonize=no", "--exit-idle-time=-1", "--disable-shm=yes", "--realtime=no"])
            .args(["--high-priority=no", "--log-target=stderr", "--use-pid-file=no"])
            .arg("-L")
            .arg(format!("module-native-protocol-unix auth-anonymous=1 socket={socket}"))
            .args(["-L", "module-null-sink sink_name=hall rate=48000 channels=2"])
            .env("XDG_RUNTIME_DIR", place)
            .env("HOME", place)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pulseaudio is installed");
        // Ended with this, whatever follows.
        let server = Server { process, socket };
        // It has ten seconds to make its socket.
        for _ in 0..100 {
            if Path::new(&server.socket).exists() {
                return server;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        panic!("pulseaudio makes no socket");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.process.kill();
        let _ended = self.process.wait();
    }
}

const DONE: &str = "the child is done";
