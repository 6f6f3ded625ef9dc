//! Live figures of real streams on loopback: level, bit rate, buffer, and the peer's address, at both ends.

mod common;

use std::time::Duration;

use antiphon::{LiveFigures, ReceiveOptions, SendOptions, Stop, receive, send};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, free_port};

/// What the two ends showed during a stream, and of the whole.
struct Shown {
    sent: Vec<LiveFigures>,
    heard: Vec<LiveFigures>,
    sent_in_all: LiveFigures,
    heard_in_all: LiveFigures,
    /// The last playout delay that the sender was told.
    told_ms: Option<f64>,
    port: u16,
}

fn streamed(scheme: &str, source: &str) -> Shown {
    let port = free_port();
    let receiving = ReceiveOptions {
        source: format!("{scheme}://@127.0.0.1:{port}"),
        sink: "null:".into(),
        latency: Some(antiphon::Latency::Of(Duration::from_millis(100))),
        ..ReceiveOptions::default()
    };
    let (listening, is_listening) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let mut heard = Vec::new();
        let summary = receive(
            &receiving,
            &Stop::new(),
            &mut |sentence| drop(listening.send(sentence)),
            &mut |status| {
                heard.push(status.live.clone());
            },
        );
        (heard, summary.expect("received").status)
    });
    is_listening.recv().expect("the receiver says that it listens");
    let sending = SendOptions {
        source: source.into(),
        target: format!("{scheme}://127.0.0.1:{port}"),
        length: Some(Duration::from_millis(2_500)),
        ..SendOptions::default()
    };
    let mut sent = Vec::new();
    let summary = send(&sending, &Stop::new(), &mut |_| {}, &mut |status| sent.push(status.live.clone()));
    let status = summary.expect("sent").status;
    let (heard, received) = receiver.join().unwrap();
    let (sent_in_all, heard_in_all) = (status.live, received.live);
    Shown { sent, heard, sent_in_all, heard_in_all, told_ms: status.remote_latency_ms, port }
}

#[test]
fn a_full_scale_tone_is_at_0_dbfs_at_both_ends() {
    unless_held_up(HELD_UP, || {
        for scheme in ["rtp", "tcp", "sctp"] {
            let shown = streamed(scheme, "tone:440Hz?level=0dB&channels=2&rate=48kHz");
            for all in [&shown.sent_in_all, &shown.heard_in_all] {
                // 16 bits, and concealment adds nothing.
                assert!(all.peak_dbfs.is_some_and(|peak| peak.abs() < 0.01), "{scheme}: {all:?}");
                // 48000 sample frames of two channels of 16 bits: 1536 kbit/s; headers of 12 bytes and extensions in packets of
                // 1024 bytes add 1 to 5 %. A machine that is busy stretches the stream.
                assert!(
                    all.kbit_per_s.is_some_and(|rate| (1000.0..1700.0).contains(&rate)),
                    "{scheme}: {all:?}"
                );
            }
            let to = format!("127.0.0.1:{}", shown.port);
            assert_eq!(shown.sent_in_all.peer.as_deref(), Some(to.as_str()), "{scheme}");
            let from = shown.heard_in_all.peer.as_deref().expect("the sender is known");
            assert!(from.starts_with("127.0.0.1:") && from != to, "{scheme}: {from}");
            // A playout delay of 100 ms, less a packet or so, is waiting.
            let fullest = shown.heard.iter().map(|live| live.buffer_ms).fold(0.0, f64::max);
            assert!((60.0..400.0).contains(&fullest), "{scheme}: {fullest}");
            let waiting = shown.sent.iter().map(|live| live.buffer_ms).fold(0.0, f64::max);
            // Nothing waits where a packet leaves at once; with acknowledgements it waits for them, a few milliseconds here.
            assert!(waiting > 0.0 || scheme != "sctp", "{scheme}: {waiting}");
            assert!(waiting < 500.0, "{scheme}: {waiting}");
            assert_eq!(shown.told_ms, Some(100.0), "{scheme}");
        }
    });
}

#[test]
fn a_quieter_tone_is_lower_and_silence_has_no_level() {
    unless_held_up(HELD_UP, || {
        let quiet = streamed("rtp", "tone:440Hz?level=-20dB");
        for all in [&quiet.sent_in_all, &quiet.heard_in_all] {
            assert!(all.peak_dbfs.is_some_and(|peak| (peak + 20.0).abs() < 0.1), "{all:?}");
        }
        // Below half of the last of 16 bits (-96 dB): silence on the wire.
        let silent = streamed("rtp", "tone:440Hz?level=-120dB");
        assert!(silent.heard.iter().chain([&silent.heard_in_all]).all(|live| live.peak_dbfs.is_none()));
    });
}
