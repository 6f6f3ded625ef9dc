//! `compare` on a small scale: real sockets over the embedded link, checked against the link's own counters.

mod heard;
mod pictures;

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::measure::Purpose;
use antiphon::media::{Pull, SampleFormat};
use antiphon::sound::open_source;
use antiphon::{
    CompareOptions, ErrorKind, LinkMethod, ReflectOptions, ReflectStatus, Stop, compare, reflect,
};
use antiphon_testkit::{free_ports, unless_held_up};

/// A machine that holds up a thread for so long changes what is measured.
const HELD_UP: Duration = Duration::from_millis(20);

fn options(name: &str, link: &str) -> CompareOptions {
    CompareOptions {
        link: (link.into(), link.parse().expect("a link")),
        length: Some(Duration::from_millis(1500)),
        out: Some(std::env::temp_dir().join(format!("antiphon-compare-{}-{name}", std::process::id()))),
        command: "antiphon compare".into(),
        ..CompareOptions::default()
    }
}

/// Where a transport's rate falls with losses, sound would queue for seconds: sound older than the playout delay is
/// given up.
#[test]
fn live_sound_does_not_grow_old_in_a_queue() {
    unless_held_up(HELD_UP, || {
        let link = "loss=5%,delay=20ms";
        let options = CompareOptions {
            link: (link.into(), link.parse().expect("a link")),
            length: Some(Duration::from_secs(5)),
            transports: ["sctp", "dccp"].map(String::from).to_vec(),
            out: None,
            ..options("stale", link)
        };
        let result = compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
        assert_eq!((&result.failures[..], result.figures.len()), (&[][..], 2));
        for figures in &result.figures {
            let longest = figures.rtt_ms.max_ms.expect("something came back");
            // 40 ms of path, 80 ms in the near end's queue, and the time that the far end's takes on the way back: it
            // returns everything younger than a second.
            assert!(longest < 1_200.0, "{}: {longest} ms", figures.transport);
        }
    });
}

/// Loss is counted twice: by the frames that never came back, and by the link that dropped them.
#[test]
fn counted_loss_agrees_with_the_link_to_the_frame() {
    // Without expiry: a busy machine may hold up a repair for longer than the playout delay.
    let options = CompareOptions { expire: false, ..options("loss", "loss=5%") };
    let result = compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
    assert!(result.failures.is_empty(), "{:?}", result.failures);
    assert_eq!(result.figures.len(), antiphon::proto::TRANSPORTS.len());
    let rtp = &result.figures[0];
    let link = result.crossed.iter().find(|c| c.transport == "rtp").expect("the link counted");
    // 1.5 s in blocks of 256 at 48 kHz: 281.25 blocks.
    assert_eq!((rtp.transport.as_str(), rtp.packets_sent), ("rtp", 282));
    // Three goodbyes follow the sound, and come back if they are not lost.
    let goodbyes = link.down.delivered - rtp.packets_received;
    assert!(goodbyes <= 3, "{link:?}");
    assert_eq!(rtp.lost + 3 - goodbyes, link.up.lost + link.down.lost, "what is lost, the link lost");
    assert_eq!(link.up.offered, rtp.packets_sent + 3);
    assert_eq!(link.down.offered, link.up.delivered);
    // 5 % both ways of 282: fewer than 8 or more than 55 would be over four standard deviations off.
    assert!((8..56).contains(&rtp.lost), "the weather happened: {}", rtp.lost);
    let tcp = result.figures.iter().find(|f| f.transport == "tcp").expect("measured");
    assert_eq!((tcp.expired, tcp.refused), (0, 0));
    let out = options.out.expect("asked for");
    for file in [
        "report.html",
        "report.json",
        "packets.csv",
        "overview.svg",
        "original.flac",
        "heard-rtp.flac",
        "heard-tcp.flac",
    ] {
        assert!(out.join(file).metadata().is_ok_and(|m| m.len() > 1000), "{file}");
    }
    let length = |file: &str| {
        let opened =
            antiphon::sound::open_source(&out.join(file).display().to_string()).expect("a sound file");
        opened.source.length()
    };
    assert_eq!(length("original.flac"), Some(72_000));
    // What is heard begins with the first packet that came back; after that every lost one is concealed, and nothing else.
    let csv = std::fs::read_to_string(out.join("packets.csv")).expect("written");
    let sent = csv.lines().filter(|line| line.starts_with("rtp,"));
    let unheard = sent.take_while(|line| line.ends_with(",lost")).count() as u64;
    assert_eq!(rtp.concealed + unheard, rtp.lost);
    assert_eq!(length("heard-rtp.flac"), Some(72_000 - 256 * unheard));
    // A listener to TCP hears pauses while it waits for repairs, and the sound after them.
    assert!(length("heard-tcp.flac") >= Some(72_000));
    assert_eq!(csv.lines().filter(|line| line.starts_with("rtp,")).count(), 282);
    assert_eq!(
        csv.lines().filter(|line| line.starts_with("rtp,") && line.ends_with(",lost")).count() as u64,
        rtp.lost
    );
    // The far end returns nothing older than a second, but everything reached it.
    let reached = |line: &&str| line.starts_with("tcp,") && !line.split(',').nth(5).unwrap_or("").is_empty();
    assert_eq!(csv.lines().filter(reached).count(), 282, "TCP sends again what is lost");
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn the_page_answers_first_and_tells_of_its_making_last() {
    unless_held_up(HELD_UP, || {
        let options = options("page", "loss=3%,delay=5ms");
        let result = compare(&options, &Stop::new(), &mut |_| {}).expect("an embedded link of some kind");
        let out = options.out.expect("asked for");
        let page = std::fs::read_to_string(out.join("report.html")).expect("written");
        let picture = std::fs::read_to_string(out.join("overview.svg")).expect("written");
        std::fs::remove_dir_all(out).expect("ours");
        assert_eq!(page.matches("<article class=\"card\">").count(), 5);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        let order =
            ["class=\"cards\"", "data-figure=\"listen\"", "data-figure=\"chart\"", ">This run</h2>"].map(at);
        assert!(order.is_sorted(), "{order:?}");
        let run = &page[order[3]..];
        for term in ["Date", "Made by", "Machine", "Sound", "Seed"] {
            assert!(run.contains(&format!("<dt>{term}</dt>")), "{term}");
        }
        assert!(result.advice.iter().any(|advice| advice.met), "{:?}", result.advice);
        for (i, purpose) in Purpose::ALL.into_iter().enumerate() {
            let card = page.split("<article class=\"card\">").nth(i + 1).expect("five");
            let (seen, folded) = card.split_once("<details").expect("figures are folded");
            let sentence = seen.split_once("<p class=\"sentence\">").expect("a sentence").1;
            let sentence = sentence.split_once("</p>").expect("closed").0;
            assert!(sentence.len() > 30 && sentence.ends_with('.'), "{purpose:?}: {sentence}");
            assert!(!seen.contains("MOS") && folded.contains("Figures"), "{purpose:?}");
            let advice = &result.advice[i];
            if advice.met {
                let plain = antiphon::proto::find(advice.transport.split('?').next().unwrap()).unwrap().plain;
                assert!(seen.contains(plain) && folded.contains("On the sending computer"), "{purpose:?}");
            }
        }
        assert!(!page.contains("paper 000") && !picture.contains('\u{2026}'));
        for text in ["Play together", "TV sound on headphones", "Record without loss", "Talk", "Send to many"]
        {
            assert!(picture.contains(text), "{text}");
        }
    });
}

/// The numbers of the packets of `transport` that did not reach the far end within 10 ms: lost, or sent again.
fn struck(csv: &str, transport: &str) -> BTreeSet<u64> {
    let fields = |line: &str| line.split(',').map(String::from).collect::<Vec<_>>();
    let lines = csv.lines().map(fields).filter(|fields| fields[0] == transport);
    let struck = lines.filter(|fields| !fields[5].parse::<f64>().is_ok_and(|one_way| one_way <= 10.0));
    struck.map(|fields| fields[1].parse().expect("a number")).collect()
}

#[test]
fn all_transports_meet_the_same_fades() {
    unless_held_up(HELD_UP, || {
        // One that repairs nothing, and one with acknowledgements and repetitions. Independent losses of 20 % each would have
        // a ninth of what either loses in common; a machine that stands still for some milliseconds shifts an edge.
        let options = CompareOptions {
            transports: vec!["rtp".into(), "arq".into()],
            length: Some(Duration::from_secs(4)),
            ..options("weather", "up.loss=20%/60ms")
        };
        compare(&options, &Stop::new(), &mut |_| {}).expect("a link");
        let out = options.out.expect("asked for");
        let csv = std::fs::read_to_string(out.join("packets.csv")).expect("written");
        std::fs::remove_dir_all(out).expect("ours");
        let (plain, repaired) = (struck(&csv, "rtp"), struck(&csv, "arq"));
        let (both, either) = (plain.intersection(&repaired).count(), plain.union(&repaired).count());
        assert!(either > 30, "the weather happened: {either}");
        assert!(both * 2 > either, "{both} of {either} struck in both");
    });
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
        // 5 ms each way is the minimum; a busy machine may add any amount.
        assert!(
            figures.rtt_ms.min_ms.is_some_and(|min| min >= 10.0),
            "{}: {:?}",
            figures.transport,
            figures.rtt_ms
        );
    }
}

#[test]
fn advice_trusts_sctp_of_full_reliability_with_recordings() {
    unless_held_up(HELD_UP, || {
        let full = "sctp?reliability=full";
        let options = CompareOptions {
            transports: vec!["rtp".into(), full.into(), "sctp?retransmissions=1".into()],
            link_method: Some(LinkMethod::Proxy),
            out: None,
            ..options("reliable", "delay=5ms,loss=5%")
        };
        let result = compare(&options, &Stop::new(), &mut |_| {}).expect("loopback");
        let record = result.advice.iter().find(|advice| advice.purpose == Purpose::Record).expect("judged");
        assert_eq!(record.transport, full, "{record:?}");
        let (own, runner) = record.because.split_once(';').expect("others were measured");
        assert!(own.contains("lost packets are sent again"), "{record:?}");
        assert!(!runner.contains("lost packets are sent again"), "{record:?}");
    });
}

#[test]
fn an_absent_peer_is_reported_within_two_seconds() {
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
        assert!(figures.packets_received > 20 && figures.packets_sent < 2000, "{}", figures.transport);
    }
    let out = options.out.expect("asked for");
    let json = std::fs::read_to_string(out.join("report.json")).expect("written");
    assert!(json.contains("\"interrupted\": true"));
    std::fs::remove_dir_all(out).expect("ours");
}

/// A reflector that listens already, and its port.
fn reflector(schemes: &[&str]) -> (u16, Stop, JoinHandle<Result<ReflectStatus, antiphon::Error>>) {
    let port = free_ports(REFLECTED);
    let transports = schemes.iter().map(|scheme| scheme.to_string()).collect();
    let listen = ([127, 0, 0, 1], port).into();
    let options = ReflectOptions { listen, transports, ..ReflectOptions::default() };
    let (stop, (listening, is_listening)) = (Stop::new(), mpsc::channel());
    let asked = stop.clone();
    let thread = std::thread::spawn(move || {
        reflect(&options, &asked, &mut |_| {
            let _heard_once = listening.send(());
        })
    });
    is_listening.recv().expect("told when all are open");
    (port, stop, thread)
}

/// Ports in a row that a reflector has for its transports.
const REFLECTED: u16 = 30;

/// Modes of one transport beside each other, over the embedded link and with a reflector that does not know of them.
#[test]
fn modes_of_one_transport_are_compared_under_their_names() {
    let names = ["srp?mode=as-published", "srp", "arq?mode=as-published&give-up=40ms", "arq?congestion=aimd"];
    let transports: Vec<String> = names.map(String::from).to_vec();
    let embedded = CompareOptions {
        link_method: Some(LinkMethod::Proxy),
        transports: transports.clone(),
        ..options("modes", "loss=5%,delay=5ms")
    };
    let result = compare(&embedded, &Stop::new(), &mut |_| {}).expect("loopback");
    let measured: Vec<&str> = result.figures.iter().map(|f| f.transport.as_str()).collect();
    assert_eq!((measured, &result.failures[..]), (names.to_vec(), &[][..]));
    let counted: Vec<&str> = result.crossed.iter().map(|c| c.transport.as_str()).collect();
    assert_eq!(counted, names);
    // Separate acknowledgements of each packet give the published ARQ more datagrams. The modes of SRP have probes
    // and reports of different length: the same number of datagrams has another number of bytes.
    let crossed = |at: usize| (result.crossed[at].up.offered, result.crossed[at].up.offered_bytes);
    assert!(crossed(2).0 > crossed(3).0 && crossed(0) != crossed(1), "{:?}", result.crossed);
    let out = embedded.out.expect("asked for");
    assert!(out.join("heard-srp-mode-as-published.flac").exists() && out.join("heard-srp.flac").exists());
    let page = std::fs::read_to_string(out.join("report.html")).expect("written");
    assert!(page.contains("srp?mode=as-published") && page.contains("SRP (mode=as-published)"));
    std::fs::remove_dir_all(out).expect("ours");

    let (port, reflecting, reflector) = reflector(&["srp", "arq"]);
    let elsewhere = CompareOptions {
        peer: Some(format!("127.0.0.1:{port}")),
        transports,
        length: Some(Duration::from_millis(500)),
        out: None,
        ..CompareOptions::default()
    };
    let result = compare(&elsewhere, &Stop::new(), &mut |_| {});
    reflecting.ask();
    let reflected = reflector.join().expect("it ends").expect("loopback");
    assert_eq!(reflected.transports.len(), 2);
    let result = result.expect("the reflector answers in every mode");
    assert_eq!(result.failures, []);
    for figures in &result.figures {
        assert_eq!(figures.packets_received, figures.packets_sent, "{}", figures.transport);
    }
}

#[test]
fn a_reflector_that_can_not_start_leaves_nothing_open() {
    let offset = |scheme: &str| antiphon::proto::find(scheme).expect("a transport").reflect_offset;
    let bind = |port: u16| UdpSocket::bind(("127.0.0.1", port));
    let port = free_ports(REFLECTED);
    let taken = bind(port + offset("arq")).expect("the port is free");
    // The registry has SRP before ARQ: when the second finds its port taken, the first listens already.
    let listen = ([127, 0, 0, 1], port).into();
    let transports = ["srp", "arq"].map(String::from).to_vec();
    let options = ReflectOptions { listen, transports, ..ReflectOptions::default() };
    reflect(&options, &Stop::new(), &mut |_| {}).expect_err("a port is taken");
    bind(port + offset("srp")).expect("the port is free again");
    drop(taken);
}

/// The same association inside UDP and directly over IP: the same losses, and 8 bytes less in each packet.
#[test]
fn sctp_and_dccp_are_compared_directly_over_ip() {
    let transports = ["sctp", "sctp?over=ip", "dccp", "dccp?over=ip"].map(String::from).to_vec();
    let over_ip = CompareOptions { transports, out: None, ..options("over-ip", "delay=2ms") };
    let by_proxy = CompareOptions { link_method: Some(LinkMethod::Proxy), ..over_ip.clone() };
    let refused = compare(&by_proxy, &Stop::new(), &mut |_| {}).expect_err("a proxy carries UDP").to_string();
    assert!(refused.contains("omit over=ip"), "{refused}");
    // A busy machine retransmits some packets, each of which is more than all the headers saved.
    for attempt in 1..=3 {
        let result = match compare(&over_ip, &Stop::new(), &mut |_| {}) {
            Ok(result) => result,
            // On a machine that permits no namespaces.
            Err(error) => return assert!(error.to_string().contains("no router"), "{error}"),
        };
        assert_eq!(result.failures, []);
        let saved: Vec<i64> = result
            .figures
            .chunks(2)
            .map(|pair| {
                let [inside, bare] = pair else { panic!("two of each: {pair:?}") };
                assert_eq!((inside.packets_sent, bare.packets_sent), (282, 282), "{}", bare.transport);
                inside.wire_bytes as i64 - bare.wire_bytes as i64
            })
            .collect();
        let all_came = result.figures.iter().all(|figures| figures.packets_received == 282);
        // 282 packets of sound, and up to two acknowledgements for each; a few more or fewer in either run.
        if all_came && saved.iter().all(|saved| (1_500..8_000).contains(saved)) {
            return;
        }
        assert!(attempt < 3, "{saved:?} bytes saved, {:?}", result.figures);
    }
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let refuse = |options: CompareOptions| compare(&options, &Stop::new(), &mut |_| {}).unwrap_err();
    let unknown = CompareOptions { transports: vec!["rpt".into()], ..CompareOptions::default() };
    assert!(refuse(unknown).to_string().contains("did you mean 'rtp'"));
    for (name, remedy) in [
        ("srp?mode=published", "did you mean 'as-published'"),
        ("rtp?mode=improved", "unknown key 'mode'"),
        ("arq?latency=1s", "unknown key 'latency'"),
        ("tcp?dscp=64", "0 to 63"),
        ("srp?over=ip", "no IP protocol number"),
        ("sctp?over=ip&sctp-port=9", "omit this key"),
    ] {
        let wrong = CompareOptions { transports: vec![name.into()], ..CompareOptions::default() };
        let error = refuse(wrong);
        assert!(error.kind == ErrorKind::Usage && error.to_string().contains(remedy), "{name}: {error}");
    }
    let endless = CompareOptions { source: "tone:440Hz".into(), ..CompareOptions::default() };
    assert!(refuse(endless).to_string().contains("--seconds"));
    let unwritable = CompareOptions { out: Some("/proc/antiphon".into()), ..CompareOptions::default() };
    assert!(refuse(unwritable).to_string().contains("--out"));
    let nothing = CompareOptions { block_frames: 0, ..CompareOptions::default() };
    assert!(refuse(nothing).to_string().contains("4096"));
    let channels = CompareOptions { channels: Some(65), ..CompareOptions::default() };
    assert!(refuse(channels).to_string().contains("1 to 64"));
}
