//! A sender that receivers call, on real sockets on loopback.

mod common;

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::measure::Purpose;
use antiphon::session::StreamFraming;
use antiphon::{
    Error, ErrorKind, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary, Stop, receive, send,
};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, NOISE, free_port};

/// A sender that waits for receivers already.
fn serve(options: SendOptions) -> JoinHandle<Result<SendSummary, Error>> {
    let (listening, is_listening) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        send(&options, &Stop::new(), &mut |sentence| drop(listening.send(sentence)), &mut |_| {})
    });
    let first = is_listening.recv().expect("the sender says that it waits");
    assert!(first.contains("to each caller"), "{first}");
    sender
}

fn sending(scheme: &str, port: u16, seconds: &str) -> SendOptions {
    SendOptions {
        source: format!("{NOISE}&seconds={seconds}"),
        target: format!("{scheme}://@127.0.0.1:{port}"),
        ..SendOptions::default()
    }
}

/// A receiver that calls; and a channel that hears of its first sound.
fn call(scheme: &str, port: u16) -> (JoinHandle<Result<ReceiveSummary, Error>>, mpsc::Receiver<()>) {
    call_in(StreamFraming::Rtp, scheme, port)
}

fn call_in(
    framing: StreamFraming,
    scheme: &str,
    port: u16,
) -> (JoinHandle<Result<ReceiveSummary, Error>>, mpsc::Receiver<()>) {
    let options = ReceiveOptions {
        source: format!("{scheme}://127.0.0.1:{port}?role=caller"),
        framing,
        sink: "null:".into(),
        length: Some(Duration::from_secs(20)),
        ..ReceiveOptions::default()
    };
    let (plays, has_played) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        receive(&options, &Stop::new(), &mut |_| {}, &mut |status| {
            if status.played_s > 0.3 {
                let _only_the_first_counts = plays.send(());
            }
        })
    });
    (receiver, has_played)
}

#[test]
fn receivers_come_one_after_the_other_over_every_transport() {
    for scheme in ["rtp", "tcp", "sctp", "dccp", "srp", "arq", "xtp"] {
        unless_held_up(HELD_UP, || {
            let port = free_port();
            let sender = serve(sending(scheme, port, "1.4s"));
            let (first, plays) = call(scheme, port);
            plays.recv().expect("the first one hears sound");
            let (second, plays) = call(scheme, port);
            plays.recv().expect("the second one hears sound");
            let played: Vec<ReceiveSummary> =
                [first, second].map(|one| one.join().unwrap().expect(scheme)).into_iter().collect();
            for one in &played {
                assert_eq!(
                    (one.status.lost, one.status.concealed, &one.shortfall),
                    (0, 0, &None),
                    "{scheme}"
                );
            }
            // What came before the second one is not for it.
            let [first, second] = [0, 1].map(|at| played[at].status.played_s);
            assert!(
                (first - 1.4).abs() < 0.01 && second < 1.2 && second > 0.3,
                "{scheme}: {first} s, {second} s"
            );
            let summary = sender.join().unwrap().expect(scheme);
            assert_eq!(summary.shortfall, None, "{scheme}");
            assert_eq!(summary.receivers_served.len(), 2, "{scheme}");
            for (number, one) in (1..).zip(&summary.receivers_served) {
                assert_eq!(
                    (one.number, one.lost, one.late, one.not_sent),
                    (number, Some(0), Some(0), 0),
                    "{scheme}"
                );
                assert!(
                    one.address.as_ref().is_some_and(|address| address.starts_with("127.0.0.1:")),
                    "{scheme}"
                );
            }
        });
    }
}

#[test]
fn receivers_may_call_in_medusas_framing() {
    unless_held_up(HELD_UP, || {
        let framing = StreamFraming::Medusa;
        for scheme in ["rtp", "tcp", "sctp"] {
            let port = free_port();
            let sender = serve(SendOptions { framing, ..sending(scheme, port, "1s") });
            let (receiver, _) = call_in(framing, scheme, port);
            let status = receiver.join().unwrap().expect(scheme).status;
            assert!((status.played_s - 1.0).abs() < 0.01 && status.lost == 0, "{scheme}: {status:?}");
            assert_eq!(sender.join().unwrap().expect(scheme).receivers_served.len(), 1, "{scheme}");
        }
    });
}

#[test]
fn one_too_many_is_refused_and_told_what_to_do() {
    unless_held_up(HELD_UP, || {
        let port = free_port();
        let sender = serve(SendOptions { most_receivers: 1, ..sending("rtp", port, "2s") });
        let (first, plays) = call("rtp", port);
        plays.recv().expect("the first one hears sound");
        let (second, _) = call("rtp", port);
        let second = second.join().unwrap().expect("it is told");
        assert!(second.shortfall.is_some_and(|told| told.contains("--most-receivers")));
        assert_eq!(first.join().unwrap().expect("it hears all").status.lost, 0);
        assert_eq!(sender.join().unwrap().unwrap().receivers_served.len(), 1);
    });
}

#[test]
fn a_sender_that_is_not_there_is_told_with_the_remedy() {
    let port = free_port();
    let (receiver, _) = call("rtp", port);
    let error = receiver.join().unwrap().expect_err("nobody is there");
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.message.contains("antiphon send"), "{error}");
}

#[test]
fn tv_sound_is_played_when_the_sender_wishes() {
    unless_held_up(HELD_UP, || {
        let port = free_port();
        let sender = serve(SendOptions { purpose: Purpose::TvSound, ..sending("rtp", port, "2.5s") });
        let receivers = [call("rtp", port).0, call("rtp", port).0];
        for receiver in receivers {
            let status = receiver.join().unwrap().expect("it hears all").status;
            let step = status.step.expect("it knows the sender's clock");
            // Half a millisecond more than the 0.2 ms by which receivers may differ: threads of this machine are held up.
            assert!(step.in_step && (step.capture_to_playout_ms - 80.0).abs() < 0.7, "{step:?}");
        }
        for one in sender.join().unwrap().unwrap().receivers_served {
            let delay = one.capture_to_playout_ms.expect("it told");
            assert!((delay - 80.0).abs() < 0.7, "{delay} ms");
        }
    });
}
