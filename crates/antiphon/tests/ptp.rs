//! Receivers of a stream whose time stamps count PTP's clock, as devices of AES67 send it; this machine's clock stands for a steered one.

mod common;

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::media::StreamDescription;
use antiphon::net::OsClock;
use antiphon::{ReceiveOptions, ReceiveStatus, Stop, receive};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, free_port};

const DELAY: Duration = Duration::from_millis(40);
/// Sample frames of a packet, at 48 kHz: 5 ms.
const FRAMES: u64 = 240;

/// A packet of stereo L16, whose sample frames begin with number `first` since 1970.
fn packet(first: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, 98];
    bytes.extend(((first / FRAMES) as u16).to_be_bytes());
    bytes.extend((first as u32).to_be_bytes());
    bytes.extend(0x7074_7031_u32.to_be_bytes());
    bytes.extend((0..2 * FRAMES).flat_map(|n| (1_000 + n as i16).to_be_bytes()));
    bytes
}

fn description(offset: u32) -> StreamDescription {
    let sdp = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=stage\r\nt=0 0\r\nm=audio 5004 RTP/AVP 98\r\nc=IN IP4 127.0.0.1\r\n\
         a=rtpmap:98 L16/48000/2\r\na=ts-refclk:ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0\r\na=mediaclk:direct={offset}\r\n"
    );
    StreamDescription::from_sdp(sdp.as_bytes()).expect("a description")
}

/// Plays a second and a half of a stream that is described with `offset`; returns the last state, and all sentences.
fn play(offset: u32) -> (ReceiveStatus, Vec<String>) {
    let port = free_port();
    let options = ReceiveOptions {
        source: format!("rtp://127.0.0.1:{port}"),
        sink: "null:".into(),
        description: Some(description(offset)),
        in_step: Some(DELAY),
        ..ReceiveOptions::default()
    };
    let (listens, is_listening) = mpsc::channel();
    let stop = Stop::new();
    let stops = stop.clone();
    let receiver = std::thread::spawn(move || {
        let (mut last, mut told) = (ReceiveStatus::default(), Vec::new());
        let notice = &mut |sentence: String| {
            told.push(sentence);
            let _only_the_first_counts = listens.send(());
        };
        let ended = receive(&options, &stops, notice, &mut |status| last = status.clone());
        ended.map(|_| (last, told))
    });
    is_listening.recv().expect("it listens");
    let (socket, clock) = (UdpSocket::bind("127.0.0.1:0").expect("a socket"), OsClock::new());
    let (at, time) = clock.tai();
    // A packet leaves when its last sample was captured.
    let first = (time.as_nanos() * 48_000 / 1_000_000_000) as u64 / FRAMES * FRAMES;
    for number in 0..300 {
        let begins = first + number * FRAMES;
        let ends = Duration::from_nanos(((u128::from(begins + FRAMES) * 1_000_000_000) / 48_000) as u64);
        let due: Instant = at + ends.saturating_sub(time);
        while clock.now() < due {
            std::thread::park_timeout(due.since(clock.now()));
        }
        socket.send_to(&packet(begins), ("127.0.0.1", port)).expect("sent to loopback");
    }
    stop.ask();
    receiver.join().expect("no panic").expect("it plays")
}

#[test]
fn sound_is_played_so_long_after_the_time_that_its_stamps_count() {
    unless_held_up(HELD_UP, || {
        let (status, told) = play(0);
        let step = status.step.expect("the clock is read");
        assert!(
            step.in_step && step.error_ms.is_none() && step.clocks_apart_ms.is_none(),
            "{step:?} {told:?}"
        );
        assert!((step.capture_to_playout_ms - 40.0).abs() < 1.0, "{step:?}");
        assert_eq!((status.lost, status.late), (0, 0), "{status:?}");
    });
}

#[test]
fn a_clock_that_is_not_the_senders_is_told_and_not_followed() {
    // An hour of 48 kHz.
    let (status, told) = play(172_800_000);
    let step = status.step.expect("the clock is read");
    assert!(
        !step.in_step && step.clocks_apart_ms.is_some_and(|apart| (apart - 3.6e6).abs() < 1e3),
        "{step:?}"
    );
    assert!(told.iter().any(|sentence| sentence.contains("3600.0 s from the one")), "{told:?}");
}
