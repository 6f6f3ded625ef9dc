//! Real sockets on loopback: a stream that changes its transport while it runs, and one that is sent over two.

mod asked;
#[path = "../common/mod.rs"]
mod common;

use std::sync::mpsc;
use std::time::Duration;

use antiphon::{ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, Switch, send};
use common::{NOISE, free_port, listen, recorded, samples, scratch};

/// The samples of so many seconds of it, as a recording of 16 bits has them.
fn noise(seconds: usize) -> Vec<i16> {
    let noise = samples(NOISE, 48_000 * seconds);
    assert_eq!(noise.len(), 2 * 48_000 * seconds);
    noise
}

/// Where a stream goes, and what came of it.
struct Ran {
    sent: SendSummary,
    received: ReceiveSummary,
    told: Vec<String>,
    /// Whether the recording is what was sent, sample for sample.
    same: bool,
}

/// Sends `seconds` of noise to the first of `ports`; `with` adds what is to happen.
fn run(
    name: &str,
    seconds: usize,
    listening: &[String],
    latency: Option<Duration>,
    with: impl Fn(SendOptions) -> SendOptions,
) -> Ran {
    let directory = scratch(name);
    let after = directory.join("got.wav");
    let receiver = listen(ReceiveOptions {
        source: listening[0].clone(),
        also: listening[1..].to_vec(),
        sink: after.display().to_string(),
        latency: latency.map(antiphon::Latency::Of),
        length: Some(Duration::from_secs(40)),
        ..ReceiveOptions::default()
    });
    let length = Some(Duration::from_secs(seconds as u64));
    let options = SendOptions { source: NOISE.into(), length, ..SendOptions::default() };
    let mut told = Vec::new();
    let sent = send(&with(options), &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {});
    let sent = sent.expect("sending to loopback");
    let received = receiver.join().unwrap().expect("receiving ends with the stream");
    let same = noise(seconds) == recorded(&after);
    std::fs::remove_dir_all(directory).unwrap();
    Ran { sent, received, told, same }
}

/// URIs of listeners and of calls to them, on ports that are free.
fn uris(schemes: &[&str]) -> (Vec<String>, Vec<String>) {
    let uri = |scheme: &&str| {
        let port = free_port();
        (format!("{scheme}://@127.0.0.1:{port}"), format!("{scheme}://127.0.0.1:{port}"))
    };
    let (mut listening, calls): (Vec<String>, Vec<String>) = schemes.iter().map(uri).unzip();
    for uri in listening.iter_mut().filter(|uri| !uri.starts_with("tcp")) {
        *uri = uri.replace("//@", "//");
    }
    (listening, calls)
}

#[test]
fn a_stream_goes_from_rtp_over_sctp_and_tcp_to_srp_without_a_gap() {
    // A machine that stands still for longer than the playout delay is told from a gap: nothing is lost then, only late.
    for attempt in 0..5 {
        let (listening, calls) = uris(&["rtp", "sctp", "tcp", "srp"]);
        let ran = run(&format!("all-{attempt}"), 7, &listening, Some(Duration::from_millis(80)), |options| {
            let at = |n: usize| Duration::from_millis(1_500 * n as u64);
            let switch = |n: usize| Switch { uri: calls[n].clone(), at: at(n) };
            SendOptions { target: calls[0].clone(), switch: (1..4).map(switch).collect(), ..options }
        });
        assert_eq!(ran.sent.failures, Vec::<String>::new());
        for uri in &calls[1..] {
            let moved = format!("the stream continues over {uri}");
            assert!(ran.told.contains(&moved), "{moved}: {:?}", ran.told);
        }
        let status = &ran.received.status;
        assert_eq!((status.lost, ran.sent.status.expired, ran.sent.status.refused), (0, 0, 0), "{status:?}");
        if status.late == 0 {
            assert!(status.concealed == 0 && ran.same, "nothing was late: {status:?}");
            return;
        }
        println!("the machine stood still: {status:?}");
    }
    panic!("five times a packet came late");
}

/// As `auto://` does, where each transport's URI has the settings of the stream.
#[test]
fn a_further_uri_may_repeat_what_the_first_says_of_the_sound() {
    let settings = "latency=1s&rate=48kHz&format=l16";
    let (listening, calls) = uris(&["rtp", "sctp"]);
    let calls: Vec<String> = calls.iter().map(|uri| format!("{uri}?{settings}")).collect();
    let ran = run("repeats", 3, &listening, None, |options| SendOptions {
        target: calls[0].clone(),
        switch: vec![Switch { uri: calls[1].clone(), at: Duration::from_secs(1) }],
        ..options
    });
    assert!(ran.sent.failures.is_empty() && ran.same, "{:?} {:?}", ran.sent.failures, ran.received.status);
    assert!(ran.told.contains(&format!("the stream continues over {}", calls[1])), "{:?}", ran.told);
}

#[test]
fn a_recording_that_changes_its_transport_is_complete() {
    let (listening, calls) = uris(&["tcp", "rtp", "arq"]);
    let ran = run("recording", 4, &listening, None, |options| SendOptions {
        target: calls[0].clone(),
        switch: vec![
            Switch { uri: calls[1].clone(), at: Duration::from_secs(1) },
            Switch { uri: calls[2].clone(), at: Duration::from_secs(2) },
        ],
        ..options
    });
    assert!(ran.sent.failures.is_empty() && ran.same, "{:?} {:?}", ran.sent.failures, ran.received.status);
}

#[test]
fn a_stream_over_two_transports_comes_twice() {
    let (listening, calls) = uris(&["rtp", "srp"]);
    let ran = run("also", 3, &listening, None, |options| SendOptions {
        target: calls[0].clone(),
        also: vec![calls[1].clone()],
        ..options
    });
    assert!(ran.sent.failures.is_empty() && ran.same, "{:?} {:?}", ran.sent.failures, ran.received.status);
    let status = &ran.received.status;
    // All but those before the receiver knew the second one.
    assert!(status.duplicate as f64 > 0.8 * status.packets_received as f64, "{status:?}");
}

#[test]
fn targets_that_cannot_be_used_are_told_and_leave_the_stream_as_it_is() {
    let (listening, calls) = uris(&["rtp", "sctp"]);
    let closed = format!("tcp://127.0.0.1:{}", free_port());
    let (also, deaf) =
        (format!("rtp://127.0.0.1:{}", free_port()), format!("srp://127.0.0.1:{}", free_port()));
    let ran = run("bad", 8, &listening[..1], None, |options| SendOptions {
        target: calls[0].clone(),
        also: vec![also.clone()],
        switch: vec![
            // Nothing listens; nothing answers.
            Switch { uri: closed.clone(), at: Duration::from_millis(500) },
            Switch { uri: deaf.clone(), at: Duration::from_millis(1_000) },
            Switch { uri: calls[1].clone(), at: Duration::from_secs(60) },
        ],
        ..options
    });
    assert!(ran.same, "{:?}", ran.received.status);
    let failures = &ran.sent.failures;
    assert_eq!(failures.len(), 4, "{failures:?}");
    // In the order in which they failed.
    for (sentence, (of, what)) in failures.iter().zip([
        (&closed, "Connection refused"),
        (&deaf, "did not accept it: start it with --also"),
        (&also, "ended before the receiver accepted it"),
        (&calls[1], "ended before this change"),
    ]) {
        assert!(sentence.starts_with(of) && sentence.contains(what), "{of}, {what}: {failures:?}");
    }
}

#[test]
fn auto_measures_and_streams_over_what_is_recommended() {
    let directory = scratch("auto");
    let after = directory.join("got.wav");
    // Those of all transports, and of the reflector above them.
    let port = antiphon_testkit::free_ports(30);
    let receiver = listen(ReceiveOptions {
        source: format!("auto://127.0.0.1:{port}"),
        sink: after.display().to_string(),
        length: Some(Duration::from_secs(60)),
        ..ReceiveOptions::default()
    });
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("auto://127.0.0.1:{port}"),
        purpose: antiphon::measure::Purpose::Record,
        length: Some(Duration::from_secs(1)),
        ..SendOptions::default()
    };
    let mut told = Vec::new();
    let sent =
        send(&options, &Stop::new(), &mut |sentence| told.push(sentence), &mut |_| {}).expect("it is there");
    receiver.join().unwrap().expect("receiving ends with the stream");
    assert!(sent.failures.is_empty() && noise(1) == recorded(&after), "{told:?}");
    // Nothing is lost on loopback; tcp and sctp promise it.
    let named = ["tcp", "sctp"].map(|name| told[1].starts_with(&format!("record without loss: {name} ")));
    assert!(named.contains(&true), "{told:?}");
    std::fs::remove_dir_all(directory).unwrap();
    let nobody = SendOptions { target: format!("auto://127.0.0.1:{}", free_port()), ..options };
    let error = send(&nobody, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("nobody is there");
    assert!(error.to_string().contains("antiphon receive auto://"), "{error}");
}

#[test]
fn what_cannot_be_combined_is_refused_before_anything_is_opened() {
    let refused = |target: &str, also: &str| {
        let options = SendOptions {
            source: "tone:440Hz".into(),
            target: target.into(),
            also: vec![also.into()],
            ..SendOptions::default()
        };
        send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).unwrap_err().to_string()
    };
    for (target, also, remedy) in [
        ("rtp://127.0.0.1:7710", "rtp://127.0.0.1:7711?rate=44.1kHz", "the first URI"),
        ("rtp://127.0.0.1:7710?latency=1s", "rtp://127.0.0.1:7711?latency=2s", "the first URI"),
        ("tcp://@127.0.0.1:7710", "rtp://127.0.0.1:7711", "write tcp://HOST:7710"),
        ("rtp://127.0.0.1:7710?framing=medusa", "rtp://127.0.0.1:7711", "omit --also"),
        ("rtp://127.0.0.1:7710", "tcp://@127.0.0.1:7711", "HOST:PORT"),
        ("rtp://127.0.0.1:7710", "pigeon://127.0.0.1:7711", "pigeon"),
    ] {
        let said = refused(target, also);
        assert!(said.contains(remedy), "{target} and {also}: {said}");
    }
}

#[test]
fn a_sender_waits_for_a_receiver_that_comes_later() {
    let directory = scratch("waits");
    let after = directory.join("got.wav");
    let port = free_port();
    let options = SendOptions {
        source: NOISE.into(),
        target: format!("tcp://127.0.0.1:{port}"),
        length: Some(Duration::from_secs(1)),
        wait_for_peer: true,
        ..SendOptions::default()
    };
    let (tell, told) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        send(&options, &Stop::new(), &mut |sentence| drop(tell.send(sentence)), &mut |_| {})
    });
    // The receiver comes once the first call was refused.
    assert!(told.iter().any(|sentence| sentence.contains("trying again")));
    let receiver = listen(ReceiveOptions {
        source: format!("tcp://@127.0.0.1:{port}"),
        sink: after.display().to_string(),
        length: Some(Duration::from_secs(20)),
        ..ReceiveOptions::default()
    });
    sender.join().unwrap().expect("the receiver came");
    receiver.join().unwrap().expect("receiving ends with the stream");
    assert!(noise(1) == recorded(&after), "all of it, from the first sample on");
    std::fs::remove_dir_all(directory).unwrap();
}
