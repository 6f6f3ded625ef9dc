//! A stream that is announced is found, and received as it was announced.

#[path = "common/mod.rs"]
mod common;

use std::time::Duration;

use antiphon::media::StreamDescription;
use antiphon::media::sap::{Announcement, SAP_PORT};
use antiphon::net::netns::Namespace;
use antiphon::net::{GroupSocket, Multicast, SocketOptions};
use antiphon::video::{Clip, VideoDescription};
use antiphon::{
    Announce, Announced, AnnouncedStream, ErrorKind, FoundPeer, PeerRole, ReceiveOptions, ReflectOptions,
    SendOptions, Stop, hear_announcements, receive, reflect, send,
};
use antiphon_testkit::skip_without_namespace;
use common::scratch;

fn options(target: &str, seconds: u64) -> SendOptions {
    let group = antiphon::ANNOUNCEMENT_GROUPS[0];
    SendOptions {
        source: "tone:440Hz".into(),
        target: target.into(),
        length: Some(Duration::from_secs(seconds)),
        announce: Some(Announce { group, name: "Stage left".into() }),
        ..SendOptions::default()
    }
}

/// The port of announcements is given, so this is done in a network of its own.
#[test]
fn a_stream_to_a_group_is_found_under_its_name() {
    let namespace = match Namespace::private() {
        Ok(namespace) => namespace,
        Err(error) => return skip_without_namespace(&error),
    };
    let found = namespace.run(|| {
        let (stop, stop_sending) = (Stop::new(), Stop::new());
        let mut found: Option<AnnouncedStream> = None;
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                let target = "rtp://239.1.2.3:5004?iface=lo";
                let sent = send(&options(target, 600), &stop_sending, &mut |_| {}, &mut |_| {});
                sent.expect("it sends until it is stopped");
            });
            let heard = hear_announcements(Duration::from_secs(60), Some("lo"), &stop, &mut |stream| {
                let Announced::Stream(stream) = stream else { return };
                found = Some(stream.clone());
                stop.ask();
                stop_sending.ask();
            });
            stop_sending.ask();
            heard
        });
        (heard, found)
    });
    let (heard, found) = found.expect("a namespace");
    heard.expect("it hears");
    let found = found.expect("a stream within a minute");
    assert_eq!((found.name.as_str(), found.uri().as_deref()), ("Stage left", Some("rtp://@239.1.2.3:5004")));
    let described = &found.description;
    assert_eq!(
        (described.coding.name(), described.format.rate(), described.format.channels()),
        ("l16", 48_000, 2)
    );
}

/// Of a namespace of a test's own.
fn interface() -> SocketOptions {
    let multicast = Multicast { interface: Some("lo".into()), ..Multicast::default() };
    SocketOptions { multicast, ..SocketOptions::default() }
}

/// The description that the next announcement holds.
fn announced_description(socket: &GroupSocket) -> String {
    let mut room = vec![0; 4096];
    let heard = socket.receive(&mut room, Duration::from_secs(60)).expect("a socket on loopback");
    let (len, _) = heard.expect("an announcement within a minute");
    let description = Announcement::read(&room[..len]).expect("an announcement").description;
    String::from_utf8(description.into()).expect("text")
}

/// Sound and pictures are announced together; who has the announcement as a file receives both, and joins in the middle.
#[test]
fn pictures_beside_the_sound_are_announced_too() {
    let namespace = match Namespace::private() {
        Ok(namespace) => namespace,
        Err(error) => return skip_without_namespace(&error),
    };
    let directory = scratch("announced-pictures");
    let file = |name: &str| directory.join(name);
    std::fs::write(file("film.mkv"), Clip::H264.file()).unwrap();
    let sending = SendOptions {
        video: vec![file("film.mkv")],
        sdp: Some(file("sent.sdp")),
        ..options("rtp://239.1.2.3:5004?iface=lo", 600)
    };
    let receiving = |described: &str| ReceiveOptions {
        source: "rtp://@239.1.2.3:5004".into(),
        sink: file("took.mkv").display().to_string(),
        description: Some(StreamDescription::from_sdp(described.as_bytes()).expect("sound")),
        pictures: Some(VideoDescription::from_sdp(described.as_bytes())),
        length: Some(Duration::from_secs(5)),
        socket: interface(),
        ..ReceiveOptions::default()
    };
    let (described, received) = namespace
        .run(|| {
            let socket = GroupSocket::hearing(&antiphon::ANNOUNCEMENT_GROUPS, SAP_PORT, &interface());
            let (socket, stop) = (socket.expect("a socket on loopback"), Stop::new());
            std::thread::scope(|scope| {
                let sender = scope.spawn(|| send(&sending, &stop, &mut |_| {}, &mut |_| {}));
                let described = announced_description(&socket);
                let received = receive(&receiving(&described), &Stop::new(), &mut |_| {}, &mut |_| {});
                stop.ask();
                sender.join().unwrap().expect("it sends until it is stopped");
                (described, received)
            })
        })
        .expect("a namespace");
    let sent = std::fs::read_to_string(file("sent.sdp")).unwrap();
    let of = |sdp: &str, media: &str| sdp.split_once(media).map(|(_, rest)| rest.to_string());
    assert!(of(&described, "m=video 5006 RTP/AVP ").is_some(), "{described}");
    assert_eq!(of(&described, "m=audio"), of(&sent, "m=audio"), "the file and the announcement differ");
    let pictures = received.expect("it is received").status.pictures.expect("pictures came");
    // 125 were sent meanwhile; up to 50 of them before the first key frame.
    assert!(pictures.whole >= 70, "{} whole pictures", pictures.whole);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_goes_to_one_receiver_is_not_announced() {
    for target in ["rtp://127.0.0.1:9", "xtp://239.1.2.3"] {
        let error = send(&options(target, 1), &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err(target);
        assert!(error.kind == ErrorKind::Usage && error.message.contains("rtp://239.1.2.3:5004"), "{error}");
    }
}

/// Multicast DNS has one port, so this is done in a network of its own.
#[test]
fn programs_that_wait_are_found_with_what_to_type() {
    let namespace = match Namespace::private() {
        Ok(namespace) => namespace,
        Err(error) => return skip_without_namespace(&error),
    };
    let found = namespace.run(|| {
        let stop_programs = Stop::new();
        std::thread::scope(|scope| {
            let sender = SendOptions {
                announce: Some(Announce {
                    group: antiphon::ANNOUNCEMENT_GROUPS[0],
                    name: "Living room. TV".into(),
                }),
                ..options("rtp://@127.0.0.1:7710?iface=lo", 600)
            };
            let receiver = ReceiveOptions {
                source: "srp://127.0.0.1:7720?iface=lo".into(),
                sink: "null:".into(),
                announce: Some("Headset".into()),
                ..ReceiveOptions::default()
            };
            let mut reflector = ReflectOptions {
                listen: "127.0.0.1:7730".parse().expect("an address"),
                announce: Some("Server".into()),
                ..ReflectOptions::default()
            };
            reflector.socket.multicast.interface = Some("lo".into());
            let stop = &stop_programs;
            scope.spawn(move || send(&sender, stop, &mut |_| {}, &mut |_| {}).expect("it waits"));
            scope.spawn(move || receive(&receiver, stop, &mut |_| {}, &mut |_| {}).expect("it waits"));
            scope.spawn(move || reflect(&reflector, stop, &mut |_| {}).expect("it waits"));
            let found = look(Duration::from_secs(30), 3);
            stop.ask();
            found
        })
    });
    let mut found = found.expect("a namespace");
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let told: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.role, one.command())).collect();
    let typed = |text: &str| Some(text.to_string());
    assert_eq!(
        told,
        [
            ("Headset", Some(PeerRole::Receiver), typed("antiphon send SOURCE srp://127.0.0.1:7720")),
            ("Living room. TV", Some(PeerRole::Sender), typed("antiphon receive rtp://127.0.0.1:7710 SINK")),
            ("Server", Some(PeerRole::Reflector), typed("antiphon compare 127.0.0.1:7730")),
        ]
    );
    assert_eq!(found[1].format.as_deref(), Some("l16/48000/2"));
    assert_eq!(found[2].transports.len(), antiphon::proto::TRANSPORTS.len());
}

/// Looks for programs until so many are found.
fn look(length: Duration, most: usize) -> Vec<FoundPeer> {
    let (stop, mut found) = (Stop::new(), Vec::new());
    hear_announcements(length, Some("lo"), &stop, &mut |announced| {
        if let Announced::Peer(peer) = announced {
            found.push(peer.clone());
        }
        if found.len() == most {
            stop.ask();
        }
    })
    .expect("it hears");
    found
}

#[test]
fn who_calls_is_not_announced() {
    let options = ReceiveOptions {
        source: "rtp://127.0.0.1:9?role=caller".into(),
        sink: "null:".into(),
        announce: Some("Headset".into()),
        ..ReceiveOptions::default()
    };
    let error = receive(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("refused");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("--announce"), "{error}");
}
