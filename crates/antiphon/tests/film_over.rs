//! Real sockets on loopback: sound over one transport and pictures over another, into one file.

#[path = "common/mod.rs"]
mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon::{ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, receive, send};
use antiphon_testkit::{free_ports, unless_held_up};
use common::{HELD_UP, listen, scratch};

/// Length of what is sent.
const SECONDS: u64 = 3;

fn frames(mut reader: VideoReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
}

/// What is sent and what came of it.
struct Ran {
    sent: SendSummary,
    received: ReceiveSummary,
    recording: PathBuf,
    told: Vec<String>,
}

/// Sends the beginning of a clip to a recording, the pictures as `sends` says, and expects them as `expects` does.
fn record(directory: &Path, (sends, expects): (&str, Option<&str>), of: Clip) -> Ran {
    record_over(directory, (&|_| sends.into(), expects), of)
}

/// The same where `sends` gets the port at which pictures are expected.
fn record_over(directory: &Path, (sends, expects): (&dyn Fn(u16) -> String, Option<&str>), of: Clip) -> Ran {
    let (sound, pictures) = (directory.join("sound.ogg"), directory.join("pictures.mkv"));
    std::fs::write(&sound, antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
    std::fs::write(&pictures, of.file()).unwrap();
    // For the sound, and two above it for the pictures.
    let (recording, port) = (directory.join("film.mkv"), free_ports(4));
    let receiver = listen(ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        video_over: expects.map(Into::into),
        sink: recording.display().to_string(),
        length: Some(Duration::from_secs(40)),
        ..ReceiveOptions::default()
    });
    let options = SendOptions {
        source: sound.display().to_string(),
        video: vec![pictures],
        video_over: Some(sends(port + 2)),
        target: format!("rtp://127.0.0.1:{port}"),
        length: Some(Duration::from_secs(SECONDS)),
        ..SendOptions::default()
    };
    let mut told = Vec::new();
    let sent = send(&options, &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {});
    let sent = sent.expect("sending to loopback");
    let received = receiver.join().unwrap().expect("receiving ends with the stream");
    Ran { sent, received, recording, told }
}

#[test]
fn each_transport_carries_pictures_beside_sound_over_rtp() {
    unless_held_up(HELD_UP, || {
        let of = [
            ("rtp", Clip::H264),
            ("tcp", Clip::Vp8),
            ("sctp?reliability=full&streams=4", Clip::Av1),
            ("dccp", Clip::H264Slow),
            ("srp", Clip::H264),
            ("arq?reliability=full", Clip::H264Slow),
            ("xtp?reliability=full", Clip::H264),
        ];
        std::thread::scope(|scope| {
            for (over, clip) in of {
                scope.spawn(move || {
                    let scheme = over.split('?').next().unwrap();
                    let directory = scratch(&format!("over-{scheme}"));
                    let Ran { sent, received, recording, told } =
                        record(&directory, (over, Some(over)), clip);
                    let sound = Duration::from_secs(SECONDS);
                    let expected: Vec<Frame> = frames(clip.open().unwrap())
                        .into_iter()
                        .filter(|frame| frame.time.duration() < sound)
                        .collect();
                    let reader = VideoReader::open(File::open(&recording).unwrap(), OpenOptions::default());
                    let figures = (sent.status.pictures.unwrap(), received.status.pictures.unwrap());
                    let got = frames(
                        reader.unwrap_or_else(|error| panic!("{over}: {error}, {figures:?} {told:?}")),
                    );
                    assert_eq!(got.len(), expected.len(), "{over}: {figures:?} {told:?}");
                    for (got, expected) in got.iter().zip(&expected) {
                        assert!(got.data == expected.data, "{over}: a picture is not the one that was sent");
                        let (at, was) = (got.time.duration(), expected.time.duration());
                        assert!(
                            at.abs_diff(was) < Duration::from_millis(3),
                            "{over}: {at:?} and not {was:?}"
                        );
                    }
                    assert_eq!((figures.0.over, figures.1.over), (Some(scheme), Some(scheme)));
                    assert_eq!((figures.1.whole, figures.1.broken), (expected.len() as u64, 0), "{over}");
                    assert!(
                        told.iter().any(|one| one.contains("accepts the pictures over")),
                        "{over}: {told:?}"
                    );
                    assert!(
                        sent.failures.is_empty() && sent.shortfall.is_none(),
                        "{over}: {:?}",
                        sent.shortfall
                    );
                    assert!(received.shortfall.is_none(), "{over}: {:?}", received.shortfall);
                    assert_eq!(received.recording.unwrap().sample_frames, 48_000 * SECONDS, "{over}");
                    assert_eq!(received.status.lost, 0, "{over}");
                    std::fs::remove_dir_all(directory).unwrap();
                });
            }
        });
    });
}

/// Nobody listens for pictures: a connection is refused, or datagrams are.
#[test]
fn pictures_that_nobody_takes_leave_the_sound_whole() {
    unless_held_up(HELD_UP, || {
        std::thread::scope(|scope| {
            for over in ["tcp", "sctp", "rtp"] {
                scope.spawn(move || {
                    let directory = scratch(&format!("over-nobody-{over}"));
                    let Ran { sent, received, told, .. } = record(&directory, (over, None), Clip::H264Slow);
                    assert_eq!(received.recording.unwrap().sample_frames, 48_000 * SECONDS, "{over}");
                    assert_eq!((received.status.lost, received.shortfall), (0, None), "{over}");
                    let failures = &sent.failures;
                    assert!(
                        failures.len() == 1 && failures[0].contains("before the receiver accepted"),
                        "{failures:?}"
                    );
                    assert_eq!(sent.status.pictures.unwrap().packets, 0, "{over}");
                    let refused =
                        told.iter().filter(|one| one.contains("the sound goes on without pictures")).count();
                    assert!(refused == 1, "{over}: {told:?}");
                    std::fs::remove_dir_all(directory).unwrap();
                });
            }
        });
    });
}

/// Forwards connections to a port; the first one breaks after so many bytes.
fn breaking(to: u16, after: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (n, from) in listener.incoming().enumerate() {
            let (Ok(from), Ok(to)) = (from, TcpStream::connect(("127.0.0.1", to))) else { return };
            let most = if n == 0 { after } else { usize::MAX };
            for (mut from, mut to, most) in
                [(from.try_clone().unwrap(), to.try_clone().unwrap(), most), (to, from, usize::MAX)]
            {
                std::thread::spawn(move || {
                    let (mut buf, mut passed) = ([0; 1_000], 0);
                    while let Ok(len @ 1..) = from.read(&mut buf) {
                        passed += len;
                        if passed > most || to.write_all(&buf[..len]).is_err() {
                            break;
                        }
                    }
                    let _either_is_gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    port
}

#[test]
fn pictures_go_on_when_their_connection_has_broken() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("over-breaks");
        let through = |port| format!("tcp://127.0.0.1:{}", breaking(port, 15_000));
        let Ran { sent, received, told, .. } = record_over(&directory, (&through, Some("tcp")), Clip::Vp8);
        assert_eq!(received.recording.unwrap().sample_frames, 48_000 * SECONDS);
        assert_eq!(received.status.lost, 0);
        let said = |what: &str| told.iter().filter(|one| one.contains(what)).count();
        assert_eq!((said("goes on without pictures"), said("accepts the pictures")), (1, 2), "{told:?}");
        assert!(said("again") == 2 && sent.failures.is_empty(), "{told:?}");
        // What was under way is lost, and the recording says so.
        let pictures = received.status.pictures.unwrap();
        assert!(pictures.whole >= 50 && pictures.packets_missing + pictures.broken > 0, "{pictures:?}");
        assert!(received.shortfall.is_some_and(|shortfall| shortfall.contains("misses pictures")));
        std::fs::remove_dir_all(directory).unwrap();
    });
}

/// A receiver that waits for pictures over TCP, of a sender that sends them over another transport.
#[test]
fn a_recording_whose_pictures_never_come_says_so() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("over-other");
        let Ran { received, .. } = record(&directory, ("xtp", Some("tcp")), Clip::H264Slow);
        assert_eq!(received.recording.unwrap().sample_frames, 48_000 * SECONDS);
        let shortfall = received.shortfall.expect("it has no pictures");
        assert!(shortfall.contains("no pictures came over tcp://"), "{shortfall}");
        std::fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_opened() {
    let directory = scratch("over-refused");
    let pictures = directory.join("pictures.mkv");
    std::fs::write(&pictures, Clip::H264Slow.file()).unwrap();
    let plain = SendOptions {
        source: "tone:440Hz?seconds=1s".into(),
        video: vec![pictures],
        target: "rtp://127.0.0.1:7710".into(),
        ..SendOptions::default()
    };
    let over = |over: &str| SendOptions { video_over: Some(over.into()), ..plain.clone() };
    let group = "rtp://239.1.2.3:7710".to_string();
    for (options, remedy) in [
        (over("pigeon"), "pigeon"),
        (over("tcp?rate=44.1kHz"), "first URI"),
        (over("rtp://127.0.0.1:7710"), "choose another one"),
        (over("rtp://239.1.2.3:7712"), "name the host"),
        (over("tcp://:7712"), "HOST:PORT"),
        (SendOptions { video: Vec::new(), ..over("tcp") }, "--video"),
        (SendOptions { also: vec!["tcp://127.0.0.1:7711".into()], ..over("tcp") }, "omit one"),
        (SendOptions { target: group, ..over("tcp") }, "omit it"),
        (SendOptions { target: "rtp://:7710".into(), ..over("tcp") }, "--video-over is for one receiver"),
        (SendOptions { target: "rtp://127.0.0.1:65534".into(), ..over("tcp") }, "write a URI"),
        (SendOptions { target: "auto://127.0.0.1".into(), ..over("tcp") }, "rtp://HOST:PORT"),
    ] {
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("it can't be sent");
        assert!(error.kind == ErrorKind::Usage && error.message.contains(remedy), "{remedy}: {error}");
    }
    let receiving = |source: &str, sink: &str| ReceiveOptions {
        source: source.into(),
        sink: sink.into(),
        video_over: Some("tcp".into()),
        ..ReceiveOptions::default()
    };
    let film = directory.join("film.mkv").display().to_string();
    for (options, remedy) in [
        (receiving("rtp://127.0.0.1:7710", "file:take.wav"), "NAME.mkv"),
        (receiving("rtp://192.0.2.7:7710", &film), "omit --video-over"),
        (receiving("auto://:7710", &film), "rtp://:PORT"),
        (ReceiveOptions { also: vec!["sctp://:7720".into()], ..receiving("rtp://:7710", &film) }, "omit one"),
    ] {
        let error = receive(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("it is refused");
        assert!(error.kind == ErrorKind::Usage && error.message.contains(remedy), "{remedy}: {error}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
