//! A sender with several programmes and receivers that choose, on real sockets on loopback.

mod common;

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::{
    Error, ErrorKind, Latency, ProgrammeChoice, ProgrammeSource, ReceiveOptions, ReceiveSummary, SendOptions,
    SendSummary, Stop, list_programmes, receive, send,
};
use antiphon_testkit::unless_held_up;
use common::{HELD_UP, free_port, recorded};

/// A sender of two tones, `News` and `Film`, that waits for receivers already.
fn serve(scheme: &str, port: u16, seconds: f64) -> JoinHandle<Result<SendSummary, Error>> {
    let named = |name: &str, source: &str| ProgrammeSource { name: name.into(), source: source.into() };
    let options = SendOptions {
        programmes: vec![named("News", "tone:440Hz"), named("Film", "tone:880Hz")],
        target: format!("{scheme}://@127.0.0.1:{port}"),
        length: Some(Duration::from_secs_f64(seconds)),
        ..SendOptions::default()
    };
    let (listening, is_listening) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        send(&options, &Stop::new(), &mut |sentence| drop(listening.send(sentence)), &mut |_| {})
    });
    let first = is_listening.recv().expect("the sender says that it waits");
    assert!(first.contains("News (tone:440Hz), Film (tone:880Hz)"), "{first}");
    sender
}

fn options(scheme: &str, port: u16, wish: Option<&str>) -> ReceiveOptions {
    ReceiveOptions {
        source: format!("{scheme}://127.0.0.1:{port}?role=caller"),
        sink: "null:".into(),
        programme: ProgrammeChoice::new(wish.map(String::from)),
        length: Some(Duration::from_secs(20)),
        ..ReceiveOptions::default()
    }
}

/// A receiver; `then`: what it wishes after the first 0.7 s of sound.
fn call(options: ReceiveOptions, then: Option<&'static str>) -> JoinHandle<Result<ReceiveSummary, Error>> {
    std::thread::spawn(move || {
        let mut then = then;
        receive(&options, &Stop::new(), &mut |_| {}, &mut |status| {
            if let Some(wish) = then.take_if(|_| status.played_s > 0.7) {
                options.programme.choose(wish);
            }
        })
    })
}

/// How often a tone crosses zero upwards in each tenth of a second of a recording, as a frequency.
fn frequencies(file: &Path) -> Vec<f64> {
    // The first of two channels.
    let one: Vec<i16> = recorded(file).into_iter().step_by(2).collect();
    let rises = |tenth: &[i16]| tenth.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    one.chunks_exact(4_800).map(|tenth| rises(tenth) as f64 * 10.0).collect()
}

fn is(wanted: f64) -> impl Fn(&f64) -> bool {
    move |heard| (heard - wanted).abs() <= 20.0
}

#[test]
fn a_receiver_changes_over_every_transport_and_another_one_hears_nothing_of_it() {
    for scheme in ["rtp", "tcp", "sctp", "dccp", "srp", "arq", "xtp"] {
        unless_held_up(HELD_UP, || {
            let directory = tempfile::tempdir().expect("a directory");
            let port = free_port();
            let sender = serve(scheme, port, 2.5);
            let other = call(options(scheme, port, None), None);
            let file = directory.path().join(format!("{scheme}.wav"));
            let recording = ReceiveOptions {
                sink: format!("file:{}", file.display()),
                latency: Some(Latency::Of(Duration::from_millis(80))),
                ..options(scheme, port, Some("Film"))
            };
            let changing = call(recording, Some("news"));
            let changed = changing.join().unwrap().expect(scheme);
            let heard = frequencies(&file);
            assert!(heard[..6].iter().all(is(880.0)), "{scheme}: {heard:?}");
            // It wishes after 0.7 s; a second later at most the other one is heard, to the end.
            assert!(heard[17..].iter().all(is(440.0)) && heard.len() >= 20, "{scheme}: {heard:?}");
            let told = changed.status.programmes.expect("the sender tells its programmes");
            assert_eq!((told.names().as_str(), told.current), ("News, Film", Some(1)), "{scheme}");
            let status = other.join().unwrap().expect(scheme).status;
            assert_eq!((status.lost, status.late, status.concealed), (0, 0, 0), "{scheme}");
            let sent = sender.join().unwrap().expect(scheme).status;
            let names: Vec<_> = sent.programmes.iter().map(|one| (one.name.as_str(), one.ended)).collect();
            assert_eq!(names, [("News", true), ("Film", true)], "{scheme}");
        });
    }
}

#[test]
fn programmes_are_listed_and_unknown_ones_refused_with_the_list() {
    for scheme in ["rtp", "tcp"] {
        let port = free_port();
        let sender = serve(scheme, port, 3.0);
        let list = list_programmes(&options(scheme, port, None), &Stop::new()).expect(scheme);
        let listed: Vec<_> =
            list.programmes.iter().map(|one| (one.name.as_str(), one.channels, one.rate_hz)).collect();
        assert_eq!(listed, [("News", 2, 48_000), ("Film", 2, 48_000)], "{scheme}");
        let refused = call(options(scheme, port, Some("Sport")), None).join().unwrap().expect_err(scheme);
        assert_eq!(refused.kind, ErrorKind::Unreachable, "{scheme}");
        assert!(refused.message.contains("'Sport'") && refused.message.contains("News, Film"), "{refused}");
        sender.join().unwrap().expect(scheme);
    }
}

#[test]
fn programmes_where_there_can_be_none_are_refused() {
    let wrong = [
        SendOptions { target: "rtp://127.0.0.1:9".into(), ..SendOptions::default() },
        SendOptions { target: "rtp://:9".into(), sdp: Some("x.sdp".into()), ..SendOptions::default() },
    ];
    for wrong in wrong {
        let programmes = vec![ProgrammeSource { name: "News".into(), source: "tone:440Hz".into() }];
        let options = SendOptions { programmes, ..wrong };
        let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
    }
    let twice =
        ["News", "news"].map(|name| ProgrammeSource { name: name.into(), source: "tone:440Hz".into() });
    let options =
        SendOptions { programmes: twice.to_vec(), target: "rtp://:9".into(), ..SendOptions::default() };
    let error = send(&options, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("refused");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("programme 2"), "{error}");
    let listening = ReceiveOptions {
        source: "rtp://:9".into(),
        sink: "null:".into(),
        programme: ProgrammeChoice::new(Some("News".into())),
        ..ReceiveOptions::default()
    };
    let error = receive(&listening, &Stop::new(), &mut |_| {}, &mut |_| {}).expect_err("refused");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("--programme"), "{error}");
}
