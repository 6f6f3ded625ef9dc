//! Real sockets on loopback, through the library's public functions: the sink gets what the source gave.

mod common;

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::media::{Pull, SampleFormat, StreamFormat};
use antiphon::net::OsClock;
use antiphon::session::StreamFraming;
use antiphon::sound::{open_sink, open_source};
use antiphon::{ErrorKind, ReceiveOptions, SendOptions, Stop, receive, send};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, free_port, listen, scratch};

/// A WAV file of noise: no two frames are alike, so that a frame in the wrong place is noticed.
fn noise(path: &Path, sample: SampleFormat, channels: u32, frames: usize) {
    let format = StreamFormat::new(48_000, channels).unwrap();
    let mut source =
        open_source(&format!("tone:noise?seed=5&channels={channels}&format={}", sample.name())).unwrap();
    let mut sink = open_sink(&path.display().to_string(), format, sample).unwrap();
    let mut block = vec![0.0; frames * channels as usize];
    assert_eq!(source.source.pull(&mut block), Pull::Frames(frames));
    sink.sink.push(&block).unwrap();
    sink.sink.finish().unwrap();
}

fn samples(path: &Path) -> (StreamFormat, SampleFormat, Vec<u32>) {
    let mut opened = open_source(&path.display().to_string()).unwrap();
    let (format, sample) = (opened.source.format(), opened.source.sample_format());
    let (mut all, mut block) = (Vec::new(), vec![0.0f32; 256 * format.channels()]);
    loop {
        match opened.source.pull(&mut block) {
            Pull::Frames(n) => all.extend(block[..n * format.channels()].iter().map(|s| s.to_bits())),
            Pull::Starved => std::thread::yield_now(),
            Pull::End => return (format, sample, all),
        }
    }
}

/// Sends `source` over `scheme` into a recording and returns both files' contents.
fn through(scheme: &str, sample: SampleFormat, channels: u32, block_frames: u32, groups: Option<&str>) {
    through_in(StreamFraming::Rtp, scheme, sample, channels, block_frames, groups);
}

fn through_in(
    framing: StreamFraming,
    scheme: &str,
    sample: SampleFormat,
    channels: u32,
    block_frames: u32,
    groups: Option<&str>,
) {
    let (framed, named) = (framing.name(), groups.unwrap_or("whole"));
    let directory =
        scratch(&format!("{scheme}-{framed}-{}-{channels}-{block_frames}-{named}", sample.name()));
    let (sent, got) = (directory.join("sent.wav"), directory.join("got.wav"));
    // Half a second, and not a whole number of blocks.
    noise(&sent, sample, channels, 24_001);
    let port = free_port();
    let at = if scheme == "tcp" { "@" } else { "" };
    let receiver = listen(ReceiveOptions {
        source: format!("{scheme}://{at}127.0.0.1:{port}"),
        sink: got.display().to_string(),
        framing,
        length: Some(Duration::from_secs(20)),
        ..ReceiveOptions::default()
    });
    let sending = SendOptions {
        source: sent.display().to_string(),
        target: format!("{scheme}://127.0.0.1:{port}"),
        block_frames: Some(block_frames),
        framing,
        groups: groups.map(Into::into),
        ..SendOptions::default()
    };
    let summary = send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
    assert_eq!((summary.status.refused, summary.status.expired), (0, 0));
    let received = receiver.join().unwrap().expect("receiving ends with the stream");
    assert_eq!((received.status.lost, received.status.late, received.status.concealed), (0, 0, 0));
    assert_eq!(received.status.packets_received, summary.status.packets_sent);
    // As long as was sent, not multiplied by the number of groups.
    assert!((received.status.played_s - 24_001.0 / 48_000.0).abs() < 1e-6);
    let shown: Vec<&str> = received.status.groups.iter().map(|group| group.channels.as_str()).collect();
    let there: Vec<&str> = summary.status.groups.iter().map(|group| group.channels.as_str()).collect();
    match groups {
        Some("2,1,2") => assert_eq!((shown, there), (vec!["1-2", "3", "4-5"], vec!["1-2", "3", "4-5"])),
        _ => assert!(shown.is_empty() && there.is_empty()),
    }
    let (before, after) = (samples(&sent), samples(&got));
    assert_eq!((after.0, after.1), (before.0, before.1));
    assert_eq!(after.2.len(), before.2.len());
    assert!(after.2 == before.2, "samples differ over {scheme} in {}", sample.name());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_arrives_sample_for_sample_over_rtp() {
    unless_held_up(HELD_UP, || {
        for (sample, channels, block) in
            [(SampleFormat::L16, 2, 256), (SampleFormat::L24, 1, 64), (SampleFormat::F32, 3, 4096)]
        {
            through("rtp", sample, channels, block, None);
        }
    });
}

#[test]
fn a_file_arrives_sample_for_sample_over_tcp() {
    unless_held_up(HELD_UP, || {
        for (sample, channels, block) in
            [(SampleFormat::L16, 2, 256), (SampleFormat::L24, 2, 1024), (SampleFormat::MuLaw, 1, 160)]
        {
            through("tcp", sample, channels, block, None);
        }
    });
}

#[test]
fn channel_groups_arrive_as_one_file() {
    unless_held_up(HELD_UP, || {
        // The receiver of SCTP says nothing of streams.
        for scheme in ["sctp", "rtp", "tcp"] {
            through(scheme, SampleFormat::L16, 5, 256, Some("2,1,2"));
        }
    });
}

#[test]
fn a_file_arrives_sample_for_sample_in_medusas_framing() {
    unless_held_up(HELD_UP, || {
        for scheme in ["rtp", "tcp", "sctp", "dccp", "srp", "arq", "xtp"] {
            through_in(StreamFraming::Medusa, scheme, SampleFormat::L16, 2, 256, None);
        }
        through_in(StreamFraming::Medusa, "tcp", SampleFormat::F32, 3, 4096, None);
    });
}

#[test]
fn a_sender_with_the_other_framing_is_reported() {
    for (scheme, ours, theirs) in [("rtp", "", "?framing=medusa"), ("tcp", "?framing=medusa", "")] {
        let port = free_port();
        let receiving = ReceiveOptions {
            source: format!("{scheme}://@127.0.0.1:{port}{ours}"),
            sink: "null:".into(),
            length: Some(Duration::from_secs(20)),
            ..ReceiveOptions::default()
        };
        let receiver = listen(receiving);
        let sending = SendOptions {
            source: "tone:440Hz?seconds=1s".into(),
            target: format!("{scheme}://127.0.0.1:{port}{theirs}"),
            ..SendOptions::default()
        };
        // The result of a sender whose receiver has gone depends on the transport.
        let _sent = send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {});
        let error = receiver.join().unwrap().expect_err("no sound in this framing");
        assert!(error.to_string().contains("--framing medusa"), "{scheme}: {error}");
        assert_eq!(error.exit_code(), 1);
    }
}

/// A proxy puts garbage into the stream: the sound before and after it is received, sample for sample.
#[test]
fn rubbish_in_a_tcp_stream_costs_what_it_hits_in_medusas_framing() {
    unless_held_up(HELD_UP, || {
        use std::io::{Read, Write};
        let directory = scratch("rubbish");
        let (sent, got) = (directory.join("sent.wav"), directory.join("got.wav"));
        noise(&sent, SampleFormat::L16, 1, 48_000);
        let (port, proxy) = (free_port(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let proxied = proxy.local_addr().unwrap().port();
        let receiving = ReceiveOptions {
            source: format!("tcp://@127.0.0.1:{port}"),
            sink: got.display().to_string(),
            framing: StreamFraming::Medusa,
            length: Some(Duration::from_secs(20)),
            ..ReceiveOptions::default()
        };
        let receiver = listen(receiving);
        let middle = std::thread::spawn(move || {
            let (mut from, _) = proxy.accept().unwrap();
            let mut to = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut back, mut near) = (to.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut near));
            // Within a packet each time, if not all three are where a report of RTCP stands.
            for length in [20_000, 11_003, 7_777] {
                let mut head = vec![0; length];
                from.read_exact(&mut head).unwrap();
                to.write_all(&head).unwrap();
                to.write_all(&[0x5a; 3_333]).unwrap();
            }
            // The receiver closes the connection when the sender has ended the stream, on either side of the proxy.
            let _either_has_left = std::io::copy(&mut from, &mut to);
            let _receiver_has_left = to.shutdown(std::net::Shutdown::Write);
        });
        let sending = SendOptions {
            source: sent.display().to_string(),
            target: format!("tcp://127.0.0.1:{proxied}"),
            framing: StreamFraming::Medusa,
            ..SendOptions::default()
        };
        send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("sending to loopback");
        middle.join().unwrap();
        let received = receiver.join().unwrap().expect("the stream goes on behind the rubbish");
        // A packet with garbage inside is played with it, since Medusa's header has no checksum, or is lost.
        assert!(received.status.lost <= 3, "{:?}", received.status);
        let (before, after) = (samples(&sent).2, samples(&got).2);
        assert_eq!(after.len(), before.len());
        let wrong = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        // Three packets of 256 samples, and as much after each where concealed sound fades out.
        assert!((1..=1_536).contains(&wrong), "{wrong} samples differ");
        // 550 bytes for each 256 samples: garbage is after some 9 300, 14 400 and 18 000 samples.
        assert!(before[..8_000] == after[..8_000] && before[20_000..] == after[20_000..]);
        std::fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn an_absent_peer_is_reported_within_two_seconds() {
    for scheme in ["rtp", "tcp"] {
        let options =
            SendOptions { target: format!("{scheme}://127.0.0.1:{}", free_port()), ..SendOptions::default() };
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{scheme}: {error}");
        assert_eq!(error.exit_code(), 4);
    }
}

#[test]
fn mistakes_are_refused_with_the_remedy() {
    let refuse = |target: &str| {
        let options = SendOptions { target: target.into(), ..SendOptions::default() };
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{target}: {error}");
        error.to_string()
    };
    assert!(refuse("rpt://127.0.0.1:7710").contains("did you mean 'rtp'"));
    assert!(refuse("rtp://127.0.0.1:7710?latncy=20ms").contains("did you mean 'latency'"));
    assert!(refuse("rtp://127.0.0.1:7710?latency=20").contains("write 20ms"));
    // A receiver joins a group so; nobody sends to it.
    assert!(refuse("rtp://@239.1.2.3:7710").contains("write rtp://239.1.2.3:7710"));
    assert!(refuse("rtp://127.0.0.1:7710?channels=65").contains("1 to 64"));
    assert!(refuse("rtp://127.0.0.1:7710?framing=medsua").contains("did you mean 'medusa'"));
    let sdp = Some("/dev/null".into());
    let target = "rtp://127.0.0.1:7710?framing=medusa".into();
    let error =
        send(&SendOptions { target, sdp, ..SendOptions::default() }, &Stop::new(), &mut |_| {}, &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("omit --sdp"));
    let options = SendOptions {
        target: "rtp://127.0.0.1:7710".into(),
        block_frames: Some(8),
        ..SendOptions::default()
    };
    let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("16 to 4096"), "{error}");
    // The bundled clip has two channels.
    let wrong = |target: &str, groups: &str, payload_type, passport| {
        let (target, groups) = (target.to_string(), Some(groups.to_string()));
        let options = SendOptions { target, groups, payload_type, passport, ..SendOptions::default() };
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        error.to_string()
    };
    let there = "rtp://127.0.0.1:7710";
    assert!(wrong(there, "2,2", None, None).contains("the stream has 2"));
    assert!(
        wrong("rtp://127.0.0.1:7710?groups=1,2", "1", None, None).contains("the stream has 2"),
        "the URI wins"
    );
    assert!(wrong(there, "1", Some(10), None).contains("96 to 127"));
    assert!(wrong(there, "1", None, Some("take.passport".into())).contains("omit --groups"));
}

/// A player that was started a second after the sender, and reports nothing: what refused the first packets says nothing of it.
#[test]
fn a_receiver_that_comes_late_gets_the_rest() {
    unless_held_up(HELD_UP, || {
        let port = free_port();
        let sending = SendOptions {
            source: "tone:440Hz".into(),
            target: format!("rtp://127.0.0.1:{port}"),
            length: Some(Duration::from_millis(2_500)),
            ..SendOptions::default()
        };
        let mut player = None;
        let summary = send(&sending, &Stop::new(), &mut |_| {}, &mut |status| {
            if status.sent_s > 0.9 {
                player.get_or_insert_with(|| UdpSocket::bind(("127.0.0.1", port)).expect("still free"));
            }
        });
        let summary = summary.expect("somebody listens");
        assert!(player.is_some() && !summary.interrupted);
        assert!((2.49..2.51).contains(&summary.status.sent_s), "{:?}", summary.status);
    });
}

/// A port that opens 0.9 s after the receiver began to call, and is silent until the patience of a caller is over: what refused the first calls
/// says nothing of a sender that has come since.
#[test]
fn a_sender_that_comes_late_is_waited_for() {
    unless_held_up(HELD_UP, || {
        let port = free_port();
        let receiving = ReceiveOptions {
            source: format!("rtp://127.0.0.1:{port}?role=caller"),
            sink: "null:".into(),
            length: Some(Duration::from_millis(2_500)),
            ..ReceiveOptions::default()
        };
        let began = OsClock::new();
        let mut silent = None;
        let received = receive(&receiving, &Stop::new(), &mut |_| {}, &mut |_| {
            if began.now() >= Instant::from_millis(900) {
                silent.get_or_insert_with(|| UdpSocket::bind(("127.0.0.1", port)).expect("still free"));
            }
        });
        let summary = received.expect("the call goes on");
        assert!(!summary.interrupted && began.now() >= Instant::from_millis(2_500));
        let mut call = [0; 1500];
        silent.expect("bound in time").recv(&mut call).expect("it was called after that");
    });
}
