//! Streams whose time stamps count PTP's clock, as devices of AES67 send them, and ours; this machine's clock stands for a steered one.

mod common;

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::media::StreamDescription;
use antiphon::net::OsClock;
use antiphon::{ReceiveOptions, ReceiveStatus, SendOptions, Stop, receive, send};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, free_port, scratch};

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

/// Sends a tone whose time stamps count a PTP clock to `port`, for `seconds`, and describes it in a file; `is_sending` is called once
/// that is written.
fn send_counting(
    port: u16,
    seconds: u64,
    name: &str,
    is_sending: impl FnOnce(&StreamDescription),
) -> Vec<String> {
    let sdp = scratch(name).join("stage.sdp");
    let options = SendOptions {
        source: "tone:440Hz?channels=2&rate=48kHz&format=l16".into(),
        target: format!("rtp://127.0.0.1:{port}"),
        ptp: Some("39a794.fffe.07cbd0:3".parse().expect("a clock")),
        sdp: Some(sdp.clone()),
        ptime: Some(Duration::from_millis(1)),
        length: Some(Duration::from_secs(seconds)),
        ..SendOptions::default()
    };
    let (tells, told) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        let notice = &mut |sentence: String| {
            let _only_the_first_counts = tells.send(sentence);
        };
        send(&options, &Stop::new(), notice, &mut |_| {})
    });
    let mut heard: Vec<String> = Vec::new();
    while !heard.iter().any(|sentence| sentence.starts_with("wrote ")) {
        heard.push(told.recv().expect("it writes the file"));
    }
    let text = std::fs::read(&sdp).expect("it is written");
    let described = StreamDescription::from_sdp(&text).expect("a description");
    let reference = "ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:3";
    assert_eq!((described.reference_clock.as_deref(), described.ptp_offset()), (Some(reference), Some(0)));
    is_sending(&described);
    sender.join().expect("no panic").expect("it sends");
    heard.extend(told.try_iter());
    heard
}

/// A packet of ours leaves when its last sample was captured by the clock, and the next one goes on where it ended.
#[test]
fn our_time_stamps_count_the_clock_sample_by_sample() {
    unless_held_up(HELD_UP, || {
        let (socket, clock) = (UdpSocket::bind("127.0.0.1:0").expect("a socket"), OsClock::new());
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        let told = send_counting(port, 1, "ptp-stamps", |_| {
            let (mut next, mut buf) = (None, [0; 1500]);
            for number in 0..600 {
                let len = socket.recv(&mut buf).expect("a packet comes");
                let (at, time) = clock.tai();
                if buf[1] & 0x7f >= 72 && buf[1] & 0x7f <= 76 {
                    // RTCP, on the same port.
                    continue;
                }
                let stamp = u32::from_be_bytes([buf[4], buf[5], buf[6], buf[7]]);
                let ends = stamp.wrapping_add(48);
                let shown = ((time + clock.now().since(at)).as_nanos() * 48_000 / 1_000_000_000) as u32;
                let late = i64::from(shown.wrapping_sub(ends) as i32);
                // In sample frames. The first ones waited in the socket until somebody read them.
                let most = if number < 300 { 48_000 } else { 48 * 15 };
                assert!((0..most).contains(&late), "{late} of packet {number}, {len} bytes");
                assert!(next.is_none_or(|next| next == stamp), "{next:?} {stamp}");
                next = Some(ends);
            }
        });
        assert!(told.iter().any(|sentence| sentence.contains("39-A7-94-FF-FE-07-CB-D0:3")), "{told:?}");
    });
}

#[test]
fn our_receiver_plays_our_stream_by_the_clock() {
    unless_held_up(HELD_UP, || {
        let port = free_port();
        let mut status = ReceiveStatus::default();
        send_counting(port, 2, "ptp-ours", |described| {
            let options = ReceiveOptions {
                source: format!("rtp://127.0.0.1:{port}"),
                sink: "null:".into(),
                description: Some(described.clone()),
                in_step: Some(DELAY),
                ..ReceiveOptions::default()
            };
            receive(&options, &Stop::new(), &mut |_| {}, &mut |now| {
                // At the end the clock goes on and the sound doesn't.
                if now.step.is_some() {
                    status = now.clone();
                }
            })
            .expect("it plays");
        });
        let step = status.step.expect("the clock is read");
        assert!(step.in_step && step.clocks_apart_ms.is_none(), "{step:?}");
        assert!((step.capture_to_playout_ms - 40.0).abs() < 1.0, "{step:?}");
        assert_eq!((status.lost, status.late), (0, 0), "{status:?}");
    });
}
