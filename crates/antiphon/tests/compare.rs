//! The main job, in small: real sockets over the embedded link, held against the link's own counters.

use std::time::Duration;

use antiphon::{CompareOptions, ErrorKind, LinkMethod, Stop, compare};

fn options(name: &str, link: &str) -> CompareOptions {
    CompareOptions {
        link: (link.into(), link.parse().expect("a link")),
        length: Some(Duration::from_millis(1500)),
        out: Some(std::env::temp_dir().join(format!("antiphon-compare-{}-{name}", std::process::id()))),
        command: "antiphon compare".into(),
        ..CompareOptions::default()
    }
}

/// Loss is counted twice: by the frames that never came back, and by the link that dropped them.
#[test]
fn counted_loss_agrees_with_the_link_to_the_frame() {
    let options = options("loss", "loss=5%");
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
    assert!(result.failures.is_empty(), "{:?}", result.failures);
    assert_eq!(result.figures.len(), antiphon::proto::TRANSPORTS.len());
    let rtp = &result.figures[0];
    let link = result.crossed.iter().find(|c| c.transport == "rtp").expect("the link counted");
    // 1.5 s in blocks of 256 at 48 kHz: 281.25 blocks.
    assert_eq!((rtp.transport.as_str(), rtp.frames_sent), ("rtp", 282));
    assert_eq!(rtp.lost, link.up.lost + link.down.lost, "lost frames are what the link lost");
    assert_eq!(link.up.offered, rtp.frames_sent);
    assert_eq!(link.down.offered, link.up.delivered);
    // 5 % both ways of 282: fewer than 8 or more than 55 would be over four standard deviations off.
    assert!((8..56).contains(&rtp.lost), "the weather happened: {}", rtp.lost);
    assert_eq!(rtp.concealed, rtp.lost, "every lost frame is concealed, and nothing else");
    let tcp = result.figures.iter().find(|f| f.transport == "tcp").expect("measured");
    assert_eq!((tcp.lost, tcp.expired, tcp.refused), (0, 0, 0), "TCP sends again what is lost");
    let out = options.out.expect("asked for");
    for file in [
        "report.html",
        "report.json",
        "frames.csv",
        "overview.svg",
        "original.wav",
        "heard-rtp.wav",
        "heard-tcp.wav",
    ] {
        assert!(out.join(file).metadata().is_ok_and(|m| m.len() > 1000), "{file}");
    }
    let length = |file: &str| {
        let opened = antiphon::sound::open_source(&out.join(file).display().to_string()).expect("a WAV file");
        opened.source.length()
    };
    assert_eq!(length("original.wav"), Some(72_000));
    assert_eq!((length("heard-rtp.wav"), length("heard-tcp.wav")), (Some(72_000), Some(72_000)));
    let csv = std::fs::read_to_string(out.join("frames.csv")).expect("written");
    assert_eq!(csv.lines().filter(|line| line.starts_with("rtp,")).count(), 282);
    assert_eq!(
        csv.lines().filter(|line| line.starts_with("rtp,") && line.ends_with(",lost")).count() as u64,
        rtp.lost
    );
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn the_same_seed_loses_the_same_frames() {
    let lost = |name: &str| {
        let options = CompareOptions { transports: vec!["rtp".into()], ..options(name, "loss=5%") };
        compare(&options, &Stop::new(), &mut |_| {}).expect("a link");
        let out = options.out.expect("asked for");
        let csv = std::fs::read_to_string(out.join("frames.csv")).expect("written");
        std::fs::remove_dir_all(out).expect("ours");
        csv.lines()
            .filter(|line| line.ends_with(",lost"))
            .map(|l| l.split(',').nth(1).unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let first = lost("seed-a");
    assert!(!first.is_empty());
    assert_eq!(first, lost("seed-b"));
}

#[test]
fn proxies_stand_in_and_say_what_they_cannot_model() {
    let options = CompareOptions {
        link_method: Some(LinkMethod::Proxy),
        out: None,
        ..options("proxy", "delay=5ms,loss=5%")
    };
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("loopback");
    assert!(result.link.limits.iter().any(|limit| limit.starts_with("tcp:")), "{:?}", result.link);
    for figures in &result.figures {
        // 5 ms each way is the least there is; a busy machine may add any amount.
        assert!(
            figures.rtt_ms.min_ms.is_some_and(|min| min >= 10.0),
            "{}: {:?}",
            figures.transport,
            figures.rtt_ms
        );
    }
}

#[test]
fn nobody_at_the_other_end_is_told_within_two_seconds() {
    let options = CompareOptions { peer: Some("127.0.0.1:9".into()), out: None, ..CompareOptions::default() };
    let error = compare(&options, &Stop::new(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

#[test]
fn stopped_in_the_middle_it_reports_what_it_has() {
    let stop = Stop::new();
    let asked = stop.clone();
    let options = CompareOptions { length: None, ..options("stop", "delay=2ms") };
    let result = compare(&options, &stop, &mut |progress| {
        if progress.transports.iter().all(|t| t.received > 20) {
            asked.ask();
        }
    })
    .expect("what was measured so far");
    assert!(result.interrupted);
    for figures in &result.figures {
        assert!(figures.frames_received > 20 && figures.frames_sent < 2000, "{}", figures.transport);
    }
    let out = options.out.expect("asked for");
    let json = std::fs::read_to_string(out.join("report.json")).expect("written");
    assert!(json.contains("\"interrupted\": true"));
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let refuse = |options: CompareOptions| compare(&options, &Stop::new(), &mut |_| {}).unwrap_err();
    let unknown = CompareOptions { transports: vec!["rpt".into()], ..CompareOptions::default() };
    assert!(refuse(unknown).to_string().contains("did you mean 'rtp'"));
    let endless = CompareOptions { source: "tone:440Hz".into(), ..CompareOptions::default() };
    assert!(refuse(endless).to_string().contains("--seconds"));
    let unwritable = CompareOptions { out: Some("/proc/antiphon".into()), ..CompareOptions::default() };
    assert!(refuse(unwritable).to_string().contains("--out"));
    let channels = CompareOptions { channels: Some(65), ..CompareOptions::default() };
    assert!(refuse(channels).to_string().contains("1 to 64"));
}
