//! Real sockets on loopback: several tracks of pictures beside one sound, each into a file of its own with the sound.

#[path = "common/mod.rs"]
mod common;

use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use antiphon::media::rtcp::{ArrivalReportWriter, PacketArrival};
use antiphon::video::{Clip, Frame, OpenOptions, VideoReader};
use antiphon::{
    Error, ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, receive, send,
};
use antiphon_testkit::{free_ports, unless_held_up};
use common::{HELD_UP, assert_claps_in_step, listen, scratch};

/// Length of what is sent.
const SECONDS: u64 = 4;
/// What is sent: each of another codec or rate.
const TRACKS: [Clip; 3] = [Clip::H264, Clip::Vp8, Clip::H264Slow];

fn frames(mut reader: VideoReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame().expect("a good file")).collect()
}

fn film(path: &Path) -> Vec<Frame> {
    frames(VideoReader::open(File::open(path).unwrap(), OpenOptions::default()).unwrap())
}

fn place(directory: &Path, name: &str, track: usize) -> PathBuf {
    directory.join(format!("{name}-{track}.mkv"))
}

/// Sends the tracks to a receiver of so many; `change` has the last word on both ends.
fn carry(
    directory: &Path,
    scheme: &str,
    receives: usize,
    change: &dyn Fn(&mut SendOptions, &mut ReceiveOptions),
) -> (SendSummary, ReceiveSummary) {
    let (scheme, query) =
        scheme.split_once('?').map_or((scheme, String::new()), |(name, q)| (name, format!("?{q}")));
    let sound = directory.join("sound.ogg");
    std::fs::write(&sound, antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
    for (track, clip) in TRACKS.iter().enumerate() {
        std::fs::write(place(directory, "sent", track), clip.file()).unwrap();
    }
    let port = free_ports(4);
    let listening = if scheme == "tcp" { "@127.0.0.1" } else { "127.0.0.1" };
    let mut into = ReceiveOptions {
        source: format!("{scheme}://{listening}:{port}{query}"),
        sink: place(directory, "got", 0).display().to_string(),
        video_tracks: (1..receives)
            .map(|track| place(directory, "got", track).display().to_string())
            .collect(),
        length: Some(Duration::from_secs(60)),
        ..ReceiveOptions::default()
    };
    let mut options = SendOptions {
        source: sound.display().to_string(),
        video: vec![place(directory, "sent", 0)],
        video_tracks: (1..TRACKS.len()).map(|track| vec![place(directory, "sent", track)]).collect(),
        target: format!("{scheme}://127.0.0.1:{port}{query}"),
        length: Some(Duration::from_secs(SECONDS)),
        ..SendOptions::default()
    };
    change(&mut options, &mut into);
    let receiver = listen(into);
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
    (sent, receiver.join().unwrap().expect("receiving ends with the stream"))
}

fn assert_whole(directory: &Path, name: &str, track: usize) -> u64 {
    let (clip, sound) = (TRACKS[track], Duration::from_secs(SECONDS));
    let before_end = |frame: &Frame| frame.time.duration() < sound;
    let expected: Vec<Frame> = frames(clip.open().unwrap()).into_iter().filter(before_end).collect();
    let got = film(&place(directory, "got", track));
    assert_eq!(got.len(), expected.len(), "{name}, track {track}");
    for (got, expected) in got.iter().zip(&expected) {
        assert!(got.data == expected.data, "{name}, track {track}: not the picture that was sent");
        let (at, was) = (got.time.duration(), expected.time.duration());
        assert!(at.abs_diff(was) < Duration::from_millis(3), "{name}, track {track}: {at:?}, not {was:?}");
    }
    expected.len() as u64
}

#[test]
fn each_track_is_whole_in_a_file_of_its_own_over_each_transport() {
    unless_held_up(HELD_UP, || {
        std::thread::scope(|scope| {
            for scheme in ["rtp", "tcp", "sctp?reliability=full", "srp", "xtp?reliability=full"] {
                scope.spawn(move || {
                    let directory = scratch(&format!("tracks-{}", scheme.split('?').next().unwrap()));
                    let (sent, received) = carry(&directory, scheme, 3, &|_, _| {});
                    let counts = [0, 1, 2].map(|track| assert_whole(&directory, scheme, track));
                    let further = |at: usize| received.status.further_pictures[at].pictures.whole;
                    let whole = [received.status.pictures.unwrap().whole, further(0), further(1)];
                    assert_eq!(whole, counts, "{scheme}: {:?}", received.status);
                    assert_eq!(sent.status.further_pictures.len(), 2, "{scheme}");
                    let named: Vec<&str> =
                        received.status.further_pictures.iter().map(|one| &one.file[..]).collect();
                    assert!(named[0].ends_with("got-1.mkv") && named[1].ends_with("got-2.mkv"), "{named:?}");
                    assert!(received.shortfall.is_none(), "{scheme}: {:?}", received.shortfall);
                    std::fs::remove_dir_all(directory).unwrap();
                });
            }
        });
    });
}

/// An ordinary player plays each file, with its sound in step.
#[test]
#[ignore = "needs ffmpeg, which scripts/install-peers installs"]
fn the_clapper_of_each_track_is_in_step_for_ffmpeg() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("tracks-clapper");
        carry(&directory, "rtp", 3, &|_, _| {});
        // The third has so few pictures that a white one stands for longer than its click.
        for track in 0..2 {
            assert_claps_in_step(&place(&directory, "got", track), &[]);
        }
    });
}

#[test]
fn all_tracks_go_over_the_transport_that_pictures_have() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("tracks-over");
        let over = |send: &mut SendOptions, receive: &mut ReceiveOptions| {
            (send.video_over, receive.video_over) = (Some("srp".into()), Some("srp".into()));
        };
        let (sent, received) = carry(&directory, "rtp", 3, &over);
        for track in 0..3 {
            assert_whole(&directory, "over srp", track);
        }
        let over = [sent.status.further_pictures[1].over, received.status.further_pictures[1].pictures.over];
        assert_eq!(over, [Some("srp"); 2]);
    });
}

#[test]
fn a_receiver_of_fewer_or_more_tracks_says_what_is_missing() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("tracks-fewer");
        let (_, received) = carry(&directory, "rtp", 1, &|_, _| {});
        assert_whole(&directory, "one of three", 0);
        assert!(received.shortfall.is_none() && received.status.further_pictures.is_empty());
        let directory = scratch("tracks-more");
        let one = |send: &mut SendOptions, _: &mut ReceiveOptions| send.video_tracks.truncate(1);
        let (_, received) = carry(&directory, "rtp", 3, &one);
        assert_whole(&directory, "two of three", 1);
        let told = received.shortfall.expect("one is missing");
        assert!(told.contains("got-2.mkv") && told.contains("--video-track"), "{told}");
    });
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_opened() {
    let directory = scratch("tracks-refused");
    let file = directory.join("one.mkv");
    std::fs::write(&file, Clip::H264.file()).unwrap();
    let other = directory.join("other.mkv");
    std::fs::write(&other, Clip::Vp8.file()).unwrap();
    let of = |video: &[&PathBuf], tracks: Vec<Vec<PathBuf>>| SendOptions {
        source: common::NOISE.into(),
        target: "rtp://127.0.0.1:9".into(),
        video: video.iter().map(|path| path.to_path_buf()).collect(),
        video_tracks: tracks,
        ..SendOptions::default()
    };
    let refused = |error: Error, told: &str| {
        assert!(error.kind == ErrorKind::Usage && error.message.contains(told), "{}", error.message);
    };
    let one = || vec![file.clone()];
    for (options, told) in [
        (of(&[], vec![one()]), "with --video"),
        (of(&[&file], vec![one(), one(), one(), one()]), "4 tracks of pictures at most"),
        (of(&[&file], vec![vec![directory.join("none.mkv")]]), "none.mkv"),
        (of(&[&file], vec![vec![file.clone(), other]]), "one codec"),
        (SendOptions { sdp: Some(directory.join("x.sdp")), ..of(&[&file], vec![one()]) }, "--sdp"),
    ] {
        refused(send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err(), told);
    }
    let into = |sink: &str, tracks: &[&str]| ReceiveOptions {
        source: "rtp://127.0.0.1:7710".into(),
        sink: sink.into(),
        video_tracks: tracks.iter().map(|name| name.to_string()).collect(),
        ..ReceiveOptions::default()
    };
    for (options, told) in [
        (into("null:", &["b.mkv"]), "NAME.mkv"),
        (into("player:", &["b.mkv"]), "NAME.mkv"),
        (into("a.mkv", &["b.wav"]), "b.wav"),
        (into("a.mkv", &["b.mkv", "c.mkv", "d.mkv", "e.mkv"]), "3 further ones at most"),
    ] {
        refused(receive(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err(), told);
    }
}

/// The members of a group tell when packets arrive: the sender knows what the slowest of their paths takes.
#[test]
fn a_group_has_all_tracks_and_its_sender_knows_their_paths() {
    unless_held_up(HELD_UP, || {
        let directory = scratch("tracks-group");
        let port = free_ports(4);
        let place = |name: &str, track| place(&directory, name, track).display().to_string();
        let members = ["one", "two"].map(|name| {
            listen(ReceiveOptions {
                source: format!("rtp://@239.61.9.30:{port}?iface=127.0.0.1"),
                sink: place(name, 0),
                video_tracks: vec![place(name, 1)],
                length: Some(Duration::from_secs(60)),
                ..ReceiveOptions::default()
            })
        });
        std::fs::write(directory.join("sound.ogg"), antiphon::sound::Clip::Clapper.bytes(48_000)).unwrap();
        for (track, clip) in TRACKS.iter().enumerate().take(2) {
            std::fs::write(place("sent", track), clip.file()).unwrap();
        }
        let options = SendOptions {
            source: directory.join("sound.ogg").display().to_string(),
            video: vec![place("sent", 0).into()],
            video_tracks: vec![vec![place("sent", 1).into()]],
            target: format!("rtp://239.61.9.30:{port}?iface=127.0.0.1"),
            length: Some(Duration::from_secs(SECONDS)),
            ..SendOptions::default()
        };
        let mut known = false;
        let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |status| {
            known |= status.pictures.is_some_and(|pictures| pictures.path_kbit_per_s.is_some());
        });
        let sent = sent.expect("sending to a group on loopback");
        assert!(known, "{:?}", sent.status.pictures);
        for member in members {
            let received = member.join().unwrap().expect("receiving ends with the stream");
            let further = &received.status.further_pictures[0].pictures;
            let pictures = received.status.pictures.expect("pictures were asked for");
            assert_eq!((pictures.whole, pictures.broken), (25 * SECONDS, 0), "{:?}", received.shortfall);
            assert_eq!((further.whole, further.broken), (25 * SECONDS, 0), "{:?}", received.shortfall);
        }
    });
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 61, 9, 41);

/// A member that tells of packets that were not sent, on a socket of this test.
#[test]
fn a_member_that_sends_false_reports_is_named() {
    let directory = scratch("false-reports");
    let pictures = directory.join("pictures.mkv");
    std::fs::write(&pictures, Clip::H264.file()).unwrap();
    let member = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    member.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST).expect("loopback carries multicast");
    member.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket option");
    let port = member.local_addr().expect("bound").port();
    let lies = std::thread::spawn(move || {
        let (mut buf, mut report) = ([0; 2_048], [0; 100]);
        for _ in 0..100 {
            let (len, sender) = member.recv_from(&mut buf).expect("a stream to the group");
            let packet = &buf[..len];
            let is_rtcp = (192..=223).contains(&packet[1]);
            if is_rtcp {
                continue;
            }
            let number = u16::from_be_bytes([packet[2], packet[3]]);
            let ssrc = u32::from_be_bytes(packet[8..12].try_into().expect("four bytes"));
            let mut writer = ArrivalReportWriter::new(7, &mut report).expect("room");
            let ahead = number.wrapping_add(1_000);
            writer.stream(ssrc, ahead, std::iter::once(PacketArrival::Arrived(Some(Duration::ZERO))));
            let len = writer.finish(0);
            member.send_to(&report[..len], sender).expect("loopback");
        }
    });
    let options = SendOptions {
        source: "tone:440Hz?channels=1&format=l16".into(),
        video: vec![pictures],
        target: format!("rtp://{GROUP}:{port}?iface=127.0.0.1"),
        length: Some(Duration::from_secs(3)),
        ..SendOptions::default()
    };
    let mut told = Vec::new();
    let sent = send(&options, &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {});
    let sent = sent.expect("sending to a group on loopback");
    lies.join().expect("it got 100 packets");
    let named = told.iter().filter(|one| one.contains("a member of the group sends false reports")).count();
    assert_eq!(named, 1, "{told:?}");
    // It holds up nobody.
    let pictures = sent.status.pictures.expect("pictures are sent");
    assert!(pictures.sent >= 60, "{pictures:?}");
    std::fs::remove_dir_all(directory).unwrap();
}
