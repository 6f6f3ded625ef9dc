//! Real sockets on loopback: sound and pictures for a program that shows them while they come.

#[path = "common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon::{
    Error, ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, Stop, TalkOptions, receive, send, talk,
};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, assert_claps_in_step, free_port, scratch};

/// Length of what is sent.
const SECONDS: u64 = 5;

/// A script that plays, written by a process of its own: a descriptor of ours would be copied into programs that other tests start meanwhile,
/// and what is open for writing can't be run (ETXTBSY, execve(2)).
fn player(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("player");
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let written = Command::new("sh").args(["-c", write, "sh", text]).arg(&path).status();
    assert!(written.unwrap().success());
    path
}

/// Sends the beginning of a clip, with its pictures or without, to a receiver that plays it with a script.
fn show(
    directory: &Path,
    text: &str,
    clip: Option<Clip>,
    change: impl Fn(&mut ReceiveOptions),
) -> Result<ReceiveSummary, Error> {
    show_and_look(directory, text, clip, change).0
}

/// The same, and how many seconds of sound had been played when it was first seen that there was a picture.
fn show_and_look(
    directory: &Path,
    text: &str,
    clip: Option<Clip>,
    change: impl Fn(&mut ReceiveOptions),
) -> (Result<ReceiveSummary, Error>, Option<f64>) {
    let (sound, pictures) = (directory.join("sound.ogg"), directory.join("pictures.mkv"));
    fs::write(&sound, antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
    let video = clip.map(|clip| {
        fs::write(&pictures, clip.file()).unwrap();
        pictures
    });
    let port = free_port();
    let mut options = ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        sink: format!("player:{}", player(directory, text).display()),
        length: Some(Duration::from_secs(60)),
        ..ReceiveOptions::default()
    };
    change(&mut options);
    let (listening, is_listening) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let mut first = None;
        let received =
            receive(&options, &Stop::new(), &mut |sentence| drop(listening.send(sentence)), &mut |status| {
                let has_any = status.pictures.is_some_and(|pictures| pictures.written > 0);
                first = first.or(has_any.then_some(status.played_s));
            });
        (received, first)
    });
    is_listening.recv().expect("the receiver says that it listens");
    let options = SendOptions {
        source: sound.display().to_string(),
        video: video.into_iter().collect(),
        target: format!("rtp://127.0.0.1:{port}"),
        length: Some(Duration::from_secs(SECONDS)),
        ..SendOptions::default()
    };
    // A receiver whose player is gone leaves before the end.
    let _sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {});
    receiver.join().unwrap()
}

fn frames(path: &Path) -> Vec<Frame> {
    let mut reader = VideoReader::open(File::open(path).unwrap(), OpenOptions::default()).unwrap();
    std::iter::from_fn(|| reader.next_frame().expect("whole up to its end")).collect()
}

#[test]
fn a_player_gets_every_picture_and_the_sound() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("player-all");
        let out = directory.join("out.mkv");
        let text = format!("cat > {}", out.display());
        let (received, first) = show_and_look(&directory, &text, Some(Clip::Vp8), |_| {});
        let received = received.unwrap();
        // It was looked ten times a second.
        assert!(first.is_some_and(|first| first < 1.0), "the first picture after {first:?} s of sound");
        assert!(!received.interrupted && received.recording.is_none() && received.shortfall.is_none());
        let got = frames(&out);
        let pictures = received.status.pictures.unwrap();
        assert_eq!((pictures.broken, pictures.written), (0, got.len() as u64));
        // On a machine that stands still for 40 ms, pictures that nothing needs come too late to be shown.
        assert!((20 * SECONDS..=25 * SECONDS).contains(&(got.len() as u64)), "{} pictures", got.len());
        for frame in &got {
            // One is sent each 40 ms.
            let at = frame.time.duration().as_millis() as u64;
            assert!((at + 4) % 40 <= 8, "a picture at {at} ms");
        }
        // Nothing else is in the file but the sound.
        let bytes: usize = got.iter().map(|frame| frame.data.len()).sum();
        let sound = fs::metadata(&out).unwrap().len() - bytes as u64;
        assert!((380_000..560_000).contains(&sound), "{sound} bytes of 5 s of sound");
        fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn sound_without_pictures_is_played_too() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("player-alone");
        let out = directory.join("out.mkv");
        let received = show(&directory, &format!("cat > {}", out.display()), None, |_| {}).unwrap();
        assert!(received.status.pictures.is_some_and(|pictures| pictures.whole == 0));
        // Pictures are waited for, for half a second.
        let bytes = fs::metadata(&out).unwrap().len();
        assert!((340_000..500_000).contains(&bytes), "{bytes} bytes of 4.5 s of sound");
        fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn a_player_that_is_closed_ends_the_reception_and_one_that_dies_is_an_error() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("player-closed");
        let closed = show(&directory, "head -c 100000 > /dev/null", Some(Clip::H264), |_| {}).unwrap();
        assert!(
            closed.interrupted && closed.shortfall.is_none() && closed.status.played_s < SECONDS as f64 / 2.0
        );
        let died =
            show(&directory, "head -c 100000 > /dev/null; exit 3", Some(Clip::H264), |_| {}).unwrap_err();
        assert!(died.kind == ErrorKind::Failed && died.message.contains("exit status: 3"), "{died}");
        assert!(died.message.contains("player:/PATH/TO/PROGRAM"), "{died}");
        fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn what_cannot_be_played_is_refused_before_anything_comes() {
    let refused = |sink: &str, change: &dyn Fn(&mut ReceiveOptions)| {
        let mut options = ReceiveOptions { sink: sink.into(), ..ReceiveOptions::default() };
        change(&mut options);
        let error =
            receive(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("it can't be played");
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        error.message
    };
    assert!(refused("player:quicktime", &|_| {}).contains("player:/PATH/TO/PROGRAM"));
    assert!(refused("player:/nowhere/mpv", &|_| {}).contains("/nowhere/mpv does not exist"));
    let paced = |options: &mut ReceiveOptions| options.clock = antiphon::SinkClock::System;
    assert!(refused("player:/bin/cat", &paced).contains("--clock system"));
}

/// One end sends pictures, the other one shows them, and its user closes the player or not.
#[test]
fn a_player_shows_the_other_end_of_a_call() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("player-call");
        let (pictures, out) = (directory.join("pictures.mkv"), directory.join("out.mkv"));
        fs::write(&pictures, Clip::Vp8.file()).unwrap();
        for (text, closes) in
            [(format!("cat > {}", out.display()), false), ("head -c 60000 > /dev/null".into(), true)]
        {
            let port = free_port();
            let call = |target: String, sink: String| {
                let mut call = TalkOptions::default();
                (call.send.source, call.send.target) = ("tone:440Hz".into(), target);
                (call.send.length, call.receive.sink) = (Some(Duration::from_secs(2)), sink);
                call
            };
            let shown =
                call(format!("rtp://@:{port}"), format!("player:{}", player(&directory, &text).display()));
            let mut shows = call(format!("rtp://127.0.0.1:{port}"), "null:".into());
            shows.send.video.push(pictures.clone());
            let (waits, is_waiting) = mpsc::channel();
            let waiting = std::thread::spawn(move || {
                talk(&shown, &Stop::new(), &mut |sentence| drop(waits.send(sentence)), &mut |_| {})
            });
            is_waiting.recv().expect("it says that it waits");
            talk(&shows, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("a call on loopback");
            let ended = waiting.join().unwrap().expect("a call on loopback");
            assert_eq!((ended.interrupted, ended.shortfall.is_some()), (closes, false), "{closes}");
            if !closes {
                let got = frames(&out);
                assert_eq!(ended.status.received.pictures.unwrap().written, got.len() as u64);
                assert!((30..=50).contains(&got.len()), "{} of 50 pictures", got.len());
            }
        }
        fs::remove_dir_all(directory).unwrap();
    });
}

/// A stream as an ordinary player sees it: each click is heard when the picture is white.
#[test]
#[ignore = "needs ffmpeg, which scripts/install-peers installs"]
fn the_clapper_is_in_step_for_a_player() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("player-clapper");
        let out = directory.join("out.mkv");
        let received =
            show(&directory, &format!("cat > {}", out.display()), Some(Clip::H264), |_| {}).unwrap();
        assert_eq!(received.status.pictures.unwrap().broken, 0);
        // By the times in the stream: what a busy player has missed is silence.
        assert_claps_in_step(&out, &["-af", "aresample=async=1:min_hard_comp=0.02:first_pts=0"]);
        fs::remove_dir_all(directory).unwrap();
    });
}

/// ffplay itself, without a screen or a sound card: it plays to the end and is gone then.
#[test]
#[ignore = "needs ffplay, which scripts/install-peers installs with ffmpeg"]
fn ffplay_plays_to_the_end() {
    let run = "export SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy
exec $PROGRAM \"$@\" -vf showinfo -loglevel info 2> $LISTED";
    plays_to_the_end("ffplay", run);
}

/// mpv itself, likewise.
#[test]
#[ignore = "needs mpv, which scripts/install-peers installs"]
fn mpv_plays_to_the_end() {
    let run = "exec $PROGRAM \"$@\" --no-config --vo=null --ao=null --vf=lavfi=[showinfo] --log-file=$LISTED";
    plays_to_the_end("mpv", run);
}

/// Plays a clip with the program of this name, whose arguments come from ours, which knows it by its name; `run` starts it, so that it lists the
/// pictures that it shows.
fn plays_to_the_end(name: &str, run: &str) {
    let directory = scratch(&format!("player-{name}"));
    let listed = directory.join("listed");
    let folder = directory.join("bin");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join(name);
    let text = format!(
        "#!/bin/sh\nPROGRAM=$(PATH=${{PATH#{}:}} command -v {name})\nLISTED={}\n{run}\n",
        folder.display(),
        listed.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let sink = format!("player:{}", program.display());
    let received = show(&directory, "", Some(Clip::H264), |options| options.sink.clone_from(&sink)).unwrap();
    assert_eq!(received.status.pictures.unwrap().broken, 0);
    let listed = fs::read_to_string(listed).unwrap();
    let shown: Vec<&str> = listed.lines().filter(|line| line.contains("pts_time:")).collect();
    assert!(shown.len() as u64 >= 25 * (SECONDS - 1), "{} pictures shown", shown.len());
    assert!(shown[0].contains("pts_time:0 "), "the first key frame is shown: {}", shown[0]);
    fs::remove_dir_all(directory).unwrap();
}
