//! Sound and pictures by an SDP file: `send --sdp` writes it, `receive FILE.sdp` reads it.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon_testkit::unless_held_up;

use crate::common::{HELD_UP_LONG, antiphon, finish, free_ports, listening, recorded, run};

fn frames(path: &Path) -> Vec<Frame> {
    let file = BufReader::new(File::open(path).expect("a recording"));
    let mut reader = VideoReader::open(file, OpenOptions::default()).expect("it has pictures");
    std::iter::from_fn(|| reader.next_frame().expect("it is whole")).collect()
}

/// An SDP file of sound that is found by its payload type, and of what is said of pictures.
fn describe(directory: &Path, sound: u16, pictures: &str) -> String {
    let path = directory.join("stream.sdp");
    let text = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {sound} RTP/AVP 10\r\n{pictures}"
    );
    std::fs::write(&path, text).expect("a temporary file");
    path.display().to_string()
}

#[test]
fn what_send_describes_is_received_by_its_file_alone() {
    unless_held_up(HELD_UP_LONG, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (film, sdp, take) = (path("film.mkv"), path("film.sdp"), path("take.mkv"));
        let clip = Clip::ALL.into_iter().find(|clip| clip.name() == "h264-100").expect("it is bundled");
        std::fs::write(&film, clip.file()).expect("a temporary file");
        let target = format!("rtp://127.0.0.1:{}", free_ports(4));
        let what =
            ["send", "tone:440Hz?rate=48kHz&channels=1&format=l16", &target, "--video", &film, "--sdp", &sdp];
        // The first run writes it, and ends as nobody is there.
        assert_eq!(run(&[&what[..], &["--seconds", "100ms"]].concat()).code, Some(4));
        let (mut receiver, said) = listening(&["receive", &sdp, &take], "for pictures");
        let sent = run(&[&what[..], &["--seconds", "3s"]].concat());
        assert_eq!(sent.code, Some(0), "{}", sent.err);
        let ended = receiver.wait().expect("it is our child");
        let said = said.join().expect("it was read");
        // The sender's SSRCs are others than those in the file, which does not bind them.
        assert!(ended.success() && !said.contains("as they arrive"), "{said}");
        let (took, gave) = (frames(Path::new(&take)), frames(Path::new(&film)));
        assert_eq!(took.len(), 75, "{said}");
        for (n, (took, gave)) in took.iter().zip(&gave).enumerate() {
            assert!(took.data == gave.data, "picture {n}");
            let error = took.time.duration().as_secs_f64() - gave.time.duration().as_secs_f64();
            assert!(error.abs() < 0.002, "picture {n}: {error} s");
        }
    });
}

/// Each member needs the file alone, and the interface where there are several.
#[test]
fn a_group_with_pictures_is_received_by_its_file() {
    unless_held_up(HELD_UP_LONG, || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (film, sdp) = (path("film.mkv"), path("film.sdp"));
        let clip = Clip::ALL.into_iter().find(|clip| clip.name() == "h264-100").expect("it is bundled");
        std::fs::write(&film, clip.file()).expect("a temporary file");
        let port = free_ports(4);
        let target = format!("rtp://239.61.9.42:{port}?iface=127.0.0.1&ttl=3");
        let tone = "tone:440Hz?rate=48kHz&channels=1&format=l16";
        let what = ["send", tone, &target, "--video", &film, "--sdp", &sdp];
        let first = run(&[&what[..], &["--seconds", "100ms"]].concat());
        assert_eq!(first.code, Some(0), "{}", first.err);
        let described = std::fs::read_to_string(&sdp).expect("it was written");
        let group = "c=IN IP4 239.61.9.42/3\r\n";
        let pictures = described.split_once("m=video").expect("pictures are in it").1;
        assert!(pictures.starts_with(&format!(" {} RTP/AVP ", port + 2)), "{described}");
        assert!(pictures.contains(group) && !pictures.contains("rtcp-fb"), "{described}");
        let takes = ["one.mkv", "two.mkv"].map(|name| {
            let take = path(name);
            let receive = ["receive", &sdp, &take, "--iface", "127.0.0.1"];
            (take.clone(), listening(&receive, "for pictures"))
        });
        let sent = run(&[&what[..], &["--seconds", "3s"]].concat());
        assert_eq!(sent.code, Some(0), "{}", sent.err);
        let gave = frames(Path::new(&film));
        for (take, (mut receiver, said)) in takes {
            let ended = receiver.wait().expect("it is our child");
            let said = said.join().expect("it was read");
            assert!(ended.success() && !said.contains("as they arrive"), "{said}");
            let took = frames(Path::new(&take));
            assert_eq!(took.len(), 75, "{said}");
            assert!(took.iter().zip(&gave).all(|(took, gave)| took.data == gave.data), "{said}");
        }
    });
}

#[test]
fn pictures_that_cannot_be_received_do_not_keep_the_sound_from_being() {
    let cases = [
        ("m=video 5006 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\n", "(H265/90000) is supported"),
        ("m=video 0 RTP/AVP 26\r\n", "port 0 means that the stream is refused"),
        ("m=video 5006 RTP/AVP 96\r\na=rtpmap:96 H264/4294967296000\r\n", "is supported"),
    ];
    for (pictures, told) in cases {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let take = directory.path().join("take.wav");
        let port = free_ports(1);
        let sdp = describe(directory.path(), port, pictures);
        let (mut receiver, said) = listening(&["receive", &sdp, &take.display().to_string()], "listening on");
        let target = format!("rtp://127.0.0.1:{port}");
        let mut send = antiphon();
        send.args(["send", "tone:440Hz?rate=44100Hz&channels=2&format=l16", &target, "--seconds", "500ms"]);
        let sent = finish(&mut send);
        assert_eq!(sent.code, Some(0), "{}", sent.err);
        assert!(receiver.wait().expect("it is our child").success());
        let said = said.join().expect("it was read");
        assert!(said.contains("pictures are not received") && said.contains(told), "{said}");
        assert_eq!(recorded(&take).len(), 22_050 * 4);
    }
}

#[test]
fn pictures_that_never_come_are_missed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let take = directory.path().join("take.mkv").display().to_string();
    let port = free_ports(4);
    let pictures = format!("m=video {} RTP/AVP 26\r\n", port + 2);
    let sdp = describe(directory.path(), port, &pictures);
    let (mut receiver, said) = listening(&["receive", &sdp, &take], "for pictures");
    let target = format!("rtp://127.0.0.1:{port}");
    let tone = "tone:440Hz?rate=44100Hz&channels=2&format=l16";
    assert_eq!(run(&["send", tone, &target, "--seconds", "500ms"]).code, Some(0));
    assert_eq!(receiver.wait().expect("it is our child").code(), Some(1));
    let said = said.join().expect("it was read");
    assert!(said.contains(&format!("no pictures came to rtp://127.0.0.1:{}", port + 2)), "{said}");
}

#[test]
fn descriptions_that_cannot_be_kept_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (film, sdp) = (path("film.mkv"), path("film.sdp"));
    std::fs::write(&film, Clip::ALL[0].file()).expect("a temporary file");
    let send = |target: &str, more: &[&str]| {
        run(&[&["send", "tone:440Hz", target, "--video", &film, "--sdp", &sdp], more].concat())
    };
    for (target, more) in [
        ("rtp://127.0.0.1:5004", &["--video-over", "tcp"][..]),
        ("tcp://127.0.0.1:5004", &[]),
        ("rtp://@127.0.0.1:5004", &[]),
        ("rtp://239.1.2.3:5004", &["--video-over", "rtp://127.0.0.1:5006"]),
        ("rtp://127.0.0.1:5004", &["--video-over", "rtp://239.1.2.3:5006"]),
    ] {
        let ran = send(target, more);
        assert_eq!(ran.code, Some(2), "{target} {more:?}: {}", ran.err);
    }
    // One port for both.
    let both = describe(directory.path(), 5004, "m=video 5004 RTP/AVP 26\r\n");
    let ran = run(&["receive", &both, "take.mkv"]);
    assert!(ran.code == Some(2) && ran.err.contains("the sound's port 5004"), "{}", ran.err);
    let ran = run(&["receive", &path("absent.sdp"), "take.mkv"]);
    assert!(ran.code == Some(2) && ran.err.contains("absent.sdp"), "{}", ran.err);
}

/// What the file tells is not overridden in silence.
#[test]
fn a_file_that_tells_the_format_goes_with_no_other_word_on_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sdp = describe(directory.path(), 7710, "");
    for more in [["--sdp", sdp.as_str()], ["--format", "l24/48000/2"]] {
        let ended = run(&[&["receive", &sdp, "null:"][..], &more].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains("omit --sdp and --format"), "{}", ended.err);
    }
    let missing = directory.path().join("missing.sdp").display().to_string();
    let ended = run(&["receive", &missing, "null:"]);
    assert!(ended.code == Some(2) && ended.err.contains(&missing), "{}", ended.err);
    assert!(!ended.err.contains(&format!("--sdp {missing}")), "as it was given: {}", ended.err);
}

/// What comes through a pipe comes at another program's pace, and its time stamps can't promise those of a PTP clock.
#[test]
fn a_pipe_promises_no_ptp_clock() {
    let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x80\xbb\0\0\0\x77\x01\0\x02\0\x10\0data\xff\xff\xff\xff".to_vec();
    wav.resize(wav.len() + 9_600, 0);
    let mut command = antiphon();
    command.args(["send", "-", "rtp://127.0.0.1:9", "--ptp", "traceable"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // It may end before it has read all of it.
    let _whatever_was_read = child.stdin.take().expect("piped").write_all(&wav);
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        ended.status.code() == Some(2) && said.contains("--ptp: - comes as another program gives it"),
        "{said}"
    );
}

/// Sound and pictures can be tried without a file.
#[test]
fn the_bundled_clip_is_sent_by_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let take = directory.path().join("take.mkv");
    let listen = format!("tcp://127.0.0.1:{}", free_ports(1));
    let (mut receiver, said) = listening(&["receive", &listen, &take.display().to_string()], "listening on");
    let sent = run(&["send", "clip:clapper", &listen, "--video", "clip:vp8-100", "--seconds", "2s"]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    let ended = receiver.wait().expect("it ends");
    let said = said.join().expect("it is read");
    assert_eq!(ended.code(), Some(0), "{said}");
    let mut clip = Clip::Vp8.open().expect("it is bundled");
    let took = frames(&take);
    assert!(took.len() >= 49, "{} of 50 pictures: {said}", took.len());
    for frame in &took {
        let wanted = clip.next_frame().expect("it is whole").expect("it is longer");
        assert_eq!(frame.data, wanted.data);
    }
}
