//! Path passports of real streams, checked against the counters of the link and of both ends.

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use antiphon::core::uri::Query;
use antiphon::core::{Instant, Role};
use antiphon::link::{ReplayEnd, ReplayPath};
use antiphon::proto::{StackArgs, TRANSPORTS, Transport};
use antiphon::trace::passport::{Delays, Direction, Recorded};
use antiphon::trace::{Passport, PassportError};
use antiphon::{
    CompareOptions, ErrorKind, LinkMethod, ReceiveOptions, SendOptions, Stop, compare, receive, send,
};
use antiphon_testkit::unless_held_up;
use common::{free_port, listen};

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("antiphon-passport-{}-{name}", std::process::id()))
}

fn comparing(name: &str) -> CompareOptions {
    let link = "loss=5%,delay=10ms,jitter=2ms";
    CompareOptions {
        link: (link.into(), link.parse().unwrap()),
        length: Some(Duration::from_millis(1_500)),
        transports: vec!["rtp".into()],
        out: None,
        link_method: Some(LinkMethod::Proxy),
        passport: Some(scratch(name)),
        command: "antiphon compare".into(),
        ..CompareOptions::default()
    }
}

#[test]
fn a_comparison_records_both_ways_as_the_link_counted_them() {
    let options = comparing("both");
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("a link of some kind");
    let (path, link) = (result.passport.expect("written"), result.crossed[0].clone());
    let passport = Passport::open(&path).expect("our own");
    assert!(passport.complete && passport.header.seed == options.seed);
    assert_eq!(passport.header.command, "antiphon compare");
    let [up, down] = &passport.sections[..] else { panic!("{:?}", passport.sections.len()) };
    assert_eq!((up.section.direction, down.section.direction), (Direction::Up, Direction::Down));
    let lost = |way: &Recorded| way.packets.iter().filter(|row| row.arrived.is_none()).count() as u64;
    // Three goodbyes follow the sound: those that came there, and back, are all else that the link delivered.
    let (there, back) = (down.packets.len() as u64, down.packets.len() as u64 - lost(down));
    let goodbyes = [3, link.down.offered - there, link.down.delivered - back];
    assert!(goodbyes.is_sorted_by(|there, back| there >= back), "{goodbyes:?}");
    let [sent, reached, returned] = goodbyes;
    assert_eq!((up.packets.len() as u64 + sent, lost(up) + sent - reached), (link.up.offered, link.up.lost));
    assert_eq!(lost(down) + reached - returned, link.down.lost);
    assert!(lost(up) > 0 && lost(down) > 0, "the weather happened: {link:?}");
    // A block of 256 stereo frames of 16 bits, RTP's header with its extension, UDP's and IPv4's.
    assert!((1_024 + 12 + 28..1_120).contains(&up.section.packet_bytes), "{:?}", up.section);
    let paths = passport.paths(None).expect("both ways are known");
    // No packet is faster than the link's propagation. That would mean that clocks, or ends, were confused.
    let least = |way: &[(_, Option<Duration>)]| way.iter().filter_map(|(_, delay)| *delay).min().unwrap();
    let down = paths.down.expect("the way back");
    assert!(least(&paths.up) >= Duration::from_millis(10) && least(&down) >= Duration::from_millis(10));
    // What was recorded replays unchanged. A sender that was delayed sends several packets in one instant: their fates
    // are in the same order.
    for way in [paths.up, down] {
        let replay = ReplayPath::new(way.iter().copied(), ReplayEnd::Hold).expect("in order of time");
        let (mut before, mut nth) = (None, 0);
        for (at, delay) in way {
            nth = if before.replace(at) == Some(at) { nth + 1 } else { 0 };
            assert_eq!(replay.fate(at, nth), delay.map(|delay| at + delay), "packet {nth} of {at:?}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn both_ends_of_a_stream_record_what_they_know() {
    unless_held_up(Duration::from_micros(500), || {
        let port = free_port();
        let (heard, sent) = (scratch("heard"), scratch("sent"));
        for earlier in [&heard, &sent] {
            let _only_after_an_earlier_attempt = std::fs::remove_file(earlier);
        }
        let receiving = ReceiveOptions {
            source: format!("rtp://127.0.0.1:{port}"),
            sink: "null:".into(),
            length: Some(Duration::from_secs(20)),
            passport: Some(heard.clone()),
            ..ReceiveOptions::default()
        };
        let (tell, told) = std::sync::mpsc::channel();
        let receiver = std::thread::spawn(move || {
            receive(&receiving, &Stop::new(), &mut |sentence| drop(tell.send(sentence)), &mut |_| {})
        });
        told.recv().expect("the receiver says that it listens");
        let sending = SendOptions {
            target: format!("rtp://127.0.0.1:{port}"),
            length: Some(Duration::from_millis(500)),
            passport: Some(sent.clone()),
            ..SendOptions::default()
        };
        let summary = send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("loopback");
        let received = receiver.join().unwrap().expect("it ends with the stream");
        assert!(
            told.try_iter().any(|sentence| sentence.contains("passport") && sentence.contains("94 packets"))
        );
        let (heard, sent) = (Passport::open(heard).unwrap(), Passport::open(sent).unwrap());
        assert_eq!(heard.sections[0].packets.len() as u64, received.status.packets_received);
        assert_eq!(heard.sections[0].section.delays, Delays::Relative);
        let paths = heard.paths(None).unwrap();
        assert!(paths.up.iter().all(|(_, delay)| delay.is_some()) && paths.down.is_none());
        assert_eq!(sent.sections[0].packets.len() as u64, summary.status.packets_sent);
        assert!(matches!(sent.paths(None), Err(PassportError::NoArrivals)));
        // Both record the same times of sending, except for the origin of their clocks. 1 ms is a fifth of a packet's time;
        // the header's clock is read when the block is, as ours.
        let offset = sent.sections[0].packets[0].sent.unwrap() - heard.sections[0].packets[0].sent.unwrap();
        for (a, b) in sent.sections[0].packets.iter().zip(&heard.sections[0].packets) {
            assert!((a.sent.unwrap() - b.sent.unwrap() - offset).abs() < 1_000_000, "{a:?} {b:?}");
            assert_eq!(a.bytes, b.bytes);
        }
        for end in ["heard", "sent"] {
            std::fs::remove_file(scratch(end)).unwrap();
        }
    });
}

/// Whether the transport's default endpoint says that it retransmits lost messages.
fn retransmits(transport: &Transport) -> bool {
    let query = Query::default();
    let playout_delay = Duration::from_millis(80);
    let args = StackArgs::new(&query, 1, 1452, playout_delay);
    let stack = (transport.stack)(&args).expect("defaults open");
    stack.open(Instant::ZERO, Role::Caller).profile().retransmits
}

/// The passports of a stream over loopback: the sender's and the receiver's.
fn streamed(scheme: &str) -> [Passport; 2] {
    let port = free_port();
    let files = ["sent", "heard"].map(|end| scratch(&format!("{scheme}-{end}")));
    let receiver = listen(ReceiveOptions {
        source: format!("{scheme}://@127.0.0.1:{port}"),
        sink: "null:".into(),
        length: Some(Duration::from_secs(20)),
        passport: Some(files[1].clone()),
        ..ReceiveOptions::default()
    });
    let sending = SendOptions {
        target: format!("{scheme}://127.0.0.1:{port}"),
        length: Some(Duration::from_millis(200)),
        passport: Some(files[0].clone()),
        ..SendOptions::default()
    };
    send(&sending, &Stop::new(), &mut |_| {}, &mut |_| {}).expect("loopback");
    receiver.join().unwrap().expect("it ends with the stream");
    files.map(|file| {
        let passport = Passport::open(&file).expect("our own");
        std::fs::remove_file(file).unwrap();
        passport
    })
}

#[test]
fn passports_of_streams_say_whether_the_transport_repairs() {
    for transport in TRANSPORTS {
        let said = streamed(transport.scheme).map(|passport| passport.sections[0].section.repairs);
        assert_eq!(said, [retransmits(transport); 2], "{}", transport.scheme);
    }
}

#[test]
fn a_comparisons_passport_says_which_transports_repair() {
    let options = CompareOptions {
        transports: TRANSPORTS.iter().map(|transport| transport.scheme.into()).collect(),
        length: Some(Duration::from_millis(300)),
        ..comparing("all")
    };
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("a link of some kind");
    let path = result.passport.expect("written");
    let passport = Passport::open(&path).expect("our own");
    for transport in TRANSPORTS {
        let of_it = |recorded: &&Recorded| recorded.section.transport == transport.scheme;
        let said: Vec<bool> =
            passport.sections.iter().filter(of_it).map(|recorded| recorded.section.repairs).collect();
        assert_eq!(said, [retransmits(transport); 2], "{}, both ways", transport.scheme);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_streams() {
    let passport = || Some(PathBuf::from("/nowhere/at/all.passport"));
    let started = std::cell::Cell::new(false);
    let options = CompareOptions { passport: passport(), ..comparing("never") };
    let compared = compare(&options, &Stop::new(), &mut |_| started.set(true)).unwrap_err();
    let options =
        SendOptions { target: "rtp://127.0.0.1:9".into(), passport: passport(), ..SendOptions::default() };
    let sent =
        send(&options, &Stop::new(), &mut |_| started.set(true), &mut |_| started.set(true)).unwrap_err();
    let options = ReceiveOptions { sink: "null:".into(), passport: passport(), ..ReceiveOptions::default() };
    let received =
        receive(&options, &Stop::new(), &mut |_| started.set(true), &mut |_| started.set(true)).unwrap_err();
    for error in [compared, sent, received] {
        assert_eq!(error.kind, ErrorKind::Failed);
        assert!(error.message.contains("'/nowhere/at/all.passport'"), "{error}");
        assert!(error.message.contains("choose a file"), "{error}");
    }
    assert!(!started.get());
}

/// A pipe whose reader closes it after the header stands for a full disk.
#[test]
fn a_disk_that_fills_up_costs_the_passport_and_nothing_else() {
    let options = comparing("pipe");
    let path = options.passport.clone().expect("asked for");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo of coreutils");
    assert!(made.success());
    let reader = std::thread::spawn(move || {
        let mut header = String::new();
        BufReader::new(std::fs::File::open(&path).unwrap()).read_line(&mut header).unwrap();
        std::fs::remove_file(path).unwrap();
        header
    });
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("the comparison itself is whole");
    assert!(reader.join().unwrap().starts_with("{\"passport\":"));
    assert_eq!(result.passport, None);
    assert_eq!(result.figures[0].packets_sent, 282);
    let [(what, why)] = &result.failures[..] else { panic!("{:?}", result.failures) };
    assert!(what == "passport" && why.contains("incomplete") && why.contains("free some space"), "{why}");
}
