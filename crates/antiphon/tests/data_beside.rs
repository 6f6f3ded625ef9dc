//! Real sockets on loopback: files and lines beside sound.

#[path = "common/mod.rs"]
mod common;

use std::path::Path;
use std::time::Duration;

use antiphon::core::BitRate;
use antiphon::video::Clip;
use antiphon::{ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, send};
use antiphon_testkit::free_ports;
use common::{NOISE, free_port, listen, losing, scratch};

/// Bytes of which none is what stands some bytes before or behind it.
fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// Sends files beside two seconds of sound through what stands at the port that is returned; `change` has the last word.
fn carry(
    directory: &Path,
    scheme: &str,
    files: &[&[u8]],
    through: &dyn Fn(u16) -> u16,
    change: &dyn Fn(&mut SendOptions),
) -> (SendSummary, ReceiveSummary) {
    let (scheme, query) =
        scheme.split_once('?').map_or((scheme, String::new()), |(name, q)| (name, format!("?{q}")));
    let place = |name: &str, at: usize| directory.join(format!("{name}-{at}")).display().to_string();
    let port = free_port();
    let listening = if scheme == "tcp" { "@127.0.0.1" } else { "127.0.0.1" };
    let receiver = listen(ReceiveOptions {
        source: format!("{scheme}://{listening}:{port}{query}"),
        sink: directory.join("take.wav").display().to_string(),
        data: (0..files.len()).map(|at| place("got", at)).collect(),
        length: Some(Duration::from_secs(60)),
        ..ReceiveOptions::default()
    });
    files.iter().enumerate().for_each(|(at, bytes)| std::fs::write(place("sent", at), bytes).unwrap());
    let port = through(port);
    let mut options = SendOptions {
        source: NOISE.into(),
        target: format!("{scheme}://127.0.0.1:{port}{query}"),
        data: (0..files.len()).map(|at| place("sent", at)).collect(),
        length: Some(Duration::from_secs(2)),
        ..SendOptions::default()
    };
    change(&mut options);
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
    (sent, receiver.join().unwrap().expect("receiving ends with the stream"))
}

#[test]
fn files_come_byte_for_byte_over_each_transport() {
    std::thread::scope(|scope| {
        for scheme in [
            "rtp",
            "tcp",
            "sctp?reliability=full",
            "dccp",
            "srp",
            "arq?reliability=full",
            "xtp?reliability=full",
        ] {
            scope.spawn(move || {
                let name = scheme.split('?').next().unwrap();
                let directory = scratch(&format!("data-{name}"));
                // Over TCP nobody tells what the path carries, so that all of it would take 20 s.
                let (large, small) = (content(200_000), content(1));
                let files = [&large[..], &small, b""];
                let rate = |options: &mut SendOptions| options.data_rate = Some(BitRate(2_000_000));
                let (sent, received) = carry(&directory, scheme, &files, &|port| port, &rate);
                for (at, file) in files.into_iter().enumerate() {
                    let got = std::fs::read(directory.join(format!("got-{at}"))).unwrap();
                    assert!(got == file, "{name}: file {at} has {} bytes", got.len());
                    let (out, back) = (&sent.status.data[at], &received.status.data[at]);
                    assert_eq!((out.bytes, out.refused, out.ended), (file.len() as u64, 0, true), "{name}");
                    assert_eq!(
                        (back.bytes, back.missing, back.ended),
                        (file.len() as u64, 0, true),
                        "{name}"
                    );
                }
                assert!(sent.shortfall.is_none(), "{name}: {:?}", sent.shortfall);
                assert!(received.shortfall.is_none(), "{name}: {:?}", received.shortfall);
            });
        }
    });
}

#[test]
fn what_a_path_loses_is_told_as_holes() {
    let directory = scratch("data-holes");
    let sent = content(50_000);
    let (_, received) =
        carry(&directory, "rtp", &[&sent], &|to| losing(to, 126, |number| number % 10 == 5), &|_| {});
    let got = std::fs::read(directory.join("got-0")).unwrap();
    let data = &received.status.data[0];
    assert_eq!((got.len(), data.bytes + data.missing, data.ended), (50_000, 50_000, true));
    assert!(data.hole_count >= 8 && data.holes.len() as u64 == data.hole_count.min(16), "{data:?}");
    for hole in &data.holes {
        let (from, to) = (hole.at as usize, (hole.at + hole.bytes) as usize);
        assert!(got[from..to].iter().all(|byte| *byte == 0), "{hole:?}");
    }
    let differs = got.iter().zip(&sent).filter(|(got, sent)| got != sent).count() as u64;
    assert!(differs <= data.missing && differs * 10 > data.missing * 9, "{differs} of {}", data.missing);
    assert!(received.shortfall.is_some_and(|told| told.contains("bytes are missing")));
}

#[test]
fn a_sender_says_what_was_not_taken() {
    // A receiver that knows nothing of them lets them come, and a sender that waits too long leaves them out.
    let directory = scratch("data-deadline");
    let late = |options: &mut SendOptions| {
        (options.data_rate, options.data_deadline) =
            (Some(BitRate(16_000)), Some(Duration::from_millis(200)));
    };
    let (sent, received) = carry(&directory, "rtp", &[&content(100_000)], &|port| port, &late);
    assert!(sent.status.data[0].expired > 100, "{:?}", sent.status.data);
    assert!(sent.shortfall.is_some_and(|told| told.message.contains("--data-deadline")));
    assert_eq!(received.status.data[0].bytes, sent.status.data[0].bytes);
}

/// Sends a file over a transport of its own beside two seconds of sound over rtp, and with pictures if there are any, over the same one.
fn carry_over(
    directory: &Path,
    (sends, expects): (&str, Option<&str>),
    video: bool,
    bytes: &[u8],
) -> (SendSummary, ReceiveSummary, Vec<String>) {
    carry_each(
        directory,
        (expects.filter(|_| video), expects),
        video,
        (Some(sends).filter(|_| video), sends),
        bytes,
    )
}

/// The same with a transport each, of pictures and of data, as the receiver expects them and as the sender has them.
fn carry_each(
    directory: &Path,
    expects: (Option<&str>, Option<&str>),
    video: bool,
    sends: (Option<&str>, &str),
    bytes: &[u8],
) -> (SendSummary, ReceiveSummary, Vec<String>) {
    let place = |name: &str| directory.join(name).display().to_string();
    // For the sound, and two and four above it for pictures and data.
    let port = free_ports(6);
    let receiver = listen(ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        sink: place(if video { "film.mkv" } else { "take.wav" }),
        data: vec![place("got")],
        video_over: expects.0.map(Into::into),
        data_over: expects.1.map(Into::into),
        length: Some(Duration::from_secs(40)),
        ..ReceiveOptions::default()
    });
    std::fs::write(place("sent"), bytes).unwrap();
    let mut options = SendOptions {
        source: NOISE.into(),
        target: format!("rtp://127.0.0.1:{port}"),
        data: vec![place("sent")],
        video_over: sends.0.map(Into::into),
        data_over: Some(sends.1.into()),
        data_rate: Some(BitRate(2_000_000)),
        length: Some(Duration::from_secs(2)),
        ..SendOptions::default()
    };
    if video {
        std::fs::write(place("pictures.mkv"), Clip::H264.file()).unwrap();
        options.video = vec![directory.join("pictures.mkv")];
    }
    let mut told = Vec::new();
    let sent = send(&options, &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {});
    (
        sent.expect("sending to loopback"),
        receiver.join().unwrap().expect("receiving ends with the stream"),
        told,
    )
}

#[test]
fn each_transport_carries_data_beside_sound_over_rtp() {
    std::thread::scope(|scope| {
        for over in
            ["rtp", "tcp", "sctp?reliability=full", "srp", "arq?reliability=full", "xtp?reliability=full"]
        {
            for video in [false, true] {
                scope.spawn(move || {
                    let scheme = over.split('?').next().unwrap();
                    let directory = scratch(&format!("data-over-{scheme}-{video}"));
                    let bytes = content(100_000);
                    let (sent, received, told) = carry_over(&directory, (over, Some(over)), video, &bytes);
                    assert!(std::fs::read(directory.join("got")).unwrap() == bytes, "{over}: {told:?}");
                    let data = &sent.status.data[0];
                    assert_eq!((data.over, data.bytes, data.ended), (Some(scheme), 100_000, true), "{over}");
                    assert!(
                        sent.shortfall.is_none() && received.shortfall.is_none(),
                        "{over}: {received:?}, {told:?}"
                    );
                    let words = if video { "pictures and data" } else { "data" };
                    assert!(
                        told.iter()
                            .any(|one| one.starts_with(&format!("the receiver accepts the {words} over"))),
                        "{told:?}"
                    );
                });
            }
        }
    });
}

#[test]
fn pictures_and_data_have_a_transport_each() {
    std::thread::scope(|scope| {
        for (video, data) in [
            (Some("tcp"), "sctp?reliability=full"),
            (Some("srp"), "tcp"),
            (Some("sctp"), "sctp?reliability=full"),
            (Some("dccp"), "xtp?reliability=full"),
            // The pictures go with the sound.
            (None, "tcp"),
            (None, "arq?reliability=full"),
        ] {
            scope.spawn(move || {
                let scheme = |over: &'static str| over.split('?').next().unwrap();
                let name = format!("{}-{}", video.map_or("none", scheme), scheme(data));
                let directory = scratch(&format!("data-each-{name}"));
                let bytes = content(100_000);
                let (sent, received, told) =
                    carry_each(&directory, (video, Some(data)), true, (video, data), &bytes);
                assert!(std::fs::read(directory.join("got")).unwrap() == bytes, "{name}: {told:?}");
                assert!(sent.shortfall.is_none(), "{name}: {:?}", sent.shortfall);
                assert!(received.shortfall.is_none(), "{name}: {:?}, {told:?}", received.shortfall);
                assert_eq!(sent.status.data[0].over, Some(scheme(data)), "{name}");
                let pictures = received.status.pictures.expect("pictures were asked for");
                assert_eq!(sent.status.pictures.and_then(|sent| sent.over), video.map(scheme), "{name}");
                assert_eq!(pictures.over, video.map(scheme), "{name}");
                assert!(pictures.whole > 40 && pictures.broken == 0, "{name}: {pictures:?}");
                let accepted = |what: &str| {
                    told.iter().any(|one| one.starts_with(&format!("the receiver accepts the {what} over")))
                };
                assert!(accepted("data") && accepted("pictures") == video.is_some(), "{name}: {told:?}");
            });
        }
    });
}

#[test]
fn a_receiver_that_does_not_listen_for_them_gets_the_sound() {
    let directory = scratch("data-over-nobody");
    let (sent, received, told) = carry_over(&directory, ("tcp", None), false, &content(1_000));
    let why = sent.shortfall.map(|why| why.message);
    assert!(
        why.as_ref().is_some_and(|why| why.contains("0 bytes were sent")),
        "{why:?}, {:?}, {told:?}",
        sent.status.data
    );
    assert!(!sent.failures.is_empty() && received.status.played_s > 1.9, "{:?}", sent.failures);
    assert!(received.shortfall.is_some_and(|why| why.contains("no data came")));
}

#[test]
fn data_that_nobody_could_take_are_refused_before_anything_is_opened() {
    let directory = scratch("data-refused");
    let file = directory.join("file").display().to_string();
    std::fs::write(&file, b"x").unwrap();
    let of = |target: &str, data: &[&str]| SendOptions {
        source: NOISE.into(),
        target: target.into(),
        data: data.iter().map(|name| name.to_string()).collect(),
        ..SendOptions::default()
    };
    let here = "rtp://127.0.0.1:9";
    let plain = SendOptions { plain: true, ..of(here, &[&file]) };
    let rate = SendOptions { data_rate: Some(BitRate(1)), ..of(here, &[]) };
    let film = directory.join("film.mkv");
    std::fs::write(&film, Clip::H264.file()).unwrap();
    let taken = SendOptions {
        data_over: Some("sctp://127.0.0.1:11".into()),
        video_over: Some("srp".into()),
        video: vec![film],
        ..of(here, &[&file])
    };
    let nothing = SendOptions { data_over: Some("tcp".into()), ..of(here, &[]) };
    let grouped = SendOptions { data_over: Some("sctp".into()), ..of("rtp://239.1.2.3:5004", &[&file]) };
    let piped = SendOptions { source: "-?format=s16le".into(), ..of(here, &["-"]) };
    for (options, told) in [
        (of("rtp://:7710", &[&file]), "one receiver"),
        (grouped, "group"),
        (of(here, &["/nowhere/file"]), "/nowhere/file"),
        (of(here, &[directory.to_str().unwrap()]), "directory"),
        (of(here, &[&file[..]; 5]), "4 at most"),
        (plain, "--plain"),
        (rate, "--data-rate"),
        (taken, "the pictures have port 11"),
        (nothing, "--data-over tcp is for data"),
        (piped, "standard input"),
    ] {
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err();
        assert!(error.kind == ErrorKind::Usage && error.message.contains(told), "{}", error.message);
    }
}

/// Members that are there from the beginning have files and lines as one receiver does.
#[test]
fn each_member_of_a_group_gets_the_data() {
    let directory = scratch("data-group");
    let port = free_port();
    let place = |name: &str| directory.join(name).display().to_string();
    let members = ["one", "two"].map(|name| {
        listen(ReceiveOptions {
            source: format!("rtp://@239.61.9.40:{port}?iface=127.0.0.1"),
            sink: "null:".into(),
            data: vec![place(name)],
            length: Some(Duration::from_secs(60)),
            ..ReceiveOptions::default()
        })
    });
    let bytes = content(50_000);
    std::fs::write(place("sent"), &bytes).unwrap();
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("rtp://239.61.9.40:{port}?iface=127.0.0.1"),
        data: vec![place("sent")],
        length: Some(Duration::from_secs(3)),
        ..SendOptions::default()
    };
    let sent = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("loopback carries multicast");
    let data = &sent.status.data[0];
    assert_eq!((data.bytes, data.refused, data.ended), (50_000, 0, true), "{data:?}");
    assert!(sent.shortfall.is_none(), "{:?}", sent.shortfall);
    for (name, member) in ["one", "two"].into_iter().zip(members) {
        let received = member.join().unwrap().expect("receiving ends with the stream");
        let data = &received.status.data[0];
        assert_eq!((data.bytes, data.missing, data.ended), (50_000, 0, true), "{name}: {data:?}");
        assert!(std::fs::read(directory.join(name)).unwrap() == bytes, "{name}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
