//! Real sockets on loopback: sound and pictures into one file, each picture at its place.

#[path = "common/mod.rs"]
mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::session::LongGaps;
use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon::{
    ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, TalkOptions, TalkSummary,
    receive, send, talk,
};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, assert_claps_in_step, free_port, listen, losing, scratch};

/// Length of what is sent.
const SECONDS: u64 = 5;

/// The clip's sound and pictures as files.
fn clip(directory: &Path, clip: Clip) -> (PathBuf, PathBuf) {
    let (sound, pictures) = (directory.join("sound.ogg"), directory.join("pictures.mkv"));
    std::fs::write(&sound, antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
    std::fs::write(&pictures, clip.file()).unwrap();
    (sound, pictures)
}

fn frames(mut reader: VideoReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
}

fn film(path: &Path) -> Vec<Frame> {
    frames(VideoReader::open(File::open(path).unwrap(), OpenOptions::default()).unwrap())
}

/// Sends the beginning of a clip, and records it.
fn record(directory: &Path, scheme: &str, query: &str, of: Clip) -> (SendSummary, ReceiveSummary, PathBuf) {
    record_through(directory, (scheme, query), of, &|port| port)
}

/// The same through what stands at the port that is returned.
fn record_through(
    directory: &Path,
    (scheme, query): (&str, &str),
    of: Clip,
    through: &dyn Fn(u16) -> u16,
) -> (SendSummary, ReceiveSummary, PathBuf) {
    let (sound, pictures) = clip(directory, of);
    let (recording, port) = (directory.join("film.mkv"), free_port());
    let listening = if scheme == "tcp" { "@127.0.0.1" } else { "127.0.0.1" };
    let receiver = listen(ReceiveOptions {
        source: format!("{scheme}://{listening}:{port}{query}"),
        sink: recording.display().to_string(),
        length: Some(Duration::from_secs(60)),
        ..ReceiveOptions::default()
    });
    let port = through(port);
    let options = SendOptions {
        source: sound.display().to_string(),
        video: vec![pictures],
        target: format!("{scheme}://127.0.0.1:{port}{query}"),
        length: Some(Duration::from_secs(SECONDS)),
        ..SendOptions::default()
    };
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
    (sent, receiver.join().unwrap().expect("receiving ends with the stream"), recording)
}

#[test]
fn a_film_has_every_picture_at_its_place_over_each_transport() {
    unless_held_up(HELD_UP, || {
        let of = [("rtp", "", Clip::H264), ("tcp", "", Clip::Vp8), ("sctp", "?reliability=full", Clip::Av1)];
        let of =
            of.into_iter().chain([("srp", "", Clip::H264Slow), ("xtp", "?reliability=full", Clip::H264)]);
        std::thread::scope(|scope| {
            for (scheme, query, clip) in of {
                scope.spawn(move || {
                    let directory = scratch(&format!("film-{scheme}"));
                    let (sent, received, recording) = record(&directory, scheme, query, clip);
                    let sound = Duration::from_secs(SECONDS);
                    let expected: Vec<Frame> = frames(clip.open().unwrap())
                        .into_iter()
                        .filter(|frame| frame.time.duration() < sound)
                        .collect();
                    let got = film(&recording);
                    assert_eq!(
                        got.len(),
                        expected.len(),
                        "{scheme}: {:?} {:?}",
                        sent.status.pictures,
                        received.status.pictures
                    );
                    for (got, expected) in got.iter().zip(&expected) {
                        assert!(
                            got.data == expected.data,
                            "{scheme}: a picture is not the one that was sent"
                        );
                        let (at, was) = (got.time.duration(), expected.time.duration());
                        assert!(
                            at.abs_diff(was) < Duration::from_millis(3),
                            "{scheme}: {at:?} and not {was:?}"
                        );
                    }
                    let pictures = received.status.pictures.unwrap();
                    assert_eq!((pictures.whole, pictures.broken), (expected.len() as u64, 0), "{scheme}");
                    assert_eq!(pictures.written, pictures.whole, "{scheme}");
                    assert_eq!(received.recording.unwrap().sample_frames, 48_000 * SECONDS, "{scheme}");
                    std::fs::remove_dir_all(directory).unwrap();
                });
            }
        });
    });
}

/// One end of a call with pictures; told when it is ready.
fn talks(
    directory: &Path,
    (of, target): (Clip, String),
    ready: Option<mpsc::Sender<()>>,
) -> JoinHandle<(TalkSummary, PathBuf)> {
    let (sound, pictures) = clip(directory, of);
    let recording = directory.join("peer.mkv");
    let options = TalkOptions {
        send: SendOptions {
            source: sound.display().to_string(),
            video: vec![pictures],
            target,
            length: Some(Duration::from_secs(2)),
            ..SendOptions::default()
        },
        receive: ReceiveOptions { sink: recording.display().to_string(), ..ReceiveOptions::default() },
        ..TalkOptions::default()
    };
    std::thread::spawn(move || {
        let mut notice = |_| {
            let _nobody_waits_any_more = ready.as_ref().map(|ready| ready.send(()));
        };
        (talk(&options, &Stop::new(), &mut notice, &mut |_| {}).expect("a call on loopback"), recording)
    })
}

/// Each hears and sees the other; the first to leave ends the call, so the last pictures of either may be missing.
#[test]
fn either_end_of_a_call_has_the_others_pictures() {
    unless_held_up(HELD_UP, || {
        for scheme in ["rtp", "tcp"] {
            let [here, there] = ["here", "there"].map(|end| scratch(&format!("film-call-{scheme}-{end}")));
            let (port, (ready, is_ready)) = (free_port(), mpsc::channel());
            let waiting = talks(&there, (Clip::Vp8, format!("{scheme}://@:{port}")), Some(ready));
            is_ready.recv().expect("it says that it waits");
            let calling = talks(&here, (Clip::H264, format!("{scheme}://127.0.0.1:{port}")), None);
            for (end, sent) in [(waiting, Clip::H264), (calling, Clip::Vp8)] {
                let (summary, recording) = end.join().unwrap();
                assert_eq!(summary.shortfall.map(|why| why.message), None, "{scheme}");
                let sent = frames(sent.open().unwrap());
                let reader = VideoReader::open(File::open(&recording).unwrap(), OpenOptions::default());
                let got =
                    frames(reader.unwrap_or_else(|error| panic!("{scheme}: {error}: {:#?}", summary.status)));
                assert!(
                    got.len() >= 40,
                    "{scheme}: {} of 50 pictures, {:?}",
                    got.len(),
                    summary.status.received.pictures
                );
                let shift = got[0].time.duration();
                for (got, sent) in got.iter().zip(&sent) {
                    assert!(got.data == sent.data, "{scheme}: a picture is not the one that was sent");
                    let (at, was) = (got.time.duration(), sent.time.duration() + shift);
                    assert!(at.abs_diff(was) < Duration::from_millis(3), "{scheme}: {at:?} and not {was:?}");
                }
            }
            [here, there].into_iter().for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
        }
    });
}

#[test]
fn a_film_that_misses_pictures_says_so_and_is_no_success() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("film-lossy");
        let (_, received, recording) = record_through(&directory, ("rtp", ""), Clip::H264Slow, &|to| {
            losing(to, 127, |number| number % 100 == 0)
        });
        let pictures = received.status.pictures.unwrap();
        assert!(pictures.broken > 0 && pictures.packets_missing > 0, "{pictures:?}");
        assert_eq!(film(&recording).len() as u64, pictures.written);
        // The sound is whole.
        assert_eq!(received.status.lost, 0);
        let shortfall = received.shortfall.expect("it is told");
        assert!(shortfall.contains("film.mkv") && shortfall.contains("pictures"), "{shortfall}");
        std::fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn what_is_no_video_is_refused_before_anything_is_sent() {
    let directory = scratch("no-video");
    let path = directory.join("text.mp4");
    std::fs::write(&path, "this is no video").unwrap();
    let refused = |video: PathBuf, change: &dyn Fn(&mut SendOptions)| {
        let mut options = SendOptions {
            source: "tone:440Hz?seconds=1s".into(),
            video: vec![video],
            target: format!("rtp://127.0.0.1:{}", free_port()),
            ..SendOptions::default()
        };
        change(&mut options);
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("it can't be sent");
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        error.to_string()
    };
    assert!(refused(path.clone(), &|_| {}).contains("no video file of a known kind"));
    assert!(refused(directory.join("absent.mkv"), &|_| {}).contains("absent.mkv"));
    let (_, pictures) = clip(&directory, Clip::Vp8);
    assert!(refused(pictures.clone(), &|options| options.plain = true).contains("--plain"));
    // SDP describes plain RTP.
    let with_sdp = |options: &mut SendOptions| {
        options.sdp = Some(directory.join("x.sdp"));
        options.target = options.target.replace("rtp://", "tcp://");
    };
    assert!(refused(pictures, &with_sdp).contains("--sdp"));
    let cut = ReceiveOptions {
        sink: directory.join("film.mkv").display().to_string(),
        gaps: LongGaps::Cut,
        ..ReceiveOptions::default()
    };
    let error = receive(&cut, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("places would shift");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("--gaps cut"), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// A file that turns out to be broken while it is sent: what is whole of it arrives, the sound goes on, and a sentence says why.
#[test]
fn a_file_that_breaks_off_leaves_the_sound_whole() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("breaks-off");
        let (sound, pictures) = clip(&directory, Clip::H264);
        // Somewhat more than a second of it.
        std::fs::write(&pictures, &Clip::H264.file()[..20_000]).unwrap();
        let port = free_port();
        let receiver = listen(ReceiveOptions {
            source: format!("rtp://127.0.0.1:{port}"),
            sink: directory.join("film.mkv").display().to_string(),
            length: Some(Duration::from_secs(60)),
            ..ReceiveOptions::default()
        });
        let options = SendOptions {
            source: sound.display().to_string(),
            video: vec![pictures],
            target: format!("rtp://127.0.0.1:{port}"),
            length: Some(Duration::from_secs(4)),
            ..SendOptions::default()
        };
        let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
        let received = receiver.join().unwrap().expect("receiving ends with the stream");
        let told = |part: &str| sent.notes.iter().any(|note| note.contains(part));
        assert!(told("pictures.mkv"), "{:?}", sent.notes);
        let recording = received.recording.expect("a recording");
        assert_eq!((recording.sample_frames, recording.missing_sample_frames), (4 * 48_000, 0));
        let (out, back) = (sent.status.pictures.expect("some"), received.status.pictures.expect("some"));
        assert!((20..60).contains(&out.sent) && back.whole == out.sent, "{out:?}, {back:?}");
        std::fs::remove_dir_all(directory).unwrap();
    });
}

/// In the file as an ordinary player sees it, each click is heard when the picture is white.
#[test]
#[ignore = "needs ffmpeg, which scripts/install-peers installs"]
fn the_clapper_is_in_step_for_ffmpeg() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("clapper");
        let (_, _, recording) = record(&directory, "rtp", "", Clip::H264);
        assert_claps_in_step(&recording, &[]);
        std::fs::remove_dir_all(directory).unwrap();
    });
}
