//! Changes that a program asks for while its stream runs in the background.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::{Error, ErrorKind, ReceiveOptions, SendOptions, SoundStatus, SoundTask, TransportChanges};

use super::{NOISE, free_port, noise, recorded, scratch, uris};

/// A receiver that listens on several addresses, and a sender on the first, both in the background.
struct Streaming {
    sending: SoundTask,
    receiving: SoundTask,
    directory: PathBuf,
    seconds: usize,
}

impl Streaming {
    fn start(name: &str, seconds: usize, listening: &[String], target: &str) -> Self {
        let directory = scratch(name);
        let receiving = SoundTask::receive(ReceiveOptions {
            source: listening[0].clone(),
            also: listening[1..].to_vec(),
            sink: directory.join("got.wav").display().to_string(),
            length: Some(Duration::from_secs(40)),
            ..ReceiveOptions::default()
        });
        let sending = SoundTask::send(SendOptions {
            source: NOISE.into(),
            target: target.into(),
            length: Some(Duration::from_secs(seconds as u64)),
            ..SendOptions::default()
        });
        let (receiving, sending) = (receiving.expect("it listens"), sending.expect("it begins"));
        Streaming { sending, receiving, directory, seconds }
    }

    /// Waits, while the stream runs, for something that is seen in the changes and the sound sent in seconds.
    fn until(&self, what: &str, is_so: impl Fn(&TransportChanges, f64) -> bool) {
        loop {
            let changes = self.changes();
            let SoundStatus::Sending(status) = self.sending.status() else { panic!("it sends") };
            if is_so(&changes, status.sent_s) {
                return;
            }
            let ended = self.sending.wait(Some(Duration::from_millis(20)));
            assert!(ended.is_none(), "the stream ended before {what}: {ended:?} {changes:?}");
        }
    }

    fn changes(&self) -> TransportChanges {
        self.sending.changes().expect("a transport was named")
    }

    /// Waits for the end: how sending ended, and packets that came twice. The recording is what was sent.
    fn finish(&self) -> (Result<(), Error>, u64) {
        let patience = Some(Duration::from_secs(30));
        let sent = self.sending.wait(patience).expect("it ends");
        self.receiving.wait(patience).expect("it ends with the stream").expect("in order");
        let SoundStatus::Receiving(status) = self.receiving.status() else { panic!("it receives") };
        assert!(noise(self.seconds) == recorded(&self.directory.join("got.wav")), "{status:?}");
        std::fs::remove_dir_all(&self.directory).unwrap();
        (sent, status.duplicate)
    }
}

fn usage(answer: Result<(), Error>, remedy: &str) {
    let error = answer.expect_err(remedy);
    assert!(error.kind == ErrorKind::Usage && error.message.contains(remedy), "{remedy}: {error:?}");
}

#[test]
fn a_background_stream_goes_from_rtp_over_tcp_to_srp_and_is_complete() {
    let (listening, calls) = uris(&["rtp", "tcp", "srp"]);
    let stream = Streaming::start("asked", 4, &listening, &calls[0]);
    assert_eq!(stream.changes(), TransportChanges { carrying: calls[0].clone(), ..Default::default() });
    for (number, call) in (1..).zip(&calls[1..]) {
        stream.until("its sound was sent", |_, sent| sent >= number as f64);
        stream.sending.switch_to(call).expect("a transport of a running stream");
        stream.until(call, |changes, _| changes.happened == number && changes.carrying == *call);
    }
    stream.finish().0.expect("everything happened");
    assert_eq!(stream.changes().failures, Vec::<String>::new());
    let late = stream.sending.switch_to(&calls[0]).expect_err("it has ended");
    assert!(late.kind == ErrorKind::Failed && late.message.contains("the stream has ended"), "{late}");
}

#[test]
fn changes_asked_for_together_happen_in_turn() {
    let (listening, calls) = uris(&["rtp", "srp", "tcp"]);
    let stream = Streaming::start("in-turn", 4, &listening, &calls[0]);
    stream.sending.switch_to(&calls[1]).expect("a transport");
    stream.sending.switch_to(&calls[2]).expect("a transport");
    stream.until("both changes", |changes, _| changes.happened == 2);
    assert_eq!(stream.changes().carrying, calls[2]);
    stream.finish().0.expect("everything happened");
}

#[test]
fn a_background_stream_is_sent_over_one_more_transport() {
    let (listening, calls) = uris(&["rtp", "srp"]);
    let stream = Streaming::start("asked-also", 3, &listening, &calls[0]);
    stream.sending.also(&calls[1]).expect("a transport");
    stream.until("the receiver accepts it", |changes, _| changes.happened == 1);
    assert_eq!(stream.changes().carrying, calls[0]);
    let (sent, duplicate) = stream.finish();
    sent.expect("everything happened");
    // 562 packets of 256 sample frames; those before the receiver knew the second one come once.
    assert!(duplicate > 250, "{duplicate} packets came twice");
}

#[test]
fn failed_changes_are_told_at_the_end_and_leave_the_stream_as_it_is() {
    let (listening, calls) = uris(&["rtp"]);
    let stream = Streaming::start("asked-bad", 3, &listening, &calls[0]);
    let closed = format!("tcp://127.0.0.1:{}", free_port());
    let deaf = ["rtp", "srp"].map(|scheme| format!("{scheme}://127.0.0.1:{}", free_port()));
    stream.sending.switch_to(&closed).expect("a URI that can be");
    stream.until("the failure", |changes, _| changes.failures.len() == 1);
    deaf.iter().for_each(|uri| stream.sending.also(uri).expect("room for two"));
    usage(stream.sending.also(&closed), "at most 2");
    let error = stream.finish().0.expect_err("none of them happened");
    assert_eq!((error.kind, stream.changes().happened), (ErrorKind::Failed, 0));
    let failures = stream.changes().failures;
    assert_eq!((failures.len(), failures.join("\n")), (3, error.message));
    assert!(failures[0].starts_with(&closed) && failures[0].contains("Connection refused"), "{failures:?}");
    for uri in &deaf {
        let sentence = format!("{uri}: the stream ended before the receiver accepted it");
        assert!(failures.contains(&sentence), "{failures:?}");
    }
}

#[test]
fn changes_that_cannot_be_are_refused_at_once() {
    let (listening, calls) = uris(&["rtp"]);
    let stream = Streaming::start("asked-wrong", 1, &listening, &calls[0]);
    for (uri, remedy) in [
        ("pigeon://127.0.0.1:7711", "pigeon"),
        ("", "://"),
        ("auto://127.0.0.1:7711", "name a transport"),
        ("rtp://127.0.0.1:7711?rate=44.1kHz", "the first URI"),
        ("tcp://@127.0.0.1:7711", "HOST:PORT"),
    ] {
        usage(stream.sending.switch_to(uri), remedy);
        usage(stream.sending.also(uri), remedy);
    }
    usage(stream.receiving.switch_to(&calls[0]), "its sender");
    assert!(stream.receiving.changes().is_none());
    stream.finish().0.expect("nothing was asked for");

    let target = format!("auto://127.0.0.1:{}", free_port());
    let chooses = SoundTask::send(SendOptions { target, ..SendOptions::default() }).expect("it measures");
    usage(chooses.also(&calls[0]), "name a transport");
    assert!(chooses.changes().is_none());
    let target = format!("tcp://@127.0.0.1:{}", free_port());
    let waits = SendOptions { target, source: "tone:440Hz".into(), ..SendOptions::default() };
    let waits = SoundTask::send(waits).expect("it waits");
    usage(waits.switch_to(&calls[0]), "name the receiver");
}
